"""A call of MPI fails: ``mpiexec -n 3 python faulty.py loop|exchange``.

FAULTY_LIBRARY is the compiled faulty_mpi.c.
"""

import ctypes
import sys

import numpy as np
import preloaded  # noqa: F401 before MPI
from each_case import dealt, rotate
from mpi4py import MPI

import pylb
from pylb import _mpi
from pylb.errors import MPIError

comm = MPI.COMM_WORLD


def loop():
    """FAULTY_AT=60 FAULTY_RANK=1: all ranks end, with an error that names the rank.

    A late call causes no error.
    """
    how = {"every": 2, "network": (1e-6, 1e-9)}
    lb = pylb.Balancer(comm, strategy=rotate, **how)
    dealt(lb, range(4 * comm.size), lambda key: [key])
    for it in lb.iterate(5):
        for key, _ in lb.local():
            lb.send((key + 1) % (4 * comm.size), key, it)
    print(f"rank {comm.rank} is through", flush=True)


def exchange():
    """Rank 0 has failed in an exchange, and MPI then fails, too: no request may be lost."""
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


{"loop": loop, "exchange": exchange}[sys.argv[1]]()
