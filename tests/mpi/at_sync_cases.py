"""Loops with a lag, on any number of ranks.

The programs have their own communication, with blocking calls between their AtSyncs.
"""

import math
import os
import random
import tempfile
import time
from collections import Counter
from itertools import chain, pairwise, product
from pathlib import Path

import numpy as np
from each_case import dealt, raised
from mpi4py import MPI

import pylb
from pylb import errors
from pylb.run import AtSync

LONG = 300 * int(os.environ.get("PYLB_EXAMPLES", "1"))  # iterations of the longest program


def fill(lb, n=12):
    return dealt(lb, range(n), lambda key: np.full(3, float(key)))


def halo(comm, it):
    """Exchange iteration numbers with the neighbours, by blocking calls."""
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    assert comm.sendrecv(it, right, source=left) == it
    assert comm.sendrecv(it, left, source=right) == it


def same_everywhere(comm, lb, n):
    """Check that all ranks have the same history; return the iterations of its LB steps."""
    it = lb.metrics
    assert len(it.time) == n
    mine = [[x.tolist() for x in it], [r.to_dict() for r in lb.history]]
    assert all(repr(x) == repr(mine) for x in comm.allgather(mine))
    loads = lb.rank_loads()
    assert np.array_equal(loads.max(axis=1), it.max)
    assert np.allclose(loads.mean(axis=1), it.mean, rtol=1e-12)
    return [r.iteration for r in lb.history.lb_steps]


def blocking_halo_exchange(comm):
    """Run with random delays and many LB steps; objects count iterations."""
    rng = random.Random(comm.rank)
    n = LONG if comm.size > 1 else 100
    lb = fill(pylb.Balancer(comm, lag=3, every=30, load=lambda key, block: 1.0 + key % 5))
    for it in lb.iterate(n):
        halo(comm, it)
        for _, block in lb.local():
            block[0] += 1
        if rng.random() < 100 / LONG:
            time.sleep(0.002 * rng.random())
    done = same_everywhere(comm, lb, n)
    assert done == list(range(29, n - 1, 30))
    for key, block in lb.local():
        assert block.tolist() == [key + n, key, key]
    every = comm.allgather([key for key, _ in lb.local()])
    assert sorted(chain(*every)) == list(range(12))


def kept_and_shadowed(comm):
    """Save a run that uses no messages of pylb, and repeat it in shadow mode."""

    def run(**options):
        lb = fill(pylb.Balancer(comm, lag=3, load=lambda key, block: 1.0 + key, **options))
        for n in (30, 20):
            for it in lb.iterate(n):
                halo(comm, it)
        return lb

    path = Path(comm.bcast(tempfile.mkdtemp()), "run.h5")
    real, off = run(every=10, strategy="GreedyLB"), run(mode="off")
    saved = (off.metrics.max - real.metrics.max).sum() - real.report().lb_seconds
    assert np.isclose(real.report().saved, saved)
    shadow = run(every=10, strategy="GreedyLB", mode="shadow")
    real.save(path)
    comm.Barrier()
    record = pylb.RunRecord.load(path)
    assert record.n_iterations == 50
    assert np.allclose(real.rank_loads().max(axis=1), real.metrics.max)
    for it in (0, 12, 25, 49):
        stretch = record.at(it)
        load = stretch.load[it - stretch.first]
        assert np.array_equal(load, 1.0 + np.arange(12))
        assert np.bincount(stretch.rank, load).max() == real.metrics.max[it]
    comm.Barrier()
    assert np.array_equal(shadow.metrics.max, off.metrics.max)
    done, would = ([r.iteration for r in lb.history.lb_steps] for lb in (real, shadow))
    assert would == done == [9, 19, 39]  # none at the end of the first loop
    assert np.array_equal(shadow.shadow.max, real.metrics.max)
    assert len({repr(r) for r in comm.allgather(shadow.shadow.max.tolist())}) == 1


def every_lag(comm):
    """If the period is shorter than the lag, it becomes as long as the lag requires."""
    for lag in (1, 2, 8):
        lb = fill(pylb.Balancer(comm, lag=lag, every=2, load=lambda key, block: 1.0))
        for it in lb.iterate(40):
            halo(comm, it)
        done = same_everywhere(comm, lb, 40)
        assert done
        assert all(2 <= b - a <= lag + 2 for a, b in pairwise(done))


