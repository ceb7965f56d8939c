"""The optional parts: their purpose, whether they are installed, the command that installs them.

Code imports an optional part by `require`, so that a missing part always has the same message:

>>> from pylb import optional
>>> h5py = optional.require("h5py")  # or MissingPartError: "h5py is missing; ...: pip install ..."
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import json
import re
import shlex
import sys
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from pylb.errors import MissingPartError

PACKAGE = __name__.partition(".")[0]


class Installed(NamedTuple):
    """How this pylb was installed."""

    name: str  # name of the distribution, for pip
    source: str  # the folder from which it was installed; empty: not from a folder
    editable: bool  # whether Python imports pylb from `source`


@functools.cache
def installed() -> Installed | None:
    """Return how this pylb was installed; None if pip has not installed it.

    Several distributions may have a package named pylb; the result is the one that defines the
    command ``pylb`` of this package.
    """
    from importlib.metadata import entry_points  # not at the top: it slows `import pylb` by 10 %

    for script in entry_points(group="console_scripts", name=PACKAGE):
        if script.value.startswith(f"{PACKAGE}.cli.") and script.dist is not None:
            origin = json.loads(script.dist.read_text("direct_url.json") or "{}")
            folder = origin.get("dir_info")
            source = unquote(urlparse(origin["url"]).path) if folder is not None else ""
            return Installed(script.dist.name, source, bool((folder or {}).get("editable")))
    return None


def rebuild() -> str:
    """Return the command that builds the C parts of this pylb again."""
    own, build = installed(), "pip install --force-reinstall --no-deps --no-cache-dir"
    if own is None:
        return f"pip install {shlex.quote(str(Path(__file__).resolve().parents[1]))}"
    if own.source:
        return f"{build} {'-e ' * own.editable}{shlex.quote(own.source)}"
    return f"{build} --no-binary {own.name} {own.name}"


# ---- one build for each MPI ---------------------------------------------------------------------

HERE = Path(__file__).parent
# A wheel has a folder for each of these ABIs, with the modules that need MPI.
ABIS = {"openmpi": (b"libmpi.so.40",), "mpich": (b"libmpi.so.12", b"libmpich.so.12")}


def mpi_abi() -> str | None:
    """Return the ABI of mpi4py's MPI, or, without mpi4py, of the MPI that the program has loaded.

    None: there is no MPI, or its ABI is not in `ABIS`.  MPI is not started: the file of mpi4py's
    module contains the name of the MPI library.
    """
    try:
        spec = importlib.util.find_spec("mpi4py.MPI")
    except (ImportError, RuntimeError, ValueError):  # RuntimeError: mpi4py finds no MPI library
        spec = None
    if spec is not None and spec.origin is not None:
        data = Path(spec.origin).read_bytes()
    else:
        data = "\n".join(_mpi_libraries()).encode()
    return next((abi for abi, names in ABIS.items() if any(name in data for name in names)), None)


def _mpi_libraries() -> list[str]:
    """Return the paths of the MPI libraries that this process has loaded; [] if not on Linux."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    return sorted({line.split()[-1] for line in lines if re.search(r"/libmpi(ch)?\.so", line)})


def loaded_mpi() -> list[str]:
    """Return the version of each MPI library that this process has loaded."""
    out = []
    for path in _mpi_libraries():
        text, n = ctypes.create_string_buffer(8192), ctypes.c_int()
        ctypes.CDLL(path).MPI_Get_library_version(text, ctypes.byref(n))
        out.append(first_line(text.value.decode()))
    return out


class VariantFinder:
    """An entry of ``sys.meta_path`` that finds compiled modules in the folder of the MPI's ABI."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Find a module such as ``pylb._mpi`` if the usual finders have not found it."""
        folders = {abi: [str(HERE / f"_{abi}")] for abi in ABIS}
        ours = name.rpartition(".")[0] == PACKAGE
        if not (ours and any(PathFinder.find_spec(name, one) for one in folders.values())):
            return None
        abi = mpi_abi()
        return PathFinder.find_spec(name, folders[abi]) if abi else None


if any((HERE / f"_{abi}").is_dir() for abi in ABIS):
    sys.meta_path.append(VariantFinder)


