"""Find or make the `Agreement` of a communicator of mpi4py, of virtual ranks, or of one rank."""

from __future__ import annotations

from typing import Any

from pylb.comm import transport_virtual
from pylb.comm.agreement import Agreement
from pylb.comm.transport import Serial
from pylb.virtual.comm import VirtualComm


def agreement_of(comm: Any, *, hold: bool = True) -> Agreement:
    """Return the `Agreement` of the ranks of a communicator.

    For one communicator this is the same object at each call; for None it is a new one.  Collective
    the first time.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    hold : bool
        Whether the agreement must still exist after the user has freed the communicator.
    """
    if comm is None:
        return Agreement(Serial())
    if isinstance(comm, VirtualComm):
        return transport_virtual.agreement_on(comm)
    from pylb.comm.transport_mpi import agreement_on

    agreement = agreement_on(comm)
    agreement.held |= hold
    return agreement
