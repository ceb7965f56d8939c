"""One block of a heated plate: the physics of jacobi2d.py, without any parallelism.

Heat conduction with a conductivity that grows with the temperature, and a source that moves:

    dT/dt = div(k(T) grad T) + q(x, t),    k(T) = 1 + T,    T = 0 on the plate's rim

Each block solves an implicit time step with the five-point Jacobi method: with its neighbours'
values of the previous step fixed, it sweeps until its own non-linear system has converged.  That
takes one or two sweeps far from the source and many near it: the work of a block changes as the
source moves.

A block's new values depend only on its own values and its neighbours' borders: the solution is the
same to the last bit on any placement.
"""

from __future__ import annotations

import functools
import math

import numpy as np

SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # rows up and down, columns left and right


class Plate:
    """The geometry: `blocks` x `blocks` blocks of `size` x `size` cells on the unit square.

    Parameters
    ----------
    blocks, size : int
        Blocks along a side, cells along a block's side.
    period : int
        Time steps of one revolution of the source.
    tolerance : float
        A block has converged when no cell changes by more than this in a sweep.
    """

    def __init__(self, blocks: int, size: int, period: int = 1200, tolerance: float = 1e-5):
        self.blocks, self.size, self.period, self.tolerance = blocks, size, period, tolerance
        self.h = 1.0 / (blocks * size)
        self.dt = 2e-3
        self.power, self.radius = 500.0, 0.12

    def source(self, step: int) -> tuple[float, float]:
        """Return the centre (row, column) of the source at a time step; it moves on a circle."""
        angle = 2.0 * math.pi * step / self.period
        return 0.5 - 0.3 * math.cos(angle), 0.5 + 0.3 * math.sin(angle)

    def neighbours(self, key: int) -> dict[tuple[int, int], int]:
        """Return the keys of the neighbouring blocks, by side; a side on the rim has none."""
        row, col = divmod(key, self.blocks)
        inside = range(self.blocks)
        return {
            (i, j): key + i * self.blocks + j
            for i, j in SIDES
            if row + i in inside and col + j in inside
        }


class Block:
    """The temperatures of one block, with one layer of neighbours' values around it."""

    def __init__(self, plate: Plate, key: int):
        self.plate, self.key = plate, key
        self.t = np.zeros((plate.size + 2, plate.size + 2))
        self.step = 0
        self.sweeps = 0

    def border(self, side: tuple[int, int]) -> np.ndarray:
        """Return a view of the block's own cells along a side, for the neighbour there; (size,)."""
        return self.t[_layer(side, own=True)]

    def receive(self, source: int, values: np.ndarray) -> None:
        """Store the border of the neighbouring block `source`."""
        row, col = divmod(source, self.plate.blocks)
        mine = divmod(self.key, self.plate.blocks)
        self.t[_layer((row - mine[0], col - mine[1]), own=False)] = values

    def advance(self) -> None:
        """Compute one implicit time step by Jacobi sweeps until the block has converged."""
        plate, work = self.plate, _workspace(self.plate.size)
        inner = self.t[1:-1, 1:-1]
        np.copyto(work.right, inner)
        work.right += plate.dt * self._heating(work)
        scale = 0.5 * plate.dt / plate.h**2
        for _ in range(1000):
            self.sweeps += 1
            change = _sweep(self.t, work, scale)
            if change < plate.tolerance:
                break
        self.step += 1

    def _heating(self, work: _Workspace) -> np.ndarray:
        """Return the power of the source in each cell at the block's time step, a Gaussian spot."""
        plate, n = self.plate, self.plate.size
        top, left = (i * n for i in divmod(self.key, plate.blocks))
        row, col = plate.source(self.step)
        y = (top + work.cells) * plate.h - row
        x = (left + work.cells) * plate.h - col
        spot = 1.0 / (2.0 * plate.radius**2)
        return plate.power * np.exp(-y * y * spot)[:, None] * np.exp(-x * x * spot)[None, :]


class _Workspace:
    """Scratch arrays that all blocks of one size share, so that sweeps need no new memory."""

    def __init__(self, n: int):
        self.k = np.empty((n + 2, n + 2))
        self.right, self.sum, self.flow, self.face, self.term = np.empty((5, n, n))
        self.cells = np.arange(n) + 0.5


@functools.cache
def _workspace(n: int) -> _Workspace:
    return _Workspace(n)


def _layer(side: tuple[int, int], own: bool) -> tuple[slice | int, slice | int]:
    """Return the index of the outermost own cells along a side, or of the cells beyond them."""
    edge = {-1: 1 if own else 0, 1: -2 if own else -1, 0: slice(1, -1)}
    return edge[side[0]], edge[side[1]]


def _sweep(t: np.ndarray, work: _Workspace, scale: float) -> float:
    """Do one Jacobi sweep of the implicit step in place; return the largest change of a cell.

    Five-point stencil; the conductivity of a face is the mean of its two cells.  `scale` is
    dt / (2 h^2); the factor 1/2 comes from the mean.
    """
    n = t.shape[0] - 2
    k, total, flow, face, term = work.k, work.sum, work.flow, work.face, work.term
    np.add(t, 1.0, out=k)  # k(T) = 1 + T
    middle = k[1:-1, 1:-1]
    total.fill(0.0)
    flow.fill(0.0)
    for i, j in SIDES:
        beyond = (slice(1 + i, 1 + i + n), slice(1 + j, 1 + j + n))
        np.add(middle, k[beyond], out=face)
        total += face
        np.multiply(face, t[beyond], out=term)
        flow += term
    flow *= scale
    flow += work.right
    total *= scale
    total += 1.0
    flow /= total  # the new temperatures
    inner = t[1:-1, 1:-1]
    np.subtract(flow, inner, out=term)
    np.copyto(inner, flow)
    return float(max(term.max(), -term.min()))
