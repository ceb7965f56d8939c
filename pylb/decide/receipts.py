"""Receipts: records of decisions, with their reasons, their costs, and what they saved."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, overload

from pylb import console, optional
from pylb.console import seconds
from pylb.decide.figures import RECEIPT
from pylb.decide.sentences import explained, headline
from pylb.model.metrics import Reductions, reduction

if TYPE_CHECKING:
    import pandas as pd

NAN = math.nan
PRINTED = [f for f in RECEIPT if f.printed]


@dataclass(frozen=True)
class Alternative:
    """A possible decision: to rebalance with a strategy, or not at all.

    Examples
    --------
    >>> pylb.decide.Alternative("RefineLB", gain=0.01, cost=0.5).repaid_in  # iterations
    50.0
    """

    strategy: str  #: Empty: do not rebalance.
    gain: float  #: Seconds that the decision is expected to save per iteration.
    cost: float  #: Seconds that the LB step is expected to take; nan if not known yet.

    @property
    def repaid_in(self) -> float:
        """Iterations after which the cost is repaid; inf: never, nan: not known."""
        if self.cost == 0:
            return 0.0
        return self.cost / self.gain if self.gain > 0 else math.inf


@dataclass(repr=False, eq=False)
class Receipt:
    """The record of one decision: to rebalance, or not.  It is the same on every rank.

    Times are in seconds.

    Examples
    --------
    >>> receipt = trace.replay("GreedyLB", every=50, cost=0.1).decisions[0]
    >>> receipt.iteration, receipt.choice, receipt.migrations, receipt.reason
    (49, 'balance', 109, 'the given number of iterations is over')
    """

    iteration: int  #: The iteration after which the decision was taken.
    #: "balance": an LB step.  "hold": the trigger considered an LB step, and decided against it.
    #: "off": the trigger asked for an LB step, but there was none, because earlier LB steps did not
    #: pay.
    choice: str
    reason: str  #: Why, in words.
    #: Names of the trigger and of the strategy; `strategy` is empty if no strategy ran.
    trigger: str
    strategy: str = ""
    why: str = ""  #: Why this strategy was chosen, if there were several.
    seed: int = 0  #: The seed of the strategy.
    #: Load of the most loaded rank, and mean load of the ranks, in iteration `iteration`.
    max: float = NAN
    mean: float = NAN
    left: float = math.inf  #: Iterations that remained in the loop; inf if not known.
    #: What the trigger computed, by name: fitted lines, ideal period `tau`, expected cost and gain,
    #: and so on; nan: not computed.
    figures: dict[str, float] = field(default_factory=dict)
    #: The possible decisions: no LB step, or an LB step with one of the strategies.
    alternatives: tuple[Alternative, ...] = ()
    #: The last iteration with the same decision since the last LB step, and how often this decision
    #: was taken.
    until: int = -1
    times: int = 1
    #: Whether objects went to their new ranks; false in shadow mode, and if the decision was
    #: against an LB step.
    moved: bool = False
    #: max/mean of the estimated loads, on the old and on the new placement.  If the program
    #: redistributes its data in its own way: measured before the LB step, and in the first
    #: iteration after it.
    before: float = NAN
    predicted: float = NAN
    #: max/mean if the time of a rank includes the messages that it sends (Menon 2012, eq. 3.6).
    before_with_messages: float = NAN
    predicted_with_messages: float = NAN
    #: max/mean that the chosen strategy predicted, if another one replaced it.
    passed_over: float = NAN
    #: If messages within a node cost less than between nodes: the number of strategies whose
    #: placements were compared; nan: nothing was compared.
    compared: float = NAN
    #: If VectorLB placed objects by their phases: max/mean that would remain after a placement by
    #: the sum of each object's phases; nan: VectorLB did not run, or there are no phases.
    by_sum: float = NAN
    #: If objects move while the next iteration runs: by how many seconds their move was expected
    #: to lengthen the LB step and that iteration; `seconds_warm_up` is then what was measured.
    felt: float = NAN
    #: If the moves are spread over several LB steps that follow each other: the index of this one,
    #: from 1 on; nan: all moves are in one LB step.
    slice: float = NAN
    #: Number of objects that remained to be moved; nan: all moves are in one LB step.
    moves_left: float = NAN
    #: Mean and longest wait of a rank for the slowest one, in seconds per iteration, with the
    #: estimated loads on the old placement (Dasgupta 2013, eq. 1 and 2).
    idle_mean: float = NAN
    idle_max: float = NAN
    #: `idle_mean` and `idle_max` on the new placement.
    predicted_idle_mean: float = NAN
    predicted_idle_max: float = NAN
    #: Largest fraction of a rank's or node's memory limit that the new placement uses; nan: none.
    memory_full: float = NAN
    #: Time of the heaviest object, and of the next one, on a rank of the highest speed, divided by
    #: the time that perfect balance would give: max/mean cannot be less than `heaviest`.
    heaviest: float = NAN
    next_heaviest: float = NAN
    heaviest_key: float = NAN  #: The key of the heaviest object.
    #: Mean and longest wait of a rank, in seconds per iteration, measured up to the next LB step.
    realised_idle_mean: float = NAN
    realised_idle_max: float = NAN
    realised: float = NAN  #: max/mean of the iterations up to the next LB step.
    #: Speeds of the ranks that the strategy assumed, with geometric mean 1; empty: all speeds are
    #: equal, or no rank knows all of them, because the strategy is distributed.
    speed: tuple[float, ...] = ()
    #: Number of objects that changed their rank, and their size in bytes.
    migrations: int = 0
    nbytes: int = 0
    #: Time to gather the load database, to run the strategy, and to move the objects.
    seconds_statistics: float = NAN
    seconds_strategy: float = NAN
    seconds_migration: float = NAN
    #: Extra time of the first iterations after the LB step, compared with the following ones.
    seconds_warm_up: float = NAN
    #: Longest time for which a rank computed while data of the LB step moved: this part of the
    #: move did not stop the program; nan: all data moved in the LB step.
    seconds_hidden: float = NAN
    #: The new placement is computed from the loads expected this number of iterations later; 0:
    #: from the present loads.
    ahead: float = NAN
    #: `predicted_with_messages` of the placement that was tried first, from the present loads.
    present: float = NAN
    #: Seconds per iteration that are expected to be lost until the next LB step, by waiting and by
    #: the LB step, if the placement is computed from the loads expected 0, 1, 2, 4 or 8 iterations
    #: later; nan: not tried.
    loss_0: float = NAN
    loss_1: float = NAN
    loss_2: float = NAN
    loss_4: float = NAN
    loss_8: float = NAN
    #: Like `loss_0`, for a placement that puts objects with neighbouring keys on different ranks;
    #: nan: not tried.
    loss_scattered: float = NAN
    #: The strategy was allowed to leave max/mean up to about 1 + `tolerance`, so that fewer objects
    #: move; 0: it had no tolerance; nan: not tried.
    tolerance: float = NAN
    #: Like `loss_0` with the best tolerance that was tried; nan: not tried.
    loss_tolerant: float = NAN
    seconds: float = NAN  #: Wall time of the whole LB step on the slowest rank.
    #: max(`seconds`, time for statistics + strategy + migration) + `seconds_warm_up`.
    cost: float = 0.0
    #: Seconds that the LB step has saved so far: the time of the slowest rank on the old placement,
    #: computed from the measured loads, minus that of the slowest rank on the new placement.  With
    #: an `Advisor`, it is estimated from max/mean before and after the LB step.
    gain: float = NAN
    iterations: int = 0  #: Iterations in which `gain` was saved.

    def __post_init__(self) -> None:
        self.until = max(self.until, self.iteration)

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, bit for bit; two unknown values (nan) count as equal."""
        return isinstance(other, Receipt) and str(asdict(self)) == str(asdict(other))

    __hash__ = None  # type: ignore[assignment]

    @property
    def balanced(self) -> bool:
        """Whether the decision was to rebalance."""
        return self.choice == "balance"

    @property
    def max_over_mean(self) -> float:
        """max/mean of the iteration; 1 if there is no load, nan if it is not known."""
        return self.max / self.mean if self.mean != 0 else 1.0

    @property
    def tau(self) -> float:
        """Ideal period that the trigger computed, in iterations; nan if it computes none."""
        return self.figures.get("tau", NAN)

    @property
    def reductions(self) -> Reductions:
        """By how many percent the idle times fell (Dasgupta 2013, eq. 5)."""
        pairs = [(getattr(self, f"realised_{x}"), getattr(self, x)) for x in Reductions._fields]
        return Reductions(*(reduction(now, before) for now, before in pairs))

    @property
    def step_seconds(self) -> float:
        """Seconds of the LB step itself: `cost` without `seconds_warm_up`."""
        warm_up = self.seconds_warm_up
        return self.cost if math.isnan(warm_up) else self.cost - warm_up

    @property
    def net(self) -> float:
        """Gain minus cost, in seconds."""
        return self.gain - self.cost

    def _repr_html_(self) -> str:
        steps = {"before": self.before, "predicted": self.predicted, "realised": self.realised}
        known = {name: x for name, x in steps.items() if not math.isnan(x)}
        bars = {f"max/mean {', '.join(known)}": list(known.values())} if known else {}
        why = f"<details><summary>why</summary>{escape(self.explain())}</details>"
        return console.card(f"{self.headline}.", bars) + why

    def __repr__(self) -> str:
        after = f"<Receipt: after iteration {self.iteration}, {self.choice}"
        if not self.balanced:
            return f"{after}: {self.reason}>"
        gain = "" if math.isnan(self.gain) else f", gain {seconds(self.gain)}"
        return (
            f"{after} with {self.strategy}: max/mean {self.before:.4g} -> {self.predicted:.4g}, "
            f"{self.migrations} migrations, cost {seconds(self.cost)}{gain}>"
        )

    @property
    def headline(self) -> str:
        """What the decision did, what it cost and what it gained, in one line."""
        return headline(self)

    def explain(self) -> str:
        """Explain the decision in sentences."""
        return explained(self)

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


