"""Data services on any number of ranks.

tests/comm/test_services.py runs the cases on virtual ranks too.
"""

import itertools
import random

import numpy as np
from each_case import raised

import pylb
from pylb import errors
from pylb.comm.connect import agreement_of

RECORD = np.dtype([("id", "i8"), ("x", "f4", (3,)), ("when", "M8[s]")])


def arrays(n, rng):
    """Return arrays of every kind with n rows."""
    yield rng.random(n)
    yield rng.random((n, 3)).astype(np.float32)
    yield rng.integers(0, 256, (n, 5), np.uint8)
    yield rng.random((n, 2, 2)) + 1j
    yield rng.random(n) > 0.5
    yield np.asfortranarray(rng.random((n, 4)))
    yield rng.random((n, 0))
    yield rng.integers(0, 10**9, n).astype("M8[s]")
    yield np.array([f"row {i}" for i in range(n)] or [""], "U9")[:n]
    record = np.zeros(n, RECORD)
    record["id"] = rng.integers(0, 99, n)
    record["x"] = rng.random((n, 3))
    yield record


def draw(comm, seed, most=40):
    """Return the destinations of all ranks' items, the same on all ranks; some ranks have none."""
    rng = np.random.default_rng(seed)
    sizes = [int(rng.integers(0, most)) * (rng.random() > 0.2) for _ in range(comm.size)]
    kinds = rng.integers(0, 3)
    to = [rng.integers(0, comm.size, n) for n in sizes]
    if kinds == 1:
        to = [np.sort(t) for t in to]
    if kinds == 2:  # sparse: all items go to the next rank
        to = [np.full(len(t), (r + 1) % comm.size) for r, t in enumerate(to)]
    return to


def twin(comm, to, whole):
    """Return the rows that this rank receives, by the definition."""
    return np.concatenate([rows[t == comm.rank] for t, rows in zip(to, whole, strict=True)])


def plans(comm):
    for seed in range(12):
        to = draw(comm, seed)
        plan = pylb.Plan(comm, to[comm.rank])
        source = [np.full(len(t), r) for r, t in enumerate(to)]
        assert np.array_equal(plan.source, twin(comm, to, source))
        assert set(plan.send_ranks) == set(to[comm.rank])
        every = [list(arrays(len(t), np.random.default_rng([seed, r]))) for r, t in enumerate(to)]
        mine = every[comm.rank]
        there = plan.forward(*mine)
        for got, *whole in zip(there, *every, strict=True):
            want = twin(comm, to, whole)
            assert got.dtype == want.dtype
            assert np.array_equal(got, want)
        for got, want in zip(plan.reverse(*there), mine, strict=True):
            assert np.array_equal(got, want)
        out = np.full(plan.n_received, np.nan)
        assert plan.forward(mine[0], out=out) is out
        assert np.array_equal(out, there[0])
        begun = plan.begin(mine[0]), plan.begin_reverse(there[1])
        assert np.array_equal(begun[1].wait(), mine[1])
        assert np.array_equal(begun[0].wait(), there[0])


def sized(comm):
    """Send items of several rows to their destinations and back, several times."""
    for seed in range(8):
        to = draw(comm, seed)
        rng = np.random.default_rng(seed)
        sizes = [rng.integers(0, 5, len(t)) for t in to]
        rows = [rng.random((int(s.sum()), 2)) for s in sizes]
        owner = [np.repeat(t, s) for t, s in zip(to, sizes, strict=True)]
        plan = pylb.Plan(comm, to[comm.rank]).resize(sizes[comm.rank])
        assert np.array_equal(plan.received_sizes, twin(comm, to, sizes))
        got = plan.forward(rows[comm.rank])
        assert np.array_equal(got, twin(comm, owner, rows))
        assert np.array_equal(plan.reverse(got), rows[comm.rank])
        again = plan.resize(2 * sizes[comm.rank])
        assert np.array_equal(again.received_sizes, 2 * plan.received_sizes)


def objects(comm):
    for seed in range(4):
        to = draw(comm, seed)
        whole = [
            [{"from": r, "n": i, "x": np.full(i, r)} for i in range(len(t))]
            for r, t in enumerate(to)
        ]
        plan = pylb.Plan(comm, to[comm.rank])
        got = plan.forward(whole[comm.rank])
        want = [
            o
            for r, t in enumerate(to)
            for o, dest in zip(whole[r], t, strict=True)
            if dest == comm.rank
        ]
        assert repr(got) == repr(want)
        assert repr(plan.reverse(got)) == repr(whole[comm.rank])


