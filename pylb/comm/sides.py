"""The items of one side of an exchange: their rows, their partners, and their objects."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pylb.comm.transport import Side
from pylb.model.snapshot import I32, I64


class Room(NamedTuple):
    """Memory for `sized`: a rank that waits for the sizes must not fail after they have come."""

    start: I64
    offset: I64
    ends: I64

    @classmethod
    def of(cls, side: Side, n: int) -> Room:
        """Allocate the memory for n items."""
        n_travelling = n if side.order is None else len(side.order)
        sizes = len(side.start), n + 1, n_travelling + 1
        return cls(*(np.zeros(size, np.int64) for size in sizes))


def sized(side: Side, sizes: I64, room: Room) -> Side:
    """Return `side` for items of several rows; sizes: the number of rows of each item."""
    start, offset, ends = room
    np.cumsum(sizes, out=offset[1:])
    if side.order is not None:
        sizes = np.take(sizes, side.order, out=ends[1:], mode="clip")
    np.cumsum(sizes, out=ends[1:])
    np.take(ends, side.start, out=start, mode="clip")
    return Side(side.rank, start, side.order, offset)


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
