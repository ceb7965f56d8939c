"""Receipts: what a decision rested on, what it cost, and what it was worth."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from pylb import console, optional
from pylb.decide import sentences
from pylb.model.metrics import Reductions, reduction

if TYPE_CHECKING:
    import pandas as pd

NAN = math.nan
COLUMNS = (
    "iteration",
    "until",
    "choice",
    "strategy",
    "max_over_mean",
    "predicted",
    "realised",
    "migrations",
    "bytes",
    "cost",
    "gain",
    "reason",
)


@dataclass(frozen=True)
class Alternative:
    """What could have been done instead, or was done.

    Attributes
    ----------
    strategy : str
        Empty: not to balance.
    gain : float
        Seconds that an iteration is expected to save.
    cost : float
        Seconds that the balancing is expected to take; nan where nothing is known yet.
    """

    strategy: str
    gain: float
    cost: float

    @property
    def repaid_in(self) -> float:
        """Iterations after which the cost has come back; inf: never, nan: not known."""
        if self.cost == 0:
            return 0.0
        return self.cost / self.gain if self.gain > 0 else math.inf


@dataclass(repr=False, eq=False)
class Receipt:
    """A decision: to balance, or not to where the trigger had looked at it.

    Times are in seconds, and the same on every rank.

    Attributes
    ----------
    iteration : int
        At whose end it was taken.
    choice : {"balance", "hold", "off"}
        "hold": the trigger held back.  "off": the trigger asked for a balancing, but those before
        did not pay.
    reason : str
        Why, in words.
    trigger, strategy : str
        Strategy: empty where none ran.
    why : str
        Why this strategy, where it was chosen among several.
    seed : int
        That the strategy was given.
    max, mean : float
        Of the iteration: load of the most loaded rank, mean load of the ranks.
    left : float
        Iterations that were left; inf where that was not known.
    figures : dict of float
        What the trigger computed, by name: fitted lines, ideal period `tau`, expected cost and
        gain, ...; nan where it computes none.
    alternatives : tuple of Alternative
        Not to balance, and each strategy that was to choose from.
    until, times : int
        The last iteration of this cycle at which the same was decided, and how often it was.
    moved : bool
        Whether objects went to their new ranks; false in shadow mode, and where nothing came after.
    before, predicted : float
        max/mean of the loads that the strategy saw, on the old and on the new placement.
    before_with_messages, predicted_with_messages : float
        The same with the time of the messages that each rank sends to others (Menon eq. 3.6).
    passed_over : float
        What the comprehensive strategy would have left, where a refinement stood in for it.
    idle_mean, idle_max : float
        Seconds an iteration, of the loads that the strategy saw, on the old placement (Dasgupta
        2013, eq. 1 and 2).
    predicted_idle_mean, predicted_idle_max : float
        The same on the new one.
    realised_idle_mean, realised_idle_max : float
        The same in an iteration since, up to the next balancing.
    realised : float
        max over mean of the iterations since, up to the next balancing.
    speed : tuple of float
        Of each rank, geometric mean 1, as the strategy was told; empty: as if they were alike.
    migrations, bytes : int
        Objects that changed their rank, and what was sent for it.
    seconds_statistics, seconds_strategy, seconds_migration, seconds_warm_up : float
        Gathering the load database, the strategy, moving the objects, and what the first
        iterations took beyond those that followed.
    seconds : float
        Of the whole balancing by the clock, on the rank where it took longest.
    cost : float
        The same, or the sum of its parts where that is more, and the warm-up.
    gain : float
        What the balancing has saved since: longest rank under the placement before it, with the
        loads that were measured, less that under its own.
    iterations : int
        In so many iterations.
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
    seconds: float = NAN
    cost: float = 0.0
    gain: float = NAN
    iterations: int = 0

    def __post_init__(self) -> None:
        self.until = max(self.until, self.iteration)

    def __eq__(self, other: object) -> bool:
        """Whether every field is the same to the bit; figures that are not known are alike."""
        return isinstance(other, Receipt) and str(asdict(self)) == str(asdict(other))

    __hash__ = None  # type: ignore[assignment]

    @property
    def balanced(self) -> bool:
        """Whether the decision was to balance."""
        return self.choice == "balance"

    @property
    def max_over_mean(self) -> float:
        """Of the iteration; 1 where there is no load."""
        return self.max / self.mean if self.mean > 0 else 1.0

    @property
    def tau(self) -> float:
        """Ideal period in iterations that the trigger computed; nan where it computes none."""
        return self.figures.get("tau", NAN)

    @property
    def reductions(self) -> Reductions:
        """Percent of the idle times that were gone in the iterations since (Dasgupta eq. 5)."""
        return Reductions(
            reduction(self.realised_idle_mean, self.idle_mean),
            reduction(self.realised_idle_max, self.idle_max),
        )

    @property
    def step_seconds(self) -> float:
        """Seconds of the balancing itself: its cost without the slower first iterations."""
        warm_up = self.seconds_warm_up
        return self.cost if math.isnan(warm_up) else self.cost - warm_up

    @property
    def net(self) -> float:
        """Seconds: gain less cost."""
        return self.gain - self.cost

    def __repr__(self) -> str:
        after = f"<Receipt: after iteration {self.iteration}, {self.choice}"
        if not self.balanced:
            return f"{after}: {self.reason}>"
        saved = "" if math.isnan(self.gain) else f", saved {console.seconds(self.gain)}"
        return (
            f"{after} with {self.strategy}: max/mean {self.before:.4g} -> {self.predicted:.4g}, "
            f"{self.migrations} migrations, cost {console.seconds(self.cost)}{saved}>"
        )

    def _repr_html_(self) -> str:
        from pylb.show import thumbnail

        return thumbnail.of_receipt(self)

    def explain(self) -> str:
        """The decision in sentences."""
        return sentences.explain(self)

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, and max_over_mean."""
        return {**asdict(self), "max_over_mean": self.max_over_mean}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Receipt:
        """What `to_dict` gave."""
        fields = {k: v for k, v in given.items() if k != "max_over_mean"}
        fields["alternatives"] = tuple(Alternative(**a) for a in fields["alternatives"])
        fields["speed"] = tuple(fields.get("speed", ()))
        return cls(**fields)


class History(list[Receipt]):
    """The receipts of a run, first to last: a list that shows itself as a table.

    Examples
    --------
    >>> lb.history  # in a notebook, or print(lb.history)
    >>> lb.history.balancings[0].explain()
    >>> lb.history.table().groupby("strategy").gain.sum()
    """

    @overload
    def __getitem__(self, index: SupportsIndex) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> History: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Receipt | History:
        """One receipt, or the history of a slice."""
        found = super().__getitem__(index)
        return History(found) if isinstance(found, list) else found

    @property
    def balancings(self) -> History:
        """Those that balanced."""
        return History(r for r in self if r.balanced)

    def table(self) -> pd.DataFrame:
        """A pandas DataFrame, a row each: the fields, and the trigger's figures by their names.

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
        """A row of `COLUMNS` each; None where there is nothing to say."""
        for r in self:
            row = [getattr(r, name) for name in COLUMNS]
            if r.balanced:
                row[1] = None
            else:
                row[5:11] = [None] * 6
            yield [None if isinstance(x, float) and math.isnan(x) else x for x in row]

    def __str__(self) -> str:
        out = io.StringIO()
        console.show([name.replace("_over_", "/") for name in COLUMNS], self.rows(), file=out)
        return out.getvalue()

    def _repr_html_(self) -> str:
        return console.html([name.replace("_over_", "/") for name in COLUMNS], self.rows())
