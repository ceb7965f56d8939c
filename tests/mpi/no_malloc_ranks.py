"""Each allocation fails once, but only on rank 1: ``mpiexec -n 3 python no_malloc_ranks.py _mpi``.

The preloaded library is the compiled no_malloc.c, and NO_MALLOC_IN is ``pylb/`` and the argument:
``_`` is all of pylb's extension modules, and ``_c`` is the core.  All ranks must raise MemoryError
or an error of pylb, or none of them if the call could try again; the same call must work
afterwards.
"""

import ctypes
import sys

import numpy as np
from mpi4py import MPI

import pylb
from pylb import _mpi

switch = ctypes.CDLL(None)
switch.no_malloc_at.argtypes = [ctypes.c_int64]


OPTIONAL = "old ids weight size share fixed kept_part kept_old kept".split()


def settle(comm, *, rename=True, **given):
    """Complete a partition of 12 objects per rank into 4 parts."""
    part = (np.arange(12, dtype=np.int32) + comm.rank) % 4
    dist = np.arange(comm.size + 1) * 12
    rest = {**dict.fromkeys(OPTIONAL), **given}
    _mpi.settle(comm, parts=4, part=part, n_weights=0, rename=rename, dist=dist, **rest)


def calls_of_zoltan(world):
    """Yield the name of each call, and the call."""
    coords = np.random.default_rng(world.rank).random((12, 3))
    ring = np.stack([np.arange(-1, 11), np.arange(1, 13)], 1) + 12 * world.rank
    graph = (np.arange(13) * 2, (ring % (12 * world.size)).ravel())
    given = {"parts": 4, "comm": world}
    yield "rcb", lambda: pylb.partition(coords=coords, method="rcb", **given)
    yield "hsfc", lambda: pylb.partition(coords=coords, method="hsfc", **given)
    yield "graph", lambda: pylb.partition(graph, method="graph", **given)
    shares = np.arange(1.0, 5.0) / 10
    yield "shares", lambda: pylb.partition(coords=coords, method="rcb", shares=shares, **given)


def calls_of_mpi(world):
    """Yield the name of each call, and the call."""
    native = _mpi.Comm(world)
    mine = bytes(range(world.rank + 1))
    old = np.arange(12, dtype=np.int32) % 4
    ids, size = np.arange(12) + 100 * world.rank, np.ones(12)
    yield "constructor", lambda: _mpi.Comm(world).free()
    yield "allgather", lambda: native.allgather(mine)
    yield "settle", lambda: settle(world)
    yield "settle, numbers kept", lambda: settle(world, rename=False, size=size)
    yield "settle, with ids", lambda: settle(world, ids=ids, size=size)
    yield "settle, with old parts", lambda: settle(world, old=old, rename=False)
    yield "settle, with all", lambda: settle(world, old=old, ids=ids, rename=False)
    native.free()


def calls_of_services(world):
    """Yield the name of each call, and the call."""
    targets = np.arange(3 * world.size) % world.size
    plan = pylb.Plan(world, targets)
    x = np.arange(3.0 * world.size)
    sizes = np.arange(3 * world.size)
    keys = world.rank + world.size * np.arange(5)
    yield "plan", lambda: pylb.Plan(world, targets)
    yield "forward", lambda: plan.forward(x)
    yield "several arrays", lambda: plan.forward(x, np.stack([x, x], 1), x.astype(np.int8))
    yield "new arrays", lambda: pylb.Plan(world, targets).forward(x, x)
    yield "objects", lambda: plan.forward([{"x": i} for i in range(3 * world.size)])
    yield "reverse", lambda: plan.reverse(x)
    yield "rows", lambda: plan.resize(sizes).forward(np.arange(sizes.sum()))

    def directory():
        table = pylb.Directory(world)
        table.update(keys)
        assert (table.find(keys[::-1])[0] == world.rank).all()

    def refused():
        pylb.Directory(world).update(keys, np.zeros((len(keys), 2), int))

    yield "directory", directory
    yield "directory, wrong call", lambda: fails(refused)


def calls_of_loops(world):
    """Yield the name of each call, the call, and a function that makes its argument."""

    def balancer(**options):
        lb = pylb.Balancer(world, load=lambda key, _: 1.0 + key % 3, **options)
        for key in range(4 + 4 * (world.rank == 1)):
            lb.add(10 * world.rank + key, [key], memory=100)
        return lb

    def balances(lb):
        for _ in lb.iterate(8):
            pass

    def advises(lb):
        for _ in lb.iterate(8):
            lb.advise(seconds=1.0 + world.rank)

    for options in (
        {"every": 2, "strategy": "GreedyLB"},
        {"every": 2, "strategy": "GreedyLB", "lag": 1},
        {"lag": 2},
        {"lag": 1, "memory_limit": 2000},
        {"lag": 1, "every": 2, "speed": 1.0 + world.rank},
        {"every": 2, "mode": "shadow"},
    ):
        yield f"balancer {options}", balances, lambda given=options: balancer(**given)
    yield "advisor", advises, lambda: pylb.Advisor(world, every=2)
    yield "advisor with a lag", advises, lambda: pylb.Advisor(world, every=2, lag=1)


def fails(call):
    try:
        call()
    except (MemoryError, pylb.errors.PylbError):
        return True
    return False


def sweep(comm, tries_again, name, call, prepare=None):
    """Let each allocation of rank 1 fail once.

    tries_again: whether a call may succeed all the same, because it tries again.
    """
    for n in range(400):
        given = [] if prepare is None else [prepare()]
        switch.no_malloc_at(n if comm.rank == 1 else -1)
        raised = fails(lambda given=given: call(*given))
        failed = switch.no_malloc_failed()
        switch.no_malloc_at(-1)
        answers = comm.allgather((raised, bool(failed)))
        raised = {one for one, _ in answers}
        assert raised == {answers[1][1]} or (tries_again and len(raised) == 1), (name, n, answers)
        if not answers[1][1]:
            break
    assert n > 0, name


CALLS = {
    "_mpi": (calls_of_mpi, False),
    "_zoltan": (calls_of_zoltan, False),
    "_": (calls_of_services, True),
    "_c": (calls_of_loops, True),
}


def main():
    comm = MPI.COMM_WORLD
    calls, tries_again = CALLS[sys.argv[1]]
    for given in calls(comm):
        sweep(comm, tries_again, *given)
    print("done")


main()
