"""Room measure: the speeds of ranks, learned from where objects have been."""

import sys
from pathlib import Path

import numpy as np
import pytest
from chance import examples
from each_case import in_blocks
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, OutOfRangeError
from pylb.measure.monitor import SpeedLearner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from common import like_programs as lp


def made(n, p, placements=5, noise=0.2, moving=1.0, seed=0, outliers=0.0):
    """Return (speed, rank, seconds): very different objects, on ranks of speeds 1/4 ... 1."""
    rng = np.random.default_rng(seed)
    speed = np.exp(rng.uniform(np.log(0.25), 0.0, p))
    work = np.exp(rng.normal(0.0, 1.0, n))
    rank = np.empty((n, placements), np.int32)
    rank[:, 0] = rng.integers(0, p, n)
    for j in range(1, placements):
        moves = rng.random(n) < moving
        rank[:, j] = np.where(moves, rng.integers(0, p, n), rank[:, j - 1])
    seconds = work[:, None] / speed[rank] * np.exp(noise * rng.standard_normal(rank.shape))
    seconds *= np.where(rng.random(rank.shape) < outliers, 10.0, 1.0)
    return speed / np.exp(np.log(speed).mean()), rank, seconds


def learn(rank, seconds, p, work=None):
    learner = SpeedLearner(p)
    for j in range(rank.shape[1]):
        learner.observe(np.arange(len(rank)), rank[:, j], seconds[:, j], work)
    return learner


@pytest.mark.parametrize(("n", "p"), [(1000, 10), (10_000, 10), (10_000, 100), (100_000, 1000)])
def test_within_three_percent_after_five_placements(n, p):
    speed, rank, seconds = made(n, p)
    learner = learn(rank, seconds, p)
    off = np.log(learner.speed / speed)
    assert np.sqrt((off**2).mean()) < 0.03
    assert 0.4 < np.sqrt((off**2).mean()) / learner.error.mean() < 2.5  # the error is right
    assert abs(learner.sigma - 0.2 * np.sqrt(2.0)) < 0.04
    assert learner.evidence > 1.0


def test_stragglers_do_not_count_by_their_squares():
    speed, rank, seconds = made(10_000, 100, outliers=0.05)
    got = learn(rank, seconds, 100).speed
    clean = learn(*made(10_000, 100)[1:], 100).speed
    rms = [np.sqrt((np.log(g / speed) ** 2).mean()) for g in (got, clean)]
    assert rms[0] < 1.5 * rms[1]


def test_ranks_without_a_common_object_get_the_mean_speed():
    """Ranks 0 and 1 exchange objects; rank 2 keeps its own, so its speed is unknown."""
    learner, key = SpeedLearner(4), np.arange(24)
    for j in range(6):
        rank = np.where(key < 16, (key + j * (key % 3)) % 2, 2)
        speed = learner.observe(key, rank, (1.0 + key % 5) * (1.0 + rank))
    np.testing.assert_allclose(speed, [2**0.5, 0.5**0.5, 1.0, 1.0], rtol=1e-2)
    assert np.isinf(learner.error).tolist() == [False, False, True, True]


def test_bad_input():
    with pytest.raises(DomainError, match=r"rank has shape \(1,\): expected \(2,\)"):
        SpeedLearner(2).observe([1, 2], [0], [1.0, 2.0])
    for rank in (-1, 2):
        with pytest.raises(OutOfRangeError, match=rf"rank\[1\] is {rank}: expected 0 ... 1"):
            SpeedLearner(2).observe([1, 2], [0, rank], [1.0, 2.0])
    with pytest.raises(DomainError, match="key 7 is given twice"):
        SpeedLearner(2).observe([7, 7], [0, 1], [1.0, 2.0])
    with pytest.raises(DomainError, match="seconds"):
        SpeedLearner(2).observe([1, 2], [0, 1], [1.0, np.inf])
    with pytest.raises(DomainError, match=r"work\[0\] is inf"):
        SpeedLearner(2).observe([1, 2], [0, 1], [1.0, 1.0], [np.inf, 1.0])
    with pytest.raises(DomainError, match=r"work has shape \(1,\): expected \(2,\)"):
        SpeedLearner(2).observe([1, 2], [0, 1], [1.0, 1.0], [1.0])
    for key, rank in [([0.5, 1.7], [0, 1]), (["a", "b"], [0, 1]), ([1, 2**70], [0, 1.9])]:
        with pytest.raises(DomainError, match="expected an array of int"):
            SpeedLearner(2).observe(key, rank, [1.0, 2.0])
    with pytest.raises(DomainError, match="rank: expected an array of int32"):
        SpeedLearner(2).observe([1, 2], [0, 1.9], [1.0, 2.0])
    with pytest.raises(DomainError, match="rank: a value does not fit into 32 bits"):
        SpeedLearner(2).observe([1, 2], [0, 2**32 + 1], [1.0, 2.0])
    with pytest.raises(DomainError, match="seconds: expected an array of float64"):
        SpeedLearner(2).observe([1, 2], [0, 1], ["a", 1.0])
    for n_ranks in (0, 2.5, "2", 2**40):
        with pytest.raises(DomainError, match="n_ranks is"):
            SpeedLearner(n_ranks)
    without_time = SpeedLearner(2)
    assert without_time.observe([1, 2], [0, 1], [0.0, np.nan]) is None
    assert SpeedLearner(3).observe([], [], []) is None


