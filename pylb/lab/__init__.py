"""A laboratory on one machine: MPI ranks that each get a share of a core and no more.

More ranks than cores, and ranks that are not alike, then give honest wall-clock figures, because
the kernel holds every rank to its share (CPU bandwidth control of cgroups, v1 or v2).
"""

from pylb.lab.run import Lab
from pylb.lab.shares import Limit, Usage

__all__ = ["Lab", "Limit", "Usage"]
