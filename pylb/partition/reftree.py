"""``method="reftree"`` (Mitchell 2007): divide the leaves of a refinement tree along a curve.

The curve visits the leaves in the order of the tree, and is cut wherever a part is full.  This
keeps the leaves of an element together, and few leaves move when the weights change.
"""

from __future__ import annotations

import numpy as np

from pylb.errors import DomainError
from pylb.partition.arrays import I32
from pylb.partition.problem import Problem


def check_leaves(problem: Problem) -> None:
    """Check that the objects are exactly the leaves of the tree."""
    assert problem.tree is not None
    n = problem.tree.n_leaves
    if n != problem.n_all:
        raise DomainError(f"tree has {n} leaves: expected {problem.n_all}, as many as objects")
    if (
        problem.ids is not None
        and problem.n
        and not 0 <= problem.ids.min() <= problem.ids.max() < n
    ):
        raise DomainError(f"ids: expected the leaves' numbers, 0 ... {n - 1}")


def divide(problem: Problem) -> I32:
    """Return the part of each leaf of this rank.  Collective; ranks get the weights of all leaves.

    On the curve, a leaf takes a length equal to its weight.  The leaf goes to the part to which its
    midpoint belongs.
    """
    assert problem.tree is not None
    place, k = problem.tree.place, problem.parts
    weight = np.ones(problem.n) if problem.weight is None else problem.weight[:, 0]
    leaf = problem.first + np.arange(problem.n) if problem.ids is None else problem.ids
    along = np.empty(problem.n_all)
    for ids, weights in problem.ranks.gather((leaf, weight)):
        along[place[ids]] = weights
    middle = np.cumsum(along) - along / 2
    shares = np.full(k, 1 / k) if problem.shares is None else problem.shares
    ends = np.cumsum(shares) * along.sum()
    some = np.flatnonzero(shares)
    part = np.clip(np.searchsorted(ends, middle, side="left"), some[0], some[-1])
    mine: I32 = part[place[leaf]].astype(np.int32)
    return mine
