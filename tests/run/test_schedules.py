"""A process that knows the seconds of all ranks rearranges only if that pays: load histories."""

from pathlib import Path

import numpy as np
import pytest

import pylb

COSTS = (0.001, 0.1, 1.0)


@pytest.fixture
def copies(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    import copies

    return copies


def test_rearranging_is_never_slower_and_near_the_best_schedule(copies):
    """A short form of benchmarks/copies.py, which has more histories and costs."""
    of_best = []
    for seed in range(500, 500 + 2 * len(copies.KINDS)):
        _, p, slots, loads = copies.history(seed)
        replay = copies.Replay(loads[:300], p, slots)
        most = replay.most()
        never = most[-1].sum()
        for cost in COSTS:
            ours, n_lb_steps = copies.advised(replay, p, cost, most[-1])
            best = copies.best_time(most, cost)
            fixed = [copies.fixed_time(most, cost, every) for every in copies.EVERY]
            assert best <= min(never, ours, *fixed) * (1 + 1e-12)
            assert ours >= n_lb_steps * cost
            assert never / ours >= 0.95
            of_best.append(best / ours)
    assert np.mean(of_best) >= 0.93


def test_the_best_schedule_is_best(copies):
    """The search over schedules, against all schedules of a short history."""
    rng = np.random.default_rng(5)
    for cost in (0.0, 0.3, 2.0):
        most = rng.random((8, 7))
        times = []
        for chosen in range(1 << 6):  # bit s: an LB step at the end of step s
            total, at = 0.0, -1
            for t in range(7):
                total += most[at, t]
                if chosen >> t & 1:
                    total, at = total + cost, t
            times.append(total)
        np.testing.assert_allclose(copies.best_time(most, cost), min(times))


def test_an_expected_cost_counts_until_one_is_measured():
    def steps(cost):
        lb = pylb.Advisor(ranks=2, cost=cost)
        return [t for t in range(12) if lb.advise(seconds=[1.0, 2.0])]

    assert steps(1e-3)[0] < 5
    assert steps(1e6) == []
