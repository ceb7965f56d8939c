"""PETSc's meshes (DMPlex): pylb says where cells go, and PETSc moves them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb.console import clip
from pylb.errors import DomainError
from pylb.model import checks


def distribute(dm: Any, rank: ArrayLike) -> Any:
    """Move the cells of a mesh to the given ranks, by a shell partitioner.  Collective.

    Parameters
    ----------
    dm : petsc4py.PETSc.DMPlex
        The mesh, without overlap.  It is redistributed in place.
    rank : (n,) array_like of int
        New rank of each cell of this rank, e.g. `Advice.rank`.

    Returns
    -------
    petsc4py.PETSc.SF
        For ``dm.distributeField(sf, section, values)``, which moves fields on the mesh.

    Examples
    --------
    >>> if plan := lb.advise(loads=seconds):  # doctest: +SKIP
    ...     sf = pylb.adapters.petsc.distribute(dm, plan.rank)
    """
    (first, last), size = dm.getHeightStratum(0), dm.comm.size
    ranks = checks.integers("rank", rank, np.int64)
    if len(ranks) != last - first or np.any((ranks < 0) | (ranks >= size)):
        raise DomainError(
            f"rank is {clip(repr(rank), 60)}: expected a rank, 0 ... {size - 1}, for each of "
            f"{last - first} cells"
        )
    partitioner = dm.getPartitioner()
    partitioner.setType("shell")
    order = np.argsort(ranks, kind="stable").astype(np.int32)
    counts = np.bincount(ranks, minlength=size).astype(np.int32)
    partitioner.setShellPartition(size, counts, order)
    return dm.distribute()
