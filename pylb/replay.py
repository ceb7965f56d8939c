"""Replay: a recorded run under other placements."""

from __future__ import annotations

import dataclasses
import functools
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
from pylb.machine import Network
from pylb.optimum import Optimum, regret
from pylb.receipts import Alternative, History, Receipt
from pylb.snapshot import F64, I32
from pylb.strategies import Strategy, find
from pylb.triggers import Cycle, Trigger, make

if TYPE_CHECKING:
    from pylb.trace import Trace


FEW_TIMES = 1 << 16  # of ranks in phases that are kept, also where there are fewer tasks


class Row(NamedTuple):
    """A decision, as the C core tells it (csrc/explore/replay.h)."""

    phase: int
    reason: str
    before: float
    after: float
    migrations: int
    bytes: int
    seconds: float
    cost: float
    applied: bool
    figures: dict[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """A run as it would have been.

    Attributes
    ----------
    metrics : dict of (m,) float64 arrays
        Every metric of `pylb.Metrics` by name, for each phase.
    decisions : History
        A receipt for each balancing, with what it saved.
    rank : (tasks,) int32
        Where each task ran, in the order of ``trace.task_rank``.
    strategy, trigger : str
        Trigger: empty where there was none.
    foresight : bool
    trace : Trace
        The run, with the speeds and background that it was replayed with.
    network : Network
        What messages cost in it.
    seed : int
    rows : list of Row
        The decisions as the C core tells them: less than a receipt says, and at once.
    """

    metrics: dict[str, F64]
    rank: I32
    strategy: str
    trigger: str
    foresight: bool
    trace: Trace
    network: Network
    seed: int
    rows: list[Row]
    _times: F64 | None = None

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
        return math.fsum(row.cost for row in self.rows)

    @property
    def time(self) -> float:
        """Seconds of the whole run: phases and balancings."""
        return self.iteration_seconds + self.balancing_seconds

    @property
    def balancings(self) -> History:
        """The decisions that were applied."""
        return History(r for r in self.decisions if r.moved)

    @functools.cached_property
    def decisions(self) -> History:
        """A receipt for each balancing; that of the last phase's end is not applied."""
        return History(receipt(self, i) for i in range(len(self.rows)))

    @property
    def balanced_after(self) -> list[int]:
        """Phases at whose end a balancing was applied; -1: before the first."""
        return [row.phase - self.foresight for row in self.rows if row.applied]

    @functools.cached_property
    def rank_times(self) -> F64:
        """Seconds of each rank in each phase, (m, p), without those of messages."""
        t = self.trace
        if self._times is not None:
            return self._times
        out = np.empty((t.n_phases, t.n_ranks))
        for i, (first, end) in enumerate(pairwise(t.task_ptr.tolist())):
            out[i] = np.bincount(self.rank[first:end], t.task_load[first:end], t.n_ranks)
        if t.speed is not None:
            out /= t.speed
        return out if t.background is None else t.background + out

    @property
    def migrations(self) -> int:
        """Objects moved, in all balancings that were applied."""
        return sum(row.migrations for row in self.rows if row.applied)

    @property
    def bytes(self) -> int:
        """Bytes that those migrations sent."""
        return sum(row.bytes for row in self.rows if row.applied)

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
            f"{self.balancing_seconds:.4g} s{mean}, {len(self.balanced_after)} balancings, "
            f"{self.migrations} migrations>"
        )

    def _repr_html_(self) -> str:
        from pylb.show import thumbnail

        return thumbnail.figure(thumbnail.of_replay(self), repr(self))


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
        eq. 3.6); they are added to the time of that rank, and a strategy that has parameters of
        these names is told, where they are not both zero.
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
    values = [] if entry.call else entry.values({**_told(entry, alpha, beta), **params})
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
    few = trace.n_phases * trace.n_ranks <= max(len(trace.task_load), FEW_TIMES)
    rank, times, metrics, decisions = _core.replay(
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
        few,
    )
    return Replay(
        metrics=metrics,
        rank=trace.task_rank if rank is None else rank,
        strategy=entry.name,
        trigger="" if when is None else f"every {every}" if every else when.name,
        foresight=foresight,
        trace=trace,
        network=Network(alpha, beta),
        seed=seed,
        rows=[Row(*row) for row in decisions],
        _times=times,
    )


