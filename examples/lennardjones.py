"""Cells of atoms and the forces between them: the physics of leanmd.py, without any parallelism.

Molecular dynamics of a Lennard-Jones fluid in a periodic box, in reduced units (the atoms' mass,
diameter and well depth are 1).  The potential is cut off with its force shifted, so that both are
continuous and the total energy is conserved:

    U(r) = u(r) - u(c) - (r - c) u'(c)  for r < c,    u(r) = 4 (r^-12 - r^-6)

As in Charm++'s leanmd (Mehta 2004), the box is divided into cells of atoms.  For each pair of
neighbouring cells, and for each cell itself, an object called "compute" computes the forces.  Cells
send positions, computes send forces back, and a cell moves its atoms with velocity Verlet.  A cell
as wide as the cut-off has 26 neighbours; if cells are half as wide along the first axis
(`away` = 2), it has 44 (Menon 2012, table 2.1).

A cell adds up forces in the order of the computes' keys, and keeps its atoms in the order of their
numbers: the trajectory is the same to the last bit on any placement.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

STEP, LEAVE, ARRIVE, FORCES = "step", "leave", "arrive", "forces"  # phases of a time step
Received = list[tuple[int, np.ndarray]]  # (key of the sender, data)
Sent = list[tuple[list[int], np.ndarray]]  # (keys of the receivers, data)
ID, X, V = 0, slice(1, 4), slice(4, 7)  # rows of atoms, (7, n): numbers, positions, velocities


class Fluid:
    """The geometry: a grid of cells, and the computes between them.

    The first keys are those of the cells, in C order of the grid.  Then follow the computes of the
    first cell, of the second, ...  A compute of two cells belongs to the cell from which the other
    cell is at one of the offsets `forward`.

    Parameters
    ----------
    cells : int
        Number of cells along a side of the box; `away` times as many along the first axis.
    away : {1, 2}
        Cells that the cut-off reaches along the first axis.
    cutoff, skin : float
        Radius c beyond which atoms do not interact; extra width of a cell, so that its atoms may
        be slightly outside.
    dt : float
    every : int
        Time steps from one change of cells to the next.
    """

    def __init__(
        self,
        cells: int,
        away: int = 1,
        cutoff: float = 5.0,
        skin: float = 0.5,
        dt: float = 0.004,
        every: int = 10,
    ):
        if cells < 3 or away not in (1, 2):
            raise ValueError(f"{cells} cells, away={away}: expected 3 or more cells, away=1 or 2")
        self.away, self.cutoff, self.skin, self.dt, self.every = away, cutoff, skin, dt, every
        self.grid = (cells * away, cells, cells)
        self.side = (cutoff + skin) / np.array([away, 1.0, 1.0])
        self.box = self.side * self.grid
        self.n_cells = int(np.prod(self.grid))
        reach = (range(-away, away + 1), range(-1, 2), range(-1, 2))
        self.around = list(itertools.product(*reach))
        self.forward = self.around[len(self.around) // 2 :]  # the cell itself is the first
        self.n_objects = self.n_cells * (1 + len(self.forward))

    def phases(self, step: int) -> list[str]:
        """Return the phases of a time step; step 0 only computes the first forces."""
        if step == 0:
            return [ARRIVE, FORCES]
        return [LEAVE, ARRIVE, FORCES] if step % self.every == 0 else [STEP, FORCES]

    def neighbour(self, cell: int, offset: tuple[int, ...]) -> int:
        """Return the key of the cell at an offset from a cell; the box is periodic."""
        place = np.add(np.unravel_index(cell, self.grid), offset)
        return int(np.ravel_multi_index(tuple(place), self.grid, mode="wrap"))

    def near(self, cell: int) -> list[int]:
        """Return the keys of a cell and its neighbours, ascending."""
        return sorted({self.neighbour(cell, offset) for offset in self.around})

    def pairs(self, atoms: np.ndarray) -> np.ndarray:
        """Return the number of pairs of atoms that the computes of each cell test; (n_cells,)."""
        count = np.bincount(self.cell_of(atoms[X]), minlength=self.n_cells).reshape(self.grid)
        around = sum(np.roll(count, [-d for d in o], axis=(0, 1, 2)) for o in self.forward[1:])
        return (count * (count / 2 + around)).ravel()

    def compute(self, cell: int, direction: int) -> int:
        """Return the key of the compute between a cell and its neighbour in a forward direction."""
        return self.n_cells + cell * len(self.forward) + direction

    def pair(self, compute: int) -> tuple[int, int]:
        """Return the two cells of a compute; the same cell twice for forces within a cell."""
        cell, direction = divmod(compute - self.n_cells, len(self.forward))
        return cell, self.neighbour(cell, self.forward[direction])

    def shift(self, compute: int) -> np.ndarray:
        """Return the shift of a compute's second cell to its nearest periodic image; (3,)."""
        cell, direction = divmod(compute - self.n_cells, len(self.forward))
        place = np.add(np.unravel_index(cell, self.grid), self.forward[direction])
        return np.floor_divide(place, self.grid) * self.box

    def computes(self, cell: int) -> list[int]:
        """Return the keys of all computes that need a cell's positions."""
        mine = [self.compute(cell, i) for i in range(len(self.forward))]
        for i, offset in enumerate(self.forward[1:], 1):
            mine.append(self.compute(self.neighbour(cell, tuple(-d for d in offset)), i))
        return mine

    def cell_of(self, x: np.ndarray) -> np.ndarray:
        """Return the keys of the cells in which positions (3, n) inside the box lie; (n,)."""
        place = (x / self.side[:, None]).astype(np.int64)
        return np.ravel_multi_index(tuple(place), self.grid, mode="clip")

    def wrap(self, x: np.ndarray) -> np.ndarray:
        """Return the positions (3, n) wrapped into the periodic box."""
        box = self.box[:, None]
        return x - np.floor(x / box) * box

    def drop(self, seed: int = 0, temperature: float = 0.7, radius: float = 0.3) -> np.ndarray:
        """Return all atoms (7, n) of a drop of liquid in its vapour, away from the box's middle.

        The drop begins as a cubic lattice; outside of it, a random fiftieth of the sites has atoms
        of vapour.  Velocities are normal, without a common drift.  The radius is relative to the
        length of the box; from 0.87 on all is liquid.
        """
        rng = np.random.default_rng(seed)
        axes = [(np.arange(n) + 0.5) / n for n in (self.box / 1.12).astype(int)]
        place = np.stack([m.ravel() for m in np.meshgrid(*axes, indexing="ij")])
        off = place - np.array([[0.25], [0.5], [0.5]])
        off -= np.round(off)
        in_drop = (off**2).sum(axis=0) < radius**2
        place = place[:, in_drop | (rng.random(place.shape[1]) < 0.02)]
        v = rng.normal(0.0, np.sqrt(temperature), place.shape)
        v -= v.mean(axis=1, keepdims=True)
        ids = np.arange(place.shape[1])[None, :]
        return np.concatenate([ids, place * self.box[:, None], v])

    def objects(self, atoms: np.ndarray, keys: list[int]) -> Iterator[tuple[int, Cell | Compute]]:
        """Yield (key, object): the cells of `keys` with their atoms, and their computes."""
        home = self.cell_of(atoms[X])
        for cell in keys:
            yield cell, Cell(self, cell, atoms[:, home == cell])
            for i in range(len(self.forward)):
                key = self.compute(cell, i)
                yield key, Compute(self, key)


