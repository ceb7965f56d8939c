"""Each allocation fails once, but only on rank 1: ``mpiexec -n 3 python no_malloc_ranks.py mpi``.

The argument is a group of calls.  The preloaded library is the compiled no_malloc.c; NO_MALLOC_IN
says in which of pylb's extension modules allocations fail.  All ranks must raise MemoryError or an
error of pylb, or none of them if the call could try again; the same call must work afterwards.
"""

import ctypes
import sys
import tempfile

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


def ring_of(world):
    """Return start, to and ids of a ring with 12 vertices per rank, and the ids of all vertices."""
    ring = np.stack([np.arange(-1, 11), np.arange(1, 13)], 1) + 12 * world.rank
    ids = [7 * np.arange(12) + 1000 * rank for rank in range(world.size)]
    start, to = np.arange(13) * 2, (ring % (12 * world.size)).ravel()
    return start, to, ids[world.rank], np.concatenate(ids)


def calls_of_partitions(world):
    """Yield the name of each call, and the call."""
    coords = np.random.default_rng(world.rank).random((12, 3))
    start, to, ids, names = ring_of(world)
    graph = start, to
    old = np.arange(12, dtype=np.int32) % 4
    for method, given in (
        ("rib", {"coords": coords, "shares": [1, 2, 0, 3], "old": old}),
        ("hsfc", {"coords": coords}),
        ("graph", {"graph": (start, names[to]), "ids": ids}),
        ("zoltan", {"graph": graph, "fixed": np.where(old == 1, 3, -1)}),
        ("zoltan", {"nets": graph, "ids": 12 * world.rank + np.arange(12)}),
        ("graph", {"graph": graph, "old": old}),
        ("metis", {"graph": graph, "weight": np.ones((12, 2))}),
        ("scotch", {"graph": (np.arange(13), to[1::2]), "symmetrize": True}),
        ("pylb", {"graph": graph}),
    ):
        yield (
            f"{method} {list(given)}",
            lambda m=method, o=given: pylb.partition(method=m, parts=4, comm=world, **o),
        )


def calls_of_graphs(world):
    """Yield the name of each call, and the call."""
    start, to, ids, names = ring_of(world)
    yield "color", lambda: pylb.color((start, to), comm=world)
    yield "color, distance 2", lambda: pylb.color((start, to), 2, comm=world)
    yield "color, with ids", lambda: pylb.color((start, names[to]), comm=world, ids=ids)
    yield "order", lambda: pylb.order((start, to), comm=world)


def calls_of_parts(world):
    """Yield the name of each call, and the call."""

    def divided(make):
        part = make()
        mine = np.ones((40, 30))[part.local]
        for work in (1, 3, 2):
            with part.timed():
                np.ones(10_000 * work * (1 + world.rank)).sum()
            mine = part.redistribute(mine)

    for options in ({}, {"model": "power"}, {"model": "cpm"}, {"trigger": "menon"}):
        rows = lambda given=options: pylb.RowPartition(world, 40, **given)  # noqa: E731
        yield f"rows {options}", lambda make=rows: divided(make)
    yield "tiles", lambda: divided(lambda: pylb.TilePartition(world, (40, 30)))


def calls_of_checkpoints(world):
    """Yield the name of each call, the call, and a function that makes its argument."""

    def balancer():
        lb = pylb.Balancer(world, load=lambda key, _: 1.0 + key % 3, every=2, record=True)
        for key in range(4 + 4 * (world.rank == 1)):
            lb.add(10 * world.rank + key, [key])
        for _ in lb.iterate(4):
            pass
        return lb

    made = tempfile.TemporaryDirectory() if world.rank == 0 else None
    folder = world.bcast(made.name if made else None)
    balancer().checkpoint(f"{folder}/a")
    yield "checkpoint", lambda lb: lb.checkpoint(f"{folder}/b"), balancer
    for options in ({"every": 2}, {}):
        yield (
            f"restore {options}",
            lambda o=options: pylb.Balancer.restore(world, f"{folder}/a", **o),
        )
    yield "save", lambda lb: lb.save(f"{folder}/c.h5"), balancer
    yield "rank loads", lambda lb: lb.rank_loads(), balancer
    yield "page", lambda lb: lb.report(f"{folder}/d.html"), balancer
    world.barrier()


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
    for n in range(10_000):
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


CALLS = {  # and whether a call may try again
    "mpi": (calls_of_mpi, False),
    "zoltan": (calls_of_zoltan, False),
    "services": (calls_of_services, True),
    "loops": (calls_of_loops, True),
    "partitions": (calls_of_partitions, True),
    "graphs": (calls_of_graphs, True),
    "parts": (calls_of_parts, True),
    "checkpoints": (calls_of_checkpoints, True),
}


def main():
    comm = MPI.COMM_WORLD
    calls, tries_again = CALLS[sys.argv[1]]
    for given in calls(comm):
        sweep(comm, tries_again, *given)
    print("done")


main()
