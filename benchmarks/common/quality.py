"""What a placement is worth in messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import pylb


class Quality(NamedTuple):
    """Messages between ranks.

    Attributes
    ----------
    cut : float or None
        Bytes between ranks, as a part of all bytes between objects; a multicast counts as one
        message to each of its receivers.
    connectivity : float or None
        Bytes of multicasts between ranks if each rank gets a message once, as a part of the bytes
        of all multicasts: the mean of (ranks reached - 1), weighted with bytes.
    """

    cut: float | None
    connectivity: float | None


def quality(snapshot: pylb.Snapshot, rank: np.ndarray) -> Quality:
    """Quality of the placement `rank` of a snapshot's objects."""
    between = total = 0.0
    if snapshot.edges is not None:
        src, dst, nbytes, _ = snapshot.edges
        between += nbytes[rank[src] != rank[dst]].sum()
        total += nbytes.sum()
    if snapshot.multicasts is None:
        return Quality(float(between / total) if total else None, None)
    src, start, dst, nbytes, _ = snapshot.multicasts
    size = np.diff(start)
    of = np.repeat(np.arange(len(src)), size)
    between += nbytes[of][rank[src][of] != rank[dst]].sum()
    total += (nbytes * size).sum()
    ends = np.concatenate([of, np.arange(len(src))]), np.concatenate([rank[dst], rank[src]])
    reached = np.unique(np.stack(ends, axis=1), axis=0)[:, 0]
    beyond = np.bincount(reached, minlength=len(src)) - 1
    return Quality(float(between / total), float((nbytes * beyond).sum() / nbytes.sum()))
