"""Learn the speeds of the ranks of a running program from objects that move between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DomainError
from pylb.model.snapshot import F64


class SpeedLearner:
    """Speeds of ranks, learned from one placement after another.

    The time of an object on a rank is its work over the rank's speed; objects that move allow to
    separate the two (`csrc/measure/speeds.h`).  The last eight placements are remembered, and old
    ones count less.  Speeds are used after they have correctly predicted placements that were not
    used to fit them (`csrc/measure/evidence.h`).  Where all objects on a rank change by the same
    factor, it is treated as a new rank (`csrc/measure/learner.h`).

    Parameters
    ----------
    n_ranks : int

    Raises
    ------
    DomainError
        There are no ranks.
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self._core = _core.SpeedLearner(n_ranks)

    @property
    def speed(self) -> F64 | None:
        """Speeds with geometric mean 1, (p,) float64; None if no difference was found so far."""
        return self._core.speed

    @property
    def error(self) -> F64:
        """Standard error of the logarithms of the speeds, infinite if unknown; (p,)."""
        return self._core.error

    @property
    def sigma(self) -> float:
        """Noise of an observation: standard deviation of its logarithm."""
        return self._core.sigma

    @property
    def explained(self) -> float:
        """Fraction of the variance that the speeds explain, 0 ... 1."""
        return self._core.explained

    @property
    def evidence(self) -> float:
        """How much better the speeds predict than the best simpler rule, as a logarithm."""
        return self._core.evidence

    def observe(
        self, key: ArrayLike, rank: ArrayLike, seconds: ArrayLike, work: ArrayLike | None = None
    ) -> F64 | None:
        """Enter the objects' times on another placement, and return the new `speed`.

        Parameters
        ----------
        key : (n,) int64
            A unique key for each object.
        rank : (n,) int32
            The rank where each object was.
        seconds : (n,) float64
            Its time per iteration there, the mean of several; objects without a time are left out.
        work : (n,) float64, optional
            The user's own estimate of its work, in any unit; 0: none.

        Raises
        ------
        DomainError
            The arrays differ in length, a key occurs twice, or a time or an estimate is infinite.
        OutOfRangeError
            A rank below 0, or not below `n_ranks`.
        """
        keys, ranks = np.asarray(key, np.int64), np.asarray(rank, np.int32)
        times = np.asarray(seconds, float)
        size = None if work is None else np.asarray(work, float)
        shapes = [a.shape for a in (keys, ranks, times, size) if a is not None]
        if any(shape != shapes[0] or len(shape) != 1 for shape in shapes):
            names = ("key", "rank", "seconds", "work")[: len(shapes)]
            raise DomainError(
                f"{', '.join(names)} have shapes {', '.join(map(str, shapes))}: "
                "expected one dimension and the same length"
            )
        self._core.observe(keys, ranks, times, size)
        return self.speed
