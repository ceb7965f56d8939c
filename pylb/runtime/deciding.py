"""What is decided, and why: trigger, ledger and choice of a strategy behind one another.

Everything here follows from figures that all ranks hold with the same bits, so they decide alike.
"""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

from pylb import _core
from pylb.receipts import Alternative, History, Receipt
from pylb.runtime.choosing import Chooser, Chosen
from pylb.runtime.migration import Outcome
from pylb.runtime.transport import Stats
from pylb.sentences import seconds
from pylb.snapshot import F64
from pylb.triggers import Trigger

LEDGER = _core.ledger()
WARMED_UP = 6  # iterations after a balancing, when the ledger knows what the first ones cost
ASKED_FOR = ("periodic", "python")  # triggers by which the user says when, not whether it pays
log = logging.getLogger("pylb")


class Since(NamedTuple):
    """Iterations since the last balancing, and the sums of their maxima, means and minima."""

    n: int = 0
    max: float = 0.0
    mean: float = 0.0
    min: float = 0.0


class Decider:
    """When to balance, and with what.

    Parameters
    ----------
    trigger : Trigger
        Fresh.
    chooser : Chooser
    seed : int
    gives_up : bool
        Whether balancing that does not pay is switched off.
    speaks : bool
        Whether it says so: on one rank.

    Attributes
    ----------
    history : History
        The receipts so far; `settle` brings the last one up to date.
    """

    def __init__(
        self, trigger: Trigger, chooser: Chooser, *, seed: int, gives_up: bool, speaks: bool
    ) -> None:
        self.trigger = trigger
        self.chooser = chooser
        self.history = History()
        self._seed = seed
        self._gives_up = gives_up
        self._speaks = speaks
        self._ledger = _core.Ledger(len(chooser.strategies), [row[1] for row in LEDGER])
        self._index = {s.name: i for i, s in enumerate(chooser.strategies)}
        self._left: dict[str, float] = {}  # max/mean that a strategy left the last time
        self._end: int | None = None
        self._last: Receipt | None = None  # of the last balancing
        self._since = Since()
        self._held: dict[tuple[str, str], Receipt] = {}  # of this cycle
        self._seen = (0, math.nan, math.nan)  # iteration, max, mean

    @property
    def last(self) -> Receipt | None:
        """The receipt of the last balancing."""
        return self._last

    @property
    def foresees(self) -> bool:
        """Whether the trigger is to be told what a first balancing may cost."""
        return self.trigger.name not in ASKED_FOR and self._last is None

    def expect(self, end: int | None, cost: float = math.nan) -> None:
        """The number behind the last iteration, None where it is not known; seconds that a first
        balancing may cost.
        """
        self._end = end
        self.trigger.expect(end, cost)

    def observe(self, iteration: int, stats: Stats) -> bool:
        """An iteration is over; whether the trigger asks for a balancing."""
        mean = stats.load_sum / stats.n_ranks
        self.chooser.observe(stats)
        self._ledger.observe(stats.time_max, stats.load_max, mean)
        self._note(iteration, (stats.load_max, mean), (stats.load_max, mean, stats.load_min))
        asked = self.trigger.observe(iteration, stats.load_max, mean)
        if self.trigger.considered:
            self._hold("hold", self.trigger.reason)
        return asked

    def catch_up(self, end: int, rows: F64, n_ranks: int) -> None:
        """Iterations up to `end` - 1 are over, and the trigger knows of them.

        rows: (m, 7), as of `_core.AtSync.rows`.  The choice of a strategy rests on the last one.
        """
        if not len(rows):
            return
        _, most, mean, _, utilization, least, _ = rows[-1].tolist()
        nothing = Stats._make([0] * len(Stats._fields))
        self.chooser.observe(
            nothing._replace(
                n_ranks=n_ranks,
                load_max=most,
                load_min=least,
                load_sum=mean * n_ranks,
                utilization_min=utilization,
            )
        )
        self._ledger.catch_up(rows)
        _, maxima, means, _, _, minima, _ = rows.sum(axis=0).tolist()
        self._note(end - 1, (most, mean), (maxima, means, minima), len(rows))

    def _note(
        self,
        iteration: int,
        last: tuple[float, float],
        sums: tuple[float, float, float],
        n: int = 1,
    ) -> None:
        """The ledger knows of n more iterations: maximum and mean of the last, their sums."""
        self._seen = (iteration, *last)
        before = self._since.n
        most, mean, least = (a + b for a, b in zip(self._since[1:], sums, strict=True))
        self._since = Since(n + before, most, mean, least)
        if self._last is not None and before < WARMED_UP <= self._since.n:
            self._warmed_up(self._last)

    def judges(self, asked: bool) -> bool:
        """Whether `judge` is to be called now, with what the last balancing has saved."""
        return self._gives_up and self._ledger.judges(self._seen[0], asked)

    def judge(self, gain: float) -> None:
        """The last balancing has saved that many seconds up to now."""
        was_off = self._ledger.state()["off"]
        self._ledger.judge(self._seen[0], gain)
        if self._speaks and self._ledger.state()["off"] != was_off:
            log.warning("pylb: after iteration %d: %s", self._seen[0], self._books())

    def allows(self, asked: bool) -> bool:
        """Whether a balancing that the trigger asks for takes place."""
        if not asked or not self._gives_up or self._ledger.allows(self._seen[0]):
            return asked
        self._hold("off", self._books())
        return False

    def repays(self, gain: float) -> bool:
        """Whether so many seconds an iteration would repay a balancing like the last one."""
        iteration = self._seen[0]
        left = iteration + 1 if self._end is None else self._end - iteration - 1
        return self._last is not None and gain * left > self._last.cost

    def _books(self) -> str:
        books = self._ledger.state()
        if not books["off"]:
            return "balancing pays again, and is switched on"
        spent = f"balancings cost {seconds(books['paid'])} and saved {seconds(books['gained'])}"
        return f"{spent} lately: switched off until iteration {books['until']}"

    # ---- receipts ----------------------------------------------------------------------------

    def _receipt(self, choice: str, reason: str) -> Receipt:
        iteration, most, mean = self._seen
        state = self.trigger.state()
        figures = {k: v for k, v in state.items() if isinstance(v, float)}
        return Receipt(
            iteration=iteration,
            choice=choice,
            reason=reason,
            trigger=self.trigger.name,
            seed=self._seed,
            max=most,
            mean=mean,
            left=math.inf if self._end is None else max(self._end - iteration - 1, 0),
            figures=figures,
            alternatives=self._alternatives(figures),
        )

    def _alternatives(self, figures: dict[str, float]) -> tuple[Alternative, ...]:
        _, most, mean = self._seen
        out = [Alternative("", 0.0, 0.0)]
        for name, i in self._index.items():
            cost = self._ledger.theta(i)
            left = self._left.get(name, math.nan)
            if math.isnan(left):  # what balancing could not remove so far
                left = figures.get("residual", math.nan)
            gain = most - (1.0 if math.isnan(left) else left) * mean
            out.append(Alternative(name, max(gain, 0.0), cost))
        return tuple(out)

    def _hold(self, choice: str, reason: str) -> None:
        """One receipt in a cycle for each reason, so that they stay few."""
        held = self._held.get((choice, reason))
        if held is None:
            held = self._held[choice, reason] = self._receipt(choice, reason)
            self.history.append(held)
        else:
            held.until = self._seen[0]
            held.times += 1

    def balance(self, reason: str = "") -> tuple[Receipt, Chosen]:
        """The receipt of a balancing that is to come, and what it takes.

        reason: of the trigger when it decided, where that was earlier.
        """
        chosen = self.chooser.choose()
        receipt = self._receipt("balance", reason or self.trigger.reason)
        receipt.strategy = chosen.strategy.name
        receipt.why = chosen.why
        return receipt, chosen

    def balanced(
        self, receipt: Receipt, chosen: Chosen, outcome: Outcome, moved: bool = True
    ) -> None:
        """That balancing took place."""
        self.settle()
        for name, value in outcome._asdict().items():
            setattr(receipt, name, value)
        receipt.moved = moved
        instead = None if math.isnan(outcome.passed_over) else chosen.instead
        if instead is not None:
            receipt.strategy = instead.name
            receipt.why += f"; {instead.name} leaves no more and moves fewer objects"
        name = receipt.strategy
        i = self._index[name]
        self._ledger.balanced(
            receipt.iteration,
            i,
            outcome.seconds_statistics,
            outcome.seconds_strategy,
            outcome.seconds_migration,
            outcome.cost,
        )
        receipt.cost = self._ledger.state()["cost"]
        if instead is not None:  # so the chosen one is known too
            self.chooser.balanced(
                chosen.strategy.name,
                outcome.before_with_messages,
                outcome.passed_over,
                receipt.cost,
                outcome.migrations,
            )
        self.chooser.balanced(
            name,
            outcome.before_with_messages,
            outcome.predicted_with_messages,
            receipt.cost,
            outcome.migrations,
        )
        self.trigger.balanced(receipt.iteration, receipt.cost, outcome.predicted)
        self._left[name] = outcome.predicted
        self.history.append(receipt)
        self._last = receipt
        self._since = Since()
        self._held = {}

    def _warmed_up(self, receipt: Receipt) -> None:
        """The first iterations since the last balancing belong to its cost."""
        receipt.seconds_warm_up = self._ledger.state()["warm_up"]
        receipt.cost += receipt.seconds_warm_up
        theta = self._ledger.theta(self._index[receipt.strategy])
        self.trigger.expect(self._end, theta)

    def settle(self) -> None:
        """What max/mean and the idle times were since the last balancing."""
        last, since = self._last, self._since
        if last is None or since.n == 0:
            return
        if since.mean > 0:
            last.realised = since.max / since.mean
        last.realised_idle_mean = (since.max - since.mean) / since.n
        last.realised_idle_max = (since.max - since.min) / since.n