def between(comm):
    """Move data between any two decompositions, with ghosts."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 200))
        ids = rng.permutation(10**12 + 7 * np.arange(n))
        owner = rng.integers(0, comm.size, n)
        have = [ids[owner == r] for r in range(comm.size)]
        want = [rng.permutation(ids)[: int(rng.integers(0, n + 1))] for _ in range(comm.size)]
        plan = pylb.comm.plan_between(comm, have[comm.rank], want[comm.rank])
        x = np.sin(have[comm.rank])
        assert np.array_equal(plan.forward(x), np.sin(want[comm.rank]))
        count = plan.reverse(np.ones(len(want[comm.rank])), add=True)
        every = np.concatenate(want)
        assert np.array_equal(count, [np.count_nonzero(every == i) for i in have[comm.rank]])
        names = [str(i) for i in have[comm.rank]]
        got = pylb.migrate(comm, x, names, have=have[comm.rank], want=want[comm.rank])
        assert got[1] == [str(i) for i in want[comm.rank]]
    if comm.size > 1:
        raised(errors.StateError, "add=True", lambda: _everywhere(comm).reverse(np.ones(comm.size)))


def _everywhere(comm):
    """Each rank has one id, and looks up all ids."""
    return pylb.comm.plan_between(comm, [comm.rank], np.arange(comm.size))


def migrations(comm):
    rng = np.random.default_rng(comm.rank)
    x, ids = rng.random((20, 3)), np.arange(20) + 20 * comm.rank
    to = ids % comm.size
    new_x, new_ids = pylb.migrate(comm, x, ids, to=to)
    assert np.array_equal(new_ids, np.arange(20 * comm.size)[comm.rank :: comm.size])
    back = pylb.migrate(comm, new_x, have=new_ids, want=ids)
    assert np.array_equal(back, x)


def directories(comm):
    """Compare with a dict, under random updates, removals and lookups."""
    where = pylb.Directory(comm, "f8", (2,))
    twin = {}
    for step in range(12):
        rng = np.random.default_rng([7, step])  # all ranks draw the same numbers
        ids = np.unique(rng.integers(-500, 500, 300)) * 10**15 + 3
        split = rng.integers(0, comm.size, len(ids))
        mine = ids[split == comm.rank]
        local, owner = np.arange(len(mine)) * 3, (mine // 10**15) % comm.size
        data = np.stack([mine * 1.0, -mine], 1) if step % 3 else None
        where.update(mine, local, owner=owner, data=data)
        for r in range(comm.size):
            for k, i in enumerate(ids[split == r].tolist()):
                old = twin.get(i, (0, 0, [0.0, 0.0]))[2]
                twin[i] = (
                    (i // 10**15) % comm.size,
                    3 * k,
                    [float(i), -float(i)] if step % 3 else old,
                )
        if step % 4 == 3:
            gone = rng.permutation(sorted(twin))[:200]
            where.remove(gone[gone % (comm.rank + 2) == 0] if comm.rank else gone)
            for i in gone.tolist():
                del twin[i]
        assert sum(comm.allgather(where.n_here)) == len(twin)
        every = comm.allgather(where.ids().tolist())
        assert sorted(i for ids in every for i in ids) == sorted(twin)
        ask = np.random.default_rng([comm.rank, step]).integers(-500, 500, 400) * 10**15 + 3
        found = where.find(ask, missing=True)
        want = [twin.get(i, (-1, -1, [0.0, 0.0])) for i in ask.tolist()]
        assert found.owner.tolist() == [w[0] for w in want]
        assert found.local.tolist() == [w[1] for w in want]
        assert found.data.tolist() == [w[2] for w in want]


def defaults(comm):
    where = pylb.Directory(comm)
    ids = np.arange(comm.rank, 1000, comm.size)
    where.update(ids)
    found = where.find(np.arange(1000)[::-1])
    assert np.array_equal(found.owner, np.arange(1000)[::-1] % comm.size)
    assert np.array_equal(found.local, np.arange(1000)[::-1] // comm.size)
    assert found.data is None
    assert max(comm.allgather(where.n_here)) < 1.3 * 1000 / comm.size + 50


def wrong_use(comm):
    me, last = comm.rank, comm.size - 1
    where, domain, unknown = pylb.Directory(comm), errors.DomainError, errors.UnknownKeyError
    out_of_range, duplicate = errors.OutOfRangeError, errors.DuplicateKeyError
    no_pickle = errors.SerializationError
    where.update([me])
    kind = "f4" if me else "f8"
    zero, lacks = np.zeros(1), [0, 5000] if me == last else [0]
    wrong = [
        (out_of_range, f"0 ... {last}", lambda: pylb.Plan(comm, [comm.size if me == last else 0])),
        (out_of_range, "is -1", lambda: pylb.Plan(comm, [-1])),
        (domain, "float64", lambda: pylb.Plan(comm, [0.5])),
        (domain, "shape (1, 1)", lambda: pylb.Plan(comm, [[0]])),
        # an id that occurs twice, on one rank or on two, is an error and changes nothing
        (duplicate, "id 77 is", lambda: where.update([100 + me, *[77, 77] * (me == last)])),
        # the size overflows 64 bits
        (domain, "dtype, shape:", lambda: pylb.Directory(comm, "f8", (2**40, 2**40))),
        (unknown, "id 5000 is not in the directory", lambda: where.find(lacks)),
        (unknown, "id 5000 is not", lambda: where.remove(lacks)),
        (domain, "no dtype", lambda: where.update([me], data=zero)),
        (out_of_range, "owner has", lambda: where.update([me], owner=comm.size)),
        (domain, "local has shape", lambda: where.update([me], [1, 2])),
        (domain, "either to=, or both", lambda: pylb.migrate(comm, zero)),
        (
            *(domain, "array 0 has 2 rows: expected 1"),
            lambda: pylb.migrate(comm, np.zeros(1 + (me == last)), to=[0]),
        ),
        (
            *(domain, "have: expected an array of numbers"),
            lambda: pylb.migrate(comm, zero, have=["a", [2]] if me == last else [me], want=[me]),
        ),
        (unknown, "is not in", lambda: pylb.comm.plan_between(comm, [me], [10**6])),
    ]
    if comm.size > 1:
        wrong += [
            (duplicate, "rank 0 and rank 1", lambda: where.update([77, 200] if me < 2 else [])),
            (domain, "arguments differ", lambda: where.find([0], missing=me == 0)),
            (domain, "arguments differ", lambda: pylb.migrate(comm, np.zeros(1, kind), to=[0])),
            (domain, "arguments differ", lambda: pylb.Directory(comm, kind)),
            (no_pickle, "be pickled", lambda: pylb.migrate(comm, [lambda: 0], to=[last - me])),
        ]
    for error, text, call in wrong:
        raised(error, text, call)
        assert sum(comm.allgather(where.n_here)) == comm.size
    assert where.find([last]).owner[0] == last
    plan = pylb.Plan(comm, np.arange(comm.size))
    assert plan.forward(np.arange(comm.size)).tolist() == [me] * comm.size


def fails(text, call):
    """Check that a call raises a PylbError of any class, with this text."""
    try:
        call()
    except errors.PylbError as why:
        assert text in str(why), repr(why)  # noqa: PT017
        return
    raise AssertionError("no error")


def several_arrays_of_a_failing_partner(comm, plan):
    """No message of the failed exchange is taken for one of the next exchange."""
    x, last = np.arange(comm.size) + 10.0 * comm.rank, comm.size - 1

    def bad():
        plan.forward(x, x[:0] if comm.rank == last else x, x)

    text = "array 1 has 0 rows: expected" if comm.rank == last else f"rank {last}"
    for _ in range(2):
        fails(text, bad)
        want = comm.rank + 10.0 * np.arange(comm.size)
        assert plan.forward(x).tolist() == want.tolist()


def failing_partner(comm):
    """All ranks send to all, and one has no data: all raise an error, and can continue."""
    plan = pylb.Plan(comm, np.arange(comm.size))
    x = np.zeros(comm.size)
    last = comm.size - 1

    def bad():
        plan.forward(x[:0] if comm.rank == last else x)

    if comm.rank == last:
        raised(errors.DomainError, "array 0 has 0 rows: expected", bad)
    else:
        fails(f"rank {last}", bad)
    assert plan.forward(x).tolist() == x.tolist()
    masked = np.ma.array(x, mask=comm.rank == last)
    said = "array 0 has masked entries" if comm.rank == last else f"rank {last}"
    fails(said, lambda: plan.forward(masked))
    fails("array 0 has masked", lambda: pylb.migrate(comm, masked, to=[0] * comm.size))
    assert plan.forward(np.ma.array(x)).tolist() == x.tolist()
    several_arrays_of_a_failing_partner(comm, plan)
    if comm.size > 1:

        def unlike():
            plan.forward(np.zeros((comm.size, 2 if comm.rank else 3)))

        fails("another plan", unlike)
        assert plan.forward(x).tolist() == x.tolist()
        fails(
            "sizes has shape ()" if comm.rank == last else f"rank {last}",
            lambda: plan.resize(2 if comm.rank == last else np.ones(comm.size, int)),
        )
        sizes = np.full(comm.size, -1 if comm.rank == last else 1)
        fails("sizes[0] is -1" if comm.rank == last else f"rank {last}", lambda: plan.resize(sizes))
        assert plan.resize(np.full(comm.size, 2)).forward(np.zeros(2 * comm.size)).shape == (
            2 * comm.size,
        )


def sizes_that_a_rank_cannot_send(comm):
    """All ranks raise, also rank 0, which gets no sizes of that rank, and can continue."""
    last = comm.size - 1
    plan = pylb.Plan(comm, sorted({comm.rank, last * (comm.rank > 0)}))
    sizes = np.ones(plan.n_items, np.int64)
    if comm.rank == last:
        plan._lane = lambda *_: 1 // 0
        raised(ZeroDivisionError, "", lambda: plan.resize(sizes))
        del plan._lane
    else:
        fails(f"rank {last}", lambda: plan.resize(sizes))
    again = plan.resize(sizes)
    sizes[:] = 0  # the plan has a copy
    assert (again.sizes.sum(), again.received_sizes.sum()) == (plan.n_items, plan.n_received)


def objects_of_a_failing_partner(comm):
    """All ranks raise, also if arrays are exchanged in the same call, and can continue."""
    plan, last = pylb.Plan(comm, np.arange(comm.size)), comm.size - 1
    x, items = np.arange(comm.size) + 10.0 * comm.rank, [comm.rank] * comm.size
    want = [r + 0.0 for r in range(comm.size)]

    def bad(values):
        return items[1:] if comm.rank == last else values

    for call in (
        lambda: plan.forward(bad(items)),
        lambda: plan.reverse(x, bad(items), x),
        lambda: plan.forward(bad(items), x),
        lambda: plan.forward(items, x[1:] if comm.rank == last else x),
    ):
        fails("rows: expected" if comm.rank == last else f"rank {last}", call)
        there, numbers = plan.forward(items, x)
        assert there == list(range(comm.size))
        assert (numbers - comm.rank).tolist() == [10 * r for r in want]


def lists_where_partners_pass_arrays(comm):
    """Ranks pass lists or arrays for two values, in all mixtures; all go on after the error."""
    n = comm.size
    plan = pylb.Plan(comm, np.arange(n))
    kinds = list(itertools.product("lax", repeat=2))  # x: an array with a wrong number of rows
    mixtures = list(itertools.product(kinds, repeat=n))
    if n > 2:
        mixtures = random.Random(1).sample(mixtures, 60)
    for mixture in mixtures:
        value = {"l": ["an object"] * n, "a": np.arange(n), "x": np.zeros(n + 1)}
        said = ""
        try:
            plan.forward(*(value[kind] for kind in mixture[comm.rank]))
        except errors.PylbError as why:
            said = str(why)
        words = comm.allgather(said)
        right = len(set(mixture)) == 1 and "x" not in mixture[0]
        assert all(words) or (right and not any(words)), (mixture, words)
        assert plan.forward(np.full(n, comm.rank)).tolist() == list(range(n))
        assert plan.forward([comm.rank] * n) == list(range(n))


def memory_of_the_result(comm):
    """`out` may be of a class derived from ndarray, but may not overlap the array that is sent."""
    plan, x = pylb.Plan(comm, np.arange(comm.size)), np.arange(comm.size) + 10.0 * comm.rank
    want = comm.rank + 10.0 * np.arange(comm.size)

    class Own(np.ndarray):
        pass

    for _ in range(2):  # the second time, a plan uses memory of the first
        out = np.zeros(comm.size).view(Own)
        assert plan.forward(x, out=out) is out
        assert out.tolist() == want.tolist()
        fails("shares memory" if comm.size == 1 else "", lambda: plan.forward(x, out=x))
        assert x.tolist() == (np.arange(comm.size) + 10.0 * comm.rank).tolist()
    text = "expected arrays of numbers"
    for values in (np.zeros(comm.size, RECORD), np.zeros(comm.size, "S3"), [0] * comm.size):
        raised(errors.DomainError, text, lambda v=values: plan.reverse(v, add=True))


def gathers(comm):
    """Up to 56 bytes of each rank are gathered by one call of MPI, more by three."""
    transport = agreement_of(comm if comm.size > 1 else None).transport
    for most in (0, 1, 56, 57, 1000):
        for sizes in ([most] * comm.size, [most * (r % 2) for r in range(comm.size)]):
            data = [bytes((r + i) % 256 for i in range(n)) for r, n in enumerate(sizes)]
            assert transport.allgather(data[comm.rank]) == data