def loops_go_on(comm):
    lb = fill(pylb.Balancer(comm, lag=2, every=1000))  # 1000: after the end of the run
    assert list(lb.iterate(5)) == [0, 1, 2, 3, 4]
    assert list(lb.iterate(0)) == []
    for it in lb.iterate(100):
        if it == 7:
            break  # all ranks leave the loop in the same iteration
    assert list(lb.iterate(3)) == [7, 8, 9]
    assert same_everywhere(comm, lb, 10) == []


def one_leaves_early(comm):
    """A rank breaks out: the others finish without LB steps, and the next loop is not affected."""
    lb = fill(pylb.Balancer(comm, lag=2, every=3, load=lambda key, block: 1.0))
    for it in lb.iterate(20):
        if it == 8 and lb.rank == lb.n_ranks - 1:
            break
    assert [r.iteration for r in lb.history.lb_steps] == [2, 5]
    assert len(lb.rank_loads()) == (8 if comm.size == 1 else 20)
    seen = list(lb.iterate(4))
    start = 8 if comm.size == 1 else 20
    assert seen == list(range(start, start + 4))
    assert len({repr(x) for x in comm.allgather([r.to_dict() for r in lb.history])}) == 1


def nothing_to_do(comm):
    """Run with zero load everywhere, with one object, and with no object."""
    for n in (12, 1, 0):
        lb = fill(pylb.Balancer(comm, lag=2, load=lambda key, block: 0.0), n)
        for it in lb.iterate(20):
            halo(comm, it)
        same_everywhere(comm, lb, 20)
        assert lb.metrics.max.tolist() == [0.0] * 20
        assert lb.metrics.max_over_mean.tolist() == [1.0] * 20


def coming_and_going(comm):
    lb = fill(pylb.Balancer(comm, lag=2, every=4, load=lambda key, block: 1.0))
    alive = []
    for it in lb.iterate(24):
        halo(comm, it)
        alive.append([key for key, _ in lb.local()])
        if it == 5 and lb.rank == 0:
            lb.add(100, np.zeros(3))
            raised(errors.DuplicateKeyError, "key 100", lambda: lb.add(100, None))
        if it == 13:
            for key, block in lb.local():
                if key in (3, 100):
                    assert lb.remove(key) is block
                    raised(errors.UnknownKeyError, f"key {key}", lambda key=key: lb.remove(key))
    sums = [sorted(chain(*parts)) for parts in zip(*comm.allgather(alive), strict=True)]
    first = list(range(12))
    assert sums[:6] == [first] * 6
    assert sums[6:14] == [[*first, 100]] * 8
    assert sums[14:] == [[key for key in first if key != 3]] * 10
    assert lb.metrics.mean.tolist() == [
        x / comm.size for x in [12.0] * 6 + [13.0] * 8 + [11.0] * 10
    ]
    assert same_everywhere(comm, lb, 24) == [3, 7, 11, 15, 19]
    assert lb.report().n_objects == 11


def phases(comm):
    """With and without a lag: the same loads of each phase, LB steps and errors."""
    spent = [0.0]  # seconds of a clock that the program sets

    def run(lag, n=20, wrong=None, talks=True, **options):
        lb = fill(pylb.Balancer(comm, lag=lag, every=6, strategy="VectorLB", **options))
        for it in lb.iterate(n):
            if talks:  # ranks that have failed send nothing
                halo(comm, it)
            for name in wrong or ("push", "fields"):
                with lb.phase(name, clock=lambda: spent[0]):
                    for key, _ in lb.local():
                        spent[0] += 1.0 + 4.0 * ((key % comm.size % 2 == 0) == (name == "push"))
        return lb

    lb, other = run(2), run(0)
    assert list(lb.phases) == ["push", "fields"]
    for mine, theirs in zip(lb.phases.values(), other.phases.values(), strict=True):
        assert mine.max.tolist() == theirs.max.tolist()
        assert mine.mean.tolist() == theirs.mean.tolist()
    assert lb.metrics.max.tolist() == other.metrics.max.tolist()
    steps, others = ([r.to_dict() for r in x.history.lb_steps] for x in (lb, other))
    for name in ("iteration", "predicted", "migrations", "gain"):
        assert [r[name] for r in steps] == [r[name] for r in others]
    saved, without_lag = (r.saved + r.lb_seconds for r in (lb.report(), other.report()))
    assert np.isclose(saved, without_lag)
    assert run(2, mode="shadow").shadow.max.tolist() == lb.metrics.max.tolist()
    for names in (("fields", "push"), ("push",)) if comm.size > 1 else ():
        wrong = names if comm.rank == comm.size - 1 else None
        words = ("phases differ between ranks", f"rank {comm.size - 1}: {', '.join(names)}")
        raised(errors.DomainError, words, lambda wrong=wrong: run(2, wrong=wrong, talks=False))
    own = fill(pylb.AsyncBalancer(comm))
    own.begin(2)
    raised(errors.StateError, "phase() outside iterate()", lambda: own.phase("push"))
    own.finish()


