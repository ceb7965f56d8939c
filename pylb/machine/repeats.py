"""What measuring the same parts again says: their mean times, the noise, who has changed."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from pylb.snapshot import F64

CHANGED = math.log(1.25)  # a rank's noise hardly is; the same in csrc/machine/fpm.c
SURE = 3.0  # times the noise, where that is more
DEVIATIONS = 3.0  # of a mean: what chance may make the longest of some times seem to be off by
MOST = CHANGED  # what passes for noise
MEMORY = 8  # measurements of each rank
SHORTEST = 1e-9  # seconds

Bools = NDArray[np.bool_]


class Repeats:
    """Times of parts that stay as they are.

    Of several measurements of the same parts the mean counts.  One that is far off is a processor
    that has changed, or an interruption: the next one tells.

    Attributes
    ----------
    mean : (p,) float64
        Seconds, what counts.
    n : (p,) int64
        Measurements in it.
    """

    def __init__(self, n_ranks: int) -> None:
        self.mean: F64 = np.zeros(n_ranks)
        self.n = np.zeros(n_ranks, np.int64)
        self._doubt: F64 = np.zeros(n_ranks)  # which way a time was off that may be a change
        self._off: deque[float] = deque(maxlen=MEMORY * n_ranks)

    def begin(self) -> None:
        """The parts are others."""
        self.n[:] = 0
        self._doubt[:] = 0.0

    @property
    def noise(self) -> float:
        """Relative deviation of a measurement, by the median; 0 where nothing is known."""
        return min(1.4826 * float(np.median(self._off)), MOST) if self._off else 0.0

    @property
    def by_chance(self) -> float:
        """By how much the longest of the times may be too long, relatively."""
        return DEVIATIONS * self.noise / math.sqrt(max(int(self.n.max()), 1))

    def observe(self, seconds: F64, busy: Bools) -> bool:
        """Another measurement of those that are busy; whether none of them is in doubt."""
        times = np.maximum(seconds, SHORTEST)
        again = busy & (self.n > 0)
        shift = np.log(times / np.where(again, self.mean, times))
        odd = again & (np.abs(shift) > max(CHANGED, SURE * self.noise))
        sure = odd & (np.sign(shift) == self._doubt)
        like = again & ~odd
        self._off.extend((np.abs(shift) * np.sqrt(self.n / (self.n + 1.0)))[like].tolist())
        anew = sure | (busy & (self.n == 0))
        self.mean = np.where(like, self.mean + (times - self.mean) / (self.n + 1), self.mean)
        self.mean[anew] = times[anew]
        self.n = np.where(anew, 1, self.n + like)
        self._doubt = np.where(odd & ~sure, np.sign(shift), 0.0)
        return not self._doubt.any()

    def foreseen(self, seconds: F64, expected: F64, which: Bools) -> None:
        """Some times that were foreseen from parts hardly different; both were measured."""
        off = np.abs(np.log(np.maximum(seconds, SHORTEST)[which] / expected[which]))
        self._off.extend((off[off < CHANGED] / math.sqrt(2.0)).tolist())
