"""What an LB step was expected to save and to cost."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Alternative:
    """A possible decision: to rebalance with a strategy, or not at all.

    Attributes
    ----------
    strategy : str
        Empty: do not rebalance.
    gain : float
        Seconds that an iteration is expected to save.
    cost : float
        Seconds that the LB step is expected to take; nan if not known yet.

    Examples
    --------
    >>> pylb.Alternative("RefineLB", gain=0.01, cost=0.5).repaid_in  # iterations
    50.0
    """

    strategy: str
    gain: float
    cost: float

    @property
    def repaid_in(self) -> float:
        """Iterations after which the cost is repaid; inf: never, nan: not known."""
        if self.cost == 0:
            return 0.0
        return self.cost / self.gain if self.gain > 0 else math.inf
