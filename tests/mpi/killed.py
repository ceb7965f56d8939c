"""The last rank is killed in its loop: under ULFM, the other ranks name it and its objects.

Run by tests/run/test_ulfm.py: ``mpiexec --with-ft ulfm -n 3 python killed.py [lag=1]``.
"""

import os
import signal
import sys

from mpi4py import MPI

import pylb

lag = {"lag": 1} if "lag=1" in sys.argv else {}
lb = pylb.Balancer(MPI.COMM_WORLD, every=1000, **lag)
for key in range(8 * lb.rank, 8 * lb.rank + 8):
    lb.add(key, key)
for it in lb.iterate(2000):
    for _key, _ in lb.local():
        pass
    if it == 40 and lb.rank == lb.n_ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