def idle_and_utilization(comm):
    lb = fill(pylb.Balancer(comm, lag=2, mode="off"))
    for it in lb.iterate(4):
        halo(comm, it)
        for _ in lb.local():
            pass
        time.sleep(0.01)
    it = lb.metrics
    assert all(it.idle >= 0.01)
    assert all(it.utilization <= 1e-9 + it.mean / (it.mean + it.idle))  # the lowest of the ranks
    assert all(it.time >= 0.01)


def wrong_calls(comm):
    lb = fill(pylb.AsyncBalancer(comm, lag=2))
    raised(errors.StateError, "send() with lag=2", lambda: lb.send(0, lb.rank, 1))
    raised(errors.StateError, "inbox() with lag=2", lambda: lb.inbox(0))
    raised(errors.StateError, "without a loop: expected begin()", lambda: lb.at_sync(0))
    raised(errors.StateError, "without a loop: expected begin()", lb.lb_step)
    for _ in lb.iterate(3):
        raised(errors.StateError, "exchange() with lag=2", lb.exchange)
        raised(errors.StateError, "rank_loads() within", lb.rank_loads)
        raised(errors.StateError, "under way", lambda: list(lb.iterate(1)))
        raised(errors.StateError, "without a loop: expected begin()", lambda: lb.at_sync(0))
        other = pylb.Balancer(comm, lag=2)
        raised(errors.StateError, "another Balancer", lambda o=other: list(o.iterate(1)))
    raised(errors.DomainError, "lag is 0", lambda: pylb.AsyncBalancer(comm, lag=0))
    raised(errors.DomainError, "lag is -1", lambda: pylb.Balancer(comm, lag=-1))
    raised(errors.DomainError, "lag is 1.5", lambda: pylb.Balancer(comm, lag=1.5))
    raised(errors.DomainError, "lag=inf", lambda: pylb.Balancer(comm, lag=math.inf).iterate(3))
    raised(errors.DomainError, "every", lambda: pylb.Balancer(comm, lag=2, every=0))
    if comm.size > 1:
        lb = fill(pylb.Balancer(comm, lag=2 + comm.rank % 2))
        raised(errors.DomainError, ("lag=2", "lag=3"), lambda: list(lb.iterate(3)))


def an_error_that_one_rank_catches(comm):
    """All ranks raise it, although no rank ends; then a barrier and another loop work."""
    for lag, where in product((0, 2), ("load", "strategy", "trigger")):
        _caught(comm, lag, where)


def _caught(comm, lag, where):
    failing = comm.size - 1  # the rank that fails; None: no rank

    def fail(here):
        if here == where:
            raise ArithmeticError(where)

    def load(key, block):
        if comm.rank == failing and lb.iteration > 2:
            fail("load")
        return 1.0

    def strategy(snapshot):
        if failing is not None:
            fail("strategy")
        return snapshot.rank

    def trigger(cycle):
        if comm.rank == failing:
            fail("trigger")
        return cycle.iteration % 3 == 2

    lb = pylb.Balancer(comm, lag=lag, load=load, strategy=strategy, trigger=trigger)
    for key in range(4):
        lb.add(10 * comm.rank + key, None)
    said = []
    try:
        list(lb.iterate(20))
    except (ArithmeticError, errors.PylbError) as why:
        said.append(str(why))
        failing = 0
        try:  # an error of another rank is raised while this one is handled
            list(lb.iterate(20))
        except (ArithmeticError, errors.PylbError) as again:
            said.append(str(again))
    assert [where in text for text in said] == [True, True], said
    failing = None
    comm.Barrier()
    assert len(list(lb.iterate(5))) == 5
    assert len(set(comm.allgather(lb.iteration))) == 1


