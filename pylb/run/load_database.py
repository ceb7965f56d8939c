"""The load database: what all ranks know about their objects, joined."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.model.multicasts import Rows, starts
from pylb.model.snapshot import F64, I32, I64


class Database(NamedTuple):
    """The n objects and m edges of all ranks, sorted by key; the same for any number of ranks."""

    # (n,): index of each object in the joined parts of all ranks (rank 0 first); a slice if the
    # joined parts are already sorted by key.
    order: I64 | slice
    key: I64
    bytes: I64
    memory: Any  # bytes that the object occupies, or None; negative: not known
    migratable: Any
    home: Any  # the rank where the object was added, or None
    src: I32  # (m,), index of the sending object of each edge
    dst: I32  # (m,), index of the receiving object
    edge_bytes: F64  # per iteration
    edge_messages: F64  # per iteration
    edge_multicast: I32  # number of the multicast that the edge is part of; 0: none.  See `Rows`.

    @property
    def rows(self) -> Rows:
        """The columns of the database that describe communication."""
        return Rows(*self[6:])


def database(facts: list[Any], edges: list[Any], passes: list[int]) -> Database:
    """Join the parts of all ranks.

    facts, edges: `Store.facts` and `Mail.edges` of each rank; passes: number of iterations over
    which the edges of each rank are summed.
    """
    return joined(list(np.ascontiguousarray(np.concatenate(facts).T)), edges, passes)


def joined(columns: list[Any], edges: list[Any], passes: list[int]) -> Database:
    """Join the parts of all ranks; like `database`, but with columns instead of `facts`.

    The columns are keys, bytes, memory, migratable and home.  Each has the parts of all ranks, one
    after the other, or is None if no rank gives this property.
    """
    keys = columns[0]
    order: I64 | slice = slice(None)  # select everything, without a copy
    if np.any(keys[1:] < keys[:-1]):
        order = np.argsort(keys, kind="stable")  # fast, because the keys of a part mostly ascend
    key, nbytes, memory, migratable, home = (
        None if column is None else column[order] for column in columns
    )
    assert key is not None
    assert nbytes is not None
    assert migratable is not None
    talk = _edges(key, edges, passes)
    return Database(
        order,
        key,
        nbytes,
        memory,
        migratable.astype(bool),
        None if home is None else home.astype(np.int32),
        *talk,
    )


def _edges(key: I64, edges: list[Any], passes: list[int]) -> Rows:
    """Return the communication between these objects: edges, sorted, then multicasts by sender."""
    ends = np.concatenate([part[:, :2] for part in edges])
    places = _core.Keys(key if len(ends) else key[:0])
    src, dst = (places.places(ends[:, i]) for i in (0, 1))
    amounts = np.concatenate([part[:, 2:4] / k for part, k in zip(edges, passes, strict=True)])
    number = np.concatenate([part[:, 4] for part in edges])
    if number.any():  # each sender's multicasts stay in the order of sending
        by = np.lexsort((np.where(number > 0, 0, dst), src, number > 0))
    else:
        by = np.argsort(src * np.int64(len(key)) + dst, kind="stable")
    by = by[(src[by] >= 0) & (dst[by] >= 0)]  # leave out edges of removed objects
    which = _renumbered(src[by], number[by])
    return Rows(src[by], dst[by], amounts[by, 0], amounts[by, 1], which)


def _renumbered(src: I32, number: I64) -> I32:
    """Number the multicasts 1, 2, ..., independently of the number of ranks."""
    out = np.zeros(len(number), np.int32)
    rows = np.flatnonzero(number)
    out[rows] = np.cumsum(starts(number[rows]) | starts(src[rows]))
    return out
