"""The time of iterations on ranks that share cores; see csrc/model/sharing.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb import _core
from pylb.model.snapshot import F64

Sharing = tuple[Any, Any] | None  # group and number of cores of each rank; None: each has its own
BEFORE = 4  # shares are averaged over at most so many iterations before the first LB step


def spans(loads: F64, sharing: Sharing) -> F64:
    """Return the seconds of iterations, (k,), whose ranks need `loads`, (k, p), of a core."""
    if sharing is None:
        return np.asarray(loads.max(axis=1, initial=0.0))
    return _core.shared_times(*sharing, loads)


def fractions(ends: F64, sharing: Sharing) -> F64:
    """Return the fractions of the times `ends`, (k, p), in which ranks had a core."""
    out = np.ones_like(ends)
    if sharing is None:
        return out
    alone = _core.loads_without_waits(*sharing, ends).reshape(ends.shape)
    return np.divide(alone, ends, out=out, where=ends > 0)


def as_before(before: F64, loads: F64) -> F64:
    """Divide the sum of each iteration's `loads`, (k, p), like the loads `before`, (j, p)."""
    share, total = before.sum(axis=0), loads.sum(axis=1, keepdims=True)
    whole = share.sum()
    return total * (share / whole) if whole > 0 else loads
