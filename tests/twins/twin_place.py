"""Slow, plain twins of the C algorithms: the oracles of the tests."""

from __future__ import annotations

import itertools
import math
import operator

from in_order import added
from twin_pairs import Pairs, Restarts, pieces

import pylb


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

    def room(self, rank, only=None):
        """Return the bytes left on each rank."""
        out = list(self.limit)
        for i in range(self.n):
            if only is None or only[i]:
                out[rank[i]] -= self.memory[i]
        return out

    def feasible(self):
        """Say whether any placement is within the limits, by trying all."""
        free = [range(self.p) if m else [r] for m, r in zip(self.movable, self.rank, strict=True)]
        return any(min(self.room(rank)) >= 0 for rank in itertools.product(*free))


def by_memory(q):
    """Return the objects that may migrate, the largest memory first."""
    return sorted((i for i in range(q.n) if q.movable[i]), key=lambda i: (-q.memory[i], i))


def packed(q):
    """Place by memory alone: each object, the largest first, on the first rank where it fits.

    If there is none, the object before it goes to its next rank.  If that takes too many steps,
    return the present placement; if it exceeds a limit, None.
    """
    order, out = by_memory(q), list(q.rank)
    room = q.room(q.rank, [not m for m in q.movable])
    kept = min(q.room(q.rank)) >= 0
    spare = sum(room) - sum(q.memory[i] for i in order)
    least = min((q.memory[i] for i in order if q.memory[i]), default=math.inf)
    at, last, failed = 0, None, False
    for _ in range(len(order) + (1 << (12 if kept else 20))):
        if at == len(order):
            break
        i, to = order[at], None
        if not failed or sum(x for x in room if x < least) <= spare:
            others = range(q.p) if last is None else range(last + 1, q.p)
            fits = (r for r in others if last is None or room[r] != room[last])
            to = next((r for r in fits if room[r] >= q.memory[i]), None)
            failed = failed or to is None
        if to is not None:
            out[i], last = to, None
            room[to] -= q.memory[i]
            at += 1
        elif at:
            at -= 1
            last = out[order[at]]
            room[last] += q.memory[order[at]]
        else:
            break
    present = list(q.rank) if kept else None
    return out if at == len(order) else present


def repaired(q):
    """Return the present placement; ranks above their limit give away objects.

    Those with the least load for their memory leave, and the largest of them are placed first.
    """
    rank, room = list(q.rank), q.room(q.rank)
    order, leaving = by_memory(q), set()
    for i in sorted(order, key=lambda i: q.load[i] / max(q.memory[i], 1)):
        if room[rank[i]] < 0 and q.memory[i] > 0:
            room[rank[i]] += q.memory[i]
            leaving.add(i)
    for i in (i for i in order if i in leaving):
        r = min(range(q.p), key=lambda r: (-room[r], r))
        if room[r] < q.memory[i]:
            return packed(q)
        rank[i] = r
        room[r] -= q.memory[i]
    return rank


def greedy(s):
    """Place like GreedyLB: by time, else by memory; never slower than the present placement."""
    q = Plain(s)
    if min(q.room(q.rank, [not m for m in q.movable])) < 0:
        return None
    out = in_time(s)
    if out is None and (start := packed(q)):
        out = refine(s, start=start)[0]
    if out is None:
        return None
    if s.memory is None or s.memory_limit is None:
        return out if longest(q, out) <= longest(q, q.rank) * (1 + 1e-12) else list(q.rank)
    present = repaired(q)
    return out if longest(q, out) <= longest(q, present) else refine(s, start=present)[0]


def in_time(s):
    """Place the heaviest first, where it ends earliest; None if an object fits nowhere."""
    q = Plain(s)
    fixed = [not m for m in q.movable]
    time = [b + x / v for b, x, v in zip(q.background, q.sums(q.rank, fixed), q.speed, strict=True)]
    room = q.room(q.rank, fixed)
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


