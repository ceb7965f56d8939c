"""Partitions of graphs, hypergraphs and points on this process: one call for every library."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core, partitioners
from pylb.errors import DomainError
from pylb.strategies import nearest

I32 = NDArray[np.int32]
MOST = 2**31 - 1  # of a sum of weights, which libraries add up in 32 bits


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """A partition, and what it is worth.

    Attributes
    ----------
    part : (n,) int32
        Part of each vertex.
    n_parts : int
    weights : (n_parts,) float64
        Sum of the vertices' weights in each part.
    max_over_mean : float
        Largest part over its share: with equal shares, over the mean.
    cut : float or None
        Weight of the edges between parts; None without a graph.
    volume : float or None
        Communication volume: the sum over the nets of weight * (parts touched - 1); of a graph
        without nets, each vertex once to each other part that has a neighbour of it.
    seconds : float
        Time that the method took.
    method : str
    seed : int
    """

    part: I32
    n_parts: int
    weights: NDArray[np.float64]
    max_over_mean: float
    cut: float | None
    volume: float | None
    seconds: float
    method: str
    seed: int

    def __repr__(self) -> str:
        words = [f"{len(self.part)} vertices in {self.n_parts} parts by {self.method}"]
        words.append(f"max/mean {self.max_over_mean:.4g}")
        words += [] if self.cut is None else [f"cut {self.cut:.6g}"]
        words += [] if self.volume is None else [f"volume {self.volume:.6g}"]
        return f"<Partition: {', '.join(words)}, {self.seconds * 1e3:.3g} ms>"


class Method(NamedTuple):
    """Who is asked: the library, and what with."""

    library: str
    takes: str  # "graph", "nets" or "coords"
    options: tuple[tuple[str, str], ...] = ()


METHODS = {
    "metis": Method("METIS", "graph"),
    "scotch": Method("Scotch", "graph"),
    "graph": Method("Zoltan", "graph"),
    "zoltan": Method("Zoltan", "nets"),
    "pylb": Method("pylb", "nets"),
    "hypergraph": Method("", "nets"),  # the best of several: see _best
    "rcb": Method("Zoltan", "coords", (("LB_METHOD", "RCB"),)),
    "rib": Method("Zoltan", "coords", (("LB_METHOD", "RIB"),)),
    "hsfc": Method("Zoltan", "coords", (("LB_METHOD", "HSFC"),)),
}


def partition(
    graph: Any = None,
    parts: int = 2,
    *,
    nets: tuple[ArrayLike, ...] | None = None,
    coords: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    shares: ArrayLike | None = None,
    method: str = "hypergraph",
    old: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
    migration_ratio: float = 1.0,
    fixed: ArrayLike | None = None,
    imbalance: float = 1.03,
    seed: int = 0,
    starts: int = 6,
    cycles: int = 6,
    **params: Any,
) -> Partition:
    """Divide vertices into parts of equal weight that have little to do with each other.

    Parameters
    ----------
    graph : scipy.sparse matrix or (start, to[, weight]), optional
        Symmetric; vertex v's edges lead to ``to[start[v]:start[v + 1]]``, both directions of each.
        Loops are left out.  A matrix' entries are no weights.
    parts : int
    nets : (start, pin[, weight]), optional
        A hypergraph: net e has the vertices ``pin[start[e]:start[e + 1]]``.  Default, for methods
        that take one: of each vertex of the graph with its neighbours, which makes the volume that
        of a sparse matrix-vector product.
    coords : (n, 1 ... 3) array of float, optional
        Positions, for "rcb", "rib" and "hsfc".
    weight : (n,) array of float, optional
        Of each vertex.  Default 1.
    shares : (parts,) array of float, optional
        Of the weight; zero: the part stays empty.  Default: equal.
    method : str
        "metis", "scotch"; Zoltan's "graph", "zoltan" (hypergraph), "rcb", "rib", "hsfc"; pylb's own
        "pylb"; "hypergraph": the best of `starts` hypergraph partitions of as many seeds (Zoltan's,
        else pylb's own), all refined by one V-cycle, the two best by `cycles`.
    old : (n,) array of int, optional
        Present parts (-1: new): repartition, with the communication counted `migration_ratio` times
        and each vertex that leaves its part with its size.
    sizes : (n,) array of float, optional
        What the migration of a vertex costs, in units of the edges' or nets' weight.  Default 1.
    fixed : (n,) array of int, optional
        Part that a vertex must be in, -1: any.
    imbalance : float
        Largest part over its share, above 1.
    seed : int
        Same input, same seed: same partition.
    starts, cycles : int
        How much work "hypergraph" (and, for `cycles`, "pylb") is worth.
    **params
        The library's own, by their names there: ``PHG_COARSENING_METHOD="IPM"`` (Zoltan),
        ``NITER=20`` (METIS: also PTYPE, OBJTYPE, CTYPE, NCUTS, MINCONN, CONTIG),
        ``STRATEGY="quality"`` (Scotch; "refine": `old` by local searches alone, few vertices move).

    Returns
    -------
    Partition

    Raises
    ------
    DomainError, OutOfRangeError
        A value is out of its domain, a vertex or part out of range, or the method does not take
        what is given.
    MissingPartError
        The library is not here; with the command that brings it.
    PartitionerError
        The library failed.

    Examples
    --------
    >>> best = pylb.partition(A, 8)
    >>> best.volume, best.max_over_mean
    """
    if method not in METHODS:
        raise DomainError(
            f"no method {method!r}: there are {', '.join(METHODS)}" + nearest(method, METHODS)
        )
    how = METHODS[method]
    question = _Question.of(graph, nets, coords, how.takes)
    question.add(
        parts=operator.index(parts),
        weight=weight,
        shares=shares,
        fixed=fixed,
        old=old,
        sizes=sizes,
        ratio=migration_ratio,
    )
    options = [str(x) for pair in (*how.options, *params.items()) for x in pair]
    if method == "hypergraph" and options:
        raise DomainError(f"method 'hypergraph' has no parameter {options[0]!r}")
    ask = question.asker(imbalance, operator.index(seed), options)
    begin = time.perf_counter()
    if method == "hypergraph":
        part = _best(ask, question, starts, cycles)
    else:
        if how.library != "pylb":
            partitioners.load(how.library)
        part = ask(how.library, cycles=cycles if how.library == "pylb" else -1)
    return question.worth(part, time.perf_counter() - begin, method, seed)


def _best(ask: Callable[..., I32], question: _Question, starts: int, cycles: int) -> I32:
    """The best of several refined starts, the two best of them refined more.

    Two at a time: Zoltan, which takes one call at a time, starts one while another is refined.
    """
    if starts < 1 or cycles < 0:
        raise DomainError(f"starts is {starts}, cycles is {cycles}: expected 1 and 0 or more")
    library = "Zoltan" if partitioners.available("Zoltan") else "pylb"
    if library == "Zoltan":
        partitioners.load(library)
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(ask, library, step=i, cycles=min(cycles, 1)) for i in range(starts)]
        found = sorted((task.result() for task in tasks), key=question.objective)[:2]
        if cycles > 1:
            again = [pool.submit(ask, None, part=part, cycles=cycles - 1) for part in found]
            found = [task.result() for task in again]
    return min(found, key=question.objective)


# ---- the question ------------------------------------------------------------------------------


class _Question:
    """What the C core is asked, and what an answer is worth."""

    def __init__(self, n: int, given: dict[str, Any]):
        self.n, self.given = n, given
        self.parts = 1
        self.cost = 1.0  # of a unit of edge or net weight, as the core counts
        self.weight = np.ones(n)
        self.shares: Any = None

    @classmethod
    def of(cls, graph: Any, nets: Any, coords: Any, takes: str) -> _Question:
        """The structure, in the form that a method takes."""
        if takes == "coords":
            if coords is None:
                raise DomainError("coords are missing: this method divides points")
            xyz = np.ascontiguousarray(coords, dtype=np.float64)
            if xyz.ndim != 2 or not 1 <= xyz.shape[1] <= 3:
                raise DomainError(f"coords has shape {xyz.shape}: expected (n, 1 ... 3)")
            return cls(len(xyz), {"coords": xyz, "n_dims": xyz.shape[1]})
        if takes == "nets" and nets is not None:
            start, pin, weight = _csr("nets", nets)
            out = cls(_count(graph, coords, pin), {"net_start": start, "pin": pin})
            out.scale("net_weight", weight, 0)
            return out
        if graph is None:
            raise DomainError("graph is missing: this method divides graphs")
        start, to, weight = _graph(graph)
        n = len(start) - 1
        if takes == "graph":
            out = cls(n, {"start": start, "to": to})
            out.scale("edge_weight", weight, 1)
            return out
        return cls(n, _closed(start, to))

    def scale(self, name: str, weight: Any, least: int) -> None:
        """Weights as integers of 32 bits, also in sum."""
        if weight is not None:
            self.given[name], self.cost = _integers(name, weight, least)

    def add(
        self,
        parts: int,
        weight: Any,
        shares: Any,
        fixed: Any,
        old: Any,
        sizes: Any,
        ratio: float,
    ) -> None:
        """Everything that each vertex or part has."""
        n, self.parts = self.n, parts
        if weight is not None:
            self.weight = _vector("weight", weight, n)
            self.given["weight"], _ = _integers("weight", self.weight, 0)
        if shares is not None:
            self.shares = self.given["share"] = _vector("shares", shares, max(parts, 0))
        for name, value in (("fixed", fixed), ("old", old)):
            if value is not None:
                self.given[name] = _whole(name, value, n)
        if not ratio > 0:
            raise DomainError(f"migration_ratio is {ratio}: expected above zero")
        if old is not None:
            cost = np.ones(n) if sizes is None else _vector("sizes", sizes, n)
            cost = np.rint(cost * (self.cost / ratio))
            top = min(1.0, MOST / 2 / max(1.0, cost.sum()))
            self.given["old_cost"] = np.maximum(1, cost * top).astype(np.int32)

    def asker(self, imbalance: float, seed: int, options: list[str]) -> Callable[..., I32]:
        """A call of the core with all that: ask(library, part=None, cycles=-1, step=0)."""

        def ask(library: str | None, part: Any = None, cycles: int = -1, step: int = 0) -> I32:
            return _core.partition(
                library,
                self.n,
                self.parts,
                part=part,
                imbalance=imbalance,
                seed=(seed + step) % 2**31 if seed >= 0 else seed,
                cycles=cycles,
                options=options,
                **self.given,
            )

        return ask

    def objective(self, part: I32) -> tuple[float, float]:
        """What "hypergraph" minimizes: the volume, with what leaving the old parts costs."""
        g = self.given
        cost = float(self.volume(part) or 0) * self.cost
        if "old" in g:
            cost += float(g["old_cost"][(g["old"] >= 0) & (g["old"] != part)].sum())
        return cost, self.max_over_mean(part)

    def volume(self, part: I32) -> float | None:
        g = self.given
        nets = g if "net_start" in g else _closed(g["start"], g["to"]) if "start" in g else None
        if nets is None:
            return None
        start, pin = nets["net_start"], nets["pin"]
        weight = nets.get("net_weight", np.ones(len(start) - 1, np.int32))
        scale = self.cost if "net_weight" in g else 1.0
        return _core.connectivity(start, pin, weight, part, self.parts) / scale

    def cut(self, part: I32) -> float | None:
        g = self.given
        if "start" not in g:
            return None
        between = np.repeat(part, np.diff(g["start"])) != part[g["to"]]
        weight = g.get("edge_weight")
        count = np.count_nonzero(between) if weight is None else weight[between].sum(dtype=float)
        return float(count) / 2 / self.cost

    def max_over_mean(self, part: I32) -> float:
        load = np.bincount(part, self.weight, self.parts)
        total = self.weight.sum()
        shares = np.full(self.parts, 1.0) if self.shares is None else self.shares
        target = total * shares / shares.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.where(load > 0, load / target, 0.0)
        return float(over.max()) if total > 0 else 1.0

    def worth(self, part: I32, seconds: float, method: str, seed: int) -> Partition:
        """The answer with everything that is known of it."""
        return Partition(
            part=part,
            n_parts=self.parts,
            weights=np.bincount(part, self.weight, self.parts).astype(np.float64),
            max_over_mean=self.max_over_mean(part),
            cut=self.cut(part),
            volume=self.volume(part),
            seconds=seconds,
            method=method,
            seed=seed,
        )


# ---- arrays ------------------------------------------------------------------------------------


def _whole(name: str, value: Any, n: int | None = None) -> I32:
    given = np.asarray(value)
    if given.ndim != 1 or (n is not None and len(given) != n):
        shape = "(n,)" if n is None else f"({n},)"
        raise DomainError(f"{name} has shape {given.shape}: expected {shape}")
    if given.size and given.dtype.kind not in "iu":
        raise DomainError(f"{name} has dtype {given.dtype}: expected integers")
    if given.size and (given.min() < -1 or given.max() > MOST):
        raise DomainError(f"{name}: expected numbers that fit into 32 bits")
    return np.ascontiguousarray(given, dtype=np.int32)


def _vector(name: str, value: Any, n: int) -> NDArray[np.float64]:
    out = np.ascontiguousarray(value, dtype=np.float64)
    if out.shape != (n,):
        raise DomainError(f"{name} has shape {out.shape}: expected ({n},)")
    bad = np.flatnonzero(~(np.isfinite(out) & (out >= 0)))
    if len(bad):
        raise DomainError(f"{name}[{bad[0]}] is {out[bad[0]]:g}: expected zero or more")
    return out


def _integers(name: str, value: Any, least: int) -> tuple[I32, float]:
    """Weights as integers whose sum fits into 32 bits, and what they were multiplied by."""
    given = np.asarray(value)
    if given.dtype == np.int32 and given.sum(dtype=np.int64) <= MOST:
        return np.ascontiguousarray(given), 1.0  # the core checks the rest
    x = _vector(name, given, len(given))
    total = float(x.sum())
    whole = bool(np.all(x == np.rint(x))) and total <= MOST
    scale = 1.0 if whole or total == 0 else (MOST // 2 - len(x)) / total
    return np.maximum(least, np.rint(x * scale)).astype(np.int32), scale


def _csr(name: str, value: Any) -> tuple[I32, I32, Any]:
    start, to, weight = (*value, None)[:3]
    return _whole(f"{name}.start", start), _whole(f"{name}.indices", to), weight


def _graph(graph: Any) -> tuple[I32, I32, Any]:
    """Rows of a symmetric graph without loops."""
    if not hasattr(graph, "tocsr"):
        return _csr("graph", graph)
    rows = graph.tocsr()
    if rows.shape[0] != rows.shape[1]:
        raise DomainError(f"graph has shape {rows.shape}: expected as many rows as columns")
    n = rows.shape[0]
    src = np.repeat(np.arange(n), np.diff(rows.indptr))
    keep = src != rows.indices
    src, to = src[keep], rows.indices[keep].astype(np.int64)
    there, back = np.unique(src * n + to), np.unique(to * n + src)
    if not np.array_equal(there, back):
        lone = np.setxor1d(there, back)[0]
        raise DomainError(
            f"graph is not symmetric at ({lone // n}, {lone % n}): expected both directions of "
            "each edge, as in A + A.T"
        )
    start = np.concatenate([[0], np.cumsum(np.bincount(there // n, minlength=n))])
    return _whole("graph.start", start), _whole("graph.indices", there % n), None


def _closed(start: I32, to: I32) -> dict[str, Any]:
    """The nets of each vertex with its neighbours."""
    n = len(start) - 1
    pin = np.insert(to, start[1:], np.arange(n, dtype=np.int32))
    return {"net_start": (start + np.arange(n + 1)).astype(np.int32), "pin": pin}


def _count(graph: Any, coords: Any, pin: I32) -> int:
    """Number of vertices of a hypergraph: that of the graph or the points, if they are given."""
    if graph is not None:
        return int(graph.shape[0]) if hasattr(graph, "tocsr") else len(graph[0]) - 1
    if coords is not None:
        return len(np.asarray(coords))
    return int(pin.max()) + 1 if len(pin) else 0
