"""Virtual ranks: a parallel machine in one process.

In: a program for one rank, and a machine.  Out: the program's return value on each rank; times are
virtual.  This room (folder of the source) imports `pylb.errors`, the room `model` and the C core.
The room `comm` uses `VirtualComm` to communicate between virtual ranks.
"""

from pylb.virtual.cluster import VirtualCluster
from pylb.virtual.comm import VirtualComm

__all__ = ["VirtualCluster", "VirtualComm"]
