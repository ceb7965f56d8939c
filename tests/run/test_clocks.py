"""The clocks of loads: what counts while other processes use the core, and who shares it."""

import contextlib
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from launch import HERE, launch

import pylb
from pylb import _core
from pylb.comm.cores import Cores

LINUX = Path("/proc/thread-self/schedstat").exists()
needs_run_delay = pytest.mark.skipif(not LINUX, reason="this kernel does not count run delays")


def compute(seconds):
    """Compute for this much processor time, even if other programs use the core."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def timed(clock):
    """Return the seconds of 40 bodies that compute for 1 ms, and of a sleep of 20 ms."""
    seconds = np.zeros(41)
    for i, _ in _core.Recorder(np.arange(41), [None] * 41, seconds, clock):
        time.sleep(0.02) if i == 40 else compute(1e-3)
    return seconds[:40], seconds[40]


@pytest.fixture
def one_core_for_two():
    """Bind this thread to one core, on which another program computes all the time."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    program = "print(flush=True)\nwhile True: pass"
    hog = subprocess.Popen([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE)
    try:
        hog.stdout.readline()
        yield
    finally:
        hog.kill()
        hog.communicate()
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def without_waits():
    """Yield a list; at the end, its item is the wall time of the block minus the kernel's count of
    waits for a core."""

    def now():
        waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
        return time.perf_counter() - 1e-9 * waited

    passed, began = [], now()
    yield passed
    passed.append(now() - began)


def test_the_cpu_clock_does_not_see_sleep():
    worked, slept = timed("cpu")
    assert worked.min() >= 1e-3
    assert slept < 0.01


@needs_run_delay
def test_waits_for_a_core_are_no_load(one_core_for_two):
    with without_waits() as passed:
        began = time.perf_counter()
        worked, slept = timed("auto")
        wall = time.perf_counter() - began
    assert passed[0] < wall  # the other program had the core
    assert worked.min() >= 0.5e-3  # waits are subtracted from the object that waited
    assert worked.sum() >= 0.039
    assert slept >= 0.02  # a sleep counts as load
    assert worked.sum() + slept <= passed[0] + 1e-3


@needs_run_delay
def test_the_clock_never_steps_back(one_core_for_two):
    times, end = [], time.monotonic() + 0.1
    with without_waits() as passed:
        while time.monotonic() < end:
            times.append(_core.load_clock("auto"))
    assert np.all(np.diff(times) >= 0)
    assert times[-1] - times[0] <= passed[0] + 1e-3


@needs_run_delay
def test_a_child_process_counts_its_own_waits():
    program = (
        "import os, sys, time\n"
        "from pylb import _core\n"
        "_core.load_clock('auto')\n"
        "if os.fork() == 0:\n"
        "    first = _core.run_delay()\n"
        "    told = open('/proc/thread-self/schedstat').read().split()\n"
        "    os._exit(0 if first <= 1e-9 * int(told[1]) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_clock_of_an_advisor_measures_cells():
    lb = pylb.Advisor()
    before, began = time.perf_counter(), lb.seconds()
    compute(5e-3)
    assert 4.9e-3 < lb.seconds() - began <= time.perf_counter() - before

    def main(comm):
        alone = pylb.Advisor(comm)
        before = alone.seconds()
        comm.elapse(2.0)
        return alone.seconds() - before

    assert pylb.VirtualCluster(1, clock="none").run(main) == [2.0]


def test_clocks_are_checked():
    with pytest.raises(ValueError, match="clock is 'sun': expected auto, wall, cpu, mpi or none"):
        _core.Recorder(np.arange(0), [], np.zeros(0), "sun")
    with pytest.raises(ValueError, match="clock is 'sun'"):
        _core.load_clock("sun")


# ---- who shares cores --------------------------------------------------------------------------


def known(host, mask, group=0, quota=0.0):
    """Return a `plb_cores_t`."""
    words = [mask >> (64 * i) & (2**64 - 1) for i in range(16)]
    return struct.pack("=18Qd", host, *words, group, quota)


def crowd(*ranks, of=0):
    return Cores.of([known(*rank) for rank in ranks], of)


def test_ranks_that_share_cores_are_named():
    assert crowd((1, 0b11), (1, 0b11)).words == ""
    assert crowd((1, 0b11), (1, 0b11), (1, 0b11)).words == "3 ranks share 2 cores"
    assert crowd((1, 0b11), (2, 0b11), (1, 0b11)).words == ""  # two hosts
    assert crowd((1, 1), (1, 1), (1, 2**1000)).words == "2 ranks share 1 core"
    assert crowd((1, 0xFF, 7, 1.5), (1, 0xFF, 7, 1.5)).words == "2 ranks share 1.5 cores"
    assert crowd((1, 0), (1, 0)).words == ""  # the cores are not known
    # cores, or a quota, in common with a third rank; the most crowded of several groups
    assert crowd((1, 0b01), (1, 0b11), (1, 0b10)).words == "3 ranks share 2 cores"
    assert crowd((1, 0b01), (1, 0b10), (1, 0b11)).words == "3 ranks share 2 cores"
    assert crowd((1, 0b0011, 7, 1.5), (1, 0b1100, 7, 1.5)).words == "2 ranks share 1.5 cores"
    assert crowd(*[(1, 0b110)] * 3, *[(1, 0b1)] * 2).words == "2 ranks share 1 core"
    assert crowd(*[(1, 0b110)] * 5, *[(1, 0b1)] * 2).words == "5 ranks share 2 cores"
    assert crowd(*[(2, 0b110)] * 3, *[(1, 0b111, 7, 1.5)] * 4).words == "4 ranks share 1.5 cores"


def test_a_quota_of_one_rank_is_a_slow_processor():
    ranks = (1, 0b11, 5, 0.5), (1, 0b11, 6, 0.5), (1, 0b11, 6, 0.5), (1, 0b11)
    capped = [crowd(*ranks, of=rank).capped for rank in range(4)]
    assert capped == [True, False, False, False]
    assert crowd((1, 0b11, 5, 2.0)).capped is False  # this quota never stops the rank
    assert [Cores(capped=c).clock("auto") for c in (True, False)] == ["wall", "auto"]
    assert Cores(capped=True).clock("cpu") == "cpu"


def test_ranks_with_quotas_of_their_own_share_only_what_these_exceed():
    """With a wrong number, the time without LB steps is wrong: 3.6 for 6.0 s of four ranks."""
    assert not crowd(*((1, 0b11, 5 + r, 0.4) for r in range(4))).shared  # 1.6 of 2 cores
    eight = crowd(*((1, 0b11, 5 + r, 0.4) for r in range(8)))  # 3.2 of 2 cores: 5 of 8 at a time
    assert eight.words == "only 5 of 8 ranks can compute at a time"
    assert eight.cores == (5.0,) * 8
    mixed = crowd((1, 0b11, 5, 0.5), (1, 0b11, 6, 0.5), (1, 0b11))
    assert (mixed.cores[0], mixed.shared) == (3.0, False)


def test_the_cores_of_this_process():
    found = Cores.of([_core.cores()] * 3, 0)
    assert found.n_ranks == 3
    assert 0 < found.n_cores <= len(os.sched_getaffinity(0))
    for wrong in (b"", _core.cores()[1:]):
        with pytest.raises(ValueError, match="expected all: the bytes of cores"):
            _core.crowd(wrong, 0)


def test_shared_cores_are_said_once_and_recorded(mpiexec):
    code, out, said = launch(mpiexec, 2, HERE / "short.py", "shared_cores")
    assert code == 0, said
    assert out.count("2 ranks share 1 core") == 3, out
    assert "shadow: 0 lent or saved" in out
    assert "off: 0 lent or saved" in out


def test_virtual_ranks_have_a_core_each():
    def main(comm):
        lb = pylb.Balancer(comm)
        lb.add(comm.rank, None)
        for _ in lb.iterate(3):
            for _ in lb.local():
                comm.elapse(1.0)
        return lb.report()

    report = pylb.VirtualCluster(4, clock="none").run(main)[0]
    assert (report.cores, report.waited, report.stolen) == ("", 0.0, 0.0)
    assert report.iteration_seconds == pytest.approx(3.0, rel=1e-12)
