"""Multicasts on any number of ranks; the random programs of cases.py have more.

tests/run/test_multicasts.py runs the same cases on virtual ranks.
"""

import numpy as np
from each_case import dealt, in_blocks, raised, rotate

import pylb
from pylb import errors


def by_multicast(lb, targets, key, data):
    lb.multicast(targets, key, data)


def by_turns(lb, targets, key, data):
    for target in targets:
        lb.send(target, key, data)


def once_to_each_rank(comm):
    """Once the addresses are known, a multicast is sent once to each rank with receivers."""
    figures = {}
    n = 3 * comm.size
    for by in (by_multicast, by_turns):
        lb = dealt(pylb.Balancer(comm, mode="off"), range(n))
        for _ in lb.iterate(4):
            for key, _ in lb.local():
                assert len(lb.inbox(key)) <= 1
                if key == 0:
                    by(lb, range(n), key, np.zeros(1000))
        figures[by] = lb._state.records.figures.table()[-1, -2:].tolist()  # messages, bytes
    others = comm.size - 1
    assert figures[by_multicast][0] == others
    assert figures[by_turns][0] == 3 * others
    assert 8000 * others <= figures[by_multicast][1] <= 8400 * others
    assert figures[by_turns][1] >= 24000 * others


def messages_of_exchanges(comm):
    """The figures of an iteration count all messages since the previous iteration."""
    lb = pylb.Balancer(comm, mode="off")
    lb.add(comm.rank, None)
    everybody = range(comm.size)
    for _ in lb.iterate(4):
        for _ in range(2):
            for key, _ in lb.local():
                lb.multicast(everybody, key, np.zeros(1000))
            lb.exchange()
        for key, _ in lb.local():
            assert [source for source, _ in lb.inbox(key)] == list(everybody)
            lb.send(key, key, 1.0)
    messages, nbytes = lb._state.records.figures.table()[-1, -2:].tolist()
    pairs = comm.size * (comm.size - 1)
    assert messages == 2 * pairs
    assert 16000 * pairs <= nbytes <= 16400 * pairs


def shared(comm):
    """With copy=False, the receivers on a rank share the data, also after they have moved.

    In the first iteration, home ranks forward messages."""
    lb = pylb.Balancer(comm, strategy=rotate, every=2)
    in_blocks(lb, 2 * comm.size)
    for it in lb.iterate(5):
        for key, _ in lb.local():
            assert [(s, d.sum()) for s, d in lb.inbox(key)] == ([] if it == 0 else [(0, 900.0)])
            if key == 0:
                lb.multicast(range(2 * comm.size), key, np.ones((30, 30)), copy=False)
        if it > 1:
            first, second = (lb.inbox(key)[0][1] for key, _ in lb.local())
            assert first is second


def forwarded(comm):
    """Send to new targets in each iteration, just after the objects have moved."""
    n = 4 * comm.size
    lb = pylb.Balancer(comm, strategy=rotate, every=1)
    in_blocks(lb, n)
    for it in lb.iterate(6):
        for key, _ in lb.local():
            seen = [(source, float(data[0])) for source, data in lb.inbox(key)]
            expected = [
                (source, 10.0 * it - 10.0)
                for source in range(n)
                if it and (key - source) % n in {k * it % n for k in (1, 2, 3)}
            ]
            assert [x for i, x in enumerate(seen) if x not in seen[:i]] == expected
            lb.multicast([(key + k * (it + 1)) % n for k in (1, 2, 3)], key, np.array([10.0 * it]))


def what_strategies_see(comm):
    """Strategies see the same multicasts and edges on any number of ranks, per iteration."""
    seen = []

    def look(snapshot):
        m = snapshot.multicasts
        columns = [m.src, m.start, m.dst, m.nbytes, m.messages, *snapshot.edges]
        seen.append([np.asarray(x).tolist() for x in columns])
        return snapshot.rank

    lb = pylb.Balancer(comm, strategy=look, every=2, load=lambda key, _: 1.0)
    dealt(lb, range(0, 80, 10))
    for it in lb.iterate(3):
        for key, _ in lb.local():
            if key % 20 == 0:
                lb.multicast([(key + 10 * k) % 80 for k in (3, 1, 0)], key, np.zeros(20))
                lb.multicast([70, 0], key, 1.0)
                lb.multicast([70], key, 1.0)
                lb.multicast([], key, 1.0)
            if it == 1:
                lb.multicast((20, 10), key, 1.0)
    told = seen[0] if comm.rank == 0 else None
    return comm.bcast(told, 0)


def removed_receivers(comm):
    """Messages to objects that were just removed are dropped; later messages are errors."""
    seen = []

    def look(snapshot):
        seen.append(snapshot.multicasts)
        return snapshot.rank

    lb = dealt(pylb.Balancer(comm, strategy=look, every=3, load=lambda key, _: 1.0), range(6))
    for it in lb.iterate(4):
        for key, _ in lb.local():
            if key == 0:
                lb.multicast([1, 4, 5] if it < 2 else [1, 4], key, "x")
            elif key == 5 and it == 1:
                lb.remove(key)
    if comm.rank == 0:
        assert np.asarray(seen[0].dst).tolist() == [1, 4]
        assert seen[0].messages.tolist() == [1.0]

    def send():
        for _ in lb.iterate(1):
            if comm.rank == 0:
                lb.multicast([1, 5, 4], 0, "x")

    raised(errors.UnknownKeyError, "target 5 of a message from object 0: no such object", send)
    for it, _ in enumerate(lb.iterate(2)):
        for key, _ in lb.local():
            assert it == 0 or lb.inbox(key) == ([(0, "y")] if key in (1, 4) else [])
            if key == 0 and it == 0:
                lb.multicast([1, 4], 0, "y")


def bad_arguments(comm):
    """A call that raises sends nothing."""
    lb = pylb.Balancer(comm)
    lb.add(comm.rank, None)
    me = comm.rank
    cast = lb.multicast
    raised(errors.DomainError, "targets is of type int: expected keys", lambda: cast(5, me, 1))
    raised(errors.DomainError, "target is of type str: expected an int", lambda: cast("ab", me, 1))
    raised(errors.DomainError, "target is of type float", lambda: cast([me, 1.0], me, 1))
    raised(errors.DomainError, "target: expected an integer of 64", lambda: cast([2**63], me, 1))
    raised(errors.UnknownKeyError, "source 99: no such object", lambda: cast([me], 99, 1))
    raised(errors.UnknownKeyError, "source 99: no such object", lambda: cast([], 99, 1))
    raised(errors.DomainError, "target is of type list", lambda: lb.send([me], me, 1))
    for it in lb.iterate(2):
        assert lb.inbox(me) == ([(me, 1)] * 3 if it else [])
        if not it:
            cast(np.array([me]), me, 1)
            cast((key for key in (me, me)), me, 1)
