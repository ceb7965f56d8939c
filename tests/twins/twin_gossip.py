"""GossipLB and HierarchicalLB written plainly: all ranks in one loop, message by message."""

from __future__ import annotations

import math

import twin_place as twins
from twin_random import MASK, Random

SLACK, IDLE, FEW, CLOSE, KNOWN, MOST = 1e-9, 0.9, 0.02, 0.002, 8, 512
PATIENCE, ASK_BELOW, MOST_ASKED = 6, 0.25, 64
UNLIMITED = 2**63 - 1


class Rank:
    """One rank.  Its objects are tuples (id, load, memory, pinned)."""

    def __init__(self, r, q, seed):
        self.r, self.q = r, q
        self.has = [
            (i, q.load[i], q.memory[i], not q.movable[i]) for i in range(q.n) if q.rank[i] == r
        ]
        self.load = 0.0
        for i in range(q.n):
            self.load += q.load[i] if q.rank[i] == r else 0.0
        self.random = Random((Random(seed).next() + r) & MASK)
        self.known = []  # known ranks: [rank, free load, free memory]
        self.taken = 0
        self.was_crowded = False  # whether any rank was above its memory limit

    def time(self, load):
        return self.q.background[self.r] + load / self.q.speed[self.r]

    def allowed(self, time):
        return (time - self.q.background[self.r]) * self.q.speed[self.r]

    def memory(self):
        """Return the bytes of memory that are free."""
        if not self.q.limited:
            return UNLIMITED
        return self.q.limit[self.r] - sum(o[2] for o in self.has)

    def crowded(self):
        return self.memory() < 0 and any(o[2] > 0 and not o[3] for o in self.has)

    def overloaded(self, limit):
        if self.was_crowded and self.crowded():
            return True
        return self.load > self.allowed(limit) + SLACK * limit * self.q.speed[self.r]

    def give(self, k):
        o = self.has[k]
        self.load -= o[1]
        self.has[k] = self.has[-1]
        self.has.pop()
        return o

    def take(self, o):
        self.load += o[1]
        self.has.append(o)


