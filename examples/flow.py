"""One zone of a flow: the physics of multizone.py, without any parallelism.

Burgers' equations of a viscous fluid in three dimensions, and two substances that it carries:

    dq/dt + (u . grad) q = nu div grad q,    q = (u, v, w, c, s)

periodic in x and y, between slippery walls in z.  A time step is implicit, by approximate
factorization into one tridiagonal system along each direction (Beam and Warming 1976), like BT and
SP of the NAS Parallel Benchmarks, with second-order central differences for the five unknowns.  As
in these benchmarks, a zone keeps its neighbours' values of the previous step beyond its borders,
and the error falls with the width of the cells.

The exact solution is known (Cole and Hopf): if f, g and h solve the heat equation and f > 0, then
u = -2 nu grad f / f, c = g / f and s = h / f solve these equations.

A zone's new values depend only on its own values and its neighbours' borders: the solution is the
same to the last bit on any placement.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgtsv

NU = 0.05  # viscosity
FOURIER = 0.25  # nu dt / h^2 in the direction with the smallest cells

# Solutions of the heat equation: (amplitude, a, b, c) of cos(2 pi a x) cos(2 pi b y) cos(pi c z).
F = ((2.0, 0, 0, 0), (0.6, 1, 0, 1), (0.5, 1, 1, 0), (0.3, 0, 2, 1))
G = ((1.0, 0, 0, 0), (0.8, 0, 1, 1))
H = ((0.5, 0, 0, 0), (0.5, 1, 0, 0), (0.2, 2, 1, 2))

WEST, EAST, SOUTH, NORTH = range(4)  # sides of a zone
OPPOSITE = (EAST, WEST, NORTH, SOUTH)


@dataclass(frozen=True)
class Box:
    """The cells of a zone, and the whole grid.

    Attributes
    ----------
    first, size : (int, int, int)
        The zone's first cell in each direction, and its number of cells.
    whole : (int, int, int)
        Cells of all zones together, in the unit cube.
    """

    first: tuple[int, int, int]
    size: tuple[int, int, int]
    whole: tuple[int, int, int]

    @property
    def n_cells(self) -> int:
        """The number of cells of the zone."""
        return math.prod(self.size)

    @property
    def dt(self) -> float:
        """The time step, which is the same in all zones."""
        return FOURIER / (NU * max(self.whole) ** 2)

    def exact(self, time: float, margin: int = 0) -> np.ndarray:
        """Return the exact solution in the centres of the cells, and of `margin` layers around."""
        axes = zip(self.first, self.size, self.whole, strict=True)
        places = [(np.arange(i - margin, i + n + margin) + 0.5) / whole for i, n, whole in axes]
        x, y, z = np.meshgrid(*places, indexing="ij", sparse=True)
        f = _heat(F, time, x, y, z)
        slopes = [_heat(F, time, x, y, z, along) for along in range(3)]
        q = [-2.0 * NU * slope / f for slope in slopes]
        return np.stack([*q, _heat(G, time, x, y, z) / f, _heat(H, time, x, y, z) / f])


def _heat(
    modes: tuple[tuple[float, int, int, int], ...],
    time: float,
    x: np.ndarray,
    y: np.ndarray,
    z: np.ndarray,
    along: int | None = None,
) -> np.ndarray:
    """Return a sum of decaying cosines, or its derivative along a direction."""
    total = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape))
    for amplitude, a, b, c in modes:
        k = (2.0 * math.pi * a, 2.0 * math.pi * b, math.pi * c)
        term = amplitude * math.exp(-NU * sum(i * i for i in k) * time)
        for i, at in enumerate((x, y, z)):
            term = term * (-k[i] * np.sin(k[i] * at) if i == along else np.cos(k[i] * at))
        total += term
    return total


class Zone:
    """The flow in one zone.

    Attributes
    ----------
    q : (5, nx + 2, ny + 2, nz + 2) float64
        Velocity and two substances, one layer beyond the zone included.
    step : int
        Time steps done.
    """

    def __init__(self, box: Box):
        self.box, self.step = box, 0
        self.q = box.exact(0.0, margin=1)

    @property
    def inside(self) -> np.ndarray:
        """View of the zone's own cells, without border layers: (5, nx, ny, nz)."""
        return self.q[:, 1:-1, 1:-1, 1:-1]

    @property
    def error(self) -> float:
        """The largest deviation of a value from the exact solution."""
        return float(np.abs(self.inside - self.box.exact(self.step * self.box.dt)).max())

    def border(self, side: int) -> np.ndarray:
        """Return a view of the zone's own cells along a side, which the neighbour there needs."""
        return self.q[_layer(side, own=True)]

    def receive(self, side: int, values: np.ndarray) -> None:
        """Store the values of the neighbour beyond a side."""
        self.q[_layer(side, own=False)] = values

    def advance(self) -> None:
        """Compute one implicit time step."""
        self._reflect()
        change = _explicit(self.q, self.box)
        for axis in range(3):
            change = _implicit(change, self.inside[axis], axis, self.box)
        self.inside[...] += change
        self.step += 1

    def _reflect(self) -> None:
        """Set the values beyond the walls in z: mirrored, with w of opposite sign."""
        for beyond, before in ((0, 1), (-1, -2)):
            self.q[..., beyond] = self.q[..., before]
            self.q[2, ..., beyond] *= -1.0


