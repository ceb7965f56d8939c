"""Refinement trees given as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError
from pylb.partitioning import arrays

I64 = NDArray[np.int64]


class RefinementTree(NamedTuple):
    """A forest of elements and their refinements.  Its leaves are the objects."""

    parent: NDArray[Any]  #: (m,) parent of each element; -1 for the coarsest elements.
    #: (n,) position of each leaf on the curve, which visits the children of an element in order of
    #: index.
    place: I64

    @property
    def n_leaves(self) -> int:
        return len(self.place)


def tree_of(value: Any) -> RefinementTree:
    """Make a tree from the parent of each element, -1 for the coarsest elements."""
    parent = arrays.whole("tree", value)
    n = len(parent)
    bad = np.flatnonzero((parent < -1) | (parent >= n))
    if len(bad):
        raise DomainError(
            f"tree[{bad[0]}] is {parent[bad[0]]}: expected an element 0 ... {n - 1}, or -1"
        )
    return RefinementTree(parent, _places(parent))


def _places(parent: NDArray[Any]) -> I64:
    """Return the position of each leaf in depth-first order; computed level by level."""
    n = len(parent)
    # In `order`, the children of an element follow each other, sorted by index.
    order = np.argsort(parent, kind="stable")
    levels = _levels(parent, order)
    is_leaf = np.bincount(parent[parent >= 0], minlength=n) == 0
    leaves = is_leaf.astype(np.int64)  # number of leaves in the subtree of each element
    for level in levels[:0:-1]:
        np.add.at(leaves, parent[level], leaves[level])
    begin = np.zeros(n, np.int64)  # number of leaves before the subtree of each element
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
    """List the elements of each depth, sorted by parent, then by index."""
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
