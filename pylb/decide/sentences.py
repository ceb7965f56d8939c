"""Explain a receipt in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pylb.console import count, seconds, size

# An object limits the balance if its load is above LIMITS times the mean load of the ranks, and the
# predicted max/mean is below LIMITS times the ratio of these loads.
LIMITS = 1.05
MISSED = 1.2  # a max/mean above MISSED times the predicted one was not predicted
OWN = "own"  # stands for the program's own redistribution, as in csrc/decide/advisor.c


def headline(r: Any) -> str:
    """Return one line that says what a decision did, what it cost and what it gained."""
    after = f"After iteration {r.iteration}" if r.iteration >= 0 else "Before the first iteration"
    if not r.balanced:
        return f"{after}{_again(r)}: no LB step, {r.reason}"
    would, ratio = "" if r.moved else "would have ", r.realised
    if math.isnan(ratio):
        ratio = r.predicted
    done = "moved nothing" if r.migrations == 0 else f"moved {count(r.migrations, 'object')}"
    if r.strategy == OWN:
        done = "redistributed the program's data"
    unknown = math.isnan(r.before) or math.isnan(ratio)
    known = "" if unknown else f"max/mean {r.before:.3g} \u2192 {ratio:.3g}, "
    gain = "" if math.isnan(r.gain) else f", gained {seconds(r.gain)}"
    return f"{after}: {would}{done}, {known}cost {seconds(r.cost)}{gain}"


def explained(r: Any) -> str:
    parts = [*_decision(r), _fits(r), _expected(r)]
    if r.balanced:
        parts += [*_choice(r), _price(r), _heaviest(r), _outcome(r), _idle(r)]
    return " ".join(p for p in parts if p)


def _decision(r: Any) -> Iterator[str]:
    after = f"After iteration {r.iteration}"
    if r.balanced:
        what = "the program's data" if r.strategy == OWN else "the objects"
        done = "were rebalanced" if r.moved else "would have been rebalanced"
        yield f"{after} {what} {done}: {r.reason}."
    else:
        asked = "an LB step, but none was made" if r.choice == "off" else "no LB step"
        yield f"{after}{_again(r)}, the trigger asked for {asked}: {r.reason}."
    if not math.isnan(r.max + r.mean):
        yield (
            f"In that iteration the most loaded rank worked for {seconds(r.max)}; the mean over "
            f"the ranks was {seconds(r.mean)} (max/mean {r.max_over_mean:.3g})."
        )


def _again(r: Any) -> str:
    if r.times < 2:
        return ""
    again = "1 more time" if r.times == 2 else f"{r.times - 1} more times"
    return f", and {again} up to iteration {r.until}"


def _fits(r: Any) -> str:
    f = {name: x for name, x in r.figures.items() if math.isfinite(x)}
    phrases = []
    if "max_slope" in f and "mean_slope" in f:
        rise, mean = (
            f"{'grew' if f[x] >= 0 else 'fell'} by {seconds(abs(f[x]))}"
            for x in ("max_slope", "mean_slope")
        )
        phrases.append(f"the maximum {rise} per iteration and the mean {mean}")
    if "tau" in f and r.trigger != "periodic":  # if periodic, the user chose the period
        phrases.append(f"the ideal period was {count(round(f['tau']), 'iteration')}")
    if f.get("residual", 0.0) > 1.0:
        phrases.append(f"earlier LB steps did not get below max/mean {f['residual']:.3g}")
    phrases += [
        text.format(seconds(f[name]))
        for name, text in (
            ("excess", "the imbalance had cost {} since the last LB step or the start"),
            ("level", "an imbalance of {} per iteration was expected to last"),
            (
                "rate",
                "at the best known period, imbalance and LB steps together cost {} per iteration",
            ),
        )
        if name in f
    ]
    return f"Trigger {r.trigger} found: {'; '.join(phrases)}." if phrases else ""


def _expected(r: Any) -> str:
    level = r.figures.get("level", math.nan)
    if not r.balanced and math.isfinite(level):  # `level` was the reason not to rebalance
        expected = _alternative("An LB step", level, r.figures.get("cost", math.nan))
    else:
        expected = _of_strategies(r)
    were = "was" if r.left == 1 else "were"
    left = f"; {count(r.left, 'iteration')} {were} left" if math.isfinite(r.left) else ""
    return f"{expected}{left}." if expected else ""


def _of_strategies(r: Any) -> str:
    others = [a for a in r.alternatives if a.strategy and a.strategy != r.strategy]
    # Strategies that were not tried yet share one estimate, and one phrase.
    untried = [a for a in others if len(others) > 1 and math.isnan(a.cost)]
    taken = [a for a in r.alternatives if a.strategy and a.strategy == r.strategy]
    tried = [a for a in others if a not in untried]
    phrases = [_alternative(a.strategy, a.gain, a.cost) for a in taken + tried]
    if untried:
        gain = max(a.gain for a in untried)
        most = f"up to {seconds(gain)} per iteration" if gain > 0 else "nothing"
        some = "another strategy, not tried yet, was"
        if len(untried) > 1:
            some = f"{len(untried)} other strategies, not tried yet, were"
        phrases.append(f"{some} expected to save {most}")
    return "; ".join(phrases)


def _alternative(strategy: str, gain: float, theta: float) -> str:
    cost = "at a cost not known yet" if math.isnan(theta) else f"at a cost of {seconds(theta)}"
    name = "A redistribution" if strategy == OWN else strategy
    if not gain > 0:
        return f"{name} was expected to save nothing, {cost}"
    back = "" if math.isnan(theta) else f", repaid in {count(math.ceil(theta / gain), 'iteration')}"
    return f"{name} was expected to save {seconds(gain)} per iteration {cost}{back}"


def _choice(r: Any) -> Iterator[str]:
    if r.why:
        need, *more = r.why.split("; ")
        said = [f"{r.strategy} was chosen because {need}", *(m[:1].upper() + m[1:] for m in more)]
        yield ". ".join(said) + "."
    if r.speed:
        fast, slow = (r.speed.index(f(r.speed)) for f in (max, min))
        ratio = r.speed[fast] / r.speed[slow]
        yield f"The ranks differ in speed: rank {fast} is {ratio:.3g} times as fast as rank {slow}."
    if not math.isnan(r.memory_full):
        full = f"{100 * r.memory_full:.3g} % of its memory limit"
        yield f"Afterwards the fullest rank or node used {full}."


def _heaviest(r: Any) -> str:
    rest = max(r.next_heaviest, 1.0)  # nan if unknown, as is the result below
    less = (r.heaviest - rest) * r.mean
    if math.isnan(less) or not (r.heaviest > LIMITS and r.predicted < LIMITS * r.heaviest):
        return ""
    return (
        f"Object {r.heaviest_key:.0f} alone takes {r.heaviest:.3g} times the mean, so max/mean "
        f"cannot be less. Divided into {math.ceil(r.heaviest / rest)} parts, it would allow a "
        f"max/mean of {rest:.3g}: {seconds(less)} less per iteration."
    )


def _price(r: Any) -> str:
    known = not math.isnan(r.before + r.predicted)
    if r.strategy == OWN:
        then = f"{r.before:.3g} before, and {r.predicted:.3g} in the first iteration after it"
        moved = "The program redistributed its data in its own way"
        moved += f": max/mean was {then}" if known else ""
    elif r.migrations == 0:
        moved = f"{r.strategy} left every object where it was"
    else:
        moves = "moved" if r.moved else "would have moved"
        sent = f" ({size(r.nbytes)})" if r.nbytes else ""
        moved = f"{r.strategy} {moves} {count(r.migrations, 'object')}{sent}"
        if known:
            change = f"from {r.before:.3g} to {r.predicted:.3g}"
            moved += f", to reduce max/mean of the estimated loads {change}"
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
    if r.slice > 0:
        moved += f". This was slice {r.slice:.0f} of the moves"
        if r.moves_left >= 0:
            moved += f", with {count(int(r.moves_left), 'object')} still to move"
    of = f", of which {', '.join(steps)}" if steps else ""
    cost = "would have cost" if r.migrations and not r.moved else "cost"
    meanwhile = ""
    if r.seconds_hidden > 0:
        meanwhile = f" While data moved, a rank computed for up to {seconds(r.seconds_hidden)}."
    return f"{moved}. The LB step {cost} {seconds(r.cost)}{of}.{meanwhile}"


def _outcome(r: Any) -> str:
    ratio = "" if math.isnan(r.realised) else f"max/mean was {r.realised:.3g}"
    if math.isnan(r.gain):
        return (
            f"After the LB step, {ratio}." if ratio else "What the LB step saves is not known yet."
        )
    done = f"saved {seconds(r.gain)}" if r.gain > 0 else "saved nothing"
    if r.gain < 0:
        done = f"cost {seconds(-r.gain)} more"
    would = "" if r.moved else "would have "
    since = f"in the {count(r.iterations, 'iteration')} after it"
    times = f", {_times(r.gain / r.cost)} times its cost" if min(r.gain, r.cost) > 0 else ""
    return f"The LB step {would}{done} {since}{times}{ratio and f' ({ratio})'}."


def _idle(r: Any) -> str:
    if not (r.idle_mean > 0 and math.isfinite(r.realised_idle_mean)):
        return ""
    less = r.reductions.idle_mean
    change = f"{less:.0f} % less" if less >= 0 else f"{-less:.0f} % more"
    aim = f" The LB step was expected to reduce this to {seconds(r.predicted_idle_mean)}."
    aim = "" if r.strategy == OWN or math.isnan(r.predicted_idle_mean) else aim
    return (
        f"By the estimated loads, a rank waited {seconds(r.idle_mean)} per iteration for the most "
        f"loaded one (mean of the ranks).{aim} Afterwards a rank waited "
        f"{seconds(r.realised_idle_mean)} ({change})."
    )


def _times(ratio: float) -> str:
    """Format a ratio with two digits, without powers of ten."""
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"


# ---- the whole run ------------------------------------------------------------------------------


def verdict(run: Mapping[str, Any], history: Iterable[Any]) -> str:
    """Return one sentence that says whether LB steps helped and by how much, or why not.

    `run` has the figures of the run by name (`pylb.decide.figures.RUN`), `history` the receipts.
    """
    saved, others = run["saved"], run.get("others") or 0.0
    would, n = run.get("mode") == "shadow", run["n_lb_steps"]
    as_it_was = run["replayed_seconds"] + (0.0 if would else run["lb_seconds"])
    receipts = list(history)
    unknown = f"Whether LB steps {'would help' if would else 'helped'} is not known"
    if saved is None or math.isnan(saved):
        return unknown
    without, using = (as_it_was, as_it_was - saved) if would else (as_it_was + saved, as_it_was)
    helps = using > 0 and without > SAME * using
    disturbed = f"other programs used {others:.1f} cores"
    if others and not helps:
        return f"{unknown}, because {disturbed}"
    if not n and abs(saved) < (SAME - 1) * as_it_was:
        ratio = f"{seconds(as_it_was)} in all, max/mean {run['mean_max_over_mean']:.3g}"
        took = "would take" if would else "took"
        return f"No LB step {took} place{_because(run, receipts)}: {ratio}"
    times = f"{seconds(without)} without LB steps"
    cost = (
        f"; {count(n, 'LB step')} {'would ' * would}cost {seconds(run['lb_seconds'])}" if n else ""
    )
    times += f", {seconds(using)} with"
    if not helps:
        why = _because(run, receipts)
        return f"It {'would not' if would else 'did not'} help: {times}{why}{cost}"
    times += cost
    judged, why = ("Judged by the loads alone, ", f" ({disturbed})") if others else ("", "")
    said = f"{judged}{'would be ' * would}{_faster(without / using)}, {seconds(saved)} saved{why}"
    return f"{said[0].upper()}{said[1:]}: {times}"


def lb_steps(receipts: Iterable[Any]) -> str:
    """Return a sentence that says when LB steps took place, or "" if there were none."""
    steps = [r for r in receipts if r.balanced]
    numbers = [str(r.iteration) for r in steps]
    if len(steps) > MOST_NUMBERS:
        numbers[MOST_NUMBERS // 2 : 1 - MOST_NUMBERS // 2] = ["..."]
    would, many = "would come " * bool(steps and not steps[0].moved), "s" * (len(steps) > 1)
    said = f"LB (load-balancing) step{many} {would}after iteration{many} {', '.join(numbers)}."
    return said if steps else ""


MOST_NUMBERS = 40  # if there are more LB steps, only the iterations of some are printed
SAME = 1.005  # two times with a smaller ratio than this count as equal


def _faster(ratio: float) -> str:
    return (
        f"{_times(ratio)} times as fast" if ratio >= 1.095 else f"{100 * (ratio - 1):.0f} % faster"
    )


def _because(run: Mapping[str, Any], receipts: list[Any]) -> str:
    """Return ", because" and the reason why LB steps did not help, or "" if none is known."""
    steps = [r for r in receipts if r.balanced]
    p, n, mode = run["n_ranks"], run["n_objects"], run.get("mode") or "on"
    ratio = steps[0].before if steps else run["mean_max_over_mean"]
    last = steps[-1] if steps else None
    after = [r for r in steps if r.realised > MISSED * r.predicted]
    why = ""
    if p < 2:
        why = "there is only one rank"
    elif mode.startswith("off"):
        why = f"the mode is {mode}"
    elif ratio < LIMITS:
        why = f"there is little to gain (max/mean {ratio:.3g} without LB steps)"
    elif n < 2 * p and run.get("strategy") != OWN:
        why = f"there are too few objects, {n} on {count(p, 'rank')}"
    elif last and last.heaviest > LIMITS and last.predicted < LIMITS * last.heaviest:
        key = f"{last.heaviest_key:.0f}"
        why = f"object {key} alone takes {last.heaviest:.3g} times the mean load of a rank"
    elif run.get("cores"):
        why = f"{run['cores']}, so that other ranks use the core of a rank that waits"
    elif 2 * len(after) > len(steps):
        why = (
            "the loads changed after LB steps: the last one expected a max/mean of "
            f"{after[-1].predicted:.3g}, and {after[-1].realised:.3g} was measured"
        )
    elif not steps and receipts:
        why = receipts[-1].reason
    return f", because {why}" if why else ""
