"""Who shares the cores of the ranks of a run."""

from __future__ import annotations

from typing import NamedTuple

from pylb import _core


class Cores(NamedTuple):
    """The ranks that share cores most, and whether a quota slows this rank down.

    Attributes
    ----------
    n_ranks : int
        They may use the same cores, or are under the same quota of a control group.
    n_cores : float
        Cores that these ranks may use; less than `n_ranks`: they wait for one another.
    words : str
        Then in words, else empty.
    capped : bool
        Whether a quota holds for this rank alone: then it is as slow as on a slow processor.
    """

    n_ranks: int = 0
    n_cores: float = 0.0
    words: str = ""
    capped: bool = False

    @classmethod
    def of(cls, known: list[bytes], rank: int) -> Cores:
        """From ``_core.cores()`` of every rank."""
        return cls(*_core.crowd(b"".join(known), rank))

    def clock(self, name: str) -> str:
        """The clock of loads.  "auto" is elapsed time under a quota of its own: the time in which
        the quota stops the rank is no wait for other ranks.
        """
        return "wall" if name == "auto" and self.capped else name
