"""A receipt in sentences that need no knowledge of the balancer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pylb.console import count, seconds, size

if TYPE_CHECKING:
    from pylb.decide.receipts import Alternative, Receipt


def explain(r: Receipt) -> str:
    """What was decided, on what grounds, at what price, and what it has brought."""
    parts = [_decision(r), _inputs(r), _fits(r), _expected(r)]
    if r.balanced:
        parts += [_choice(r), _speeds(r), _price(r), _outcome(r), _idle(r)]
    return " ".join(p for p in parts if p)


def _decision(r: Receipt) -> str:
    after = f"After iteration {r.iteration}"
    if r.balanced:
        done = "were placed anew" if r.moved else "would have been placed anew"
        return f"{after} the objects {done}: {r.reason}."
    if r.times > 1:
        after += f", and {count(r.times - 1, 'time')} more up to iteration {r.until}"
    said = "the balancer did not act on its trigger" if r.choice == "off" else "nothing was moved"
    return f"{after}, {said}: {r.reason}."


def _inputs(r: Receipt) -> str:
    if math.isnan(r.max):
        return ""
    return (
        f"The most loaded rank worked for {seconds(r.max)} in that iteration and the mean one for "
        f"{seconds(r.mean)} (max/mean {r.max_over_mean:.3g})."
    )


def _fits(r: Receipt) -> str:
    f = r.figures
    said = []
    if _known(f, "max_slope") and _known(f, "mean_slope"):
        said.append(
            f"the maximum {_growth(f['max_slope'])} an iteration, the mean "
            f"{_growth(f['mean_slope'])}"
        )
    if _known(f, "tau"):
        said.append(f"the ideal period was {count(round(f['tau']), 'iteration')}")
    if _known(f, "residual") and f["residual"] > 1.0:
        said.append(f"earlier balancings could not get below max/mean {f['residual']:.3g}")
    if _known(f, "excess"):
        said.append(f"the imbalance had cost {seconds(f['excess'])} since the last balancing")
    if _known(f, "level"):
        said.append(f"{seconds(f['level'])} of it an iteration could be expected to stay")
    if _known(f, "rate"):
        said.append(
            f"an iteration of the best cycle that there was evidence of costs {seconds(f['rate'])}"
        )
    return f"By trigger {r.trigger}, {'; '.join(said)}." if said else ""


def _growth(slope: float) -> str:
    return f"{'grew' if slope >= 0 else 'fell'} by {seconds(abs(slope))}"


def _known(figures: dict[str, float], name: str) -> bool:
    return math.isfinite(figures.get(name, math.nan))


def _expected(r: Receipt) -> str:
    others = [a for a in r.alternatives if a.strategy and a.strategy != r.strategy]
    # Of many that nobody has tried yet there is nothing to tell apart.
    tried = [a for a in others if len(others) == 1 or not math.isnan(a.cost)]
    taken = [a for a in r.alternatives if a.strategy and a.strategy == r.strategy]
    said = [_alternative(a) for a in taken + tried]
    untried = len(others) - len(tried)
    if untried:
        gain = max(a.gain for a in others if a not in tried)
        most = f"up to {seconds(gain)} an iteration" if gain > 0 else "nothing"
        said.append(
            f"{count(untried, 'strategy', 'strategies')} not tried yet was expected to save {most}"
        )
    if not said:
        return ""
    left = "" if math.isinf(r.left) else f"; {count(r.left, 'iteration')} were left"
    return f"To balance with {'; with '.join(said)}{left}."


def _alternative(a: Alternative) -> str:
    cost = "at a cost not known yet" if math.isnan(a.cost) else f"at a cost of {seconds(a.cost)}"
    if not a.gain > 0:
        return f"{a.strategy} was expected to save nothing, {cost}"
    back = "" if math.isnan(a.cost) else f", back in {count(math.ceil(a.repaid_in), 'iteration')}"
    return f"{a.strategy} was expected to save {seconds(a.gain)} an iteration {cost}{back}"


def _choice(r: Receipt) -> str:
    return f"{r.strategy} was taken because {r.why}." if r.why else ""


def _speeds(r: Receipt) -> str:
    if not r.speed:
        return ""
    fast, slow = (r.speed.index(f(r.speed)) for f in (max, min))
    ratio = r.speed[fast] / r.speed[slow]
    return f"The ranks were known to be unlike: rank {fast} {ratio:.3g} times as fast as {slow}."


def _price(r: Receipt) -> str:
    if r.migrations == 0:
        moved = f"{r.strategy} left every object where it was"
    else:
        moves = "moved" if r.moved else "would have moved"
        sent = f" ({size(r.bytes)})" if r.bytes else ""
        moved = f"{r.strategy} {moves} {count(r.migrations, 'object')}{sent}"
    steps = [
        f"{seconds(s)} for {name}"
        for name, s in (
            ("gathering loads", r.seconds_statistics),
            ("the strategy", r.seconds_strategy),
            ("moving", r.seconds_migration),
            ("slower first iterations", r.seconds_warm_up),
        )
        if s > 0
    ]
    of = f", of which {', '.join(steps)}" if steps else ""
    return (
        f"{moved}, which was to bring max/mean from {r.before:.3g} to {r.predicted:.3g}, and cost "
        f"{seconds(r.cost)}{of}."
    )


def _outcome(r: Receipt) -> str:
    since = count(r.iterations, "iteration")
    ratio = "" if math.isnan(r.realised) else f"max/mean was {r.realised:.3g} since"
    if math.isnan(r.gain):
        return (
            f"{ratio[:1].upper()}{ratio[1:]}." if ratio else "What it was worth is not known yet."
        )
    ratio = f" ({ratio})" if ratio else ""
    verb = "saved" if r.moved else "would have saved"
    if r.gain <= 0:
        lost = f"cost {seconds(-r.gain)} more" if r.gain < 0 else "saved nothing"
        return f"It {lost if r.moved else 'would have ' + lost} in the {since} after it{ratio}."
    times = f", {_times(r.gain / r.cost)} times its cost" if r.cost > 0 else ""
    return f"It {verb} {seconds(r.gain)} in the {since} after it{times}{ratio}."


def _idle(r: Receipt) -> str:
    if not (r.idle_mean > 0 and math.isfinite(r.realised_idle_mean)):
        return ""
    less = r.reductions.idle_mean
    change = f"{less:.0f} % less" if less >= 0 else f"{-less:.0f} % more"
    return (
        f"The mean rank was to wait for the most loaded one for {seconds(r.predicted_idle_mean)} "
        f"an iteration in place of {seconds(r.idle_mean)}, and waited "
        f"{seconds(r.realised_idle_mean)} ({change})."
    )


def _times(ratio: float) -> str:
    """Two digits, and no powers of ten."""
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"
