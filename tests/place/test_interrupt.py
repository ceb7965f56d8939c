"""Ctrl-C ends the long calls of the core soon, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pylb


class Stopped(Exception):
    """The exception that the signal handler of these tests raises."""


def placing(name, n, p, m):
    """Return a call of a strategy, with n objects, p ranks and m edges."""
    rng = np.random.default_rng(0)
    edges = (rng.integers(n, size=m), rng.integers(n, size=m), 1e4 * rng.random(m))
    load, rank = rng.exponential(1, n), rng.integers(p // 4, size=n)
    s = pylb.Snapshot(load, rank, n_ranks=p, edges=edges)
    return lambda: pylb.place(s, name)


def replaying():
    trace = pylb.replaying.hotspot(64, 4_000, 200)
    return lambda: trace.replay("GreedyLB", every=1)


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


LONG = {
    "HypergraphLB": lambda: placing("HypergraphLB", 60_000, 100, 200_000),
    "RefineCommLB": lambda: placing("RefineCommLB", 200_000, 400, 800_000),
    "DiffusionLB": lambda: placing("DiffusionLB", 100_000, 1_000, 200_000),
    "BestFitLB": lambda: placing("BestFitLB", 1_000_000, 1_000, 0),
    "replay": replaying,
    "optimum": searching,
    "hotspot": lambda: lambda: pylb.replaying.hotspot(16, 40_000, 50),
}


@pytest.mark.parametrize("name", LONG)
def test_a_signal_ends_a_long_call(interrupted, name):
    assert interrupted(LONG[name](), 0.1) < 0.25


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
        _, said = child.communicate(timeout=30)
    assert said.rstrip().endswith("KeyboardInterrupt")
