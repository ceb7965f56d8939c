"""Measure how long a rank waits while other ranks, programs or virtual machines use its cores."""

from __future__ import annotations

from typing import Any

from pylb import _core
from pylb.comm.agreement import Agreement
from pylb.comm.cores import Cores, Used


def _processor_ticks() -> tuple[int, int]:
    """Return the clock ticks that other virtual machines used, and all ticks; see proc(5)."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0, 0)


class CoreWaits:
    """Waiting times of this rank for a core since the first loop began; 0 for virtual ranks."""

    def __init__(self) -> None:
        self.cores = Cores()  # known after `begin`
        self._delay, self._ticks = 0.0, (0, 0)
        self._began = Used(0.0, 0.0, 0.0)

    def begin(self, agreement: Agreement) -> None:
        """Find out which ranks share cores.  Collective the first time."""
        if not self.cores.n_ranks:
            self.cores = agreement.cores()
            if self.cores.n_ranks:
                self._delay, self._ticks = _core.run_delay(), _processor_ticks()
                self._began = Used.now()

    @property
    def waited(self) -> float:
        """Seconds that this rank waited for a core because other processes had it."""
        return max(_core.run_delay() - self._delay, 0.0) if self.cores.n_ranks else 0.0

    @property
    def stolen(self) -> float:
        """Fraction of the time of this host's cores that other virtual machines used."""
        if not self.cores.n_ranks:
            return 0.0
        stolen, every = (b - a for a, b in zip(self._ticks, _processor_ticks(), strict=True))
        return stolen / every if every > 0 else 0.0

    def used(self) -> Used:
        """Return how much the cores of this rank were used since the first loop began."""
        if not self.cores.n_ranks:
            return self._began
        return Used(*(b - a for a, b in zip(self._began, Used.now(), strict=True)))

    def figures(self) -> dict[str, Any]:
        """Return `cores` (in words), `waited` and `stolen`, unless they are 0 or empty."""
        out = {"cores": self.cores.words, "waited": self.waited, "stolen": self.stolen}
        return {name: value for name, value in out.items() if value}
