"""Receipts: the reasons for a decision, its cost, and what it saved."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from pylb import console, optional
from pylb.console import count, seconds, size
from pylb.decide.alternative import Alternative
from pylb.decide.dropped import Dropped
from pylb.model.metrics import Reductions, reduction

if TYPE_CHECKING:
    import pandas as pd

NAN = math.nan
OWN = "own"  # stands for the program's own redistribution, as in csrc/decide/advisor.c
COLUMNS = (
    "iteration until choice strategy max_over_mean predicted realised migrations bytes cost gain "
    "reason"
).split()
HEADINGS = [{"max_over_mean": "max/mean", "until": "last"}.get(name, name) for name in COLUMNS]
NOTES = {
    "last": "last iteration with the same decision; other decisions may lie between",
    "max/mean": "of the loads in that iteration",
    "predicted": "max/mean of the estimated loads on the new placement",
    "realised": "max/mean of the iterations up to the next LB step",
    "cost": "time that the LB step took",
    "gain": "time that it has saved so far",
}
SHOWN: tuple[Callable[[float], str], ...] = (size, seconds, seconds)


@dataclass(repr=False, eq=False)
class Receipt:
    """A decision of the trigger: to rebalance, or not.

    Times are in seconds.  A receipt is the same on every rank.

    Attributes
    ----------
    iteration : int
        The iteration after which the decision was taken.
    choice : {"balance", "hold", "off"}
        "hold": the trigger saw no reason.  "off": the trigger asked for an LB step, but
        earlier ones did not pay.
    reason : str
        Why, in words.
    trigger, strategy : str
        The strategy is empty if none ran.
    why : str
        Why this strategy was chosen, if there were several.
    seed : int
        The seed of the strategy.
    max, mean : float
        Load of the most loaded rank and mean load of the ranks in that iteration.
    left : float
        Iterations that remained in the loop; inf if not known.
    figures : dict of float
        What the trigger computed, by name: fitted lines, ideal period `tau`, expected cost and
        gain, and so on; nan: not computed.
    alternatives : tuple of Alternative
        The possible decisions: no LB step, and each strategy that could be chosen.
    until, times : int
        The last iteration with the same decision since the last LB step, and how often this
        decision was taken.
    moved : bool
        Whether objects went to their new ranks; false in shadow mode, and after the last iteration.
    before, predicted : float
        max/mean of the estimated loads, on the old and on the new placement.
    before_with_messages, predicted_with_messages : float
        The same, but including the time of the messages that each rank sends (Menon eq. 3.6).
    passed_over : float
        max/mean that the comprehensive strategy predicted, if a refinement replaced it.
    idle_mean, idle_max : float
        Mean and longest wait of a rank for the slowest one, in seconds per iteration, with the
        estimated loads on the old placement (Dasgupta 2013, eq. 1 and 2).
    predicted_idle_mean, predicted_idle_max : float
        The same on the new placement.
    realised_idle_mean, realised_idle_max : float
        The same, measured in the iterations up to the next LB step.
    realised : float
        max/mean of the iterations up to the next LB step.
    speed : tuple of float
        Speed of each rank that the strategy used, with geometric mean 1; empty: all equal.
    migrations, bytes : int
        Number of objects that changed their rank, and their size in bytes.
    ahead : float
        The placement is for the loads that are expected in so many iterations.
    present : float
        max/mean, with messages, that a placement for the present loads would have left.
    loss_0, loss_1, loss_2, loss_4, loss_8 : float
        Seconds per iteration that a placement for the loads in 0, 1, 2, 4 or 8 iterations is
        expected to lose until the next LB step, by waiting and by the LB step; nan: not tried.
    seconds_statistics, seconds_strategy, seconds_migration : float
        Time to gather the load database, to run the strategy, and to move the objects.
    seconds_warm_up : float
        Extra time of the first iterations after it, compared with the following ones.
    seconds : float
        Wall time of the whole LB step on the slowest rank.
    cost : float
        `seconds`, or the sum of its parts if that is more, plus `seconds_warm_up`.
    gain : float
        Seconds that the LB step has saved so far: the time of the slowest rank on the old
        placement, computed from the measured loads, minus its time on the new placement.
    iterations : int
        Iterations in which `gain` was saved.

    Examples
    --------
    >>> receipt = trace.replay("GreedyLB", every=50, cost=0.1).decisions[0]
    >>> receipt.iteration, receipt.choice, receipt.migrations, receipt.reason
    (49, 'balance', 109, 'the given number of iterations is over')
    """

    iteration: int
    choice: str
    reason: str
    trigger: str
    strategy: str = ""
    why: str = ""
    seed: int = 0
    max: float = NAN
    mean: float = NAN
    left: float = math.inf
    figures: dict[str, float] = field(default_factory=dict)
    alternatives: tuple[Alternative, ...] = ()
    until: int = -1
    times: int = 1
    moved: bool = False
    before: float = NAN
    predicted: float = NAN
    before_with_messages: float = NAN
    predicted_with_messages: float = NAN
    passed_over: float = NAN
    idle_mean: float = NAN
    idle_max: float = NAN
    predicted_idle_mean: float = NAN
    predicted_idle_max: float = NAN
    realised_idle_mean: float = NAN
    realised_idle_max: float = NAN
    realised: float = NAN
    speed: tuple[float, ...] = ()
    migrations: int = 0
    bytes: int = 0
    seconds_statistics: float = NAN
    seconds_strategy: float = NAN
    seconds_migration: float = NAN
    seconds_warm_up: float = NAN
    ahead: float = NAN
    present: float = NAN
    loss_0: float = NAN
    loss_1: float = NAN
    loss_2: float = NAN
    loss_4: float = NAN
    loss_8: float = NAN
    seconds: float = NAN
    cost: float = 0.0
    gain: float = NAN
    iterations: int = 0

    def __post_init__(self) -> None:
        self.until = max(self.until, self.iteration)

    def __eq__(self, other: object) -> bool:
        """Whether every field is the same to the bit; two unknown figures (nan) are equal."""
        return isinstance(other, Receipt) and str(asdict(self)) == str(asdict(other))

    __hash__ = None  # type: ignore[assignment]

    @property
    def balanced(self) -> bool:
        """Whether the decision was to rebalance."""
        return self.choice == "balance"

    @property
    def max_over_mean(self) -> float:
        """max/mean of the iteration; 1 if there is no load."""
        return self.max / self.mean if self.mean > 0 else 1.0

    @property
    def tau(self) -> float:
        """Ideal period that the trigger computed, in iterations; nan if it computes none."""
        return self.figures.get("tau", NAN)

    @property
    def reductions(self) -> Reductions:
        """By how many percent the idle times fell (Dasgupta eq. 5)."""
        return Reductions(
            reduction(self.realised_idle_mean, self.idle_mean),
            reduction(self.realised_idle_max, self.idle_max),
        )

    @property
    def step_seconds(self) -> float:
        """Seconds of the LB step itself: its cost without the warm-up."""
        warm_up = self.seconds_warm_up
        return self.cost if math.isnan(warm_up) else self.cost - warm_up

    @property
    def net(self) -> float:
        """Gain minus cost, in seconds."""
        return self.gain - self.cost

    def __repr__(self) -> str:
        after = f"<Receipt: after iteration {self.iteration}, {self.choice}"
        if not self.balanced:
            return f"{after}: {self.reason}>"
        saved = "" if math.isnan(self.gain) else f", saved {seconds(self.gain)}"
        return (
            f"{after} with {self.strategy}: max/mean {self.before:.4g} -> {self.predicted:.4g}, "
            f"{self.migrations} migrations, cost {seconds(self.cost)}{saved}>"
        )

    def explain(self) -> str:
        """Explain what was decided, why, what it cost and what it saved, in sentences."""
        return _explained(self)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, and `max_over_mean`."""
        return {**asdict(self), "max_over_mean": self.max_over_mean}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Receipt:
        """Make a receipt from the result of `to_dict`."""
        fields = {k: v for k, v in given.items() if k != "max_over_mean"}
        fields["alternatives"] = tuple(Alternative(**a) for a in fields["alternatives"])
        fields["speed"] = tuple(fields.get("speed", ()))
        return cls(**fields)


