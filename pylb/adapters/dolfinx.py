"""DOLFINx: pylb says where cells go, and DOLFINx makes the mesh of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb.model.snapshot import I64


def mesh_of(comm: Any, cells: ArrayLike, x: ArrayLike, domain: Any) -> tuple[Any, I64]:
    """Make a mesh in which each rank owns the cells that it gives.  Collective.

    It replaces ``dolfinx.mesh.create_mesh``, which lets a graph partitioner place cells.  There are
    no ghost cells.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
    cells : (n, k) array_like of int
        Vertices of this rank's cells; after an LB step, the result of ``plan.migrate(cells)``.
    x, domain
        As for ``create_mesh``: coordinates of this rank's part of the vertices, and the element.

    Returns
    -------
    mesh : dolfinx.mesh.Mesh
    order : (n,) array of int64
        Index in `cells` of each cell of the mesh, because DOLFINx reorders cells: with
        ``loads[order] = seconds`` their times are in the order of `cells`.

    Examples
    --------
    >>> mesh, order = pylb.adapters.dolfinx.mesh_of(comm, cells, x, domain)  # doctest: +SKIP
    """
    import dolfinx  # type: ignore[import-not-found]

    def stay(*graph: Any) -> Any:
        own = np.full(len(here), comm.rank, np.int32)
        return dolfinx.cpp.graph.AdjacencyList_int32(own, np.arange(len(own) + 1, dtype=np.int32))

    here = np.ascontiguousarray(cells, dtype=np.int64)
    made = dolfinx.mesh.create_mesh(comm, here, x, domain, partitioner=stay)
    before = sum(comm.allgather(len(here))[: comm.rank])
    return made, np.asarray(made.topology.original_cell_index, np.int64) - before
