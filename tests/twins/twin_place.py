"""Slow, plain twins of the C algorithms: the oracles of the tests."""

from __future__ import annotations

import itertools
import math


def added(values):
    """Sum from left to right, as a loop of C does; `sum` is more exact since Python 3.12."""
    out = 0.0
    for value in values:
        out += value
    return out


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
        """Return the load of each rank, added in the order of the objects."""
        out = [0.0] * self.p
        for i in range(self.n):
            if only is None or only[i]:
                out[rank[i]] += self.load[i]
        return out

    def times(self, rank):
        loads = self.sums(rank)
        return [b + x / v for b, x, v in zip(self.background, loads, self.speed, strict=True)]

    def room(self, rank):
        """Return the bytes left on each rank."""
        out = list(self.limit)
        for i in range(self.n):
            out[rank[i]] -= self.memory[i]
        return out

    def feasible(self):
        """Say whether any placement is within the limits, by trying all."""
        free = [range(self.p) if m else [r] for m, r in zip(self.movable, self.rank, strict=True)]
        return any(min(self.room(rank)) >= 0 for rank in itertools.product(*free))


def greedy(s):
    """Place like GreedyLB, without memory limits: the heaviest first, where it ends earliest."""
    q = Plain(s)
    even = len(set(q.speed)) == 1
    fixed = [not m for m in q.movable]
    time = [b + x / v for b, x, v in zip(q.background, q.sums(q.rank, fixed), q.speed, strict=True)]
    out = list(q.rank)
    for i in sorted((i for i in range(q.n) if q.movable[i]), key=lambda i: (-q.load[i], i)):
        own = [q.load[i] / v if even else q.load[i] * (1 / v) for v in q.speed]
        ties = time if even else [0.0] * q.p
        finish, _, out[i] = min((time[r] + own[r], ties[r], r) for r in range(q.p))
        time[out[i]] = finish
    return out if max(q.times(out)) <= max(q.times(q.rank)) * (1 + 1e-12) else list(q.rank)


def threshold(q, overload, loads):
    work = total = 0.0
    for r in range(q.p):
        work += loads[r] + q.background[r] * q.speed[r]
        total += q.speed[r]
    return overload * (work / total)


def sorted_objects(q, rank, r):
    """Return the objects that rank r may give away, (load, index), the lightest first."""
    mine = (i for i in range(q.n) if rank[i] == r and q.movable[i] and q.load[i] > 0)
    return sorted((q.load[i], i) for i in mine)


def refine_comm(s, overload=1.003, alpha=0.0, beta=1.0, counts=False, limit=None):
    """Place like CommAwareRefineLB, or like RefineCommLB if sending counts as time.

    limit: seconds above which a rank is overloaded, instead of `overload` times the average.
    """
    q = Plain(s)
    rank, loads, room = list(q.rank), q.sums(q.rank), q.room(q.rank)
    sends = []
    if s.edges is not None:
        messages = s.edges.messages if s.edges.messages is not None else [1.0] * s.n_edges
        rows = zip(s.edges.src, s.edges.dst, s.edges.nbytes, messages, strict=True)
        sends += [(a, b, alpha * m + beta * w) for a, b, w, m in rows]
    if s.multicasts is not None:
        src, start, dst, nbytes, messages = s.multicasts
        for e, a in enumerate(src):
            m = 1.0 if messages is None else messages[e]
            to = dst[start[e] : start[e + 1]]
            sends += [(a, b, alpha * m + beta * nbytes[e]) for b in to]
    sends = [(a, b, w) for a, b, w in sends if a != b]

    def comm(r):
        out = 0.0
        for a, b, w in sends:
            out += w if counts and rank[a] == r and rank[b] != r else 0.0
        return out

    def seconds(r):
        return q.background[r] + loads[r] / q.speed[r] + comm(r)

    def gap(r):
        return (limit - seconds(r)) * q.speed[r]

    def with_rank(i, r):
        sent = added(w for a, b, w in sends if a == i and rank[b] == r)
        return sent, added(w for a, b, w in sends if b == i and rank[a] == r)

    def takes(r, i):
        all_sent = added(w for a, _, w in sends if a == i)
        more = q.load[i] / q.speed[r]
        if room[r] < q.memory[i]:
            return False
        if counts:
            more = more + (all_sent - with_rank(i, r)[0]) - with_rank(i, r)[1]
        return seconds(r) + more <= limit

    def way_of(i):
        here = sum(with_rank(i, rank[i]))
        if counts:
            all_sent = added(w for a, _, w in sends if a == i)
            sent, received = with_rank(i, rank[i])
            if q.load[i] / q.speed[rank[i]] + (all_sent - sent) - received <= 0:
                return None
        friends = {rank[b] for a, b, _ in sends if a == i} | {
            rank[a] for a, b, _ in sends if b == i
        }
        ways = [
            (sum(with_rank(i, r)) - here, -r)
            for r in friends - {rank[i]}
            if sum(with_rank(i, r)) > 0 and takes(r, i)
        ]
        best = max(ways, default=(-float("inf"), 0))
        if -here > best[0]:
            order = sorted(receivers, key=lambda r: (-gap(r), r))
            order = order if limited else order[:1]
            to = next((r for r in order if takes(r, i)), None)
            if to is not None:
                best = (sum(with_rank(i, to)) - here, -to)
        return None if best[0] == -float("inf") else (float(best[0]) / q.load[i], -best[1])

    limited = s.memory is not None and s.memory_limit is not None
    mean = added(comm(r) * q.speed[r] for r in range(q.p)) / added(q.speed)
    limit = overload * (threshold(q, 1.0, loads) + mean) if limit is None else limit
    donors = [r for r in range(q.p) if seconds(r) > limit * (1 + 1e-9)]
    receivers = {r for r in range(q.p) if r not in donors and gap(r) > 0}
    for d in sorted(donors, key=lambda r: (-seconds(r), r)) if receivers else []:
        while seconds(d) > limit * (1 + 1e-9):
            ways = [(way_of(i), i) for _, i in sorted_objects(q, rank, d)]
            ways = [(-way[0], -q.load[i], -i, way[1]) for way, i in ways if way]
            if not ways:
                limit = seconds(d)
                break
            _, _, i, to = min(ways)
            i = -i
            loads[d] -= q.load[i]
            loads[to] += q.load[i]
            room[d] += q.memory[i]
            room[to] -= q.memory[i]
            rank[i] = to
        if gap(d) > 0:
            receivers.add(d)
    return rank


def pieces(q):
    """Return a bound for equal ranks: objects are cut into equal pieces, and these are counted."""
    m = min(q.n, 4096)
    unit = sorted(q.load[k * q.n // m] for k in range(m))[m // 2]
    per_load = 1 / unit if unit else 0.0
    count = [max(math.floor(min(w * per_load + 0.5, 1 << 20)), 1) for w in q.load]
    sizes = sorted((w / c, i) for i, (w, c) in enumerate(zip(q.load, count, strict=True)))
    each, more = divmod(sum(count), q.p)
    out, total, taken, at = float("inf"), 0.0, 0, 0
    for m in range(1, more + 1):
        while taken + count[sizes[at][1]] <= each * m + more:
            total += count[sizes[at][1]] * sizes[at][0]
            taken += count[sizes[at][1]]
            at += 1
        out = min(out, (total + (each * m + more - taken) * sizes[at][0]) / m)
    return q.background[0] + out / q.speed[0] if more else 0.0
