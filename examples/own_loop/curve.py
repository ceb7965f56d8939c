"""Cells along a space-filling curve, which is cut into parts of equal weight, as p4est does.

    mpiexec -n 4 python examples/own_loop/curve.py

The curve goes through the cells of a square in Morton order; each rank has a range of the curve.
The curve is cut into parts of equal weight (p4est: `p4est_partition` with a weight function), and
the values move with their cells.
A disk moves over the square; cells near it have more points, and take longer.  The program knows
where its cells go; pylb says when.  The lines that pylb needs end with "# pylb".
"""

import time

import numpy as np
from table import compare

import pylb  # pylb

LEVEL, STEPS = 4, 150  # 4**LEVEL cells
CELLS = 4**LEVEL
POINTS = 16  # points of a cell in each direction; twice as many where it is refined


def morton(n=CELLS):
    """Return the centre (column, row) of each cell along the curve, in sides of the square."""
    index = np.arange(n)
    place = np.zeros((n, 2))
    for bit in range(LEVEL):
        place += np.column_stack([index >> 2 * bit & 1, index >> 2 * bit + 1 & 1]) << bit
    return (place + 0.5) / 2**LEVEL


class Curve:
    """This rank's range of cells on the curve, and the value at each of their points."""

    def __init__(self, comm):
        self.comm = comm
        self.place = morton()
        # The first cell of each rank, then CELLS.
        self.first = np.arange(comm.size + 1) * CELLS // comm.size
        self.values = np.zeros((len(self.mine), POINTS))

    @property
    def mine(self):
        return np.arange(*self.first[self.comm.rank : self.comm.rank + 2])

    def refined(self, step):
        """Return which cells of this rank are refined: those near the disk."""
        centre = 0.2 + 0.6 * step / STEPS  # along the diagonal
        return ((self.place[self.mine] - centre) ** 2).sum(axis=1) < 0.2**2

    def compute(self, step):
        """Compute a step of all cells; return the seconds that each took."""
        seconds = np.zeros(len(self.mine))
        for k, fine in enumerate(self.refined(step)):
            began = time.thread_time()
            x = np.linspace(0.0, 1.0, POINTS * (2 if fine else 1))
            for _ in range(20 if fine else 1):  # fine cells also have shorter time steps
                field = np.exp(-(np.subtract.outer(x, x) ** 2))
                field = 0.25 * (field[1:-1, 1:-1] + field[2:, 1:-1] + field[:-2, 1:-1])
            self.values[k] += field.sum()
            seconds[k] = time.thread_time() - began
        return seconds

    def shift(self, weight):
        """Cut the curve so that every rank has about the same weight, and send the cells' values.

        `weight` has the weights of this rank's cells.
        """
        weights = np.concatenate(self.comm.allgather(weight))
        middle = np.cumsum(weights) - 0.5 * weights
        cuts = np.sum(weights) * np.arange(1, self.comm.size) / self.comm.size
        new = np.concatenate([[0], np.searchsorted(middle, cuts), [CELLS]])
        to = np.searchsorted(new, self.mine, side="right") - 1
        out = [self.values[to == rank] for rank in range(self.comm.size)]
        self.values = np.concatenate(self.comm.alltoall(out))
        self.first = new


def run(comm, mode):
    """Run the program once; return this rank's seconds per step, its sum of values, the advisor."""
    curve, work = Curve(comm), []
    lb = pylb.Advisor(comm, mode=mode)  # pylb
    for step in lb.iterate(STEPS):  # pylb
        seconds = curve.compute(step)
        work.append(seconds.sum())
        if lb.advise(seconds=work[-1]):  # pylb
            with lb.rebalancing():  # pylb
                curve.shift(seconds)
    return work, curve.values.sum(), lb


if __name__ == "__main__":
    compare(run, "sum")
