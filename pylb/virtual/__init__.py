"""Virtual ranks: a parallel machine in one process.

In: a program that each rank runs, and a machine.  Out: the program's return value on each rank;
times are virtual.  This room (source folder) imports `pylb.errors`, the room `model`, the C core.
The room `comm` uses `VirtualComm` to communicate between virtual ranks.
"""

from pylb.virtual.cluster import VirtualCluster
from pylb.virtual.comm import VirtualComm

__all__ = ["VirtualCluster", "VirtualComm"]
