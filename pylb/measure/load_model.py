"""Estimate the loads of single cells from the seconds of whole ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import F64, _array

KEEPS = 0.95  # weight of a step, relative to the weight of the following step
ROUNDS = 100  # largest number of rounds of the search for each feature; usually one is enough


class LoadModel:
    """A linear model, fitted online: the load of a cell is its features times coefficients.

    The seconds of a rank in a step are the sum of the loads of its cells.  The fit is by least
    squares with coefficients of zero or more; earlier steps count less (`KEEPS`).  Before an LB
    step, `sums` are added up over all ranks, so that the measurements of every rank count.
    """

    def __init__(self, k: int) -> None:
        # This rank's normal equations, (k, k + 1): sums of products of features, and, in the last
        # column, of features times seconds.
        self.sums: F64 = np.zeros((k, k + 1))

    def observe(self, features: F64, seconds: float) -> LoadModel:
        """Return a new model with one more step: features of cells, (n, k), and the rank's time."""
        total = features.sum(axis=0)
        out = LoadModel(len(self.sums))
        out.sums = KEEPS * self.sums
        out.sums[:, :-1] += np.outer(total, total)
        out.sums[:, -1] += total * seconds
        return out

    @staticmethod
    def coefficients(sums: F64) -> F64:
        """Return seconds per unit of each feature, (k,); all 1 if no time was measured."""
        found = non_negative(sums[:, :-1], sums[:, -1])
        return found if found.any() else np.ones(len(sums))


def non_negative(a: F64, b: F64) -> F64:
    """Minimize x a x / 2 - b x over x >= 0, where a is symmetric and positive semidefinite.

    Lawson and Hanson 1974, chapter 23: features enter one by one, and leave if their coefficient
    would fall below zero.  If two features always have equal values, one of them gets 0.
    """
    scale = np.sqrt(np.diagonal(a))
    scale = np.where(scale > 0, scale, 1.0)
    a, b = a / np.outer(scale, scale), b / scale
    tiny = 1e-12 * np.abs(b).max(initial=0.0)
    x, counts = np.zeros(len(b)), np.zeros(len(b), bool)
    for _ in range(ROUNDS * max(len(b), 1)):
        slope = np.where(counts, -np.inf, b - a @ x)
        if not len(b) or slope.max() <= tiny:
            break
        counts[slope.argmax()] = True
        while True:
            new = np.zeros(len(b))
            new[counts] = np.linalg.lstsq(a[np.ix_(counts, counts)], b[counts], rcond=1e-12)[0]
            falls = counts & (new <= 0)
            if not falls.any():
                break
            step = (x[falls] / np.maximum(x[falls] - new[falls], 1e-300)).min()
            x = x + step * (new - x)
            counts &= x > tiny
            x[~counts] = 0.0
        x = new
    return x / scale


def features_of(features: Any, name: str = "features") -> F64:
    """Check features; return them as (n, k) float64, an array (n,) as one column."""
    out: F64 = _array(name, features, np.float64)
    if out.ndim == 1:
        out = out[:, None]
    if out.ndim != 2 or not out.shape[1]:
        raise DomainError(f"{name} has shape {out.shape}: expected (n, k)")
    checks.amounts(name, out)
    return out
