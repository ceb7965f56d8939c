"""Placement of objects that may have several copies: experts of a model, hot tables."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.console import InNotebook, clip
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import F64, I32, Snapshot
from pylb.threads import stoppable

NAME = "CopiesLB"
_WORK = 1 << 16  # several threads pay off from this number of slots in all layers


@dataclass(frozen=True, eq=False, repr=False)
class Copies(InNotebook):
    """A placement of objects that may have several copies.

    For loads ``[layers, objects]``, each attribute has a first axis of layers; for the loads of one
    layer, it has no such axis.

    Examples
    --------
    >>> plan = pylb.place([6.0, 1.0, 1.0], "CopiesLB", slots=4, ranks=2)
    >>> plan.copies["object"], plan.copies["rank"]
    (array([0, 1, 0, 2], dtype=int32), array([0, 0, 1, 1], dtype=int32))
    >>> plan.share, plan.max_over_mean
    (array([3., 1., 3., 1.]), 1.0)
    """

    #: ([layers,] slots) with the fields "object", the object in each slot (-1 if it is empty), and
    #: "rank", the rank of the slot.
    copies: NDArray[Any]
    #: ([layers,] slots) the load of each copy: its part of the object's load.
    share: F64
    #: ([layers]) number of copies on ranks that had no copy of the object before, and the bytes
    #: that they send; 0 if nothing was placed before.
    migrations: Any
    nbytes: Any
    max_over_mean: Any  #: ([layers]) load of the most loaded rank, divided by the mean.
    bound: Any  #: ([layers]) no placement of these objects has a smaller `max_over_mean`.
    seconds: float  #: Run time in seconds.

    def _bars(self) -> dict[str, Any]:
        return {"max/mean of each layer": np.atleast_1d(self.max_over_mean)}

    def __repr__(self) -> str:
        object_ = np.atleast_2d(self.copies["object"])
        ratio, bound = (np.max(x, initial=1.0) for x in (self.max_over_mean, self.bound))
        return (
            f"<Copies: {len(object_)} layers, {object_.shape[1]} slots, max/mean {ratio:.4g} "
            f"(bound {bound:.4g}), {np.sum(self.migrations)} migrations "
            f"({np.sum(self.nbytes)} bytes), {self.seconds * 1e3:.3g} ms>"
        )


def place_copies(
    snapshot: Snapshot | ArrayLike,
    *,
    slots: Any = None,
    ranks: int | None = None,
    previous: Any = None,
    group: Any = None,
    node: Any = None,
    memory: Any = None,
    memory_limit: Any = None,
    nbytes: Any = None,
    move: float = 0.0,
    tolerance: float = 0.005,
    even: bool = True,
) -> Copies:
    """Place objects that may have several copies; the parameters of strategy "CopiesLB".

    Parameters
    ----------
    snapshot : Snapshot or ([layers,] objects) array_like of float
        Loads; each layer is placed on its own.  A snapshot also gives the defaults of `ranks`,
        `previous` (its `rank`), `node`, `memory`, `memory_limit` and `nbytes`.
    slots : int or (ranks,) array_like of int
        Number of slots of all ranks together, divided as evenly as possible, or of each rank.  A
        slot is the place of one copy.
    ranks : int, optional
        Number of ranks.  Not needed if a snapshot or the slots of each rank are given.
    previous : ([layers,] slots) array_like of int, or Copies, optional
        The object in each slot now; -1 if none.  As many copies as possible stay where they are.
    group : int or (objects,) array_like of int, optional
        Group of each object, or the number of groups, each of consecutive objects.  All copies of a
        group's objects are on one node.
    node : int or (ranks,) array_like of int, optional
        Node of each rank, or the number of nodes, each of consecutive ranks.  All nodes have the
        same number of ranks.  Used only with `group`.
    memory, nbytes : (objects,) array_like of int, optional
        Bytes that a copy occupies, and bytes that its migration sends (default: `memory`, or 1).
    memory_limit : (ranks,) array_like of int, optional
        Bytes that the copies on each rank may occupy.
    move : float
        Cost of migrating a byte, in the unit of the loads.  With 0, copies move until the most
        loaded rank is within the tolerance; otherwise only while this saves more than it costs.
    tolerance : float
        Fraction by which the most loaded rank may exceed the bound if this saves migrations.
    even : bool
        True: the copies of an object share its load evenly.  False: they share it such that the
        load of the most loaded rank is smallest; then fewer copies move.

    Examples
    --------
    >>> loads = np.random.default_rng(0).random((58, 256))
    >>> plan = pylb.place(loads, "CopiesLB", slots=288, ranks=32)
    >>> again = pylb.place(1.01 * loads, "CopiesLB", slots=288, ranks=32, previous=plan)
    >>> bool(plan.max_over_mean.max() < 1.005), int(again.migrations.sum())
    (True, 0)
    """
    given = _of_snapshot(snapshot) if isinstance(snapshot, Snapshot) else {"load": snapshot}
    arguments = {"ranks": ranks, "previous": previous, "node": node, "memory": memory}
    arguments |= {"memory_limit": memory_limit, "nbytes": nbytes}
    given |= {name: value for name, value in arguments.items() if value is not None}
    loads = checks.array("loads", given["load"], np.float64)
    if loads.ndim not in (1, 2) or not loads.size:
        raise DomainError(f"loads has shape {loads.shape}: expected ([layers,] objects)")
    checks.amounts("loads", loads)
    stack = np.ascontiguousarray(np.atleast_2d(loads))
    n, first = stack.shape[1], _first(slots, given.get("ranks"))
    p, s = len(first) - 1, int(first[-1])
    if n > s:
        raise DomainError(f"slots are {s}: expected {n} or more, one for each object")
    was = _previous(given.get("previous"), given.get("ranks_before"), len(stack), first, n)
    group_, n_groups = _numbers("group", group, n, "objects")
    node_, n_nodes = _numbers("node", given.get("node"), p, "ranks")
    if group_ is not None:
        if node_ is None:
            raise DomainError("group is given without node: expected the node of each rank, too")
        each = np.bincount(node_)
        if n_groups < n_nodes:
            raise DomainError(
                f"group has {n_groups} groups: expected {n_nodes} or more, one per node"
            )
        if each.min() != each.max():
            raise DomainError(
                f"node has {each.min()} to {each.max()} ranks per node: expected equal numbers"
            )
    size, limit = given.get("memory"), given.get("memory_limit")
    if limit is None:
        size = None  # without a limit, sizes have no effect
    elif size is None:
        raise DomainError("memory_limit is given without memory: expected bytes of each object")
    else:
        size = checks.sizes("memory", size, n)
        limit = checks.sizes("memory_limit", limit, p)
    sent = given.get("nbytes", given.get("memory"))
    sent = None if sent is None else checks.sizes("nbytes", sent, n)
    if not 0.0 <= checks.number("tolerance", tolerance) <= 1e6:
        raise DomainError(
            f"tolerance is {tolerance!r}: expected a fraction of the bound, 0 or more"
        )
    numbers = float(tolerance), checks.seconds("move", move), checks.flag("even", even)
    if group_ is None:
        node_, n_nodes = None, 0
    rest = (size, limit, sent, group_, node_, n_groups, n_nodes, *numbers)
    began = time.perf_counter()

    def one(lo: int, hi: int) -> Any:
        old = None if was is None else was[lo:hi]
        return _core.copies(stack[lo:hi], first, n, old, *rest)

    object_, share, times, moved = _in_threads(one, len(stack), len(stack) * s)
    seconds = time.perf_counter() - began
    copies = np.empty(object_.shape, [("object", np.int32), ("rank", np.int32)])
    copies["object"], copies["rank"] = object_, np.repeat(np.arange(p), np.diff(first))
    mean = np.where(times[:, 1] > 0, times[:, 1], 1.0)
    ratio = np.where(times[:, 1:2] > 0, times / mean[:, None], 1.0)
    fields = (copies, share, moved[:, 0], moved[:, 1], ratio[:, 0], ratio[:, 2])
    if loads.ndim == 1:
        fields = tuple(x[0] if x.ndim > 1 else x[0].item() for x in fields)
    return Copies(*fields, seconds=seconds)


def _in_threads(one: Any, layers: int, work: int) -> list[Any]:
    """Call ``one(first, last + 1)`` for all layers, in several threads if there is much to do."""
    n = min(len(os.sched_getaffinity(0)), layers, 1 + work // _WORK)
    if n == 1:
        return list(one(0, layers))
    cuts = [layers * i // n for i in range(n + 1)]
    with stoppable(n) as pool:
        parts = list(pool.map(one, cuts[:-1], cuts[1:]))
    return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


def _of_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot's data as arguments; raise an error for data that CopiesLB cannot use."""
    if snapshot.load.ndim != 1:
        raise DomainError(f"load has shape {snapshot.load.shape}: expected (n,) with {NAME}")
    defaults = {"speed": 1, "background": 0, "migratable": True, "block": -1}
    for name, default in defaults.items():
        value = getattr(snapshot, name)
        if value is not None and not np.all(value == default):
            raise DomainError(
                f"{name} is given: expected none with {NAME}, for which all ranks are equal and "
                "all objects may migrate"
            )
    names = ("load", "node", "memory", "memory_limit", "nbytes")
    given = {name: getattr(snapshot, name) for name in names}
    given |= {"ranks": snapshot.n_ranks, "ranks_before": snapshot.rank}
    return {name: value for name, value in given.items() if value is not None}


