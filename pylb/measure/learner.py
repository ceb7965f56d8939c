"""Learn the speeds of the ranks of a running program from objects that move between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import F64, _array


class SpeedLearner:
    """Speeds of ranks, learned from one placement after another.

    The time of an object on a rank is its work divided by the rank's speed.  So an object that
    moves shows how much the speeds of its two ranks differ.  Speeds are fitted to the moves of the
    last seven intervals between placements; older ones count less.  Speeds are used only after they
    have predicted how the times of the objects that move next change, or if they explain nearly all
    changes of the last interval (`csrc/measure/learner.h`).  With `work`, they are used at once.

    Parameters
    ----------
    n_ranks : int

    Examples
    --------
    >>> learner, key = pylb.measure.SpeedLearner(2), np.arange(32)
    >>> for k in range(8):  # rank 1 is twice as fast
    ...     rank = (key + k * (key % 3)) % 2
    ...     speed = learner.observe(key, rank, (1.0 + key % 5) / (1.0 + rank))
    >>> round(float(speed[1] / speed[0]), 1)
    2.0
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = checks.whole("n_ranks", n_ranks, 1, "a number of ranks", 1 << 31)
        self._core = _core.SpeedLearner(self.n_ranks)

    @property
    def speed(self) -> F64 | None:
        """Speeds with geometric mean 1, (p,) float64; None: all ranks count as equally fast."""
        return self._core.speed

    @property
    def error(self) -> F64:
        """Standard error of the logarithms of the speeds, infinite if unknown; (p,)."""
        return self._core.error

    @property
    def sigma(self) -> float:
        """Noise of the change of a log time from one placement to the next: standard deviation."""
        return self._core.sigma

    @property
    def evidence(self) -> float:
        """Which part of the changes of moved objects the speeds predicted.

        The sum over the intervals; older ones count less.  Negative: equal speeds predict better.
        """
        return self._core.evidence

    def observe(
        self, key: ArrayLike, rank: ArrayLike, seconds: ArrayLike, work: ArrayLike | None = None
    ) -> F64 | None:
        """Add the objects' times under one more placement, and return the new `speed`.

        Parameters
        ----------
        key : (n,) int64
            A unique key for each object.
        rank : (n,) int32
            The rank where each object was.
        seconds : (n,) float64
            The object's time per iteration on that rank, the mean of several iterations.  An object
            without a measured time (0 or nan) is ignored.
        work : (n,) float64, optional
            The user's own estimate of the object's work, in any unit; 0: no estimate.
        """
        keys, ranks = _array("key", key, np.int64), _array("rank", rank, np.int32)
        times = _array("seconds", seconds, np.float64)
        size = None if work is None else _array("work", work, np.float64)
        shapes = [a.shape for a in (keys, ranks, times, size) if a is not None]
        if any(shape != shapes[0] or len(shape) != 1 for shape in shapes):
            names = ("key", "rank", "seconds", "work")[: len(shapes)]
            raise DomainError(
                f"{', '.join(names)} have shapes {', '.join(map(str, shapes))}: "
                "expected one dimension and the same length"
            )
        self._core.observe(keys, ranks, times, size)
        return self.speed