# ---- objects at their own pace ---------------------------------------------------------------


class Ring:
    """Objects on a ring that send to both neighbours in each iteration, by the program's own
    messages.  An object ends iteration k when its neighbours' messages of k have arrived.  An
    object that moves takes messages that it has not processed with it.
    """

    def __init__(self, comm, lb, n, rng):
        self.comm, self.lb, self.n, self.rng = comm.Dup(), lb, n, rng
        self.under_way = []
        self.asks = Counter()
        self.spread = 0

    def send(self, key, k):
        for to in ((key - 1) % self.n, (key + 1) % self.n):
            self.under_way.append(self.comm.isend((to, k), self.lb.rank_of(to)))
        self.under_way = [request for request in self.under_way if not request.Test()]

    def receive(self):
        blocks = dict(self.lb.local())
        while self.comm.iprobe():
            to, k = self.comm.recv()
            blocks[to]["came"][k] = blocks[to]["came"].get(k, 0) + 1

    def run(self, n):
        self.lb.ranks_of(range(self.n))
        running = [key for key, _ in self.lb.local()]
        for key in running:
            self.send(key, 1)
        standing, state = [], AtSync.PAUSE
        while state is not AtSync.END:
            self.receive()
            for key, block in self.lb.local():
                self.advance(key, block, running, standing)
            for key in standing.copy():
                self.go(key, self.lb.at_sync(key), running, standing)
            ks = [block["k"] for _, block in self.lb.local()]
            self.spread = max(self.spread, max(ks, default=0) - min(ks, default=0))
            state = self.lb.at_sync()
            if state is AtSync.BALANCE:
                self.receive()  # no message of this iteration or an earlier one is left
                self.lb.lb_step()
                running, standing = [key for key, _ in self.lb.local()], []
                for key, block in self.lb.local():
                    self.send(key, block["k"] + 1)
        MPI.Request.Waitall(self.under_way)
        self.comm.Barrier()
        assert not self.comm.iprobe()

    def advance(self, key, block, running, standing):
        """Run one iteration, if the object may run and has its messages."""
        k = block["k"] + 1
        if key not in running or block["came"].get(k, 0) < 2 or self.rng.random() < 0.3:
            return
        del block["came"][k]
        block["k"] = k
        running.remove(key)
        standing.append(key)
        self.go(key, self.lb.at_sync(key), running, standing)

    def go(self, key, answer, running, standing):
        self.asks[answer] += 1
        if answer is AtSync.GO:
            standing.remove(key)
            running.append(key)
            self.send(key, dict(self.lb.local())[key]["k"] + 1)
        elif answer is AtSync.END:
            standing.remove(key)


def objects_at_their_own_pace(comm):
    """Some objects of a rank are ahead of others, with an unlimited and with a limited lag."""
    n, steps = 10, 40
    spread = 0
    for lag in (math.inf, 1, 4):
        lb = pylb.AsyncBalancer(
            comm, lag=lag, every=5, load=lambda key, block: 1.0 + key + block["k"] % 2
        )
        dealt(lb, range(n), lambda key: {"k": 0, "came": {}})
        lb.begin(steps)
        ring = Ring(comm, lb, n, random.Random(comm.rank))
        ring.run(steps)
        assert all(block["k"] == steps for _, block in lb.local())
        done = same_everywhere(comm, lb, steps)
        assert len(done) >= steps // (5 + 5) - 1
        # Loads are counted by iteration, not by time: each iteration's sum is that of all objects.
        total = [sum(1.0 + key + k % 2 for key in range(n)) for k in range(1, steps + 1)]
        assert np.allclose(lb.metrics.mean * comm.size, total, rtol=1e-12)
        spread = max(spread, ring.spread)
        raised(errors.StateError, "without a loop: expected begin()", lb.at_sync)
    assert max(comm.allgather(spread)) >= 1
