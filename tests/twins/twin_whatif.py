"""The simulation of csrc/whatif/whatif.h in plain Python, slow and with lists only.

Each process is a generator, which yields what it needs next: ("work", seconds), ("slot", slot),
("probe", None) or ("pause", seconds).  A receive from any source takes the recorded message.
"""

import math

from pylb.prediction.recorder.layout import Collective, Flag, OpKind


def exchanges(what, me, size, root, nbytes):
    """Return (to, from, bytes) of each step of a collective."""
    name = Collective(what).name
    if name in ("BCAST", "SCATTER", "GATHER", "REDUCE"):
        v = (me - root) % size
        subtree = {}  # bytes for each child and the ranks below it
        bit = 1
        while bit < size and not v & bit:
            if v + bit < size:
                personal = min(bit, size - v - bit) if name in ("GATHER", "SCATTER") else 1
                subtree[v + bit] = nbytes * personal
            bit *= 2
        mine = nbytes * (min(bit, size - v) if name in ("GATHER", "SCATTER") else 1)
        down = name in ("BCAST", "SCATTER")
        world = lambda u: (u + root) % size  # noqa: E731
        out = []
        if down:
            if v:
                out.append((-1, world(v - bit), 0))
            out += [(world(c), -1, b) for c, b in sorted(subtree.items(), reverse=True)]
        else:
            out += [(-1, world(c), 0) for c in sorted(subtree)]
            if v:
                out.append((world(v - bit), -1, mine))
        return out
    if name == "ALLTOALL" and nbytes >= 256:
        return [((me + d) % size, (me - d) % size, nbytes) for d in range(1, size)]
    out = []
    bit = 1
    while bit < size:
        sent = {
            "BARRIER": 0,
            "ALLGATHER": nbytes * min(bit, size - bit),
            "ALLTOALL": nbytes * ((size + 1) // 2),
        }.get(name, nbytes)
        if name in ("SCAN", "EXSCAN"):
            out.append((me + bit if me + bit < size else -1, me - bit if me >= bit else -1, sent))
        else:
            out.append(((me + bit) % size, (me - bit) % size, sent))
        bit *= 2
    return out


class Slot:
    """A request; `done`: time at which it is complete, None: not known yet."""

    def __init__(self):
        self.done = None


class Process:
    def __init__(self, rank):
        self.rank = rank
        self.flying, self.there, self.posts, self.held = [], [], [], []
        self.requests = {}
        self.state = "new"  # later: work, wait, pause or end
        self.left = 0.0
        self.until = math.inf  # time at which the rank wakes up
        self.slot = None
        self.probe = None
        self.since = 0.0
        self.waiting = self.paused = self.finish = 0.0


class Twin:
    """The simulation; `run()` returns the time when each rank ends."""

    def __init__(self, ops, comms, target):
        self.ops, self.comms, self.t = ops, comms, target
        self.now = 0.0
        self.processes = [Process(r) for r in range(len(ops))]
        self.icolls = {}
        self.counts = {}

    # --- what processes do --------------------------------------------------------------------

    def link(self, a, b):
        i, j = (self.t.node[self.t.placement[r]] for r in (a, b))
        return self.t.alpha[i, j], self.t.beta[i, j]

    def life(self, me):
        for at, op in enumerate(self.ops[me.rank]):
            kind, flags = OpKind(int(op["kind"])), int(op["flags"])
            free = (
                kind in (OpKind.END, OpKind.PAUSE, OpKind.ENTER, OpKind.LEAVE)
                or flags & Flag.SAME_CALL
            )
            work = 1e-9 * int(op["compute"]) + (0.0 if free else self.t.overhead)
            if work > 0:
                yield "work", work
            for m, slot in me.held:
                self.transfer(m, me, slot)
            me.held = []
            yield from self.perform(me, op, kind, flags, at)

    def perform(self, me, op, kind, flags, at):
        peer, tag, comm = int(op["peer"]), int(op["tag"]), int(op["comm"])
        nbytes, request = int(op["bytes"]), int(op["request"])
        want = (comm, peer, tag)
        if kind in (OpKind.SEND, OpKind.ISEND):
            slot = Slot()
            eager = flags & Flag.BUFFERED or (
                nbytes <= self.t.eager and not flags & Flag.SYNCHRONOUS
            )
            if eager:
                slot.done = self.now
            self.send(me.rank, peer, (comm, tag), nbytes, None if eager else slot)
            if kind == OpKind.SEND:
                yield "slot", slot
            else:
                me.requests[request] = slot
        elif kind in (OpKind.RECV, OpKind.IRECV):
            if kind == OpKind.IRECV and flags & 6:
                wait = next(
                    o
                    for o in self.ops[me.rank][at + 1 :]
                    if o["kind"] == OpKind.WAIT and o["request"] == request
                )
                want = (comm, int(wait["peer"]), int(wait["tag"]))
            slot = self.receive(me, want)
            if kind == OpKind.RECV:
                yield "slot", slot
            else:
                me.requests[request] = slot
        elif kind == OpKind.WAIT:
            if request in me.requests:
                yield "slot", me.requests.pop(request)
        elif kind == OpKind.PROBE:
            while not any(self.fits(want, m) for m in me.there):
                yield "probe", None
        elif kind == OpKind.COLL:
            members = self.comms[comm]
            steps = exchanges(int(op["what"]), tag, len(members), peer, nbytes)
            for i, (to, source, sent) in enumerate(steps):
                if to >= 0:
                    self.send(me.rank, int(members[to]), (comm, "collective"), sent, None)
                if source >= 0:
                    slot = self.receive(me, (comm, int(members[source]), "collective"))
                    waits = slot.done is None or slot.done > self.now
                    yield "slot", slot
                    if waits and i + 1 < len(steps) and self.t.overhead > 0:
                        yield "work", self.t.overhead
        elif kind == OpKind.ICOLL:
            me.requests[request] = self.icollective(me, op)
        elif kind == OpKind.PAUSE:
            yield "pause", 1e-9 * nbytes

    def icollective(self, me, op):
        comm, own, root = int(op["comm"]), int(op["tag"]), int(op["peer"])
        members = self.comms[comm]
        number = self.counts[comm, own] = self.counts.get((comm, own), -1) + 1
        one = self.icolls.setdefault((comm, number), {"in": {}, "slots": {}})
        one["in"][own] = self.now
        slot = one["slots"][own] = Slot()
        name = Collective(int(op["what"])).name
        alpha, beta = self.t.alpha.max(), self.t.beta.max()
        nbytes = int(op["bytes"])
        steps = exchanges(int(op["what"]), 0, len(members), 0, nbytes)
        total = sum(b for _, _, b in steps)
        if name == "GATHER":
            total = nbytes * (len(members) - 1)
        if name == "REDUCE":
            total = nbytes * len(steps)
        tree = alpha * len(steps) + beta * total
        for i, its in one["slots"].items():
            from_root = name in ("BCAST", "SCATTER")
            to_root = name in ("GATHER", "REDUCE")
            if its.done is not None:
                continue
            if (from_root and i == root) or (to_root and i != root):
                done = self.now if i == own else None
            elif from_root:
                done = max(self.now, one["in"][root] + tree) if root in one["in"] else None
            else:
                done = self.now + tree if len(one["in"]) == len(members) else None
            if done is not None:
                self.complete(int(members[i]), its, done)
        return slot

    # --- messages -------------------------------------------------------------------------------

    def send(self, src, dst, channel, nbytes, slot):
        at = self.now + self.link(src, dst)[0]
        to = self.processes[dst]
        to.flying.append({"at": at, "src": src, "channel": channel, "bytes": nbytes, "slot": slot})
        to.flying.sort(key=lambda m: m["at"])

    @staticmethod
    def fits(want, m):
        comm, source, tag = want
        return m["channel"] == (comm, tag) and source == m["src"]

    def receive(self, me, want):
        slot = Slot()
        for m in me.there:
            if self.fits(want, m):
                me.there.remove(m)
                self.transfer(m, me, slot)
                return slot
        me.posts.append((want, slot))
        return slot

    def transfer(self, m, to, slot):
        alpha, beta = self.link(m["src"], to.rank)
        if m["slot"] is None:
            self.complete(to.rank, slot, max(self.now, m["at"] + beta * m["bytes"]))
        else:
            done = self.now + 2 * alpha + beta * m["bytes"]
            self.complete(to.rank, slot, done)
            self.complete(m["src"], m["slot"], done)

    def complete(self, rank, slot, when):
        slot.done = when
        process = self.processes[rank]
        if process.state == "wait" and process.slot is slot:
            process.until = when

    def arrive(self, to):
        m = to.flying.pop(0)
        for post in to.posts:
            if self.fits(post[0], m):
                to.posts.remove(post)
                if m["slot"] is not None and to.state != "wait":
                    to.held.append((m, post[1]))
                else:
                    self.transfer(m, to, post[1])
                return
        to.there.append(m)
        if to.probe:
            to.until = self.now

    # --- processors ------------------------------------------------------------------------------

    def go_on(self, me):
        """Advance a rank until it needs time."""
        while True:
            try:
                what, value = next(me.life)
            except StopIteration:
                me.state, me.finish = "end", self.now
                return
            if what == "slot" and value.done is not None and value.done <= self.now:
                continue
            if what == "work":
                me.state, me.left = "work", value
                return
            me.state = "pause" if what == "pause" else "wait"
            me.since = self.now
            me.slot, me.probe, me.until = None, what == "probe", math.inf
            if what == "pause":
                me.until = self.now + value
            elif what == "slot":
                me.slot = value
                me.until = math.inf if value.done is None else value.done
            return

    def there(self, q, time):
        """Return the seconds in which processor q was available up to a time."""
        share, period = self.t.share[q], self.t.period
        if share >= 1.0:
            return time
        if period == 0:
            return share * time
        since = time - period * (math.fmod(0.6180339887498949 * q, 1.0) - 1.0)
        whole = since // period
        return whole * share * period + min(since - whole * period, share * period)

    def when(self, q, seconds):
        """Return when the processor will have been available for this many more seconds."""
        if seconds in (0, math.inf) or self.t.share[q] >= 1.0:
            return self.now + seconds
        aim = self.there(q, self.now) + seconds
        low, high = self.now, self.now + seconds / self.t.share[q] + 2 * self.t.period
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.there(q, middle) >= aim - 1e-13 else (middle, high)
        return high

    def working(self, q):
        here = [p for p in self.processes if self.t.placement[p.rank] == q]
        return [p for p in here if p.state == "work"]

    def next_of(self, q):
        """Return (time, rank) of the first rank on processor q whose work ends."""
        working = self.working(q)
        if not working:
            return math.inf, None
        left, rank = min((p.left, p.rank) for p in working)
        return self.when(q, left * len(working) / self.t.speed[q]), rank

    def advance(self, to):
        for q, speed in enumerate(self.t.speed):
            working = self.working(q)
            for p in working:
                p.left -= speed * (self.there(q, to) - self.there(q, self.now)) / len(working)
        self.now = to

    def run(self):
        for me in self.processes:
            me.life = self.life(me)
        for me in self.processes:
            self.go_on(me)
        while True:
            events = [(p.flying[0]["at"], 0, p.rank) for p in self.processes if p.flying]
            events += [(p.until, 1, p.rank) for p in self.processes]
            events += [(self.next_of(q)[0], 2, q) for q in range(len(self.t.speed))]
            time, kind, which = min(events)
            if time == math.inf:
                break
            if kind == 2:
                _, rank = self.next_of(which)
                self.advance(time)
                self.processes[rank].left = 0.0
                self.go_on(self.processes[rank])
                continue
            self.advance(time)
            me = self.processes[which]
            if kind == 0:
                self.arrive(me)
            else:
                me.until = math.inf
                name = "paused" if me.state == "pause" else "waiting"
                setattr(me, name, getattr(me, name) + self.now - me.since)
                me.since = self.now
                me.probe = None
                self.go_on(me)
        return [p.finish if p.state == "end" else None for p in self.processes]