def test_of_very_many_objects_only_a_part_is_remembered():
    speed, rank, seconds = made(100_000, 10)
    learner = learn(rank, seconds, 10)
    off = np.log(learner.speed / speed)
    assert 0.001 < np.sqrt(((off - off.mean()) ** 2).mean()) < 0.02  # the mean of all: 0.0005


# ---- placement after placement -----------------------------------------------------------------


def test_learner_follows_a_rank_that_changes():
    p = 8
    speed, rank, seconds = made(800, p, 12, moving=0.3)
    seconds[:, 8:] *= np.where(rank[:, 8:] == 3, 3.0, 1.0)
    learner = learn(rank, seconds, p)
    now = speed * np.where(np.arange(p) == 3, 1 / 3, 1.0)
    off = np.log(learner.speed / now)
    assert np.abs(off - off.mean()).max() < 0.1


def test_heavy_objects_are_no_slow_rank():
    """Ranks count as equal although the work differs, is noisy, drifts, or grows everywhere."""
    rng = np.random.default_rng(4)
    for seed in range(5):
        _, rank, _ = made(400, 8, 8, moving=0.3, seed=seed)
        work = np.exp(rng.normal(0.0, 1.0, 400))[:, None]
        noise = np.exp(0.2 * rng.standard_normal(rank.shape))
        drift = np.exp(rng.normal(0.0, 0.2, rank.shape).cumsum(axis=1))
        growth = 1.3 ** np.arange(8)  # all objects grow alike
        for seconds in (work * noise, work * drift, work * noise * growth):
            assert learn(rank, seconds, 8).speed is None


def test_an_estimate_of_the_user_tells_what_no_move_does():
    speed, rank, seconds = made(500, 5, 1)
    work = seconds[:, 0] * speed[rank[:, 0]]
    assert learn(rank, seconds, 5).speed is None
    np.testing.assert_allclose(learn(rank, seconds, 5, 7.0 * work).speed, speed, rtol=0.01)


@pytest.mark.parametrize("unrest", [0.02, 0.05])
def test_ranks_that_other_programs_slow_down_get_no_speeds(unrest):
    """Ranks count as equal if other programs slow down a different rank each time."""
    told = 0
    for seed in range(5):
        _, rank, _ = made(144, 6, 8, moving=0.3, seed=seed)
        rng = np.random.default_rng(seed)
        work = np.exp(rng.normal(0.0, 0.7, 144))[:, None]
        whole = unrest * rng.standard_normal((6, 8))
        noise = 0.05 * rng.standard_normal(rank.shape)
        told += learn(rank, work * np.exp(noise + whole[rank, np.arange(8)]), 6).speed is not None
    assert told <= 1


def test_victims_of_a_straggler_are_not_slow():
    """All ranks wait for the slow rank at the end of each iteration; only that one is slow."""

    def wait(comm):
        lb = pylb.Balancer(comm, learn_speeds=True, every=4, strategy="RefineLB")
        in_blocks(lb, 24 * comm.size)
        for _ in lb.iterate(40):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (1.0 + key % 7))
        return lb.history[-1].speed, lb.metrics.idle.mean()

    speed = pylb.VirtualCluster(4, speed=[1.0, 1.0, 0.4, 1.0], clock="none").run(wait)[0][0]
    np.testing.assert_allclose(np.array(speed) / speed[0], [1.0, 1.0, 0.4, 1.0], rtol=0.01)


# ---- in the runtime ----------------------------------------------------------------------------


