"""MPI: one duplicate for each communicator of the user's, and how all its ranks end together."""

from __future__ import annotations

from typing import Any

from pylb import optional
from pylb.comm.agreement import Agreement
from pylb.comm.leave import Watched
from pylb.errors import DomainError, MPIError

_keyval: Any = None  # under it a communicator keeps its Agreement


def agreement_on(comm: Any) -> Agreement:
    """The agreement of the ranks of an mpi4py communicator, the same one every time.

    Collective the first time.

    Raises
    ------
    MPIError
        The communicator was freed, or pylb and mpi4py do not use the same MPI.
    DomainError
        It is no intracommunicator of mpi4py.
    MissingPartError
        mpi4py or pylb._mpi is missing.
    """
    global _keyval
    optional.require("mpi4py")
    from mpi4py import MPI

    if not isinstance(comm, MPI.Comm):
        raise DomainError(f"comm is {comm!r}: expected a communicator of mpi4py, or None")
    if comm == MPI.COMM_NULL:
        raise MPIError("comm is MPI.COMM_NULL: it was freed, or this rank is not part of it")
    if comm.Is_inter():
        raise DomainError("comm is an intercommunicator: expected an intracommunicator")
    native = optional.require("MPI")
    _same_mpi(native.library_version(), MPI.Get_library_version())
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(delete_fn=_freed)
    known = comm.Get_attr(_keyval)
    if isinstance(known, Agreement):
        return known
    agreement = Watched(native.Comm(comm))
    comm.Set_attr(_keyval, agreement)
    return agreement


def _freed(comm: Any, keyval: int, agreement: Agreement) -> None:
    """The user frees the communicator, on all ranks."""
    agreement.free()


def _same_mpi(ours: str, theirs: str) -> None:
    if optional.first_line(ours) != optional.first_line(theirs):
        raise MPIError(
            f"pylb was built with {optional.first_line(ours)!r}, mpi4py uses "
            f"{optional.first_line(theirs)!r}; build pylb again with that MPI's compiler: "
            f"MPICC=mpicc {optional.REBUILD}"
        )
