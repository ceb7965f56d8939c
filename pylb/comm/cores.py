"""Find out which ranks share cores."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import NamedTuple

from pylb import _core

TICKS = os.sysconf("SC_CLK_TCK")
MATTERS = 0.1  # cores; a smaller use of the cores by other programs is not counted


def _busy_ticks() -> int:
    """Return the clock ticks for which the cores of this process did not idle; see proc(5)."""
    own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    try:
        with open("/proc/stat") as file:
            lines = [line.split() for line in file if line.startswith("cpu")]
        ticks = [[int(word) for word in words[1:9]] for words in lines if words[0] in own]
        return sum(sum(row) - row[3] - row[4] for row in ticks)  # idle, and waiting for a disk
    except (OSError, ValueError, IndexError):
        return 0


class Used(NamedTuple):
    """Seconds that a rank's cores were busy, seconds that the rank used, and elapsed seconds."""

    busy: float
    own: float
    elapsed: float

    @classmethod
    def now(cls) -> Used:
        return cls(_busy_ticks() / TICKS, time.process_time(), _core.clock())


class Cores(NamedTuple):
    """Which ranks share cores and wait for one another, and whether a quota slows this rank."""

    #: Number of ranks in a group that shares cores: ranks of one host whose sets of cores overlap,
    #: or ranks under one quota (of a Linux control group).  Of all groups, this is the one with the
    #: fewest cores per rank.
    n_ranks: int = 0
    #: Number of cores that these ranks may use.  If it is less than `n_ranks`, the ranks wait for
    #: one another.
    n_cores: float = 0.0
    words: str = ""  #: E.g. "4 ranks share 2 cores" if the ranks wait for one another, else empty.
    #: Whether a quota limits this rank and no other, and so acts like a slow processor.
    capped: bool = False
    #: For each rank: the lowest rank of those that share cores with it, and their number of cores.
    group: tuple[int, ...] = ()
    cores: tuple[float, ...] = ()

    @classmethod
    def of(cls, known: list[bytes], rank: int) -> Cores:
        """Evaluate the results of ``_core.cores()`` of all ranks, in order of rank."""
        n, n_cores, words, capped, group, cores = _core.crowd(b"".join(known), rank)
        return cls(n, n_cores, words, capped, tuple(group.tolist()), tuple(cores.tolist()))

    @property
    def shared(self) -> bool:
        """Whether a group of ranks has fewer cores than ranks, so that they wait for each other."""
        return any(n > self.cores[g] for g, n in Counter(self.group).items())

    @property
    def share(self) -> float:
        """Number of cores per rank if all ranks share them, at most 1; else 1."""
        p = len(self.group)
        return min(self.n_cores / p, 1.0) if p and self.n_ranks == p else 1.0

    def others(self, used: list[Used]) -> float:
        """Return how many cores other programs used, if ranks had to wait for them; else 0."""
        most, own = 0.0, dict.fromkeys(self.group, 0.0)
        for g, by in zip(self.group, used, strict=False):  # `group` is empty if it is not known
            own[g] += by.own
        for g, n in Counter(self.group).items():
            busy, _, elapsed = used[g]
            others = (busy - own[g]) / elapsed if elapsed > 0 else 0.0
            if others > MATTERS and n + others > self.cores[g]:
                most = max(most, others)
        return most

    def clock(self, name: str) -> str:
        """Return the clock that measures loads if the user has asked for the clock `name`."""
        # "auto" and "mpi" leave out waits for a core, but those for a quota of this rank count
        return {"auto": "wall", "mpi": "mpi_wall"}.get(name, name) if self.capped else name