def _first(slots: Any, ranks: Any) -> I32:
    """Return the first slot of each rank, and the number of all slots."""
    if slots is None:
        raise DomainError("slots is missing: expected their number for all ranks, or for each rank")
    if np.ndim(slots) == 0:
        p = checks.whole("ranks", ranks, 1, "a number of ranks", below=1 << 31)
        s = checks.whole("slots", slots, p, f"slots for all {p} ranks", below=1 << 31)
        each = s // p + (np.arange(p) < s % p)
    else:
        each = checks.integers("slots", slots, np.int32)
        if not len(each) or each.min() < 0 or each.sum(dtype=np.int64) >= 1 << 31:
            raise DomainError(f"slots is {clip(repr(slots), 60)}: expected 0 or more on each rank")
        if ranks is not None and ranks != len(each):
            raise DomainError(f"slots has {len(each)} entries: expected {ranks}, one for each rank")
    return np.concatenate([[0], np.cumsum(each)]).astype(np.int32)


def _previous(previous: Any, rank: Any, layers: int, first: I32, n: int) -> I32 | None:
    """Return (layers, slots) the object in each slot now, by `previous` or the objects' `rank`."""
    s = int(first[-1])
    if previous is None:
        if rank is None:
            return None
        order = np.argsort(rank, kind="stable")
        begins = np.searchsorted(rank[order], np.arange(len(first)))
        at = first[rank[order]] + np.arange(n) - begins[rank[order]]
        fits = at < first[rank[order] + 1]  # objects without a slot on their rank are not placed
        out = np.full((1, s), -1, np.int32)
        out[0, at[fits]] = order[fits]
        return out
    if isinstance(previous, Copies):
        previous = previous.copies["object"]
    old = checks.array("previous", previous)
    if old.dtype.kind not in "iu" or old.shape not in ((layers, s), (s,) if layers == 1 else ()):
        raise DomainError(
            f"previous has shape {old.shape} and dtype {old.dtype}: expected integers, "
            f"({layers}, {s}), the object in each slot"
        )
    for bad in old[(old < -1) | (old >= n)][:1]:
        raise DomainError(f"previous has {bad}: expected -1 ... {n - 1}")
    return np.ascontiguousarray(old.reshape(layers, s), np.int32)


def _numbers(name: str, value: Any, n: int, what: str) -> tuple[I32 | None, int]:
    """Return the group of each object (or node of each rank), and the number of groups (nodes)."""
    if value is None:
        return None, 0
    if np.ndim(value) == 0:
        count = checks.whole(name, value, 1, "a number of groups or nodes", n + 1)
        if n % count:
            raise DomainError(
                f"{name} is {count}: expected a divisor of {n}, or a number for each of the {what}"
            )
        return np.repeat(np.arange(count, dtype=np.int32), n // count), count
    out = checks.integers(name, value, np.int32)
    if len(out) != n:
        raise DomainError(
            f"{name} has {len(out)} entries: expected {n}, one for each of the {what}"
        )
    if out.min() < 0 or len(np.unique(out)) != out.max() + 1:
        raise DomainError(f"{name} has {np.unique(out)[:5]}: expected 0, 1, ... without gaps")
    return out, int(out.max()) + 1
