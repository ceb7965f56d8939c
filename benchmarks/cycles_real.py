"""How much to move, on eight real ranks: the loads of cycles.py; objects sleep for their load.

    python benchmarks/cycles_real.py [--kinds wandering ...] [--sizes 1e3 1e5 1e7] [--json FILE]

The program starts itself on 8 ranks, which may share cores, because a sleeping rank needs no core.
A result is the time of the slowest rank divided by that of the same loop with perfect balance: in
each iteration, all objects have the mean load of that iteration, and pylb is off.  This loop runs
before and after the others; the shorter time counts.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

from common.mpi import on_ranks

if __name__ == "__main__":
    on_ranks(8)

import numpy as np
from common.figures import save
from cycles import ITERATIONS, OBJECTS, loads_of
from mpi4py import MPI

import pylb
from pylb.console import show

comm = MPI.COMM_WORLD
START = 0.2  # first position of the heavy region, as a fraction of the ring
WAYS: dict[str, dict[str, Any]] = {
    "nothing set": {},
    "BestFitLB every 5": {"strategy": "BestFitLB", "every": 5},
    "never": {"mode": "off"},
}


def run(load: np.ndarray, size: float, options: dict[str, Any]) -> tuple[float, int, int]:
    """Return the time of the slowest rank, and the numbers of LB steps and migrations."""
    lb = pylb.Balancer(comm, **options)
    for key in range(lb.rank * OBJECTS // lb.n_ranks, (lb.rank + 1) * OBJECTS // lb.n_ranks):
        lb.add(key, np.zeros(int(size), np.uint8))
    comm.Barrier()
    start = time.perf_counter()
    for t in lb.iterate(ITERATIONS):
        for key, _ in lb.local():
            time.sleep(load[t, key])
    took = comm.allreduce(time.perf_counter() - start, op=MPI.MAX)
    steps = lb.history.lb_steps
    return took, len(steps), sum(s.migrations for s in steps)


def balanced(load: np.ndarray, size: float) -> float:
    """Return the time of the loop in which all objects have the mean load."""
    same = np.broadcast_to(load.mean(axis=1, keepdims=True), load.shape)
    return run(same, size, WAYS["never"])[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = ["wandering", "growing", "stepping", "breathing"]
    parser.add_argument("--kinds", nargs="*", default=kinds)
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e3, 1e5, 1e7])
    parser.add_argument("--json", metavar="FILE", default="out/cycles_real.json")
    args = parser.parse_args()
    rows = []
    for kind, size in itertools.product(args.kinds, args.sizes):
        load = loads_of(kind, START)
        perfect = balanced(load, size)
        found = {name: run(load, size, options) for name, options in WAYS.items()}
        perfect = min(perfect, balanced(load, size))
        rows.append({"loads": kind, "bytes": size, "perfect": perfect, **found})
        cells = [f"{took / perfect:.3f} ({steps}, {n})" for took, steps, n in found.values()]
        if comm.rank == 0:
            show(["loads", "bytes", *WAYS], [[kind, f"{size:,.0f}", *cells]])
    if comm.rank == 0:
        save(args.json, rows)


if __name__ == "__main__":
    main()
