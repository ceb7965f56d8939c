"""Slow, plain twins of the C algorithms: the oracles of the tests."""

from __future__ import annotations

import itertools


class Plain:
    """A snapshot as lists, with every default filled in."""

    def __init__(self, s):
        n, p = s.n_objects, s.n_ranks
        self.n, self.p = n, p
        self.load = s.load.tolist()
        self.rank = s.rank.tolist()
        self.speed = [1.0] * p if s.speed is None else s.speed.tolist()
        self.background = [0.0] * p if s.background is None else s.background.tolist()
        self.movable = [True] * n if s.migratable is None else s.migratable.tolist()
        limited = s.memory is not None and s.memory_limit is not None
        self.memory = s.memory.tolist() if limited else [0] * n
        self.limit = s.memory_limit.tolist() if limited else [0] * p

    def sums(self, rank, only=None):
        """Load of each rank, added in the order of the objects."""
        out = [0.0] * self.p
        for i in range(self.n):
            if only is None or only[i]:
                out[rank[i]] += self.load[i]
        return out

    def times(self, rank):
        loads = self.sums(rank)
        return [b + x / v for b, x, v in zip(self.background, loads, self.speed, strict=True)]

    def room(self, rank, only=None):
        """Bytes left on each rank."""
        out = list(self.limit)
        for i in range(self.n):
            if only is None or only[i]:
                out[rank[i]] -= self.memory[i]
        return out

    def feasible(self):
        """Is there any placement within the limits?  All are tried."""
        free = [range(self.p) if m else [r] for m, r in zip(self.movable, self.rank, strict=True)]
        return any(min(self.room(rank)) >= 0 for rank in itertools.product(*free))


def greedy(s):
    """Earliest finish, heaviest first; None where something fits nowhere.  Up to 64 speeds."""
    q = Plain(s)
    fixed = [not m for m in q.movable]
    time = [b + x / v for b, x, v in zip(q.background, q.sums(q.rank, fixed), q.speed, strict=True)]
    room = q.room(q.rank, fixed)
    if min(room) < 0:
        return None
    out = list(q.rank)
    for i in sorted((i for i in range(q.n) if q.movable[i]), key=lambda i: (-q.load[i], i)):
        fits = [r for r in range(q.p) if room[r] >= q.memory[i]]
        if not fits:
            return None
        finish, _, r = min((time[r] + q.load[i] / q.speed[r], time[r], r) for r in fits)
        out[i] = r
        time[r] = finish
        room[r] -= q.memory[i]
    return out


def threshold(q, overload, loads):
    work = total = 0.0
    for r in range(q.p):
        work += loads[r] + q.background[r] * q.speed[r]
        total += q.speed[r]
    return overload * (work / total)


def refine(s, overload=1.003):
    """Overloaded ranks give to those with room, from a placement within the memory limits."""
    q = Plain(s)
    rank, loads, room = list(q.rank), q.sums(q.rank), q.room(q.rank)
    limit = threshold(q, overload, loads)
    allowed = [(limit - b) * v for b, v in zip(q.background, q.speed, strict=True)]

    def seconds(r):
        return q.background[r] + loads[r] / q.speed[r]

    def overloaded(r):
        return seconds(r) > limit * (1.0 + 1e-9)

    def receiver_of(i):
        for r in sorted(receivers, key=lambda r: (-(allowed[r] - loads[r]), r)):
            if loads[r] + q.load[i] > allowed[r]:
                return None
            if room[r] >= q.memory[i]:
                return r
        return None

    donors = [r for r in range(q.p) if overloaded(r)]
    receivers = [r for r in range(q.p) if not overloaded(r) and allowed[r] - loads[r] > 0]
    first = set(donors)
    give = {r: [i for i in range(q.n) if rank[i] == r and q.movable[i]] for r in donors}
    while donors:
        d = max(donors, key=lambda r: (seconds(r), -r))
        mine = sorted((q.load[i], i) for i in give[d] if q.load[i] > 0)
        enough = [i for w, i in mine if loads[d] - w <= allowed[d]]
        rest = [i for w, i in mine if loads[d] - w > allowed[d]]
        found = ((i, receiver_of(i)) for i in enough + rest[::-1])
        i, to = next(((i, r) for i, r in found if r is not None), (None, None))
        if i is None:
            break
        give[d].remove(i)
        rank[i] = to
        loads[d] -= q.load[i]
        loads[to] += q.load[i]
        room[d] += q.memory[i]
        room[to] -= q.memory[i]
        if not overloaded(d):
            donors.remove(d)
            receivers.append(d)
    assert first.issuperset(q.rank[i] for i in range(q.n) if rank[i] != q.rank[i])
    return rank