class Gossip:
    from_home = True  # whether a second search begins from the placement before the LB step

    def __init__(self, s, seed, overload, fan_out, rounds, iterations, by_node=False):
        self.q = q = twins.Plain(s)
        q.limited = s.memory is not None and s.memory_limit is not None
        self.ranks = [Rank(r, q, seed) for r in range(q.p)]
        self.fan_out, self.iterations = fan_out, iterations
        self.rounds, reached = 1, fan_out
        while self.rounds < rounds and reached < q.p - 1:
            reached *= fan_out
            self.rounds += 1
        self.most_known = min(KNOWN * fan_out * self.rounds, MOST)
        self.average = self.mean_time()
        self.limit = max(overload * self.average, self.average, self.bound())
        self.failed, self.swapping = 0.0, False
        self.crowded = any(a.memory() < 0 for a in self.ranks)
        for a in self.ranks:
            a.was_crowded = self.crowded
        several = by_node and s.node is not None and len(set(s.node.tolist())) > 1
        node = s.node.tolist() if several else None
        self.within = node is not None
        self.by_node, self.asking, self.best = self.within, False, None
        for a in self.ranks:
            a.node = [] if node is None else [r for r in range(q.p) if node[r] == node[a.r]]

    def mean_time(self):
        q = self.q
        work = [a.load + b * v for a, b, v in zip(self.ranks, q.background, q.speed, strict=True)]
        return math.fsum(work) / math.fsum(q.speed)

    def bound(self):
        """Return a lower bound of the time, from the longest object and from fixed objects."""
        out = 0.0
        for a in self.ranks:
            fixed = 0.0
            for o in a.has:
                fixed += o[1] if o[3] else 0.0
            longest = max((o[1] for o in a.has if not o[3]), default=0.0)
            out = max(out, longest / max(self.q.speed), a.time(fixed))
        return out

    # ---- an iteration ------------------------------------------------------------------------

    def draw(self, a, wanted):
        members = a.node if self.within else range(self.q.p)
        if len(members) - 1 <= wanted:
            return [r for r in members if r != a.r]
        to = []
        while len(to) < wanted:
            r = members[a.random.below(len(members))]
            if r != a.r and r not in to:
                to.append(r)
        return to

    def free(self, a):
        usual = sum(o[2] for o in a.has) // len(a.has) if a.has and not self.swapping else 0
        return 0.0 if a.memory() < usual else a.allowed(self.limit) - a.load

    def tell(self, a, to, post):
        room = self.free(a)
        for r in to:
            if room > 0:
                post(r, (a.r, room, a.memory()))
            for k in a.known[: MOST // self.fan_out]:
                if k[0] != r:
                    post(r, tuple(k))

    def spread(self, a, post):
        if self.free(a) > 0 or a.known:
            self.tell(a, self.draw(a, self.fan_out), post)

    def ask(self, a, post):
        if a.overloaded(self.limit):
            for r in self.draw(a, min(self.most_known // (self.fan_out + 1), MOST_ASKED)):
                post(r, None)

    def remember(self, a, note):
        if note[0] == a.r or any(k[0] == note[0] for k in a.known):
            return
        a.heard += 1
        if len(a.known) < self.most_known:
            a.known.append(list(note))
            return
        k = a.random.below(a.heard)
        if k < self.most_known:
            a.known[k] = list(note)

    def offer(self, a, k, ceiling, post):
        _, load, memory, _ = a.has[k]
        chance = {}  # weight of each known rank in the random choice: the load that it could take
        for j, r in enumerate(a.known):
            most = r[2] / memory * load if memory > 0 else r[1]
            if r[1] >= load and r[2] >= memory and min(most, r[1]) > 0:
                chance[j] = min(most, r[1])
        total = 0.0
        for x in chance.values():
            total += x
        if total <= 0:
            return False
        left = a.random.uniform() * total
        j = -1
        while left >= 0 and (rest := [k for k in chance if k > j]):
            j = rest[0]
            left -= chance[j]
        r = a.known[j]
        post(r[0], ("offer", a.give(k), ceiling))
        r[1] -= load
        r[2] -= memory
        return True

    def offer_memory(self, a, post):
        """Offer objects until memory suffices: the smallest that is enough, else the largest."""
        under = 2**63
        while a.memory() < 0:
            some = [(o[2], k) for k, o in enumerate(a.has) if not o[3] and 0 < o[2] < under]
            if not some:
                return
            enough = [x for x in some if x[0] >= -a.memory()]
            memory, k = min(enough) if enough else max(some, key=lambda x: (x[0], -x[1]))
            if not self.offer(a, k, self.limit, post):
                under = memory

    def offer_one(self, a, excess, ceiling, post):
        """Offer the lightest object that alone removes the excess; return what remains."""
        enough = [(o[1], k) for k, o in enumerate(a.has) if not o[3] and o[1] >= excess]
        if enough:
            load, k = min(enough)
            excess -= load if self.offer(a, k, ceiling, post) else 0.0
        return excess

    def offers(self, a, post):
        if not a.overloaded(self.limit) or not a.known:
            return
        room = a.memory()
        self.offer_memory(a, post)
        excess = a.load - a.allowed(self.limit)
        if excess <= SLACK * self.limit * self.q.speed[a.r]:
            return
        ceiling, total = self.limit, 0.0
        for k in a.known:
            total += k[1]
        if not self.within and excess > total > 0:
            excess *= len(a.known) / (len(a.known) + 1.0)
            for k in a.known:
                if excess > total:
                    k[1] *= excess / total
            ceiling = 0.5 * (self.limit + a.time(a.load))
        a.has.sort(key=lambda o: 2e30 if o[3] else o[1])
        n = sum(not o[3] for o in a.has)
        excess = self.offer_one(a, excess, ceiling, post)
        for k in range(n - 1, -1, -1) if excess > 0 else []:
            load = a.has[k][1]
            if 0 < load <= excess and self.offer(a, k, ceiling, post):
                excess -= load
        if excess > 0:
            excess = self.offer_one(a, excess, ceiling, post)
        if self.swapping and excess > 0:
            self.offer_swaps(a, room, post)

    def offer_swaps(self, a, room, post):
        most = min(len(a.known), self.fan_out)
        slack = room // most if self.q.limited and room >= most > 0 else 0
        for j in range(most):
            if a.has:
                other = j + a.random.below(len(a.known) - j)
                a.known[j], a.known[other] = a.known[other], a.known[j]
                k = a.random.below(len(a.has))
                if not a.has[k][3] and a.has[k][1] > 0:
                    post(a.known[j][0], ("swap", a.give(k), self.limit, slack))

    def answer(self, a, sender, note, ceiling, post):
        kind, o, slack = note[0], note[1], note[3] if len(note) > 3 else 0
        fits = a.load + o[1] <= a.allowed(ceiling) and o[2] <= a.memory()
        k = None
        if not fits and kind == "swap":
            least = a.load + o[1] - a.allowed(self.limit)
            most = o[1] - SLACK * self.limit * self.q.speed[a.r]
            smaller = [
                (x[1], k)
                for k, x in enumerate(a.has)
                if not x[3]
                and least <= x[1] < most
                and x[2] - o[2] <= slack
                and o[2] - x[2] <= a.memory()
            ]
            k = min(smaller)[1] if smaller else None
        if k is not None:
            post(sender, a.give(k))
        if fits or k is not None:
            a.taken += 1
            a.take(o)
        else:
            post(sender, o)

    def exchange(self, action):
        """Let all ranks act; return their messages by receiver, in the order of senders."""
        mail = [[] for _ in self.ranks]
        for a in self.ranks:
            action(a, lambda to, note, a=a: mail[to].append((a.r, note)))
        return mail

    def begin(self):
        for a in self.ranks:
            a.known, a.heard = [], 0
        return self.exchange(self.spread)

    def hear(self, mail):
        for a in self.ranks:
            for _, note in mail[a.r]:
                self.remember(a, note)

    def talk(self, mail):
        """Do the rounds between the first one and the offers."""
        if self.asking:
            self.hear(mail)
            mail = self.exchange(self.ask)
            return self.exchange(
                lambda a, post, mail=mail: [self.tell(a, [r], post) for r, _ in mail[a.r]]
            )
        for _ in range(self.rounds - 1):
            self.hear(mail)
            mail = self.exchange(self.spread)
        return mail

    def next_limit(self, n_overloaded, longest):
        """Return the next limit; None: the search is over."""
        self.failed = self.failed if n_overloaded == 0 else self.limit
        crowded = self.crowded and self.failed <= len(self.ranks) * self.average
        more = 1.1 * self.failed  # equals `failed` if all loads are zero
        if crowded and n_overloaded and longest <= self.failed < more:
            return more
        if self.failed == 0.0 or longest - self.failed <= CLOSE * self.failed:
            return None
        limit = 0.5 * (self.failed + longest)
        return None if n_overloaded == 0 and limit >= self.limit else limit

    def away(self):
        return sum(self.q.rank[o[0]] != a.r for a in self.ranks for o in a.has)

    def begin_again(self, longest):
        self.best = self.away(), [(list(a.has), a.load) for a in self.ranks]
        for a in self.ranks:
            a.has, a.load = list(a.home), a.home_load
        self.swapping, self.within = False, self.by_node
        self.limit = (1.0 + CLOSE) * longest

    def search(self):
        """Run iterations until the search is over; return (number overloaded, longest time)."""
        stalled, iteration, last, mail = 0, 0, 0, None
        while True:
            for a in self.ranks:
                for _, o in mail[a.r] if mail else []:
                    a.take(o)
            n_overloaded = sum(a.overloaded(self.limit) for a in self.ranks)
            taken, longest = (
                sum(a.taken for a in self.ranks),
                max(a.time(a.load) for a in self.ranks),
            )
            mail = self.begin()
            for a in self.ranks:
                a.taken = 0
            few_helped = n_overloaded > IDLE * last
            idle = iteration > 0 and (
                taken <= FEW * n_overloaded or ((self.swapping or self.within) and few_helped)
            )
            last, stalled = n_overloaded, stalled + 1 if idle else 0
            if stalled and self.within:  # the remaining objects must leave the node
                self.within, stalled = False, 0
            self.swapping = self.swapping or stalled > 0
            if iteration == self.iterations:
                return n_overloaded, longest
            if n_overloaded == 0 or stalled == PATIENCE:
                limit = None if self.best else self.next_limit(n_overloaded, longest)
                if limit is None:
                    return n_overloaded, longest
                self.limit = limit
                stalled, mail = 0, None
                iteration += 1
                continue
            few = n_overloaded <= ASK_BELOW * self.q.p
            self.asking = self.rounds >= 3 and not self.within and few
            self.hear(self.talk(mail))
            offered = self.exchange(self.offers)
            mail = self.exchange(
                lambda a, post, offered=offered: self.answers(a, offered[a.r], post)
            )
            iteration += 1

    def run(self):
        before = self.q.times(self.q.rank)
        for a in self.ranks:
            a.home, a.home_load = list(a.has), a.load
        _, longest = self.search()
        if self.from_home and self.failed > 0 and self.away() > 0:
            self.begin_again(longest)
            n_overloaded, _ = self.search()
            if n_overloaded > 0 or self.away() >= self.best[0]:
                for a, (has, load) in zip(self.ranks, self.best[1], strict=True):
                    a.has, a.load = has, load
        rank = list(self.q.rank)
        for a in self.ranks:
            for o in a.has:
                rank[o[0]] = a.r
        if any(a.memory() < 0 for a in self.ranks):
            return None
        longer = not self.crowded and self.q.n and max(self.q.times(rank)) > max(before)
        return list(self.q.rank) if longer else rank

    def answers(self, a, offered, post):
        # A sender's first ceiling above the limit also holds for its later offers.
        ceiling = {}
        for sender, note in offered:
            if note[2] > self.limit:
                ceiling.setdefault(sender, note[2])
            self.answer(a, sender, note, ceiling.get(sender, self.limit), post)


def gossip(s, seed=0, overload=1.01, fan_out=4, rounds=3, iterations=100):
    """Return the rank of each object as GossipLB places it; None if limits are still exceeded."""
    return Gossip(s, seed, overload, fan_out, rounds, iterations).run()


def hierarchical(s, seed=0, overload=1.01, fan_out=4, rounds=3, iterations=100):
    """Return the rank of each object as HierarchicalLB places it."""
    return Gossip(s, seed, overload, fan_out, rounds, iterations, by_node=True).run()
