"""Ctrl-C ends the long calls of the core soon; the main thread tells other threads to stop."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from dgraph_cases import grid
from whatif_programs import program

import pylb
from pylb import _core
from pylb.partitioning import libraries
from pylb.threads import stoppable

LONG = 400.0  # s; a test that passes ends much sooner


class Stopped(Exception):
    """The exception that ends the blocks of these tests, or that their signal handler raises."""


@pytest.fixture
def stopped_here():
    """Tell this thread to stop: the first check for signals in a call of the core must see it."""
    _core.stop_when([True])
    yield
    _core.stop_when([])


def placed(name, n=4_000, p=40, m=16_000):
    """Return a call of a strategy, with n objects, p ranks and m edges."""
    rng = np.random.default_rng(1)
    edges = (rng.integers(n, size=m), rng.integers(n, size=m), 1e4 * rng.random(m))
    load, rank = rng.exponential(1, n), rng.integers(p // 4, size=n)
    s = pylb.Snapshot(load, rank, n_ranks=p, edges=edges, coords=rng.random((n, 3)))
    return lambda: pylb.place(s, name)


def looking(begun):
    begun.set()
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        _core.check_signals()
    return "never told"


def placing(begun):
    call = placed("RefineCommLB", 20_000, 64, 80_000)
    begun.set()
    while True:
        call()


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


def traced(n_ranks=4):
    return pylb.replaying.hotspot(n_ranks, 400, 20)


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
    "partition": lambda _: pylb.partition(graph=grid(40, 40), parts=8, method="pylb"),
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


# ---- how late a call ends ----------------------------------------------------------------------


def replaying():
    trace = pylb.replaying.hotspot(64, 4_000, 200)
    return lambda: trace.replay("GreedyLB", every=1)


def on_many_ranks():
    run = pylb.Trace.from_snapshots([pylb.Snapshot([1.0, 2.0], [0, 1])] * 1000)
    return partial(dataclasses.replace(run, n_ranks=2_000_000).replay, "none")


def searching():
    trace = pylb.replaying.hotspot(64, 1_000, 400)
    return lambda: trace.optimum(cost=1e-3)


def often(function):
    """Repeat a call, because one call may be too short to be interrupted."""
    for _ in range(1000):
        function()


@pytest.fixture
def interrupted():
    """Interrupt a call after some processor time; return how late it ended, in processor
    seconds, which do not depend on how busy the machine is."""

    def handler(_, frame):
        if frame.f_code.co_name == "_remove":  # Python ignores what is raised here
            signal.setitimer(signal.ITIMER_PROF, 1e-3)
        else:
            raise Stopped

    def call(function, after):
        before = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, after)
        try:
            with pytest.raises(Stopped):
                often(function)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return time.process_time() - before - after

    old = signal.signal(signal.SIGPROF, handler)
    yield call
    signal.signal(signal.SIGPROF, old)


LONGER = {
    "HypergraphLB": lambda: placed("HypergraphLB", 60_000, 100, 200_000),
    "RefineCommLB": lambda: placed("RefineCommLB", 200_000, 400, 800_000),
    "DiffusionLB": lambda: placed("DiffusionLB", 100_000, 1_000, 200_000),
    "BestFitLB": lambda: placed("BestFitLB", 1_000_000, 1_000, 0),
    "replay": replaying,
    "replay on many ranks": on_many_ranks,
    "optimum": searching,
    "hotspot": lambda: lambda: pylb.replaying.hotspot(16, 40_000, 50),
}


@pytest.mark.parametrize("name", LONGER)
def test_a_signal_ends_a_long_call(interrupted, name):
    call = LONGER[name]()
    late = interrupted(call, 0.1)
    if late > 0.25:  # on a slow machine, the whole call is slow, too
        before = time.process_time()
        call()
        assert late < 0.1 * (time.process_time() - before)


def test_control_c_ends_a_program():
    """A real signal ends a program with a real KeyboardInterrupt."""
    code = """
import numpy as np, pylb
n, m = 60_000, 300_000
edges = (*np.random.default_rng(0).integers(n, size=(2, m)), np.ones(m))
snapshot = pylb.Snapshot(np.ones(n), np.zeros(n, int), n_ranks=200, edges=edges)
print("go", flush=True)
pylb.place(snapshot, "HypergraphLB")
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "go\n"
        time.sleep(0.2)
        os.kill(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=400)
    assert said.rstrip().endswith("KeyboardInterrupt")
