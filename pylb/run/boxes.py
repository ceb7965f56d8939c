"""Boxes of indices: the parts of the ranks in `RowPartition` and `TilePartition`.

A box is given by its first index and its end along each axis: (2,) for rows, (4,) for tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.model.snapshot import I64


def overlap(box: I64, boxes: I64) -> I64:
    """Intersect each of `boxes` with `box`; the results may be empty."""
    out: I64 = boxes.copy()
    out[:, 0::2] = np.maximum(box[..., 0::2], boxes[:, 0::2])
    out[:, 1::2] = np.maximum(np.minimum(box[..., 1::2], boxes[:, 1::2]), out[:, 0::2])
    return out


def shape(box: I64) -> tuple[int, ...]:
    """Return the lengths of a box along its axes."""
    return tuple((box[1::2] - box[0::2]).tolist())


def sizes(boxes: I64) -> I64:
    """Return the number of elements of each box."""
    return np.asarray((boxes[:, 1::2] - boxes[:, 0::2]).prod(axis=1), np.int64)


def within(box: I64, boxes: I64) -> list[tuple[slice, ...]]:
    """Return the intersections of `box` with `boxes`, as slices of an array that holds `box`."""
    common = overlap(box, boxes)
    low, high = common[:, 0::2] - box[0::2], common[:, 1::2] - box[0::2]
    return [tuple(map(slice, *pair)) for pair in zip(low.tolist(), high.tolist(), strict=True)]


def join(
    like: Any, extent: tuple[int, ...], pieces: list[Any], places: list[tuple[slice, ...]]
) -> Any:
    """Make an array or sparse matrix like `like`, whose first axes have the lengths `extent`.

    pieces, places: parts of the new array, and where they are in it.
    """
    if isinstance(like, np.ndarray):
        fortran = like.flags.f_contiguous and not like.flags.c_contiguous
        order: Any = "F" if fortran else "C"
        whole = np.empty((*extent, *like.shape[len(extent) :]), like.dtype, order)
        for place, piece in zip(places, pieces, strict=True):
            whole[place] = piece
        return whole
    from scipy import sparse  # type: ignore[import-untyped]

    if not pieces:
        return like.tocsr()[:0].asformat(like.format)
    return sparse.vstack(pieces, format="csr").asformat(like.format)
