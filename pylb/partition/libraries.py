"""The partitioning libraries METIS, Scotch and Zoltan, each of which may be absent."""

from __future__ import annotations

import atexit
from importlib.util import find_spec

from pylb import _core
from pylb.optional import PARTS, require

NAMES = ("METIS", "Scotch", "Zoltan")


def available(name: str) -> bool:
    """Say whether pylb was built with a library, without loading it."""
    return find_spec(PARTS[name].module) is not None


def load(name: str) -> None:
    """Make a library known to the C core.

    Parameters
    ----------
    name : {"METIS", "Scotch", "Zoltan"}
        Zoltan initializes MPI, through mpi4py, if that has not been done.

    Raises
    ------
    MissingPartError
        The library is missing; the message has the command that installs it.
    """
    _core.install(require(name).partitioner)
    if name == "Zoltan":
        _start_mpi()


def _start_mpi() -> None:
    """Initialize MPI if mpi4py was told not to."""
    from mpi4py import MPI

    if not MPI.Is_initialized():
        MPI.Init()
        atexit.register(_end_mpi)


def _end_mpi() -> None:
    from mpi4py import MPI

    if not MPI.Is_finalized():
        MPI.Finalize()
