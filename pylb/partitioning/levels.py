"""Hierarchical partitions: divide among a machine's nodes, then within each node."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError
from pylb.model.machine import Machine, Place
from pylb.model.topology import Tree
from pylb.partitioning.arrays import F64, I32, Rows
from pylb.partitioning.problem import Problem, drop_zeros
from pylb.partitioning.result import ghosts

Branch = tuple[Any, ...]  # a vertex of the tree: the tuple of its children; a leaf is ()


class Levels:
    """The levels of a machine (nodes, sockets, ranks), with a part for each leaf.

    Attributes
    ----------
    branch : Branch
    label : (k,) int32
        The part at each leaf, in the order of the tree: the number of the rank there.
    shares : (k,) float64 or None
        The share of each part, if the machine has speeds.
    """

    def __init__(self, machine: Any) -> None:
        if isinstance(machine, str | os.PathLike):
            is_file = not isinstance(machine, str) or machine.endswith(".json")
            machine = Machine.load(machine) if is_file else Machine.parse(str(machine))
        self.shares: F64 | None = None
        if isinstance(machine, Machine):
            self.branch = _branch(machine.root)
            self.label = np.array(machine.ranks, np.int32)
            self.shares = machine.part_sizes()
        elif isinstance(machine, Tree) and machine.sizes and min(machine.sizes) > 0:
            self.branch = ()
            for size in reversed(machine.sizes):
                self.branch = (self.branch,) * size
            self.label = np.arange(machine.n_ranks, dtype=np.int32)
        else:
            raise DomainError(
                f"machine is {machine!r}: expected a pylb.Machine, a pylb.model.Tree with "
                "leaves, or a string or file that describes a machine"
            )

    @cached_property
    def depth(self) -> int:
        """Number of levels below the root."""
        return _depth(self.branch)

    @property
    def n_parts(self) -> int:
        return len(self.label)


def _branch(place: Place) -> Branch:
    return tuple(map(_branch, place.children))


def _depth(branch: Branch) -> int:
    return 1 + max(map(_depth, set(branch))) if branch else 0


def _leaves(branch: Branch) -> int:
    return sum(map(_leaves, branch)) if branch else 1


def divide(
    problem: Problem, levels: Levels, methods: tuple[str, ...], ask: Callable[[Problem, str], I32]
) -> I32:
    """Divide level by level, and return the part of each object.  Collective.

    If there are up to k divisions between the root and a leaf, each one is allowed the k-th root of
    the problem's imbalance.  ``ask(problem, method)`` returns the part of each object.
    """
    place = np.empty_like(levels.label)
    place[levels.label] = np.arange(levels.n_parts, dtype=np.int32)

    def placed(part: I32 | None) -> I32 | None:
        return None if part is None else np.where(part < 0, -1, place[part]).astype(np.int32)

    shares = problem.shares
    inner = replace(
        problem,
        imbalance=problem.imbalance ** (1 / max(1, _cuts(levels.branch))),
        shares=None if shares is None else shares[levels.label],
        fixed_part=placed(problem.fixed_part),
        old=placed(problem.old),
    )
    part: I32 = levels.label[_divide(inner, levels.branch, methods, ask)]
    return part


def _cuts(branch: Branch) -> int:
    """Return the largest number of divisions on the way from the root to a leaf."""
    return (len(branch) > 1) + max(map(_cuts, set(branch))) if branch else 0


def _divide(
    problem: Problem, branch: Branch, methods: tuple[str, ...], ask: Callable[[Problem, str], I32]
) -> I32:
    """Divide among the leaves below `branch`; return parts, numbered in the order of the leaves."""
    if not branch or problem.n_all == 0:
        return np.zeros(problem.n, np.int32)
    if len(branch) == 1:
        return _divide(problem, branch[0], methods[1:], ask)
    first = np.array([0, *accumulate(map(_leaves, branch))])
    part = ask(_among_groups(problem, first), methods[0])
    out: I32 = first[part].astype(np.int32)
    for group, below in enumerate(branch):
        if below:
            mine = part == group
            inner = _in_group(_restricted(problem, mine), int(first[group]), int(first[group + 1]))
            out[mine] += _divide(inner, below, methods[1:], ask)
    return out


def _among_groups(problem: Problem, first: NDArray[np.int64]) -> Problem:
    """Return the problem of dividing among groups of parts; group g begins with part first[g]."""
    shares = problem.shares
    group = np.repeat(np.arange(len(first) - 1, dtype=np.int32), np.diff(first))

    def grouped(part: I32 | None) -> I32 | None:
        return None if part is None else np.where(part < 0, -1, group[part]).astype(np.int32)

    return replace(
        problem,
        parts=len(first) - 1,
        shares=None if shares is None else np.add.reduceat(shares, first[:-1]),
        fixed_part=grouped(problem.fixed_part),
        old=grouped(problem.old),
    )


def _in_group(problem: Problem, first: int, end: int) -> Problem:
    """Return the problem of one group: its objects and its parts."""

    def within(part: I32 | None) -> I32 | None:
        if part is None:
            return None
        return np.where((part >= first) & (part < end), part - first, -1).astype(np.int32)

    shares = problem.shares
    if shares is not None:
        shares = shares[first:end]
        shares = shares / shares.sum() if shares.sum() > 0 else None
    return replace(
        problem,
        parts=end - first,
        shares=shares,
        fixed_part=within(problem.fixed_part),
        old=within(problem.old),
    )


def _restricted(problem: Problem, keep: NDArray[np.bool_]) -> Problem:
    """Return the problem of the objects in `keep`, renumbered, without edges to other objects."""
    ranks = problem.ranks
    counts = ranks.gather(int(np.count_nonzero(keep)))
    dist = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    number = np.full(problem.n, -1, np.int32)
    number[keep] = dist[ranks.rank] + np.arange(counts[ranks.rank])

    def renamed(rows: Rows | None, of_rows: NDArray[np.bool_] | None) -> Rows | None:
        if rows is None:
            return None
        return _select(problem, rows, of_rows, number)

    def taken(array: Any) -> Any:
        return None if array is None else np.ascontiguousarray(array[keep])

    names = ("weight", "coords", "fixed_part", "old", "nbytes")
    arrays = {name: taken(getattr(problem, name)) for name in names}
    inner = replace(
        problem,
        n=counts[ranks.rank],
        dist=dist,
        ids=None,
        graph=renamed(problem.graph, keep),
        nets=renamed(problem.nets, None),
        **arrays,
    )
    if inner.weight is not None:
        drop_zeros(inner, bool(ranks.sum(np.count_nonzero(inner.weight, axis=0)).any()))
    return inner


def _select(problem: Problem, rows: Rows, of_rows: NDArray[np.bool_] | None, number: I32) -> Rows:
    """Select and renumber the entries of rows.

    Entries without a new number are left out.  `of_rows`: which rows to keep; None: all.
    """
    first = problem.first
    others, theirs = ghosts(problem.ranks, problem.dist, rows.to, number)
    own = (rows.to >= first) & (rows.to < first + problem.n)
    to = np.empty(len(rows.to), np.int32)
    to[own] = number[rows.to[own] - first]
    if len(others):
        to[~own] = theirs[np.searchsorted(others, rows.to[~own])]
    size = np.diff(rows.start)
    keep = to >= 0
    if of_rows is not None:
        keep &= np.repeat(of_rows, size)
    row = np.repeat(np.arange(len(size)), size)[keep]
    count = np.bincount(row, minlength=len(size))
    count = count if of_rows is None else count[of_rows]
    weight = rows.weight
    if weight is not None and of_rows is not None:
        weight = weight[keep]  # edges have a weight for each entry, nets one for each row
    return Rows(np.concatenate([[0], np.cumsum(count)]), to[keep].astype(np.int64), weight)
