"""A parallel machine in one process, for what no machine at hand can show."""

from pylb.virtual.cluster import VirtualCluster
from pylb.virtual.comm import VirtualComm

__all__ = ["VirtualCluster", "VirtualComm"]
