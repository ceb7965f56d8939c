"""The input of all methods, checked on all ranks; objects are numbered rank by rank."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import frexp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.directory import Directory
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import F64, I32, I64
from pylb.partitioning import arrays
from pylb.partitioning.arrays import Rows
from pylb.partitioning.ranks import RankFacts, Ranks


@dataclass(eq=False)
class Problem:
    """The objects of this rank, and the arguments that are the same on all ranks.

    Objects have global indices, which `graph` and `nets` use: rank r has the objects dist[r] to
    dist[r + 1] - 1.
    """

    ranks: Ranks
    parts: int
    n: int
    ids: I64 | None = None
    weight: F64 | None = None  # (n, d)
    shares: F64 | None = None  # with sum 1
    coords: F64 | None = None
    graph: Rows | None = None
    nets: Rows | None = None
    tree: RefinementTree | None = None
    fixed_part: I32 | None = None
    old: I32 | None = None
    nbytes: F64 | None = None
    ratio: float = 1.0
    imbalance: float = 1.03
    seed: int = 0
    params: dict[str, str] = field(default_factory=dict)
    exponent: int = 0  # 2**exponent is larger than all weights
    dist: I64 = field(default_factory=lambda: np.zeros(2, np.int64))

    @property
    def first(self) -> int:
        """Global index of the first object of this rank."""
        return int(self.dist[self.ranks.rank])

    @property
    def n_weights(self) -> int:
        """Number of weights per object; 0 if none were given."""
        return 0 if self.weight is None else self.weight.shape[1]

    @property
    def n_all(self) -> int:
        """Number of objects of all ranks."""
        return int(self.dist[-1])

    def rows(self, takes: str) -> Rows | None:
        """Return what a method divides: the graph, or the nets (by default, those of the graph)."""
        if takes == "nets" and self.nets is None and self.graph is not None:
            return arrays.closed(self.graph, self.first)
        return self.graph if takes == "graph" else self.nets if takes == "nets" else None

    def sums(self, part: I32) -> F64:
        """Return (1 + d, k): this rank's objects in each part, then the sums of their weights."""
        weights = () if self.weight is None else self.weight.T
        return np.array([np.bincount(part, by, self.parts) for by in (None, *weights)], float)

    def facts(self, **more: Any) -> RankFacts:
        """Return what all ranks compare; ranks without objects omit the properties of objects."""
        names = "parts", "imbalance", "seed", "params"
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        out["migration_ratio"] = self.ratio
        for name, array in (("tree", self.tree and self.tree.parent), ("shares", self.shares)):
            out[name] = None if array is None else f"checksum {zlib.crc32(array.tobytes()):08x}"
        if self.n:
            out["weight, columns"] = self.n_weights
            out["coords, columns"] = 0 if self.coords is None else self.coords.shape[1]
            for name in ("ids", "graph", "nets", "fixed_part", "old", "nbytes"):
                out[f"{name} given"] = getattr(self, name) is not None
        for name in ("graph", "nets"):
            given = getattr(self, name)
            out[f"_{name}"] = given is not None
            if given is not None and (self.n or len(given)):
                out[f"{name}, weights given"] = given.weight is not None
        most = 0.0 if self.weight is None else float(self.weight.max(initial=0.0))
        exponent = frexp(most)[1] if most else None
        return {**out, **more}, (self.n, _begin(self.ids), exponent)


def _begin(ids: I64 | None) -> int | None:
    """Return the first id if the ids are consecutive, None without ids, and -1 otherwise."""
    if ids is None or len(ids) == 0:
        return None
    return int(ids[0]) if (np.diff(ids) == 1).all() else -1


def complete(problem: Problem, symmetrize: bool) -> None:
    """Check the arguments of all ranks together, after the exchange of `facts`.  Collective."""
    ranks = problem.ranks
    sizes, begins, exponents = zip(*ranks.numbers, strict=True)
    problem.dist = np.array([0, *accumulate(sizes)])
    if problem.n_all > arrays.MOST:
        raise DomainError(f"{problem.n_all} objects: expected at most {arrays.MOST}")
    if ranks.size > 1 and problem.n == 0:
        _adopt(problem, ranks.heard)
    where = None  # the ids are the global indices
    if any(b not in (None, at) for b, at in zip(begins, problem.dist.tolist(), strict=False)):
        index = problem.first + np.arange(problem.n)
        where = Directory(ranks.agreement)
        where.update(index if problem.ids is None else problem.ids, index)
    if problem.weight is not None:
        known = [e for e in exponents if e is not None]
        problem.exponent = max(known, default=0)
        drop_zeros(problem, bool(known))
    if problem.graph is not None:
        graph = arrays.numbered("graph", problem.graph, where, ranks)
        problem.graph = _whole_graph(problem, graph, symmetrize)
    if problem.nets is not None:
        nets = problem.nets = arrays.numbered("nets", problem.nets, where, ranks)
        ranks.together(
            lambda: _core.scan_rows("nets", nets.start, nets.to, problem.first, problem.n_all)
        )


