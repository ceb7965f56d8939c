"""Contact detection between two moving surfaces: a tube that folds up under a plate.

    mpiexec -n 4 python examples/crash.py [--method rcb] [--steps 20] [--side 120]

Each rank has the elements in some regions of space. In every step the surfaces move, and the box
around each element is sent to all parts that it touches; each part then searches for pairs of tube
and plate elements whose boxes overlap. Every few steps the elements are partitioned again, into
columns along the direction of the crush, so that few of them move: the table says how many. The
contacts do not depend on the number of ranks.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, NamedTuple

import numpy as np

import pylb

CRUSHED = 0.6  # part of the tube's length that is left at the end
FOLDS = 6
REACH = 0.004  # each box reaches this far beyond its element
# The parts are columns, so z does not count.  x counts more than y: with nearly equal sides, the
# order of the cuts would change from step to step.
PLANE = np.array([[1.5, 0.0], [0.0, 1.0], [0.0, 0.0]])


def tube(side: int, when: float) -> np.ndarray:
    """Return the points (4 side, side, 3) of a square tube of length 1.

    It is crushed while `when` goes from 0 to 1.
    """
    around = np.arange(4 * side) / side
    edge, u = np.divmod(around, 1.0)
    corner = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * 0.4
    edge = edge.astype(int)
    ring = corner[edge] + (corner[edge + 1] - corner[edge]) * u[:, None]
    z = np.arange(side) / (side - 1)
    bulge = 0.05 * when * z * np.sin(2 * np.pi * FOLDS * z)
    out = np.empty((4 * side, side, 3))
    out[..., :2] = 0.2 + (ring[:, None] - 0.2) * (1 + bulge[None, :, None] / 0.2)
    out[..., 2] = z * (1 - CRUSHED * when)
    return out


def plate(side: int, when: float) -> np.ndarray:
    """Return the points (side, side, 3) of a plate that presses on the tube and swings a little."""
    x, y = np.meshgrid(np.linspace(-0.1, 0.5, side), np.linspace(-0.1, 0.5, side), indexing="ij")
    height = 1 - CRUSHED * when + 0.003 + 0.02 * (1 - when) * x
    return np.stack([x + 0.05 * np.sin(6 * when), y, height + 0.002 * np.cos(20 * x)], axis=-1)


class Surface(NamedTuple):
    """The points and the elements (four points each) of both surfaces."""

    points: np.ndarray
    elements: np.ndarray
    is_plate: np.ndarray

    def boxes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper corner of the box around each element."""
        corners = self.points[self.elements]
        return corners.min(axis=1) - REACH, corners.max(axis=1) + REACH


def elements(rows: int, columns: int, around: bool) -> np.ndarray:
    """Return the quadrilaterals of a grid of points; around: the first row follows the last."""
    at = np.arange(rows * columns).reshape(rows, columns)
    after = np.roll(at, -1, axis=0)
    last = rows if around else rows - 1
    corners = [at[:last, :-1], at[:last, 1:], after[:last, 1:], after[:last, :-1]]
    return np.stack([c.ravel() for c in corners], axis=1)


def surfaces(side: int, when: float) -> Surface:
    """Return both surfaces at a time between 0 and 1."""
    a, b = tube(side, when).reshape(-1, 3), plate(side, when).reshape(-1, 3)
    quads = [elements(4 * side, side, True), elements(side, side, False) + len(a)]
    is_plate = np.repeat([False, True], [len(quads[0]), len(quads[1])])
    return Surface(np.concatenate([a, b]), np.concatenate(quads), is_plate)


def pairs(lo: np.ndarray, hi: np.ndarray, is_plate: np.ndarray) -> np.ndarray:
    """Return the pairs (tube element, plate element) whose boxes overlap, found by a sweep."""
    near = np.zeros(len(lo), bool)
    for mine, other in ((is_plate, ~is_plate), (~is_plate, is_plate)):
        if other.any():
            near |= mine & ((lo <= hi[other].max(0)) & (hi >= lo[other].min(0))).all(axis=1)
    order = np.flatnonzero(near)
    order = order[np.argsort(lo[order, 0], kind="stable")]
    lo, hi, kind = lo[order], hi[order], is_plate[order]
    end = np.searchsorted(lo[:, 0], hi[:, 0], side="right")
    count = np.maximum(end - np.arange(len(lo)) - 1, 0)
    i = np.repeat(np.arange(len(lo)), count)
    j = i + 1 + np.arange(len(i)) - np.repeat(np.cumsum(count) - count, count)
    keep = kind[i] != kind[j]
    i, j = i[keep], j[keep]
    meet = ((lo[i] <= hi[j]) & (lo[j] <= hi[i])).all(axis=1)
    i, j = i[meet], j[meet]
    first, second = np.where(kind[i], j, i), np.where(kind[i], i, j)
    return np.stack([order[first], order[second]], axis=1)


