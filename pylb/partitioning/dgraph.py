"""Colour and order graphs whose vertices are distributed over ranks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core, optional
from pylb.comm.agreement import Agreement, Step
from pylb.comm.directory import plan_between
from pylb.comm.parcel import exchange_objects
from pylb.errors import DomainError, PartitionerError
from pylb.model import checks
from pylb.model.snapshot import I32, I64
from pylb.partitioning import arrays
from pylb.partitioning.libraries import started_mpi
from pylb.partitioning.problem import Problem, complete
from pylb.partitioning.ranks import Ranks, owners


class LocalGraph(NamedTuple):
    """The vertices of one rank, and their edges.  Global indices ascend from rank to rank."""

    agreement: Agreement
    ids: I64  #: (n,) the user's ids of this rank's vertices.
    numbers: I32  #: (n,) global indices of this rank's vertices.
    #: (p + 1,) global index of the first vertex of each rank; the last entry is the number of all
    #: vertices.
    firsts: I64
    start: I32  #: (n + 1,)
    #: (m,) global index and rank of each neighbour: vertex v has ``to[start[v]:start[v + 1]]``,
    #: ascending, without loops and repeated edges.
    to: I32
    owner: I32

    @property
    def rows(self) -> I64:
        """(m,) the vertex at which each edge begins, counted from this rank's first vertex."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.start))

    @property
    def comm(self) -> Any:
        """The communicator for the libraries."""
        t: Any = self.agreement.transport
        return started_mpi().COMM_SELF if t.size == 1 else t.comm


def read(
    graph: Any, comm: Any, ids: ArrayLike | None, symmetrize: bool, distance: Any = 1
) -> LocalGraph:
    """Make the graph of this rank from the user's arguments, and check `distance`.  Collective."""
    ranks = Ranks(comm)

    def mine() -> tuple[Problem, bool]:
        if not (type(distance) is int and distance in (1, 2)):
            raise DomainError(f"distance is {distance!r}: expected 1 or 2")
        given = arrays.rows("graph", graph, per_entry=True)
        start = given.start
        if start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != len(given.to):
            raise DomainError(
                "graph.start: expected values from 0 to the number of edges, in order"
            )
        given = arrays.in_order(len(given), given.row(), given.to.astype(np.int64))
        out = Problem(ranks, 1, len(given), graph=given)
        out.ids = None if ids is None else arrays.whole("ids", ids, out.n).astype(np.int64)
        return out, checks.flag("symmetrize", symmetrize)

    def whole() -> LocalGraph:
        problem, add = ranks.together(
            mine, lambda found: found[0].facts(distance=distance, symmetrize=found[1])
        )
        complete(problem, add)
        assert problem.graph is not None
        if (m := ranks.sum(np.array([len(problem.graph.to)]))[0]) > arrays.MOST:
            raise DomainError(f"graph: {m} edges: expected less than 2^31")
        graph = arrays.in_order(problem.n, problem.graph.row(), problem.graph.to)
        numbers = np.arange(problem.first, problem.first + problem.n, dtype=np.int32)
        own = numbers.astype(np.int64) if problem.ids is None else problem.ids
        of = owners(problem.dist, graph.to).astype(np.int32)
        rows = (graph.start.astype(np.int32), graph.to.astype(np.int32))
        return LocalGraph(ranks.agreement, own, numbers, problem.dist, *rows, of)

    return ranks.whole(whole)


@dataclass(frozen=True, eq=False, repr=False)
class Coloring:
    """Colours of a graph's vertices.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> pylb.partitioning.color(line).counts
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
    >>> pylb.partitioning.color(line).n_colors, pylb.partitioning.color(line, distance=2).n_colors
    (2, 3)
    """
    if isinstance(distance, np.integer):
        distance = int(distance)
    part = read(graph, comm, ids, symmetrize, distance)
    library = optional.require("PT-Scotch")  # the arguments are checked first
    # allocated before the call in which ranks wait for each other
    found = part.agreement.together(Step.GRAPH, lambda: np.zeros(len(part.ids), np.int32))

    def run() -> float:
        start = time.perf_counter()
        if part.firsts[-1] > 0:
            graph = part.start, part.to, part.numbers, part.owner
            library.color(part.comm, *graph, distance, found)
        return time.perf_counter() - start

    seconds = part.agreement.together(Step.GRAPH, run)
    bad, most = conflicts(part, found, distance), float(found.max(initial=-1) + 1)
    figures = {"bad": ("sum", bad), "most": ("max", most), "seconds": ("max", seconds)}
    seen = part.agreement.reduce(Step.GRAPH, 0, figures)
    if seen["bad"]:
        raise PartitionerError(f"Zoltan's colours have {seen['bad']} conflicts")
    n = int(seen["most"])
    mine = part.agreement.together(Step.GRAPH, lambda: np.bincount(found, minlength=n))
    counts = [np.frombuffer(t, np.int64) for t in part.agreement.transport.allgather(mine)]
    return Coloring(found, np.sum(counts, axis=0), distance, 0, seen["seconds"])


