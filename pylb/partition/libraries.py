"""The partitioning libraries METIS, Scotch and Zoltan: each may be missing."""

from __future__ import annotations

import atexit
from importlib.util import find_spec

from pylb import _core
from pylb.optional import PARTS, require

NAMES = ("METIS", "Scotch", "Zoltan")


def available(name: str) -> bool:
    """Whether pylb was built with a library; loads nothing."""
    return find_spec(PARTS[name].module) is not None


def load(name: str) -> None:
    """Make a library known to the C core.

    Parameters
    ----------
    name : {"METIS", "Scotch", "Zoltan"}
        Zoltan starts MPI, through mpi4py, where it has not been started.

    Raises
    ------
    MissingPartError
        It is not installed; with the command that installs it.
    """
    _core.install(require(name).partitioner)
    if name == "Zoltan":
        _start_mpi()


def _start_mpi() -> None:
    """Start MPI, if mpi4py was configured not to."""
    from mpi4py import MPI

    if not MPI.Is_initialized():
        MPI.Init()
        atexit.register(_end_mpi)


def _end_mpi() -> None:
    from mpi4py import MPI

    if not MPI.Is_finalized():
        MPI.Finalize()