class Dropped(NamedTuple):
    """The sums of the receipts that a very long run dropped from the middle of its `History`."""

    first: int = 0  #: Index of the first dropped receipt.
    #: Number of dropped receipts, and number of LB steps among them.
    n: int = 0
    n_lb_steps: int = 0
    migrations: int = 0
    nbytes: int = 0
    cost: float = 0.0
    step_seconds: float = 0.0

    def number(self, i: int) -> int:
        """Return the index, among all receipts of the run, of the receipt ``history[i]``."""
        return i if i < self.first else i + self.n

    def __str__(self) -> str:
        return (
            f"{self.n} decisions after the first {self.first} are not stored, because the run is "
            f"long; {self.n_lb_steps} of them were LB steps."
        )


class History(list[Receipt]):
    """The receipts of a run in order; ``print`` shows them as a table.

    Examples
    --------
    >>> len(trace.replay("GreedyLB", every=50, cost=0.1).decisions)
    3
    """

    dropped = Dropped()

    @overload
    def __getitem__(self, index: SupportsIndex) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> History: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Receipt | History:
        """Return one receipt, or the history of a slice."""
        found = super().__getitem__(index)
        return History(found) if isinstance(found, list) else found

    @property
    def lb_steps(self) -> History:
        """The receipts of LB steps."""
        return History(r for r in self if r.balanced)

    def table(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row per receipt: fields, and values of the trigger."""
        pandas = optional.require("pandas")
        rows = [r.to_dict() for r in self]
        for row in rows:
            del row["alternatives"]
            row.update({f"trigger_{k}": v for k, v in row.pop("figures").items()})
        return pandas.DataFrame(rows)

    def rows(self) -> Iterable[list[Any]]:
        """Yield a row of the printed table for each receipt; None: an empty cell."""
        for r in self:
            yield [f.cell(f.of(r)) for f in PRINTED]

    def __str__(self) -> str:
        out, (rows, below) = io.StringIO(), self._numbered()
        console.show([console.Column(f.heading, note=f.note) for f in PRINTED], rows, file=out)
        return out.getvalue() + "".join(f"{console.fill(x, console.PAPER)}\n" for x in below)

    def _repr_html_(self) -> str:
        return console.html([f.heading for f in PRINTED], *self._numbered())

    def _numbered(self) -> tuple[list[list[Any]], list[str]]:
        """Return the rows, with an index instead of each reason, and a line for each reason."""
        reasons: dict[str, str] = {}
        rows = list(self.rows())
        for row in rows:
            row[-1] = reasons.setdefault(row[-1], f"({len(reasons) + 1})")
        below = [f"{number} {reason}" for reason, number in reasons.items()]
        return rows, below + [str(self.dropped)] * bool(self.dropped.n)
