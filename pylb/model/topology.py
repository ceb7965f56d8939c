"""Regular machines with distances between places, and the mapping of ranks to places."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import F64, I32, I64, Snapshot


@dataclass(frozen=True)
class _Regular:
    sizes: tuple[int, ...]

    @property
    def n_ranks(self) -> int:
        """Number of places."""
        return prod(self.sizes)


class Tree(_Regular):
    """A tree whose leaves are the ranks, in their order.

    `sizes` are the children of a vertex on each level, from the root on.  ``(8, 2, 16)``: eight
    nodes with two sockets each, and sixteen ranks on each socket.  Two ranks are 2 links apart on
    one socket, 4 on two sockets of a node, and 6 on two nodes.

    Examples
    --------
    >>> pylb.model.Tree((8, 2, 16)).n_ranks
    256
    """


class Torus(_Regular):
    """A torus with a rank at each point; `sizes` are its dimensions, of which the last is fastest.

    Examples
    --------
    >>> pylb.model.Torus((3, 3)).n_ranks
    9
    """


class Hops(NamedTuple):
    """The load that the messages of an iteration put on the network.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0, 0], [1, 2], [800, 800]))
    >>> pylb.model.hops(snap, pylb.model.Tree((2, 2)))  # two nodes with two ranks each
    Hops(hop_bytes=4800.0, hops=3.0, link_max=1600.0)
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


Flows = tuple[I64, I64, F64]


