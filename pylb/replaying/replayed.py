"""Replay a recorded run with different decisions; the best schedule of its LB steps."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.console import InNotebook, count
from pylb.decide.decider import (
    Settings,
    StrategyLike,
    TriggerLike,
    learns,
    registered,
    settings,
)
from pylb.decide.receipts import History
from pylb.decide.registry import triggers
from pylb.decide.sentences import OWN
from pylb.errors import DomainError, suggesting
from pylb.io.phases import Phases, check_trace
from pylb.io.run_record import OF_RANKS, Loop, RunFacts, Stretch
from pylb.model import checks
from pylb.model.machine import (
    BEFORE,
    Links,
    NetworkLike,
    Sharing,
    as_before,
    fractions,
    spans,
)
from pylb.model.metrics import Metrics
from pylb.model.network import Network
from pylb.model.snapshot import F64, I32
from pylb.placing.registry import Strategy, find, with_network
from pylb.replaying.trace_conversion import one_phase, stretch_of


def feed(core: Any, trace: Phases, first: int, last: int) -> None:
    """Run the phases `first` to `last` - 1, which are in one loop.

    A decision uses the objects that exist just before it, if the record lists them
    (`RunFacts.remaining`), otherwise those of the next phase.
    """
    listed = trace.recorded.remaining if trace.recorded and not is_advised(trace) else {}
    ends = {i for i in listed if first < i < last}
    cuts = sorted({first, last, *ends, *(i for i in _changes(trace) if first < i < last)})
    for begin, end in itertools.pairwise(cuts):
        core.feed(trace if end - begin == len(trace) else trace[begin:end])
        if end in ends:
            settle(core, trace, end, True)


def is_advised(trace: Phases) -> bool:
    """Say whether an `Advisor` recorded the run, and placed cells with keys."""
    known = {} if trace.recorded is None else trace.recorded.parameters
    return bool(known.get("advisor")) and known.get("strategy") != OWN and _is_keyed(trace)


def _changes(trace: Phases) -> set[int]:
    """Return the phases before which the user's functions returned new properties of the ranks."""
    answers = trace.recorded.answers[1:] if trace.recorded else []
    return {moment // 2 for moment, _ in answers}


def start(core: Any, trace: Phases, first: int) -> None:
    """If the loop begins with an LB step, start this LB step with the objects in the record."""
    if trace.recorded and (objects := trace.recorded.starting.get(first)) is not None:
        core.settle(_listed(trace, objects, 2 * first + 1), False, True)


def _listed(trace: Phases, objects: Stretch, moment: int) -> Phases:
    """Return a trace of one phase, in which these objects exist; for `moment` see `ranks_at`."""
    facts = {name: getattr(trace, name) for name in (*OF_RANKS, "node", "near")}
    if trace.recorded and trace.recorded.answers:
        facts |= trace.recorded.ranks_at(moment)
    phase = one_phase(trace.n_ranks, objects, trace, facts)
    return phase if trace.task_seconds is not None else replace(phase, task_seconds=None)


def settle(core: Any, trace: Phases, end: int, early: bool) -> None:
    """Decide after `end` phases, with the objects that exist then.

    `early` says whether the loop has more planned iterations.  If so, and if the record does not
    list the objects, the replay decides when it gets the next phase, if there is one.
    """
    left = trace.recorded.remaining.get(end) if trace.recorded else None
    if left is None and early and end in _changes(trace):
        left = stretch_of(trace, end - 1)
    if left is not None:
        core.settle(_listed(trace, left, 2 * end), early)
    elif not early or end == trace.n_phases:
        core.settle(None, early)


def loops(trace: Phases) -> list[tuple[Loop, int]]:
    """Return the loops of the run, each with the index of its last phase, plus 1."""
    loops = trace.recorded.loops if trace.recorded else []
    if is_advised(trace):  # in a program with its own loop, the number of steps is not known
        loops = [loop if loop.n else loop._replace(n=OPEN) for loop in loops]
    if len(loops) < 2:
        loops = [loop._replace(n=max(loop.n, trace.n_phases)) for loop in loops]
        loops = loops or [Loop(0, trace.n_phases)]
    return list(zip(loops, [*(int(loop.first) for loop in loops[1:]), trace.n_phases], strict=True))


@dataclass(frozen=True)
class Prices:
    """The costs of one replay."""

    trace: Phases
    cost: float | None  # seconds of each LB step
    tell: bool  # whether the decider knows the expected cost of the first LB step
    given: tuple[float, float]  # (alpha, beta) of messages; (0, 0): the user gave none
    moves: tuple[float, float]  # seconds per migration, and per byte that migrates

    @functools.cached_property
    def recorded(self) -> RunFacts:
        return self.trace.recorded or RunFacts()

    def _known(self, name: str) -> float:
        """Return the most recent value that the run measured for this field of `Loop`, or nan."""
        known = [getattr(loop, name) for loop in self.recorded.loops]
        return next((x for x in reversed(known) if not math.isnan(x)), math.nan)

    @functools.cached_property
    def measured(self) -> tuple[float, float] | None:
        """(alpha, beta) as the recorded run measured them, if it did."""
        known = self._known("alpha"), self._known("beta")
        return None if any(map(math.isnan, known)) else known

    def network(self, chooses: bool) -> tuple[float, float]:
        """Return (alpha, beta) of the user; if there are none and `chooses`, the measured ones."""
        return (None if any(self.given) or not chooses else self.measured) or self.given

    @functools.cached_property
    def _network(self) -> tuple[float, float]:
        return self.measured or (self.given if any(self.given) else (0.0, copy_speed()))

    def model(self) -> tuple[float, float, float, float, float]:
        """Return (alpha, beta, steps, handling, pace), the cost model of LB steps; see `Loop`."""
        pace = self.recorded.loops[0].pace if self.recorded.loops else 1.0
        # `steps`, the seconds of an LB step without its strategy and its migration: the median of
        # the recorded LB steps, or what was measured before the first one.
        rests = [
            max(rest, r.seconds_statistics)
            for r in self.recorded.history.lb_steps
            if r.moved and (rest := r.seconds - r.seconds_strategy - r.seconds_migration) == rest
        ]
        known = float(np.median(rests)) if rests else self._known("steps"), self._known("handling")
        steps, handling = (0.0 if math.isnan(x) else x for x in known)
        return *self._network, steps, handling, pace

    def foreseen(self, loop: Loop, given: Settings | None) -> tuple[float, float]:
        """Return the cost of a first LB step, and the part for objects that move; nan: unknown."""
        if given is None or not self.tell:
            return math.nan, math.nan
        if self.cost is not None:
            return float(self.cost), math.nan
        advised = is_advised(self.trace)
        # see `DecidingMode._foresee`
        if (advised and not given.selects) or not given.foresees:
            return math.nan, math.nan
        if not math.isnan(loop.cost) or loop.first > 0:
            return loop.cost, loop.moving
        cost = self._first_cost()
        return cost, math.nan if advised else cost

    def _first_cost(self) -> float:
        """Return the cost of an LB step in which all objects of the first phase migrate.

        It is nan if the recorded run did not measure the time to pack an object.
        """
        t = self.trace
        handling = self._known("handling") if self.recorded.loops else 0.0
        if t.n_phases == 0 or math.isnan(handling):
            return math.nan
        first = slice(0, int(t.task_ptr[1]))
        n = np.bincount(t.task_rank[first], minlength=t.n_ranks)
        weights = np.zeros(first.stop) if t.task_bytes is None else t.task_bytes[first]
        nbytes = np.bincount(t.task_rank[first], weights, t.n_ranks)
        slowest = max(
            _core.first_cost(*self._network, handling, int(k), int(b), t.n_ranks)
            for k, b in zip(n.tolist(), nbytes.tolist(), strict=True)
        )
        return slowest + self.moves[0] * first.stop + self.moves[1] * float(weights.sum())

    def steps(self, given: Settings | None) -> list[tuple[Any, ...]]:
        """Return the LB steps that the recorded run measured, as arguments for the C core."""
        names = [s.name for s in given.strategies] if given else []
        return [
            (
                *(r.iteration, names.index(r.strategy), r.migrations, r.nbytes),
                *(r.seconds_statistics, r.seconds_strategy, r.seconds_migration, r.seconds),
                r.seconds_hidden,
            )
            for r in self.recorded.history.lb_steps
            if r.strategy in names and not math.isnan(r.seconds)
        ]


@functools.cache
def copy_speed() -> float:
    """Measure the seconds to copy a byte on this machine; sending a byte takes at least as long."""
    data = np.zeros(1 << 22, np.uint8)
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()  # not pylb's clock, which virtual ranks may have stopped
        data.copy()
        best = min(best, time.perf_counter() - start)
    return best / data.size


OPEN = 1 << 52  # stands for an unknown number of iterations of a loop (csrc/replay/replay.h)
BASELINES = ("none", "unbalanced")


@dataclass(frozen=True, eq=False, repr=False)
class Replay(InNotebook):
    """A replayed run.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=50, cost=0.1)
    >>> run.metrics["max_over_mean"].shape, len(run.decisions)
    ((200,), 3)
    """

    metrics: dict[str, F64]  #: The metrics of `pylb.model.Metrics` by name, for each phase.
    #: (m,) seconds of each phase: the time of its slowest rank, plus the time that the recorded run
    #: spent neither computing nor sending nor waiting.
    iteration_time: F64
    decisions: History  #: A receipt for each decision.
    rank: I32  #: (tasks,) the rank where each task ran, in the order of ``trace.task_rank``.
    #: `trigger` is empty for a baseline.
    strategy: str
    trigger: str
    foresight: bool
    trace: Phases  #: The run, with the speeds and the background of the replay.
    network: Network  #: The cost of messages in the replay.
    seed: int
    rank_times: F64  #: (m, p) seconds of each rank in each phase, without its messages.

    @property
    def iteration_seconds(self) -> float:
        """Seconds of all phases together."""
        return float(self.iteration_time.sum())

    @property
    def lb_seconds(self) -> float:
        """Seconds of the LB steps, without slower iterations after them."""
        return math.fsum(r.step_seconds for r in self.lb_steps)

    @property
    def time(self) -> float:
        """Seconds of the whole run: phases and LB steps."""
        return self.iteration_seconds + self.lb_seconds

    @property
    def lb_steps(self) -> History:
        """The receipts of LB steps."""
        return self.decisions.lb_steps

    @property
    def lb_step_iterations(self) -> list[int]:
        """Phases that ended with an LB step; -1: an LB step before the first phase."""
        return [r.iteration for r in self.lb_steps]

    @property
    def mean_max_over_mean(self) -> float:
        """Sum of the maximum loads of all iterations, divided by the sum of the mean loads."""
        most, mean = (float(self.metrics[name].sum()) for name in ("max", "mean"))
        return most / mean if mean > 0 else 1.0

    @property
    def migrations(self) -> int:
        """Number of migrations in all LB steps."""
        return sum(r.migrations for r in self.lb_steps)

    @property
    def nbytes(self) -> int:
        """Bytes that the migrations of all LB steps send."""
        return sum(r.nbytes for r in self.lb_steps)

    @functools.cached_property
    def unbalanced(self) -> Replay:
        """The replay of the same loads, speeds and network without LB steps."""
        if self.strategy == "unbalanced":
            return self
        return replay(self.trace, "unbalanced", alpha=self.network.alpha, beta=self.network.beta)

    @property
    def saved(self) -> float:
        """Seconds that LB steps have saved: the time of `unbalanced` minus the time of this run."""
        return self.unbalanced.time - self.time

    @functools.cached_property
    def lending_saved(self) -> float:
        """Seconds that `Sharer.share` would save besides, if all objects of a phase were its rows.

        No object is divided, and each byte of the objects takes 2 ns.
        """
        t = self.trace
        alone, sharing = _worked(t, self.rank_times)
        speed = next((s for s in (t.speed, t.measured) if s is not None), np.ones(t.n_ranks))
        load = t.task_load if t.speed is None else t.task_load / t.speed.max()
        phases = [slice(*ends) for ends in itertools.pairwise(t.task_ptr.tolist())]
        fixed = 0.0 if t.background is None else float(t.background.max())
        longest = [float(load[of].max(initial=fixed)) for of in phases]
        nbytes = [0.0 if t.task_bytes is None else float(t.task_bytes[of].sum()) for of in phases]
        times = _core.lending_times(alone, speed, longest, nbytes)
        if sharing is not None:  # cores that ranks share need as long as for balanced work
            even = np.broadcast_to(alone.mean(axis=1, keepdims=True), alone.shape)
            times = np.maximum(times, spans(even, sharing))
        return float(np.maximum(spans(alone, sharing) - times, 0.0).sum())

    def speedup_over(self, other: Replay) -> float:
        """Return time of `other` / time of this run; 1 if both are 0."""
        checks.instance("other", other, Replay)
        if other.time == self.time:
            return 1.0
        return other.time / self.time if self.time > 0 else math.inf

    def regret(self, best: Optimum) -> float:
        """Return the fraction by which this run is slower than the best one found: 0.02 is 2 %."""
        checks.instance("best", best, Optimum)
        return max(regret(self.time, best), 0.0)

    def _bars(self) -> dict[str, Any]:
        both = [self.unbalanced.time, self.time]
        ratio = self.metrics["max_over_mean"]
        return {"seconds without LB steps, and with": both, "max/mean of each phase": ratio}

    def __repr__(self) -> str:
        known = {"none": "as recorded", "unbalanced": "unbalanced"}
        by = f"with {self.strategy}" + f", {self.trigger}" * bool(self.trigger)
        return (
            f"<Replay {known.get(self.strategy, by)}: "
            f"{len(self.iteration_time)} iterations in {self.time:.4g} s, "
            f"LB steps {self.lb_seconds:.4g} s, max/mean {self.mean_max_over_mean:.4g}, "
            f"{count(len(self.lb_step_iterations), 'LB step')}, "
            f"{count(self.migrations, 'migration')}>"
        )


def _worked(t: Phases, times: F64) -> tuple[F64, Sharing]:
    """Return the times of the ranks without waits for a core, and which ranks share cores."""
    sharing = None if t.core_group is None else (t.core_group, t.group_cores)
    return times * fractions(times, sharing if t.waits else None), sharing


def placed(trace: Phases, rank: I32) -> Phases:
    """Return the trace with its tasks on these ranks, and with the seconds that they take there."""
    load, seconds, parts = trace.task_load, trace.task_seconds, trace.task_subphases
    if trace.measured is not None:
        load = load * (trace.measured[trace.task_rank] / trace.measured[rank])
    speed = trace.measured if seconds is None else trace.speed
    if trace.speed is not None and seconds is not None:
        seconds = seconds * (trace.speed[trace.task_rank] / trace.speed[rank])
    if parts is not None and speed is not None:
        parts = parts * (speed[trace.task_rank] / speed[rank])[:, None]
    return replace(
        trace,
        task_rank=rank,
        task_load=load,
        task_seconds=seconds,
        task_subphases=parts,
        measured=None,
        figures=None,
        recorded=None,
    )


@suggesting
def replay(
    trace: Phases,
    strategy: StrategyLike = "auto",
    *,
    every: int | None = None,
    trigger: TriggerLike = None,
    lag: int = 0,
    pause_if_useless: bool | None = None,
    learn_speeds: bool | None = None,
    cost: float | None = None,
    tell: bool = True,
    migration_alpha: float = 0.0,
    migration_beta: float = 0.0,
    alpha: float = 0.0,
    beta: float = 0.0,
    foresight: bool = False,
    speed: ArrayLike | None = None,
    background: ArrayLike | None = None,
    memory_limit: ArrayLike | None = None,
    network: NetworkLike | None = None,
    seed: int = 0,
) -> Replay:
    """Replay a recorded run with different decisions.

    The decider and the arguments are those of `Balancer`: by default, the result is what
    ``Balancer(comm)`` would have done with these loads.  An LB step at the end of phase i places
    the objects of phase i + 1, by the estimates of their loads at that time.  If an `Advisor`
    recorded the run and its cells have keys, an LB step places the cells of the phase that has
    ended, as this `Advisor` would have done.  An object stays on its first rank until an LB step
    moves it; an object that may never migrate is always on its recorded rank.

    Parameters
    ----------
    trace : Trace
    strategy : str, callable or `pylb.strategy`
        As for `Balancer`; or a baseline without decisions: with ``"unbalanced"``, each object stays
        on its first rank; with ``"none"``, objects and LB steps are as recorded.
    every : int, optional
        Number of phases from one LB step to the next.
    trigger, lag, pause_if_useless, learn_speeds, seed
        As for `Balancer`.  ``learn_speeds=True`` is only for ranks whose speeds are not known.
    cost : float, optional
        Seconds that each LB step costs.  Default: the measured cost, if the recorded run did the
        same LB step; otherwise the result of the cost model for the objects that move.
    tell : bool
        Whether the trigger knows the expected cost before the first LB step.  Otherwise, it learns
        the cost from the LB steps.
    migration_alpha, migration_beta : float
        Seconds per migration and per byte, added to the cost of an LB step if `cost` is not given.
    alpha, beta : float
        Seconds per message and per byte that a rank sends to other ranks in a phase, added to the
        time of that rank (Menon 2012, eq. 3.6).  If one of them is above zero, strategies that have
        parameters of these names get both.
    foresight : bool
        Rebalance at the start of a phase, with the loads of this phase: a perfect prediction.
    speed, background, memory_limit : (p,) array, optional
        Values for the ranks that replace those of the trace.
    network : (alpha, beta), Machine or path, optional
        Replaces `alpha` and `beta`.  A `Machine`, or its file, has values within and between nodes,
        which also replace the distances of the trace.

    Examples
    --------
    >>> run = pylb.replay(trace, "GreedyLB", every=50, cost=0.1)
    >>> run.lb_step_iterations, run.lb_seconds
    ([49, 99, 149], 0.30000000000000004)
    """
    checks.seconds("cost", 0.0 if cost is None else cost)
    checks.seconds("migration_alpha", migration_alpha)
    checks.seconds("migration_beta", migration_beta)
    checks.seconds("alpha", alpha)
    checks.seconds("beta", beta)
    lag = checks.whole("lag", lag, 0, "a number of iterations", below=2**20)
    check_trace(trace)
    seed = checks.integer("seed", seed)
    tell, foresight = checks.flag("tell", tell), checks.flag("foresight", foresight)
    trace = _with_ranks(trace, speed, background, memory_limit)
    if network is not None:
        if alpha or beta:
            raise DomainError("network is given with alpha or beta: expected only one of them")
        links = Links.of(network, trace.n_ranks)
        (alpha, beta), trace = links.network, replace(trace, **links.ranks)
    prices = Prices(trace, cost, tell, (alpha, beta), (migration_alpha, migration_beta))
    given, known = None, prices.recorded.parameters
    advised = is_advised(trace) and not foresight
    if strategy in BASELINES:
        if every is not None or isinstance(trigger, str):
            settings(every=every, trigger=trigger)  # checked, though without effect
    else:
        given = settings(
            with_network(find(strategy, auto=True), prices.network("network" in known)),
            every=every,
            trigger=trigger,
            lag=lag,
            gives_up=pause_if_useless,
            learn_speeds=learns(learn_speeds, trace.speed),
            move_at_most=known.get("move_at_most", 0.0),
            beside=bool(known.get("overlap")) and cost is None,  # else it has no measured times
            seed=seed,
            distributed=not advised,
        )
        given.load(trace.near is not None)
    decider = given.decider(trace.n_ranks, prices.network(given.selects)) if given else None
    core = _core.Replay(
        n_ranks=trace.n_ranks,
        decider=decider.core if decider else None,
        advisor=_core.Advisor(decider.core, True) if decider and advised else None,
        ahead=int(advised and known.get("ahead", False)),
        lag=lag,
        as_recorded=strategy == "none" or (strategy == "unbalanced" and not _is_keyed(trace)),
        foresight=foresight,
        network=(alpha, beta),
        cost=math.nan if cost is None else cost,
        model=prices.model(),
        per_move=migration_alpha,
        per_byte=migration_beta,
        steps=prices.steps(given),
        keep_times=True,
        keep_ranks=strategy != "none",
    )
    for loop, end in loops(trace):
        first, n = int(loop.first), int(loop.n)
        core.loop(first, n, *prices.foreseen(loop, given))
        if n:
            start(core, trace, first)
        if end == first:  # a loop without iterations leaves a due LB step for the next loop
            if n == 0 < end == trace.n_phases:  # but it computes what the last LB step has saved
                settle(core, trace, end, False)
            continue
        for part, *some in _as_learned(trace, first, end, strategy):
            feed(core, part, *some)
        # With a lag or foresight, no LB step follows the last phase, even if a loop is left early.
        early = end < first + n and (end < trace.n_phases or not (lag or foresight))
        settle(core, trace, end, early)
    values, seconds = core.metrics(0)
    metrics = dict(zip(Metrics._fields, values.T.copy(), strict=True))
    rank, times = core.take()
    times = np.zeros((0, trace.n_ranks)) if times is None else times  # None: no phases
    if strategy == "unbalanced" and not _is_keyed(trace):
        metrics, seconds, times = _as_before(trace, seconds, times)
    if decider is not None:
        decisions = _foreseen(decider.history, metrics) if foresight else decider.history
    else:
        done = trace.recorded.history if trace.recorded and strategy == "none" else []
        decisions = History(r for r in done if r.moved)
    return Replay(
        metrics=metrics,
        iteration_time=seconds,
        decisions=decisions,
        rank=trace.task_rank if rank is None else rank,
        strategy=given.strategy.name if given else str(strategy),
        trigger="" if given is None else f"every {every}" if every else given.trigger.name,
        foresight=foresight,
        trace=trace,
        network=Network(alpha, beta),
        seed=seed,
        rank_times=times,
    )


def _as_learned(
    trace: Phases, first: int, end: int, strategy: StrategyLike
) -> Iterator[tuple[Phases, int, int]]:
    """Yield the pieces of a loop in which the recorded run assumed the same speeds of its ranks.

    This is only for "unbalanced": the run itself computed its time without LB steps in this way.
    """
    if strategy == "unbalanced" and trace.recorded is not None and trace.speed is None:
        for r in trace.recorded.history.lb_steps:
            if r.moved and r.iteration + 1 < end:
                if first < (at := r.iteration + 1):
                    yield trace, first, at
                    first = at
                trace = replace(trace, measured=np.array(r.speed) if r.speed else None)
    yield trace, first, end


def _is_keyed(trace: Phases) -> bool:
    """Say whether the record has keys, by which objects are known after they have moved."""
    return trace.recorded is None or bool(trace.recorded.parameters.get("keyed", True))


def _as_before(trace: Phases, seconds: F64, times: F64) -> tuple[dict[str, F64], F64, F64]:
    """Replay a run whose ranks keep their shares of the load from before the first LB step.

    `seconds` and `times` are those of the recorded phases, where the program divided the load.
    """
    assert trace.recorded is not None
    done = [r.iteration + 1 for r in trace.recorded.history.lb_steps if r.moved]
    first = max(done[0], 0) if done else len(trace)
    worked, sharing = _worked(trace, times)
    was = worked.copy()
    was[first:] = as_before(worked[max(first - BEFORE, 0) : first], worked[first:])
    metrics = [_core.metrics(row) for row in was]
    out = {name: np.array([m[name] for m in metrics]) for name in _core.metrics([1.0])}
    return out, seconds + spans(was, sharing) - spans(worked, sharing), was


def _foreseen(history: History, metrics: dict[str, F64]) -> History:
    """Return the receipts of a replay with foresight, at the end of the phase before an LB step."""
    out = [replace(r, iteration=r.iteration - 1, until=r.until - 1) for r in history]
    done = [r for r in out if r.balanced]
    ends = [*(r.iteration + 1 for r in done[1:]), len(metrics["max"])]
    for r, end in zip(done, ends, strict=False):
        of = slice(r.iteration + 1, end)
        r.iterations = end - of.start
        total = float(metrics["mean"][of].sum())
        r.realised = float(metrics["max"][of].sum()) / total if total > 0 else math.nan
        r.realised_idle_mean = float(metrics["idle_mean"][of].mean())
        r.realised_idle_max = float(metrics["idle_max"][of].mean())
    return History(out)


def _with_ranks(
    trace: Phases,
    speed: ArrayLike | None,
    background: ArrayLike | None,
    memory_limit: ArrayLike | None,
) -> Phases:
    given: dict[str, Any] = {
        name: check(name, value, trace.n_ranks)
        for name, value, check in (
            ("speed", speed, checks.vector),
            ("background", background, checks.vector),
            ("memory_limit", memory_limit, checks.sizes),
        )
        if value is not None
    }
    if "speed" in given and (
        trace.speed is None or not np.array_equal(given["speed"], trace.speed)
    ):
        given["task_seconds"] = None  # these were measured on ranks with other speeds
        given["task_subphases"] = trace.parts_of(slice(None))
    if given and trace.recorded is not None:
        rows = trace.recorded.answers
        kept = [(at, {x: row[x] for x in row.keys() - given.keys()}) for at, row in rows]
        given["recorded"] = replace(trace.recorded, answers=kept)
    return replace(trace, **given) if given else trace


# ---- the best schedule of LB steps --------------------------------------------------------------


class Optimum(NamedTuple):
    """The best schedule of LB steps that was found, with knowledge of the whole run.

    Examples
    --------
    >>> best = trace.optimum("GreedyLB", cost=0.5)
    >>> best.bound < best.time
    True
    """

    time: float  #: Seconds of the whole run: iterations and LB steps.
    iterations: NDArray[np.int64]  #: (n,) iterations that end with an LB step.
    cost: float  #: Seconds of each LB step.
    #: Lower bound in seconds: no schedule with LB steps of this cost is shorter, for any strategy.
    bound: float
    #: Whether it is proven that no schedule with these strategies takes less than `time`.
    exact: bool
    #: The strategy of each LB step; empty for a generated program.
    strategies: tuple[str, ...] = ()


def regret(time: float, best: Optimum) -> float:
    """Return time / best.time - 1; 0 if both are 0, and inf if only `best.time` is 0."""
    if time == best.time:
        return 0.0
    return time / best.time - 1.0 if best.time > 0 else math.inf


PERIODS = (1, 2, 3, 5, 10, 20, 50)  # phases from one LB step to the next, see `_known`


def optimum(
    trace: Phases,
    strategy: str | Strategy | Callable[..., Any] | Iterable[Any] = "GreedyLB",
    *,
    cost: float,
    seed: int = 0,
    width: int = 64,
) -> Optimum:
    """Find the best schedule of LB steps for a recorded run.

    An LB step works as in `Trace.replay`: at the end of phase i it places the objects of phase
    i + 1 by the estimates of their loads at that time.  If there is one strategy, a replay of the
    schedule found takes exactly the time of the result.

    With GreedyLB, which ignores the present placement, the result is the best schedule, found by
    dynamic programming, unless loads depend on the rank or objects come back to their last rank.
    With other strategies, a beam search finds a schedule and a lower bound (csrc/replay/replay.h);
    the schedule is the best one if `width` is large enough.  No trigger and none of some fixed
    periods is better.  In the run of an `Advisor` that knows its cells, an LB step places by other
    loads than in this search: the time of the result is then an estimate.

    Parameters
    ----------
    trace : Trace
    strategy : str, callable, `pylb.strategy`, or several of them
        As in `pylb.place`.  If there are several, each LB step may use a different one; ``"auto"``
        means all strategies from which `Balancer` chooses.
    cost : float
        Seconds of each LB step.
    seed : int
        Seed of strategies that draw random numbers.
    width : int
        For strategies that depend on the present placement: number of placements from which an LB
        step is tried at the end of each phase.

    Examples
    --------
    >>> best = pylb.replaying.optimum(trace, "GreedyLB", cost=0.5)
    >>> best.exact, len(best.iterations)
    (True, 1)
    """
    entries = _entries(strategy)
    check_trace(trace)
    cost = checks.seconds("cost", cost)
    seed, width = checks.whole("seed", seed, 0), checks.whole("width", width, 1)
    auto = ["auto"] if isinstance(strategy, str) and strategy == "auto" else []
    options = {"cost": cost, "seed": seed}
    known = _known(trace, [*entries, *auto], options)
    alone = [e.name for e in entries] == ["GreedyLB"] and trace.measured is None
    best = None if alone else min(known, key=lambda run: run.time)
    # With several strategies, each one is tried alone first: the result bounds the joint search.
    for some in [*([e] for e in entries if len(entries) > 1), entries]:
        upper = math.inf if best is None else best.time
        candidates = tuple(e.candidate for e in some)
        time, when, bound, exact, steps = _core.trace_optimum(
            trace, candidates, cost, seed, width, upper
        )
        if best is None or time < upper:
            names = tuple(some[k].name for k in (() if steps is None else steps))
            best = Optimum(time, when, cost, bound, True, names)
    assert best is not None
    exact = exact and not is_advised(trace)  # the search makes the LB steps of a Balancer
    if alone and not exact:
        best = min(best, *known, key=lambda run: run.time)
    # A run with "auto" learns the speeds of the ranks, so it can be faster than the bound, which
    # the search computes without them.
    return best._replace(bound=min(bound, best.time), exact=exact and best.exact)


def _entries(strategy: Any) -> list[Strategy]:
    if isinstance(strategy, str) and strategy == "auto":
        return registered()
    one = isinstance(strategy, str | Strategy) or not isinstance(strategy, Iterable)
    out = [find(s) for s in ([strategy] if one else strategy)]
    names = [e.name for e in out]
    if not out or len(set(names)) < len(names):
        raise DomainError(f"strategy is {names}: expected one or more names, each once")
    return out


def _known(trace: Phases, strategies: Iterable[Any], options: dict[str, Any]) -> Iterator[Optimum]:
    """Yield runs with fixed `PERIODS` and with each trigger, to compare with the found schedule."""
    whens: list[dict[str, Any]] = [{"every": every} for every in PERIODS]
    whens += [{"trigger": t, "tell": tell} for t in triggers() for tell in (True, False)]
    cost = options["cost"]
    for s, when in itertools.product(strategies, whens):
        run = replay(trace, s, **when, **options)
        # `run.time` is not used: its sum of the costs has rounding errors.
        time = run.iteration_seconds + cost * len(run.lb_steps)
        iterations = np.array(run.lb_step_iterations, dtype=np.int64)
        names = tuple(r.strategy for r in run.lb_steps)
        yield Optimum(time, iterations, cost, 0.0, run.strategy != "auto", names)
