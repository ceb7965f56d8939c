"""Placements for loads to come: csrc/decide/cycle.c against a plain twin."""

import math

import numpy as np
import pytest

import pylb
from pylb import _core
from pylb.decide.decider import FIGURES, settings

AHEADS, TIMES, LONGEST = (0, 1, 2, 4, 8), (0, 1, 2, 4, 8, 16), 128
P, N = 4, 32


def loads_at(load, drift, belief, t):
    return np.maximum(load + t * belief * drift, 0.05 * load)


def waiting(load, rank):
    times = np.bincount(rank, load, P)
    return times.max() - times.mean()


def loss(load, drift, belief, home, rank, per_byte, nbytes, left):
    """Return the lowest average per iteration of all lengths of the cycle."""
    paid = per_byte * np.bincount(home, nbytes * (rank != home), P).max()
    wait = [waiting(loads_at(load, drift, belief, t), rank) for t in TIMES]
    found = []
    for k in range(1, len(TIMES)):
        if TIMES[k] <= left:
            paid += 0.5 * (wait[k - 1] + wait[k]) * (TIMES[k] - TIMES[k - 1])
            found.append(paid / TIMES[k])
    longest = min(left, LONGEST)
    if longest > TIMES[-1]:
        found.append((paid + wait[-1] * (longest - TIMES[-1])) / longest)
    return min(found)


def place(load, drift, home, nbytes, *, grown, cost, end=200, strategy="auto"):
    """Place once, after an iteration in which max - mean has grown; return figures and ranks."""
    core = settings(strategy, trigger="auto", unlike=False).decider(P).core
    core.expect(end, cost)
    times = np.bincount(home, load, P)
    for i, more in enumerate((0.0, grown)):
        most = times.max() - grown + more
        core.observe(i, most, most, times.mean(), times.min(), times.sum(), 0.5, 0, 0)
    core.choose()
    s = pylb.Snapshot(load, home, n_ranks=P, key=np.arange(N), bytes=nbytes)
    figures, speed, rank = np.zeros(_core.PLACING), np.zeros(P), np.zeros(N, np.int32)
    core.place(s, None, None, figures, speed, rank, drift)
    core.placed(figures, speed)
    return dict(zip(FIGURES, figures, strict=True)), rank, s


def case(seed):
    rng = np.random.default_rng(seed)
    home = np.arange(N) * P // N
    load = rng.uniform(0.5, 1.5, N) * np.where(home == 0, 3.0, 1.0)
    drift = np.where(home == 0, 0.2, -0.02) * rng.uniform(0.0, 1.0, N)
    return load, drift, home, rng.integers(1, 9, N)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("believed", [1.0, 0.5])
def test_losses_are_those_of_the_twin(seed, believed):
    load, drift, home, nbytes = case(seed)
    said = waiting(loads_at(load, drift, 1.0, 1), home) - waiting(load, home)
    cost = 0.5
    made, rank, s = place(load, drift, home, nbytes, grown=believed * said, cost=cost)
    per_byte = cost / np.bincount(home, nbytes, P).max()
    losses = [made[f"loss_{t}"] for t in AHEADS]
    tried = [t for t, x in zip(AHEADS, losses, strict=True) if not math.isnan(x)]
    assert tried[:2] == [0, 1]
    for t in tried:
        then = pylb.Snapshot(loads_at(load, drift, believed, t), home, n_ranks=P, bytes=nbytes)
        names = ("GreedyLB", "BestFitLB")
        found = [
            loss(load, drift, believed, home, pylb.place(then, name).rank, per_byte, nbytes, 198)
            for name in names
        ]
        assert any(made[f"loss_{t}"] == pytest.approx(x, rel=1e-9) for x in found)
    best = min(x for x in losses if not math.isnan(x))
    assert losses[AHEADS.index(int(made["ahead"]))] == best
    assert best == pytest.approx(
        loss(load, drift, believed, home, rank, per_byte, nbytes, 198), rel=1e-9
    )
    assert made["predicted"] == pytest.approx(s.with_rank(rank).metrics.max_over_mean)


def test_a_drift_that_lasts_is_placed_for():
    """A rank whose loads grow by a tenth per iteration keeps fewer objects."""
    load, drift, home, nbytes = case(1)
    said = waiting(loads_at(load, drift, 1.0, 1), home) - waiting(load, home)
    taken = place(load, drift, home, nbytes, grown=said, cost=0.5)[0]
    assert taken["ahead"] >= 1
    assert taken[f"loss_{int(taken['ahead'])}"] < 0.95 * taken["loss_0"]
    assert taken["predicted"] > taken["present"]


def test_a_perfect_balance_loses_nothing():
    """The mean of equal times may be rounded up: a loss is never below 0, which is refused."""
    for load in (0.1, 0.7, 1.1, 1.3):
        loads, home = np.full(N, load), np.arange(N) * P // N
        home[0] = 1
        made = place(loads, loads * 0.1, home, np.zeros(N, int), grown=0.1, cost=0.0)[0]
        known = [made[f"loss_{t}"] for t in AHEADS if not math.isnan(made[f"loss_{t}"])]
        assert known
        assert min(known) >= 0.0


@pytest.mark.parametrize("grown", [0.0, -1.0])
def test_after_a_jump_there_is_no_drift(grown):
    """The errors of the estimates still show the jump, but the imbalance no longer grows."""
    load, drift, home, nbytes = case(2)
    made = place(load, drift, home, nbytes, grown=grown, cost=0.5)[0]
    assert made["ahead"] == 0
    assert math.isnan(made["loss_0"])
    assert math.isnan(made["present"])


def test_a_chosen_strategy_places_for_the_present_loads():
    load, drift, home, nbytes = case(3)
    made, rank, s = place(load, drift, home, nbytes, grown=1.0, cost=0.5, strategy="BestFitLB")
    assert made["ahead"] == 0
    assert rank.tolist() == pylb.place(s, "BestFitLB").rank.tolist()
