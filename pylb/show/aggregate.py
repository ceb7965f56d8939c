"""Combine neighbouring ranks or iterations into one cell if there are more of them than pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pylb.model.snapshot import F64


def step(n: int, most: int) -> int:
    """Return how many neighbours form a cell, such that `n` values give at most `most` cells."""
    return max(1, -(-n // most))


def largest(data: F64, rows: int, columns: int) -> F64:
    """Return the maximum of each block of `rows` x `columns` values; the last may be smaller.

    With the maximum instead of the mean, a single slow rank remains visible.
    """
    out = np.maximum.reduceat(data, np.arange(0, data.shape[0], rows), axis=0)
    return np.asarray(np.maximum.reduceat(out, np.arange(0, data.shape[1], columns), axis=1))


def brightest(cells: F64) -> float:
    """Return the value of the brightest colour: the maximum, unless a few spikes would set it."""
    high, most = float(np.quantile(cells, 0.95)), float(cells.max())
    return 1.25 * high if 0 < 2.0 * high < most else most


def spread(ratios: F64) -> float:
    """Return x, 1.25 to 4, such that 95 % of the ratios are between 1 / x and x."""
    far = np.abs(np.log(np.maximum(ratios, 0.25)))  # not iterations without any load
    return float(np.clip(np.exp(np.nanquantile(far, 0.95)), 1.25, 4.0))


def mean(values: F64, width: int) -> F64:
    """Return the mean of each group of `width` neighbours along the last axis."""
    starts = np.arange(0, values.shape[-1], width)
    counts = np.diff([*starts, values.shape[-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=-1) / counts)


def between_groups(n_ranks: int, flows: Sequence[Any], most: int) -> tuple[int, F64, F64]:
    """Return the ranks per group, and the objects and the load that moved (from, to) a group."""
    width = step(n_ranks, most)
    objects, load = np.zeros((2, -(-n_ranks // width), -(-n_ranks // width)))
    for f in flows:
        pairs = f.source // width, f.target // width
        np.add.at(objects, pairs, f.objects)
        np.add.at(load, pairs, f.load)
    return width, objects, load
