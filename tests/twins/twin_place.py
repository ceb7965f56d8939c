"""Slow, plain twins of the C algorithms: the oracles of the tests."""

from __future__ import annotations

import heapq
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
    heap = sorted((t, r) for r, t in enumerate(time))  # of equal ranks, the first is the best one
    for i in sorted((i for i in range(q.n) if q.movable[i]), key=lambda i: (-q.load[i], i)):
        if even:
            t, out[i] = heap[0]
            heapq.heapreplace(heap, (t + q.load[i] / q.speed[0], out[i]))
        else:
            finish, out[i] = min((time[r] + q.load[i] * (1 / q.speed[r]), r) for r in range(q.p))
            time[out[i]] = finish
    return out if max(q.times(out)) <= max(q.times(q.rank)) * (1 + 1e-12) else list(q.rank)
