"""How a process that waits, and asks again and again, shares its core with another that computes.

Run by path, without pylb: ``python -I -S turns.py [NAP [yield]]``; of two processes on one core one
computes, and the other one asks.  Between two questions it yields, as a rank does that waits in
MPI; or it sleeps, so that with the core to itself it would be away for NAP seconds.  ``yield``: and
then it yields too, as each question to an Open MPI does that is asked to be polite: who sleeps is
let in at once when it wakes, and who yields waits for its turn.  Printed are the mean gap between
two questions, which is the quantum of the kernel's scheduler where a turn is waited for, and what
asking takes of the processor, for each second of the one that computes.
"""

import os
import sys
import time
from collections.abc import Callable

SECONDS = 0.3
LEAST = 2e-4  # shorter gaps are those of the yielding process itself


def sleeper(nap: float, yields: bool) -> Callable[[], None]:
    """A sleep from which one comes back after `nap` seconds: timers and the way back are late."""
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
    """Between its questions, while its child computes on the same core; what it takes."""
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
