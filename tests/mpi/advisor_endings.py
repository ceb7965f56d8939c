"""Programs with an advisor that do not end well: ``mpiexec -n 3 python ... CASE LAG``.

All ranks must end soon, with a non-zero exit code and a message that says what happened.
"""

import sys

import numpy as np
from mpi4py import MPI

import pylb

comm = MPI.COMM_WORLD
case, lag = sys.argv[1], int(sys.argv[2])
is_odd = comm.rank == comm.size - 1
if case == "moving":  # the last rank fails while a megabyte of each cell is on its way
    lb = pylb.Advisor(comm, lag=lag, every=2, strategy=lambda s: (s.rank + 1) % s.n_ranks)
    keys = 4 * comm.rank + np.arange(4)
    for _ in lb.iterate(9):
        if plan := lb.advise(loads=np.ones(4), keys=keys):
            pending = plan.migrate_begin(np.ones((4, 1 << 17)), keys)
            if is_odd:
                raise ValueError("cell 7 is broken")
            _, keys = pending.wait()
lb = pylb.Advisor(comm, lag=lag)
for step in range(9) if "own" in case else lb.iterate(9):
    if is_odd and step == 3:
        if case in ("raise", "own loop"):
            raise ValueError("cell 7 is broken")
        if case == "exit":
            sys.exit(0)
        if case == "break":
            break
        if case == "skip":
            continue
    lb.advise(seconds=1.0)
print(f"rank {comm.rank} is through")
