"""Room place: PowerAwareLB gives each rank the objects that it can finish in the same time."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, InfeasibleError


def counts(rank, p):
    return np.bincount(rank, minlength=p)


def shares(weight, background, fixed, n):
    """Return how many migratable objects (a fraction) each rank needs to end with all others."""
    inside = set(range(len(weight)))
    while True:
        total = n + sum(fixed[r] + background[r] / weight[r] for r in inside)
        end = total / sum(1 / weight[r] for r in inside)
        share = {r: (end - background[r]) / weight[r] - fixed[r] for r in inside}
        outside = {r for r in inside if share[r] < 0}
        if not outside:
            return [share.get(r, Fraction(0)) for r in range(len(weight))]
        inside -= outside


def largest_remainder(share, have):
    part = [int(x) for x in share]
    order = sorted(range(len(part)), key=lambda r: (part[r] - share[r], -have[r], r))
    for r in order[: round(sum(share)) - sum(part)]:
        part[r] += 1
    return part


def twin(weight, background, rank, migratable):
    """Dasgupta eq. 3 and 4 in fractions: how many objects each rank gets."""
    p = len(weight)
    fixed = counts(rank[~migratable], p).tolist()
    have = counts(rank[migratable], p).tolist()
    share = shares(weight, background, fixed, sum(have))
    return [f + x for f, x in zip(fixed, largest_remainder(share, have), strict=True)]


@st.composite
def problems(draw):
    """Ranks with integer weights and equal objects; some have no objects."""
    p = draw(st.integers(1, 6))
    n = draw(st.integers(1, 40))
    weight = draw(st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=p, max_size=p))
    rank = np.array(draw(st.lists(st.integers(0, p - 1), min_size=n, max_size=n)), np.int32)
    migratable = np.array(draw(st.lists(st.sampled_from([1, 1, 1, 0]), min_size=n, max_size=n)))
    background = draw(st.lists(st.sampled_from([0, 0, 4, 40]), min_size=p, max_size=p))
    return weight, rank, migratable.astype(bool), background


@given(problems())
def test_agrees_with_a_twin_that_computes_with_fractions(problem):
    weight, rank, migratable, background = problem
    p = len(weight)
    # Measured seconds; the speeds of ranks without objects must be given.
    for speed in (1.0 / np.array(weight), None):
        if speed is None and len(set(rank)) < p:
            continue
        load = np.ones(len(rank)) if speed is not None else np.array(weight, float)[rank]
        s = pylb.Snapshot(
            load, rank, n_ranks=p, speed=speed, migratable=migratable, background=background
        )
        plan = pylb.place(s, "PowerAwareLB")
        expected = twin(list(map(Fraction, weight)), background, rank, migratable)
        assert counts(plan.rank, p).tolist() == expected
        fewest = np.maximum(counts(rank, p) - expected, 0).sum()
        assert plan.migrations == fewest
        assert np.array_equal(plan.rank[~migratable], rank[~migratable])


def test_the_paper_s_proportion():
    """28 objects are divided 2 : 1 : 0.5 among ranks of these speeds, as in the paper."""
    rank = np.repeat([0, 1, 2], [10, 9, 9])
    s = pylb.Snapshot(np.array([0.5, 1.0, 2.0])[rank], rank, n_ranks=3)
    plan = pylb.place(s, "PowerAwareLB")
    assert counts(plan.rank, 3).tolist() == [16, 8, 4]
    assert plan.migrations == 6
    assert plan.rank[:10].tolist() == [0] * 10  # fewer than its share: keeps all
    real = pylb.Snapshot(np.ones(28), rank, n_ranks=3, speed=[2.0, 1.0, 0.5])
    plan = pylb.place(real, "PowerAwareLB")
    assert plan.after.max == plan.after.mean == 8.0
    assert plan.after.idle_mean == plan.after.idle_max == 0.0


def test_equal_ranks_are_left_alone():
    rank = np.repeat([0, 1, 2, 3], [2, 3, 2, 3])
    assert pylb.place(pylb.Snapshot([0.1] * 10, rank, n_ranks=4), "PowerAwareLB").migrations == 0
    noisy = np.random.default_rng(0).normal(1.0, 0.01, 4000)
    s = pylb.Snapshot(noisy, np.arange(4000) // 1000, n_ranks=4)
    assert pylb.place(s, "PowerAwareLB").migrations <= 4


def test_a_rank_without_measured_times_gets_the_mean():
    rank = np.repeat([0, 1], 6)
    assert counts(
        pylb.place(pylb.Snapshot([1.0] * 12, rank, n_ranks=3), "PowerAwareLB").rank, 3
    ).tolist() == [4, 4, 4]
    idle = pylb.Snapshot([1.0] * 6 + [0.0] * 6, rank, n_ranks=2)
    # An object takes 1 s on rank 0; for rank 1, the mean of all objects counts: 1/2 s.
    assert counts(pylb.place(idle, "PowerAwareLB").rank, 2).tolist() == [4, 8]


def test_memory_limits_hold():
    s = pylb.Snapshot(
        np.ones(12), np.repeat([0, 1], 6), n_ranks=2, speed=[3.0, 1.0], memory=[10] * 12,
        memory_limit=[70, 1000],
    )  # fmt: skip
    assert counts(pylb.place(s, "PowerAwareLB").rank, 2)[0] <= 7
    s = pylb.Snapshot(
        np.ones(12), np.repeat([0, 1], 6), n_ranks=2, memory=[10] * 12, memory_limit=[50, 60]
    )
    with pytest.raises(InfeasibleError):
        pylb.place(s, "PowerAwareLB")


def test_the_selector_does_not_choose_it():
    assert not pylb.strategies()["PowerAwareLB"].selectable
    with pytest.raises(DomainError, match="no parameter"):
        pylb.place(pylb.Snapshot([1.0], [0], n_ranks=1), pylb.strategy("PowerAwareLB", tolerance=1))
