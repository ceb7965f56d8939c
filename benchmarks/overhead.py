"""The cost of the runtime: an object in the loop, the bookkeeping of an iteration, a migration.

    mpiexec -n 2 python benchmarks/overhead.py [--json overhead.json]

Without mpiexec the program starts itself on two ranks.  Every time is the shortest of several
repeats; a ratio compares times of the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common.mpi import on_ranks

import pylb
from pylb import _core, console

if __name__ == "__main__":
    on_ranks(2)

from mpi4py import MPI

comm = MPI.COMM_WORLD
RECORD = _core.STATS_BYTES  # the size of the statistics of an iteration, plb_stats_t


def least(call: Callable[[], float], repeats: int) -> float:
    """Return the smallest of several results, each the largest over the ranks.  Collective."""
    answers = []
    for _ in range(repeats):
        comm.Barrier()
        answers.append(comm.allreduce(call(), op=MPI.MAX))
    return min(answers)


def per_object(n: int = 100_000) -> dict[str, float]:
    """Return seconds per object of a bare loop, and what lb.local() or two clock readings add."""
    lb = pylb.Balancer()
    for key in range(n):
        lb.add(key, None)
    list(lb.iterate(0))
    pairs = list(lb.local())
    clock = time.perf_counter_ns

    def bare() -> float:
        start = clock()
        for _key, _block in pairs:
            pass
        return 1e-9 * (clock() - start) / n

    def timed() -> float:
        start = clock()
        for _key, _block in lb.local():
            pass
        return 1e-9 * (clock() - start) / n

    def two_clocks() -> float:
        start = clock()
        for _key, _block in pairs:
            clock()
            clock()
        return 1e-9 * (clock() - start) / n

    loop = least(bare, 15)
    return {
        "bare loop": loop,
        "lb.local()": least(timed, 15) - loop,
        "two clocks": least(two_clocks, 15) - loop,
    }


def per_iteration(n: int = 50) -> dict[str, float]:
    """Return seconds per iteration: of a bare reduction, and of empty iterations.

    The reduction is an Iallreduce of a record, with Test until it is done.  Empty iterations are
    measured twice: all ranks wait for one another ("iteration"), or there is a lag ("AtSync").
    So few iterations at a time, because other programs then leave some of the repeats alone.
    """
    a, b = np.zeros(RECORD, np.uint8), np.zeros(RECORD, np.uint8)

    def bare() -> float:
        start = time.perf_counter()
        for _ in range(n):
            request = comm.Iallreduce(a, b, op=MPI.MAX)
            while not request.Test():
                pass
        return (time.perf_counter() - start) / n

    def loop(lag: int) -> Callable[[], float]:
        lb = pylb.Balancer(comm, every=1_000_000, lag=lag)
        lb.add(comm.rank, None)

        def run() -> float:
            start = time.perf_counter()
            for _ in lb.iterate(n):
                pass
            return (time.perf_counter() - start) / n

        return run

    return {
        "Iallreduce and Test": least(bare, 500),
        "iteration": least(loop(0), 500),
        "AtSync": least(loop(4), 500),
    }


def migration(total: int = 100_000_000, arrays: int = 10) -> dict[str, float]:
    """Return the seconds to move `total` bytes from rank 0 to rank 1 into new arrays."""
    size = total // arrays // 8
    blocks = [np.full(size, float(i)) for i in range(arrays)]

    def raw() -> float:
        comm.Barrier()
        start = time.perf_counter()
        if comm.rank == 0:
            MPI.Request.Waitall([comm.Isend(x, 1, i) for i, x in enumerate(blocks)])
        elif comm.rank == 1:
            new = [np.empty(size) for _ in range(arrays)]
            MPI.Request.Waitall([comm.Irecv(x, 0, i) for i, x in enumerate(new)])
        return time.perf_counter() - start

    def pickled() -> float:
        comm.Barrier()
        start = time.perf_counter()
        if comm.rank == 0:
            comm.send(blocks, 1)
        elif comm.rank == 1:
            comm.recv(source=0)
        return time.perf_counter() - start

    def moved() -> float:
        lb = pylb.Balancer(
            comm,
            every=1,
            strategy=lambda s: np.ones(s.n_objects, int),
            load=lambda k, b: 1.0,
            overlap=False,
        )
        if lb.rank == 0:
            for key, block in enumerate(blocks):
                lb.add(key, block)
        list(lb.iterate(2))
        return lb.history.lb_steps[0].seconds_migration

    return {
        "Isend and Irecv": least(raw, 9),
        "comm.send": least(pickled, 5),
        "migration": least(moved, 9),
    }


def results() -> list[dict[str, Any]]:
    """Return each time with its reference; `most` is the largest ratio allowed, if any."""
    i, m, o = per_iteration(), migration(), per_object()
    rows = [
        ("object in lb.local()", o["lb.local()"], "two clocks", o["two clocks"], 1.5),
        ("iteration", i["iteration"], "Iallreduce and Test", i["Iallreduce and Test"], None),
        ("AtSync, lag=4", i["AtSync"], "Iallreduce and Test", i["Iallreduce and Test"], 1.3),
        ("migration of 100 MB", m["migration"], "Isend and Irecv", m["Isend and Irecv"], 1.15),
        ("migration of 100 MB", m["migration"], "comm.send", m["comm.send"], None),
    ]
    return [
        {
            "what": what,
            "seconds": s,
            "against": against,
            "against_seconds": base,
            "ratio": s / base,
            "most": most,
            "met": None if most is None else s <= most * base,
        }
        for what, s, against, base, most in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="also write the results to this file")
    options = parser.parse_args()
    if comm.size == 1:
        parser.error("expected two ranks: mpiexec -n 2")
    rows = results()
    if comm.rank == 0:
        names = {True: "yes", False: "NO", None: ""}
        console.show(
            ["what", "µs", "against", "µs", "ratio", "at most", "met"],
            [
                [
                    r["what"],
                    1e6 * r["seconds"],
                    r["against"],
                    1e6 * r["against_seconds"],
                    r["ratio"],
                    r["most"],
                    names[r["met"]],
                ]
                for r in rows
            ],
        )
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
