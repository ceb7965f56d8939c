"""The agreement of the ranks of any communicator that a user has."""

from __future__ import annotations

from typing import Any

from pylb.comm import transport_virtual
from pylb.comm.agreement import Agreement
from pylb.comm.transport import Serial
from pylb.virtual.comm import VirtualComm


def agreement_of(comm: Any, *, hold: bool = True) -> Agreement:
    """The agreement of the ranks of a communicator, the same one every time.

    Collective the first time.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    hold : bool
        Whether it is needed after the call, even if the user frees the communicator.
    """
    if comm is None:
        return Agreement(Serial())
    if isinstance(comm, VirtualComm):
        return transport_virtual.agreement_on(comm)
    from pylb.comm.transport_mpi import agreement_on

    agreement = agreement_on(comm)
    agreement.held |= hold
    return agreement
