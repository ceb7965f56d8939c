"""Loads of cells that are not measured one by one: seconds of a rank as a sum over its cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.model.snapshot import F64, _array

KEEPS = 0.95  # weight of a step against the one after it
ROUNDS = 100  # of the search for the features that count; it takes one for each feature


class LoadModel:
    """Seconds of a rank in a step = sum over its cells of features x coefficients, fitted online.

    Least squares with coefficients of zero or more; earlier steps count less (`KEEPS`).  The sums
    of the ranks are added before an LB step, so that every rank's experience counts.

    Attributes
    ----------
    sums : (k, k + 1) float64
        This rank's normal equations: of products of features, and of features x seconds.
    """

    def __init__(self, k: int) -> None:
        self.sums: F64 = np.zeros((k, k + 1))

    def observe(self, features: F64, seconds: float) -> None:
        """Add a step.

        features: (n, k), of each cell, zero or more.
        """
        total = features.sum(axis=0)
        self.sums *= KEEPS
        self.sums[:, :-1] += np.outer(total, total)
        self.sums[:, -1] += total * seconds

    @staticmethod
    def coefficients(sums: F64) -> F64:
        """Seconds of each feature, (k,); 1 where no time was measured.

        sums: of one rank, or added over several.
        """
        found = non_negative(sums[:, :-1], sums[:, -1])
        return found if found.any() else np.ones(len(sums))


def non_negative(a: F64, b: F64) -> F64:
    """The x >= 0 of least x a x / 2 - b x, where a is symmetric and positive semidefinite.

    Lawson and Hanson 1974, chapter 23: features enter one by one, and leave where their coefficient
    would fall below zero.  Features of the same value everywhere share what they explain.
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
    """Features as (n, k) float64; one column for each number of `(n,)`.

    Raises
    ------
    DomainError
        Not such an array, or a value is negative, NaN or infinite.
    """
    out: F64 = _array(name, features, np.float64)
    if out.ndim == 1:
        out = out[:, None]
    if out.ndim != 2 or not out.shape[1]:
        raise DomainError(f"{name} has shape {out.shape}: expected (n, k)")
    if out.size and not (out.min() >= 0.0 and out.max() <= 1e30):
        bad = np.flatnonzero(~((out >= 0.0) & (out <= 1e30)).all(axis=1))[0]
        raise DomainError(f"{name}[{bad}] is {out[bad]}: expected numbers of 0 ... 1e30")
    return out
