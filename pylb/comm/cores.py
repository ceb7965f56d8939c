"""Find out which ranks share cores."""

from __future__ import annotations

from typing import NamedTuple

from pylb import _core


class Cores(NamedTuple):
    """Which ranks share cores and must wait for one another, and whether a quota slows this rank.

    Attributes
    ----------
    n_ranks : int
        Number of ranks in a group that shares cores: ranks of one host, ranks that can use the same
        cores, or ranks under one quota (of a Linux control group).  Of all groups, this is the one
        with the fewest cores per rank.
    n_cores : float
        Number of cores that these ranks may use.  If it is less than `n_ranks`, the ranks wait for
        one another.
    words : str
        E.g. "4 ranks share 2 cores" if the ranks wait for one another, else empty.
    capped : bool
        Whether a quota limits this rank and no other.  The quota then acts like a slow processor.
    """

    n_ranks: int = 0
    n_cores: float = 0.0
    words: str = ""
    capped: bool = False

    @classmethod
    def of(cls, known: list[bytes], rank: int) -> Cores:
        """Evaluate the results of ``_core.cores()`` of all ranks, in order of rank."""
        return cls(*_core.crowd(b"".join(known), rank))

    def clock(self, name: str) -> str:
        """Return the clock that measures loads if the user has asked for the clock `name`.

        "auto" leaves out waits for a core.  But if a quota limits only this rank, it acts like a
        slow processor, and "auto" means elapsed time.
        """
        return "wall" if name == "auto" and self.capped else name
