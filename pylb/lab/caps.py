"""Power caps as shares of a core: the speeds of the nodes of Dasgupta 2013 under a cap.

The lower the cap, the slower are the nodes, and the more they differ.  Here

    e = exp(-(cap - 23 W) / 2.4 W),   mean speed = 1 / (1 + e),   spread = 0.4 e,

and node i has the speed mean * (1 + spread * u_i), with u_i in -1 ... 1 (`NODES`).  0.4 is the
spread in figure 8, where the cores take 15 to 35 s for the same work at 23 W; at 60 W, all take
equally long.  With ideal balance a run is then 1.67, 1.36, 1.21, 1.13, 1.08 times faster than one
without rebalancing, at 23 to 27 W; in the paper (table I) 1.28, 1.16, 1.18, 1.10, 1.04 times.  That
the mean speed halves at 23 W is our choice: the paper has no number for it.
"""

from __future__ import annotations

import math

from pylb.errors import DomainError

LEAST, MOST = 23.0, 95.0  # range of caps, in watts
FALL = 2.4  # watts by which a cap must rise for e (module docstring) to become 2.718 times smaller
WIDEST = 0.4  # relative difference of the fastest node's speed from the mean, at the lowest cap

# u of ten nodes, as many as in the paper, evenly spaced.  The fastest and the slowest come first:
# two nodes have the whole spread.  All come in pairs (u, -u), so that the mean of u is 0.
NODES = tuple(n / 9 for n in (9, -9, 3, -3, 7, -7, 5, -5, 1, -1))


def speed(watts: float, node: int) -> float:
    """Return the speed of a node under a cap of 23 to 95 W, relative to its speed without a cap.

    A node is a rank, or in a lab with hosts a host.  The speeds repeat after ten nodes.

    Examples
    --------
    >>> pylb.lab.caps.speed(95.0, 0) > pylb.lab.caps.speed(23.0, 0)
    True
    """
    if not LEAST <= watts <= MOST:
        raise DomainError(f"cap is {watts:g} W: expected {LEAST:g} ... {MOST:g} W")
    effect = math.exp((LEAST - watts) / FALL)
    return (1.0 + WIDEST * effect * NODES[node % len(NODES)]) / (1.0 + effect)