def conflicts(part: LocalGraph, colors: I32, distance: int) -> int:
    """Count the edges of this rank with equal colours at both ends.

    For distance 2, also count the vertices with two neighbours of equal colour.
    """
    agreement = part.agreement
    ghosts, which = agreement.together(Step.GRAPH, lambda: np.unique(part.to, return_inverse=True))
    shades = plan_between(agreement, part.numbers, ghosts).forward(colors)

    def count() -> int:
        theirs = shades[which.reshape(-1)]
        out = int(np.count_nonzero(theirs == colors[part.rows]))
        if distance == 2:
            order = np.lexsort((theirs, part.rows))
            row, shade = part.rows[order], theirs[order]
            out += int(np.count_nonzero((row[1:] == row[:-1]) & (shade[1:] == shade[:-1])))
        return out

    return agreement.together(Step.GRAPH, count)


@dataclass(frozen=True, eq=False, repr=False)
class Ordering:
    """An order of a graph's vertices by nested dissection.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> pylb.partitioning.order(line).fill_before  # 4 diagonal entries and 3 edges
    7
    """

    #: (n,) the new position of each of this rank's vertices in the order of all vertices.
    perm: I32
    #: Number of entries of the Cholesky factor L in the new order, including the diagonal.
    fill: int
    flops: float  #: Operations of the factorisation: the sum of the squared column lengths of L.
    fill_before: int  #: Number of entries of L in the original order.
    separators: I64  #: (s,) sizes of the separators, the top one first.
    #: (b + 1,) columns ``blocks[i]`` to ``blocks[i + 1] - 1`` are a separator or a leaf.
    blocks: I32
    parent: I32  #: (b,) index of the separator above each block; -1 if none.
    seconds: float  #: Run time of Scotch or PT-Scotch on rank 0.

    def __repr__(self) -> str:
        top = f", top separator {self.separators[0]}" if len(self.separators) else ""
        return (
            f"<Ordering: {self.blocks[-1]} vertices, fill {self.fill} of {self.fill_before}{top}, "
            f"{self.seconds * 1e3:.3g} ms>"
        )


def order(
    graph: Any, *, comm: Any = None, ids: ArrayLike | None = None, symmetrize: bool = False
) -> Ordering:
    """Order a graph by nested dissection: Scotch on one process, PT-Scotch on several.

    The fill is counted on rank 0, which gathers the graph for this count.  Collective.

    Parameters
    ----------
    graph, comm, ids, symmetrize
        As in `color`.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> sorted(pylb.partitioning.order(line).perm.tolist())
    [0, 1, 2, 3]
    """
    part = read(graph, comm, ids, symmetrize)
    library = optional.require("PT-Scotch")  # the arguments are checked first
    agreement, total = part.agreement, int(part.firsts[-1])
    # allocated before the call in which ranks wait for each other
    n = total + 1 if agreement.transport.rank == 0 else 0
    perm, blocks, above = agreement.together(
        Step.GRAPH, lambda: [np.zeros(k, np.int32) for k in (len(part.ids), n, n)]
    )

    def mine() -> dict[int, Any]:
        start, n_blocks = time.perf_counter(), 0
        if total > 0:
            given, found = (part.start, part.to), (perm, len(blocks), blocks, above)
            n_blocks = library.order(part.comm, *given, *found)
        seconds = time.perf_counter() - start
        return {0: (np.diff(part.start), part.to, perm, n_blocks, seconds)}

    came = exchange_objects(agreement, Step.GRAPH, 0, mine)

    def answers() -> dict[int, Any]:
        if not came:
            return {}
        columns = [np.concatenate([came[r][k] for r in sorted(came)]) for k in range(3)]
        n_blocks, seconds = came[0][3:]
        ends, parent = blocks[: n_blocks + 1].copy(), above[:n_blocks].copy()
        separators: I64 = np.diff(ends)[np.unique(parent[parent >= 0])][::-1].astype(np.int64)
        answer = (*_fill(*columns), separators, ends, parent, seconds)
        return dict.fromkeys(range(agreement.transport.size), answer)

    return Ordering(perm, *exchange_objects(agreement, Step.GRAPH, 0, answers)[0])


def _fill(degree: I32, to: I32, place: I32) -> tuple[int, float, int]:
    """Return the fill, the operations and the fill of the original order of the whole graph."""
    ends = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    column = _core.fill(ends, to, place)
    before = _core.fill(ends, to, np.arange(len(place), dtype=np.int32))
    return int(column.sum()), float((column.astype(float) ** 2).sum()), int(before.sum())
