"""A mesh of PETSc: pylb says when, and which cells go where; PETSc moves them.

    mpiexec -n 4 python examples/own_loop/petsc_mesh.py

A disk moves through the mesh; cells in it have more to do.  Debian: ``apt-get install
python3-petsc4py``; in a virtual environment, see docs/your_code.md.
"""

import numpy as np
from disk import compute
from mpi4py import MPI
from petsc4py import PETSc

import pylb

STEPS, SIDE = 60, 24  # steps; cells in each direction
comm = MPI.COMM_WORLD


def centres(dm):
    """Return the centre of each cell of this rank."""
    cells = range(*dm.getHeightStratum(0))
    return np.array([dm.computeCellGeometryFVM(cell)[1] for cell in cells]).reshape(-1, 2)


def main():
    dm = PETSc.DMPlex().createBoxMesh([SIDE, SIDE], simplex=False, comm=comm)
    dm.distribute()
    place, ratio = centres(dm), []
    lb = pylb.Advisor(comm)
    for step in lb.iterate(STEPS):
        seconds = compute(place, step / STEPS)
        if plan := lb.advise(loads=seconds):
            with lb.rebalancing():
                pylb.adapters.petsc.distribute(dm, plan.rank)
                place = centres(dm)
        work = comm.allgather(seconds.sum())
        ratio.append(max(work) / np.mean(work))
    assert comm.allreduce(len(place)) == SIDE * SIDE
    if comm.rank == 0:
        print(f"{comm.size} ranks: max/mean {np.mean(ratio):.3f}, {lb.n_lb_steps} LB steps")


main()
