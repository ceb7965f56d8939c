"""Regular machines with distances between places, and the mapping of ranks to places."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import F64, I32, I64, Snapshot, _array


@dataclass(frozen=True)
class Tree:
    """A tree whose leaves are the ranks, in their order.

    Parameters
    ----------
    sizes : tuple of int
        Children of a vertex on each level, from the root on.  ``(8, 2, 16)``: eight nodes with two
        sockets each, and sixteen ranks on each socket.  Two ranks are 2 links apart on one socket,
        4 on two sockets of a node, and 6 on two nodes.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0, 0], [1, 2], [800, 800]))
    >>> pylb.model.hops(snap, pylb.model.Tree((2, 2)))  # two nodes with two ranks each
    Hops(hop_bytes=4800.0, hops=3.0, link_max=1600.0)
    """

    sizes: tuple[int, ...]

    @property
    def n_ranks(self) -> int:
        """Number of leaves."""
        return prod(self.sizes)


@dataclass(frozen=True)
class Torus:
    """A torus with a rank at each point; the last dimension varies fastest.

    Parameters
    ----------
    sizes : tuple of int
        Extent of each dimension.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 9, rank=range(9), edges=([0], [8], [800]))
    >>> pylb.model.hops(snap, pylb.model.Torus((3, 3))).hops
    2.0
    """

    sizes: tuple[int, ...]

    @property
    def n_ranks(self) -> int:
        """Number of points."""
        return prod(self.sizes)


class Hops(NamedTuple):
    """The load that the messages of an iteration put on the network.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0], [2], [800]))
    >>> pylb.model.hops(snap, pylb.model.Torus((4,))).link_max
    800.0
    """

    #: Sum over all messages between ranks: bytes times number of links on their way.
    hop_bytes: float
    hops: float  #: Mean number of links on the way of a byte; 0 if no rank sends to another.
    link_max: float  #: Bytes on the most loaded link; the two directions count as two links.


class Mapping(NamedTuple):
    """The result of `map_ranks`: the rank to which all objects of each rank go.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0, 1], [2, 3], [800, 800]))
    >>> pylb.model.map_ranks(snap, pylb.model.Tree((2, 2))).rank
    array([0, 2, 1, 3], dtype=int32)
    """

    rank: I32  #: (n,) the new rank of each object.  Objects that shared a rank still share one.
    place: I32  #: (p,) the rank to which the objects of each rank go.
    before: Hops
    after: Hops


Flows = tuple[I64, I32, F64]


def _flows(snapshot: Snapshot, rank: I32) -> Flows:
    """Return the bytes between ranks as (start, receiver, bytes), sorted by sender.

    The flows of sender r are those from ``start[r]`` to ``start[r + 1]``.  A multicast goes once to
    each rank with receivers.
    """
    p = snapshot.n_ranks
    pairs, weights = [np.zeros(0, np.int64)], [np.zeros(0)]
    if snapshot.edges is not None:
        e = snapshot.edges
        pairs.append(rank[e.src].astype(np.int64) * p + rank[e.dst])
        weights.append(e.nbytes)
    if snapshot.multicasts is not None:
        m = snapshot.multicasts
        which = np.repeat(np.arange(len(m.src)), np.diff(m.start))
        which, to = np.divmod(np.unique(which * p + rank[m.dst]), p)
        pairs.append(rank[m.src][which].astype(np.int64) * p + to)
        weights.append(m.nbytes[which])
    pair, index = np.unique(np.concatenate(pairs), return_inverse=True)
    nbytes = np.bincount(index, np.concatenate(weights), len(pair))
    src, dst = np.divmod(pair, p)
    other = (src != dst) & (nbytes > 0)
    start = np.concatenate([[0], np.cumsum(np.bincount(src[other], minlength=p))])
    return start.astype(np.int64), dst[other].astype(np.int32), nbytes[other]


def _groups(snapshot: Snapshot) -> I32:
    """Return a group number for each rank; ranks of one group may exchange their objects."""
    p = snapshot.n_ranks
    alone = np.zeros(p, np.int64)
    if snapshot.migratable is not None:
        fixed = np.unique(snapshot.rank[~snapshot.migratable])
        alone[fixed] = 1 + fixed
    facts = [snapshot.speed, snapshot.background, snapshot.memory_limit]
    kinds = [np.unique(x, axis=0, return_inverse=True)[1].ravel() for x in facts if x is not None]
    group = np.unique(np.stack([alone, *kinds]), axis=1, return_inverse=True)[1]
    return np.asarray(group).reshape(p).astype(np.int32)


def _check(snapshot: Snapshot, machine: Tree | Torus, rank: ArrayLike | None) -> I32:
    if not isinstance(machine, Tree | Torus):
        raise DomainError(f"machine is {machine!r}: expected a Tree or a Torus")
    for i, size in enumerate(checks.several("sizes", machine.sizes, "a tuple of numbers")):
        checks.whole(f"sizes[{i}]", size, 1, "a number")
    if machine.n_ranks != snapshot.n_ranks:
        raise DomainError(
            f"machine has {machine.n_ranks} places, {machine}: expected {snapshot.n_ranks}, "
            "one for each rank"
        )
    if rank is None:
        return snapshot.rank
    out: I32 = snapshot.with_rank(rank).rank
    return out


def _hops(machine: Tree | Torus, flows: Flows, place: Any) -> Hops:
    total = float(flows[2].sum())
    sums, most = _core.hop_bytes(isinstance(machine, Torus), machine.sizes, *flows, place)
    return Hops(sums, sums / total if total > 0 else 0.0, most)


def hops(snapshot: Snapshot, machine: Tree | Torus, rank: ArrayLike | None = None) -> Hops:
    """Return the load that the messages of a placement put on a machine's network.

    Parameters
    ----------
    snapshot : Snapshot
    machine : Tree or Torus
        With a place for each rank.
    rank : (n,) array of int, optional
        The placement.  Default: the snapshot's own.

    Raises
    ------
    DomainError
        The machine does not have one place for each rank.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0], [2], [800]))
    >>> pylb.model.hops(snap, pylb.model.Tree((2, 2))).hop_bytes
    3200.0
    """
    where = _check(snapshot, machine, rank)
    return _hops(machine, _flows(snapshot, where), np.arange(snapshot.n_ranks, dtype=np.int32))


def map_ranks(snapshot: Snapshot, machine: Tree | Torus, rank: ArrayLike | None = None) -> Mapping:
    """Exchange ranks such that ranks that communicate are near each other.

    Use it after a strategy that ignores the machine.  Objects on one rank stay together, so balance
    and cut do not change.  Two ranks are exchanged only if they have the same speed, background
    and memory limit, and if all their objects may migrate.

    A greedy construction is followed by up to 20 passes of swaps of two ranks, until no swap saves
    hop-bytes.  The result never has more hop-bytes than the given placement.

    Parameters
    ----------
    snapshot, machine, rank
        As in `hops`, with the same errors.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0, 1], [2, 3], [800, 800]))
    >>> mapped = pylb.model.map_ranks(snap, pylb.model.Tree((2, 2)))
    >>> mapped.before.hops, mapped.after.hops
    (4.0, 2.0)
    """
    where = _check(snapshot, machine, rank)
    flows = _flows(snapshot, where)
    own = np.arange(snapshot.n_ranks, dtype=np.int32)
    place = _core.map_parts(
        isinstance(machine, Torus), machine.sizes, *flows, own, _groups(snapshot)
    )
    before, after = _hops(machine, flows, own), _hops(machine, flows, place)
    return Mapping(_array("rank", place[where], np.int32), place, before, after)