def _flows(snapshot: Snapshot, rank: I32) -> Flows:
    """Return the bytes between ranks as (sender, receiver, bytes), sorted; flow k is entry k.

    A multicast goes once to each rank with receivers.
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
    return src[other], dst[other], nbytes[other]


def _groups(snapshot: Snapshot) -> I32:
    """Return a group id for each rank; ranks of one group may exchange their objects."""
    p = snapshot.n_ranks
    alone = np.zeros(p, np.int64)
    if snapshot.migratable is not None:
        fixed = np.unique(snapshot.rank[~snapshot.migratable])
        alone[fixed] = 1 + fixed
    facts = [snapshot.speed, snapshot.background, snapshot.memory_limit]
    kinds = [np.unique(x, axis=0, return_inverse=True)[1].ravel() for x in facts if x is not None]
    group = np.unique(np.stack([alone, *kinds]), axis=1, return_inverse=True)[1]
    return np.asarray(group).reshape(p).astype(np.int32)


def _check(snapshot: Snapshot, machine: Machine, rank: ArrayLike | None) -> I32:
    if not isinstance(machine, Tree | Torus):
        raise DomainError(f"machine is {machine!r}: expected a Tree or a Torus")
    sizes = checks.several("sizes", machine.sizes, "a tuple of numbers")
    if not sizes:
        raise DomainError("sizes is empty: expected a number for each level or dimension")
    for i, size in enumerate(sizes):
        checks.whole(f"sizes[{i}]", size, 1, "a number")
    if machine.n_ranks != snapshot.n_ranks:
        expected = f"expected {snapshot.n_ranks}, one for each rank"
        raise DomainError(f"machine has {machine.n_ranks} places, {machine}: {expected}")
    return snapshot.rank if rank is None else snapshot.with_rank(rank).rank


Machine = Tree | Torus
PASSES = 20  # largest number of times that `_swapped` visits each rank


def _apart(machine: Machine, a: Any, b: Any) -> I64:
    """Return the number of links from places `a` to places `b`, arrays that NumPy broadcasts.

    A tree's way leads up to the common vertex; a torus has the shorter way in each dimension.
    """
    out = np.zeros(np.broadcast(a, b).shape, np.int64)
    for size in reversed(machine.sizes):
        away = (b - a) % size
        out += 2 * (a != b) if isinstance(machine, Tree) else np.minimum(away, size - away)
        a, b = a // size, b // size
    return out


def _link_max(machine: Machine, a: I64, b: I64, nbytes: F64) -> float:
    """Return the bytes over the most loaded link if places `a` send `nbytes` to places `b`."""
    n, most = machine.n_ranks, 0.0
    if isinstance(machine, Tree):
        for size in reversed(machine.sizes):
            on = a != b  # the links up from the vertices `a` and down to the vertices `b`
            for end in (a[on], b[on]):
                most = max(most, np.bincount(end, nbytes[on]).max(initial=0.0))
            a, b = a // size, b // size
        return float(most)
    stride = n
    for size in machine.sizes:  # messages travel in one dimension after the other
        stride //= size
        away = (b // stride - a // stride) % size
        back = 2 * away > size
        left = np.where(back, size - away, away)
        link = np.zeros(2 * n)  # leaving each place, forwards and back
        while (on := left > 0).any():
            link += np.bincount(2 * a[on] + back[on], nbytes[on], 2 * n)
            at = a // stride % size
            a = np.where(on, a + ((at + np.where(back, -1, 1)) % size - at) * stride, a)
            left = left - 1
        most = max(most, link.max(initial=0.0))
    return float(most)


def _hops(machine: Machine, flows: Flows, place: Any) -> Hops:
    a, b, nbytes = place[flows[0]], place[flows[1]], flows[2]
    total, sums = float(nbytes.sum()), float((nbytes * _apart(machine, a, b)).sum())
    return Hops(sums, sums / total if total > 0 else 0.0, _link_max(machine, a, b, nbytes))


class _Partners:
    """The ranks with which each rank exchanges bytes: entry k belongs to rank ``of[k]``."""

    def __init__(self, flows: Flows, n: int) -> None:
        src, to, nbytes = flows
        both = np.concatenate([src, to]), np.concatenate([to, src])
        order = np.argsort(both[0], kind="stable")
        self.of, self.to = both[0][order], both[1][order]
        self.nbytes = np.concatenate([nbytes, nbytes])[order]
        self.start = np.searchsorted(self.of, np.arange(n + 1))

    def rank(self, a: int) -> tuple[I64, F64]:
        """Return the partners of rank `a`, and the bytes that it exchanges with each."""
        mine = slice(*self.start[a : a + 2].tolist())
        return self.to[mine], self.nbytes[mine]


def _greedy(machine: Machine, partners: _Partners, group: I32) -> I64:
    """Return a place for each rank.

    The next rank is the one that exchanges the most bytes with the placed ranks.  It gets the free
    place of its group that adds the fewest hop-bytes; in a tie, the one with the fewest hops to all
    taken places.  This is TopoLB (Agarwal, Sharma and Kale, IPDPS 2006), except that bytes to ranks
    without a place are ignored.
    """
    n = machine.n_ranks
    every, place = np.arange(n), np.full(n, -1)
    pull, far, free = np.zeros(n), np.zeros(n, np.int64), np.ones(n, bool)
    for _ in range(n):
        a = int(pull.argmax())
        to, nbytes = partners.rank(a)
        known = place[to] >= 0
        may = np.flatnonzero(free & (group == group[a]))
        cost = _apart(machine, may[:, None], place[to[known]]) @ nbytes[known]
        at = may[np.lexsort((far[may], cost))[0]]
        place[a], free[at] = at, False
        far += _apart(machine, every, at)
        np.add.at(pull, to, nbytes)
        pull[place >= 0] = -1.0
    return place


def _swapped(machine: Machine, partners: _Partners, group: I32, place: I64) -> I64:
    """Swap each rank with the rank that saves the most hop-bytes, as long as a swap saves some.

    A rank that is next to all its partners is skipped: a byte has at least one hop, in a tree two.
    """
    p, place = partners, place.copy()
    least = np.bincount(p.of, p.nbytes, len(place)) * (2 if isinstance(machine, Tree) else 1)
    better = True
    for _ in range(PASSES):
        if not better:
            break
        better = False
        for a in range(len(place)):
            to, nbytes = p.rank(a)
            now = float(nbytes @ _apart(machine, place[a], place[to]))
            if now - least[a] <= 1e-9 * now:
                continue
            every = p.nbytes * _apart(machine, place[p.of], place[p.to])
            from_a = _apart(machine, place, place[a])  # hops to each rank
            there = _apart(machine, place[:, None], place[to]) @ nbytes  # `a` at each rank's place
            here = np.bincount(p.of, p.nbytes * from_a[p.to], len(place))  # each rank at a's place
            both = 2 * np.bincount(to, nbytes, len(place)) * from_a
            saved = now + np.bincount(p.of, every, len(place)) - there - here - both
            saved[group != group[a]] = 0.0
            b = int(saved.argmax())
            if saved[b] > 1e-9 * now:
                place[[a, b]] = place[[b, a]]
                better = True
    return place


def hops(snapshot: Snapshot, machine: Machine, rank: ArrayLike | None = None) -> Hops:
    """Return the load that the messages of a placement put on a machine's network.

    The machine has a place for each rank.  `rank`, (n,), is the placement; default: the snapshot's.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0], [2], [800]))
    >>> pylb.model.hops(snap, pylb.model.Tree((2, 2))).hop_bytes
    3200.0
    """
    where = _check(snapshot, machine, rank)
    return _hops(machine, _flows(snapshot, where), np.arange(snapshot.n_ranks))


def map_ranks(snapshot: Snapshot, machine: Machine, rank: ArrayLike | None = None) -> Mapping:
    """Exchange ranks such that ranks that communicate are near each other.

    Objects on one rank stay together, so balance and cut do not change.  Two ranks are exchanged
    only if they have the same speed, background and memory limit, and if all their objects may
    migrate.  The result never has more hop-bytes than the given placement.  Arguments: see `hops`.

    Examples
    --------
    >>> snap = pylb.Snapshot([1.0] * 4, rank=[0, 1, 2, 3], edges=([0, 1], [2, 3], [800, 800]))
    >>> mapped = pylb.model.map_ranks(snap, pylb.model.Tree((2, 2)))
    >>> mapped.before.hops, mapped.after.hops
    (4.0, 2.0)
    """
    where = _check(snapshot, machine, rank)
    flows = _flows(snapshot, where)
    own = np.arange(snapshot.n_ranks)
    partners, group = _Partners(flows, len(own)), _groups(snapshot)
    place = _greedy(machine, partners, group)
    before = _hops(machine, flows, own)
    if _hops(machine, flows, place).hop_bytes > before.hop_bytes:
        place = own
    place = _swapped(machine, partners, group, place)
    at = place.astype(np.int32)
    return Mapping(at[where], at, before, _hops(machine, flows, place))
