"""Graphs whose vertices are distributed over ranks, for colouring and ordering."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.arguments import integers
from pylb.comm.connect import agreement_of
from pylb.comm.directory import Directory
from pylb.comm.plan import Plan
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import I32, I64
from pylb.partition.ranks import owners

MOST = 2**31 - 1  # largest number of vertices or edges of all ranks: libraries count in 32 bits


class LocalGraph(NamedTuple):
    """The vertices of one rank, and their edges.  Vertices are numbered rank after rank."""

    agreement: Agreement
    ids: I64  #: (n,) the user's ids of this rank's vertices.
    numbers: I32  #: (n,)
    #: (p + 1,) number of the first vertex of each rank; the last entry counts the vertices of all
    #: ranks.
    firsts: I64
    start: I32  #: (n + 1,)
    #: (m,) number and rank of each neighbour: vertex v has ``to[start[v]:start[v + 1]]``,
    #: ascending, without loops and repeated edges.
    to: I32
    owner: I32

    @property
    def first(self) -> int:
        """The number of this rank's first vertex."""
        return int(self.firsts[self.agreement.transport.rank])

    @property
    def rows(self) -> I64:
        """The vertex of each edge, counted from this rank's first vertex."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.start))


def read(
    graph: Any,
    comm: Any,
    ids: ArrayLike | None,
    symmetrize: bool,
    call: str,
    error: Exception | None = None,
) -> LocalGraph:
    """Make the graph of this rank from the user's arguments.  Collective.

    call: the call in words, the same on all ranks; error: an error that the caller has found in
    another argument.  All ranks raise every error.
    """
    agreement = agreement_of(comm, hold=False)
    start, names, own = np.zeros(1, np.int64), np.zeros(0, np.int64), None
    try:
        symmetrize = checks.flag("symmetrize", symmetrize)
        start, names = _arrays(graph)
        own = None if ids is None else integers("ids", ids, np.int64)
        if own is not None and len(own) != len(start) - 1:
            raise DomainError(f"ids has {len(own)} entries: expected {len(start) - 1}")
    except Exception as why:
        error = error or why
    given = "given" if own is not None else "0, 1, ..."
    agreement.agree(Step.GRAPH, f"{call}, ids {given}, symmetrize={symmetrize!r}", error)
    gathered = agreement.transport.allgather(np.array([len(start) - 1, len(names)]))
    counts = np.array([np.frombuffer(t, np.int64) for t in gathered])
    firsts = np.concatenate([[0], np.cumsum(counts[:, 0])])
    n, m = counts.sum(axis=0)
    if max(n, m) > MOST:
        raise DomainError(f"graph: {n} vertices and {m} edges: expected less than 2^31 of each")
    me, key, other = agreement.transport.rank, names[:0], False
    with Attempt() as tried:
        key = own if own is not None else np.arange(firsts[me], firsts[me + 1])
        other = own is not None or bool(((names < 0) | (names >= n)).any())
    stats, _ = agreement.step(Step.GRAPH, 0, error=tried.error, n_changed=int(other))
    if stats.n_changed:
        names = _numbers(agreement, firsts, key, names)
    edges = _symmetric(agreement, firsts, key, start, names, symmetrize)

    def finished() -> LocalGraph:
        row, number = np.divmod(edges, max(int(firsts[-1]), 1))
        counted = np.bincount(row - firsts[me], minlength=len(start) - 1)
        ends = np.concatenate([[0], np.cumsum(counted)]).astype(np.int32)
        owner = owners(firsts, number).astype(np.int32)
        numbers = np.arange(firsts[me], firsts[me + 1], dtype=np.int32)
        return LocalGraph(agreement, key, numbers, firsts, ends, number.astype(np.int32), owner)

    return agreement.together(Step.GRAPH, finished)


def _numbers(agreement: Agreement, firsts: I64, key: I64, names: I64) -> I64:
    """Look up the numbers of the vertices with the ids `names`.  Collective."""
    where = Directory.on(agreement)
    where.update(key)
    unique, which = agreement.together(Step.GRAPH, lambda: np.unique(names, return_inverse=True))
    found = where.find(unique)
    return agreement.together(
        Step.GRAPH, lambda: (firsts[found.owner] + found.local)[which.reshape(-1)]
    )


def _arrays(graph: Any) -> tuple[I64, I64]:
    """Convert a graph to two arrays: starts of rows, and ids of neighbours."""
    if hasattr(graph, "tocsr"):
        matrix = graph.tocsr()
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    try:
        first, second = graph
    except (TypeError, ValueError):
        raise DomainError(
            f"graph is a {type(graph).__name__}: expected (start, to) or a matrix of scipy.sparse"
        ) from None
    start, to = integers("start", first, np.int64), integers("to", second, np.int64)
    if len(start) < 1 or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] != len(to):
        raise DomainError(
            "start: expected 0 first, then no decrease, and the length of `to` at the end"
        )
    return start, to


def _symmetric(
    agreement: Agreement, firsts: I64, key: I64, start: I64, number: I64, symmetrize: bool
) -> I64:
    """Return the edges, each as ``row * n + number`` with n vertices in all, ascending.

    Loops and repeated edges are removed; missing directions are added, or raise an error.
    """
    total = max(int(firsts[-1]), 1)

    def sorted_edges() -> tuple[I64, I64, I64]:
        row = np.repeat(np.arange(len(start) - 1), np.diff(start))
        row += firsts[agreement.transport.rank]
        mine = np.sort((row * total + number)[row != number])
        mine = mine[np.diff(mine, prepend=-1) != 0]  # np.unique is 20 times slower (NumPy 2.3)
        begin, end = np.divmod(mine, total)
        return mine, end * total + begin, owners(firsts, end)

    mine, reverse, owner = agreement.together(Step.GRAPH, sorted_edges)
    come = Plan.on(agreement, lambda: owner).forward(reverse)
    missing = come[:0]
    with Attempt() as tried:
        come.sort()
        if not np.array_equal(come, mine):  # the graph is not symmetric
            missing = np.setdiff1d(come, mine, assume_unique=True)
    refused = len(missing) > 0 and not symmetrize
    stats, _ = agreement.step(Step.GRAPH, 0, error=tried.error, n_changed=int(refused))
    if stats.n_changed:
        raise _asymmetric(agreement, firsts, key, missing)
    return agreement.together(Step.GRAPH, lambda: np.sort(np.concatenate([mine, missing])))


def _asymmetric(agreement: Agreement, firsts: I64, key: I64, missing: I64) -> DomainError:
    """Return an error that names the first missing direction of all ranks.  Collective."""
    transport = agreement.transport
    mine = np.array([len(missing), missing[0] if len(missing) else -1])
    counts = np.array([np.frombuffer(t, np.int64) for t in transport.allgather(mine)])
    ends = np.array(divmod(counts[counts[:, 0] > 0, 1].min(), firsts[-1]))  # the edge b, a
    here = ends - firsts[transport.rank]
    known = (here >= 0) & (here < len(key))
    ids = np.zeros(2, np.int64)
    ids[known] = key[here[known]]
    b, a = np.sum([np.frombuffer(t, np.int64) for t in transport.allgather(ids)], axis=0)
    return DomainError(
        f"the graph is not symmetric: vertex {a} has an edge to {b}, but {b} has none to {a}; "
        f"{counts[:, 0].sum() - 1} more such edges (symmetrize=True adds what is missing)"
    )