class Cell:
    """The atoms of one cell.

    Attributes
    ----------
    ids : (n,) float64
        The atoms' numbers, ascending.
    x, v : (3, n) float64
        Positions (of atoms that have just left, outside the cell; never wrapped) and velocities.
    energy : list of (kinetic, potential)
        At the start and after each time step; a pair's atoms share its potential energy.
    """

    def __init__(self, fluid: Fluid, key: int, atoms: np.ndarray):
        self.fluid, self.key = fluid, key
        self.low = np.array(np.unravel_index(key, fluid.grid))[:, None] * fluid.side[:, None]
        self.computes = fluid.computes(key)
        self.near = fluid.near(key)
        self.energy: list[tuple[float, float]] = []
        self.take(atoms)

    def take(self, atoms: np.ndarray) -> None:
        """Replace the present atoms by these, (7, n)."""
        atoms = atoms[:, np.argsort(atoms[ID])]
        self.ids, self.x, self.v = (np.ascontiguousarray(atoms[rows]) for rows in (ID, X, V))

    def act(self, phase: str, inbox: Received) -> Sent:
        """Do a phase of a time step with the received data; return what to send."""
        if phase in (STEP, LEAVE):
            self.end_step(inbox)
            self.begin_step()
        elif phase == ARRIVE and inbox:  # before the first step nothing has arrived
            self.take(np.concatenate([atoms for _, atoms in inbox], axis=1))
        if phase == LEAVE:
            return self.leave()
        return [] if phase == FORCES else [(self.computes, self.x)]

    def end_step(self, forces: Received) -> None:
        """Compute the second half of a step of velocity Verlet, with the new forces."""
        total = np.zeros((4, len(self.ids)))
        for _, force in forces:
            total += force
        self.kick = 0.5 * self.fluid.dt * total[:3]
        if self.energy:  # step 0 gives the forces at the start
            self.v += self.kick
        self.energy.append((0.5 * float((self.v**2).sum()), float(total[3].sum())))

    def begin_step(self) -> None:
        """Compute the first half of the next step of velocity Verlet."""
        self.v += self.kick
        self.x = self.x + self.fluid.dt * self.v  # not in place, because computes may use the array
        self.check()

    def check(self) -> None:
        """Check that no atom is further outside than the computes can see."""
        beyond = np.maximum(self.low - self.x, self.x - self.low - self.fluid.side[:, None])
        if beyond.size and beyond.max() > 0.5 * self.fluid.skin:
            raise RuntimeError(
                f"cell {self.key}: an atom is {beyond.max():.3g} outside, more than half the skin "
                f"of {self.fluid.skin}: atoms must change cells more often"
            )

    def leave(self) -> Sent:
        """Send each atom to the cell where it is now; each neighbour gets a message."""
        atoms = self.atoms()
        home = self.fluid.cell_of(atoms[X])
        return [([cell], atoms[:, home == cell]) for cell in self.near]

    def atoms(self) -> np.ndarray:
        """Return the cell's atoms, (7, n), wrapped into the periodic box."""
        return np.concatenate([self.ids[None, :], self.fluid.wrap(self.x), self.v])


