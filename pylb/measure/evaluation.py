"""Evaluation of a placement: balance, messages, memory and migrations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.model.metrics import Metrics
from pylb.model.snapshot import I32, Snapshot, _array


class Evaluation(NamedTuple):
    """All figures of a placement; bytes and messages are those of one iteration.

    An edge of the snapshot is a delivery to the receiver's rank; a multicast is one delivery to
    each rank that has receivers, where it is handed on.

    Attributes
    ----------
    components : tuple of Metrics
        Of the ranks' times in each component of the loads; the first is that of all other figures,
        and has the background.
    cut : float
        Bytes of edges whose ends are on different ranks.
    connectivity : float
        Bytes of multicasts, each times the number of ranks beside its sender's that it reaches:
        connectivity - 1, weighted.
    bytes_local, bytes_node, bytes_network : float
        Delivered within a rank, between ranks of a node, and between nodes.
    hop_bytes : float
        Bytes, each times the links that it passes in the tree of ranks, nodes and network: 2 within
        a node, 4 between nodes.
    messages_local, messages_node, messages_network : float
        Delivered messages, as `bytes_local` and so on.
    sent_max, received_max : float
        Bytes that a rank sends to others and receives from others, at most.
    link_max : float
        Bytes from one rank to another, at most.
    link_src, link_dst : int
        These two ranks; -1 where no rank sends to another.
    neighbours_mean : float
        Ranks that a rank sends to or receives from.
    neighbours_max : int
    memory_max : int
        Bytes on a rank, at most: its objects, and each block that they share once.
    migrations : int
        Objects that change their rank.
    migration_bytes : int
        What they send; 0 where the snapshot has no sizes.
    """

    components: tuple[Metrics, ...]
    cut: float
    connectivity: float
    bytes_local: float
    bytes_node: float
    bytes_network: float
    hop_bytes: float
    messages_local: float
    messages_node: float
    messages_network: float
    sent_max: float
    received_max: float
    link_max: float
    link_src: int
    link_dst: int
    neighbours_mean: float
    neighbours_max: int
    memory_max: int
    migrations: int
    migration_bytes: int

    @property
    def metrics(self) -> Metrics:
        """Of the ranks' times in the first component, the only one where a load is a number."""
        return self.components[0]

    @property
    def seconds(self) -> float:
        """Seconds of an iteration whose components are phases that end with a barrier."""
        return math.fsum(component.max for component in self.components)


def evaluate(snapshot: Snapshot, rank: ArrayLike | None = None) -> Evaluation:
    """Evaluate a placement of a snapshot's objects.

    Parameters
    ----------
    snapshot : Snapshot
    rank : (n,) array of int, optional
        The rank of each object.  Default: where they are now.

    Returns
    -------
    Evaluation

    Raises
    ------
    DomainError, OutOfRangeError
        Not one rank for each object, a rank out of range, or an object moved that may not
        migrate.

    Examples
    --------
    >>> plan = pylb.place(snap, "RefineLB")
    >>> before, after = pylb.evaluate(snap), pylb.evaluate(snap, plan.rank)
    >>> after.cut / before.cut
    """
    where = snapshot.rank if rank is None else _array("placement", rank, np.int32)
    components = (Metrics.of(_core.rank_times(snapshot, where)), *_others(snapshot, where))
    return Evaluation(components, **_core.evaluate(snapshot, where))


def _others(snapshot: Snapshot, rank: I32) -> Iterator[Metrics]:
    """Metrics of all components but the first."""
    p = snapshot.n_ranks
    for k in range(1, snapshot.n_components):
        times = np.bincount(rank, snapshot.load[:, k], p)
        yield Metrics.of(times if snapshot.speed is None else times / snapshot.speed)
