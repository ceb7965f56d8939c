"""How long a process that gives way waits for its next turn, while another one computes.

Run by path, without pylb: ``python -I -S turns.py``; two processes on one core:
one computes, the other one yields again and again, as a rank does that waits in MPI.  Printed are
the mean gap between its turns, the quantum of the kernel's scheduler, and what it takes of the
processor, for each second of the one that computes.
"""

import os
import sys
import time

SECONDS = 0.3
LEAST = 2e-4  # shorter gaps are those of the yielding process itself


def gaps() -> tuple[list[float], float]:
    """Of the yielding process, while its child computes on the same core; what it takes."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
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
        os.sched_yield()
        now = time.perf_counter()
        if now - last > LEAST:
            out.append(now - last)
        last = now
    took = time.process_time() - begin
    return out, took / max(SECONDS - took, took, 1e-9)


if __name__ == "__main__":
    found, polling = gaps()
    print(sum(found) / len(found) if found else 0.0, polling)
    sys.exit(0)
