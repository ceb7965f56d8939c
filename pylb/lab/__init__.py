"""A laboratory on one machine: MPI ranks that each get a share of a core and no more.

More ranks than cores, and ranks that are not alike, then give honest wall-clock figures, because
the kernel holds every rank to its share (CPU bandwidth control of cgroups, v1 or v2), to its memory
(what is above it goes to swap), and hosts to their bandwidth (network namespaces).
"""

from pylb.lab.moments import announce
from pylb.lab.plan import Change, Host, Link, Plan, Profile
from pylb.lab.run import Lab
from pylb.lab.schedule import Done
from pylb.lab.shares import Limit, Usage

__all__ = [
    "Change",
    "Done",
    "Host",
    "Lab",
    "Limit",
    "Link",
    "Plan",
    "Profile",
    "Usage",
    "announce",
]
