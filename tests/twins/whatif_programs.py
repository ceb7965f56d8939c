"""Random programs that end on any target: for each rank, a list of operations as dicts."""

import numpy as np

from pylb.prediction.recorder.recording import Collective, Flag, Recording

S = 1_000_000_000  # nanoseconds
ROOTED = ("BCAST", "GATHER", "SCATTER", "REDUCE")


def program(seed, ranks=4, steps=40, wildcards=True):
    """Return random steps, in the same order on all ranks: no rank waits for a later step."""
    rng = np.random.default_rng(seed)
    ops = [[] for _ in range(ranks)]
    open_requests = [[] for _ in range(ranks)]
    fresh = [0] * ranks
    groups = [list(range(ranks))]
    if ranks > 2:
        groups.append(sorted(rng.choice(ranks, ranks - 1, replace=False).tolist()))
        rng.shuffle(groups[1])

    def add(rank, kind, **fields):
        # The random factor avoids times that differ by rounding only.
        work = rng.choice([0, 0, 1000, 300_000, 2_000_000]) * rng.uniform(0.9, 1.1)
        fields.setdefault("compute", int(work))
        ops[rank].append({"kind": kind, **fields})

    def request(rank):
        fresh[rank] += 1
        open_requests[rank].append(fresh[rank])
        return fresh[rank]

    def wait(rank, number, **fields):
        open_requests[rank].remove(number)
        add(rank, "WAIT", request=number, **fields)

    def message():
        a, b = rng.choice(ranks, 2, replace=False).tolist()
        tag, nbytes = int(rng.integers(3)), int(rng.choice([0, 100, 5000, 200_000]))
        comm = int(rng.integers(len(groups)))
        comm = comm if {a, b} <= set(groups[comm]) else 0
        flags = int(rng.choice([0, 0, Flag.SYNCHRONOUS, Flag.BUFFERED]))
        where = {"tag": tag, "comm": comm}
        sent = {"bytes": nbytes, "flags": flags, **where}
        way = rng.integers(4)
        got = 0
        if wildcards and rng.random() < 0.2:
            got = int(Flag.ANY_TAG)
        if way == 0:
            add(a, "SEND", peer=b, **sent)
            add(b, "RECV", peer=a, flags=got, **where)
        elif way == 1:
            number = request(b)
            add(b, "IRECV", peer=a, request=number, **where)
            add(a, "SEND", peer=b, **sent)
            wait(b, number)
        elif way == 2:
            number = request(a)
            add(a, "ISEND", peer=b, request=number, **sent)
            add(b, "PROBE", peer=a, flags=got, **where)
            add(b, "RECV", peer=a, flags=got, **where)
            if rng.random() < 0.5:
                wait(a, number)
        else:
            mine, its = request(a), request(b)
            add(b, "IRECV", peer=a, request=its, **where)
            add(a, "ISEND", peer=b, request=mine, **sent)
            add(b, "WAIT", request=its, compute=0)
            open_requests[b].remove(its)

    def collective():
        comm = int(rng.integers(len(groups)))
        members = groups[comm]
        what = rng.choice([c.name for c in Collective])
        root = int(rng.integers(len(members))) if what in ROOTED else 0
        nonblocking = rng.random() < 0.3
        nbytes = int(rng.choice([8, 1000, 100_000]))
        for own, rank in enumerate(members):
            fields = {"what": Collective[what], "tag": own, "peer": root, "comm": comm}
            if nonblocking:
                add(rank, "ICOLL", request=request(rank), bytes=nbytes, **fields)
            else:
                add(rank, "COLL", bytes=nbytes, **fields)

    def pause():
        add(int(rng.integers(ranks)), "PAUSE", bytes=int(rng.integers(1_000_000)))

    for _ in range(steps):
        rng.choice([message, message, message, collective, pause])()
    for rank in range(ranks):
        for number in list(open_requests[rank]):
            wait(rank, number)
        add(rank, "END")
    return Recording.of(ops, groups)


def server(seed, clients=3, requests=5):
    """Return a server that takes requests as they arrive; its work depends on the client."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(np.arange(1, clients + 1), requests))
    ops = [[] for _ in range(clients + 1)]
    for client in order:
        client = int(client)
        ops[client] += [
            {"kind": "SEND", "peer": 0, "compute": int(rng.integers(1, 9)) * 1_000_000},
            {"kind": "RECV", "peer": 0},
        ]
        ops[0] += [
            {"kind": "RECV", "peer": client, "flags": Flag.ANY_SOURCE | Flag.ANY_TAG},
            {"kind": "SEND", "peer": client, "compute": client * 1_000_000},
        ]
    for rank in ops:
        rank.append({"kind": "COLL", "what": Collective.BARRIER, "tag": ops.index(rank)})
        rank.append({"kind": "END"})
    return Recording.of(ops)


def spa(one=1.0, two=1.0, rounds=10, own=(2.0, 1.0, 1.0), server_work=0.1):
    """Return the paper's synthetic application: a server, three clients, two procedures."""
    ops = [[] for _ in range(4)]
    for _ in range(rounds):
        for client in (1, 2, 3):
            number = 0 if client == 1 else 1
            work = int((one if client == 1 else two) * S / rounds)
            ops[client] += [
                {"kind": "SEND", "peer": 0, "compute": int(own[client - 1] * S / rounds)},
                {"kind": "RECV", "peer": 0},
            ]
            ops[0] += [
                {"kind": "RECV", "peer": client},
                {"kind": "ENTER", "tag": number, "compute": int(server_work * S / rounds)},
                {"kind": "LEAVE", "tag": number, "compute": work},
                {"kind": "SEND", "peer": client},
            ]
    for rank in ops:
        rank.append({"kind": "END"})
    run = Recording.of(ops)
    run.procedures = ["servBusy1", "servBusy2"]
    return run
