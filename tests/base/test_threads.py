"""Ctrl-C in threads: only the main thread receives it, and it tells the others to stop."""

import threading
import time

import numpy as np
import pytest
from whatif_programs import program

import pylb
from pylb import _core
from pylb.partitioning import libraries
from pylb.threads import stoppable

LONG = 60.0  # s; a test that passes ends much sooner


class Stopped(Exception):
    """The exception that ends the blocks of these tests."""


@pytest.fixture
def stopped_here():
    """Tell this thread to stop: the first check for signals in a call of the core must see it."""
    _core.stop_when([True])
    yield
    _core.stop_when([])


def looking(begun):
    begun.set()
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        _core.check_signals()
    return "never told"


def placing(begun):
    rng = np.random.default_rng(0)
    n, m = 20_000, 80_000
    edges = (rng.integers(n, size=m), rng.integers(n, size=m), np.ones(m))
    snapshot = pylb.Snapshot(np.ones(n), rng.integers(64, size=n), n_ranks=64, edges=edges)
    begun.set()
    while True:
        pylb.place(snapshot, "RefineCommLB")


@pytest.mark.parametrize("task", [looking, placing])
def test_an_error_in_the_block_ends_the_tasks_that_run_and_those_that_wait(task):
    tasks = []

    def block():
        begun = threading.Event()
        with stoppable(1) as pool:
            tasks.extend(pool.submit(task, begun) for _ in range(2))
            assert begun.wait(LONG)
            raise Stopped

    with pytest.raises(Stopped):
        block()
    assert tasks[1].cancelled()
    with pytest.raises(KeyboardInterrupt):
        tasks[0].result()


def test_without_an_error_all_tasks_end_by_themselves():
    with stoppable(2) as pool:
        found = [pool.submit(pow, k, 2) for k in range(5)]
    assert [task.result() for task in found] == [0, 1, 4, 9, 16]


def test_only_lists_and_only_this_thread():
    with pytest.raises(TypeError):
        _core.stop_when(())
    _core.check_signals()


# ---- every long call looks for signals -------------------------------------------------------


def placed(name):
    rng = np.random.default_rng(1)
    n, p, m = 4_000, 40, 16_000
    edges = (rng.integers(n, size=m), rng.integers(n, size=m), 1e4 * rng.random(m))
    load, rank = rng.exponential(1, n), rng.integers(p // 4, size=n)
    s = pylb.Snapshot(load, rank, n_ranks=p, edges=edges, coords=rng.random((n, 3)))
    return lambda: pylb.place(s, name)


def mesh(n):
    """Return the rows of the graph of a square of n by n vertices."""
    at = np.arange(n * n).reshape(n, n)
    pairs = np.concatenate([np.stack([at[:, :-1], at[:, 1:]], -1).reshape(-1, 2),
                            np.stack([at[:-1], at[1:]], -1).reshape(-1, 2)])  # fmt: skip
    src, dst = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.lexsort((dst, src))
    return np.concatenate([[0], np.cumsum(np.bincount(src, minlength=n * n))]), dst[order]


def partitioned():
    graph = mesh(40)
    return lambda: pylb.partition(graph=graph, parts=8, method="pylb")


def ordered():
    graph = mesh(40)
    found = pylb.partitioning.order(graph, method="scotch")
    return lambda: found.fill


def traced(n_ranks=4):
    return pylb.replaying.hotspot(n_ranks, 400, 20)


def read(tmp_path):
    traced(1).save(tmp_path / "run")
    return lambda: pylb.Trace.load(tmp_path / "run")


def written(tmp_path):
    trace = traced(1)
    return lambda: trace.save(tmp_path / "run")


def packed(tmp_path):
    pytest.importorskip("brotli")
    trace = traced(1)
    return lambda: trace.save(tmp_path / "run", compress=True)


def rewritten(tmp_path):
    traced(1).save(tmp_path / "run")
    trace = pylb.Trace.load(tmp_path / "run")
    return lambda: trace.save(tmp_path / "again")


def generated():
    run = pylb.replaying.Imbalance(0.5, lambda k: 0.1 * k, iterations=300)
    return lambda: run.optimum(cost=52.0)


STRATEGIES = [
    name
    for name in pylb.strategies()
    if name not in ("none", "MetisLB", "ScotchLB", "GreedyLB", "PowerAwareLB", "MtKaHyParLB")
    and (name != "ZoltanLB" or libraries.available("Zoltan"))
]
LONG_CALLS = {
    **{name: lambda _, name=name: placed(name)() for name in STRATEGIES},
    "partition": lambda _: partitioned()(),
    "replay": lambda _: traced().replay("GreedyLB", every=1),
    "optimum": lambda _: traced().optimum(cost=1e-3),
    "optimum of a generated run": lambda _: generated()(),
}
FILES = {"write": written, "write packed": packed, "write again": rewritten}


@pytest.mark.parametrize("name", LONG_CALLS)
def test_a_long_call_looks_for_signals(name, tmp_path, stopped_here):
    with pytest.raises(KeyboardInterrupt):
        LONG_CALLS[name](tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_files_look_for_signals(name, tmp_path):
    call = FILES[name](tmp_path)
    _core.stop_when([True])
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        _core.stop_when([])
    call()  # the call works again


@pytest.mark.parametrize("call", [pylb.whatif, pylb.prediction.critical_path])
def test_recordings_look_for_signals(call, stopped_here):
    run = program(1)
    with pytest.raises(KeyboardInterrupt):
        call(run)
