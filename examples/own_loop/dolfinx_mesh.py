"""A mesh of DOLFINx: pylb says when, and which cells go where; DOLFINx makes the mesh.

    mpiexec -n 4 python examples/own_loop/dolfinx_mesh.py

A disk moves through the mesh; cells in it have more to do.  Debian: ``apt-get install
python3-dolfinx``; in a virtual environment, see docs/your_code.md.
"""

import basix.ufl_wrapper
import dolfinx
import numpy as np
import ufl
from disk import compute
from mpi4py import MPI

import pylb

STEPS, SIDE = 60, 24  # steps; squares in each direction
comm = MPI.COMM_WORLD
element = basix.ufl_wrapper.create_vector_element("Lagrange", "quadrilateral", 1)


def first_mesh():
    """Return this rank's cells, as numbers of vertices, and its part of the vertices."""
    x = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, SIDE + 1)]), axis=-1).reshape(-1, 2)
    corner = (np.arange(SIDE) + (SIDE + 1) * np.arange(SIDE)[:, None]).ravel()
    cells = corner[:, None] + [0, 1, SIDE + 1, SIDE + 2]
    return np.array_split(cells, comm.size)[comm.rank], np.array_split(x, comm.size)[comm.rank]


def centres(mesh):
    """Return the centre of each cell of this rank."""
    cells = np.arange(mesh.topology.index_map(2).size_local, dtype=np.int32)
    return dolfinx.mesh.compute_midpoints(mesh, 2, cells)[:, :2]


def main():
    cells, x = first_mesh()
    domain, ratio = ufl.Mesh(element), []
    mesh, order = pylb.adapters.dolfinx.mesh_of(comm, cells, x, domain)
    lb = pylb.Advisor(comm)
    for step in lb.iterate(STEPS):
        loads = np.zeros(len(cells))
        loads[order] = compute(centres(mesh), step / STEPS)
        if plan := lb.advise(loads=loads):
            with lb.rebalancing():
                cells = plan.migrate(cells)
                mesh, order = pylb.adapters.dolfinx.mesh_of(comm, cells, x, domain)
        work = comm.allgather(loads.sum())
        ratio.append(max(work) / np.mean(work))
    assert comm.allreduce(len(order)) == SIDE * SIDE
    if comm.rank == 0:
        print(f"{comm.size} ranks: max/mean {np.mean(ratio):.3f}, {lb.n_lb_steps} LB steps")


main()
