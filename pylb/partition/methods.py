"""The table of methods: which library runs each, and with which parameters."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    library : str
        "METIS", "Scotch", "Zoltan", "pylb", or "" for the best of several.
    takes : {"graph", "nets", "coords", "tree", ""}
    options : tuple of (name, value)
        Zoltan's parameters.
    several : bool
        Whether it balances each column of a matrix of weights.
    fixes : bool
        Whether it takes fixed objects.
    over : str
        The method that replaces it over several ranks.  "": itself, on the first rank if the
        library is not parallel.
    """

    library: str
    takes: str
    options: tuple[tuple[str, str], ...] = ()
    several: bool = False
    fixes: bool = False
    over: str = ""


def _zoltan(
    takes: str, name: str, *options: tuple[str, str], several: bool = False, fixes: bool = False
) -> Method:
    return Method("Zoltan", takes, (("LB_METHOD", name), *options), several, fixes)


METHODS = {
    "metis": Method("METIS", "graph", several=True),
    "scotch": Method("Scotch", "graph", fixes=True, over="ptscotch"),
    "ptscotch": _zoltan("graph", "GRAPH", ("GRAPH_PACKAGE", "SCOTCH")),
    "parmetis": _zoltan("graph", "GRAPH", ("GRAPH_PACKAGE", "PARMETIS"), several=True),
    "graph": _zoltan("graph", "GRAPH", ("GRAPH_PACKAGE", "PHG"), fixes=True),
    "zoltan": _zoltan("nets", "HYPERGRAPH", ("HYPERGRAPH_PACKAGE", "PHG"), fixes=True),
    "pylb": Method("pylb", "nets", fixes=True),
    "hypergraph": Method("", "nets", fixes=True, over="zoltan"),
    "rcb": _zoltan("coords", "RCB", several=True),
    "rib": _zoltan("coords", "RIB"),
    "hsfc": _zoltan("coords", "HSFC"),
    "reftree": Method("pylb", "tree"),
    "keep": Method("pylb", "", several=True),
    "block": _zoltan("", "BLOCK"),
    "cyclic": _zoltan("", "CYCLIC"),
    "random": _zoltan("", "RANDOM"),
}

APPROACHES = ("partition", "repartition", "refine")
