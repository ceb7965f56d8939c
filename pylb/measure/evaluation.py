"""Evaluate a placement: balance, messages, memory and migrations together."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.metrics import Metrics
from pylb.model.snapshot import Snapshot, _array


class Evaluation(NamedTuple):
    """All metrics of a placement; bytes and messages are those of one iteration.

    Messages and bytes are counted as deliveries to ranks.  An edge of the snapshot is one delivery
    to the receiver's rank.  A multicast is one delivery to each rank that has one or more of its
    receivers.

    Examples
    --------
    >>> snap = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1], nbytes=[100] * 4)
    >>> figures = pylb.evaluate(snap, [0, 1, 1, 0])
    >>> figures.components[0].max_over_mean, figures.migration_bytes
    (1.25, 300)
    """

    #: Metrics of the ranks' times in each component of the loads.  The first component includes the
    #: background.
    components: tuple[Metrics, ...]
    cut: float  #: Bytes of edges whose ends are on different ranks.
    #: Sum over the multicasts of bytes times the number of ranks with receivers, not counting the
    #: sender's rank (weighted connectivity - 1).
    connectivity: float
    #: Bytes delivered within a rank, between ranks of one node, and between nodes.
    bytes_local: float
    bytes_node: float
    bytes_network: float
    #: Sum of bytes times the number of links on their way through a tree of ranks, nodes and
    #: network: 2 links within a node, 4 between nodes.
    hop_bytes: float
    #: Messages delivered within a rank, between ranks of one node, and between nodes.
    messages_local: float
    messages_node: float
    messages_network: float
    #: Largest number of bytes that one rank sends to others, or receives from others.
    sent_max: float
    received_max: float
    link_max: float  #: Largest number of bytes that one rank sends to one other rank.
    #: Sender and receiver of these bytes; -1 if no rank sends to another.
    link_src: int
    link_dst: int
    neighbours_mean: float  #: Mean number of ranks that a rank sends to or receives from.
    neighbours_max: int
    #: Bytes of the rank with the most memory in use: its objects, and each block of data that
    #: objects share, counted once.
    memory_max: int
    migrations: int  #: Objects that change their rank.
    migration_bytes: int  #: Bytes that these migrations send; 0 if the snapshot has no sizes.

    @property
    def metrics(self) -> Metrics:
        """Metrics of the ranks' times in the first component of the loads."""
        return self.components[0]

    @property
    def seconds(self) -> float:
        """Seconds of an iteration whose phases are the components, with a barrier after each."""
        return math.fsum(component.max for component in self.components)


def evaluate(snapshot: Snapshot, rank: ArrayLike | None = None) -> Evaluation:
    """Evaluate a placement of a snapshot's objects.

    Parameters
    ----------
    snapshot : Snapshot
    rank : (n,) array of int, optional
        The rank of each object.  Default: the present one.

    Examples
    --------
    >>> edges = ([0, 1], [3, 3], [800, 200])  # from, to, bytes
    >>> snap = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1], edges=edges)
    >>> before, after = pylb.evaluate(snap), pylb.evaluate(snap, [0, 1, 1, 0])
    >>> before.cut, after.cut, after.migrations
    (1000.0, 200.0, 3)
    """
    checks.instance("snapshot", snapshot, Snapshot)
    where = snapshot.rank if rank is None else _array("placement", rank, np.int32)
    if where.ndim != 1:
        raise DomainError(f"placement has shape {where.shape}: expected ({snapshot.n_objects},)")
    components = [Metrics.of(_core.rank_times(snapshot, where))]
    figures = _core.evaluate(snapshot, where)
    speed: Any = 1.0 if snapshot.speed is None else snapshot.speed.T
    for k in range(1, snapshot.n_components):
        times = np.bincount(where, snapshot.load[:, k], snapshot.n_ranks)
        components.append(Metrics.of(times / (speed[k] if snapshot.n_speeds > 1 else speed)))
    return Evaluation(tuple(components), **figures)
