"""The program of tests/lib/drift.c in Python: ``mpiexec -n 2 python ... STEPS LAG KIND``.

Prints the receipts.  All seconds are given, not measured, so every run makes the same decisions.
"""

import re
import sys

import numpy as np

import pylb

CELLS = 16  # number of cells of each rank at the start


def loads_of(keys, step, total):
    at = keys / total - step / 60.0
    return 1e-3 * (1.0 + np.where(at - np.trunc(at) < -0.7, 6.0, 0.0))


def drift(comm, steps, lag, kind, **options):
    """Run the program; return the receipts in the form that the C program prints."""
    unlike = kind in ("learn_speeds", "keyless")
    partial = kind == "partial"
    cells, slower = kind != "seconds" and not partial, 2.5 if unlike and comm.rank % 2 else 1.0
    lb = pylb.Advisor(comm, lag=lag, **options)
    keys, since = comm.rank * CELLS + np.arange(CELLS), 0
    for step in lb.iterate(steps):
        if cells:
            loads = slower * loads_of(keys, step, comm.size * CELLS)
            if plan := lb.advise(loads=loads, keys=None if kind == "keyless" else keys):
                keys = keys if kind == "ignored" else plan.migrate(keys)
                lb.rebalanced(2e-3)
        else:
            grown = 0.1 * since if comm.rank == 0 else 0.0
            since += 1
            if lb.advise(seconds=1e-3 * (1.0 + grown + 1e-3 * (step % 7)), partial=partial):
                lb.rebalanced(2e-3)
                since = since // 2 if partial else 0
    return [row(r) for r in lb.history]


def row(r):
    figures = (r.max, r.before, r.predicted, r.cost if r.balanced else 0.0, r.gain)
    words = " ".join(f"{x:.17g}" for x in figures)
    reason = re.sub(r"one saves .* per iteration", "an LB step saves time", r.reason)
    off = "LB steps have cost more than they saved lately"
    reason = re.sub(r"the last LB steps cost .* are switched off until .*", off, reason)
    return f"{r.iteration} {r.balanced:d} {r.strategy or '-'} {words} {r.migrations} {reason}"


if __name__ == "__main__":
    from mpi4py import MPI

    found = drift(MPI.COMM_WORLD, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    if MPI.COMM_WORLD.rank == 0:
        print("\n".join(found))
