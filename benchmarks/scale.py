"""What the runtime costs with many objects: an LB step, the iterations around it, memory, messages.

    python benchmarks/scale.py [--objects 1000,10000,100000] [--ranks 2] [--json scale.json]

Objects are integers whose bodies do nothing.  Rank 0 has 1.2 times the average number of objects,
so that BestFitLB moves about a tenth of all objects in the only LB step.  Each row is a run of its
own under mpiexec.  The second table has the cost of messages: each object sends to four neighbours,
and a fifth of the messages go to another rank.  The third table has virtual ranks in one process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common.mpi import ask_mpi

import pylb
from pylb import console

BEFORE, AFTER = 6, 6  # iterations before and after the LB step


def peak() -> int:
    """Return the largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident() -> int:
    """Return the present memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def plain_loop(n: int) -> float:
    """Return the seconds of the same loop over n objects in plain Python, the shortest of five."""
    items = {key: key for key in range(n)}
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        for _key, _block in items.items():
            pass
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def balanced_run(comm: Any, n: int) -> dict[str, Any]:
    """Run with n objects per rank on average; return values of the slowest or largest rank."""
    total = n * comm.size
    first = [round(n * r + (0.2 * n if r else 0)) for r in range(comm.size)]
    first += [total]
    plain = plain_loop(n)
    gc.collect()
    before = resident()
    blocks = list(range(first[comm.rank], first[comm.rank + 1]))
    with_blocks = resident()
    lb = pylb.Balancer(
        comm, strategy="BestFitLB", every=BEFORE, record=False, pause_if_useless=False
    )
    for key in blocks:
        lb.add(key, key)
    del blocks
    marks: list[float] = []
    for it in lb.iterate(BEFORE + AFTER - 1):
        marks.append(time.perf_counter())
        if it == BEFORE - 1:
            held = resident()
        for _key, _block in lb.local():
            pass
    marks.append(time.perf_counter())
    seconds = np.max(comm.allgather(np.diff(marks)), axis=0)  # seconds of the slowest rank
    step = BEFORE - 1  # the LB step is at the end of this iteration
    normal = float(np.median(np.delete(seconds, [0, step, step + 1])))
    receipt = lb.history.lb_steps[0]
    own = first[comm.rank + 1] - first[comm.rank]
    return {
        "ranks": comm.size,
        "objects per rank": n,
        "moved": receipt.migrations,
        "LB step, ms": 1e3 * receipt.cost,
        "next iteration, ms": 1e3 * float(seconds[step + 1]),
        "normal iteration, ms": 1e3 * normal,
        "over plain loop, µs per object": 1e6 * (normal - 1.2 * plain) / (1.2 * n),
        "held, B per object": max(comm.allgather((held - with_blocks) / own)),
        "peak, MB": max(comm.allgather(peak() - before)) / 1e6,
    }


def messages_run(comm: Any, n: int) -> dict[str, Any]:
    """Run objects on a ring that send four messages an iteration, four fifths of them local."""
    total, mine = n * comm.size, range(n * comm.rank, n * (comm.rank + 1))
    steps = (1, 2, 3, 4)
    far = n // 5 if comm.size > 1 else 0  # objects with neighbours on the next rank
    lb = pylb.Balancer(comm, mode="off", record=False)
    for key in mine:
        lb.add(key, None)

    def target(key: int, step: int) -> int:
        return (key + step + (n if key % 5 == 0 and far else 0)) % total

    targets = {key: [target(key, step) for step in steps] for key in mine}
    seconds = []
    for _ in range(2):
        marks = []
        for _ in lb.iterate(6):
            marks.append(time.perf_counter())
            for key, _ in lb.local():
                lb.inbox(key)
                for to in targets[key]:
                    lb.send(to, key, 1.0)
        seconds += np.diff(marks)[1:].tolist()

    def bare() -> float:
        start = time.perf_counter()
        for key, _ in lb.local():
            for _to in targets[key]:
                pass
        return time.perf_counter() - start

    loop = min(bare() for _ in range(3))
    least = max(comm.allgather((min(seconds) - loop) / (len(steps) * n)))
    return {"ranks": comm.size, "objects per rank": n, "µs per message": 1e6 * least}


def virtual_run(p: int, objects: int = 10, iterations: int = 20) -> dict[str, Any]:
    """Run a program on p virtual ranks, and return its time and memory."""

    def main(comm: Any) -> int:
        lb = pylb.Balancer(comm)
        for key in range(objects * comm.rank, objects * (comm.rank + 1)):
            lb.add(key, key)
        for _ in lb.iterate(iterations):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (1 + key % 7))
        return lb.n_lb_steps

    before, start = peak(), time.perf_counter()
    done = pylb.VirtualCluster(p, clock="none").run(main)
    return {
        "virtual ranks": p,
        "seconds": time.perf_counter() - start,
        "peak, MB": (peak() - before) / 1e6,
        "LB steps": done[0],
    }


def run_one(what: str, n: int) -> None:
    """Print one row as JSON on standard output."""
    if what == "virtual":
        print(json.dumps(virtual_run(n)))
        return
    from mpi4py import MPI

    row = {"balanced": balanced_run, "messages": messages_run}[what](MPI.COMM_WORLD, n)
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(row))


def row_of(what: str, n: int, ranks: int) -> dict[str, Any]:
    """Return a row, which a process of its own measures."""
    start = [] if what == "virtual" else ["mpiexec", "-n", str(ranks)]
    command = [*start, sys.executable, __file__, "--one", what, "--objects", str(n)]
    out = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    if out.returncode != 0:
        raise SystemExit(out.stderr)
    row: dict[str, Any] = json.loads(out.stdout)
    return row


def table(rows: list[dict[str, Any]]) -> None:
    if rows:
        console.show(list(rows[0]), [list(row.values()) for row in rows])


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=numbers, default=[1000, 10_000, 100_000, 500_000])
    parser.add_argument("--ranks", type=numbers, default=[2])
    parser.add_argument("--messages", type=numbers, default=[1000, 100_000])
    parser.add_argument("--virtual", type=numbers, default=[64, 256, 1024])
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    ask_mpi()
    if options.one:
        run_one(options.one, options.objects[0])
        return
    rows = {
        "balanced": [row_of("balanced", n, p) for p in options.ranks for n in options.objects],
        "messages": [row_of("messages", n, p) for p in options.ranks for n in options.messages],
        "virtual": [row_of("virtual", p, 1) for p in options.virtual],
    }
    for part in rows.values():
        table(part)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
