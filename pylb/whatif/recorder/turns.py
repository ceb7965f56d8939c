"""Measure how a process that polls shares its core with another that computes.

Run by path, without pylb: ``python -I -S turns.py [NAP [yield]]``.  Of two processes on one core,
one computes and the other polls.  Between two polls it yields, like a rank that waits in MPI.  With
NAP it sleeps instead, such that with the core to itself it would be away for NAP seconds.  With
``yield`` it also yields after the sleep, as each poll of Open MPI does with
``mpi_yield_when_idle``: a process that wakes runs at once, but one that yields waits for its turn.
The script prints the mean gap between two polls (the time slice of the scheduler, if the process
waits for its turn) and the processor time that polling takes per second of the process that
computes.
"""

import os
import sys
import time
from collections.abc import Callable

SECONDS = 0.3
LEAST = 2e-4  # shorter gaps come from the yielding process itself


def sleeper(nap: float, yields: bool) -> Callable[[], None]:
    """Return a sleep that ends after `nap` seconds, although timers and wake-ups are late."""
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
    """Return the mean gap between polls while the child computes, and their cost."""
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
