"""Communication between ranks: agreement, exchange, directory and migration.

In: a communicator (of mpi4py, a `VirtualComm`, or None for one rank); arrays and objects, each
with the rank or the id to which it goes.  Out: the arrays and objects that other ranks have sent,
or the same error on every rank.

Ranks communicate by the collective steps of an `Agreement`, on a private duplicate of the
communicator (`connect`).  Three kinds of communication need no such step: the rows of a `Plan`
under MPI, the plain collective calls of a `Transport` (e.g. `bcast`), and the reductions of a loop
that does not wait for its statistics (a lag above 0).  An `Agreement` uses a `Transport`, which
works over MPI, between virtual ranks, or on one rank.  This room (folder of the source) imports
`pylb.errors`, `pylb.optional`, the rooms `model` and `virtual`, and the C modules.
"""

from pylb.comm.directory import Directory, Found, migrate, plan_between
from pylb.comm.plan import Pending, Plan

__all__ = ["Directory", "Found", "Pending", "Plan", "migrate", "plan_between"]
