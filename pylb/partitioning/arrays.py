"""Check the arrays that callers pass, and convert them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.comm.directory import Directory
from pylb.comm.plan import Plan
from pylb.errors import DomainError, UnknownKeyError
from pylb.model import checks
from pylb.model.snapshot import F64, I32, _array
from pylb.partitioning.ranks import Ranks, owners

MOST = 2**31 - 1
MOST_PARTS = 2**24


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a graph, or the nets of a hypergraph.

    Row i has the objects ``to[start[i]:start[i + 1]]``; both arrays have 32-bit or 64-bit integers.
    A graph has a weight for each entry of `to`, a hypergraph one for each net; None: all are 1.
    """

    start: NDArray[Any]
    to: NDArray[Any]
    weight: F64 | None = None

    def __len__(self) -> int:
        return len(self.start) - 1

    def row(self) -> NDArray[np.int64]:
        """Return the row of each entry of `to`."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))


def whole(name: str, value: Any, n: int | None = None) -> NDArray[Any]:
    """Check that the value is a vector of integers, (n,); return int32 as is, others as int64."""
    given = checks.array(name, value)
    out = checks.integers(name, given, np.int32 if given.dtype == np.int32 else np.int64)
    if n not in (None, len(out)):
        raise DomainError(f"{name} has shape {out.shape}: expected ({n},)")
    return out


def places(name: str, value: Any, n: int, parts: int) -> I32:
    """Check that the value has the index of a part, or -1, for each object."""
    given = whole(name, value, n)
    for i in np.flatnonzero((given < -1) | (given >= parts))[:1]:
        raise DomainError(f"{name}[{i}] is {given[i]}: expected a part 0 ... {parts - 1}, or -1")
    return given.astype(np.int32, copy=False)


def vector(name: str, value: Any, n: int, several: bool = False) -> F64:
    """Check that the value has finite numbers, 0 or more, (n,) or, if `several`, (n, d)."""
    out: F64 = _array(name, value, np.float64)
    if out.shape != (n,) and not (several and out.ndim == 2 and len(out) == n and out.shape[1]):
        also = f" or ({n}, d)" if several else ""
        raise DomainError(f"{name} has shape {out.shape}: expected ({n},){also}")
    if not (out >= 0).all() or not np.isfinite(out).all():
        bad = tuple(np.argwhere(~(np.isfinite(out) & (out >= 0)))[0].tolist())
        where = ", ".join(map(str, bad))
        raise DomainError(f"{name}[{where}] is {out[bad]:g}: expected a finite number, 0 or more")
    return out


def points(name: str, value: Any) -> F64:
    """Check that the value has coordinates, (n, 1 ... 3) or (n,), whose squares are finite."""
    xyz: F64 = _array(name, value, np.float64)
    if xyz.ndim == 1:
        xyz = xyz[:, None]
    if xyz.ndim != 2 or not 1 <= xyz.shape[1] <= 3:
        raise DomainError(f"{name} has shape {xyz.shape}: expected (n, 1 ... 3)")
    if not (good := np.abs(xyz) <= 1e150).all():  # NaN fails this test, too
        i, d = np.argwhere(~good)[0]
        expected = "a number from -1e150 to 1e150"
        raise DomainError(f"{name}[{i}, {d}] is {xyz[i, d]}: expected {expected}")
    return xyz


def rows(name: str, value: Any, per_entry: bool) -> Rows:
    """Make `Rows` of a scipy.sparse matrix or (start, indices[, weight per entry, or per row])."""
    if hasattr(value, "tocsr"):
        matrix = value.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return Rows(whole(f"{name}.start", matrix.indptr), whole(f"{name}.indices", matrix.indices))
    what = "a scipy.sparse matrix or (start, indices[, weight])"
    if isinstance(value, np.ndarray):
        raise DomainError(f"{name} is an array of shape {value.shape}: expected {what}")
    try:
        start, to, weight = (*value, None)[:3]
    except (TypeError, ValueError) as error:
        raise DomainError(f"{name} is {value!r}: expected {what}") from error
    start, to = whole(f"{name}.start", start), whole(f"{name}.indices", to)
    if len(start) == 0:
        raise DomainError(f"{name}.start is empty: expected one entry more than rows")
    if weight is not None:
        weight = vector(f"{name}.weight", weight, len(to) if per_entry else len(start) - 1)
    return Rows(start, to, weight)


def numbered(name: str, given: Rows, where: Directory | None, ranks: Ranks) -> Rows:
    """Replace ids in rows by global indices: the local ids in `where`; None: they are the ids.

    Collective.
    """
    if where is None:
        return given
    asked, entry = np.unique(given.to.astype(np.int64, copy=False), return_inverse=True)
    number = where.find(asked, missing=True).local[entry]

    def check() -> None:
        for i in np.flatnonzero(number < 0)[:1]:
            raise UnknownKeyError(
                f"{name}.indices[{i}] is {given.to[i]}: no rank has an object with that id"
            )

    ranks.together(check)
    return replace(given, to=number)


def without_loops(given: Rows, first: int) -> Rows:
    """Remove loops: edges that lead from an object to itself."""
    keep = first + given.row() != given.to
    start = np.concatenate([[0], np.cumsum(keep)])[given.start]
    weight = None if given.weight is None else given.weight[keep]
    return Rows(start.astype(given.start.dtype), given.to[keep], weight)


def symmetric(given: Rows, ranks: Ranks, dist: NDArray[np.int64]) -> Rows:
    """Add the other direction of each edge; both get the larger of the two weights.  Collective."""
    first, n = int(dist[ranks.rank]), len(given)
    source = first + given.row()
    to = given.to.astype(np.int64)
    weight = np.ones(len(to)) if given.weight is None else given.weight
    plan = Plan(ranks.agreement, lambda: owners(dist, to))
    there, back, same = plan.forward(source, to, weight)
    both = None if given.weight is None else np.concatenate([weight, same])
    row = np.concatenate([source, back]) - first
    return in_order(n, row, np.concatenate([to, there]), both)


def in_order(n: int, row: NDArray[np.int64], to: NDArray[Any], weight: F64 | None = None) -> Rows:
    """Make n rows with ascending entries; equal entries become one, with the largest weight."""
    order = np.lexsort((to, row))
    row, to = row[order], to[order]
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (to[1:] != to[:-1])
    if weight is not None and len(row):
        weight = np.maximum.reduceat(weight[order], np.flatnonzero(new))
    start = np.concatenate([[0], np.cumsum(np.bincount(row[new], minlength=n))])
    return Rows(start, to[new], weight)


def lone_edge(
    given: Rows, ids: NDArray[np.int64] | None, ranks: Ranks, dist: NDArray[np.int64]
) -> str:
    """Describe an edge that is given in one direction only, by the objects' `ids`.  Collective."""
    first, n = int(dist[ranks.rank]), int(dist[-1])
    source = first + given.row()
    to = given.to.astype(np.int64)
    back = Plan(ranks.agreement, lambda: owners(dist, to)).forward(to * n + source)
    alone = np.setdiff1d(source * n + to, back)
    found = [x for x in ranks.gather(int(alone[0]) if len(alone) else None) if x is not None]
    if not found:
        return "graph is not symmetric: an edge occurs more often than its other direction"
    ends = np.array(divmod(found[0], n))
    if ids is not None:
        here = (ends >= first) & (ends < first + len(ids))
        known = np.zeros(2, np.int64)
        known[here] = ids[ends[here] - first]
        ends = ranks.sum(known)
    return f"graph is not symmetric at ({ends[0]}, {ends[1]})"


def closed(graph: Rows, first: int) -> Rows:
    """Make a net for each object of a graph: the object and its neighbours."""
    n = len(graph)
    own = np.arange(first, first + n, dtype=graph.to.dtype)
    start = (graph.start + np.arange(n + 1)).astype(graph.start.dtype)
    return Rows(start, np.insert(graph.to, graph.start[1:], own))