@dataclass(frozen=True)
class OptionalPart:
    """An optional part."""

    name: str  #: Name of a Python distribution or of a library.
    purpose: str  #: What pylb uses it for.
    imported: str = ""  #: Its module, if this is not `name`.
    extra: str = ""  #: The extra of pylb that installs it; empty if none does.
    #: The Debian packages for a part that is built with pylb; empty for a Python package.
    debian: str = ""

    @property
    def module(self) -> str:
        """The module that `require` imports."""
        return self.imported or self.name

    def find(self) -> str:
        """Return the version ("present" if it has none); raise ImportError if it is absent."""
        if not self.debian:
            from importlib.metadata import version

            return version(self.name)
        module = importlib.import_module(self.module)
        if self.name == "MPI":
            return first_line(module.library_version())
        return str(getattr(module, "version", "present"))

    @property
    def command(self) -> str:
        """The one command that installs the part."""
        if self.debian:
            return f"apt-get install -y {self.debian} && {rebuild()}"
        own = installed()
        if own is None or not self.extra:
            return f"pip install {self.name}"
        if own.editable:
            return f"pip install -e {shlex.quote(f'{own.source}[{self.extra}]')}"
        return f"pip install '{own.name}[{self.extra}]'"


def first_line(library: str) -> str:
    """Return the first line of an MPI's library string; MPICH appends its configure options."""
    return " ".join(library.splitlines()[0].strip(" ,\0").split())


MPIEXEC, COLOURING = "balancing under mpiexec", "colouring (with Zoltan) and ordering graphs"
GRAPHS, ZOLTAN = "partitioning graphs", "libopenmpi-dev libtrilinos-zoltan-dev"
PARTS: dict[str, OptionalPart] = {
    part.name: part
    for part in (
        OptionalPart("MPI", MPIEXEC, "pylb._mpi", debian="libopenmpi-dev openmpi-bin"),
        OptionalPart("Scotch", GRAPHS, "pylb._scotch", debian="libscotch-dev"),
        OptionalPart("METIS", GRAPHS, "pylb._metis", debian="libmetis-dev"),
        OptionalPart("Zoltan", f"{GRAPHS}, hypergraphs and points", "pylb._zoltan", debian=ZOLTAN),
        OptionalPart("PT-Scotch", COLOURING, "pylb._dgraph", debian=f"{ZOLTAN} libptscotch-dev"),
        OptionalPart("mtkahypar", "partitioning hypergraphs", extra="partition"),
        OptionalPart("mpi4py", MPIEXEC, extra="mpi"),
        OptionalPart("h5py", "run records in HDF5", extra="io"),
        OptionalPart("msgspec", "records of vt", extra="io"),
        OptionalPart("Brotli", "compressed records of vt", "brotli", extra="io"),
        OptionalPart("pandas", "tables of a run"),
        OptionalPart("matplotlib", "plots", extra="plot"),
        OptionalPart("rich", "progress on a terminal, and pylb watch", extra="cli"),
        OptionalPart("shtab", "completing words in a shell", extra="cli"),
        OptionalPart("PyYAML", "the files of pylb lab and pylb steer", "yaml", extra="lab"),
        OptionalPart("jupyterlab", "notebooks", extra="notebook"),
        OptionalPart("ipywidgets", "the notebook's widget", extra="notebook"),
        OptionalPart("anywidget", "the notebook's widget", extra="notebook"),
        OptionalPart("ipyparallel", "MPI ranks for a notebook", extra="notebook"),
        OptionalPart("cloudpickle", "MPI ranks for a notebook", extra="notebook"),
    )
}


def missing_part(name: str, why: object = None) -> MissingPartError:
    """Make the error for a missing part; `why`: the error if the part cannot be loaded."""
    part, reason = PARTS[name], f" ({why})" if why is not None else ""
    said = f"{name} is missing{reason}; it is needed for {part.purpose}"
    return MissingPartError(f"{said}: {needed_first(part, why).command}")


def needed_first(part: OptionalPart, why: object) -> OptionalPart:
    """Return the part to install: the one whose absence caused the error `why`, else `part`.

    A library that was built with MPI cannot be loaded without mpi4py.
    """
    absent = why.name if isinstance(why, ModuleNotFoundError) else None
    return PARTS.get(absent or "", part)


def require(name: str) -> ModuleType:
    """Import the Python module of a part; MissingPartError if it is absent or cannot be loaded."""
    part = PARTS[name]
    try:
        return importlib.import_module(part.module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and needed_first(part, error) is part
        raise missing_part(name, None if absent else error) from error