class History(list[Receipt]):
    """The receipts of a run, in order: a list that is printed as a table.

    Examples
    --------
    >>> len(trace.replay("GreedyLB", every=50, cost=0.1).decisions)
    3
    """

    dropped = Dropped()  # of a very long run

    @overload
    def __getitem__(self, index: SupportsIndex) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> History: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Receipt | History:
        """Return one receipt, or the history of a slice."""
        found = super().__getitem__(index)
        return History(found) if isinstance(found, list) else found

    @property
    def balancings(self) -> History:
        """The receipts of LB steps."""
        return History(r for r in self if r.balanced)

    def table(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row per receipt: fields, and the trigger's figures.

        Raises
        ------
        MissingPartError
            pandas is absent.
        """
        pandas = optional.require("pandas")
        rows = []
        for receipt in self:
            row = receipt.to_dict()
            del row["alternatives"]
            row.update({f"trigger_{k}": v for k, v in row.pop("figures").items()})
            rows.append(row)
        return pandas.DataFrame(rows)

    def rows(self) -> Iterable[list[Any]]:
        """Yield the cells of `COLUMNS` for each receipt; None: an empty cell."""
        for r in self:
            row = [getattr(r, name) for name in COLUMNS]
            if r.balanced:
                row[1] = None
            else:
                row[5:11] = [None] * 6
            row[8:11] = [
                x if x is None or math.isnan(x) else f(x)
                for f, x in zip(SHOWN, row[8:11], strict=True)
            ]
            yield [None if isinstance(x, float) and math.isnan(x) else x for x in row]

    def __str__(self) -> str:
        out = io.StringIO()
        reasons: dict[str, str] = {}  # reason -> its number; each is printed once, below the table
        rows = list(self.rows())
        for row in rows:
            row[-1] = reasons.setdefault(row[-1], f"({len(reasons) + 1})")
        console.show(HEADINGS, rows, file=out, notes=NOTES)
        for reason, number in reasons.items():
            out.write(console.fill(f"{number} {reason}", console.PAPER) + "\n")
        if self.dropped.n:
            out.write(console.fill(str(self.dropped), console.PAPER) + "\n")
        return out.getvalue()

    def _repr_html_(self) -> str:
        return console.html(HEADINGS, self.rows())


# ---- in sentences ------------------------------------------------------------------------------


def _explained(r: Receipt) -> str:
    parts = [_decision(r), _inputs(r), _fits(r), _expected(r)]
    if r.balanced:
        parts += [_choice(r), _speeds(r), _price(r), _outcome(r), _idle(r)]
    return " ".join(p for p in parts if p)


def _decision(r: Receipt) -> str:
    after = f"After iteration {r.iteration}"
    if r.balanced:
        what = "the program's data" if r.strategy == OWN else "the objects"
        done = "were rebalanced" if r.moved else "would have been rebalanced"
        return f"{after} {what} {done}: {r.reason}."
    if r.times > 1:
        again = "1 more time" if r.times == 2 else f"{r.times - 1} more times"
        after += f", and {again} up to iteration {r.until}"
    asked = "the trigger asked for an LB step, but none was done"
    said = asked if r.choice == "off" else "nothing was moved"
    return f"{after}, {said}: {r.reason}."


def _inputs(r: Receipt) -> str:
    if math.isnan(r.max):
        return ""
    return (
        f"In that iteration the most loaded rank worked for {seconds(r.max)}; the mean over the "
        f"ranks was {seconds(r.mean)} (max/mean {r.max_over_mean:.3g})."
    )


def _fits(r: Receipt) -> str:
    f = r.figures
    said = []
    if _known(f, "max_slope") and _known(f, "mean_slope"):
        said.append(
            f"the maximum {_growth(f['max_slope'])} per iteration and the mean "
            f"{_growth(f['mean_slope'])}"
        )
    if _known(f, "tau"):
        said.append(f"the ideal period was {count(round(f['tau']), 'iteration')}")
    if _known(f, "residual") and f["residual"] > 1.0:
        said.append(f"earlier LB steps did not get below max/mean {f['residual']:.3g}")
    if _known(f, "excess"):
        said.append(f"the imbalance had cost {seconds(f['excess'])} since the last LB step")
    if _known(f, "level"):
        said.append(f"of it, {seconds(f['level'])} per iteration was expected to last")
    if _known(f, "rate"):
        said.append(
            f"with LB steps at the best known interval, imbalance and LB steps together cost "
            f"{seconds(f['rate'])} per iteration"
        )
    return f"Trigger {r.trigger} found: {'; '.join(said)}." if said else ""


def _growth(slope: float) -> str:
    return f"{'grew' if slope >= 0 else 'fell'} by {seconds(abs(slope))}"


def _known(figures: dict[str, float], name: str) -> bool:
    return math.isfinite(figures.get(name, math.nan))


def _expected(r: Receipt) -> str:
    others = [a for a in r.alternatives if a.strategy and a.strategy != r.strategy]
    # Strategies that were not tried yet have the same estimate.
    tried = [a for a in others if len(others) == 1 or not math.isnan(a.cost)]
    taken = [a for a in r.alternatives if a.strategy and a.strategy == r.strategy]
    said = [_alternative(a) for a in taken + tried]
    untried = len(others) - len(tried)
    if untried:
        gain = max(a.gain for a in others if a not in tried)
        most = f"up to {seconds(gain)} per iteration" if gain > 0 else "nothing"
        some = "another strategy, not tried yet, was"
        if untried > 1:
            some = f"{untried} other strategies, not tried yet, were"
        said.append(f"{some} expected to save {most}")
    if not said:
        return ""
    left = "" if math.isinf(r.left) else f"; {count(r.left, 'iteration')} were left"
    return f"{'; '.join(said)}{left}."


def _alternative(a: Alternative) -> str:
    cost = "at a cost not known yet" if math.isnan(a.cost) else f"at a cost of {seconds(a.cost)}"
    name = "A redistribution" if a.strategy == OWN else a.strategy
    if not a.gain > 0:
        return f"{name} was expected to save nothing, {cost}"
    back = "" if math.isnan(a.cost) else f", repaid in {count(math.ceil(a.repaid_in), 'iteration')}"
    return f"{name} was expected to save {seconds(a.gain)} per iteration {cost}{back}"


def _choice(r: Receipt) -> str:
    return f"{r.strategy} was chosen because {r.why}." if r.why else ""


def _speeds(r: Receipt) -> str:
    if not r.speed:
        return ""
    fast, slow = (r.speed.index(f(r.speed)) for f in (max, min))
    ratio = r.speed[fast] / r.speed[slow]
    return f"The ranks differ in speed: rank {fast} is {ratio:.3g} times as fast as rank {slow}."


def _price(r: Receipt) -> str:
    if r.strategy == OWN:
        moved = (
            f"The program redistributed its data in its own way: max/mean was {r.before:.3g} "
            f"before, and {r.predicted:.3g} in the first iteration after it"
        )
    elif r.migrations == 0:
        moved = f"{r.strategy} left every object where it was"
    else:
        moves = "moved" if r.moved else "would have moved"
        sent = f" ({size(r.bytes)})" if r.bytes else ""
        aim = f"to reduce max/mean of the estimated loads from {r.before:.3g} to {r.predicted:.3g}"
        moved = f"{r.strategy} {moves} {count(r.migrations, 'object')}{sent}, {aim}"
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
    return f"{moved}. The LB step cost {seconds(r.cost)}{of}."


def _outcome(r: Receipt) -> str:
    since = count(r.iterations, "iteration")
    ratio = "" if math.isnan(r.realised) else f"their max/mean was {r.realised:.3g}"
    if math.isnan(r.gain):
        if ratio:
            return f"In the {since} after it, {ratio}."
        return "What it saves is not known yet."
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
    aim = "" if r.strategy == OWN else f", to reduce it to {seconds(r.predicted_idle_mean)}"
    return (
        f"With the estimated loads, a rank waits {seconds(r.idle_mean)} per iteration for the most "
        f"loaded one (mean of the ranks){aim}; afterwards it waited "
        f"{seconds(r.realised_idle_mean)} ({change})."
    )


def _times(ratio: float) -> str:
    """Format a ratio with two digits, without powers of ten."""
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"
