"""How much faster a program gets if pylb finds out why an LB step missed its prediction.

tests/c/test_decider.c tests when pylb tries to find this out.
"""

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError


def program(comm, iterations, change, spread, noise):
    """Run a program; from iteration change[0] on, rank change[1] is change[2] times slower."""
    n = 32 * comm.size
    lb = pylb.Balancer(comm, learn_speeds=True)
    work = 1e-3 * np.exp(np.random.default_rng(1).uniform(0.0, np.log(spread), n))
    rng = np.random.default_rng(comm.rank)
    for key in range(32 * comm.rank, 32 * comm.rank + 32):
        lb.add(key, None)
    at, rank, factor = change
    for it in lb.iterate(iterations):
        slower = factor if it >= at and lb.rank == rank else 1.0
        for key, _ in lb.local():
            comm.elapse(slower * work[key] * np.exp(noise * rng.standard_normal()))
    return np.array(lb.metrics.max), work.sum(), lb.history


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("spread", [1.0, 10.0])
@pytest.mark.parametrize("change", [(60, 0, 3.0), (60, 3, 0.25), (60, 1, 1.5)])
def test_an_lb_step_follows_a_change_of_a_cap_within_five_iterations(change, spread, noise):
    speed = np.array([1.0, 1.0, 0.5, 0.25])
    cluster = pylb.VirtualCluster(4, speed=list(speed), clock="none")
    longest, work, history = cluster.run(program, 90, change, spread, noise)[0]
    at, rank, factor = change
    after = speed / np.where(np.arange(4) == rank, factor, 1.0)
    assert longest[10:at].mean() < 1.1 * work / speed.sum()  # the first call may be slow
    assert longest[at] > 1.2 * work / after.sum()
    assert longest[at + 5 :].mean() < 1.15 * work / after.sum()  # some take an LB step more
    last = history.lb_steps[-1]
    if factor == 1.5 or not last.speed:  # an LB step by the loads alone may be enough
        return
    np.testing.assert_allclose(np.array(last.speed) / last.speed[0], after / after[0], rtol=0.15)
    assert "times as fast as" in last.explain()


def test_the_time_before_a_move_counts_by_the_old_rank_s_speed():
    """Objects that left a slow rank would have taken longer there: the LB step saves time."""
    cluster = pylb.VirtualCluster(2, speed=[1.0, 0.25], clock="none")
    longest, _, history = cluster.run(program, 40, (100, 0, 1.0), 1.0, 0.0)[0]
    told = next(r for r in history.lb_steps if r.speed)
    saved = longest[told.iteration] - longest[told.iteration + 1]
    assert saved > 0.2 * longest[told.iteration]
    assert told.gain == pytest.approx(saved * told.iterations, rel=0.05)


def with_estimates(comm, rough):
    n = 32 * comm.size
    lb = pylb.Balancer(comm, learn_speeds=True)
    rng = np.random.default_rng(1)
    work = 1e-3 * np.exp(rng.uniform(0.0, np.log(10.0), n))
    told = 50.0 * work * np.exp(rough * rng.standard_normal(n))
    for key in range(32 * comm.rank, 32 * comm.rank + 32):
        lb.add(key, None, work=told[key])
    for _ in lb.iterate(20):
        for key, _ in lb.local():
            comm.elapse(work[key])
    return np.array(lb.metrics.max), work.sum(), lb.history.lb_steps[0].speed


@pytest.mark.parametrize("rough", [0.0, 0.3])
def test_with_estimates_of_the_work_the_first_lb_step_is_right(rough):
    cluster = pylb.VirtualCluster(4, speed=[1.0, 1.0, 0.5, 0.25], clock="none")
    longest, work, speed = cluster.run(with_estimates, rough)[0]
    assert longest[3] < 1.1 * work / 2.75 < 0.6 * longest[0]
    np.testing.assert_allclose(np.array(speed) / speed[0], [1.0, 1.0, 0.5, 0.25], rtol=0.3)


def test_an_estimate_is_a_number_above_zero():
    lb = pylb.Balancer()
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(DomainError, match="work is"):
            lb.add(1, None, work=bad)


def test_unlike_is_the_default_if_the_user_chooses_nothing():
    assert pylb.Balancer()._state.records.parameters["learn_speeds"] is True
    assert pylb.Balancer(mode="shadow")._state.records.parameters["learn_speeds"] is True
    for way in ({"strategy": "GreedyLB"}, {"every": 5}, {"lag": 2}):
        assert pylb.Balancer(**way)._state.records.parameters["learn_speeds"] is False
    assert (
        pylb.Balancer(strategy="GreedyLB", learn_speeds=True)._state.records.parameters[
            "learn_speeds"
        ]
        is True
    )
    assert pylb.Balancer(learn_speeds=False)._state.records.parameters["learn_speeds"] is False
