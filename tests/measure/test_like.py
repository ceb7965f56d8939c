"""Ranks of equal speed are recognised, whatever their objects do; different speeds are learned."""

import sys
from pathlib import Path

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

from pylb.measure.monitor import SpeedLearner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from common import like_programs as lp

# Each of these programs once misled the learner: all objects that leave one rank become lighter;
# growing objects go from rank to rank; a region jumps; a single object connects two ranks.
FOOLED = (7, 26, 32, 522, 771, 1389, 1755, 2172, 2248, 2899, 2990, 3249, 4630)


@pytest.mark.parametrize("seed", FOOLED)
def test_programs_for_which_wrong_speeds_were_once_learned(seed):
    assert lp.worst_off(lp.draw(seed)) <= 0.05


@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_no_speeds_are_learned_for_equal_ranks(seed):
    """No wrong speed is learned in a few programs; `benchmarks/like.py` runs hundreds."""
    program = lp.draw(seed)
    assert lp.worst_off(program) <= 0.05, program.name


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 40, 107])
def test_no_speeds_are_learned_for_equal_ranks_of_a_cluster(seed):
    program = lp.draw(seed)
    speeds, _ = lp.run_on_cluster(program)
    assert speeds
    assert all(lp.off(np.array(speed)) <= 0.05 for speed in speeds if speed)


def slow(factor, change=None, noise=0.03):
    """Return the iteration in which the learner finds out that the third of 8 ranks is slower."""
    rng = np.random.default_rng(5)
    work = 1e-3 * np.exp(
        rng.uniform(0.0, np.log(10.0), 256) + noise * rng.standard_normal((80, 256))
    )
    speed = np.ones((80, 8))
    speed[change:, 2] = 1.0 / factor
    program = lp.Program("", 8, work, 1.0, "BestFitLB", 5, 1.0)
    return list(lp.simulate(program, speed)), speed


@pytest.mark.parametrize("factor", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("change", [None, 41])
def test_a_slow_rank_is_learned_after_a_few_lb_steps(factor, change):
    seen, speed = slow(factor, change)
    begin = change or 0
    assert all(o.speed is None for o in seen if o.iteration < begin)
    since = [o for o in seen if o.iteration >= begin]
    known = next(i for i, o in enumerate(since) if o.speed is not None)
    assert known <= 5
    assert max(lp.off(o.speed, speed[o.iteration]) for o in since[known + 1 :]) < 0.1


def test_most_speeds_of_unequal_ranks_are_learned():
    told, off = 0, []
    for seed in range(40):
        program, speed = lp.draw_unlike(seed)
        seen = list(lp.simulate(program, speed))
        told += seen[-1].speed is not None
        off += [lp.off(seen[-1].speed, speed)] if seen[-1].speed is not None else []
    assert told >= 28
    assert np.median(off) < 0.03


def test_the_same_calls_give_the_same_bits():
    rng = np.random.default_rng(2)
    n, p = 8000, 40
    speed, work = np.exp(rng.uniform(-1.0, 0.0, p)), np.exp(rng.normal(0.0, 1.0, n))
    rank, learners = rng.integers(0, p, n), (SpeedLearner(p), SpeedLearner(p))
    for _ in range(12):
        rank = np.where(rng.random(n) < 0.3, rng.integers(0, p, n), rank)
        seconds = work / speed[rank] * np.exp(0.1 * rng.standard_normal(n))
        for learner in learners:
            learner.observe(np.arange(n), rank, seconds)
    assert learners[0].speed.tobytes() == learners[1].speed.tobytes()
