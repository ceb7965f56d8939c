"""A rank does not come to `share`: ``mpiexec -n 3 python tests/mpi/share_misses.py ends``.

The last rank ends its program, or calls `advise`.
"""

import sys
import time

import numpy as np
from mpi4py import MPI

import pylb

comm, what = MPI.COMM_WORLD, sys.argv[1]
lb, x = pylb.Advisor(comm), np.ones(4)


def compute(x):
    time.sleep(0.01 * len(x))  # so long that each call is a collective one
    return x


for _ in range(2):
    lb.share(compute, x)
    lb.advise()
if comm.rank == comm.size - 1:
    if what == "ends":
        sys.exit(0)
    lb.advise(seconds=1.0)
lb.share(compute, x)
print("went on")
