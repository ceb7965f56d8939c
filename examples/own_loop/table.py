"""Print the table of the programs in this folder: a run without pylb, and one with it."""

import time

import numpy as np
from mpi4py import MPI


def compare(run, name, comm=MPI.COMM_WORLD):
    """Print a table of ``run(comm, mode)`` with pylb's mode "off" and "on".

    `run` returns three things: the seconds of this rank's work in each step; a number, whose sum
    over the ranks is printed as `name` and does not depend on the placement; and the advisor.
    """
    if comm.rank == 0:
        print(f"{comm.size:2} ranks       max/mean   seconds  LB steps {name:>12}")
    for label, mode in (("without pylb", "off"), ("with pylb", "on")):
        comm.Barrier()
        began = time.perf_counter()
        work, result, lb = run(comm, mode)
        seconds = time.perf_counter() - began
        work = np.array(comm.allgather(work))  # (ranks, steps)
        result = comm.allreduce(result)
        ratio = work.max(axis=0).sum() / work.mean(axis=0).sum()
        if comm.rank == 0:
            n = len(lb.history.lb_steps)
            print(f"{label:14} {ratio:8.3f} {seconds:9.4f} {n:9} {result:12.6g}", flush=True)
