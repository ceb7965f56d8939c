"""Refinement trees given as arrays, for ``method="reftree"`` (Mitchell 2007).

The leaves are passed along a curve, that of the tree, and the curve is cut where the parts are
full: what was refined from one element stays together, and little moves when the weights change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError
from pylb.partition import arrays

if TYPE_CHECKING:
    from pylb.partition.problem import Problem

I64 = NDArray[np.int64]


class Tree(NamedTuple):
    """A forest of elements, refined in turn; its leaves are the objects.

    Attributes
    ----------
    parent : (m,) int
        Of each element, -1 for coarse ones; the children of an element are passed by index.
    place : (n,) int64
        Where the curve passes each leaf; leaves in the order of their elements.
    """

    parent: NDArray[Any]
    place: I64

    @property
    def n_leaves(self) -> int:
        """Number of objects."""
        return len(self.place)


def tree_of(value: Any) -> Tree:
    """A tree from the parent of each element, -1 for coarse ones.

    Raises
    ------
    DomainError
        A parent is out of range, or an element is its own ancestor.
    """
    parent = arrays.whole("tree", value)
    n = len(parent)
    bad = np.flatnonzero((parent < -1) | (parent >= n))
    if len(bad):
        raise DomainError(
            f"tree[{bad[0]}] is {parent[bad[0]]}: expected an element 0 ... {n - 1}, or -1"
        )
    return Tree(parent, _places(parent))


def _places(parent: NDArray[Any]) -> I64:
    """Position of each leaf in depth-first order, level by level."""
    n = len(parent)
    order = np.argsort(parent, kind="stable")  # children of one element, by index, side by side
    levels = _levels(parent, order)
    is_leaf = np.bincount(parent[parent >= 0], minlength=n) == 0
    leaves = is_leaf.astype(np.int64)  # of each subtree
    for level in levels[:0:-1]:
        np.add.at(leaves, parent[level], leaves[level])
    begin = np.zeros(n, np.int64)  # leaves before each subtree
    for level in levels:
        up = parent[level]
        before = np.cumsum(leaves[level]) - leaves[level]
        first = np.ones(len(level), bool)
        first[1:] = up[1:] != up[:-1]
        of_first = np.flatnonzero(first)[np.cumsum(first) - 1]
        begin[level] = before - before[of_first] + np.where(up < 0, 0, begin[up])
    place: I64 = begin[is_leaf]
    return place


def _levels(parent: NDArray[Any], order: I64) -> list[I64]:
    """Elements of each depth, those of one parent side by side and by index."""
    above = parent[order]
    level = order[above < 0]
    found, levels = 0, []
    while len(level):
        levels.append(level)
        found += len(level)
        level = np.sort(level)
        begin, end = np.searchsorted(above, level), np.searchsorted(above, level, side="right")
        count = end - begin
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        level = order[np.repeat(begin, count) + within]
    if found < len(parent):
        known = np.zeros(len(parent), bool)
        known[np.concatenate([*levels, np.zeros(0, np.int64)])] = True
        lost = int(np.flatnonzero(~known)[0])
        raise DomainError(f"tree[{lost}]: element {lost} is below one of its own descendants")
    return levels


def check_leaves(problem: Problem) -> None:
    """The objects are the leaves, by number."""
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


def divide(problem: Problem) -> arrays.I32:
    """The part of each own leaf.  Collective; every rank gets the weights of all leaves.

    A leaf is where the middle of its weight falls.
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
    mine: arrays.I32 = part[place[leaf]].astype(np.int32)
    return mine
