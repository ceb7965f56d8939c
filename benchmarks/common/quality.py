"""The messages that a placement causes, as ratios that can be compared between cases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import pylb


class Quality(NamedTuple):
    """The messages between ranks, as ratios.

    Attributes
    ----------
    cut : float or None
        Bytes of edges between ranks, divided by the bytes of all edges.
    connectivity : float or None
        For multicasts, which each rank gets once: the mean of (ranks reached - 1), weighted by
        bytes.
    """

    cut: float | None
    connectivity: float | None


def quality(snapshot: pylb.Snapshot, rank: np.ndarray) -> Quality:
    """Return the quality of a placement, `rank`, which may also move objects that must stay."""
    worth = pylb.evaluate(snapshot.with_rank(rank))
    edges = 0.0 if snapshot.edges is None else snapshot.edges.nbytes.sum()
    multicasts = 0.0 if snapshot.multicasts is None else snapshot.multicasts.nbytes.sum()
    return Quality(
        worth.cut / edges if edges else None,
        worth.connectivity / multicasts if multicasts else None,
    )
