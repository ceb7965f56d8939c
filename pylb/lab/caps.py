"""Power caps as shares of a core: the speeds of the nodes of Dasgupta 2013 under a cap.

The paper caps its nodes at 23 to 60 W.  Towards the lowest cap, run times and the differences
between nodes rise exponentially: at 23 W its cores take 15 to 35 s for the same work (figure 8), at
60 W they all take the same time.  Here both follow one exponential,

    e = exp(-(cap - 23 W) / 2.4 W),   mean speed = 1 / (1 + e),   spread = 0.4 e,

and a node's speed is the mean times 1 + spread u.  0.4 = (35 - 15) / (35 + 15) is figure 8's range.
An ideal balancer then gains a factor of 1.67, 1.36, 1.21, 1.13, 1.08 at 23 ... 27 W; the paper's
gained 1.28, 1.16, 1.18, 1.10, 1.04 (table I, without load balancing).  That the mean speed halves
at 23 W is our choice: the paper has no number for it.
"""

from __future__ import annotations

import math

from pylb.errors import DomainError

LEAST, MOST = 23.0, 95.0
"""Watts: the range of the paper's caps."""

FALL = 2.4  # watts in which the effect of a cap falls by a factor of e
WIDEST = 0.4  # relative half-width of the speeds at the lowest cap

# Ten nodes, as in the paper, evenly spread between the slowest and the fastest.  The extremes come
# first, so that two nodes have the whole spread, and nodes come in pairs, so that the mean is kept.
NODES = tuple(n / 9 for n in (9, -9, 3, -3, 7, -7, 5, -5, 1, -1))


def speed(watts: float, node: int) -> float:
    """The speed of a node under a cap; without a cap it is 1.

    Parameters
    ----------
    watts : float
        23 to 95.
    node : int
        Rank, or host in a lab with hosts; the speeds repeat after ten.

    Raises
    ------
    DomainError
        The cap is out of range.

    Examples
    --------
    >>> pylb.lab.caps.speed(95.0, 0) > pylb.lab.caps.speed(23.0, 0)
    True
    """
    if not LEAST <= watts <= MOST:
        raise DomainError(f"cap is {watts:g} W: expected {LEAST:g} ... {MOST:g} W")
    effect = math.exp((LEAST - watts) / FALL)
    return (1.0 + WIDEST * effect * NODES[node % len(NODES)]) / (1.0 + effect)
