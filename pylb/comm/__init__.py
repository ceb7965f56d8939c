"""Communication between ranks: agreement, exchange, directory and migration.

In: an mpi4py communicator, a `VirtualComm` or None; arrays and objects, with ranks or ids as their
destinations.  Out: the arrays and objects of other ranks, or the same error on every rank.

All communication goes through the collective steps of an `Agreement`, on a private duplicate of the
communicator (`connect`); only the rows of a `Plan` travel outside of these steps.  An `Agreement`
uses a `Transport`: MPI, virtual ranks, or one rank.  `Plan`, `exchange_objects`, `Directory` and
`migrate` use an `Agreement`.  This room imports `pylb.errors`, the rooms `model` and `virtual`, and
the C modules.
"""

from pylb.comm.directory import Directory, Found
from pylb.comm.migration import migrate, plan_between
from pylb.comm.plan import Pending, Plan

__all__ = ["Directory", "Found", "Pending", "Plan", "migrate", "plan_between"]
