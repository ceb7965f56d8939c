"""The agreement of the ranks of whatever communicator a user has."""

from __future__ import annotations

from typing import Any

from pylb.comm import transport_virtual
from pylb.comm.agreement import Agreement
from pylb.comm.transport import Serial
from pylb.virtual.comm import VirtualComm


def agreement_of(comm: Any) -> Agreement:
    """Of an mpi4py communicator, a virtual one, or None: one rank.  Collective the first time."""
    if comm is None:
        return Agreement(Serial())
    if isinstance(comm, VirtualComm):
        return transport_virtual.agreement_on(comm)
    from pylb.comm.transport_mpi import agreement_on

    return agreement_on(comm)