class Compute:
    """The forces between the atoms of two cells, or within one cell."""

    def __init__(self, fluid: Fluid, key: int):
        self.pair, self.cutoff = fluid.pair(key), fluid.cutoff
        self.shift = fluid.shift(key)

    def act(self, phase: str, inbox: Received) -> Sent:
        """In the phase FORCES, turn the received positions into forces to send back."""
        if phase != FORCES:
            return []
        positions = dict(inbox)
        first, second = self.pair
        if first == second:
            on_a, on_b = interact(positions[first], positions[first], self.cutoff, is_self=True)
            return [([first], on_a + on_b)]
        beyond = positions[second] + self.shift[:, None]
        on_a, on_b = interact(positions[first], beyond, self.cutoff)
        return [([first], on_a), ([second], on_b)]


def interact(
    a: np.ndarray, b: np.ndarray, cutoff: float, *, is_self: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the forces between atoms at `a` (3, n) and at `b` (3, m).

    Parameters
    ----------
    is_self : bool
        `a` and `b` are the same atoms: each pair counts once.

    Returns
    -------
    (4, n), (4, m) float64
        The force on each atom, and its half of the potential energy.
    """
    n, m = a.shape[1], b.shape[1]
    d = a[:, :, None] - b[:, None, :]
    square = np.einsum("kij,kij->ij", d, d)
    near = square < cutoff * cutoff
    pairs = np.flatnonzero(np.triu(near, 1) if is_self else near)
    if not len(pairs):
        return np.zeros((4, n)), np.zeros((4, m))
    square, d = square.ravel()[pairs], d.reshape(3, -1)[:, pairs]
    r = np.sqrt(square)
    u, f = potential(square)
    u_cut, f_cut = _at(cutoff)
    rows = np.empty((4, len(pairs)))
    np.multiply(d, (f - f_cut) / r, out=rows[:3])
    np.multiply(0.5, u - u_cut + (r - cutoff) * f_cut, out=rows[3])
    i, j = np.divmod(pairs, m)
    on_a = np.stack([np.bincount(i, row, n) for row in rows])
    on_b = np.stack([np.bincount(j, row, m) for row in rows])
    np.negative(on_b[:3], out=on_b[:3])
    return on_a, on_b


def potential(square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Lennard-Jones potential u and the force -u' at squared distances."""
    s = 1.0 / square
    s3 = s * s * s
    return 4.0 * (s3 - 1.0) * s3, (48.0 * s3 - 24.0) * s3 * np.sqrt(s)


@functools.cache
def _at(r: float) -> tuple[float, float]:
    u, f = potential(np.array([r * r]))
    return float(u[0]), float(f[0])
