"""The best schedule of LB steps for a run, and the regret of other runs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