def _told(entry: Strategy, alpha: float, beta: float) -> dict[str, float]:
    """What messages cost, for a strategy that can take it into account."""
    known = {param.name for param in entry.params}
    return {"alpha": alpha, "beta": beta} if alpha + beta > 0 and {"alpha", "beta"} <= known else {}


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


# ---- receipts -------------------------------------------------------------------------------


def receipt(run: Replay, index: int) -> Receipt:
    """The receipt of balancing number `index` of a replay."""
    most, mean = run.metrics["max"], run.metrics["mean"]
    row = run.rows[index]
    end = run.rows[index + 1].phase if index + 1 < len(run.rows) else len(most)
    # the phases that ran under the placement that it made
    first = row.phase + (not run.foresight)
    last = end + (not run.foresight) if end < len(most) else end
    since = slice(first, min(last, len(most)))
    seen = mean[row.phase]
    out = Receipt(
        iteration=row.phase - run.foresight,
        choice="balance",
        reason=row.reason,
        trigger=run.trigger,
        strategy=run.strategy,
        seed=run.seed,
        max=row.before * seen,
        mean=seen,
        left=len(most) - first,
        figures=row.figures,
        alternatives=(
            Alternative("", 0.0, 0.0),
            Alternative(run.strategy, max(row.before - row.after, 0.0) * seen, row.figures["cost"]),
        ),
        moved=row.applied,
        before=row.before,
        predicted=row.after,
        migrations=row.migrations,
        bytes=row.bytes,
        seconds_strategy=row.seconds,
        cost=row.cost,
    )
    if row.applied and since.start < since.stop:
        out.gain = float(_under_the_placement_before(run, row.phase, since) - most[since].sum())
        out.iterations = since.stop - since.start
        total = mean[since].sum()
        out.realised = float(most[since].sum() / total) if total > 0 else 1.0
    return out


def _under_the_placement_before(run: Replay, phase: int, since: slice) -> float:
    """Seconds of those phases, had the balancing of `phase` not been.

    Objects that had no task then are where they were.
    """
    t = run.trace
    before = np.full(t.n_entities, -1, np.int32)
    seen = phase - 1 if run.foresight else phase
    if seen < 0:  # nothing had run: where they were recorded
        tasks = slice(0, int(t.task_ptr[1]))
        before[t.task_entity[tasks]] = t.task_rank[tasks]
    else:
        tasks = slice(int(t.task_ptr[seen]), int(t.task_ptr[seen + 1]))
        before[t.task_entity[tasks]] = run.rank[tasks]
    tasks = slice(int(t.task_ptr[since.start]), int(t.task_ptr[since.stop]))
    entity, k, p = t.task_entity[tasks], since.stop - since.start, t.n_ranks
    rank = np.where(before[entity] < 0, run.rank[tasks], before[entity])
    row = np.repeat(np.arange(k), np.diff(t.task_ptr[since.start : since.stop + 1]))
    times: Any = np.bincount(row * p + rank, t.task_load[tasks], k * p).reshape(k, p)
    times = times if t.speed is None else times / t.speed
    times = times if t.background is None else times + t.background
    if any(run.network):
        times = times + _messages(run, since, row * t.n_entities + entity, rank)
    return float(times.max(axis=1).sum())


def _messages(run: Replay, since: slice, where: Any, rank: I32) -> F64:
    """Seconds of what each rank sends to others in each of the phases, (k, p).

    where: phase and entity of each task, as one number; rank: of each task.
    """
    t = run.trace
    known = np.full(
        (since.stop - since.start) * t.n_entities, -1, np.int32
    )  # rank of each entity in each phase
    known[where] = rank
    edges = slice(int(t.edge_ptr[since.start]), int(t.edge_ptr[since.stop]))
    k, p = since.stop - since.start, t.n_ranks
    row = np.repeat(np.arange(k), np.diff(t.edge_ptr[since.start : since.stop + 1]))
    source, target = (known[row * t.n_entities + e[edges]] for e in (t.edge_src, t.edge_dst))
    leaves = (source != target) & (source >= 0) & (target >= 0)
    at = (row * p + source)[leaves]
    messages = np.bincount(at, t.edge_messages[edges][leaves], k * p)
    nbytes = np.bincount(at, t.edge_bytes[edges][leaves], k * p)
    seconds: F64 = (run.network.alpha * messages + run.network.beta * nbytes).reshape(k, p)
    return seconds
