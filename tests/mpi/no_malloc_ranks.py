"""Allocations fail one by one, only on rank 1: ``mpiexec -n 3 python no_malloc_ranks.py mpi 1 1``.

The arguments: a group of calls, a factor for the size of their data, and a step: every how many
allocations one fails.  The preloaded library is
the compiled no_malloc.c; NO_MALLOC_IN says in which modules allocations fail, NO_MALLOC_LEAST from
which size on.  All ranks must raise MemoryError or an error of pylb, or none of them if the call
could try again; the same call must work afterwards.
"""

import ctypes
import sys
import tempfile

import numpy as np
from mpi4py import MPI

import pylb
from pylb import _mpi

FACTOR, STEP = map(int, sys.argv[2:])
switch = ctypes.CDLL(None)
switch.no_malloc_at.argtypes = [ctypes.c_int64]


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
    mine = bytes(range(100 + world.rank))  # a gather of 56 bytes or less allocates nothing
    yield "constructor", lambda: _mpi.Comm(world).free()
    yield "allgather", lambda: native.allgather(mine)
    native.free()


def calls_of_services(world):
    """Yield the name of each call, and the call."""
    n = 3 * world.size * FACTOR
    targets = np.arange(n) % world.size
    plan = pylb.Plan(world, targets)
    x = np.arange(float(n))
    several = x, np.stack([x, x], 1), x.astype(np.int8)
    objects = [{"x": i} for i in range(n)]
    sizes = np.arange(n) % 6
    rows = np.arange(sizes.sum())
    keys = world.rank + world.size * np.arange(5 * FACTOR)
    backwards, too_wide = keys[::-1].copy(), np.zeros((len(keys), 2), int)
    yield "plan", lambda: pylb.Plan(world, targets)
    yield "forward", lambda: plan.forward(x)
    yield "several arrays", lambda: plan.forward(*several)
    yield "new arrays", lambda: pylb.Plan(world, targets).forward(x, x)
    yield "objects", lambda: plan.forward(objects)
    yield "reverse", lambda: plan.reverse(x)
    yield "rows", lambda: plan.resize(sizes).forward(rows)

    def directory():
        table = pylb.Directory(world)
        table.update(keys)
        assert (table.find(backwards).owner == world.rank).all()

    def refused():
        pylb.Directory(world).update(keys, too_wide)

    yield "directory", directory
    yield "directory, wrong call", lambda: fails(refused)


def calls_of_loops(world):
    """Yield the name of each call, the call, and a function that makes its argument."""

    def balancer(**options):
        lb = pylb.Balancer(world, load=lambda key, _: 1.0 + key % 3, **options)
        for key in range((4 + 4 * (world.rank == 1)) * FACTOR):
            lb.add(10 * FACTOR * world.rank + key, [key], memory=100)
        return lb

    def balances(lb):
        list(lb.iterate(8))

    def advises(lb):
        for _ in lb.iterate(8):
            lb.advise(seconds=1.0 + world.rank)

    for options in (
        {"every": 2, "strategy": "GreedyLB"},
        {"every": 2, "strategy": "GreedyLB", "lag": 1},
        {"lag": 2},
        {"lag": 1, "memory_limit": 2000 * FACTOR},
        {"lag": 1, "every": 2, "speed": 1.0 + world.rank},
        {"every": 2, "mode": "shadow"},
    ):
        yield f"balancer {options}", balances, lambda given=options: balancer(**given)
    yield "advisor", advises, lambda: pylb.Advisor(world, every=2)
    yield "advisor with a lag", advises, lambda: pylb.Advisor(world, every=2, lag=1)


def ring_of(world):
    """Return start, to and ids of the vertices of a ring, and the ids of those of all ranks."""
    n = 12 * FACTOR
    ring = np.stack([np.arange(-1, n - 1), np.arange(1, n + 1)], 1) + n * world.rank
    ids = [7 * np.arange(n) + 100 * n * rank for rank in range(world.size)]
    start, to = np.arange(n + 1) * 2, (ring % (n * world.size)).ravel()
    return start, to, ids[world.rank], np.concatenate(ids)


def calls_of_partitions(world):
    """Yield the name of each call, and the call."""
    start, to, ids, names = ring_of(world)
    graph, n = (start, to), len(ids)
    coords = np.random.default_rng(world.rank).random((n, 3))
    old = np.arange(n, dtype=np.int32) % 4
    for method, given in (
        ("rib", {"coords": coords, "shares": [1, 2, 0, 3], "old": old}),
        ("hsfc", {"coords": coords}),
        ("graph", {"graph": (start, names[to]), "ids": ids}),
        ("zoltan", {"graph": graph, "fixed_part": np.where(old == 1, 3, -1)}),
        ("zoltan", {"nets": graph, "ids": n * world.rank + np.arange(n)}),
        ("graph", {"graph": graph, "old": old}),
        ("metis", {"graph": graph, "weight": np.ones((n, 2))}),
        ("scotch", {"graph": (np.arange(n + 1), to[1::2].copy()), "symmetrize": True}),
        ("pylb", {"graph": graph}),
    ):
        yield (
            f"{method} {list(given)}",
            lambda m=method, o=given: pylb.partition(method=m, parts=4, comm=world, **o),
        )


def calls_of_graphs(world):
    """Yield the name of each call, and the call."""
    start, to, ids, names = ring_of(world)
    named = start, names[to]
    yield "color", lambda: pylb.partitioning.color((start, to), comm=world)
    yield "color, distance 2", lambda: pylb.partitioning.color((start, to), 2, comm=world)
    yield "color, with ids", lambda: pylb.partitioning.color(named, comm=world, ids=ids)
    yield "order", lambda: pylb.partitioning.order((start, to), comm=world)


def calls_of_parts(world):
    """Yield the name of each call, and the call."""

    n = 40 * FACTOR
    whole = np.ones((n, 30))

    def divided(make):
        part = make()
        mine = whole[part.local]
        for work in (1, 3, 2):
            with part.timed():
                sum(range(10_000 * work * (1 + world.rank)))
            mine = part.redistribute(mine)

    for options in ({}, {"model": "power"}, {"model": "cpm"}, {"trigger": "menon"}):
        rows = lambda given=options: pylb.RowPartition(world, n, **given)  # noqa: E731
        yield f"rows {options}", lambda make=rows: divided(make)
    yield "tiles", lambda: divided(lambda: pylb.TilePartition(world, (n, 30)))


def calls_of_checkpoints(world):
    """Yield the name of each call, the call, and a function that makes its argument."""

    def balancer():
        lb = pylb.Balancer(world, load=lambda key, _: 1.0 + key % 3, every=2, record=True)
        for key in range((4 + 4 * (world.rank == 1)) * FACTOR):
            lb.add(10 * FACTOR * world.rank + key, [key])
        list(lb.iterate(4))
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
    """Let every STEP-th allocation of rank 1 fail once.

    tries_again: whether a call may succeed all the same, because it tries again.
    """
    for n in range(0, 10_000, STEP):
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
    assert n > 0 or FACTOR > 1, name


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
