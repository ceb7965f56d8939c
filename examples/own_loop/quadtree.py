"""Cells of a quadtree, which are refined where the edge of a disk is, and merged behind it.

    mpiexec -n 4 python examples/own_loop/quadtree.py

A new cell has the load of the cell from which it comes, so pylb balances the mesh before it was
computed.  Every cell costs the same, at any level.
"""

import numpy as np
from mpi4py import MPI

import pylb

COARSE, FINE, STEPS = 3, 5, 40  # coarsest and finest level: cells of side 2**-level
QUARTERS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])


def centres(cells):
    return (cells[:, 1:] + 0.5) / 2.0 ** cells[:, :1]


def keys_of(cells):
    """Return a number for each cell (level, column, row)."""
    return (cells * [1 << 40, 1 << 20, 1]).sum(axis=1)


def compute(cells, seconds):
    """Compute a step of some cells; return the seconds that each took."""
    out = np.zeros(len(cells))
    for k in range(len(cells)):
        began = seconds()
        for _ in range(20):
            np.sqrt(np.arange(1000.0))
        out[k] = seconds() - began
    return out


def adapt(cells, middle):
    """Refine and merge cells; return the new cells, and the pairs of parents and children."""
    distance = np.abs(np.hypot(*(centres(cells) - middle).T) - 0.2)
    level = cells[:, 0]
    refine = (distance < 0.5**level) & (level < FINE)
    leave = np.flatnonzero((distance > 4 * 0.5**level) & (level > COARSE))
    above = np.column_stack([level[leave] - 1, cells[leave, 1:] // 2])
    above, group, n = np.unique(above, axis=0, return_inverse=True, return_counts=True)
    leave = leave[n[group.ravel()] == 4]  # only four cells that are all on this rank
    above, group = np.unique(
        np.column_stack([level[leave] - 1, cells[leave, 1:] // 2]), axis=0, return_inverse=True
    )
    stay = np.setdiff1d(np.flatnonzero(~refine), leave)
    fine = np.repeat(np.flatnonzero(refine), 4)
    quarters = np.column_stack(
        [level[fine] + 1, 2 * cells[fine, 1:] + np.tile(QUARTERS, (len(fine) // 4, 1))]
    )
    parents = np.concatenate([stay, leave, fine])
    first = len(stay) + len(above)
    children = [np.arange(len(stay)), len(stay) + group.ravel(), first + np.arange(len(fine))]
    return np.concatenate([cells[stay], above, quarters]), parents, np.concatenate(children)


def main():
    comm, n = MPI.COMM_WORLD, 2**COARSE
    every = np.array([[COARSE, i, j] for i in range(n) for j in range(n)])
    cells = np.array_split(every, comm.size)[comm.rank]
    lb = pylb.Advisor(comm)
    for step in lb.iterate(STEPS):
        seconds = compute(cells, lb.seconds)
        cells, parents, children = adapt(cells, 0.2 + 0.6 * step / STEPS)
        loads = lb.inherit(seconds, parents, children, split=False)
        if plan := lb.advise(loads=loads, keys=keys_of(cells), coords=centres(cells)):
            with lb.rebalancing():
                cells = plan.migrate(cells)
    area, count = comm.allreduce((0.25 ** cells[:, 0]).sum()), comm.allreduce(len(cells))
    if comm.rank == 0:
        ratio = (lb.metrics.max / lb.metrics.mean)[-STEPS // 2 :].mean()
        steps = f"{lb.n_lb_steps} LB step{'s' * (lb.n_lb_steps != 1)}"
        print(f"{count} cells, area {area:g}: max/mean {ratio:.2f}, {steps}")


if __name__ == "__main__":
    main()
