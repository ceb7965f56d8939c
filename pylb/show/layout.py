"""Positions of objects in a plane: their coordinates, or a layout of their communication graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pylb.errors import DomainError
from pylb.model.snapshot import F64, I64

COARSE = 600  # a graph of more objects is coarsened
PIVOTS = 24  # number of objects to which the distances of all objects are computed
SMOOTHINGS = 12  # how often positions are smoothed on each finer graph
ROUNDS = 2000  # largest distance that is computed, in edges
ISOMETRIC = np.array([[0.87, -0.87, 0.0], [0.5, 0.5, 1.0]]).T


def of_coordinates(given: Mapping[int, Any], key: I64) -> F64:
    """Return positions in the plane, (n, 2), from the 1 to 3 coordinates of each key.

    Three coordinates are drawn in isometric projection.
    """
    missing = [k for k in key.tolist() if k not in given]
    if missing:
        raise DomainError(f"coords has no object {missing[0]}: expected coordinates of each object")
    try:
        out = np.array([given[k] for k in key.tolist()], np.float64).reshape(len(key), -1)
    except (TypeError, ValueError) as why:
        raise DomainError(f"coords: expected 1 ... 3 numbers for each object; {why}") from None
    if not (1 <= out.shape[1] <= 3 and np.isfinite(out).all()):
        raise DomainError(f"coords has shape {out.shape}: expected ({len(key)}, 1 ... 3), finite")
    if out.shape[1] == 3:
        return np.asarray(out @ ISOMETRIC)
    return np.pad(out, [(0, 0), (0, 2 - out.shape[1])])


class Graph(NamedTuple):
    """A graph: object i and its neighbours are ``to[start[i]:start[i + 1]]``."""

    start: I64
    to: I64

    @classmethod
    def of(cls, n: int, src: Any, dst: Any) -> Graph:
        """Make the graph of these edges, in both directions and without repetitions."""
        own = np.arange(n, dtype=np.int64)
        pairs = np.unique(
            np.concatenate([own * (n + 1), src * np.int64(n) + dst, dst * np.int64(n) + src])
        )
        row, to = np.divmod(pairs, n)
        return cls(np.searchsorted(row, own), to)

    def least(self, values: Any) -> Any:
        """Return for each object (first axis) the smallest value of itself and its neighbours."""
        return np.minimum.reduceat(values[self.to], self.start, axis=0)

    def means(self, values: F64) -> F64:
        """Return for each object (first axis) the mean over itself and its neighbours."""
        degree = np.diff([*self.start, len(self.to)])
        return np.asarray(np.add.reduceat(values[self.to], self.start, axis=0) / degree[:, None])


def of_graph(n: int, src: Any, dst: Any) -> F64:
    """Return positions (n, 2) such that objects that communicate are close to each other.

    The method is pivot MDS (Brandes and Pich 2007) on a coarsened graph; the positions are then
    smoothed on each finer graph.
    """
    random = np.random.default_rng(0)
    return _positions(Graph.of(n, np.asarray(src), np.asarray(dst)), random)


def _positions(graph: Graph, random: Any) -> F64:
    n = len(graph.start)
    if n > COARSE:
        part, parts = _merged(graph, random)
        if parts < 0.9 * n:
            row = np.repeat(np.arange(n), np.diff([*graph.start, len(graph.to)]))
            coarse = _positions(Graph.of(parts, part[row], part[graph.to]), random)
            out = coarse[part]
            for _ in range(SMOOTHINGS):
                out = graph.means(out)
            return out
    return _pivot_mds(graph, random)


def _merged(graph: Graph, random: Any) -> tuple[I64, int]:
    """Merge objects into parts, and return the part of each object, and the number of parts.

    Each object gets a random number, and joins the part of the neighbour (or itself) that
    has the smallest number.
    """
    number = random.permutation(len(graph.start))
    object_of = np.argsort(number)
    part = object_of[graph.least(number)]
    while (part[part] != part).any():
        part = part[part]
    names, out = np.unique(part, return_inverse=True)
    return out, len(names)


def _pivot_mds(graph: Graph, random: Any) -> F64:
    n = len(graph.start)
    pivots = random.permutation(n)[:PIVOTS]
    far = np.full((n, len(pivots)), np.inf)
    far[pivots, np.arange(len(pivots))] = 0.0
    for _ in range(ROUNDS):
        nearer = np.minimum(graph.least(far) + 1.0, far)
        if np.array_equal(nearer, far):
            break
        far = nearer
    reached = np.isfinite(far)
    far = np.where(reached, far, 1.5 * far.max(where=reached, initial=1.0))
    square = far**2
    centred = square.mean(axis=0) + square.mean(axis=1, keepdims=True) - square - square.mean()
    _, vectors = np.linalg.eigh(centred.T @ centred)
    plane = vectors[:, :-3:-1]
    return np.asarray(centred @ np.pad(plane, [(0, 0), (0, 2 - plane.shape[1])]))