def _layer(side: int, own: bool) -> tuple[slice | int, ...]:
    """Return the index of the outermost own cells along a side, or of the cells beyond them."""
    edge = (1 if own else 0) if side in (WEST, SOUTH) else (-2 if own else -1)
    inner = slice(1, -1)
    across = (edge, inner) if side in (WEST, EAST) else (inner, edge)
    return (slice(None), *across, inner)


def _explicit(q: np.ndarray, box: Box) -> np.ndarray:
    """Return dt times the right-hand side, (5, nx, ny, nz)."""
    middle = q[:, 1:-1, 1:-1, 1:-1]
    out = np.zeros(middle.shape)
    for axis, n in enumerate(box.whole):
        below, above = (q[_shifted(axis, by)] for by in (-1, 1))
        out += (NU * box.dt * n * n) * (below - 2.0 * middle + above)
        out -= (0.5 * box.dt * n) * middle[axis] * (above - below)
    return out


def _shifted(axis: int, by: int) -> tuple[slice, ...]:
    """Return the index of the zone's own cells, moved along an axis by -1, 0 or 1 cells."""
    index = [slice(None), *[slice(1, -1)] * 3]
    index[axis + 1] = slice(1 + by, -1 + by or None)
    return tuple(index)


def _implicit(change: np.ndarray, speed: np.ndarray, axis: int, box: Box) -> np.ndarray:
    """Solve (1 + dt (u d/dx - nu d2/dx2)) new = change along an axis, for all unknowns at once.

    All lines of the zone form one tridiagonal system.  The end of a line and the beginning of the
    next line are not coupled, because values beyond the zone do not change within a step.
    """
    n = box.whole[axis]
    lines = np.moveaxis(change, axis + 1, -1)
    shape = lines.shape
    flow = (0.5 * box.dt * n) * np.moveaxis(speed, axis, -1)
    friction = NU * box.dt * n * n
    lower, upper = -friction - flow, flow - friction
    lower[..., 0] = upper[..., -1] = 0.0
    solved = _tridiagonal(
        lower.reshape(-1)[1:],
        np.full(flow.size, 1.0 + 2.0 * friction),
        upper.reshape(-1)[:-1],
        lines.reshape(len(change), -1).T,
    )
    return np.moveaxis(solved.T.reshape(shape), -1, axis + 1)


_tridiagonal_of = functools.partial(
    dgtsv, overwrite_dl=True, overwrite_d=True, overwrite_du=True, overwrite_b=True
)


def _tridiagonal(
    lower: np.ndarray, middle: np.ndarray, upper: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Solve a tridiagonal system for (n, k) right-hand sides; LAPACK overwrites all arguments."""
    *_, out, info = _tridiagonal_of(lower, middle, upper, right)
    if info != 0:
        raise ArithmeticError(f"tridiagonal system is singular in row {info}")
    return out
