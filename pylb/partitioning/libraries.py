"""The table of methods, and the libraries that they need, which may be absent."""

from __future__ import annotations

import atexit
from importlib.util import find_spec
from typing import Any, NamedTuple

from pylb import _core
from pylb.model import checks
from pylb.optional import PARTS, require

NAMES = ("METIS", "Scotch", "Zoltan", "mtkahypar")


class Method(NamedTuple):
    """A method of `pylb.partition`: a row of the table `METHODS`."""

    library: str  #: One of `NAMES`, "pylb", or "" if the method uses several libraries.
    #: The argument that the method needs: "graph", "nets", "coords" or "tree"; "": none of them.
    takes: str
    options: tuple[tuple[str, str], ...] = ()  #: Zoltan's parameters.
    several: bool = False  #: Whether the method balances several weights per object.
    fixes: bool = False  #: Whether the method accepts fixed objects.
    #: The method that replaces this one on several ranks.  "": none; this one then runs on the
    #: first rank if the library is not parallel.
    over: str = ""
    repartitions: bool = True  #: Whether the approach "repartition" is possible.


def _zoltan(
    takes: str, name: str, *options: tuple[str, str], several: bool = False, fixes: bool = False
) -> Method:
    return Method("Zoltan", takes, (("LB_METHOD", name), *options), several, fixes)


METHODS = {
    "metis": Method("METIS", "graph", several=True, repartitions=False),
    "scotch": Method("Scotch", "graph", fixes=True, over="ptscotch"),
    "ptscotch": _zoltan("graph", "GRAPH", ("GRAPH_PACKAGE", "SCOTCH")),
    "parmetis": _zoltan("graph", "GRAPH", ("GRAPH_PACKAGE", "PARMETIS"), several=True),
    "graph": _zoltan("graph", "GRAPH", ("GRAPH_PACKAGE", "PHG"), fixes=True),
    "zoltan": _zoltan("nets", "HYPERGRAPH", ("HYPERGRAPH_PACKAGE", "PHG"), fixes=True),
    "mtkahypar": Method("mtkahypar", "nets", fixes=True, repartitions=False),
    "pylb": Method("pylb", "nets", fixes=True),
    "hypergraph": Method("", "nets", fixes=True, over="zoltan"),
    # Cut half-way between points: by default, Zoltan cuts at a point, which `points` may misplace.
    "rcb": _zoltan("coords", "RCB", ("AVERAGE_CUTS", "1"), several=True),
    "rib": _zoltan("coords", "RIB", ("AVERAGE_CUTS", "1")),
    "hsfc": _zoltan("coords", "HSFC"),
    "reftree": Method("pylb", "tree"),
    "keep": Method("pylb", "", several=True),
    "block": _zoltan("", "BLOCK"),
    "cyclic": _zoltan("", "CYCLIC"),
    "random": _zoltan("", "RANDOM"),
}

# Names of the rows that a method divides (starts, entries, weights), for the C core.
ROWS = {"graph": ("start", "to", "edge_weight"), "nets": ("net_start", "pin", "net_weight")}
APPROACHES = ("partition", "repartition", "refine")


def available(name: str) -> bool:
    """Say whether a library is installed, without loading it."""
    return find_spec(PARTS[name].module) is not None


def load(name: str) -> None:
    """Make a library of `NAMES` known to the C core; for Zoltan, also initialize MPI."""
    module = require(name)
    _core.install(None if name == "mtkahypar" else module.partitioner)
    if name == "Zoltan":
        started_mpi()


def started_mpi() -> Any:
    """Return the module MPI of mpi4py; initialize MPI if mpi4py was told not to do so."""
    from mpi4py import MPI

    if not MPI.Is_initialized():
        MPI.Init()
        atexit.register(lambda: None if MPI.Is_finalized() else MPI.Finalize())
    checks.mpi_runs(MPI)
    return MPI
