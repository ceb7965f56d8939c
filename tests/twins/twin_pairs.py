"""Slow, plain twins of the exchanges between pairs of ranks, and of their restarts."""

from __future__ import annotations

import math
import operator

from in_order import added
from twin_random import Random


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


class Pairs:
    """The exchanges between pairs of ranks; they change the lists `rank`, `loads` and `room`.

    q: the snapshot, a twin_place.Plain.  moves: the largest number of migrations.
    """

    def __init__(self, q, rank, loads, room, moves=float("inf")):
        self.q, self.rank, self.loads, self.room, self.moves = q, rank, loads, room, moves
        free = [i for i in range(q.n) if q.movable[i] and q.load[i] > 0]
        self.on = [[i for i in free if rank[i] == r] for r in range(q.p)]
        self.work = 1e6 + 300 * q.p

    def search(self, limit, useless=float("inf")):
        """Exchange objects until the limit is met, or the lowest limit that can be met.

        End if it seems that all results will be longer than `useless`.
        """
        low, before = limit, float("inf")
        if max(map(self.seconds, range(self.q.p))) > useless and not self.meet(useless, useless):
            return
        if self.meet(limit, limit):
            return
        while self.work > 0:
            most = max(map(self.seconds, range(self.q.p)))
            if most - low <= 4e-3 * limit or not most - low < before:
                return
            before, middle = most - low, 0.5 * (low + most)
            low = low if self.meet(middle, 1.001 * middle) else middle

    def seconds(self, r):
        return self.q.background[r] + self.loads[r] / self.q.speed[r]

    def gap(self, r):
        return self.allowed[r] - self.loads[r]

    def over(self, r):
        return -self.gap(r) / self.q.speed[r]

    def meet(self, limit, enough):
        q = self.q
        self.allowed = [(limit - b) * v for b, v in zip(q.background, q.speed, strict=True)]
        check, goal, longest, moved = self.work, float("inf"), float("inf"), []
        before = None
        while True:
            donors = [r for r in range(q.p) if self.over(r) > 1e-12 * limit]
            most = limit + max(map(self.over, donors), default=0)
            if most <= enough:
                return True
            if most <= (1 - 2e-3) * longest:
                longest, moved = most, []
            excess = added(map(self.over, donors))
            away = sum(map(operator.ne, self.rank, q.rank))
            before = before or (away, excess)
            moves, reduced = away - before[0], before[1] - excess
            known = reduced > 0 and moves > self.moves // 8
            ahead = moves * excess / reduced if known else 0
            if away + max(len(donors), ahead) > self.moves:
                self.work = 0
            if self.work <= 0 or (self.work <= check and excess > goal):
                return self.undo(moved)
            if self.work <= check:
                check, goal = self.work - 5e4 - 20 * q.p, 0.9 * excess
            donor = min(donors, key=lambda r: (-self.over(r), r))
            partners = [r for r in range(q.p) if r not in donors]
            found = self.find(donor, sorted(partners, key=lambda r: (-self.gap(r), r)))
            if found is None:
                return self.undo(moved)
            to, give, back = found
            for objects, here, there in ((give, donor, to), (back, to, donor)):
                for i in objects:
                    moved.append((i, here))
                    self.move(i, here, there)

    def undo(self, moved):
        """Undo the migrations since the longest time was last reduced by 0.2 %."""
        for i, here in reversed(moved):
            self.move(i, self.rank[i], here)
        return False

    def move(self, i, here, there):
        self.on[here].remove(i)
        self.on[there].insert(0, i)
        self.rank[i] = there
        for r, sign in ((here, -1), (there, 1)):
            self.loads[r] += sign * self.q.load[i]
            self.room[r] -= sign * self.q.memory[i]

    def sets(self, r, most):
        """Return (load, migrations, objects) of all sets of the first `most` objects, by load."""
        out = [(0.0, 0, ())]
        for i in self.on[r][:most]:
            here = self.q.rank[i] == r
            more = [(w + self.q.load[i], cost + here, (*ids, i)) for w, cost, ids in out]
            out = sorted(out + more, key=lambda one: one[0])  # ties: sets without i come first
        return out

    def find(self, donor, partners):
        """Return the exchange to make, (partner, given, given back), or None."""
        over = self.over(donor)
        best, left, cost = None, 0.9 * over, 0
        for n, to in enumerate(partners[:256]):
            if best and left <= over * 0.05625 * n:
                break
            most = 5 if n < 8 else 8
            give, back = self.sets(donor, most), self.sets(to, most)
            self.work -= len(give) + len(back)
            for theirs in back:
                if best and left == 0 and cost <= 2:
                    break
                for mine in self.near(give, theirs[0], donor, to):
                    found = self.left(mine[0] - theirs[0], donor, to), mine[1] + theirs[1]
                    better = found[0] < left or (found[0] == left and found[1] < cost)
                    if better and self.fits(donor, to, mine[2], theirs[2]):
                        left, cost = found
                        best = to, mine[2], theirs[2]
        return best

    def near(self, give, load, donor, to):
        """Return the last set of `give` below the range for `load`, and up to four after it."""
        excess, gap = -self.gap(donor), self.gap(to)
        middle = 0.5 * (excess + gap)
        low, high = (excess, gap) if excess < gap else (middle, middle)
        first = sum(one[0] < low + load for one in give)
        out = give[first - 1 : first] if first else []
        for one in give[first : first + 4]:
            out = [*out, one]
            if one[0] > high + load:
                break
        return out

    def left(self, load, donor, to):
        q = self.q
        here = (-self.gap(donor) - load) * (1.0 / q.speed[donor])
        there = (load - self.gap(to)) * (1.0 / q.speed[to])
        return max(here, there, 0.0)

    def fits(self, donor, to, give, back):
        more = sum(self.q.memory[i] for i in give) - sum(self.q.memory[i] for i in back)
        return self.room[to] >= more and self.room[donor] >= -more


