"""The objects of a run for a page: position, load, rank, and new rank of each object."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb.io.run_record import Stretch
from pylb.model.snapshot import F64, I32, I64
from pylb.replay.replayed import Replay
from pylb.show import aggregate, layout

MOST_OBJECTS = 100_000  # if there are more objects, only every second (third, ...) is shown
MOST_CELLS = 200_000  # limit of the number of objects times the number of stored iterations
MOST_EDGES = 4000  # largest number of lines between objects
SAMPLED = 4  # number of iterations from which the edges and the highest load are taken


class Present(NamedTuple):
    """The objects of an iteration: indices in `Objects.key`, ranks, and loads in seconds."""

    index: Any
    rank: I32
    load: F64


@dataclass(frozen=True, eq=False)
class Objects:
    """The objects of a run."""

    key: I64  # (n,)
    n_ranks: int
    n_iterations: int
    at: Callable[[int], Present]  # returns the objects of an iteration
    edges: Callable[[int], tuple[Any, Any]]  # returns senders and receivers: indices in `key`

    @classmethod
    def of_replay(cls, run: Replay) -> Objects:
        t = run.trace

        def at(i: int) -> Present:
            tasks = slice(*t.task_ptr[i : i + 2].tolist())
            return Present(t.task_entity[tasks], run.rank[tasks], t.task_load[tasks])

        def edges(i: int) -> tuple[Any, Any]:
            e = slice(*t.edge_ptr[i : i + 2].tolist())
            return t.edge_src[e], t.edge_dst[e]

        return cls(t.entity_key, t.n_ranks, t.n_phases, at, edges)

    @classmethod
    def of_stretches(cls, stretches: Sequence[Stretch], n_ranks: int) -> Objects | None:
        """Return the objects of a record; None if there is no iteration."""
        if not stretches:
            return None
        key = np.unique(np.concatenate([s.key for s in stretches]))
        firsts = [s.first for s in stretches]

        def stretch(i: int) -> Stretch:
            return stretches[bisect.bisect_right(firsts, i) - 1]

        def at(i: int) -> Present:
            s = stretch(i)
            return Present(np.searchsorted(key, s.key), s.rank, s.load[i - s.first])

        def edges(i: int) -> tuple[Any, Any]:
            s = stretch(i)
            index = np.searchsorted(key, s.key)
            return index[s.src], index[s.dst]

        end = stretches[-1].first + stretches[-1].iterations
        return cls(key, n_ranks, end, at, edges)


class ObjectPicture:
    """Makes the data about the objects of a run that a page shows.

    coords: coordinates of the objects, by key; None: the page uses a layout of the communication
    graph.
    """

    def __init__(self, objects: Objects, coords: Mapping[int, Any] | None = None) -> None:
        self._objects = objects
        self._step = aggregate.step(len(objects.key), MOST_OBJECTS)
        self._coords = coords
        loads = [objects.at(i).load for i in self._sample()]
        self._top = max((aggregate.brightest(x[None]) for x in loads if x.size), default=0.0)

    def _sample(self) -> list[int]:
        """Return some iterations, spread over the whole run."""
        m = self._objects.n_iterations
        return sorted(set(np.linspace(0, m - 1, min(m, SAMPLED)).astype(int).tolist()))

    def base(self) -> dict[str, Any]:
        """Return what does not depend on the iteration: positions, lines between objects, keys.

        ``place`` has the bytes of x and y, uint16, of each object; it is empty if there are neither
        coordinates nor edges.
        """
        o = self._objects
        src, dst = (np.concatenate(x) for x in zip(*map(o.edges, self._sample()), strict=True))
        where, how = None, ""
        if self._coords is not None:
            where, how = layout.of_coordinates(self._coords, o.key), "coordinates"
        elif len(src):
            where, how = layout.of_graph(len(o.key), src, dst), "communication graph"
        shown = o.key[:: self._step]
        few = self._step == 1 and len(src) <= SAMPLED * MOST_EDGES
        lines = np.unique(np.stack([src, dst], axis=1), axis=0)[:MOST_EDGES] if few else src[:0]
        plain = np.array_equal(shown, np.arange(0, len(o.key), self._step))
        return {
            "n": len(shown),
            "step": self._step,
            "n_ranks": o.n_ranks,
            "keys": None if plain else shown.tolist(),
            "how": how,
            "place": b"" if where is None else _scaled(where[:: self._step]),
            "edges": lines.tolist(),
            "top": self._top,
        }

    def frame(self, iteration: int) -> dict[str, Any]:
        """Return the objects in an iteration, as bytes.

        ``rank`` is the rank of each object plus 1, uint32; 0: the object does not exist.  ``load``
        is 255 times the square root of load / top, at most 255, uint8.
        """
        o, step = self._objects, self._step
        now = o.at(iteration)
        rank, load = np.zeros(len(o.key), "<u4"), np.zeros(len(o.key), np.uint8)
        rank[now.index] = now.rank + 1
        part = np.minimum(now.load / self._top, 1.0) if self._top > 0 else 0.0 * now.load
        load[now.index] = np.rint(255 * np.sqrt(np.maximum(part, 0.0)))
        out = {"iteration": iteration, "rank": rank[::step].tobytes()}
        return {**out, "load": load[::step].tobytes()}

    def frames(self, wanted: Sequence[int]) -> list[dict[str, Any]]:
        """Return the frames of some iterations, as many as a page can have.

        Each `wanted` iteration and the iteration after it are preferred; the other frames are
        spread evenly.
        """
        m, n = self._objects.n_iterations, -(-len(self._objects.key) // self._step)
        room = max(2, MOST_CELLS // max(n, 1))
        if m <= room:
            return [self.frame(i) for i in range(m)]
        chosen: dict[int, None] = {}
        for i in [j for w in wanted for j in (w, w + 1)] + np.linspace(0, m - 1, room).astype(
            int
        ).tolist():
            if 0 <= i < m and len(chosen) < room:
                chosen[i] = None
        return [self.frame(i) for i in sorted(chosen)]


def _scaled(where: F64) -> bytes:
    """Return positions as uint16, with the same scale for both axes."""
    low = where.min(axis=0)
    size = float((where.max(axis=0) - low).max()) or 1.0
    return bytes(np.rint((where - low) / size * 65535).astype("<u2").tobytes())
