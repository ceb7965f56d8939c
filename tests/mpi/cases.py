"""Cases that hold on any number of ranks.

Each case runs on COMM_WORLD or on a duplicate of it (each_case.py);
tests/virtual/test_virtual.py runs it on virtual ranks. Rank 0 prints what must
not depend on the number of ranks, as JSON.
"""

import dataclasses
import json
import math
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import programs
from each_case import dealt, loop, raised, rotate

import pylb
from pylb import errors
from pylb.comm.connect import agreement_of


def fill(lb, n=12, block=None):
    return dealt(lb, range(n), lambda key: np.full(3, key) if block is None else block)


# ---- what works ------------------------------------------------------------------------------


def random_programs(comm):
    """Messages, multicasts and objects of many types; the last program without LB steps."""
    out = []
    for seed, n in enumerate([1, 7, 13, 20, 40, 24]):
        off = {"mode": "off"} if seed == 5 else {}
        lb, mine = programs.run_balanced(comm, seed, n, 4, load=lambda key, block: key % 5, **off)
        every = {}
        for states in comm.allgather(mine):
            assert not every.keys() & states.keys(), "an object lives twice"
            every.update(states)
        assert every == programs.run_twin(seed, n, 4)
        out.append([every[key] for key in sorted(every)])
        assert sum(map(len, comm.allgather(lb.history))) == (0 if off else 3 * comm.size)
    return out


def same_on_all_ranks(comm):
    lb = fill(pylb.Balancer(comm, every=3, load=lambda key, block: 1.0 + key))
    loop(lb, 10)
    histories = comm.allgather([r.to_dict() for r in lb.history])
    assert all(repr(h) == repr(histories[0]) for h in histories)
    assert [r.iteration for r in lb.history] == [2, 5, 8]
    rows = comm.allgather([x.tolist() for x in lb.metrics])
    assert all(r == rows[0] for r in rows)
    loads = lb.rank_loads()
    assert loads.shape == (10, comm.size)
    assert np.array_equal(loads.max(axis=1), lb.metrics.max)
    assert np.array_equal(loads.sum(axis=1), np.full(10, 78.0))
    receipt = lb.history[0]
    assert receipt.max_over_mean == lb.metrics.max_over_mean[2]
    assert receipt.realised == receipt.predicted == lb.metrics.max_over_mean[3]
    assert receipt.cost >= receipt.seconds_migration >= 0


def realised_gain(comm):
    """All objects start on rank 0, and are then placed evenly; afterwards the loads change."""
    growth = [1.0]
    lb = pylb.Balancer(comm, every=3, load=lambda key, block: growth[0] * (1.0 + key % 2))
    for key in range(20):
        if lb.rank == 0:
            lb.add(key, np.zeros(key))
    for it in lb.iterate(8):
        growth[0] = 1.0 + it
        for _, _ in lb.local():
            pass
    first, second = lb.history
    factors = [1.0 + it for it in range(8)]
    most = lb.metrics.max
    assert first.iterations == 3
    assert np.isclose(first.gain, 30.0 * sum(factors[3:6]) - most[3:6].sum())
    assert second.iterations == 2
    assert np.isclose(second.gain, 0.0)  # no placement removes the imbalance that is left
    assert first.before == comm.size


def selects(comm):
    """pylb chooses a strategy for messages that cost nothing, and for very expensive ones."""
    for network, kind in ((None, "not intensive"), ((100.0, 0.0), "is intensive")):
        given = {"network": network, "overlap": False, "load": lambda key, block: 1.0 + key**2}
        lb = fill(pylb.Balancer(comm, every=2, **given))
        for _ in lb.iterate(8):
            for key, _ in lb.local():
                lb.send((key + 1) % 12, key, key)
        found = comm.allgather([(r.strategy, r.why) for r in lb.history])
        assert all(f == found[0] for f in found)
        families = [pylb.strategies()[name].family for name, _ in found[0][:2]]
        stood_in = not math.isnan(lb.history[0].passed_over)
        assert families == ["refinement" if stood_in else "comprehensive", "refinement"]
        assert comm.size == 1 or kind in found[0][0][1], found[0]
        r = lb.history[0]
        assert r.predicted_with_messages >= r.predicted
        assert comm.size == 1 or (r.before_with_messages > 2 * r.before) == (network is not None)


