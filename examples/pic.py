"""A particle-in-cell code on a line, with three phases in a time step: push, deposit, fields.

A plasma of charged particles fills the first half of a periodic line of patches.  In each time step

    push      particles feel the field, and move; those that leave a patch are sent to its neighbour
    deposit   particles add their current to the grid of their patch
    fields    the field follows from the current (Ampere's law), and diffuses, in short steps

and all patches wait for one another between two phases.  Pushing and depositing take long in the
plasma, and the fields where the grid is fine, near a wall.  As usual, the line is first split so
that all ranks have about as much to do in a time step.  But in each phase, half of them wait.

    mpiexec -n 4 python examples/pic.py          # with phases
    mpiexec -n 4 python examples/pic.py --sum    # the same, balanced by one number an object
    mpiexec -n 4 python examples/pic.py --compare    # both, and how much faster phases are
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pylb

DT, KICK, DIFFUSION = 0.2, 0.02, 0.2  # time step; charge over mass; for each short step


@dataclass
class Line:
    """A periodic line of patches of length 1 each; the second half of them has fine grids."""

    patches: int = 64
    particles: int = 1_600_000
    cells: int = 32
    refined: int = 16384  # cells of a fine patch
    sweeps: int = 40  # short steps in which the field diffuses

    def make(self, key: int) -> Patch:
        """Return a patch at the start: with particles, or with a fine grid."""
        n = 0 if self.wall(key) else self.particles // (self.patches - self.patches // 2)
        rng = np.random.default_rng(key)
        return Patch(self, key, rng.random(n), rng.normal(0.0, 0.1, n))

    def wall(self, key: int) -> bool:
        return key >= self.patches - self.patches // 2

    def split(self, n_ranks: int) -> list[int]:
        """Return the first patch of each rank, and the end, by the seconds of two patches."""
        seconds = []
        for key in (0, self.patches - 1):
            patch, took = self.make(key), []
            for _ in range(5):
                begin = time.thread_time()
                list(patch.push())
                patch.deposit()
                patch.advance()
                took.append(time.thread_time() - begin)
            seconds.append(min(took))
        cost = np.cumsum([seconds[self.wall(key)] for key in range(self.patches)])
        parts = np.arange(1, n_ranks) / n_ranks
        return [0, *np.searchsorted(cost, parts * cost[-1]).tolist(), self.patches]


class Patch:
    """One patch: positions x (0 ... 1) and velocities v of its particles; its field at cells."""

    def __init__(self, line: Line, key: int, x: np.ndarray, v: np.ndarray) -> None:
        self.line, self.key, self.x, self.v = line, key, x, v
        self.field = np.zeros(line.refined if line.wall(key) else line.cells)
        self.current = np.zeros_like(self.field)
        self.rims = [0.0, 0.0]  # the field in the neighbours' nearest cells

    def push(self) -> Iterator[tuple[int, np.ndarray]]:
        """Move the particles; yield (neighbour, particles) for those that leave, (2, n) each."""
        at = (self.x * len(self.field)).astype(int)
        self.v += DT * KICK * self.field[at]
        self.x += DT * self.v
        for side, out in ((-1, self.x < 0.0), (1, self.x >= 1.0)):
            if out.any():
                gone = np.stack([np.clip(self.x[out] - side, 0.0, 1.0 - 1e-12), self.v[out]])
                yield (self.key + side) % self.line.patches, gone
        stay = (self.x >= 0.0) & (self.x < 1.0)
        self.x, self.v = self.x[stay], self.v[stay]

    def arrive(self, particles: np.ndarray) -> None:
        """Take particles that come from a neighbour."""
        self.x, self.v = np.append(self.x, particles[0]), np.append(self.v, particles[1])

    def deposit(self) -> None:
        """Add the current of the particles to the grid, with linear weights."""
        n = len(self.field)
        at = np.clip(self.x * n - 0.5, 0.0, n - 1.0)
        left = at.astype(int)
        right = np.minimum(left + 1, n - 1)
        both, weights = np.append(left, right), np.append(1.0 + left - at, at - left)
        sums = np.bincount(both, weights * np.append(self.v, self.v), n)
        self.current = sums * (n / self.line.particles)

    def advance(self) -> None:
        """Advance the field by a time step."""
        self.field -= DT * self.current
        padded = np.empty(len(self.field) + 2)
        for _ in range(self.line.sweeps):
            padded[0], padded[1:-1], padded[-1] = self.rims[0], self.field, self.rims[1]
            self.field += DIFFUSION * np.diff(padded, 2)


def solve(comm: Any, line: Line, iterations: int, *, named: bool = True, **balancing: Any) -> Any:
    """Run the code; return the balancer.  named: whether the phases are named."""
    lb = pylb.Balancer(comm, **balancing)
    split = comm.bcast(line.split(lb.n_ranks)) if comm is not None else [0, line.patches]
    for key in range(*split[lb.rank : lb.rank + 2]):
        lb.add(key, line.make(key))
    phase: Any = lb.phase if named else contextlib.nullcontext
    for _ in lb.iterate(iterations):
        with phase("push"):
            for key, patch in lb.local():
                for source, value in lb.inbox(key):  # the rims of the neighbours' fields
                    patch.rims[(source - key) % line.patches == 1] = value
                for neighbour, particles in patch.push():
                    lb.send(neighbour, key, particles)
        lb.exchange()
        with phase("deposit"):
            for key, patch in lb.local():
                for _, particles in lb.inbox(key):
                    patch.arrive(particles)
                patch.deposit()
        lb.exchange()
        with phase("fields"):
            for key, patch in lb.local():
                patch.advance()
                lb.send((key - 1) % line.patches, key, float(patch.field[0]))
                lb.send((key + 1) % line.patches, key, float(patch.field[-1]))
    return lb


def state(lb: Any) -> dict[int, tuple[int, str]]:
    """Return, by key, the number of particles and a fingerprint of each patch of this rank."""
    out = {}
    for key, patch in lb.local():
        parts = np.sort(patch.x), np.sort(patch.v), patch.field
        text = b"".join(part.tobytes() for part in parts)
        out[key] = len(patch.x), hashlib.sha256(text).hexdigest()
    return out


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description="A particle-in-cell code with three phases.")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--sum", action="store_true", help="name no phases: balance their sum")
    parser.add_argument("--compare", action="store_true", help="also run the other way")
    given = parser.parse_args(words)
    try:
        from mpi4py import MPI

        comm: Any = MPI.COMM_WORLD
    except ImportError:
        comm = None
    seconds = {}
    for named in (not given.sum, given.sum)[: 1 + given.compare]:
        lb = solve(comm, Line(), given.iterations, named=named)
        report = lb.report()
        seconds[named] = np.median(lb.metrics.time[given.iterations // 2 :])
        if lb.rank == 0:
            how = "phases" if named else "one number an object"
            print(f"{how}: {1e3 * seconds[named]:.2f} ms an iteration in the second half")
            print(report)
    if given.compare and lb.rank == 0:
        print(f"phases are {seconds[False] / seconds[True]:.2f} times as fast as their sum")


if __name__ == "__main__":
    main(sys.argv[1:])