def bound(q, loads, grain=0.0):
    """Return the seconds that the slowest rank takes at least, in any placement."""
    fixed = q.sums(q.rank, [not m for m in q.movable])
    floors = [b + f / v for b, f, v in zip(q.background, fixed, q.speed, strict=True)]
    heaviest = max((w for w, m in zip(q.load, q.movable, strict=True) if m), default=0.0)
    best = min(f + heaviest / v for f, v in zip(floors, q.speed, strict=True))
    average = threshold(q, 1.0, loads)
    if grain:
        step = grain / q.speed[0]
        times = math.ceil((average - q.background[0]) / step * (1 - 1e-12))
        average = q.background[0] + step * times
    return max(average, max(floors), best)


def refine(s, overload=1.003, swaps=False, least=0.0, moves=float("inf"), start=None):
    """Place like RefineLB: overloaded ranks give objects to ranks with room, within the limits.

    A rank that takes at most `least` seconds is not overloaded.  Give up after more than `moves`
    moves.  Begin with the placement `start`; default: the present one.  Return the placement, the
    seconds of the slowest rank, the limit, whether pairs of ranks have exchanged sets, and whether
    the limit was raised.
    """
    q = Plain(s)
    rank = list(start or q.rank)
    loads, room = q.sums(rank), q.room(rank)
    limit = max(threshold(q, overload, loads), bound(q, loads), least)
    raised = False

    def seconds(r):
        return q.background[r] + loads[r] / q.speed[r]

    if swaps and max(map(seconds, range(q.p))) > limit:
        limit, raised = raise_limit(s, q, limit)
    allowed = [(limit - b) * v for b, v in zip(q.background, q.speed, strict=True)]

    def overloaded(r):
        return seconds(r) > limit * (1.0 + 1e-9)

    def excess():
        return added(-(allowed[r] - loads[r]) for r in range(q.p) if overloaded(r))

    def receiver_of(i):
        for r in sorted(receivers, key=lambda r: (-(allowed[r] - loads[r]), r)):
            if loads[r] + q.load[i] > allowed[r]:
                return None
            if room[r] >= q.memory[i]:
                return r
        return None

    def move(i, to):
        give[rank[i]].remove((q.load[i], i))
        for r, sign in ((rank[i], -1), (to, 1)):
            loads[r] += sign * q.load[i]
            room[r] -= sign * q.memory[i]
        rank[i] = to

    def one_move(d):
        enough = [i for w, i in give[d] if loads[d] - w <= allowed[d]]
        rest = [i for w, i in give[d] if loads[d] - w > allowed[d]]
        found = ((i, receiver_of(i)) for i in enough + rest[::-1])
        i, to = next(((i, r) for i, r in found if r is not None), (None, None))
        if i is not None:
            nonlocal moved
            moved += 1
            move(i, to)
        return i is not None

    def one_swap(d):
        nonlocal listed
        if not listed:  # once per round, so that the lists include objects that have arrived
            listed = True
            for r in set(range(q.p)) - gave:
                give[r] = sorted_objects(q, rank, r)
        for r in sorted(receivers, key=lambda r: (-(allowed[r] - loads[r]), r))[:256]:
            low, high = loads[d] - allowed[d], allowed[r] - loads[r]
            found = exchange(q, give[d], give[r], room[d], room[r], low, high)
            if found[0] > 0 and found[0] >= 0.1 * low:
                move(found[1][1][1], d)
                move(found[1][0][1], r)
                return True
        return False

    def rounds():
        nonlocal receivers, give, gave, listed
        last = float("inf")
        while 0 < excess() < last:
            last = 0.9 * excess() if swaps else 0.0
            donors = [r for r in range(q.p) if overloaded(r)]
            receivers = [r for r in range(q.p) if not overloaded(r) and allowed[r] - loads[r] > 0]
            give = [sorted_objects(q, rank, r) for r in range(q.p)]
            gave, listed = set(donors), False
            while donors and receivers and moved <= moves:
                d = max(donors, key=lambda r: (seconds(r), -r))
                if not one_move(d) and not (swaps and one_swap(d)):
                    break
                if not overloaded(d):
                    donors.remove(d)
                    receivers.append(d)

    receivers, give, gave, listed, moved = [], [], set(), False, 0
    rounds()
    exchanged = excess() > 0 and moved <= moves
    if exchanged:
        if not swaps and moves == float("inf"):
            limit, raised = raise_limit(s, q, limit)
        Pairs(q, rank, loads, room, moves).search(limit)
    return rank, max(map(seconds, range(q.p))), limit, exchanged, raised


