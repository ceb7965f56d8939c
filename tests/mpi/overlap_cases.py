"""Objects that migrate while the program goes on."""

import contextlib
import itertools
import os
import tempfile
import threading
import time

import numpy as np
from each_case import dealt, raised, rotate

import pylb
from pylb import errors

PROGRAMS = 8 * int(os.environ.get("PYLB_EXAMPLES", "1"))


def scattered(seed):
    """Return a strategy that puts movable objects on ranks drawn at random."""
    draw = itertools.count()

    def strategy(snapshot):
        rng = np.random.default_rng([seed, next(draw)])
        new = rng.integers(0, snapshot.n_ranks, snapshot.n_objects).astype(np.int32)
        stays = (rng.random(snapshot.n_objects) < 0.5) | ~snapshot.migratable
        return np.where(stays, snapshot.rank, new)

    return strategy


def choices(seed):
    """Return the arguments with which a random program and its replay decide."""
    strategy = "auto" if seed % 2 else scattered(seed)
    every = int(np.random.default_rng(seed).integers(1, 4))
    return {"strategy": strategy, "every": every, "pause_if_useless": False}


def program(comm, seed, overlap, path=None):
    """Run a random program; return its objects by key, which do not depend on the placement.

    path: record it there; return also the decisions.
    """
    same = np.random.default_rng(seed)
    passes = int(same.integers(0, 4))
    sizes = same.choice([0, 1, 300, 5_000, 200_000], 12)
    lb = pylb.Balancer(
        *(comm,),
        overlap=overlap,
        load=lambda key, block: 1e-5 * (1 + (key * 7 + int(block[0][:1].sum())) % 5),
        **choices(seed),
    )
    dealt(lb, range(len(sizes)), lambda key: [np.full(sizes[key], float(key)), 0])
    loops = [(int(same.integers(0, 9)), int(same.integers(0, 3))) for _ in range(3)]
    fresh = itertools.count(100)
    for n, left in loops:
        for it in lb.iterate(n):
            for k in range(passes):
                for key, block in lb.local():
                    block[0] += 0.5 * (it + k)
                    if k == 0:
                        block[1] += sum(x for _, x in lb.inbox(key))
                        lb.send((key * 7 + it) % len(sizes), key, key * 1000 + it)
            new = next(fresh)
            if it % 3 == 1 and new % lb.n_ranks == lb.rank:
                lb.add(new, [np.full(40_000, float(new)), 0])
            gone = 100 + it // 2
            if it % 4 == 2:
                with contextlib.suppress(errors.UnknownKeyError):  # another rank has it
                    lb.remove(gone)
            if left and it % 5 == 4:
                break
        lb.finish()
    found = {key: (block[0].copy(), block[1]) for key, block in lb.local()}
    if path is None:
        return found
    lb.save(path)
    return found, lb.history


def random_programs_compute_what_one_rank_computes(comm):
    """And their replays decide as they did."""
    with tempfile.TemporaryDirectory() as own:
        path = comm.bcast(own) + "/run.h5"
        first = time.time_ns() >> 20 if "PYLB_EXAMPLES" in os.environ else 0
        for seed in comm.bcast(range(first, first + PROGRAMS)):
            alone = program(None, seed, False) if comm.rank == 0 else None
            for overlap in (False, True, "auto"):
                found, history = program(comm, seed, overlap, path)
                every = comm.gather(found)
                if comm.rank == 0:
                    again = pylb.Trace.load(path).replay(**choices(seed)).decisions
                    assert again == history, (seed, overlap, again, history)
                    whole = dict(itertools.chain(*(part.items() for part in every)))
                    assert whole.keys() == alone.keys(), (seed, whole.keys(), alone.keys())
                    for key, (array, total) in alone.items():
                        assert whole[key][1] == total, (seed, overlap, key)
                        assert np.array_equal(whole[key][0], array), (seed, overlap, key)
        comm.Barrier()


class Fragile:
    """An object that cannot be restored."""

    def __init__(self):
        self.data = np.zeros(100_000)

    def __setstate__(self, state):
        raise ValueError("it is glass")


