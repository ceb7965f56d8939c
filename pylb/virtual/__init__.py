"""Virtual ranks: a parallel machine in one process.

Input: a program that each rank runs, and a machine.  Output: the program's return value on each
rank, and virtual times.  This room (source folder) imports the room `model` and the C core.  The
room `comm` uses `VirtualComm` to communicate between virtual ranks.
"""

from pylb.virtual.comm import VirtualCluster, VirtualComm

__all__ = ["VirtualCluster", "VirtualComm"]