def program(comm, n_each, iterations, drift, noise, **balancing):
    """Run objects whose works differ by up to a factor of ten, and rise and fall with time.

    Return the time of the slowest rank and the sum of all work, both for each iteration.
    """
    lb = pylb.Balancer(comm, every=5, learn_speeds=True, **balancing)
    n = n_each * comm.size
    work = 1e-3 * np.exp(np.random.default_rng(1).uniform(0.0, np.log(10.0), n))
    rng = np.random.default_rng(comm.rank)
    in_blocks(lb, n)
    total = []
    for it in lb.iterate(iterations):
        now = work * (1.0 + drift * np.sin(2.0 * np.pi * (np.arange(n) / n - it / 60.0)))
        total.append(now.sum())
        for key, _ in lb.local():
            comm.elapse(now[key] * np.exp(noise * rng.standard_normal()))
    return np.array(lb.metrics.max), np.array(total)


@pytest.mark.parametrize("strategy", ["GreedyLB", "RefineLB", "BestFitLB"])
@pytest.mark.parametrize(("drift", "noise"), [(0.0, 0.0), (0.0, 0.2), (0.5, 0.02)])
def test_all_strategies_work_on_ranks_of_unequal_speed(strategy, drift, noise):
    """The time is at most 10 % above sum of work / sum of speeds, for equal and changing work."""
    speed = [1.0, 1.0, 0.5, 0.25]
    cluster = pylb.VirtualCluster(4, speed=speed, clock="none")
    longest, total = cluster.run(program, 32, 60, drift, noise, strategy=strategy)[0]
    bound = total / sum(speed)
    assert longest[:5].sum() > 1.3 * bound[:5].sum()
    assert longest[30:].sum() < 1.1 * bound[30:].sum()


def test_equal_ranks_are_balanced_as_well_as_without_speeds():
    cluster = pylb.VirtualCluster(4, clock="none")
    longest, total = cluster.run(program, 32, 60, 0.5, 0.1, strategy="GreedyLB")[0]
    assert longest[10:].sum() < 1.1 * total[10:].sum() / 4


def falling(comm, seed, factor):
    """Run unequal blocks that drift; the first rank becomes slower at iteration 30."""
    lb = pylb.Balancer(comm)
    rng = np.random.default_rng([seed, comm.rank])
    work = np.random.default_rng(1).permutation(np.geomspace(1e-3, 1e-2, 64))
    in_blocks(lb, 16 * comm.size)
    total = []
    for it in lb.iterate(60):
        now = work * (1.0 + 0.5 * np.sin(2.0 * np.pi * (np.arange(64) / 64 - it / 80.0)))
        total.append(now.sum())
        slow = (factor if it >= 30 and lb.rank == 0 else 1.0) * np.exp(0.02 * rng.standard_normal())
        for key, _ in lb.local():
            comm.elapse(slow * now[key] * np.exp(0.02 * rng.standard_normal()))
    return np.array(lb.metrics.max), np.array(total)


def test_lb_steps_are_not_switched_off_when_a_rank_becomes_slow():
    """Rebalancing must not be switched off.

    This once happened in half of the runs: an LB step before the new speed is known makes things
    worse.
    """
    cluster = pylb.VirtualCluster(4, clock="none", network=(5e-6, 1e-9))
    over = []
    for seed in range(6):
        longest, total = cluster.run(falling, seed, 2.8)[0]
        over.append(longest[35:].sum() / (total[35:].sum() / (3.0 + 1.0 / 2.8)))
    assert np.median(over) < 1.15
    assert np.mean(over) < 1.3  # 1.8 when rebalancing was switched off


# ---- ranks of equal speed are recognised, whatever their objects do; different speeds are learned


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
@pytest.mark.parametrize("change", [None, 42])
def test_a_slow_rank_is_learned_after_a_few_lb_steps(factor, change):
    """With 1.5 and a change at 36 ... 47, it is learned in 10 of 12 cases: few objects move."""
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
    assert np.median(off) < 0.035


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


# ---- how much faster a program gets if pylb finds out why an LB step missed its prediction -----


def changing(comm, iterations, change, spread, noise):
    """Run a program; from iteration change[0] on, rank change[1] is change[2] times slower."""
    n = 32 * comm.size
    lb = pylb.Balancer(comm, learn_speeds=True)
    work = 1e-3 * np.exp(np.random.default_rng(1).uniform(0.0, np.log(spread), n))
    rng = np.random.default_rng(comm.rank)
    in_blocks(lb, n)
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
    longest, work, history = cluster.run(changing, 90, change, spread, noise)[0]
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
    longest, _, history = cluster.run(changing, 40, (100, 0, 1.0), 1.0, 0.0)[0]
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
