"""Metrics of imbalance.  Each has a name of its own: "imbalance" alone would be ambiguous."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.console import card, seconds
from pylb.errors import DomainError
from pylb.model import checks


def reduction(idle: float, other: float) -> float:
    """Return by how many percent `idle` is below `other` (Dasgupta 2013, eq. 5).

    The result is positive if `idle` is shorter, as in the paper's table II; the paper's formula has
    the opposite sign.  It is 0 if both are 0, and -inf if only `other` is 0.
    """
    if idle == other:
        return 0.0
    return 100.0 * (1.0 - idle / other) if other > 0 else -math.inf


class Reductions(NamedTuple):
    """Reductions of idle times in percent (Dasgupta 2013, eq. 5 and table II)."""

    idle_mean: float
    idle_max: float

    @classmethod
    def of(cls, one: Any, other: Any) -> Reductions:
        return cls(*(reduction(getattr(one, name), getattr(other, name)) for name in cls._fields))


class Metrics(NamedTuple):
    """All metrics of the times of the ranks in one iteration.

    Examples
    --------
    >>> m = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1]).metrics
    >>> m.max, m.mean, m.max_over_mean, m.percent
    (6.0, 4.0, 1.5, 50.0)
    """

    #: Seconds.  `max` is the time of the iteration.  `std` is the standard deviation over all p
    #: ranks (divided by p, not by p - 1).
    max: float
    mean: float
    min: float
    std: float
    max_over_mean: float  #: max/mean; 1 is perfect (Charm++'s ratio; lambda in the literature).
    percent: float  #: 100 (max/mean - 1); vt and LBAF print the fraction I = max/mean - 1.
    efficiency: float  #: mean/max (load balance of POP and TALP).
    idle_mean: float  #: max - time, the mean over the ranks, in seconds (Dasgupta 2013, eq. 1).
    idle_max: float  #: max - min, in seconds (Dasgupta 2013, eq. 2).

    @classmethod
    def of(cls, time: ArrayLike) -> Metrics:
        """Return the metrics of `time`, (p,) seconds of each rank.

        If all times are 0, the ratios are 1: no rank waits for another.
        """
        times = checks.vector("time", time)
        if not times.size:
            raise DomainError("time is empty: expected one entry for each rank")
        return cls(**_core.metrics(times))

    def _repr_html_(self) -> str:
        name = f"max {seconds(self.max)}, mean {seconds(self.mean)}, min {seconds(self.min)}"
        said = (
            f"max/mean {self.max_over_mean:.3g}: a rank waits {seconds(self.idle_mean)} on average"
        )
        return card(said, {name: [self.max, self.mean, self.min]})

    def reductions(self, other: Metrics) -> Reductions:
        """Return by how many percent these idle times are below those of `other`."""
        checks.instance("other", other, Metrics)
        return Reductions.of(self, other)


class PhaseMetrics(NamedTuple):
    """Metrics of a phase in every iteration so far; thinned like `IterationMetrics`.

    Examples
    --------
    >>> lb = pylb.Advisor()
    >>> for loads in ([[1.0, 2.0], [3.0, 0.0]], [[1.0, 2.0], [2.0, 2.0]]):
    ...     plan = lb.advise(loads=loads)
    >>> lb.phases["1"].max
    array([2., 4.])
    """

    max: NDArray[np.float64]  #: (n,) seconds: load of the most loaded rank in the phase.
    mean: NDArray[np.float64]  #: (n,) seconds: mean load of the ranks in the phase.

    @property
    def max_over_mean(self) -> float:
        """Sum of `max` over the iterations, divided by the sum of `mean`; 1: there is no load."""
        mean = float(self.mean.sum())
        return float(self.max.sum()) / mean if mean > 0 else 1.0

    @classmethod
    def by_name(cls, names: tuple[str, ...], rows: NDArray[np.float64]) -> dict[str, PhaseMetrics]:
        """Return the metrics of d phases; `rows`, (n, 2 d), has their `max`, then their `mean`."""
        d = rows.shape[1] // 2
        return {name: cls(rows[:, k], rows[:, d + k]) for k, name in enumerate(names[:d])}
