"""Wait until no other program or tenant disturbs the cores.

The system's statistics show the load of other programs, but not that of other tenants (virtual
machines) of the same physical cores: a core that is shared with another tenant does little more
than half of its work, for tenths of a second or for minutes.  Therefore a short loop is timed on
each core.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

LOOP, TRIES, IN_A_ROW = 50_000, 4, 5  # steps of a loop; loops on a core; fast rounds in a row
SLOW = 1.15  # a loop is slow above 1.15 times the shortest time (beside a busy core: 1.8 times)


class Stillness:
    """Waits until all given cores compute as fast as in the fastest loop so far.

    Parameters
    ----------
    patience : float
        Largest number of seconds that all waits together may take.

    Attributes
    ----------
    waited : float
        Seconds of all waits so far.
    waits, in_vain : int
        Number of waits, and number of waits that ended without quiet cores.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._least = float("inf")
        self.waited = 0.0
        self.waits = self.in_vain = 0

    def wait(self, cores: Iterable[int], longest: float) -> bool:
        """Wait until each core was fast several times in a row; False after `longest` seconds."""
        before, begin = os.sched_getaffinity(0), time.perf_counter()
        cores = sorted(set(cores) & before)
        in_a_row, longest = 0, min(longest, self.patience - self.waited)
        try:
            while in_a_row < IN_A_ROW and time.perf_counter() - begin < longest:
                in_a_row = in_a_row + 1 if self._are_still(cores) else 0
        finally:
            os.sched_setaffinity(0, before)
        self.waited += time.perf_counter() - begin
        self.waits += 1
        self.in_vain += in_a_row < IN_A_ROW
        return in_a_row == IN_A_ROW

    def __str__(self) -> str:
        text = f"waited {self.waited:.0f} s for quiet cores before {self.waits} runs"
        return f"{text}, {self.in_vain} times in vain"

    def _are_still(self, cores: list[int]) -> bool:
        return all(self._is_still(core) for core in cores)

    def _is_still(self, core: int) -> bool:
        os.sched_setaffinity(0, {core})
        least = min(_loop() for _ in range(TRIES))
        self._least = min(self._least, least)
        return least <= SLOW * self._least


def _loop() -> float:
    """Return the seconds of a loop that does nothing."""
    begin = time.perf_counter()
    sum(range(LOOP))
    return time.perf_counter() - begin
