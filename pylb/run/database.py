"""The load database: what all ranks know of their objects, put together on one rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pylb.model.snapshot import F64, I32, I64


class Database(NamedTuple):
    """The objects of all ranks in order of key, the same on any number of ranks.

    Attributes
    ----------
    order : (n,) int64
        Index of each object in the concatenated parts of the ranks.
    key, bytes, memory : (n,) int64
        memory: below 0 where it is not given.
    migratable : (n,) bool
    home : (n,) int32
        The rank where it was added.
    src, dst : (m,) int32
        Indices of objects that talk, sorted by source and target.
    edge_bytes, edge_messages : (m,) float64
        Per iteration.
    """

    order: I64
    key: I64
    bytes: I64
    memory: I64
    migratable: Any
    home: I32
    src: I32
    dst: I32
    edge_bytes: F64
    edge_messages: F64


def database(facts: list[Any], edges: list[Any], passes: list[int]) -> Database:
    """Put the ranks' parts together.

    facts: of each rank, as `LocalObjects.facts`; edges: as `Mailbox.edges`; passes: number of
    iterations over which the edges are summed.
    """
    every = np.concatenate(facts)
    order = np.argsort(every[:, 0])
    key, nbytes, memory, migratable, home = np.ascontiguousarray(every[order].T)
    ends = np.concatenate([part[:, :2] for part in edges])
    amounts = np.concatenate([part[:, 2:] / k for part, k in zip(edges, passes, strict=True)])
    by = np.lexsort((ends[:, 1], ends[:, 0]))
    by = by[np.isin(ends[by], key).all(axis=1)]  # an object may have gone since it was sent to
    src, dst = (np.searchsorted(key, ends[by, i]).astype(np.int32) for i in (0, 1))
    return Database(
        order,
        key,
        nbytes,
        memory,
        migratable.astype(bool),
        home.astype(np.int32),
        src,
        dst,
        amounts[by, 0],
        amounts[by, 1],
    )
