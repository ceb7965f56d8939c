"""The best schedule of LB steps, and generated programs to compare triggers on."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.decide.selection import registered
from pylb.decide.trigger import Cycle, Trigger, make, triggers
from pylb.errors import DomainError
from pylb.model.snapshot import F64
from pylb.place.registry import LOOKS_AT, Strategy, find

if TYPE_CHECKING:
    from pylb.replay.replayed import Replay
    from pylb.replay.trace import Trace

PERIODS = (1, 2, 3, 5, 10, 20, 50)  # of the runs that a best schedule is compared with


class Optimum(NamedTuple):
    """The best schedule of LB steps that was found; a program knows it only when it is over.

    Attributes
    ----------
    time : float
        Seconds of the whole run: iterations and LB steps.
    iterations : (n,) int64
        At the end of these it rebalances.
    cost : float
        Seconds of each LB step.
    bound : float
        Seconds: no schedule of LB steps at this cost is shorter, whatever the strategy.
    exact : bool
        Whether no schedule with these strategies is shorter than `time`.
    strategies : tuple of str
        The strategy of each LB step; empty for a generated program.
    """

    time: float
    iterations: NDArray[np.int64]
    cost: float
    bound: float
    exact: bool
    strategies: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class GeneratedRun:
    """A generated program, run under a trigger.

    Attributes
    ----------
    iteration_time : (n,) float64
        Seconds of each iteration.
    iterations : (k,) int64
        At whose end it balanced.
    cost : float
        Seconds that each balancing cost.
    """

    iteration_time: F64
    iterations: NDArray[np.int64]
    cost: float

    @property
    def time(self) -> float:
        """Seconds of the whole run: iterations and balancings."""
        return math.fsum(self.iteration_time) + self.cost * len(self.iterations)

    def regret(self, best: Optimum) -> float:
        """Time beyond that of the best schedule, as a part of the latter: 0.02 is 2 % slower."""
        return regret(self.time, best)


def regret(time: float, best: Optimum) -> float:
    """time / best.time - 1; 0 where neither takes any time."""
    return 0.0 if time == best.time else time / best.time - 1.0


class Imbalance:
    """A generated program, as far as a trigger sees it: how long an iteration takes.

    With the last balancing just before iteration s, iteration i takes
    ``mean * (1 + max(0, residual + growth[i - s] + |drift[i] - drift[s - 1]| + noise[i]))``
    seconds.  The first placement costs nothing and fits the state `start`.

    Parameters
    ----------
    mean : float
        Seconds of a balanced iteration, above zero.
    growth : (n,) array of float, callable or None
        max/mean - 1, by iterations since the last balancing; a callable is asked for 0 ... n-1.
    iterations : int, optional
        n; needed where no array says it.
    drift : (n,) array of float, optional
        A state of the program to which a placement fits less and less.
    noise : (n,) array of float, optional
        What is added in each iteration, balanced or not.
    residual : float
        What no balancing removes.
    start : float
        The state that the first placement fits; counts where there is a drift.

    Raises
    ------
    DomainError
        A value that is not finite, a mean that is not above zero, arrays of different lengths.

    Examples
    --------
    >>> program = pylb.Imbalance(0.52, lambda k: 0.1 * k, iterations=500)
    >>> best = program.optimum(cost=52.0)
    >>> program.run("boulmier", cost=52.0).regret(best)
    0.000...
    """

    mean: float
    iterations: int
    growth: F64 | None
    drift: F64 | None
    noise: F64 | None
    residual: float
    start: float

    def __init__(
        self,
        mean: float,
        growth: ArrayLike | Callable[[int], float] | None = None,
        *,
        iterations: int | None = None,
        drift: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        residual: float = 0.0,
        start: float = 0.0,
    ) -> None:
        self.mean = _number("mean", mean)
        if not self.mean > 0:
            raise DomainError(f"mean is {mean!r}: expected seconds, above zero")
        self.residual, self.start = _number("residual", residual), _number("start", start)
        self.iterations = _length(iterations, growth, drift, noise)
        if callable(growth):
            growth = [growth(k) for k in range(self.iterations)]
        self.growth = _series("growth", growth, self.iterations)
        self.drift = _series("drift", drift, self.iterations)
        self.noise = _series("noise", noise, self.iterations)

    @classmethod
    def from_rates(cls, mean: float, rate: Callable[[int], float], iterations: int) -> Imbalance:
        """The synthetic model of Boulmier 2021 (arXiv 2104.01688).

        After a balancing max/mean is I = 1; then I becomes max(1, I + rate(k)), k = 0, 1, ...

        Parameters
        ----------
        mean : float
            Seconds of a balanced iteration.
        rate : callable
            Change of max/mean, by iterations since the last balancing.
        iterations : int
        """
        n = _length(iterations, None)
        imbalance = [1.0]
        for k in range(n - 1):
            imbalance.append(max(1.0, imbalance[-1] + rate(k)))
        return cls(mean, np.array(imbalance) - 1.0)

    def run(
        self,
        trigger: str | Trigger | Callable[[Cycle], bool] | None = None,
        *,
        cost: float,
        every: int | None = None,
        **params: Any,
    ) -> GeneratedRun:
        """Run under a trigger.

        Parameters
        ----------
        trigger : str, callable or Trigger, optional
            A name of `pylb.triggers()` or a function of a `Cycle`, which are told the number of
            iterations and the cost; or a fresh trigger, which knows what it was told
            (`Trigger.expect`).  Or give `every`.
        cost : float
            Seconds that each balancing costs.
        every : int, optional
            Iterations from one balancing to the next.
        **params
            The trigger's own.
        """
        cost = _cost(cost)
        if isinstance(trigger, Trigger):
            when = trigger
        else:
            when = make(every=every, trigger=trigger, **params)
            when.expect(self.iterations, cost)
        time, iterations = _core.program_run(self, when, cost)
        return GeneratedRun(time, iterations, cost)

    def optimum(self, cost: float) -> Optimum:
        """The best of all schedules, by dynamic programming in O(n**2).

        Parameters
        ----------
        cost : float
            Seconds of each LB step.
        """
        cost = _cost(cost)
        time, iterations, bound, exact, _ = _core.program_optimum(self, cost)
        return Optimum(time, iterations, cost, bound, exact)

    def __repr__(self) -> str:
        return f"<Imbalance: {self.iterations} iterations of {self.mean:.4g} s and more>"


def optimum(
    trace: Trace,
    strategy: str | Strategy | Callable[..., Any] | Iterable[Any] = "GreedyLB",
    *,
    cost: float,
    seed: int = 0,
    width: int = 64,
    **params: Any,
) -> Optimum:
    """Find the best schedule of LB steps for a recorded run.

    An LB step means what it means in `Trace.replay`: at the end of phase i it places the objects
    of phase i + 1, from where they are, by what is known of their loads then.  The replay of the
    schedule with one strategy takes the same time.

    A search goes forward over the phases (csrc/replay/optimum_recorded.h).  Its states are
    placements, each with the least time to get there: label-setting search (Dijkstra 1959) with
    branch and bound (Land and Doig 1960).  The result is exact for GreedyLB, which does not look at
    the present placement, and wherever no state had to be left out.  Otherwise it is the best one
    found: no longer than the runs of all triggers and of some periods.

    Parameters
    ----------
    trace : Trace
    strategy : str, callable, or several of them
        As in `pylb.place`.  Of several, each LB step may take another one; ``"auto"`` means all
        that `Balancer` chooses from.
    cost : float
        Seconds of each LB step.
    seed : int
        For strategies that draw random numbers.
    width : int
        LB steps tried at the end of each phase, with strategies that look at the present placement:
        from the placements that were reached in the least time.  More find better schedules and
        take longer.
    **params
        The strategy's own, where there is one.

    Returns
    -------
    Optimum

    Raises
    ------
    UnknownStrategyError, DomainError
        No such strategy or parameter, or a value out of its domain.
    InfeasibleError, StrategyError
        The strategy found no placement, raised, or returned none.

    Examples
    --------
    >>> best = trace.optimum("RefineLB", cost=0.1)
    >>> best.time, best.iterations, best.exact
    """
    entries = _entries(strategy)
    cost, seed, width = _cost(cost), _whole("seed", seed, 0), _whole("width", width, 1)
    if params and len(entries) > 1:
        raise DomainError(
            f"{next(iter(params))} is given: expected one strategy, not {len(entries)}"
        )
    rows = [(e, e.bound(params), [] if e.call else e.values(params)) for e in entries]
    auto = ["auto"] if isinstance(strategy, str) and strategy == "auto" else []
    options = {"cost": cost, "seed": seed, "strategy_params": params}
    known = _known(trace, [*entries, *auto], options)
    alone = [e.name for e in entries] == ["GreedyLB"] and trace.measured is None
    best = None if alone else min(known, key=lambda run: run.time)
    # of several, first each one alone: what it finds bounds the search with all of them
    for some in [*([row] for row in rows if len(rows) > 1), rows]:
        upper = math.inf if best is None else best.time
        time, when, bound, exact, steps = _core.trace_optimum(
            trace,
            tuple((what, sum(LOOKS_AT[word] for word in e.looks_at)) for e, what, _ in some),
            [x for _, _, values in some for x in values],
            cost,
            seed,
            width,
            upper,
        )
        if best is None or time < upper:
            names = tuple(some[k][0].name for k in (() if steps is None else steps))
            best = Optimum(time, when, cost, bound, True, names)
    assert best is not None
    if alone and not exact:
        best = min(best, *known, key=lambda run: run.time)
    # a run with "auto" may know more of the ranks' speeds than the search does
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


def _known(trace: Trace, strategies: Iterable[Any], options: dict[str, Any]) -> Iterator[Optimum]:
    """Runs that the schedule found should not be longer than."""
    from pylb.replay.replayed import replay  # which imports this module

    for s in strategies:
        for every in PERIODS:
            yield _as_schedule(replay(trace, s, every=every, **options), options["cost"])
        for trigger in triggers():
            for tell in (True, False):
                run = replay(trace, s, trigger=trigger, tell=tell, **options)
                yield _as_schedule(run, options["cost"])


def _as_schedule(run: Replay, cost: float) -> Optimum:
    # not run.time: its LB steps may cost more, by the iterations that took longer after them
    time = run.iteration_seconds + cost * len(run.balancings)
    when = np.array(run.balanced_after, dtype=np.int64)
    names = tuple(r.strategy for r in run.balancings)
    return Optimum(time, when, cost, 0.0, run.strategy != "auto", names)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        out = operator.index(value)
    except TypeError:
        out = least - 1
    if not least <= out < 2**63 or isinstance(value, bool):
        raise DomainError(f"{name} is {value!r}: expected a whole number, {least} or more")
    return out


def _number(name: str, value: Any) -> float:
    if not (isinstance(value, Real) and math.isfinite(float(value))):
        raise DomainError(f"{name} is {value!r}: expected a finite number")
    return float(value)


def _cost(value: Any) -> float:
    if not _number("cost", value) >= 0:
        raise DomainError(f"cost is {value!r}: expected seconds, zero or more")
    return float(value)


def _length(iterations: Any, *series: Any) -> int:
    known = [iterations] if iterations is not None else []
    known += [len(x) for x in series if x is not None and not callable(x)]
    try:
        n = operator.index(known[0]) if known else 0
    except TypeError:
        n = 0
    if n < 1 or isinstance(iterations, bool):
        raise DomainError(f"iterations is {iterations!r}: expected a number, 1 or more")
    return n


def _series(name: str, value: Any, n: int) -> F64 | None:
    if value is None:
        return None
    try:
        out = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as why:
        raise DomainError(f"{name}: expected {n} numbers; {why}") from None
    if out.shape != (n,):
        raise DomainError(f"{name} has shape {out.shape}: expected ({n},)")
    if not np.isfinite(out).all():
        raise DomainError(f"{name}[{int(np.argmin(np.isfinite(out)))}] is not finite")
    out.flags.writeable = False
    return out
