"""A laboratory on one machine: each MPI rank gets a share of a core and no more.

So measured times are realistic even with more ranks than cores, and ranks can differ in speed.
The kernel limits each rank to its share of a core (CPU bandwidth control of cgroups, v1 or v2) and
to its memory (the rest is swapped out), and each host to its bandwidth (network namespaces).
"""

from pylb.lab.moments import announce
from pylb.lab.plan import Change, Host, LabPlan, Link, Profile
from pylb.lab.run import Lab
from pylb.lab.schedule import Done
from pylb.lab.shares import Limit, Usage

__all__ = [
    "Change",
    "Done",
    "Host",
    "Lab",
    "LabPlan",
    "Limit",
    "Link",
    "Profile",
    "Usage",
    "announce",
]
