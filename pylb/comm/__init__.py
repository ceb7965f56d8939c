"""Communication between ranks: agreement, exchange, directory and migration.

In: a communicator (of mpi4py, a `VirtualComm`, or None for one rank); arrays and objects, each
with the rank or the id to which it goes.  Out: the arrays and objects that other ranks have sent,
or the same error on every rank.

Ranks communicate by the collective steps of an `Agreement`, on a private duplicate of the
communicator (`connect`).  These need no such step: the rows of a `Plan` under MPI, the plain
collective calls of a `Transport` (e.g. `bcast`), and the reductions of a loop with a lag.  An
`Agreement` uses a `Transport`, which works over MPI, between virtual ranks, or on one rank.
"""

from pylb.comm.directory import Directory, Found, migrate, plan_between
from pylb.comm.plan import Pending, Plan

__all__ = ["Directory", "Found", "Pending", "Plan", "migrate", "plan_between"]
