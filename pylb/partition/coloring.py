"""Colour the vertices of a graph: vertices of one colour are not neighbours."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import optional
from pylb.comm.agreement import Agreement, Step
from pylb.comm.migration import plan_on
from pylb.errors import DomainError, PartitionerError
from pylb.model.snapshot import I32, I64
from pylb.partition import dgraph


@dataclass(frozen=True, eq=False, repr=False)
class Coloring:
    """Colours of a graph's vertices.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> pylb.color(line).counts
    array([2, 2])
    """

    color: I32  #: (n,) colours of this rank's vertices, from 0 on.
    counts: I64  #: (n_colors,) number of vertices of each colour, on all ranks together.
    distance: int  #: The argument of `color`: 1 or 2.
    #: Number of pairs of vertices within `distance` edges that have equal colours; always 0.
    conflicts: int
    seconds: float  #: Run time of Zoltan on the slowest rank.

    @property
    def n_colors(self) -> int:
        """Number of colours."""
        return len(self.counts)

    def __repr__(self) -> str:
        return (
            f"<Coloring: {self.n_colors} colours for {self.counts.sum()} vertices, distance "
            f"{self.distance}, {self.seconds * 1e3:.3g} ms>"
        )


def color(
    graph: Any,
    distance: int = 1,
    *,
    comm: Any = None,
    ids: ArrayLike | None = None,
    symmetrize: bool = False,
) -> Coloring:
    """Colour a graph: no two vertices within `distance` edges get the same colour.

    The method is Zoltan's distributed greedy colouring; all ranks check the result.  Collective.

    Parameters
    ----------
    graph : (start, to) or scipy.sparse matrix
        Vertex v of this rank has the neighbours ``to[start[v]:start[v + 1]]``, given by their
        global ids.  In a matrix, the rows are this rank's vertices, and the columns are neighbours.
        Loops and repeated edges are ignored.
    distance : {1, 2}
        1: neighbours get different colours.  2: neighbours of neighbours do, too.
    comm : mpi4py communicator, optional
        Default: this process has the whole graph.
    ids : (n,) array_like of int, optional
        Global ids of this rank's vertices.  Default: 0, 1, ... from the first rank to the last.
    symmetrize : bool
        Add the other direction of edges that are given in one direction only.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> pylb.color(line).n_colors, pylb.color(line, distance=2).n_colors
    (2, 3)
    """
    error = None
    if not isinstance(distance, int | np.integer) or distance not in (1, 2):
        error = DomainError(f"distance is {distance!r}: expected 1 or 2")
    part = dgraph.read(graph, comm, ids, symmetrize, f"color(distance={distance!r})", error)
    library = optional.require("PT-Scotch")  # the arguments are checked first
    # allocated before the call in which ranks wait for each other
    found = part.agreement.together(Step.GRAPH, lambda: np.zeros(len(part.ids), np.int32))

    def run() -> float:
        start = time.perf_counter()
        if part.firsts[-1] > 0:
            graph = part.start, part.to, part.numbers, part.owner
            library.color(native(part.agreement, comm), *graph, distance, found)
        return time.perf_counter() - start

    seconds = part.agreement.together(Step.GRAPH, run)
    bad = conflicts(part, found, distance)
    most = int(found.max()) + 1 if len(found) else 0
    gathered = part.agreement.transport.allgather(np.array([bad, most, seconds]))
    every = np.array([np.frombuffer(t, float) for t in gathered])
    if every[:, 0].sum():
        raise PartitionerError(f"Zoltan's colours have {int(every[:, 0].sum())} conflicts")
    mine = np.bincount(found, minlength=int(every[:, 1].max()))
    counts = [np.frombuffer(t, np.int64) for t in part.agreement.transport.allgather(mine)]
    return Coloring(found, np.sum(counts, axis=0), distance, 0, float(every[:, 2].max()))


def conflicts(part: dgraph.LocalGraph, colors: I32, distance: int) -> int:
    """Count the conflicts at this rank's vertices.

    A conflict is an edge with equal colours at both ends.  For distance 2, a vertex with two
    neighbours of equal colour is a conflict, too.
    """
    agreement = part.agreement
    ghosts, which = agreement.together(Step.GRAPH, lambda: np.unique(part.to, return_inverse=True))
    shades = plan_on(agreement, part.numbers, ghosts).forward(colors)

    def count() -> int:
        theirs = shades[which.reshape(-1)]
        out = int(np.count_nonzero(theirs == colors[part.rows]))
        if distance == 2:
            order = np.lexsort((theirs, part.rows))
            row, shade = part.rows[order], theirs[order]
            out += int(np.count_nonzero((row[1:] == row[:-1]) & (shade[1:] == shade[:-1])))
        return out

    return agreement.together(Step.GRAPH, count)


def native(agreement: Agreement, comm: Any) -> Any:
    """Return the communicator for the libraries: COMM_SELF for a graph on one process."""
    from mpi4py import MPI

    if comm is None:
        return MPI.COMM_SELF
    if not isinstance(comm, MPI.Intracomm):
        raise DomainError(f"comm is {comm!r}: expected an intracommunicator of mpi4py, or None")
    return agreement.transport.comm  # type: ignore[attr-defined]
