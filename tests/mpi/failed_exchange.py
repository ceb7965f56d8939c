"""Rank 0 has failed in an exchange, and MPI then fails, too: ``mpiexec -n 2 python ...``.

FAULTY_LIBRARY is the compiled faulty_mpi.c.  No request of MPI may be lost.
"""

import ctypes

import numpy as np
import preloaded  # noqa: F401 before MPI
from mpi4py import MPI

from pylb import _mpi
from pylb.errors import MPIError

comm = MPI.COMM_WORLD
faulty = ctypes.CDLL(None)
partner = np.array([1 - comm.rank], np.int32), np.array([0, 1])
# The calls: tell the partner (Isend), find its rows and drop them, complete the first call.
for name in ("Isend", "Improbe", "Mrecv", "Test"):
    exchanger = _mpi.Comm(comm)
    said = ""
    if comm.rank == 0:
        faulty.faulty_call(name.encode())
    try:
        if comm.rank == 0 or name != "Isend":  # else rank 1 gets no message
            exchanger.fail(*partner, *partner)
    except MPIError as why:
        said = str(why)
    answers = comm.allgather((said, faulty.faulty_sends()))
    assert [bool(error) for error, _ in answers] == [True, False], (name, answers)
    assert [lost for _, lost in answers] == [0, 0], (name, answers)
print("done", flush=True)
