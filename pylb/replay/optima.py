"""The best schedule that was found, and how far a run is from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Optimum(NamedTuple):
    """The best schedule of LB steps that was found; a program knows it only when it is over.

    Attributes
    ----------
    time : float
        Seconds of the whole run: iterations and LB steps.
    iterations : (n,) int64
        Iterations that end with an LB step.
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


def regret(time: float, best: Optimum) -> float:
    """time / best.time - 1; 0 where neither takes any time."""
    return 0.0 if time == best.time else time / best.time - 1.0
