"""Measure how a process that polls shares its core with a process that computes.

This file is run by its path and does not import pylb: ``python -I -S turns.py [NAP [yield]]``.
Between two polls, the polling process yields, like a rank that waits in MPI.  With NAP it sleeps
instead, such that a sleep on a free core takes NAP seconds.  With ``yield``, it also yields after
each sleep, like Open MPI with ``mpi_yield_when_idle``: a process that wakes gets the core, but a
process that yields waits for its turn.

The script prints two numbers.  The first is the mean time between two polls.  Without NAP, only
gaps longer than LEAST count, in which the other process ran: this gives the scheduler's time slice.
The second is the processor time of polling per second of the process that computes.
"""

import os
import sys
import time
from collections.abc import Callable

SECONDS = 0.3
LEAST = 2e-4  # seconds; in a shorter gap between two polls, the computing process did not run


def sleeper(nap: float, yields: bool) -> Callable[[], None]:
    """Return a function that sleeps `nap` seconds; it asks for less, because it wakes late."""
    asked = nap / 2
    begin = time.perf_counter()
    for _ in range(50):
        time.sleep(asked)
    late = (time.perf_counter() - begin) / 50 - asked
    asked = max(nap - late, 0.0)

    def away() -> None:
        time.sleep(asked)
        if yields:
            os.sched_yield()

    return away


def gaps(away: Callable[[], object]) -> tuple[list[float], float]:
    """Return the gaps between polls while a child computes, and the cost of polling.

    away: what the polling process does between two polls.  The gaps are in seconds; the cost is in
    processor seconds of polling per second of the child.
    """
    child = os.fork()
    if child == 0:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            pass
        os._exit(0)
    out = []
    begin = time.process_time()
    last = time.perf_counter()
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        away()
        now = time.perf_counter()
        out.append(now - last)
        last = now
    took = time.process_time() - begin
    return out, took / max(SECONDS - took, took, 1e-9)


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if len(sys.argv) > 1:
        found, polling = gaps(sleeper(float(sys.argv[1]), "yield" in sys.argv))
    else:
        found, polling = gaps(os.sched_yield)
        found = [gap for gap in found if gap > LEAST]
    print(sum(found) / len(found) if found else 0.0, polling)
    sys.exit(0)
