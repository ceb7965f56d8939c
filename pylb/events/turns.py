"""How long a process that gives way waits for its next turn, while another one computes.

Run by path, without pylb: ``python -I -S turns.py``; prints seconds.  Two processes on one core:
one computes, the other one yields again and again, as a rank does that waits in MPI; the mean gap
between its turns is the quantum of the kernel's scheduler.
"""

import os
import sys
import time

SECONDS = 0.15
LEAST = 2e-4  # shorter gaps are those of the yielding process itself


def gaps() -> list[float]:
    """Of the yielding process, while its child computes on the same core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    child = os.fork()
    if child == 0:
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            pass
        os._exit(0)
    out = []
    last = time.perf_counter()
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        os.sched_yield()
        now = time.perf_counter()
        if now - last > LEAST:
            out.append(now - last)
        last = now
    return out


if __name__ == "__main__":
    found = gaps()
    print(sum(found) / len(found) if found else 0.0)
    sys.exit(0)
