"""Eom and Hollingsworth 1998, figure 2, in plain Python: the oracle of csrc/whatif/path.c."""

from collections import defaultdict

from pylb.prediction.recorder.recording import Collective, Flag, OpKind

NOTHING, MOVED, ZEROED = range(3)


class Twin:
    """The longest path to the end of each rank.

    Ranks advance in turns, each as far as it can, until none can continue.
    """

    def __init__(
        self, run, change=NOTHING, procedure=-1, source=-1, target=-1, kept=False, alpha=0, beta=0
    ):
        self.ops = [
            [dict(zip(o.dtype.names, o.tolist(), strict=True)) for o in rank] for rank in run.ops
        ]
        self.comms = [c.tolist() for c in run.comms]
        self.change, self.procedure = change, procedure
        self.source, self.target, self.kept = source, target, kept
        self.alpha, self.beta = alpha, beta
        p = len(self.ops)
        self.longest, self.work, self.gain = [0] * p, [0] * p, [0] * p
        self.depth, self.at, self.begun = [0] * p, [0] * p, [False] * p
        self.open = [{} for _ in range(p)]
        self.mail = defaultdict(dict)  # messages that were sent: mail[channel][number]
        self.sent, self.posted = defaultdict(int), defaultdict(int)
        self.entered = defaultdict(dict)  # longest path so far, by collective and member
        self.met = defaultdict(int)

    def run(self):
        going = True
        while going:
            going = False
            for rank in range(len(self.ops)):
                while self.at[rank] < len(self.ops[rank]) and self.step(rank):
                    going = True
        stuck = sum(self.at[r] < len(self.ops[r]) for r in range(len(self.ops)))
        return self.longest, stuck

    def step(self, r):
        op = self.ops[r][self.at[r]]
        if not self.begun[r]:
            self.begin(r, op)
            self.begun[r] = True
        if not self.complete(r, op):
            return False
        self.at[r] += 1
        self.begun[r] = False
        return True

    def begin(self, r, op):
        active = self.depth[r] > 0
        if not (active and self.change == ZEROED):
            self.longest[r] += op["compute"]
        if active and self.change == MOVED and self.source in (-1, r):
            self.work[r] += op["compute"]
            self.gain[r] += op["compute"]
        kind = OpKind(op["kind"])
        if kind == OpKind.PAUSE:
            self.longest[r] += op["bytes"]
        elif kind in (OpKind.SEND, OpKind.ISEND):
            self.send(r, op)
        elif kind == OpKind.RECV:
            self.open[r]["now"] = ("receive", self.post(r, op["peer"], op["comm"], op["tag"]))
        elif kind == OpKind.IRECV:
            wait = self.wait_of(r, op["request"])
            source = wait["peer"] if op["flags"] & Flag.ANY_SOURCE and wait else op["peer"]
            tag = wait["tag"] if op["flags"] & Flag.ANY_TAG and wait else op["tag"]
            if wait and wait["flags"] & Flag.CANCELLED:
                self.open[r][op["request"]] = ("nothing", None)
            else:
                place = self.post(r, source, op["comm"], tag)
                self.open[r][op["request"]] = ("receive", place)
        elif kind in (OpKind.COLL, OpKind.ICOLL):
            number = self.met[op["comm"], r]
            self.met[op["comm"], r] += 1
            self.entered[op["comm"], number][op["tag"]] = self.longest[r]
            self.open[r]["now" if kind == OpKind.COLL else op["request"]] = ("meet", (op, number))
        elif kind == OpKind.ENTER:
            self.depth[r] += op["tag"] == self.procedure
        elif kind == OpKind.LEAVE and op["tag"] == self.procedure:
            self.depth[r] = max(0, self.depth[r] - 1)

    def wait_of(self, r, request):
        for op in self.ops[r][self.at[r] + 1 :]:
            if op["kind"] == OpKind.WAIT and op["request"] == request:
                return op
        return None

    def post(self, r, source, comm, tag):
        channel = (source, r, comm, tag)
        self.posted[channel] += 1
        return channel, self.posted[channel]

    def send(self, r, op):
        channel = (r, op["peer"], op["comm"], op["tag"])
        self.sent[channel] += 1
        moves = self.change == MOVED and self.target in (-1, op["peer"])
        gone = (self.work[r], self.gain[r]) if moves else (0, 0)
        transfer = round(1e9 * (self.alpha + self.beta * op["bytes"]))
        self.mail[channel][self.sent[channel]] = (self.longest[r] + transfer, *gone)
        if moves:
            self.longest[r] -= self.gain[r]
        if moves or not self.kept:
            self.work[r] = self.gain[r] = 0

    def arrive(self, r, Cs, Cr):
        if self.kept:
            self.gain[r] = min(self.gain[r], max(0, Cr - Cs))
        else:
            self.work[r] = self.gain[r] = 0

    def complete(self, r, op):
        kind = OpKind(op["kind"])
        if kind in (OpKind.RECV, OpKind.COLL):
            where = "now"
        elif kind == OpKind.WAIT:
            where = op["request"]
        else:
            return True
        what, of = self.open[r].get(where, ("nothing", None))
        if what == "receive":
            channel, number = of
            if number not in self.mail[channel]:
                return False
            longest, work, gain = self.mail[channel][number]
            Cs, Cr = longest - gain, self.longest[r] + work
            self.arrive(r, Cs, Cr)
            self.longest[r] = max(Cs, Cr)
        elif what == "meet" and not self.leave(r, *of):
            return False
        self.open[r].pop(where, None)
        return True

    def leave(self, r, op, number):
        there = self.entered[op["comm"], number]
        kind, me, root = Collective(op["what"]).name, op["tag"], op["peer"]
        everybody = range(len(self.comms[op["comm"]]))
        if kind in ("BCAST", "SCATTER"):
            needed = {root} - {me}
        elif kind in ("GATHER", "REDUCE"):
            needed = set(everybody) - {me} if me == root else set()
        elif kind in ("SCAN", "EXSCAN"):
            needed = set(range(me))
        else:
            needed = set(everybody) - {me}
        if not needed <= set(there):
            return False
        if needed:
            Cs = max(there[i] for i in needed)
            self.arrive(r, Cs, self.longest[r])
            self.longest[r] = max(self.longest[r], Cs)
        elif not self.kept:
            self.work[r] = self.gain[r] = 0
        return True