def recorded_and_taken_again(comm):
    """A run's record, and a second run that repeats it, do not depend on the number of ranks."""
    path = Path(comm.bcast(tempfile.mkdtemp()), "run.h5")

    def run(options):
        lb = fill(pylb.Balancer(comm, load=lambda key, block: 1.0 + key * block[0], **options))
        where = []
        for it in lb.iterate(12):
            for key, block in lb.local():
                block[0] += 1
                lb.send((key + 1) % 12, key, block)
            where.append(lb.ranks_of(range(12)).tolist())
            if it == 5 and lb.rank == 0:
                lb.add(12, np.zeros(3))
        return lb, where

    first, places = run({"every": 3})
    first.save(path)
    if comm.rank == 0:
        record = pylb.RunRecord.load(path)
        assert np.array_equal(record.max, first.metrics.max)
        assert repr(record.history) == repr(first.history)
        for it, where in enumerate(places):
            s = record.at(it)
            assert s.rank.tolist()[:12] == where
            assert len(s.key) == 12 + (it > 5)
        loads = [s.load.tolist() for s in record.stretches]
    second, again = run({"replay": path})
    assert again == places
    assert [r.iteration for r in second.history] == [r.iteration for r in first.history]
    raised(
        errors.DomainError,
        "a record of another program",
        lambda: loop(fill(pylb.Balancer(comm, replay=path), n=13), 2),
    )
    if comm.size > 1:
        raised(errors.DomainError, "ranks", lambda: pylb.Balancer(replay=path))
    return comm.bcast(loads if comm.rank == 0 else None)


def shadow(comm):
    """A shadow predicts what the real run does, and moves nothing."""

    def run(**options):
        lb = pylb.Balancer(comm, load=lambda key, block: 1.0 + (key * block[0]) % 7, **options)
        fill(lb, n=24, block=[1])
        for n in (35, 3, 15):
            for it in lb.iterate(n):
                for key, block in lb.local():
                    block[0] = 1 + it // 4
                    lb.send((key + 1) % 24, key, b"12345")
                if it == 15 and lb.rank == 0:
                    lb.add(100, [1], migratable=False)
                if it == 42 and 100 in dict(lb.local()):
                    lb.remove(100)
        return lb

    for options in (
        {"strategy": "RefineLB", "every": 6},
        {"strategy": "GreedyLB", "trigger": "threshold"},
    ):
        real = run(**options, pause_if_useless=False)
        mirrored = run(**options, pause_if_useless=False, mode="shadow")
        unbalanced = run(mode="off")
        assert mirrored.ranks_of(range(24)).tolist() == [k % comm.size for k in range(24)]
        assert np.array_equal(mirrored.metrics.max, unbalanced.metrics.max)
        assert np.allclose(mirrored.shadow.max, real.metrics.max, rtol=1e-12)
        assert np.allclose(mirrored.shadow.mean, real.metrics.mean, rtol=1e-12)
        done, would_be = real.history.lb_steps, mirrored.history.lb_steps
        assert [r.iteration for r in would_be] == [r.iteration for r in done]
        for a, b in zip(done, would_be, strict=True):
            assert (a.strategy, a.migrations, a.before) == (b.strategy, b.migrations, b.before)
            assert (a.moved, b.moved) == (True, False)
            assert np.isclose(a.gain, b.gain, rtol=1e-9, atol=1e-9)
            assert b.cost > 0
        texts = comm.allgather([r.explain() for r in mirrored.history])
        assert all(t == texts[0] for t in texts)
        assert all("would have been rebalanced" in r.explain() for r in would_be)
        saved = mirrored.metrics.max.sum() - real.metrics.max.sum()
        report = mirrored.report()
        assert np.isclose(report.saved + report.lb_seconds, saved)
    raised(errors.StateError, "expected mode='shadow'", lambda: unbalanced.shadow)


