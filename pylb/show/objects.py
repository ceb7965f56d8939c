"""The objects of a run for a page: position, load, rank, and new rank of each object."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pylb.console import packed
from pylb.errors import DomainError
from pylb.io.run_record import Stretch
from pylb.model.snapshot import F64, I64
from pylb.show import aggregate

# ---- positions: coordinates, or a layout of the communication graph -----------------------------

COARSE = 600  # a graph of more objects is coarsened
PIVOTS = 24  # number of objects to which the distances of all objects are computed
SMOOTHINGS = 12  # how often positions are smoothed on each finer graph
ROUNDS = 2000  # largest distance that is computed, in edges
ISOMETRIC = np.array([[0.87, -0.87, 0.0], [0.5, 0.5, 1.0]]).T


def of_coordinates(given: Mapping[int, Any], key: I64) -> F64:
    """Return positions in the plane, (n, 2), from the 1 to 3 coordinates of each key."""
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
        return np.asarray(out @ ISOMETRIC)  # an isometric projection
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
        # Each object joins the part of the neighbour, or itself, with the smallest random number.
        number = random.permutation(n)
        part = np.argsort(number)[graph.least(number)]
        while (part[part] != part).any():
            part = part[part]
        names, part = np.unique(part, return_inverse=True)
        if len(names) < 0.9 * n:
            row = np.repeat(np.arange(n), np.diff([*graph.start, len(graph.to)]))
            coarse = Graph.of(len(names), part[row], part[graph.to])
            out = np.asarray(_positions(coarse, random)[part])
            for _ in range(SMOOTHINGS):
                out = graph.means(out)
            return out
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


# ---- objects ------------------------------------------------------------------------------------

MOST_OBJECTS = 100_000  # if there are more objects, only every second (third, ...) is shown
MOST_CELLS = 200_000  # limit of the number of objects times the number of stored iterations
MOST_EDGES = 4000  # largest number of lines between objects
SAMPLED = 4  # number of iterations from which the edges and the highest load are taken


class Objects:
    """The objects of a run, of one or more stretches, and the data about them for a page."""

    def __init__(self, stretches: Sequence[Stretch], n_ranks: int) -> None:
        self._stretches, self._n_ranks = stretches, n_ranks
        self.key: I64 = np.unique(np.concatenate([s.key for s in stretches]))  # (n,)
        self._step = aggregate.step(len(self.key), MOST_OBJECTS)
        self._m = m = stretches[-1].first + stretches[-1].iterations
        # Some iterations, spread over the whole run.
        self._sample = sorted(set(np.linspace(0, m - 1, min(m, SAMPLED)).astype(int).tolist()))

    @functools.cached_property
    def _top(self) -> float:
        loads = [load[rank >= 0] for rank, load in map(self.at, self._sample)]
        return max((aggregate.brightest(x[None]) for x in loads if x.size), default=0.0)

    def _in(self, iteration: int) -> tuple[Stretch, Any]:
        """Return the stretch with an iteration, and the indices of its objects in `key`."""
        i = bisect.bisect_right(self._stretches, iteration, key=lambda s: s.first) - 1
        return (s := self._stretches[i]), np.searchsorted(self.key, s.key)

    def at(self, iteration: int) -> tuple[I64, F64]:
        """Return (n,) rank of each object, -1 if it does not exist, and its load in seconds."""
        s, index = self._in(iteration)
        rank, load = np.full(len(self.key), -1), np.zeros(len(self.key))
        rank[index], load[index] = s.rank, s.load[iteration - s.first]
        return rank, load

    def edges(self, iteration: int) -> tuple[Any, Any]:
        """Return senders and receivers of messages in an iteration: indices in `key`."""
        s, index = self._in(iteration)
        return index[s.src], index[s.dst]

    def base(self, coords: Mapping[int, Any] | None = None) -> dict[str, Any]:
        """Return the data that are equal in all iterations: positions, lines between objects, keys.

        ``place`` has x and y (downwards), uint16, of each object: its coordinates, else a layout of
        the communication graph, else nothing.  ``flat`` is the largest y, and ``apart`` a usual
        length of a line, both for a width of 1.
        """
        n, step = len(self.key), self._step
        src, dst = (np.concatenate(x) for x in zip(*map(self.edges, self._sample), strict=True))
        place, clipped, how = np.zeros((0, 2)), 0, ""
        if coords is not None:
            how, (place, clipped) = "coordinates", _scaled(of_coordinates(coords, self.key)[::step])
        elif len(src):
            how, (place, clipped) = "communication graph", _scaled(of_graph(n, src, dst)[::step])
        shown = self.key[::step]
        lines = np.zeros((0, 2), np.int64)
        if step == 1 and len(src) <= SAMPLED * MOST_EDGES:
            lines = np.unique(np.stack([src, dst], axis=1), axis=0)[:MOST_EDGES]
        apart = np.linalg.norm(place[lines[:, 0]] - place[lines[:, 1]], axis=1)
        return {
            "n": len(shown),
            "step": step,
            "n_ranks": self._n_ranks,
            "keys": None if np.array_equal(shown, np.arange(0, n, step)) else shown.tolist(),
            "how": how,
            "place": packed(np.rint(place * 65535), "<u2"),
            "flat": float(place[:, 1].max(initial=0.0)),
            "apart": max(float(np.median(apart)), 0.004) if len(lines) else 1.0,
            "clipped": clipped,
            "edges": lines.tolist(),
            "top": self._top,
        }

    def frame(self, iteration: int) -> dict[str, Any]:
        """Return for each object its rank + 1 (0: it does not exist), and its load.

        ``load`` is 255 times the square root of load / top, at most 255, uint8.
        """
        rank, load = (x[:: self._step] for x in self.at(iteration))
        part = np.clip(load / self._top, 0.0, 1.0) if self._top > 0 else 0.0 * load
        root = packed(np.rint(255 * np.sqrt(part)), "u1")
        return {"iteration": iteration, "rank": packed(rank + 1, "<u4"), "load": root}

    def frames(self, wanted: Sequence[int]) -> list[dict[str, Any]]:
        """Return as many frames as a page can have, first `wanted` ones and those after them."""
        m, n = self._m, -(-len(self.key) // self._step)
        room = max(2, MOST_CELLS // max(n, 1))
        if m <= room:
            return [self.frame(i) for i in range(m)]
        evenly = np.linspace(0, m - 1, room).astype(int).tolist()
        order = dict.fromkeys([j for w in wanted for j in (w, w + 1) if 0 <= j < m] + evenly)
        return [self.frame(i) for i in sorted([*order][:room])]


def _scaled(where: F64) -> tuple[F64, int]:
    """Return positions, 0 ... 1 from the top left, on one scale, and how many were clipped."""
    low, high = where.min(axis=0), where.max(axis=0)
    ends = np.quantile(where, [0.02, 0.98], axis=0, method="nearest")
    room, whole = ends[1] - ends[0], high - low
    far = (room > 0) & (whole > 2.0 * room)  # clip where 96 % of the positions fill less than half
    far &= whole > np.where(far, 1.5 * room, whole).max()  # else the other axis sets the scale
    low = np.where(far, np.maximum(low, ends[0] - 0.25 * room), low)
    high = np.where(far, np.minimum(high, ends[1] + 0.25 * room), high)
    part = (np.clip(where, low, high) - low) / (float((high - low).max()) or 1.0)
    n = int(((where < low) | (where > high)).any(axis=1).sum())
    part[:, 1] = part[:, 1].max() - part[:, 1]
    return part, n
