"""Two kinds of processor: phases with clocks of their own, given seconds, speeds by phase."""

from __future__ import annotations

import importlib.util
import math
import re
import sys

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError, MissingPartError, StateError, UnknownKeyError

P, EACH = 4, 24  # ranks; objects of each rank


class Device:
    """A device that computes while the rank does other things, and counts its seconds."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed, self.seconds = speed, 0.0

    def compute(self, work: float) -> None:
        self.seconds += work / self.speed

    def clock(self) -> float:
        return self.seconds


def cpu_of(key: int) -> float:
    return 1.0 + (key % P < P // 2) * 4.0


def gpu_of(key: int) -> float:
    return 1.0 + (key % P >= P // 2) * 4.0


def program(comm, n: int = 40, speeds=(1.0,) * P, gives=False, cpu=cpu_of, **options):
    lb, device = pylb.Balancer(comm, **options), Device(speeds[comm.rank])
    for key in range(lb.rank, P * EACH, P):
        lb.add(key, None)
    for _ in lb.iterate(n):
        with lb.phase("cpu"):
            for key, _ in lb.local():
                comm.elapse(cpu(key))
        with lb.phase("gpu", clock=None if gives else device.clock):
            for key, _ in lb.local():
                before = device.clock()
                device.compute(gpu_of(key))
                if gives:
                    comm.elapse(9.0)  # waits for the device; does not count
                    lb.load(key, gpu=0.0)
                    lb.load(key, gpu=device.clock() - before)
    lb.finish()
    return lb


@pytest.mark.parametrize("gives", [False, True])
def test_the_seconds_of_a_device_are_balanced_beside_those_of_the_rank(gives):
    def main(comm):
        lb = program(comm, gives=gives)
        return {name: (m.max, m.mean) for name, m in lb.phases.items()}

    found = pylb.VirtualCluster(P).run(main)[0]
    assert list(found) == ["cpu", "gpu"]
    for (most, mean), of in zip(found.values(), (cpu_of, gpu_of), strict=True):
        whole = [sum(of(key) for key in range(r, P * EACH, P)) for r in range(P)]
        assert most[0] == pytest.approx(max(whole), rel=1e-3)
        assert mean == pytest.approx(np.mean(whole), rel=1e-3)
        assert most[-1] <= 1.03 * np.mean(whole)


def test_speeds_are_learned_for_each_phase(tmp_path):
    """The device of rank 0 is four times as fast; its processor is like the others."""
    path = str(tmp_path / "run.h5")

    def main(comm, learns):
        slow = {"cpu": lambda key: 3.0, "speeds": (4.0, 1.0, 1.0, 1.0)}
        lb = program(comm, every=10, learn_speeds=learns, **slow)
        if learns:
            lb.save(path)
        steps = [(r.predicted, r.realised, r.by_sum, r.migrations) for r in lb.history.lb_steps]
        return lb.metrics.max, steps

    most, steps = pylb.VirtualCluster(P).run(main, True)[0]
    # best: 24 objects on each rank; on rank 0 24 of the 48 that take 5 s on a usual device
    assert most[-1] <= 1.02 * (3.0 * EACH + (24 * 5.0 + 48 * 1.0) / 3)
    for predicted, realised, *_ in steps[1:]:
        assert predicted == pytest.approx(realised, rel=0.01)
    without = pylb.VirtualCluster(P).run(main, False)[0][0]
    assert without[11:].mean() > 1.02 * most[-1]
    again = pylb.Trace.load(path).replay(every=10, learn_speeds=True)
    found = [(r.predicted, r.realised, r.by_sum, r.migrations) for r in again.decisions.lb_steps]
    assert str(found) == str(steps)
    assert again.metrics["max"].tolist() == most.tolist()


def alone(call, clock=None, n_objects: int = 1) -> list[float]:
    """Run two iterations of one rank; return the seconds of its phase in each."""
    lb = pylb.Balancer()
    for key in range(n_objects):
        lb.add(key, None)
    for _ in lb.iterate(2):
        with lb.phase("gpu", clock=clock):
            call(lb)
            for _ in lb.local():
                pass
    return lb.phases["gpu"].max.tolist()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda lb: lb.load(0, gpu=math.nan),
            DomainError,
            "load of object 0 in phase 'gpu' is nan",
        ),
        (lambda lb: lb.load(0, gpu="x"), DomainError, "in phase 'gpu' is 'x': expected a finite"),
        (lambda lb: lb.load(0, cpu=1.0), StateError, r"load\(0, cpu=...\): expected it within"),
        (lambda lb: lb.load(7, gpu=1.0), UnknownKeyError, "key 7: no such object on rank 0"),
    ],
)
def test_wrong_seconds(call, error, words):
    with pytest.raises(error, match=words):
        alone(call)


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (lambda: "late", "clock returned 'late': expected seconds"),
        (lambda: math.nan, "load of object 0 in phase 'gpu' is nan"),
        (iter([2.0, 1.0]).__next__, "load of object 0 in phase 'gpu' is -1.0"),
        (7, "clock is 7: expected a function that returns seconds, or 'cuda'"),
    ],
)
def test_wrong_clocks(clock, words):
    with pytest.raises(DomainError, match=re.escape(words)):
        alone(lambda _: None, clock)


# A stand-in for CuPy on a machine without a device: its events are the numbers of calls.
CUPY = """
class Event:
    n = 0
    def record(self):
        Event.n += 1
        self.ms, self.done = 1000.0 * Event.n, False
    def synchronize(self):
        self.done = True

class cuda:
    Event = Event
    @staticmethod
    def get_elapsed_time(begin, end):
        assert end.done
        return end.ms - begin.ms
    class runtime:
        @staticmethod
        def getDeviceCount():
            {count}
"""


@pytest.fixture
def with_cupy(tmp_path, monkeypatch):
    """Return a function that installs the stand-in; PyTorch and Numba are as if absent."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("torch", "numba") else real(name)
    )

    def install(count: str) -> None:
        (tmp_path / "cupy.py").write_text(CUPY.format(count=count))
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    sys.modules.pop("cupy", None)


def test_events_of_a_library(with_cupy):
    with_cupy("return 1")
    assert alone(lambda _: None, "cuda", 3) == [3.0, 3.0]


@pytest.mark.parametrize("count", ["return 0", "raise RuntimeError('no driver')"])
def test_a_library_without_a_device(with_cupy, count):
    with_cupy(count)
    with pytest.raises(StateError, match="clock is 'cuda', but CuPy found no CUDA device"):
        alone(lambda _: None, "cuda")


def test_no_library(with_cupy):
    with pytest.raises(MissingPartError, match="none of CuPy, PyTorch and Numba is installed"):
        alone(lambda _: None, "cuda")
