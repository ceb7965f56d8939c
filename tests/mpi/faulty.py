"""A call of MPI fails: ``FAULTY_AT=60 FAULTY_RANK=1 mpiexec -n 3 python tests/mpi/faulty.py``.

FAULTY_LIBRARY is the compiled faulty_mpi.c.  All ranks must end, with an error that names the rank;
a late call causes no error.
"""

import preloaded  # noqa: F401 before MPI
from mpi4py import MPI

import pylb

comm = MPI.COMM_WORLD
lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + 1) % s.n_ranks, every=2, network=(1e-6, 1e-9))
for key in range(comm.rank, 4 * comm.size, comm.size):
    lb.add(key, [key])
for it in lb.iterate(5):
    for key, _ in lb.local():
        lb.send((key + 1) % (4 * comm.size), key, it)
print(f"rank {comm.rank} is through", flush=True)
