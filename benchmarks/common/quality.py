"""What a placement is worth in messages, as ratios that compare across cases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import pylb


class Quality(NamedTuple):
    """Messages between ranks.

    Attributes
    ----------
    cut : float or None
        Bytes of edges between ranks, as a part of the bytes of all edges.
    connectivity : float or None
        The same of multicasts, of which each rank gets one: the mean of (ranks reached - 1),
        weighted with bytes.
    """

    cut: float | None
    connectivity: float | None


def quality(snapshot: pylb.Snapshot, rank: np.ndarray) -> Quality:
    """Quality of the placement `rank` of a snapshot's objects; `rank` may move any object."""
    worth = pylb.evaluate(snapshot.with_rank(rank))
    edges = 0.0 if snapshot.edges is None else snapshot.edges.nbytes.sum()
    multicasts = 0.0 if snapshot.multicasts is None else snapshot.multicasts.nbytes.sum()
    return Quality(
        worth.cut / edges if edges else None,
        worth.connectivity / multicasts if multicasts else None,
    )
