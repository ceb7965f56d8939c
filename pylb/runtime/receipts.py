"""Receipts: what a balancing rested on, what it cost and what it was worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Receipt:
    """One balancing.

    Attributes
    ----------
    iteration : int
        At whose end it took place.
    reason : str
        Why, in the trigger's words.
    strategy : str
    tau : float
        Ideal period in iterations that the trigger computed; nan where it computes none.
    max_over_mean : float
        Of this iteration.
    before, predicted : float
        max/mean of the mean loads since the last balancing, on the old and the new placement.
    realised : float
        max over mean of the iterations since, up to the next balancing; nan while there are none.
    migrations, bytes : int
        Objects that changed their rank, and what was sent for it.
    seconds_statistics, seconds_strategy, seconds_migration : float
        Gathering the load database, the strategy, moving the objects.
    cost : float
        Seconds of the whole, on the rank where it took longest.
    """

    iteration: int
    reason: str
    strategy: str
    tau: float
    max_over_mean: float
    before: float
    predicted: float
    realised: float
    migrations: int
    bytes: int
    seconds_statistics: float
    seconds_strategy: float
    seconds_migration: float
    cost: float

    def to_dict(self) -> dict[str, Any]:
        """Every field by name."""
        return asdict(self)