class Restarts:
    """The search from other placements, if exchanges alone do not meet the limit. placed: those of
    GreedyLB and, with memory limits, by memory alone. alike: whether all ranks are equal.
    """

    def __init__(self, q, placed, alike, limited):
        self.q, self.placed, self.alike, self.limited = q, placed, alike, limited

    def search(self, rank, most, limit, exchanged):
        self.best, self.most = list(rank), most
        if not exchanged:
            self.search_from(list(rank), limit)
        if not self.is_done(limit):
            limit = max(limit, self.crowd())
        for placed in self.placed:
            if self.most > 1.005 * limit:
                self.search_from(list(placed), limit, 1.005)
        if not self.limited and any(self.q.movable):
            self.search_from_changes(limit)
        return self.best, self.most

    def is_done(self, limit):
        return self.most <= limit * (1 + 1e-12)

    def search_from(self, rank, limit, factor=1.0):
        pairs = Pairs(self.q, rank, self.q.sums(rank), self.q.room(rank))
        useless = max(self.most / factor, limit) if factor > 1 else float("inf")
        pairs.search(limit, useless)
        most = max(map(pairs.seconds, range(self.q.p)))
        if most * factor * (1 + 1e-12) < self.most:
            self.best, self.most = rank, most

    def search_from_changes(self, limit):
        free = [i for i in range(self.q.n) if self.q.movable[i]]
        rng = Random(0)
        for _ in range(min(32, 4096 // len(free))):
            if self.is_done(limit):
                break
            rank = list(self.best)
            for _ in range(4):
                which = rng.below(len(free))
                rank[free[which]] = rng.below(self.q.p)
            self.search_from(rank, limit)

    def crowd(self):
        """Return a lower bound: of the k p + 1 heaviest objects, k + 1 share a rank."""
        if not self.alike:
            return 0.0
        q, out = self.q, 0.0
        loads = sorted(q.load, reverse=True)
        for k in range(1, q.p + 1):
            if k * q.p >= q.n:
                break
            total = 0.0
            for w in loads[k * q.p - k : k * q.p + 1]:
                total += w
            out = max(out, q.background[0] + total / q.speed[0])
        return out
