"""The optional parts: their purpose, whether they are installed, the command that installs them.

Code that needs an optional part gets it from here, so that its absence always has the same message:

>>> h5py = optional.require("h5py")  # or MissingPartError: "h5py is missing; ...: pip install ..."
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from pylb.errors import MissingPartError

REBUILD = "pip install --force-reinstall --no-deps --no-cache-dir pylb"


@dataclass(frozen=True)
class OptionalPart:
    """An optional part.

    Attributes
    ----------
    name : str
        Name of a Python distribution or of a library.
    purpose : str
        What pylb does with it.
    command : str
        The one command that installs it.
    find : callable
        Returns the version ("present" if it has none), or raises ImportError.
    module : str
        The module that `require` imports; empty for a system library.
    """

    name: str
    purpose: str
    command: str
    find: Callable[[], str]
    module: str = ""


def _python(name: str, what: str, purpose: str, module: str = "") -> OptionalPart:
    find = functools.partial(importlib.metadata.version, name)
    return OptionalPart(name, purpose, f"pip install {what}", find, module or name)


def _partitioner(name: str, packages: str, purpose: str) -> OptionalPart:
    module = f"pylb._{name.lower()}"
    command = f"apt-get install -y {packages} && {REBUILD}"
    return OptionalPart(name, purpose, command, functools.partial(_version, module), module)


def _version(module: str) -> str:
    return str(getattr(importlib.import_module(module), "version", "present"))


def _mpi() -> str:
    return first_line(importlib.import_module("pylb._mpi").library_version())


def first_line(library: str) -> str:
    """The first line of an MPI's library string: MPICH appends its configure options."""
    return library.splitlines()[0].strip(" ,\0")


PARTS: dict[str, OptionalPart] = {
    part.name: part
    for part in (
        OptionalPart(
            "MPI",
            "balancing under mpiexec",
            f"apt-get install -y libopenmpi-dev openmpi-bin && {REBUILD}",
            _mpi,
            "pylb._mpi",
        ),
        _partitioner("Scotch", "libscotch-dev", "partitioning graphs"),
        _partitioner("METIS", "libmetis-dev", "partitioning graphs"),
        _partitioner(
            "Zoltan",
            "libopenmpi-dev libtrilinos-zoltan-dev",
            "partitioning graphs, hypergraphs and points",
        ),
        OptionalPart(
            "PT-Scotch",
            "colouring (with Zoltan) and ordering graphs",
            "apt-get install -y libopenmpi-dev libtrilinos-zoltan-dev libptscotch-dev && "
            f"{REBUILD}",
            functools.partial(_version, "pylb._dgraph"),
            "pylb._dgraph",
        ),
        _python("mpi4py", "'pylb[mpi]'", "balancing under mpiexec"),
        _python("h5py", "'pylb[io]'", "run records in HDF5"),
        _python("Brotli", "'pylb[io]'", "compressed records of vt", module="brotli"),
        _python("pandas", "pandas", "tables of a run"),
        _python("matplotlib", "'pylb[plot]'", "plots"),
        _python("otf2", "otf2", "OTF2 archives of a run"),
        _python("rich", "'pylb[cli]'", "tables and progress on a terminal"),
        _python("shtab", "'pylb[cli]'", "completing words in a shell"),
        _python("PyYAML", "'pylb[lab]'", "a lab's file", module="yaml"),
        _python("jupyterlab", "'pylb[notebook]'", "notebooks"),
        _python("ipywidgets", "'pylb[notebook]'", "the notebook's widget"),
        _python("anywidget", "'pylb[notebook]'", "the notebook's widget"),
    )
}


def missing_part(name: str, why: object = None) -> MissingPartError:
    """Make the error for a missing part, with its purpose and the command that installs it.

    Parameters
    ----------
    name : str
        A key of `PARTS`.
    why : object, optional
        What went wrong, if the part is there but does not load.
    """
    part = PARTS[name]
    reason = f" ({why})" if why is not None else ""
    return MissingPartError(
        f"{name} is missing{reason}; it is needed for {part.purpose}: {part.command}"
    )


def require(name: str) -> ModuleType:
    """Import the Python module of a part.

    Raises
    ------
    MissingPartError
        It is not installed, or does not load; the message has the command that installs it.
    """
    part = PARTS[name]
    known = sys.modules.get(part.module)
    if known is not None:
        return known
    try:
        return importlib.import_module(part.module)
    except ModuleNotFoundError as error:
        raise missing_part(name) from error
    except ImportError as error:
        raise missing_part(name, error) from error
