"""Molecular dynamics that balances itself: a drop of Lennard-Jones liquid in its vapour.

    mpiexec -n 2 python examples/leanmd.py --compare
    mpiexec -n 2 python examples/leanmd.py --compare --away 2

Modelled on leanmd, the mini-application of Charm++ (Menon 2012, figures 2.1 and 3.6).  Objects are
cells of atoms, and "computes" for the forces between two cells (lennardjones.py has their physics).
Computes in the drop have much work, those in the vapour almost none.  An iteration is a time step:
cells multicast positions and get forces back; every few steps atoms change cells.  The energy is
conserved, and the fingerprint of the trajectory is the same for every number of ranks, balanced or
not.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import runs
from lennardjones import FORCES, ID, Cell, Fluid, V

import pylb
from pylb.console import show


@dataclass(repr=False)
class Trajectory(runs.Run):
    """The result of a run, with its conserved quantities."""

    energy: np.ndarray  # (steps + 1, 2) kinetic and potential
    atoms: np.ndarray  # (7, n) at the end: numbers, positions, velocities

    @property
    def total(self) -> np.ndarray:
        """The total energy at the start and after each time step, (steps + 1,)."""
        return self.energy.sum(axis=1)

    @property
    def momentum(self) -> np.ndarray:
        """The sum of the momenta of all atoms at the end, (3,)."""
        return self.atoms[V].sum(axis=1)

    @property
    def drift(self) -> float:
        """The largest relative deviation of the total energy from its first value."""
        return float(np.abs(self.total / self.total[0] - 1.0).max())


def solve(
    comm: Any,
    fluid: Fluid,
    atoms: np.ndarray,
    steps: int,
    start: str | None = None,
    **balancing: Any,
) -> Trajectory:
    """Run the dynamics; all other keywords are passed to `pylb.Balancer`."""
    lb = pylb.Balancer(comm, **balancing)
    cells = runs.starts(lb, fluid.n_cells, start, fluid.near, fluid.pairs(atoms))
    for key, part in fluid.objects(atoms, cells):
        lb.add(key, part)
    for step in lb.iterate(steps + 1):
        for phase in fluid.phases(step):
            for key, part in lb.local():
                for targets, data in part.act(phase, lb.inbox(key)):
                    lb.multicast(targets, key, data, copy=False)
            if phase != FORCES:
                lb.exchange()
    cells = {key: part for key, part in lb.local() if isinstance(part, Cell)}
    for key, cell in cells.items():
        cell.end_step(lb.inbox(key))
    return trajectory(comm, lb, cells)


def trajectory(comm: Any, lb: pylb.Balancer, cells: dict[int, Cell]) -> Trajectory:
    """Return the result of the run that `lb` has balanced, from the final cells of this rank."""
    mine = {key: (cell.atoms(), cell.energy) for key, cell in cells.items()}
    parts, energy = zip(*runs.gather(comm, mine).values(), strict=True)
    atoms = np.concatenate(parts, axis=1)
    atoms = atoms[:, np.argsort(atoms[ID])]
    run = runs.Run.of(lb, [atoms.tobytes()])
    return Trajectory(**vars(run), energy=np.sum(energy, axis=0), atoms=atoms)


def print_energy(run: Trajectory, fluid: Fluid) -> None:
    """Print the conserved quantities per atom at some steps."""
    n = run.atoms.shape[1]
    steps = np.unique(np.linspace(0, len(run.energy) - 1, 6).astype(int))
    rows = []
    for i in steps:
        kinetic, potential = run.energy[i] / n
        total = f"{run.total[i] / n:.7f}"
        rows.append([int(i), fluid.dt * i, 2.0 / 3.0 * kinetic, kinetic, potential, total])
    head = ["step", "time", "temperature", "kinetic", "potential", "total"]
    show(head, rows, title=f"energy of an atom, {n} atoms, in reduced units")
    print(f"total energy: within {run.drift:.1e} of its first value")
    print(f"momentum at the end: {np.abs(run.momentum).max():.1e}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--cells", type=int, default=4, help="cells along a side of the box (%(default)s)")
    add(
        "--away", type=int, choices=(1, 2), default=1, help="cell width: the cut-off, or half of it"
    )
    add("--steps", type=int, default=60, help="time steps (%(default)s)")
    return runs.arguments(parser)


def main() -> None:
    args = arguments()
    fluid = Fluid(args.cells, args.away)
    made = runs.make(args, args.steps, solve, fluid, fluid.drop())
    if runs.is_root():
        runs.print_runs(made, "cells and computes")
        print()
        print_energy(next(iter(made.values())), fluid)
        if args.plot:
            runs.plot(made, args.plot)


if __name__ == "__main__":
    main()
