"""Particles in the cells of a ring; half of them are a crowd that moves around the ring.

    mpiexec -n 4 python examples/own_loop/particles.py

An mpi4py program with an exchange of its own, which sends every particle to the owner of its cell.
The lines that pylb needs end with "# pylb".  `examples/c/particles.c` is the same program in C.
"""

import time

import numpy as np
from mpi4py import MPI
from table import compare

import pylb  # pylb

CELLS, PARTICLES, STEPS = 192, 12_000, 200


class Ring:
    """The particles of this rank, in order of cell, and the owner of every cell."""

    def __init__(self, comm):
        self.comm = comm
        self.owner = np.arange(CELLS) * comm.size // CELLS
        i = np.arange(PARTICLES)
        crowd = i % 2 == 0  # half of the particles stand still, half are a crowd that moves
        x = (i + 0.5) / np.where(crowd, 4 * PARTICLES, PARTICLES)
        v = np.where(crowd, 0.002, 0.0)
        mine = self.owner[(x * CELLS).astype(int)] == comm.rank
        self.sort(np.column_stack([x, v])[mine])

    def sort(self, particles):
        """Store these particles in the order of their cells."""
        cell = (particles[:, 0] * CELLS).astype(int)
        self.particles = particles[np.argsort(cell, kind="stable")]
        self.cells = np.flatnonzero(self.owner == self.comm.rank)
        self.counts = np.bincount(cell, minlength=CELLS)[self.cells]

    def exchange(self):
        """Send every particle to the owner of its cell."""
        to = self.owner[(self.particles[:, 0] * CELLS).astype(int)]
        out = [self.particles[to == rank] for rank in range(self.comm.size)]
        self.sort(np.concatenate(self.comm.alltoall(out)))

    def give(self, ranks):
        """Give the cells of this rank to their new owners."""
        new = np.full(CELLS, -1)
        new[self.cells] = ranks
        self.comm.Allreduce(new, self.owner, MPI.MAX)
        self.exchange()

    def compute(self):
        """Return the seconds of each cell, and the potential energy of all pairs in the cells."""
        seconds, energy, end = np.zeros(len(self.cells)), 0.0, 0
        for k, n in enumerate(self.counts.tolist()):
            began, end = time.thread_time(), end + n
            x = self.particles[end - n : end, 0] * CELLS
            energy += (1.0 / np.sqrt((x[:, None] - x) ** 2 + 0.01)).sum() / 2.0
            seconds[k] = time.thread_time() - began
        return seconds, energy

    def move(self):
        x = self.particles[:, 0]
        x += self.particles[:, 1]
        x -= np.where(x >= 1.0, 1.0, 0.0)


def run(comm, mode):
    """Run the program once; return this rank's seconds of each step, the energy, the advisor."""
    ring, work, total = Ring(comm), [], 0.0
    lb = pylb.Advisor(comm, mode=mode)  # pylb
    for _ in lb.iterate(STEPS):  # pylb
        seconds, energy = ring.compute()
        ring.move()
        ring.exchange()
        work.append(seconds.sum())
        total += energy
        if plan := lb.advise(loads=seconds, keys=ring.cells, nbytes=16 * ring.counts):  # pylb
            with lb.rebalancing():  # pylb
                ring.give(plan.rank)  # pylb
    return work, total / STEPS, lb


if __name__ == "__main__":
    compare(run, "energy")
