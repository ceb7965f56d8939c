"""Replay: a recorded run under other placements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DomainError
from pylb.optimum import Optimum, regret
from pylb.snapshot import F64, I32
from pylb.strategies import Strategy, find
from pylb.triggers import Cycle, Trigger, make

if TYPE_CHECKING:
    from pylb.trace import Trace


class Decision(NamedTuple):
    """One balancing of a replay.

    Attributes
    ----------
    phase : int
        Index of the phase whose loads the strategy saw.
    reason : str
        Why the trigger asked for it.
    before, after : float
        max/mean of that phase's iteration times, under the placement before and after.
    migrations, bytes : int
        Objects that change their rank, and what that sends; 0 bytes where no sizes were recorded.
    seconds : float
        Time that the strategy took.
    cost : float
        Seconds that the balancing adds to the run.
    applied : bool
        False at the end of the last phase: nothing comes after it, and it costs nothing.
    """

    phase: int
    reason: str
    before: float
    after: float
    migrations: int
    bytes: int
    seconds: float
    cost: float
    applied: bool


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """A run as it would have been.

    Attributes
    ----------
    metrics : dict of (m,) float64 arrays
        Every metric of `pylb.Metrics` by name, for each phase.
    decisions : list of Decision
    rank : (tasks,) int32
        Where each task ran, in the order of ``trace.task_rank``.
    strategy, trigger : str
        Trigger: empty where there was none.
    foresight : bool
    trace : Trace
        The run, with the speeds and background that it was replayed with.
    """

    metrics: dict[str, F64]
    decisions: list[Decision]
    rank: I32
    strategy: str
    trigger: str
    foresight: bool
    trace: Trace

    @property
    def iteration_time(self) -> F64:
        """Seconds of each phase, (m,): of its slowest rank."""
        return self.metrics["max"]

    @property
    def iteration_seconds(self) -> float:
        """Seconds of all phases together."""
        return float(self.iteration_time.sum())

    @property
    def balancing_seconds(self) -> float:
        """Seconds that the balancings cost."""
        return math.fsum(d.cost for d in self.decisions)

    @property
    def time(self) -> float:
        """Seconds of the whole run: phases and balancings."""
        return self.iteration_seconds + self.balancing_seconds

    @property
    def balancings(self) -> list[Decision]:
        """The decisions that were applied."""
        return [d for d in self.decisions if d.applied]

    @property
    def balanced_after(self) -> list[int]:
        """Phases at whose end a balancing was applied; -1: before the first."""
        return [d.phase - self.foresight for d in self.balancings]

    @property
    def rank_times(self) -> F64:
        """Seconds of each rank in each phase, (m, p), without those of messages."""
        t = self.trace
        out = np.empty((t.n_phases, t.n_ranks))
        for i, (first, end) in enumerate(pairwise(t.task_ptr.tolist())):
            out[i] = np.bincount(self.rank[first:end], t.task_load[first:end], t.n_ranks)
        if t.speed is not None:
            out /= t.speed
        return out if t.background is None else t.background + out

    @property
    def migrations(self) -> int:
        """Objects moved, in all balancings that were applied."""
        return sum(d.migrations for d in self.balancings)

    @property
    def bytes(self) -> int:
        """Bytes that those migrations sent."""
        return sum(d.bytes for d in self.balancings)

    def speedup_over(self, other: Replay) -> float:
        """time of `other` / time of this run; 1 where neither takes any time."""
        if other.time == self.time:
            return 1.0
        return other.time / self.time if self.time > 0 else math.inf

    def regret(self, best: Optimum) -> float:
        """Time beyond that of the best schedule, as a part of the latter: 0.02 is 2 % slower."""
        return regret(self.time, best)

    def __repr__(self) -> str:
        by = f"{self.strategy}, {self.trigger}" if self.trigger else "recorded placement"
        ratio = self.metrics["max_over_mean"]
        mean = f", mean max/mean {ratio.mean():.4g}" if len(ratio) else ""
        return (
            f"<Replay by {by}: {len(ratio)} phases in {self.time:.4g} s, of it balancing "
            f"{self.balancing_seconds:.4g} s{mean}, {len(self.balancings)} balancings, "
            f"{self.migrations} migrations>"
        )


def replay(
    trace: Trace,
    strategy: str | Strategy | Callable[..., Any] = "BestFitLB",
    *,
    every: int | None = None,
    trigger: str | Trigger | Callable[[Cycle], bool] | None = None,
    cost: float | None = None,
    migration_alpha: float = 0.0,
    migration_beta: float = 0.0,
    alpha: float = 0.0,
    beta: float = 0.0,
    foresight: bool = False,
    speed: ArrayLike | None = None,
    background: ArrayLike | None = None,
    seed: int = 0,
    **params: Any,
) -> Replay:
    """Run through the phases of a recorded run under the placements of a strategy.

    A balancing at the end of phase i sees the loads of phase i and holds from phase i + 1 on.
    Until the first one every entity is where it was recorded; one that appears later starts where
    it was recorded; one that may not migrate is always there.

    Parameters
    ----------
    trace : Trace
    strategy : str or callable
        As in `pylb.place`.  ``"none"`` never balances: the placement is the recorded one.
    every : int, optional
        Phases from one balancing to the next.
    trigger : str, callable or Trigger, optional
        A name of `pylb.triggers()`, a function of a `Cycle`, or a fresh one of
        `pylb.triggers.make`; it is told the number of phases, and `cost`.  Exactly one of `every`
        and `trigger` is given, unless the strategy is ``"none"``.
    cost : float, optional
        Seconds that each balancing costs.  Default: what the strategy took here, plus
        ``migration_alpha`` seconds for each object moved and ``migration_beta`` for each byte.
    migration_alpha, migration_beta : float
        Seconds per migration and per byte.
    alpha, beta : float
        Seconds per message and per byte that a rank sends to other ranks in a phase (Menon
        eq. 3.6); they are added to the time of that rank.
    foresight : bool
        Balance at the start of the phase with the phase's own loads, as with a perfect
        prediction, instead of at its end.
    speed, background : (p,) array of float, optional
        Of the ranks, instead of what the trace has.
    seed : int
        For strategies that draw random numbers.
    **params
        The strategy's own.

    Returns
    -------
    Replay

    Raises
    ------
    UnknownStrategyError, DomainError
        No such strategy, trigger or parameter, or a value out of its domain.
    InfeasibleError, StrategyError
        The strategy found no placement, raised, or returned none.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=5)
    >>> run.time, run.speedup_over(trace.replay("none"))
    """
    entry = find(strategy)
    values = [] if entry.call else entry.values(params)
    for name, value in [
        ("cost", cost),
        ("migration_alpha", migration_alpha),
        ("migration_beta", migration_beta),
        ("alpha", alpha),
        ("beta", beta),
    ]:
        _check_seconds(name, value)
    when = _trigger(entry, every, trigger)
    trace = _with(trace, speed, background)
    rank, metrics, decisions = _core.replay(
        trace,
        entry.bound(params),
        values,
        seed,
        when,
        foresight,
        math.nan if cost is None else cost,
        migration_alpha,
        migration_beta,
        alpha,
        beta,
    )
    return Replay(
        metrics=metrics,
        decisions=[Decision(*row) for row in decisions],
        rank=rank,
        strategy=entry.name,
        trigger="" if when is None else f"every {every}" if every else when.name,
        foresight=foresight,
        trace=trace,
    )


def _trigger(entry: Strategy, every: int | None, trigger: Any) -> Trigger | None:
    if entry.name == "none" and every is None and trigger is None:
        return None
    if every is None and isinstance(trigger, Trigger):
        when = trigger
    else:
        when = make(every=every, trigger=trigger)
    return None if entry.name == "none" else when


def _check_seconds(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, Real) and 0 <= float(value) < math.inf):
        raise DomainError(f"{name} is {value!r}: expected seconds, zero or more")


def _with(trace: Trace, speed: ArrayLike | None, background: ArrayLike | None) -> Trace:
    given: dict[str, Any] = {
        name: _of_ranks(name, value, trace.n_ranks)
        for name, value in [("speed", speed), ("background", background)]
        if value is not None
    }
    return dataclasses.replace(trace, **given) if given else trace


def _of_ranks(name: str, value: ArrayLike, n_ranks: int) -> F64:
    try:
        out = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as why:
        raise DomainError(f"{name}: expected {n_ranks} numbers; {why}") from None
    if out.shape != (n_ranks,):
        raise DomainError(f"{name} has shape {out.shape}: expected ({n_ranks},)")
    return out
