"""DiffusionLB written plainly: all ranks in one loop, message by message."""

from __future__ import annotations

import math

import numpy as np
import twin_gossip
import twin_place

import pylb

WEAK, CLOSE, MARGIN, STEPS, MOVES = 0.01, 0.002, 0.002, 200, 200


class Link:
    def __init__(self, rank, weight):
        self.rank, self.weight = rank, weight
        self.r = self.p = self.x = self.flow = 0.0


class Diffusion(twin_gossip.Gossip):
    from_home = False

    def __init__(self, s, seed, overload, neighbours):
        super().__init__(s, seed, overload, fan_out=4, rounds=3, iterations=100)
        none = [], [], []
        sends = list(zip(*(np.asarray(x).tolist() for x in (s.edges or none)[:3]), strict=True))
        for e in range(s.n_multicasts):  # an edge to each receiver
            to = s.multicast_dst[s.multicast_start[e] : s.multicast_start[e + 1]].tolist()
            from_, nbytes = int(s.multicast_src[e]), float(s.multicast_bytes[e])
            sends += [(from_, one, nbytes) for one in to]
        self.sends, self.neighbours = sends, neighbours
        self.mean = self.average
        self.scale = self.mean * (math.fsum(self.q.speed) / self.q.p)

    def run(self):
        if max(self.q.times(self.q.rank)) > self.limit:
            self.tie()
            self.link()
            self.flow()
            self.move()
        return super().run()

    def beyond(self, a, time):
        return (a.load - a.allowed(time)) / self.scale

    # ---- which objects communicate -----------------------------------------------------------

    def tie(self):
        """Fill a.ties[object]: (bytes, other object), latest first; a.where[other]: its rank."""
        home = self.q.rank
        for a in self.ranks:
            a.ties = {o[0]: [] for o in a.has}
            a.where = {o[0]: a.r for o in a.has}
            a.under_way = 0
        for i, j, nbytes in self.sends:
            self.add(self.ranks[home[i]], i, j, home[j], nbytes)
            if home[i] == home[j]:
                self.add(self.ranks[home[i]], j, i, home[i], nbytes)
        for a in self.ranks:  # in order of the senders' ranks
            for i, j, nbytes in sorted(self.sends, key=lambda e: home[e[0]]):
                if home[j] == a.r != home[i]:
                    self.add(a, j, i, home[i], nbytes)

    @staticmethod
    def add(a, i, j, where, nbytes):
        a.ties.setdefault(i, []).insert(0, (nbytes, j))
        a.where.setdefault(j, where)

    def link(self):
        p, chosen = self.q.p, []
        for a in self.ranks:
            nbytes = {}
            for ties in a.ties.values():
                for w, j in ties:
                    if a.where[j] != a.r:
                        nbytes[a.where[j]] = nbytes.get(a.where[j], 0.0) + w
            chosen.append(sorted(nbytes, key=lambda r: (-nbytes[r], r))[: self.neighbours])
        for a in self.ranks:
            links = {r: Link(r, 1.0) for r in chosen[a.r] if a.r in chosen[r]}
            onward = {2 * a.r % p, (2 * a.r + 1) % p}
            back = {r for r in range(p) if a.r in (2 * r % p, (2 * r + 1) % p)}
            for r in (onward | back) - {a.r} - set(links):
                links[r] = Link(r, WEAK)
            a.links = dict(sorted(links.items()))

    # ---- conjugate gradients -----------------------------------------------------------------

    def flow(self):
        over = [max(self.beyond(a, self.limit), 0.0) for a in self.ranks]
        lack = [max(-self.beyond(a, self.mean), 0.0) for a in self.ranks]
        most, lacking = math.fsum(over), math.fsum(lack)
        for a, b in zip(self.ranks, over, strict=True):
            below = self.beyond(a, self.mean)
            a.b = b if b > 0 else below * (most / lacking) if most > 0 and below < 0 else 0.0
            a.p = a.x = 0.0
        last = None
        for _ in range(STEPS):
            if max(abs(a.b) for a in self.ranks) <= CLOSE:
                break
            gamma = math.fsum(a.b * a.b for a in self.ranks)
            beta = 0.0 if last is None else gamma / last
            last = gamma
            residual = [a.b for a in self.ranks]
            for a in self.ranks:
                a.p = a.b + beta * a.p
                a.energy = 0.0
                for link in a.links.values():
                    link.p = residual[link.rank] + beta * link.p
                    d = a.p - link.p
                    a.energy += 0.5 * link.weight * d * d
            energy = math.fsum(a.energy for a in self.ranks)
            alpha = gamma / energy if energy > 0 else 0.0
            for a in self.ranks:
                product = 0.0
                for link in a.links.values():
                    product += link.weight * (a.p - link.p)
                    link.x += alpha * link.p
                a.x += alpha * a.p
                a.b -= alpha * product
        for a in self.ranks:
            for link in a.links.values():
                link.flow = self.scale * link.weight * (a.x - link.x)

    # ---- objects -----------------------------------------------------------------------------

    def move(self):
        mail, steps = self.exchange(self.give_away), 0
        while True:
            given = any(note[0] == "object" for m in mail for _, note in m)
            steps += given

            def act(a, post, mail=mail, more=given and steps < MOVES):
                self.take_in(a, mail[a.r], post)
                if more:
                    self.give_away(a, post)

            mail = self.exchange(act)
            if not given:
                return

    def give_away(self, a, post):
        budget = (self.beyond(a, self.mean) + MARGIN) * self.scale
        flows = [max(link.flow, 0.0) for link in a.links.values()]
        total = 0.0
        for flow in flows:
            total += flow
        part = min(1.0, budget / total) if total > 0 else 0.0
        if part * max(flows, default=0.0) <= MARGIN * self.scale:
            return
        going = self.choose(a, {k: part * link.flow for k, link in a.links.items()})
        for k, to in going.items():
            a.links[to].flow -= a.has[k][1]
            a.where[a.has[k][0]] = to
        for k in range(len(a.has) - 1, -1, -1):
            if k in going:
                self.send_off(a, k, going[k], post)

    def choose(self, a, flows):
        """Return {index of the object: rank}: CommAwareRefineLB between this rank and its links."""
        n, margin = len(a.has), MARGIN * self.scale
        flows = {r: flow for r, flow in flows.items() if flow > margin}
        limit = a.load + (max(flows.values()) + margin)
        at = {o[0]: k for k, o in enumerate(a.has)}
        seat = {r: n + 1 + k for k, r in enumerate(flows)}
        edges = []
        for i, o in enumerate(a.has):
            for nbytes, peer in a.ties[o[0]]:
                j = at[peer] if peer in at else seat.get(a.where[peer], -1)
                edges += [(i, j, nbytes)] if j > i else []
        s = pylb.Snapshot(
            [o[1] for o in a.has] + [0.0] * (len(flows) + 1),
            [0] * n + list(range(len(flows) + 1)),
            n_ranks=len(flows) + 1,
            background=[max(limit + (sum(flows.values(), -margin) - a.load), 0.0)]
            + [max(limit + (-flow - margin), 0.0) for flow in flows.values()],
            migratable=[not o[3] for o in a.has] + [False] * (len(flows) + 1),
            edges=tuple(zip(*edges, strict=True)) if edges else None,
        )
        rank = twin_place.refine_comm(s, limit=limit)
        ranks = [a.r, *flows]
        return {k: ranks[rank[k]] for k in range(n) if rank[k]}

    def send_off(self, a, k, to, post):
        o, told = a.give(k), None
        a.under_way += o[2]
        post(to, ("object", o))
        for w, j in a.ties[o[0]]:
            where = a.where[j]
            post(to, ("tie", o[0], j, where, w))
            if where not in (a.r, to, told):
                post(where, ("moved", o[0], to))
                told = where
        a.ties[o[0]] = []

    def take_in(self, a, mail, post):
        refused = None
        back = sum(note[1][2] for _, note in mail if note[0] == "no room")
        room = a.memory() - a.under_way - back
        a.under_way = 0
        for sender, note in mail:
            kind = note[0]
            if kind == "moved":
                if a.where.get(note[1], a.r) != a.r:
                    a.where[note[1]] = note[2]
            elif kind == "tie" and note[1] != refused:
                _, i, j, where, w = note
                self.add(a, i, j, where, w)
            elif kind == "tie" or (kind == "object" and note[1][2] > room):
                refused = note[1] if kind == "tie" else note[1][0]
                post(sender, note if kind == "tie" else ("no room", note[1]))
            else:
                link, o = a.links[sender], note[1]
                room -= o[2] if kind == "object" else 0
                link.flow = link.flow + o[1] if kind == "object" else 0.0
                a.where[o[0]] = a.r
                a.ties.setdefault(o[0], [])
                a.take(o)


def diffusion(s, seed=0, overload=1.01, neighbours=8):
    """Return the rank of each object as DiffusionLB places it."""
    return Diffusion(s, seed, overload, neighbours).run()
