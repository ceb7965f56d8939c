"""Methods of `pylb.partition` as strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.model.snapshot import I32, Snapshot
from pylb.partitioning.call import partition
from pylb.partitioning.libraries import METHODS


def divider(which: str) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return a method of `pylb.partition` as a function of a snapshot, and what it looks at."""
    takes = METHODS[which].takes
    if takes == "tree" or which == "keep":
        raise DomainError(f"strategy is {which!r}: expected a method that divides from scratch")

    def divide(snapshot: Snapshot, **params: Any) -> I32:
        if not snapshot.n_objects:
            return np.zeros(0, np.int32)
        result = partition(
            **_question(snapshot, takes),
            parts=snapshot.n_ranks,
            method=which,
            weight=snapshot.load if snapshot.load.any() else None,
            shares=snapshot.speed,
            old=snapshot.rank,
            **{"approach": "partition", **params},
        )
        return result.part

    divide.__name__ = which
    divide.__doc__ = f"pylb.partition(method={which!r}) on one rank"
    other = {"coords": "coords", "": "load"}.get(takes, "communication")
    return divide, tuple(dict.fromkeys(("load", "speed", other)))


def _question(snapshot: Snapshot, takes: str) -> dict[str, Any]:
    """Return arguments of `partition`: the graph or the positions, and which cells are fixed."""
    out: dict[str, Any] = {}
    if takes == "coords":
        if snapshot.coords is None:
            raise DomainError("coords are missing: expected positions of the objects")
        used = np.flatnonzero(snapshot.coords.any(axis=0))
        out["coords"] = snapshot.coords[:, : max(used.max(initial=0) + 1, 1)]
    elif takes:
        out["graph"] = _graph(snapshot)
    if snapshot.migratable is not None and not snapshot.migratable.all():
        out["fixed_part"] = np.where(snapshot.migratable, -1, snapshot.rank)
    return out


def _graph(snapshot: Snapshot) -> tuple[Any, Any, Any]:
    """Return the symmetric graph (start, to, weight); a weight is the bytes in both directions."""
    n = snapshot.n_objects
    edges = (snapshot.edge_src, snapshot.edge_dst, snapshot.edge_bytes)
    src, dst, size = (np.asarray([] if x is None else x, np.int64) for x in edges)
    pair = np.concatenate([src * n + dst, dst * n + src])
    nbytes = np.tile(size, 2)
    keep = pair // n != pair % n
    pair, which = np.unique(pair[keep], return_inverse=True)
    weight = np.maximum(np.bincount(which, nbytes[keep], len(pair)), 1.0)
    start = np.concatenate([[0], np.cumsum(np.bincount(pair // n, minlength=n))])
    return start, pair % n, weight
