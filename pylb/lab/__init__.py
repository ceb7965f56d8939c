"""A laboratory on one machine: each MPI rank gets only a share of a core.

So measured times are realistic even with more ranks than cores, and ranks can differ in speed.
The kernel limits the shares of ranks (CPU bandwidth control of cgroups, v1 or v2), their memory
(what is above the limit is swapped out), and the bandwidth of hosts (tc in network namespaces).
"""

from pylb.lab.plan import Change, Host, LabPlan, Limit, Link, Profile, Usage
from pylb.lab.run import Done, Lab, announce

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