def raise_limit(s, q, limit):
    """Return the limit and whether it was raised: to just above the bound by counting."""
    counted = pieces(q) if alike(s, q) and q.p < q.n <= 64 * q.p else 0.0
    return (1.0045 * counted, True) if counted > limit else (limit, False)


def sorted_objects(q, rank, r):
    """Return the objects that rank r may give away, (load, index), the lightest first."""
    mine = (i for i in range(q.n) if rank[i] == r and q.movable[i] and q.load[i] > 0)
    return sorted((q.load[i], i) for i in mine)


def exchange(q, mine, theirs, my_room, their_room, low, high):
    """Return the first exchange whose difference is in low ... high, else the largest below low."""
    best = (0.0, [])
    for b in theirs:
        if not mine or b[0] < mine[0][0] - high:
            continue
        if best[0] >= low:
            break
        a = next((x for x in reversed(mine) if x[0] <= high + b[0]), None)
        if a is None or not best[0] < a[0] - b[0] <= high:
            continue
        more = q.memory[a[1]] - q.memory[b[1]]
        if their_room >= more and my_room >= -more:
            best = (a[0] - b[0], [a, b])
    return best


def refine_comm(s, overload=1.003, alpha=0.0, beta=1.0, counts=False):
    """Place like CommAwareRefineLB, or like RefineCommLB if sending counts as time."""
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
    limit = overload * (threshold(q, 1.0, loads) + mean)
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


def refined(s, overload=1.003, swaps=False):
    """Refine; if too much is left above the threshold, search from other placements."""
    rank, most, limit, exchanged, raised = refine(s, overload, swaps)
    fit = BestFit(s)
    q = fit.q
    if most > 1.05 * limit:
        swapped = refine(s, overload, True)
        if swapped[1] < most:
            rank, most, limit, exchanged, raised = swapped
    if most > 1.05 * limit:
        rank, most = fit.restarts(rank, most, limit, exchanged)
        rank = fit.go_home(rank, most)
    if raised or most > (1 + 1e-9) * limit:
        rank = fewer(s, rank, most)
    if has_needless(s, q, rank):
        other = BestFit(s, max(overload / (1 + 2e-4) - 1, 0.0)).place()
        close = longest(q, other) <= (1 + 1e-9) * max(longest(q, rank), limit)
        rank = other if close and migrations(s, other) < migrations(s, rank) else rank
    return unless_gained(q, rank)


def migrations(s, rank):
    """Return the number of objects that have moved."""
    return sum(map(operator.ne, rank, s.rank.tolist()))


def has_needless(s, q, rank):
    """Return whether rank moves more than twice of what must leave for its slowest rank's time."""
    most, loads, leaving = longest(q, rank), q.sums(q.rank), 0
    for r, load in enumerate(loads):
        allowed = (most - q.background[r]) * q.speed[r]
        for weight, _ in reversed(sorted_objects(q, q.rank, r)):
            if load <= allowed:
                break
            load -= weight
            leaving += 1
    return migrations(s, rank) > 2 * leaving