def local(ranks: Ranks, given: dict[str, Any]) -> Problem:
    """Check the arguments `given` to `pylb.partition`, as far as possible without other ranks."""
    k = ranks.size if given["parts"] is None and ranks.comm is not None else given["parts"]
    k = checks.whole("parts", 2 if k is None else k, 1, below=arrays.MOST_PARTS + 1)
    out = Problem(ranks, k, 0)
    out.imbalance = checks.positive("imbalance", given["imbalance"], 1)
    out.ratio = checks.positive("migration_ratio", given["migration_ratio"])
    out.seed = checks.whole("seed", given["seed"], 0, below=arrays.MOST + 1)
    out.params = {
        name: str(int(value)) if isinstance(value, bool | np.bool_) else str(value)
        for name, value in given["params"].items()
    }

    def made(name: str, make: Callable[..., Any], *how: Any) -> Any:
        value = given[name]
        return None if value is None else make(name, value, *how)

    out.coords = made("coords", arrays.points)
    out.graph, out.nets = made("graph", arrays.rows, True), made("nets", arrays.rows, False)
    out.tree = made("tree", tree_of)
    out.n = _count(ranks, out, given)
    for name, rows in (("coords", out.coords), ("graph", out.graph)):
        if rows is not None and len(rows) != out.n:
            raise DomainError(f"{name} has {len(rows)} rows: expected {out.n}, one per object")
    if given["ids"] is not None:
        out.ids = arrays.whole("ids", given["ids"], out.n).astype(np.int64, copy=False)
    weight, shares = made("weight", arrays.vector, out.n, True), made("shares", arrays.vector, k)
    if weight is not None:
        out.weight = weight.reshape(out.n, -1) if out.n else weight.reshape(0, 1)
    if shares is not None:
        if not shares.sum() > 0:
            raise DomainError("shares are all zero: expected at least one above zero")
        out.shares = shares / shares.sum()
    out.fixed_part = made("fixed_part", arrays.places, out.n, k)
    out.old, out.nbytes = made("old", arrays.places, out.n, k), made("nbytes", arrays.vector, out.n)
    return out


def _count(ranks: Ranks, out: Problem, given: dict[str, Any]) -> int:
    """Return the number of this rank's objects."""
    for rows in (out.coords, out.graph):
        if rows is not None:
            return len(rows)
    if out.tree is not None and ranks.size == 1:
        return out.tree.place.size
    for name in ("ids", "weight", "old"):
        if given[name] is not None:
            return len(np.asarray(given[name]))
    if ranks.size > 1:
        raise DomainError("ids are missing: no other argument gives this rank's number of objects")
    if hasattr(given["nets"], "tocsr"):
        return int(given["nets"].shape[1])
    if out.nets is not None:
        return int(out.nets.to.max()) + 1 if len(out.nets.to) else 0
    return 0


def _adopt(problem: Problem, heard: list[dict[str, Any]]) -> None:
    """Give a rank without objects empty arrays of the same shape as on other ranks."""
    facts = {name: fact for facts in heard for name, fact in facts.items()}
    columns, dims = facts.get("weight, columns", 0), facts.get("coords, columns", 0)
    problem.weight = np.zeros((0, columns)) if columns else None
    problem.coords = np.zeros((0, dims)) if dims else problem.coords
    for name in ("fixed_part", "old"):
        setattr(problem, name, np.zeros(0, np.int32) if facts.get(f"{name} given") else None)
    problem.ids = np.zeros(0, np.int64) if facts.get("ids given") else None
    problem.nbytes = np.zeros(0) if facts.get("nbytes given") else None
    for name in ("graph", "nets"):
        own = getattr(problem, name)
        if not facts.get(f"{name} given", any(facts[f"_{name}"] for facts in heard)):
            setattr(problem, name, None)
        elif own is None or len(own) == 0:
            weight = np.zeros(0) if facts.get(f"{name}, weights given") else None
            empty = Rows(np.zeros(1, np.int64), np.zeros(0, np.int64), weight)
            setattr(problem, name, empty)


