"""The best schedule that was found, and the distance of a run from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Optimum(NamedTuple):
    """The best schedule of LB steps that was found; it is known only after the run.

    Attributes
    ----------
    time : float
        Seconds of the whole run: iterations and LB steps.
    iterations : (n,) int64
        Iterations that end with an LB step.
    cost : float
        Seconds of each LB step.
    bound : float
        Seconds: no schedule of LB steps with this cost is shorter, for any strategy.
    exact : bool
        Whether no schedule with these strategies is shorter than `time`.
    strategies : tuple of str
        The strategy of each LB step; empty for a generated program.

    Examples
    --------
    >>> best = trace.optimum("GreedyLB", cost=0.5)
    >>> best.bound < best.time
    True
    """

    time: float
    iterations: NDArray[np.int64]
    cost: float
    bound: float
    exact: bool
    strategies: tuple[str, ...] = ()


def regret(time: float, best: Optimum) -> float:
    """time / best.time - 1; 0 if neither takes any time."""
    return 0.0 if time == best.time else time / best.time - 1.0
