"""Order the vertices of a graph such that a sparse factorisation has little fill."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core, optional
from pylb.comm.agreement import Step
from pylb.model.snapshot import I32, I64
from pylb.partition import dgraph
from pylb.partition.coloring import native


@dataclass(frozen=True, eq=False, repr=False)
class Ordering:
    """An order of a graph's vertices by nested dissection.

    Attributes
    ----------
    perm : (n,) int32
        The new position of each of this rank's vertices in the order of all vertices.
    fill : int
        Number of entries of the Cholesky factor L in the new order, including the diagonal.
    flops : float
        Operations of the factorisation: the sum of the squared column lengths of L.
    fill_before : int
        Number of entries of L in the original order.
    separators : (s,) int64
        Sizes of the separators, the top one first.
    blocks : (b + 1,) int32
        Columns ``blocks[i]`` to ``blocks[i + 1] - 1`` are a separator or a leaf.
    parent : (b,) int32
        Index of the separator above each block; -1: none.
    seconds : float
        Run time of Scotch or PT-Scotch on rank 0.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> pylb.order(line).fill_before  # 4 diagonal entries and 3 edges
    7
    """

    perm: I32
    fill: int
    flops: float
    fill_before: int
    separators: I64
    blocks: I32
    parent: I32
    seconds: float

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

    Raises
    ------
    DomainError, DuplicateKeyError, UnknownKeyError, MissingPartError
        As in `color`, on every rank.

    Examples
    --------
    >>> line = ([0, 1, 3, 5, 6], [1, 0, 2, 1, 3, 2])
    >>> found = pylb.order(line)
    >>> found.fill <= found.fill_before, sorted(found.perm.tolist())
    (True, [0, 1, 2, 3])
    """
    part = dgraph.read(graph, comm, ids, symmetrize, "order()")
    library = optional.require("PT-Scotch")  # the arguments are checked first
    transport = part.agreement.transport
    total = int(part.firsts[-1])
    start = time.perf_counter()
    perm, first, parent = np.zeros(0, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32)
    if total > 0:
        rows = part.start, part.to, part.owner
        perm, first, parent = library.order(native(part.agreement, comm), part.first, *rows, total)
    seconds = time.perf_counter() - start
    mine = [np.diff(part.start).astype(np.int32), part.to, perm]
    sends = [] if transport.rank == 0 else [(0, mine)]
    _, received = part.agreement.step(Step.OBJECTS, 0, sends=sends)
    facts = np.zeros(6)
    if transport.rank == 0:
        pieces = [mine, *(p for _, p in sorted(received, key=lambda r: r[0]))]
        degree, to, place = (
            np.concatenate([np.frombuffer(p[k], np.int32) for p in pieces]) for k in range(3)
        )
        ends = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
        column = _core.fill(ends, to, place)
        before = _core.fill(ends, to, np.arange(total, dtype=np.int32))
        facts[:] = *_split(int(column.sum())), *_split(int(before.sum())), seconds, len(parent)
        facts = np.append(facts, float((column.astype(float) ** 2).sum()))
    else:
        facts = np.zeros(7)
    transport.bcast(facts, 0)
    b = int(facts[5])
    blocks = np.zeros(b + 1, np.int32) if first is None else first.copy()
    above = np.zeros(b, np.int32) if parent is None else parent.copy()
    transport.bcast(blocks, 0)
    transport.bcast(above, 0)
    fill, fill_before = (int(facts[k]) * 2**32 + int(facts[k + 1]) for k in (0, 2))
    return Ordering(
        perm, fill, float(facts[6]), fill_before, _separators(blocks, above), blocks, above,
        float(facts[4]),
    )  # fmt: skip


def _split(n: int) -> tuple[int, int]:
    return divmod(n, 2**32)


def _separators(blocks: I32, parent: I32) -> I64:
    """Return the sizes of the blocks that have blocks below them, the last block first."""
    inner = np.unique(parent[parent >= 0])
    out: I64 = np.diff(blocks)[inner][::-1].astype(np.int64)
    return out
