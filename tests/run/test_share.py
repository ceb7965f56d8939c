"""Work lent within a step: the plan against bounds, the exchange under mpiexec."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from chance import TIMES
from launch import HERE, launch, printed

import pylb


@pytest.mark.parametrize("ranks", [1, 3])
def test_random_programs(mpiexec, ranks):
    """The results are those of a serial program; a fault of one rank ends all, and none hangs.

    PYLB_EXAMPLES=100 runs 2,000 programs.
    """
    out = printed(mpiexec, ranks, HERE / "share_random.py", 20 * TIMES)
    assert out.count("done") == ranks


@pytest.mark.parametrize("what", ["ends", "advises"])
def test_a_rank_that_does_not_call_share(mpiexec, what):
    """All ranks end: at once, or after ten seconds if that rank waits in another call."""
    code, out, said = launch(mpiexec, 3, HERE / "short.py", "share_misses", what)
    assert code != 0
    assert "went on" not in out
    assert "rank 2 has ended its program, or makes another collective call" in said


def test_simulated_ranks_come_near_the_bound():
    """The real engine on simulated ranks: the figures are the same on every machine."""
    script = Path(__file__).parents[2] / "benchmarks" / "share_simulated.py"
    subprocess.run([sys.executable, script, "--check"], check=True, capture_output=True)


def test_one_rank_calls_the_function():
    sharer = pylb.Sharer()
    x = np.arange(5.0)
    a, b = sharer.share(lambda x, y: (x + y, x * y), x, x)
    assert np.array_equal(a, 2 * x)
    assert np.array_equal(b, x * x)
    assert sharer.metrics["seconds"].shape == (1,)


def test_virtual_ranks_compute_their_own_rows():
    def program(comm):
        return pylb.Sharer(comm).share(np.sqrt, np.arange(3.0) + comm.rank)

    for rank, found in enumerate(pylb.VirtualCluster(3).run(program)):
        assert np.array_equal(found, np.sqrt(np.arange(3.0) + rank))


def test_a_balancer_divides_the_seconds_among_the_objects():
    def call(x):
        time.sleep(0.003)
        return x

    lb = pylb.Balancer()
    for key in (5, 7):
        lb.add(key, "an object")
    for it in lb.iterate(2):
        lb.share(call, np.arange(4.0), keys=[5, 7, 7, 7] if it else None)
        loads = lb._objects.seconds
        assert loads[1] == pytest.approx((3.0 if it else 1.0) * loads[0])
        assert loads.sum() >= 0.003