def next_to_nothing(comm):
    """Programs with zero load, one object, no object, or a period beyond the end run through."""
    for n in (12, 1, 0):
        for when in ({"every": 3}, {"trigger": "metabalancer"}, {}, {"every": 10**9}):
            for load in (0.0, 1.0):
                lb = fill(pylb.Balancer(comm, load=lambda key, block, x=load: x, **when), n=n)
                assert list(lb.iterate(8)) == list(range(8))
                assert list(lb.iterate(0)) == []
                assert lb.metrics.max[-1] == load * -(-n // comm.size)
                done = [r.iteration for r in lb.history.lb_steps]
                assert when.get("every") != 10**9 or done == []
                assert when.get("every") != 3 or done[:2] == [2, 5]
                assert sum(comm.allgather(len(list(lb.local())))) == n


def deferred_lb_step(comm):
    """An LB step that is due after the last iteration takes place at the start of the next loop."""
    lb = fill(pylb.Balancer(comm, every=2, load=lambda key, block: 1.0))
    loop(lb, 2)
    assert lb.history == []
    lb.add(100 + lb.rank, "new")
    loop(lb, 1)
    assert [r.iteration for r in lb.history] == [1]
    assert lb.report().n_objects == 12 + comm.size


def off_and_pinned(comm):
    lb = fill(pylb.Balancer(comm, every=1, mode="off"))
    loop(lb, 4)
    assert lb.history == []
    lb = pylb.Balancer(comm, strategy="GreedyLB", every=1, load=lambda key, block: 9.0 - key)
    for key in range(8):
        if lb.rank == 0:
            lb.add(key, key, migratable=key % 2 == 0, memory=5, nbytes=7)
    loop(lb, 3)
    assert not lb.ranks_of(range(1, 8, 2)).any()
    assert comm.size == 1 or lb.ranks_of(range(0, 8, 2)).any()


def communication_is_seen(comm):
    seen = []

    def look(snapshot):
        seen.append(snapshot)
        return snapshot.rank

    lb = fill(pylb.Balancer(comm, strategy=look, every=2))
    for _ in lb.iterate(3):
        for key, _ in lb.local():
            lb.send((key + 1) % 12, key, np.zeros(key))
            lb.send((key + 1) % 12, key, b"12")
    if lb.rank == 0:
        s = seen[0]
        assert list(s.edge_src) == list(range(12))
        assert list(s.edge_dst) == [(k + 1) % 12 for k in range(12)]
        assert list(s.edge_bytes) == [8 * k + 2 for k in range(12)]
        assert list(s.edge_messages) == [2] * 12


def estimates_travel(comm):
    """Estimates travel with the objects; a jump of the load is known two iterations later."""
    seen = []

    def round_robin(snapshot):
        seen.append(snapshot.load.tolist())
        return (snapshot.rank + 1) % snapshot.n_ranks

    def load(key, block):
        step = 5.0 if key == 3 and block[0] >= 22 else 1.0
        return step * (1 + key) + (100.0 if block[0] == 0 else 0.0)

    lb = pylb.Balancer(comm, strategy=round_robin, trigger=lambda c: c.iteration >= 19, load=load)
    dealt(lb, range(12), lambda key: [-1])
    for it in lb.iterate(25):
        for _, block in lb.local():
            block[0] = it
    assert [r.iteration for r in lb.history] == [19, 20, 21, 22, 23]
    if lb.rank == 0:
        assert seen[0] == [1.0 + key for key in range(12)]  # without the warm-up iteration
        assert seen[:3] == seen[:1] * 3
        before, after, soon = (loads[3] for loads in seen[2:])
        assert before == 4.0
        assert before < after < 8.0 < 12.0 < soon <= 20.0


def placed(comm, strategy, n, **options):
    """Return (old ranks, new ranks, history) of a program whose loads depend only on the keys."""
    work, speed = np.random.default_rng(n).lognormal(0.0, 1.0, n), options.get("speed")
    mine = 1.0 if speed is None else speed[comm.rank]
    lb = pylb.Balancer(
        comm,
        strategy=strategy,
        every=2,
        load=lambda key, block: work[key] / mine,
        seed=5,
        **options,
    )
    for key in range(n):
        if (key * key // 7) % (comm.size + 2) % comm.size == lb.rank:
            memory = 10 + key % 9 if "memory_limit" in options else None
            lb.add(key, bytes(key), migratable=key % 11 != 3, memory=memory)
    for _ in lb.iterate(2):
        for key, _ in lb.local():
            for step in (1, 7):
                lb.send((key + step) % n, key, bytes(1 + key % 5))
    old = lb.ranks_of(range(n)).tolist()
    loop(lb, 1)
    new = lb.ranks_of(range(n)).tolist()
    assert [lb.rank_of(key) for key in range(n)] == new
    return old, new, lb.history


def unlike_ranks(size, n):
    """Ranks differ in speed, other work and memory limit; one limit is exceeded at first."""
    speed = 2.0 ** (np.arange(size) % 3)
    limit = (14 * n * 1.3 * speed / speed.sum()).astype(int) + 60
    return {
        "speed": speed.tolist(),
        "background": [0.25 * (rank % 2) for rank in range(size)],
        "memory_limit": limit,
    }


def in_rounds(comm):
    """A distributed strategy gives the same placement as on virtual ranks, also if ranks differ."""
    seen = []

    def look(snapshot):
        seen.append(snapshot)
        return snapshot.rank

    node = [rank // 2 for rank in range(comm.size)]
    os.environ["PYLB_NODE"] = f"node{node[comm.rank]}"
    for n, options in [
        (0, {}), (3, {}), (40, {}), (300, {}),
        (40, unlike_ranks(comm.size, 40)), (300, unlike_ranks(comm.size, 300)),
    ]:  # fmt: skip
        placed(comm, look, n, **options)
        for name in [s.name for s in pylb.strategies().values() if s.distributed]:
            old, new, (receipt, *_) = placed(comm, name, n, **options)
            if comm.rank == 0:
                snapshot = dataclasses.replace(seen[-1], node=node)
                for what, values in options.items():
                    assert np.array_equal(getattr(snapshot, what), values)
                plan = pylb.place(snapshot, name, seed=5)
                assert np.array_equal(old, snapshot.rank)
                assert np.array_equal(new, plan.rank), (name, n)
                assert receipt.migrations == plan.migrations
                assert np.isclose(receipt.before, plan.before.max_over_mean, rtol=1e-12)
                assert np.isclose(receipt.predicted, plan.after.max_over_mean, rtol=1e-12)
                assert n < 300 or comm.size == 1 or receipt.predicted < 1.05 < receipt.before
                if options:
                    held = np.bincount(new, snapshot.memory, comm.size)
                    assert np.all(held <= snapshot.memory_limit)
                    full = np.max(held / snapshot.memory_limit)
                    assert np.isclose(receipt.memory_full, full, rtol=1e-12)
    os.environ.pop("PYLB_NODE", None)  # virtual ranks would share this variable
    bad = {"fan_out": 0}
    raised(errors.DomainError, "fan_out is 0", lambda: pylb.strategy("GossipLB", **bad))


def first_messages_and_no_copy(comm):
    lb = fill(pylb.Balancer(comm, every=1))
    for key, block in lb.local():
        lb.send(11 - key, key, block, copy=False)
    for it in lb.iterate(3):
        for key, _ in lb.local():
            expected = [(11 - key, [11 - key] * 3)] if it == 0 else []
            assert [(s, d.tolist()) for s, d in lb.inbox(key)] == expected


def phases_of_a_pass(comm):
    """Messages are exchanged within an iteration; the loads of its two loops are added."""
    lb = fill(pylb.Balancer(comm, every=2, overlap=False))  # no further LB steps for slices
    for it in lb.iterate(5):
        for key, _ in lb.local():
            lb.send((key + 1) % 12, key, 10 * it)
        lb.exchange()
        for key, _ in lb.local():
            assert lb.inbox(key) == [((key - 1) % 12, 10 * it)]
            lb.send((key + 5) % 12, key, "over")
        lb.exchange()
        assert all(lb.inbox(key) == [((key - 5) % 12, "over")] for key, _ in lb.local())
    assert all(lb.inbox(key) == [] for key, _ in lb.local())
    assert len(lb.metrics.time) == 5
    assert [r.iteration for r in lb.history] == [1, 3]
    raised(errors.StateError, "exchange() outside iterate()", lb.exchange)


def an_exchange_too_many(comm):
    lb = fill(pylb.Balancer(comm, every=1))

    def differ():
        for _ in lb.iterate(3):
            if comm.rank == 0:
                lb.exchange()

    if comm.size > 1:
        words = ("exchanging messages in iteration 0", "at the end of iteration 0")
        raised(errors.StateError, words, differ)


def coming_and_going(comm):
    """Objects that are added live from the next iteration on; removed ones leave at the end."""
    lb = fill(pylb.Balancer(comm, every=2, load=lambda key, block: 1.0 + key % 3))
    alive = []
    for it in lb.iterate(8):
        keys = [key for key, _ in lb.local()]
        alive.append(sorted(key for here in comm.allgather(keys) for key in here))
        for key, block in lb.local():
            lb.send((key + 1) % 12 if it == 0 else key, key, it)
            assert it == 0 or all(data == it - 1 for _, data in lb.inbox(key))
            if it == 3 and key < 6:
                lb.add(100 + key, block)
            if it == 5 and (key == 3 or key >= 100):
                assert lb.remove(key) is block
                raised(errors.UnknownKeyError, f"key {key}", lambda key=key: lb.remove(key))
                if key == 104:
                    lb.add(104, "again")
    first = list(range(12))
    assert alive[:4] == [first] * 4
    assert alive[4:6] == [first + [100 + k for k in range(6)]] * 2
    assert alive[6:] == [[k for k in first if k != 3] + [104]] * 2
    assert len(lb.history) == 3
    assert lb.report().n_objects == 12
    raised(errors.UnknownKeyError, "key 3", lambda: lb.rank_of(3))
    raised(errors.UnknownKeyError, "key 3", lambda: lb.ranks_of([3, 4]))
    here = lb.ranks_of([104])[0] == lb.rank
    raised(errors.UnknownKeyError, "key 77: no such object on rank", lambda: lb.remove(77))
    if here:
        assert lb.remove(104) == "again"  # between loops objects are removed at once
    assert 104 not in [key for key, _ in lb.local()]
    loop(lb, 1)
    assert lb.report().n_objects == 11


def reports(comm):
    lb = fill(pylb.Balancer(comm, every=1))
    loop(lb, 3)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("run.json", "run.txt", "run.html"):
            lb.report(Path(folder, name))
            assert Path(folder, name).exists() == (lb.rank == 0)
        if lb.rank == 0:
            d = json.loads(Path(folder, "run.json").read_text())
            assert d["iterations"] == 3
            assert len(d["history"]) == 2
            assert "LB (load-balancing) step" in Path(folder, "run.txt").read_text()
        raised(errors.DomainError, (".json", ".html"), lambda: lb.report("run.pdf"))
        for name in ("run.json", "run.html"):  # all ranks raise the error of rank 0
            nowhere = Path(folder, "no", name)
            text = "there is no folder"
            raised(errors.MissingFileError, text, lambda nowhere=nowhere: lb.report(nowhere))
    loop(lb, 1)


# ---- bad input -------------------------------------------------------------------------------


def duplicate_keys(comm):
    lb = pylb.Balancer(comm, every=1)
    lb.add(5, "x")
    raised(errors.DuplicateKeyError, ("key 5", f"rank {lb.rank}"), lambda: lb.add(5, "y"))
    if comm.size > 1:
        text = ("key 5", "on rank 0", "on rank 1")
        raised(errors.DuplicateKeyError, text, lambda: loop(lb, 1))


def unknown_keys(comm):
    lb = fill(pylb.Balancer(comm, mode="off"))
    mine = lb.rank if lb.rank < 12 else None
    if lb.rank == 0:
        lb.send(999, mine, "x")
    raised(errors.UnknownKeyError, ("target 999", "object 0"), lambda: loop(lb, 1))
    raised(errors.UnknownKeyError, "source 77", lambda: lb.send(0, 77, "x"))
    raised(errors.UnknownKeyError, "key 77", lambda: lb.inbox(77))
    raised(errors.UnknownKeyError, "key 77", lambda: lb.rank_of(77))
    for _ in lb.iterate(2):
        raised(errors.StateError, "under way", lambda: loop(lb, 1))

    def within():
        for _ in lb.iterate(3):
            if lb.rank == 0:
                lb.send(78, mine, "x")

    raised(errors.UnknownKeyError, ("target 78", "object 0"), within)
    loop(lb, 2)


def a_doubled_key_can_be_taken_back(comm):
    """After the error all objects are still there; then one rank removes its objects."""
    lb = fill(pylb.Balancer(comm, every=1), n=0)
    lb.add(2**62 + comm.rank, "mine")
    lb.add(5, "doubled")
    if comm.size > 1:
        for _ in range(2):
            raised(errors.DuplicateKeyError, ("key 5", "rank"), lambda: loop(lb, 1))
            assert [key for key, _ in lb.local()] == [5, 2**62 + comm.rank]
    if comm.rank:
        lb.remove(5)
    loop(lb, 3)
    assert lb.report().n_objects == comm.size + 1
    found = comm.allgather([key for key, _ in lb.local()])
    assert sorted(key for here in found for key in here)[0] == 5


def messages_find_objects_that_move(comm):
    """Each object sends to all others in each iteration, while all objects change their ranks."""
    lb = pylb.Balancer(comm, strategy=rotate, every=1)
    fill(lb, n=9)
    for it in lb.iterate(6):
        for key, _ in lb.local():
            senders = range(9 + (it > 4)) if it and key < 9 else ()
            assert lb.inbox(key) == [(source, [it - 1, source]) for source in senders]
            for to in range(9):
                lb.send(to, key, [it, key])
        if it == 3 and comm.rank == comm.size - 1:
            lb.add(9, "new")
        assert all(lb.rank_of(key) == lb.rank for key, _ in lb.local())


def a_message_that_cannot_be_restored(comm):
    """All ranks raise, and can continue."""
    lb = fill(pylb.Balancer(comm, every=1))

    def send():
        for it in lb.iterate(3):
            for key, _ in lb.local():
                lb.send(11, key, Stubborn() if (it, key) == (1, 0) else [it])

    raised(errors.SerializationError, ("a message cannot be restored", "no number"), send)
    assert lb.metrics.time.shape == (1,)
    loop(lb, 2)


class Stubborn:
    """An object that can be pickled, but not unpickled."""

    def __reduce__(self):
        return int, ("no number",)


def cannot_be_pickled(comm):
    """Such objects stay, also if a strategy of the user moves them; others move."""
    if comm.size == 1:
        return
    for strategy, lag in ((rotate, 0), ("GreedyLB", 0), ("GreedyLB", 2), ("GossipLB", 0)):
        lag *= hasattr(comm, "py2f")  # virtual ranks have none
        lb = pylb.Balancer(comm, every=2, strategy=strategy, lag=lag, load=lambda key, _: 1.0)
        for key in range(12) if lb.rank == 1 else ():
            lb.add(key, [threading.Lock() if key % 3 == 0 else key])
        loop(lb, 9)
        here = [key for key, _ in lb.local()]
        assert [key for key in here if key % 3 == 0] == [0, 3, 6, 9] * (lb.rank == 1)
        assert comm.allreduce(len(here)) == 12
        assert sum(r.migrations for r in lb.history) > 0


def cannot_be_restored(comm):
    """No object changes its rank, and all ranks raise an error."""
    if comm.size == 1:
        return
    lb = fill(pylb.Balancer(comm, every=1, strategy=rotate))
    if lb.rank == 0:
        lb.add(500, Stubborn())
    before = [key for key, _ in lb.local()]
    raised(errors.SerializationError, ("object 500", "no number"), lambda: loop(lb, 3))
    assert [key for key, _ in lb.local()] == before
    assert all(lb.rank_of(key) == lb.rank for key in before)


def different_arguments(comm):
    if comm.size == 1:
        return
    lb = fill(pylb.Balancer(comm, every=1))
    text = ("rank 0: iterate(3)", "iterate(4)")
    raised(errors.DomainError, text, lambda: loop(lb, 3 if lb.rank == 0 else 4))
    lb = fill(pylb.Balancer(comm, every=2 if comm.rank == 1 else 1))
    raised(errors.DomainError, "'every': 2", lambda: loop(lb, 3))


def different_places(comm):
    if comm.size == 1:
        return
    lb = fill(pylb.Balancer(comm, every=1))
    loop(lb, 2)
    if comm.rank == 0:
        text = ("gathering records", "start of iterate")
        raised(errors.StateError, text, lb.rank_loads)
    else:
        raised(errors.StateError, "gathering records", lambda: loop(lb, 3))


def freed_communicator(comm):
    own = comm.Dup()
    lb = fill(pylb.Balancer(own, every=1))
    own.Free()
    loop(lb, 3)  # the loop goes on, on pylb's own duplicate of the communicator
    raised(errors.MPIError, "COMM_NULL", lambda: pylb.Balancer(own))
    raised(errors.DomainError, "communicator", lambda: pylb.Balancer("self"))
    own = comm.Dup()
    pylb.migrate(own, np.arange(3), to=[own.rank] * 3)
    agreement = agreement_of(own, hold=False)
    own.Free()  # pylb's duplicates are freed, too
    assert agreement.ended == "it was freed"
