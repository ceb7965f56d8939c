"""Every allocation of the core fails once: ``LD_PRELOAD=no_malloc.so python no_malloc.py GROUP``.

no_malloc.so is the compiled no_malloc.c, and NO_MALLOC_IN is ``pylb/_core``.  Each call is
repeated: first allocation 0 fails, then 1, and so on, until the call has fewer allocations.  It
must raise MemoryError, free what it had allocated, and work again afterwards.
"""

import ctypes
import gc
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from dgraph_cases import grid
from each_case import dealt
from whatif_programs import program

import pylb
from pylb import _core
from pylb.decide.decider import BALANCE, JUDGE, PREVIEW, settings
from pylb.measure import SpeedLearner
from pylb.partitioning import libraries

switch = ctypes.CDLL(None)
switch.no_malloc_at.argtypes = [ctypes.c_int64]
switch.no_malloc_live.restype = ctypes.c_int64
folder = Path(tempfile.mkdtemp())


def snapshot(n=60, p=6, m=200):
    rng = np.random.default_rng(3)
    edges = (rng.integers(n, size=m), rng.integers(n, size=m), 1e4 * rng.random(m))
    multicasts = ([1, 2], [0, 3, 4], [3, 4, 5, 7], [100.0, 5.0])
    return pylb.Snapshot(
        rng.exponential(1, n),
        rng.integers(p // 2, size=n),
        n_ranks=p,
        edges=edges,
        coords=rng.random((n, 3)),
        memory=np.full(n, 10),
        memory_limit=np.full(p, 400),
        multicasts=multicasts,
        speed=1.0 + 0.5 * (np.arange(p) % 3),
        background=0.25 * np.arange(p),
        migratable=np.arange(n) % 10 > 0,
    )


def strategies():
    s = snapshot()
    plain = pylb.Snapshot(s.load, s.rank, n_ranks=6, coords=s.coords)
    for name in pylb.strategies():
        if name == "MtKaHyParLB":
            continue
        if name == "ZoltanLB" and not libraries.available("Zoltan"):
            continue
        for kind, of in (("", plain), (" with messages and memory", s)):
            yield name + kind, lambda name=name, of=of: pylb.place(of, name)
    yield "auto", lambda: pylb.place(s, "auto")
    yield from copies()
    yield from packs()
    yield "traffic", lambda: pylb.placing.traffic(s, "GossipLB")


def copies():
    rng = np.random.default_rng(4)
    loads, nodes = 100 * rng.random((3, 24)) ** 3, {"group": 4, "node": 2}
    memory = {"memory": rng.integers(5, 14, 24), "memory_limit": [90] * 6}
    for more in ({}, memory, nodes, memory | nodes, nodes | {"even": False, "move": 0.1}):
        how = {"slots": 54, "ranks": 6, "previous": rng.integers(-1, 24, (3, 54)), **more}
        yield f"CopiesLB {[*more]}", lambda how=how: pylb.place(loads, "CopiesLB", **how)


def packs():
    rng = np.random.default_rng(5)
    lengths, was = rng.integers(1, 10, 50), rng.integers(-1, 9, 50)
    for how in ({}, {"equal": True}, {"capacity": 40}, {"previous": was}):
        yield f"pack {[*how]}", lambda how=how: pylb.pack(lengths, 9, **how)


def partitions():
    matrix, where = grid(12, 12), np.random.default_rng(0).random((144, 3))
    graph = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    yield "pylb", lambda: pylb.partition(graph=graph, parts=4, method="pylb")
    yield (
        "repartition",
        lambda: pylb.partition(graph=graph, parts=4, method="pylb", old=np.arange(144) % 4),
    )
    yield "quality", lambda: pylb.partition(graph=graph, parts=4, method="pylb").evaluation
    to, order = graph[1].astype(np.int32), np.arange(144, dtype=np.int32)
    yield "fill", lambda: _core.fill(graph[0], to, order)
    yield (
        "coords",
        lambda: pylb.place(
            pylb.Snapshot(np.ones(144), np.zeros(144, int), n_ranks=4, coords=where), "RCBLB"
        ),
    )


def replays():
    trace = pylb.replaying.hotspot(4, 40, 12)
    yield "GreedyLB", lambda: trace.replay("GreedyLB", every=3)
    yield "auto", lambda: trace.replay("auto", cost=1e-3)
    for name in pylb.triggers():
        if name != "periodic":
            yield f"trigger {name}", lambda name=name: trace.replay("RefineLB", trigger=name)
    yield "optimum", lambda: trace.optimum(cost=1e-3)
    shared = replace(snapshot(), block=np.arange(60) // 4, block_bytes=[100] * 15)
    for of in (snapshot(), shared):
        yield "evaluate", lambda of=of: pylb.evaluate(of)


def recordings():
    run = program(1)
    yield "whatif", lambda: pylb.whatif(run)
    yield "whatif elsewhere", lambda: pylb.whatif(run, placement=[0, 1, 0, 1], network=(1e-6, 1e-9))
    yield "critical path", lambda: pylb.prediction.critical_path(run)
    yield "suggest", lambda: pylb.prediction.suggest(run, placement=[0, 0, 0, 0], tries=3)


def learning(rng):
    learner, key = SpeedLearner(2), np.arange(32)
    for _ in range(3):
        learner.observe(key, key % 2, rng.random(32))
    return learner


def models():
    rng = np.random.default_rng(2)
    yield "keys", lambda: _core.Keys(np.arange(40))
    yield "learner", lambda: learning(rng)


def again(call, *args):
    """Make a call, and repeat it if it has run out of memory."""
    try:
        return call(*args)
    except MemoryError:
        return call(*args)


def decided(trigger):
    """Decide for 24 iterations, with a gain, a preview and LB steps."""
    core = again(settings("auto", trigger=trigger, learn_speeds=True).decider, 3).core
    again(core.network, 1e-4, 1e-8)
    again(core.expect, 24, 0.01, 0.008)
    rank, done = np.arange(7, dtype=np.int32) % 2, set()
    for i in range(24):
        load = (1.0 + (np.arange(7) + i // 13) % 3) / np.array([1.0, 1.0, 0.2])[rank]
        of = np.bincount(rank, load, 3)
        try:
            asked = core.observe(i, of.max(), of.max(), of.mean(), of.min(), of.sum(), 1.0, 0, 0)
        except MemoryError:
            asked = True  # the iteration counts
        snapshot = pylb.Snapshot(load, rank, n_ranks=3, key=np.arange(0, 70, 10))
        ask = again(core.next, asked, True)
        if ask == JUDGE:
            done.add(ask)
            again(core.judge, 0.1 if i % 2 else -0.1)
            ask = again(core.next, asked, True)
        if ask == PREVIEW:
            done.add(ask)
            ask = again(core.previewed, again(core.preview, snapshot, None, None))
        if ask == BALANCE:
            done.add(ask)
            again(core.choose)
            figures, speed, new = np.zeros(_core.PLACING), np.zeros(3), np.zeros(7, np.int32)
            again(core.place, snapshot, None, None, figures, speed, new)
            again(core.placed, figures, speed)
            again(core.balanced, np.count_nonzero(new != rank), 0, 0.01, 0.02, True)
            rank = new
    assert done >= {JUDGE, BALANCE} | ({PREVIEW} if trigger == "auto" else set())


def deciders():
    for trigger in ("auto", "threshold"):
        yield trigger, lambda trigger=trigger: decided(trigger)


def program_of(comm, **how):
    """Use all that a Balancer can do: objects that come and go, messages, LB steps, a record."""
    lb = pylb.Balancer(comm, network=(1e-6, 1e-9), **how)
    dealt(lb, range(12), lambda key: [key], nbytes=8)
    for it in lb.iterate(7):
        for key, _ in lb.local():
            if isinstance(comm, pylb.virtual.VirtualComm):
                comm.elapse(1e-3 * (1 + (key + it) % 5))
            if not how.get("lag"):
                list(lb.inbox(key))
                lb.send((key + 1) % 12, key, it)
        if it == 4 and lb.rank == 0:
            lb.add(100, [100])
    lb.report().to_dict()


def runs():
    def on(p, **how):
        return lambda: pylb.VirtualCluster(p, clock="none").run(lambda c: program_of(c, **how))

    yield "central", on(2, strategy="GreedyLB", every=3)
    yield "automatic", on(2)
    yield "distributed", on(3, strategy="GossipLB", every=3)
    yield "lag", lambda: program_of(None, strategy="GreedyLB", every=3, lag=2)
    yield "shadow", on(2, mode="shadow")


def over_mpi():
    """Call the functions of pylb._mpi on a communicator of one rank."""
    from mpi4py import MPI

    def with_advisor(lag):
        lb = pylb.Advisor(MPI.COMM_SELF, every=2, lag=lag, strategy="GreedyLB")
        for _ in lb.iterate(5):
            lb.advise(loads=np.ones(4), keys=np.arange(4))

    def with_rows():
        part = pylb.RowPartition(MPI.COMM_SELF, 20)
        for _ in range(2):
            with part.timed():
                pass
            part.redistribute(np.arange(20.0))

    def with_plan():
        plan = pylb.Plan(MPI.COMM_SELF, np.zeros(8, np.int32))
        plan.reverse(plan.forward(np.arange(8.0)))
        pylb.migrate(MPI.COMM_SELF, [{"a": 1}] * 8, to=np.zeros(8, np.int32))

    yield "balancer", lambda: program_of(MPI.COMM_SELF, strategy="GreedyLB", every=3)
    yield "balancer, lag", lambda: program_of(MPI.COMM_SELF, strategy="GreedyLB", every=3, lag=2)
    yield "advisor", lambda: with_advisor(0)
    yield "advisor, lag", lambda: with_advisor(2)
    yield "rows", with_rows
    yield "plan", with_plan


GROUPS = {
    each.__name__: each
    for each in (strategies, partitions, replays, recordings, models, deciders, runs, over_mpi)
}


def told_of_memory(error):
    """Say whether an error is a MemoryError, or was caused by one."""
    while error is not None:
        if isinstance(error, MemoryError) or "out of memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def sweep(name, call, step=1):
    """Let each allocation fail once; return their number, and the memory blocks still in use."""
    n = failed = 0
    while True:
        switch.no_malloc_at(n)
        error = None
        try:
            call()
        except BaseException as why:
            error = why
        failed = switch.no_malloc_failed()
        switch.no_malloc_at(-1)
        if error is not None and not (failed and told_of_memory(error)):
            raise RuntimeError(f"{name}, allocation {n}") from error
        error = None
        if not failed:
            break
        n += step
    call()
    gc.collect()
    return n, switch.no_malloc_live()


def main():
    step = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for name, call in GROUPS[sys.argv[1]]():
        call()
        _, before = sweep(name, call, 10 * step)  # what is made once is there from now on
        n, after = sweep(name, call, step)
        print(f"{name}: {n} allocations failed, {after - before} blocks were lost", flush=True)
        assert n > 0, name
        assert after <= before, name


main()
