"""The sums of the receipts that a very long run does not keep."""

from __future__ import annotations

from typing import NamedTuple


class Dropped(NamedTuple):
    """The sums of the receipts that were dropped from the middle of a `History`.

    Attributes
    ----------
    n : int
        Number of dropped receipts.
    balancings : int
        How many of them are receipts of LB steps.
    migrations, bytes : int
    cost : float
        Seconds.
    """

    first: int = 0  # number of the first dropped receipt
    n: int = 0
    balancings: int = 0
    migrations: int = 0
    bytes: int = 0
    cost: float = 0.0

    def number(self, i: int) -> int:
        """Return the number of kept receipt i among all receipts of the run; both count from 0."""
        return i if i < self.first else i + self.n

    def __str__(self) -> str:
        return (
            f"{self.n} decisions after the first {self.first} are not kept, because the run is "
            f"long; {self.balancings} of them were LB steps."
        )
