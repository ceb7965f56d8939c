"""Combine neighbouring ranks or iterations into one cell if there are more of them than pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pylb.console import digits
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
    """Return the value that gets the brightest colour.

    This is the maximum of the cells.  But if the maximum is more than twice the 95th percentile,
    and this percentile is positive, the value is 1.25 times the percentile.  So one spike does not
    make nearly all other cells dark.
    """
    high, most = float(np.quantile(cells, 0.95)), float(cells.max())
    return 1.25 * high if 0 < 2.0 * high < most else most


def mean(values: F64, width: int) -> F64:
    """Return the mean of each group of `width` neighbours along the last axis."""
    starts = np.arange(0, values.shape[-1], width)
    counts = np.diff([*starts, values.shape[-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=-1) / counts)


def picture(
    times: F64, elapsed: F64, recorded: F64 | None, rows: int, columns: int
) -> dict[str, Any]:
    """Reduce the loads of ranks over iterations to at most `rows` x `columns` cells, for a page.

    `times` (m, p) and `elapsed` (m,) are seconds; `recorded` (m,) has those of the slowest rank.

    ``cells`` are the bytes of (rows, columns) uint16: the largest load of ``rank_step`` ranks in
    ``iteration_step`` iterations, where 65535 means ``top`` seconds.  ``brightest`` is the seconds
    of the brightest colour.  ``max``, ``mean``, ``elapsed`` and ``recorded`` have a value for each
    column.
    """
    m, p = times.shape
    width, height = step(m, columns), step(p, rows)
    cells = largest(times, width, height).T
    top = float(cells.max())
    return {
        "n_ranks": p,
        "n_iterations": m,
        "rank_step": height,
        "iteration_step": width,
        "rows": cells.shape[0],
        "columns": cells.shape[1],
        "top": top,
        "brightest": brightest(cells),
        "cells": np.rint(cells / (top or 1.0) * 65535.0).astype("<u2").tobytes(),
        "max": digits(largest(times.max(axis=1)[None], 1, width)[0]),
        "mean": digits(mean(times.mean(axis=1), width)),
        "elapsed": digits(largest(elapsed[None], 1, width)[0]),
        "recorded": None if recorded is None else digits(largest(recorded[None], 1, width)[0]),
    }


def between_groups(n_ranks: int, flows: Sequence[Any], most: int, what: str) -> tuple[int, F64]:
    """Add up the "objects" or the "load" that moved between groups of ranks in all `flows`.

    Returns the number of ranks in a group, and a matrix (from, to) of at most `most` groups.
    """
    width = step(n_ranks, most)
    n = -(-n_ranks // width)
    out = np.zeros((n, n))
    for f in flows:
        np.add.at(out, (f.source // width, f.target // width), getattr(f, what))
    return width, out
