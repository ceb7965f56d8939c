"""Generated programs, which consist of iteration times only, to compare triggers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.decide.registry import Cycle, Trigger, of_arguments
from pylb.errors import DomainError
from pylb.io.run_record import Stretch
from pylb.model import checks
from pylb.model.snapshot import F64
from pylb.replaying.replayed import Optimum, regret
from pylb.replaying.trace import Trace
from pylb.replaying.trace_conversion import trace_arrays


@dataclass(frozen=True, eq=False)
class GeneratedRun:
    """The result of running a generated program under a trigger.

    Examples
    --------
    >>> program = pylb.replaying.Imbalance(0.52, lambda k: 0.1 * k, iterations=100)
    >>> program.run("menon", cost=52.0).iterations
    array([45, 91])
    """

    iteration_time: F64  #: (n,) seconds of each iteration.
    iterations: NDArray[np.int64]  #: (k,) indices of the iterations that ended with an LB step.
    cost: float  #: Seconds that each LB step cost.
    learned: list[float]  #: What the trigger has learned, for `Imbalance.run`.

    @property
    def time(self) -> float:
        """Seconds of the whole run: iterations and LB steps."""
        return math.fsum(self.iteration_time) + self.cost * len(self.iterations)

    def regret(self, best: Optimum) -> float:
        """Return the fraction by which this run is slower than the best schedule: 0.02 is 2 %."""
        checks.instance("best", best, Optimum)
        return regret(self.time, best)


class Imbalance:
    """A generated program, given by the time of each iteration.

    If the last LB step was just before iteration s, iteration i takes
    ``mean * (1 + max(0, residual + growth[i - s] + |drift[i] - drift[s - 1]| + noise[i]))``
    seconds.  The first placement, before iteration 0, costs nothing; ``drift[-1]`` is `start`.

    Parameters
    ----------
    mean : float
        Seconds of a balanced iteration, above zero.
    growth : (n,) array of float, callable or None
        max/mean - 1 as a function of the number of iterations since the last LB step, 0 ... n - 1.
    iterations : int, optional
        Number of iterations, n.  Default: the length of the arrays.
    drift, start : (n,) array of float, float
        State of the program in each iteration, e.g. the position of a hot spot, and the state for
        which the first placement is made.  The imbalance grows with the change of the state since
        the last LB step.
    noise, residual : (n,) array of float, float
        Imbalance that each iteration has in addition, with any placement, and imbalance that no LB
        step removes.

    Examples
    --------
    >>> program = pylb.replaying.Imbalance(0.52, lambda k: 0.1 * k, iterations=500)
    >>> best = program.optimum(cost=52.0)
    >>> program.run("boulmier", cost=52.0).regret(best) < 0.001
    True
    """

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
        self.mean = checks.number("mean", mean)
        if not self.mean > 0:
            raise DomainError(f"mean is {mean!r}: expected seconds, above zero")
        self.residual = checks.number("residual", residual)
        self.start = checks.number("start", start)
        self.iterations = _length(iterations, growth, drift, noise)
        if callable(growth):
            growth = [checks.number(f"growth({k})", growth(k)) for k in range(self.iterations)]
        self.growth = _series("growth", growth, self.iterations)
        self.drift = _series("drift", drift, self.iterations)
        self.noise = _series("noise", noise, self.iterations)

    @classmethod
    def from_rates(cls, mean: float, rate: Callable[[int], float], iterations: int) -> Imbalance:
        """Make a program by the synthetic model of Boulmier 2021 (arXiv 2104.01688).

        In the first iteration after an LB step, max/mean is I = 1.  After each iteration,
        I = max(1, I + rate(k)) with k = 0, 1, ...

        Parameters
        ----------
        mean, iterations
            As for `Imbalance`.
        rate : callable
            Change of max/mean as a function of the number of iterations since the last LB step.
        """
        n = _length(iterations, None)
        imbalance = [1.0]
        for k in range(n - 1):
            imbalance.append(max(1.0, imbalance[-1] + checks.number(f"rate({k})", rate(k))))
        return cls(mean, np.array(imbalance) - 1.0)

    def run(
        self,
        trigger: str | Trigger | Callable[[Cycle], bool] | None = None,
        *,
        cost: float,
        every: int | None = None,
        expect: tuple[int | None, float] | None = None,
        experience: Sequence[float] | None = None,
    ) -> GeneratedRun:
        """Run under a trigger.

        Parameters
        ----------
        trigger, every
            As for `Balancer`; one of them is given.
        cost : float
            Seconds that each LB step costs.
        expect : (end, cost), optional
            What the trigger knows before the run, as in `Trigger.expect`; (None, nan) means
            nothing.  Default: the number of iterations and `cost`.
        experience : sequence of float, optional
            What an earlier run has learned: its `GeneratedRun.learned`.
        """
        cost = checks.seconds("cost", cost)
        when = of_arguments(every, trigger)
        if experience is not None:
            when.begin(experience)
        when.expect(*((self.iterations, cost) if expect is None else expect))
        time, iterations, first = self._times(0), [], 0
        left = 1.0 + max(0.0, self.residual)
        for i in range(self.iterations):
            if when.observe(i, time[i], self.mean) and i + 1 < self.iterations:
                when.balanced(i, cost, left)
                iterations.append(i)
                first = i + 1
                time[first:] = self._times(first)
        time.flags.writeable = False
        return GeneratedRun(time, np.array(iterations, np.int64), cost, when.learned().tolist())

    def optimum(self, cost: float) -> Optimum:
        """Find the best of all schedules, by dynamic programming in O(n**2).

        Parameters
        ----------
        cost : float
            Seconds of each LB step.
        """
        cost, n = checks.seconds("cost", cost), self.iterations
        # best[s]: the shortest time of iterations 0 ... s - 1 and all LB steps up to and including
        # one just before s; after[s]: the position of the LB step before that one.
        best, after = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
        best[0] = 0.0
        for s in range(n):
            if s % 64 == 0:
                _core.check_signals()
            with_step = self._times(s)
            with_step[0] += best[s]
            np.cumsum(with_step, out=with_step)
            with_step[:-1] += cost
            better = with_step <= best[s + 1 :]  # of equal ones, the latest
            np.copyto(best[s + 1 :], with_step, where=better)
            np.copyto(after[s + 1 :], s, where=better)
        iterations, s = list[int](), int(after[n])
        while s > 0:
            iterations.insert(0, s - 1)
            s = int(after[s])
        time = float(best[n])
        return Optimum(time, np.array(iterations, np.int64), cost, time, True)

    def _times(self, s: int) -> F64:
        """Return the seconds of iterations s ... n - 1 if the last LB step was just before s."""
        n = self.iterations - s
        x = np.full(n, self.residual) if self.growth is None else self.residual + self.growth[:n]
        if self.drift is not None:
            away = self.drift[s:] - (self.drift[s - 1] if s else self.start)
            x += np.abs(away, out=away)
        if self.noise is not None:
            x += self.noise[s:]
        np.maximum(x, 0.0, out=x)
        x += 1.0
        x *= self.mean
        return x

    def __repr__(self) -> str:
        return f"<Imbalance: {self.iterations} iterations of at least {self.mean:.4g} s>"


def _length(iterations: Any, *series: Any) -> int:
    given = [x for x in series if x is not None and not callable(x)]
    if iterations is None and given:
        what = "a number for each iteration"
        iterations = len(checks.several("growth, drift or noise", given[0], what))
    return checks.whole("iterations", iterations, 1, "a number")


def _series(name: str, value: Any, n: int) -> F64 | None:
    if value is None:
        return None
    out = checks.vector(name, value, n)
    for i in np.flatnonzero(~np.isfinite(out))[:1]:
        raise DomainError(f"{name}[{i}] is not finite: expected finite numbers")
    out.flags.writeable = False
    return out


def hotspot(
    n_ranks: int = 16,
    n_objects: int = 256,
    n_phases: int = 60,
    *,
    peak: float = 8.0,
    width: float = 0.05,
    turns: float = 0.5,
    noise: float = 0.02,
    seed: int = 0,
) -> Trace:
    """Generate a run of objects in a ring, placed in blocks, with a hot spot that moves.

    The load of an object is ``1 ms * (1 + peak * exp(-(d / width)**2 / 2))``, where d is its
    distance from the hot spot as a fraction of the ring, times a log-normal factor that is drawn
    for each object in each phase.  In each phase, an object sends 8 KiB to each of its two
    neighbours.  A migration sends 64 KiB.

    Parameters
    ----------
    n_ranks, n_objects, n_phases : int
    peak, width : float
        Load that the hot spot adds at its centre, divided by the load far away from it; and its
        width, as a fraction of the ring.
    turns : float
        How often the hot spot goes round the ring in the whole run.
    noise : float
        Standard deviation of the logarithm of the factor.
    seed : int
        The same arguments give the same run.

    Examples
    --------
    >>> pylb.replaying.hotspot(n_ranks=8, seed=1).n_ranks
    8
    """
    p, n, m = (
        checks.whole(name, value, 1, "a number")
        for name, value in [("n_ranks", n_ranks), ("n_objects", n_objects), ("n_phases", n_phases)]
    )
    for name, value in [("peak", peak), ("width", width), ("noise", noise)]:
        if checks.number(name, value) < 0.0:
            raise DomainError(f"{name} is {value!r}: expected 0 or more")
    if width == 0:
        raise DomainError(f"width is {width!r}: expected a fraction of the ring, above 0")
    turns = checks.number("turns", turns)
    rng = np.random.default_rng(checks.whole("seed", seed, 0))
    entity = np.arange(n, dtype=np.int32)
    where = turns * np.arange(m) / m
    load = np.empty((m, n))
    some = max(1, 2**17 // n)  # iterations at once, so that what is computed stays in the cache
    for k in range(0, m, some):
        apart = np.abs((entity / n - where[k : k + some, None] + 0.5) % 1.0 - 0.5)
        load[k : k + some] = 1e-3 * (1.0 + peak * np.exp(-0.5 * (apart / width) ** 2))
        load[k : k + some] *= rng.lognormal(0.0, noise, apart.shape)
    rank = (entity.astype(np.int64) * p // n).astype(np.int32)
    run = Stretch(
        first=0,
        key=np.arange(n),
        rank=rank,
        nbytes=np.full(n, 65536),
        memory=np.full(n, 65536),
        migratable=np.ones(n, bool),
        load=load,
        src=np.tile(entity, 2),
        dst=np.concatenate([np.roll(entity, -1), np.roll(entity, 1)]),
        edge_bytes=np.full(2 * n, 8192.0),
        edge_messages=np.ones(2 * n),
        home=np.full(n, -1),
    )
    return Trace(p, **trace_arrays([run]))