def an_object_that_cannot_be_restored(comm):
    """All ranks raise an error at the end of the iteration in which it should arrive."""
    if comm.size == 1:
        return
    lb = pylb.Balancer(comm, strategy=rotate, every=1, overlap=True, record=False)
    lb.add(comm.rank, Fragile())
    raised(errors.SerializationError, "it is glass", lambda: list(lb.iterate(3)))


def objects_that_can_no_longer_be_pickled_stay(comm):
    lb = pylb.Balancer(comm, strategy=rotate, every=2, overlap=True)
    dealt(lb, range(12), lambda key: [np.zeros(1000)])
    for it in lb.iterate(6):
        for key, block in lb.local():
            assert lb.inbox(key) == [((key - 1) % 12, it - 1)] * (it > 0)
            lb.send((key + 1) % 12, key, it)
            block += [threading.Lock()] * (key % 3 == 0 and it == 0)
    to = [key + 2 * (key % 3 > 0) for key in range(12)]  # the others move twice
    assert [key for key, _ in lb.local()] == [k for k in range(12) if to[k] % lb.n_ranks == lb.rank]


def a_slow_strategy_runs_beside_an_iteration(comm):
    """From the second LB step on, it runs in a thread, and the LB step is one iteration later.

    If it fails there, the LB step moves nothing, and the program goes on.
    """
    threads = []
    choice = {"every": 2, "pause_if_useless": False, "learn_speeds": True}

    def slow(snapshot):
        threads.append(threading.current_thread() is threading.main_thread())
        time.sleep(0.08)
        return (snapshot.rank + (snapshot.load > np.median(snapshot.load))) % snapshot.n_ranks

    def fails_once(snapshot):
        placed = slow(snapshot)
        if len(threads) == 2:
            raise ValueError("no idea")
        return placed

    if comm.size == 1:
        return
    for strategy in (slow, fails_once):
        load = lambda key, block: 1e-3 * (1 + (7 * key + block[1]) % 5)  # noqa: E731
        lb = pylb.Balancer(comm, strategy=strategy, load=load, **choice)
        dealt(lb, range(9), lambda key: [key, 0])
        threads.clear()
        for it in lb.iterate(10):
            if it == 7:
                lb.add(100 + comm.rank, [100 + comm.rank, 0])
            for key, block in lb.local():
                assert block[0] == key
                block[1] = it
            time.sleep(0.4 * (it in (4, 7)))  # the strategy takes less
        assert [r.iteration for r in lb.history] == [1, 4, 7], lb.history
        assert [r.migrations > 0 for r in lb.history] == [True, strategy is slow, True]
        # the objects were others in iteration 7, so the strategy is called again
        assert comm.bcast(threads) == [True, False, False, True], threads
        with tempfile.TemporaryDirectory() as folder:
            lb.save(f"{folder}/run.h5")
            if comm.rank == 0:
                threads.clear()
                again = pylb.Trace.load(f"{folder}/run.h5").replay(strategy, **choice).decisions
                assert again == lb.history, (again, lb.history)


def a_replay_repeats_the_run(comm):
    """A run in which objects arrive late is repeated to the bit."""
    with tempfile.TemporaryDirectory() as own:
        path = comm.bcast(own) + "/run.h5"

        def run(**options):
            lb = pylb.Balancer(comm, overlap=True, record=path, **options)
            dealt(lb, range(20), lambda key: [np.full(1000 * key, 1.0)])
            for it in lb.iterate(9):
                for key, block in lb.local():
                    block[0] += key * it
            comm.Barrier()
            return sorted((key, float(block[0].sum())) for key, block in lb.local())

        first = run(strategy=scattered(3), every=2)
        comm.Barrier()
        again, path = path, path[:-3] + "2.h5"
        assert run(replay=again) == first


def overlap_is_checked(comm):
    raised(errors.DomainError, "overlap is 'yes'", lambda: pylb.Balancer(comm, overlap="yes"))
    text = "overlap is True with lag=2"
    raised(errors.DomainError, text, lambda: pylb.Balancer(comm, overlap=True, lag=2))
