"""Hierarchical partitions: a machine's nodes first, then what is inside each, by other methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError
from pylb.partition.arrays import I32, Rows
from pylb.partition.problem import Problem
from pylb.partition.quality import ghosts


def sizes_of(machine: Any) -> tuple[int, ...]:
    """Children at each level of a machine tree.

    Raises
    ------
    DomainError
        It is no tree with as many children at each vertex of a level.
    """
    if callable(getattr(machine, "tree", None)):  # a pylb.Machine
        machine = machine.tree()
    sizes = tuple(getattr(machine, "sizes", None) or ())
    if not sizes or any(size < 1 for size in sizes):
        raise DomainError(f"machine is {machine!r}: expected a pylb.Machine or a pylb.machine.Tree")
    return sizes


def divide(
    problem: Problem,
    sizes: tuple[int, ...],
    methods: tuple[str, ...],
    ask: Callable[[Problem, str], I32],
) -> I32:
    """Parts of all levels, those of a vertex of the tree one behind the other.  Collective.

    Parameters
    ----------
    ask : callable
        The parts of a problem by a method.
    """
    if problem.n_all == 0:
        return np.zeros(problem.n, np.int32)
    inside = prod(sizes[1:])
    part = ask(_outer(problem, sizes[0], inside), methods[0])
    if inside == 1:
        return part
    out = np.empty(problem.n, np.int32)
    for group in range(sizes[0]):
        mine = part == group
        inner = _inner(_restricted(problem, mine), group, inside)
        out[mine] = group * inside + divide(inner, sizes[1:], methods[1:], ask)
    return out


def _outer(problem: Problem, groups: int, inside: int) -> Problem:
    """The problem whose parts are groups of parts."""
    shares, fixed, old = problem.shares, problem.fixed, problem.old
    return replace(
        problem,
        parts=groups,
        shares=None if shares is None else shares.reshape(groups, inside).sum(axis=1),
        fixed=None if fixed is None else np.where(fixed < 0, -1, fixed // inside).astype(np.int32),
        old=None if old is None else np.where(old < 0, -1, old // inside).astype(np.int32),
    )


def _inner(problem: Problem, group: int, inside: int) -> Problem:
    """The problem of the parts of one group, for its objects."""
    first = group * inside

    def within(part: I32 | None) -> I32 | None:
        if part is None:
            return None
        here = (part >= first) & (part < first + inside)
        return np.where(here, part - first, -1).astype(np.int32)

    shares = problem.shares
    if shares is not None:
        shares = shares[first : first + inside]
        shares = shares / shares.sum() if shares.sum() > 0 else None
    return replace(
        problem,
        parts=inside,
        shares=shares,
        fixed=within(problem.fixed),
        old=within(problem.old),
    )


def _restricted(problem: Problem, keep: NDArray[np.bool_]) -> Problem:
    """The same with some of the objects, numbered anew; what leads to others is left out."""
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

    names = ("weight", "coords", "fixed", "old", "sizes")
    arrays = {name: taken(getattr(problem, name)) for name in names}
    return replace(
        problem,
        n=counts[ranks.rank],
        dist=dist,
        ids=None,
        graph=renamed(problem.graph, keep),
        nets=renamed(problem.nets, None),
        **arrays,
    )


def _select(problem: Problem, rows: Rows, of_rows: NDArray[np.bool_] | None, number: I32) -> Rows:
    """Rows (None: all) with the new numbers of their entries, without those that have none."""
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
        weight = weight[keep]  # of edges; those of nets stay
    return Rows(np.concatenate([[0], np.cumsum(count)]), to[keep].astype(np.int64), weight)
