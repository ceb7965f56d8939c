"""Order the vertices of a graph such that a sparse factorisation has little fill."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core, optional
from pylb.comm.agreement import Attempt, Step
from pylb.model.snapshot import F64, I32, I64
from pylb.partition import dgraph
from pylb.partition.coloring import native


@dataclass(frozen=True, eq=False, repr=False)
class Ordering:
    """An order of a graph's vertices by nested dissection.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> pylb.order(line).fill_before  # 4 diagonal entries and 3 edges
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
    parent: I32  #: (b,) index of the separator above each block; -1: none.
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
    >>> found = pylb.order(line)
    >>> found.fill <= found.fill_before, sorted(found.perm.tolist())
    (True, [0, 1, 2, 3])
    """
    part = dgraph.read(graph, comm, ids, symmetrize, "order()")
    library = optional.require("PT-Scotch")  # the arguments are checked first
    agreement, total = part.agreement, int(part.firsts[-1])
    # allocated before the call in which ranks wait for each other
    perm, blocks, above = agreement.together(Step.GRAPH, lambda: _room(part, total))
    n_blocks, seconds, mine = 0, 0.0, list[I32]()
    with Attempt() as tried:
        start = time.perf_counter()
        if total > 0:
            given, found = (part.start, part.to), (perm, len(blocks), blocks, above)
            n_blocks = library.order(native(agreement, comm), *given, *found)
        seconds = time.perf_counter() - start
        mine = [np.diff(part.start).astype(np.int32), part.to, perm]
    root = agreement.transport.rank == 0
    _, received = agreement.step(
        Step.GRAPH, 0, error=tried.error, sends=[] if root else [(0, mine)]
    )
    answer = list[Any]()
    with Attempt() as tried:
        if root:
            pieces = [mine, *(p for _, p in sorted(received, key=lambda r: r[0]))]
            answer = [*_counted(pieces, seconds), blocks[: n_blocks + 1], above[:n_blocks]]
    sends = [(rank, answer) for rank in range(1, agreement.transport.size) if root]
    _, received = agreement.step(Step.GRAPH, 0, error=tried.error, sends=sends)
    return _ordering(perm, answer if root else received[0][1])


def _room(part: dgraph.LocalGraph, total: int) -> tuple[I32, I32, I32]:
    """Return memory for the order of this rank's vertices and, on rank 0, for the blocks."""
    n = total + 1 if part.agreement.transport.rank == 0 else 0
    return np.zeros(len(part.ids), np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32)


def _counted(pieces: list[Any], seconds: float) -> tuple[I64, F64]:
    """Count the fill; pieces: degrees, neighbours and new positions of each rank's vertices."""
    degree, to, place = (
        np.concatenate([np.frombuffer(p[k], np.int32) for p in pieces]) for k in range(3)
    )
    ends = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    column = _core.fill(ends, to, place)
    before = _core.fill(ends, to, np.arange(len(place), dtype=np.int32))
    flops = float((column.astype(float) ** 2).sum())
    return np.array([column.sum(), before.sum()], np.int64), np.array([flops, seconds])


def _ordering(perm: I32, answer: list[Any]) -> Ordering:
    """Make the result from what rank 0 has counted, and the blocks."""
    kinds = np.int64, np.float64, np.int32, np.int32
    counts, figures, blocks, parent = (
        np.frombuffer(data, kind).copy() for data, kind in zip(answer, kinds, strict=True)
    )
    fill, before = counts.tolist()
    flops, seconds = figures.tolist()
    separators = _separators(blocks, parent)
    return Ordering(perm, fill, flops, before, separators, blocks, parent, seconds)


def _separators(blocks: I32, parent: I32) -> I64:
    """Return the sizes of the blocks that have blocks below them, the last block first."""
    inner = np.unique(parent[parent >= 0])
    out: I64 = np.diff(blocks)[inner][::-1].astype(np.int64)
    return out
