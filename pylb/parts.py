"""The optional parts: what each is for, whether it is here, and the one command that brings it.

Whatever needs an optional part takes it from here, so that its absence always reads the same:

>>> h5py = parts.require("h5py")  # or MissingPartError: "h5py is missing; ...: pip install ..."
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.metadata
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pylb.errors import MissingPartError

REBUILD = "pip install --force-reinstall --no-deps --no-cache-dir pylb"


@dataclass(frozen=True)
class Part:
    """An optional part.

    Attributes
    ----------
    name : str
        A Python distribution, or a library as its users write it.
    purpose : str
        What pylb does with it.
    command : str
        The one command that brings it.
    find : callable
        Gives the version ("present" where it cannot be told), or raises ImportError.
    module : str
        What `require` imports; empty for a system library.
    """

    name: str
    purpose: str
    command: str
    find: Callable[[], str]
    module: str = ""


def _python(name: str, what: str, purpose: str, module: str = "") -> Part:
    def find() -> str:
        return importlib.metadata.version(name)

    return Part(name, purpose, f"pip install {what}", find, module or name)


def _library(*names: str) -> str:
    for name in names:
        found = ctypes.util.find_library(name)
        if found:
            return found
    raise ModuleNotFoundError(f"no library {names[0]}")


def _defined(header: str, *macros: str) -> str:
    """Values of the macros in a header of /usr/include, joined with dots."""
    path = Path("/usr/include", header)
    source = path.read_text(errors="replace") if path.exists() else ""
    values = [re.search(rf"^#define {m}\s+([\d.]+)", source, re.MULTILINE) for m in macros]
    return ".".join(v.group(1) for v in values if v) or "present"


def _scotch() -> str:
    library = ctypes.CDLL(_library("scotch-7.0", "scotch"))
    numbers = [ctypes.c_int() for _ in range(3)]
    library.SCOTCH_version(*map(ctypes.byref, numbers))
    return ".".join(str(n.value) for n in numbers)


def _metis() -> str:
    _library("metis")
    return _defined("metis.h", "METIS_VER_MAJOR", "METIS_VER_MINOR", "METIS_VER_SUBMINOR")


def _zoltan() -> str:
    # Zoltan_Initialize would tell its version too, but it starts MPI.
    _library("trilinos_zoltan", "zoltan")
    return _defined("trilinos/zoltan.h", "ZOLTAN_VERSION_NUMBER")


def _mpi() -> str:
    return first_line(importlib.import_module("pylb._mpi").library_version())


def first_line(library: str) -> str:
    """An MPI's library string without what some append: MPICH adds its configure options."""
    return library.splitlines()[0].strip(" ,\0")


PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part(
            "MPI",
            "balancing under mpiexec",
            f"apt-get install -y libopenmpi-dev openmpi-bin && {REBUILD}",
            _mpi,
            "pylb._mpi",
        ),
        Part("Scotch", "partitioning graphs", "apt-get install -y libscotch-dev", _scotch),
        Part("METIS", "partitioning graphs", "apt-get install -y libmetis-dev", _metis),
        Part(
            "Zoltan",
            "partitioning graphs, hypergraphs and points",
            "apt-get install -y libtrilinos-zoltan-dev",
            _zoltan,
        ),
        _python("mpi4py", "'pylb[mpi]'", "balancing under mpiexec"),
        _python("h5py", "'pylb[io]'", "run records in HDF5"),
        _python("Brotli", "'pylb[io]'", "compressed records of vt", module="brotli"),
        _python("pandas", "pandas", "tables of a run"),
        _python("matplotlib", "'pylb[plot]'", "plots"),
        _python("rich", "'pylb[cli]'", "tables on a terminal"),
        _python("jupyterlab", "'pylb[notebook]'", "notebooks"),
        _python("ipywidgets", "'pylb[notebook]'", "the notebook's widget"),
        _python("anywidget", "'pylb[notebook]'", "the notebook's widget"),
    )
}


def missing_part(name: str, why: object = None) -> MissingPartError:
    """The error that says that a part is missing, what it is for and how it comes.

    Parameters
    ----------
    name : str
        A key of `PARTS`.
    why : object, optional
        What went wrong where it is more than absence.
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
        It is not installed, or does not load; with the command that brings it.
    """
    part = PARTS[name]
    try:
        return importlib.import_module(part.module)
    except ModuleNotFoundError as error:
        raise missing_part(name) from error
    except ImportError as error:
        raise missing_part(name, error) from error
