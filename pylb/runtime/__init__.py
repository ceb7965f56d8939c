"""The runtime: a program's objects, its messages and its balancing, on one rank or under MPI."""

from pylb.runtime.balancer import Balancer
from pylb.runtime.report import Iterations, Report
from pylb.runtime.running import AtSync

__all__ = ["AtSync", "Balancer", "Iterations", "Report"]
