"""The best schedule of balancings, and generated programs to compare triggers on."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.errors import DomainError
from pylb.snapshot import F64
from pylb.strategies import Strategy, find
from pylb.triggers import Cycle, Trigger, make

if TYPE_CHECKING:
    from pylb.trace import Trace


class Optimum(NamedTuple):
    """The best of all schedules of balancings, known only when the run is over.

    Attributes
    ----------
    time : float
        Seconds of the whole run: iterations and balancings.
    iterations : (n,) int64
        At whose end it balances.
    cost : float
        Seconds that each balancing costs.
    """

    time: float
    iterations: NDArray[np.int64]
    cost: float


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
        """The best schedule, of all; `cost` in seconds a balancing.  O(n**2)."""
        cost = _cost(cost)
        return Optimum(*_core.program_optimum(self, cost), cost)

    def __repr__(self) -> str:
        return f"<Imbalance: {self.iterations} iterations of {self.mean:.4g} s and more>"


def optimum(
    trace: Trace,
    strategy: str | Strategy | Callable[..., Any] = "GreedyLB",
    *,
    cost: float,
    seed: int = 0,
    **params: Any,
) -> Optimum:
    """The best schedule of balancings for a recorded run, of all 2**(m-1).

    A balancing at the end of phase i gives the strategy the loads of phase i, with every object
    where it was recorded, and holds from phase i + 1 on; an object that appears later starts where
    it was recorded.  So each placement depends on its phase alone, which makes the schedule exact.
    `Trace.replay` of it takes the same time where the strategy does not look at the present
    placement and every object has a task in every phase.

    Parameters
    ----------
    trace : Trace
    strategy : str or callable
        As in `pylb.place`.
    cost : float
        Seconds that each balancing costs.
    seed : int
        For strategies that draw random numbers.
    **params
        The strategy's own.

    Returns
    -------
    Optimum

    Raises
    ------
    UnknownStrategyError, DomainError
        No such strategy or parameter, or a value out of its domain.
    InfeasibleError, StrategyError
        The strategy found no placement, raised, or returned none.
    """
    entry = find(strategy)
    values = [] if entry.call else entry.values(params)
    cost = _cost(cost)
    return Optimum(*_core.trace_optimum(trace, entry.bound(params), values, seed, cost), cost)


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