class Crash:
    """The simulation on this rank, which owns the elements whose centres are in its part.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm or None
    side, steps, every : int
        Points along an edge, number of steps, steps between two partitions.
    method : {"rcb", "rib", "hsfc"}
    """

    def __init__(self, comm: Any, side: int, steps: int, every: int, method: str):
        self.comm, self.side, self.steps, self.every, self.method = comm, side, steps, every, method
        self.rank, self.size = (0, 1) if comm is None else (comm.rank, comm.size)
        n = len(surfaces(side, 0.0).elements)
        self.own = np.arange(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def partition(self, lo: np.ndarray, hi: np.ndarray) -> pylb.partitioning.Partition:
        """Partition the elements' centres, and exchange the elements between the ranks."""
        middle = (lo + hi)[self.own] / 2
        out = pylb.partition(
            coords=middle @ PLANE,
            ids=self.own,
            parts=self.size,
            method=self.method,
            comm=self.comm,
        )
        kept = np.delete(self.own, out.exports.row) if self.size > 1 else self.own
        coming = out.imports.id if self.size > 1 else self.own[:0]
        self.own = np.sort(np.concatenate([kept, coming]))
        return out

    def contacts(
        self, found: pylb.partitioning.Partition, lo: np.ndarray, hi: np.ndarray, kind: np.ndarray
    ):
        """Send each box to all parts that it touches; return (pairs found here, boxes sent).

        `kind` says which elements belong to the plate.
        """
        start, part = found.boxes(lo[self.own] @ PLANE, hi[self.own] @ PLANE)
        sent = np.repeat(self.own, np.diff(start))
        ids, lower, upper, which = pylb.migrate(
            self.comm, sent, lo[sent], hi[sent], kind[sent], to=part
        )
        near = pairs(lower, upper, which)
        # Several parts may find a pair; the part with the lower corner of the overlap counts it.
        corner = np.maximum(lower[near[:, 0]], lower[near[:, 1]])
        return ids[near[found.points(corner @ PLANE) == self.rank]], len(sent)

    def run(self) -> list[dict[str, Any]]:
        """Run all steps; return a row of the table for each step, the same on all ranks."""
        rows, found, moved = [], None, 0
        for step in range(self.steps):
            surface = surfaces(self.side, step / max(1, self.steps - 1))
            lo, hi = surface.boxes()
            moved, begin = 0, time.perf_counter()
            if found is None or step % self.every == 0:
                found = self.partition(lo, hi)
                moved = found.migrations if step else 0
            divided = time.perf_counter()
            near, sent = self.contacts(found, lo, hi, surface.is_plate)
            done = time.perf_counter()
            mine = (len(near), sent, len(self.own), divided - begin, done - divided)
            every = np.array([mine] if self.comm is None else self.comm.allgather(mine))
            rows.append(
                {
                    "step": step,
                    "contacts": int(every[:, 0].sum()),
                    "boxes sent": int(every[:, 1].sum()),
                    "max/mean": float(every[:, 2].max() / every[:, 2].mean()),
                    "moved": moved,
                    "partition ms": 1e3 * every[:, 3].max(),
                    "contact ms": 1e3 * every[:, 4].max(),
                }
            )
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="rcb", choices=("rcb", "rib", "hsfc"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=2, help="steps between two partitions")
    parser.add_argument("--side", type=int, default=120, help="points along an edge")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    args = parser.parse_args()
    from mpi4py import MPI

    from pylb.console import show

    comm = MPI.COMM_WORLD
    rows = Crash(comm, args.side, args.steps, args.every, args.method).run()
    if comm.rank == 0 and args.json:
        print(json.dumps(rows))
    elif comm.rank == 0:
        title = (
            f"{len(surfaces(args.side, 0).elements)} elements on {comm.size} ranks, {args.method}"
        )
        show(list(rows[0]), [list(row.values()) for row in rows], title=title)


if __name__ == "__main__":
    main()