def _whole_graph(problem: Problem, graph: Rows, symmetrize: bool) -> Rows:
    """Check the graph, remove loops, and make it symmetric or raise an error."""
    ranks, first, n_all = problem.ranks, problem.first, problem.n_all
    loops, _ = ranks.together(
        lambda: _core.scan_rows("graph", graph.start, graph.to, first, n_all),
        lambda found: ({}, found[1:]),
    )
    if loops:
        graph = arrays.without_loops(graph, first)
    # in a symmetric graph, the sum of the checksums of all ranks is 0
    if sum(skew for (skew,) in ranks.numbers) % 2**64 == 0:
        return graph
    if symmetrize:
        return arrays.symmetric(graph, ranks, problem.dist)
    edge = arrays.lone_edge(graph, problem.ids, ranks, problem.dist)
    expected = "expected both directions of each edge, as in A + A.T"
    raise DomainError(f"{edge}: {expected}; symmetrize=True adds them")


def drop_zeros(problem: Problem, some: bool) -> None:
    """Remove columns of weights that are zero on all ranks; without `some` weight above 0, all."""
    weight = problem.weight
    assert weight is not None
    if not some:
        problem.weight = None
    elif weight.shape[1] > 1:
        heavy = problem.ranks.sum(weight.any(axis=0).astype(np.int64)) > 0
        problem.weight = np.ascontiguousarray(weight[:, heavy])


def renumbered(problem: Problem, of: NDArray[Any], parts: int) -> Problem:
    """Return the problem with other parts: part i becomes part ``of[i]``; -1: it does not exist."""

    def moved(part: I32 | None) -> I32 | None:
        return None if part is None else np.where(part < 0, -1, of[part]).astype(np.int32)

    shares, exist = problem.shares, of >= 0
    if shares is not None:
        sums = np.bincount(of[exist], shares[exist], parts)
        shares = sums / sums.sum() if sums.sum() > 0 else None
    fixed_part, old = moved(problem.fixed_part), moved(problem.old)
    return replace(problem, parts=parts, shares=shares, fixed_part=fixed_part, old=old)


# ---- refinement trees ---------------------------------------------------------------------------


class RefinementTree(NamedTuple):
    """A forest of elements and their refinements.  Its leaves are the objects."""

    parent: NDArray[Any]  #: (m,) parent of each element; -1 for the coarsest elements.
    #: (n,) position of each leaf on the curve, which visits the children of an element in order of
    #: index.
    place: I64


def tree_of(name: str, value: Any) -> RefinementTree:
    """Make a tree from the parent of each element, with the leaves in depth-first order."""
    parent = arrays.whole(name, value)
    n = len(parent)
    for i in np.flatnonzero((parent < -1) | (parent >= n))[:1]:
        raise DomainError(f"{name}[{i}] is {parent[i]}: expected an element 0 ... {n - 1}, or -1")
    levels = _levels(parent)
    is_leaf = np.bincount(parent[parent >= 0], minlength=n) == 0
    leaves = is_leaf.astype(np.int64)  # number of leaves in the subtree of each element
    for level in levels[:0:-1]:
        np.add.at(leaves, parent[level], leaves[level])
    begin = np.zeros(n, np.int64)  # number of leaves before the subtree of each element
    for level in levels:
        up = parent[level]
        before = np.cumsum(leaves[level]) - leaves[level]
        first = np.ones(len(level), bool)
        first[1:] = up[1:] != up[:-1]
        of_first = np.flatnonzero(first)[np.cumsum(first) - 1]
        begin[level] = before - before[of_first] + np.where(up < 0, 0, begin[up])
    return RefinementTree(parent, begin[is_leaf])


def _levels(parent: NDArray[Any]) -> list[I64]:
    """List the elements of each depth, sorted by parent, then by index."""
    depth, above = (parent >= 0).astype(np.int64), parent.astype(np.int64)
    for _ in range(len(parent).bit_length() + 1):  # `above` is twice as far away in each round
        on = np.flatnonzero(above >= 0)
        depth[on] += depth[above[on]]
        above[on] = above[above[on]]
    for i in np.flatnonzero(above >= 0)[:1]:
        raise DomainError(f"tree[{i}]: element {i} is below one of its own descendants")
    order = np.lexsort((parent, depth))
    return np.split(order, np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1)))