def fewer(s, rank, most):
    """Return a placement with less than half of the migrations that is nearly as good, or rank."""
    many = migrations(s, rank)
    if not many:
        return rank
    q = Plain(s)

    def is_better(other):
        few = migrations(s, other) <= (many - 1) // 2
        return few and longest(q, other) <= 1.002 * most

    other, *_ = refine(s, 0.0, least=1.001 * most, moves=(many - 1) // 2)
    if not is_better(other) and 2 * many > sum(q.movable) and has_needless(s, q, rank):
        overload = 1.001 * most / threshold(q, 1.0, q.sums(q.rank))
        other = pylb.place(s, "CommAwareRefineLB", overload=overload).rank.tolist()
    return other if is_better(other) else rank


def longest(q, rank):
    """Return the seconds of the slowest rank."""
    loads = q.sums(rank)
    return max(b + x / v for b, x, v in zip(q.background, loads, q.speed, strict=True))


def unless_gained(q, rank):
    """Undo all moves, unless the slowest rank becomes faster by more than a millionth."""
    return rank if longest(q, rank) < longest(q, q.rank) * (1.0 - 1e-6) else list(q.rank)


def alike(s, q):
    """Return whether all ranks are equal, and all objects may go to all of them."""
    limited = s.memory is not None and s.memory_limit is not None
    ranks = {*zip(q.speed, q.background, strict=True)}
    return len(ranks) == 1 and all(q.movable) and not limited


class BestFit:
    """BestFitLB in plain Python: it searches whole lists."""

    def __init__(self, s, tolerance=0.0):
        self.s, self.q = s, Plain(s)
        q = self.q
        self.grain = self.common() if self.alike() else 0.0
        total, square = added(q.load), 0.05 * (q.p / (sum(q.movable) + 1)) ** 2
        if self.grain:
            fine = 1e-3 * self.grain * q.p / total
        else:
            fine = max(0.03 * (self.light() * q.p / total if total else 0.0), square)
        self.few, self.tolerance = fine > 1e-4, min(fine, 1e-4)
        self.above = tolerance

    def alike(self):
        return alike(self.s, self.q)

    def common(self):
        """Return the largest number that divides all loads."""
        grain = most = 0.0
        for w in self.q.load:
            most = max(most, w)
            times = w / grain if grain else 0.5
            if w and math.isfinite(times) and abs(times - round(times)) > 1e-12 * times:
                a, b = w, grain
                while b > 1e-12 * most:
                    a, b = b, abs(a - b * round(a / b))
                grain = a
                if grain < most / 65536:
                    return 0.0
        return grain

    def light(self):
        """Return the load of the p-th lightest object with a load above 0."""
        q = self.q
        loads = sorted(w for w, m in zip(q.load, q.movable, strict=True) if m and w)
        n = sum(q.movable)
        place = n * q.p / (n + 1)
        return loads[min(int(place), len(loads) - 1)] * min(place, 1.0) if loads else 0.0

    def place(self):
        q = self.q
        scarce = self.few and sum(q.movable) < 16 * q.p
        rank, most, limit, exchanged, raised = self.refine() if scarce else self.fit()
        missed = most > limit * (1 + 1e-4)
        if missed:
            rank, most = self.restarts(rank, most, limit * (1 + 1e-4), exchanged)
            rank = self.go_home(rank, most)
        if missed or raised or (self.few and not scarce):
            rank = fewer(self.s, rank, most)
        return unless_gained(q, rank)

    def limit(self):
        q = self.q
        loads, room = q.sums(q.rank), 0.003 if self.few else 0.0
        return max(bound(q, loads, self.grain), threshold(q, 1 + max(room, self.above), loads))

    def refine(self):
        return refine(self.s, 0.0, least=self.limit())

    def restarts(self, rank, most, limit, exchanged):
        limited = self.s.memory is not None and self.s.memory_limit is not None
        placed = [greedy(self.s), packed(self.q) if limited else None]
        placed = [self.relabel(one) for one in placed if one]
        found = Restarts(self.q, placed, self.alike(), limited)
        return found.search(rank, most, limit, exchanged)

    # ---- transfers -------------------------------------------------------------------------

    def fit(self):
        q, tolerance = self.q, self.tolerance
        self.rank, self.load, self.room = list(q.rank), q.sums(q.rank), q.room(q.rank)
        average, target = threshold(q, 1.0, self.load), self.limit()
        limit = target if self.grain else max(average, target * (1 + 1e-12) / (1 + tolerance))
        self.allowed = [(limit - b) * v for b, v in zip(q.background, q.speed, strict=True)]
        share = max(0.0, 1 - average / limit) if limit else 0.0
        self.slack = [tolerance * limit * v for v in q.speed]
        self.spill = [share * limit * v for v in q.speed]
        self.pushes = 4 * q.p + 64
        most = max(self.seconds())
        self.moved, self.marked = [], self.excess()
        if most > limit * (1 + tolerance):
            self.transfers()
        if max(self.seconds()) > limit * (1 + tolerance):
            self.undo()
        return self.rank, max(self.seconds()), target, False, False

    def seconds(self):
        q = self.q
        return [b + x / v for b, x, v in zip(q.background, self.load, q.speed, strict=True)]

    def gap(self, r):
        return self.allowed[r] - self.load[r]

    def excess(self):
        out = 0.0
        for r in range(self.q.p):
            out -= min(self.gap(r), 0.0)
        return out

    def transfers(self):
        q = self.q
        donors = {r for r in range(q.p) if -self.gap(r) > self.slack[r]}
        receivers = {r for r in range(q.p) if self.gap(r) > self.slack[r]}
        if not donors or not receivers:
            return
        first = set(donors)
        self.lists = {r: sorted_objects(q, self.rank, r) for r in first}
        self.listed = False

        def sort_in(r):
            if -self.gap(r) > self.slack[r]:
                donors.add(r)
            elif self.gap(r) > self.slack[r]:
                receivers.add(r)

        while donors and receivers:
            d = min(donors, key=lambda r: (self.gap(r), r))
            donors.remove(d)
            if d not in self.lists:
                self.list_others()
            tried, given = [], False
            while not given and len(tried) < 16 and receivers:
                to = min(receivers, key=lambda r: (-self.gap(r), r))
                receivers.remove(to)
                tried.append(to)
                given = self.transfer(d, to) or self.push(d, to)
            for r in ([d] if given else []) + tried:
                sort_in(r)
            if self.excess() <= 0.9 * self.marked:
                self.moved, self.marked = [], self.excess()

    def list_others(self):
        if not self.listed:
            self.listed = True
            missing = [r for r in range(self.q.p) if r not in self.lists]
            self.lists.update({r: sorted_objects(self.q, self.rank, r) for r in missing})

    def fits(self, to, *items):
        return self.room[to] >= sum(self.q.memory[i] for _, i in items)

    def move(self, item, to):
        i = item[1]
        source = self.rank[i]
        self.lists[source].remove(item)
        self.moved.append((i, source))
        self.assign(i, to)

    def assign(self, i, to):
        source, w, memory = self.rank[i], self.q.load[i], self.q.memory[i]
        self.rank[i] = to
        self.load[source] -= w
        self.load[to] += w
        self.room[source] += memory
        self.room[to] -= memory

    def undo(self):
        """Undo the migrations since the excess was last reduced by a tenth."""
        for i, source in reversed(self.moved):
            self.assign(i, source)

    def at_most(self, d, to, load):
        return next((x for x in reversed(self.lists[d]) if x[0] <= load and self.fits(to, x)), None)

    def at_least(self, d, to, low, high):
        fitting = (x for x in self.lists[d] if low <= x[0] <= high and self.fits(to, x))
        return next(fitting, None)

    def pair(self, d, to, low, high):
        mine = self.lists[d]
        upper = [x for x in mine if x[0] >= 0.5 * high]
        lower = [x for x in mine if x[0] < 0.5 * high]
        best = (0.0, [])
        for a in upper:
            b = next((x for x in reversed(lower) if x[0] <= high - a[0]), None)
            if b is None or best[0] >= low:
                break
            if a[0] + b[0] > best[0] and self.fits(to, a, b):
                best = (a[0] + b[0], [a, b])
        return best

    def transfer(self, d, to):
        given = False
        while -self.gap(d) > self.slack[d] and self.gap(to) > self.slack[to] and self.lists[d]:
            excess, gap = -self.gap(d), self.gap(to)
            most, ends = gap + self.slack[to], excess <= gap
            low = excess - self.slack[d] if ends else max(gap - self.spill[to], 0.5 * gap)
            high = min(excess + self.spill[d], most) if ends else most
            found, back = None, None
            if low > 2 * self.lists[d][-1][0]:
                found = self.one(self.at_most(d, to, high))
            found = found or self.choose(d, to, ends, low, high, most)
            if not found:
                break
            for item in found:
                if self.rank[item[1]] == to:
                    back = item
            if back:
                self.move(back, d)
                found.remove(back)
            for item in found:
                self.move(item, to)
            given = True
        return given

    @staticmethod
    def one(item):
        return [item] if item else None

    def choose(self, d, to, ends, low, high, most):
        one = self.at_least(d, to, low, high) if ends else None
        one = one or self.at_most(d, to, high)
        best = (one[0], [one]) if one else (0.0, [])
        if best[0] >= low:
            return best[1]
        other = self.pair(d, to, low, high)
        if other[0] < low:
            self.list_others()
            lists, room = (self.lists[d], self.lists[to]), (self.room[d], self.room[to])
            swap = exchange(self.q, *lists, *room, low, high)
            other = swap if swap[0] > other[0] else other
        best = other if other[0] > best[0] else best
        more = self.at_least(d, to, high, most) if ends and best[0] < low else None
        if more and (more[0] - high <= low - best[0] or not best[1]):
            return [more]
        return best[1] if best[0] >= 0.1 * low else []

    def push(self, d, to):
        self.list_others()
        excess, gap = -self.gap(d), self.gap(to)
        infinity = float("inf")
        if self.pushes == 0:
            return False
        if excess <= gap:
            item = self.at_least(d, to, excess, infinity)
        else:
            item = self.at_most(d, to, gap + 0.75 * excess)
            if item is None:
                item = self.at_least(d, to, 0.0, infinity)
                if item and not (self.lists[to] and self.lists[to][0][0] < 0.5 * item[0]):
                    item = None
        if item is None:
            return False
        self.move(item, to)
        self.pushes -= 1
        return True

    def relabel(self, placed):
        q = self.q
        if not self.alike():
            return placed
        pairs = {}  # in the order of the ranks
        for r in range(q.p):
            for i in range(q.n):
                if q.rank[i] == r:
                    pairs[r, placed[i]] = pairs.get((r, placed[i]), 0) + 1
        name = {}
        for r, part in sorted(pairs, key=lambda pair: -pairs[pair]):
            if part not in name and r not in name.values():
                name[part] = r
        left = [r for r in range(q.p) if r not in name.values()]
        for part in range(q.p):
            if part not in name:
                name[part] = left.pop(0)
        return [name[part] for part in placed]

    def go_home(self, rank, most):
        q = self.q
        loads, room = q.sums(rank), q.room(rank)
        moved = [i for i in range(q.n) if rank[i] != q.rank[i]]
        for i in sorted(moved, key=lambda i: (q.load[i], i)):
            h = q.rank[i]
            if (
                q.background[h] + (loads[h] + q.load[i]) / q.speed[h] <= most
                and room[h] >= q.memory[i]
            ):
                loads[rank[i]] -= q.load[i]
                loads[h] += q.load[i]
                room[rank[i]] += q.memory[i]
                room[h] -= q.memory[i]
                rank[i] = h
        return rank
