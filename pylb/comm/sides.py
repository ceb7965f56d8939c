"""The items of one side of an exchange: their rows, their partners, and their objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.comm.transport import Side
from pylb.model.snapshot import I32, I64


def sized(side: Side, sizes: I64) -> Side:
    """Return `side` for items of several rows; sizes: the number of rows of each item."""
    travelling = sizes if side.order is None else sizes[side.order]
    ends = np.concatenate([[0], np.cumsum(travelling)])
    offset = np.concatenate([[0], np.cumsum(sizes)])
    return Side(side.rank, ends[side.start].astype(np.int64), side.order, offset.astype(np.int64))


def partners(side: Side, n: int) -> I32:
    """Return the partner rank of each of n items."""
    partner = np.repeat(side.rank, np.diff(side.start)).astype(np.int32)
    if side.order is None:
        return partner
    out = np.empty(n, np.int32)
    out[side.order] = partner
    return out


def rows_of(index: I32, offset: I64) -> I64:
    """Return the indices of all rows of the items `index`, one item after the other."""
    sizes = np.diff(offset)[index]
    ends = np.cumsum(sizes)
    out: I64 = np.repeat(offset[index] - ends + sizes, sizes) + np.arange(
        ends[-1] if len(ends) else 0
    )
    return out


def shares(values: list[Any], side: Side) -> dict[int, list[Any]]:
    """Group the objects by their destination, in the order in which they are sent."""
    ordered = values if side.order is None else [values[i] for i in side.order.tolist()]
    start = side.start.tolist()
    pairs = zip(side.rank.tolist(), start, start[1:], strict=False)
    return {rank: ordered[a:b] for rank, a, b in pairs}
