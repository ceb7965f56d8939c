"""pylb.pack and pylb.Packer: against Karmarkar and Karp's method, bounds, and learned costs."""

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st
from twins import twin_copies

import pylb
from pylb.errors import InfeasibleError


def lengths_of(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    short = rng.random(n) < 0.5
    two = np.where(short, rng.normal(200, 30, n), rng.normal(4000, 400, n))
    return np.clip(np.rint(rng.lognormal(6, 1, n) if kind == "lognormal" else two), 1, 32768)


@pytest.mark.parametrize("kind", ["lognormal", "bimodal"])
@pytest.mark.parametrize(("n", "bins"), [(512, 8), (512, 64), (512, 256), (2048, 32)])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("cost", [None, (1.0, 0.01, 1e-5)])
def test_no_packing_is_worse_than_karmarkar_and_karps(kind, n, bins, equal, cost):
    lengths = lengths_of(kind, n)
    costs = lengths if cost is None else 1.0 + 0.01 * lengths + 1e-5 * lengths**2
    out = pylb.pack(lengths, bins, equal=equal, cost=cost)
    theirs = twin_copies.karmarkar_karp(costs.tolist(), bins, equal)
    most = max(costs[items].sum() for items in theirs)
    np.testing.assert_allclose(np.bincount(out.bin, costs, bins), out.cost)
    assert out.cost.max() <= most * (1 + 1e-9)
    assert out.bound <= out.max_over_mean * (1 + 1e-12)
    # not tight: each bin has whole numbers of long items
    assert out.max_over_mean <= (1.03 if equal and kind == "bimodal" else 1.006) * out.bound
    if equal:
        assert np.ptp(np.bincount(out.bin, minlength=bins)) == 0


@examples(150)
@given(
    st.lists(st.integers(0, 50), max_size=40),
    st.integers(1, 50),
    st.booleans(),
    st.sampled_from([None, 60, 200]),
)
def test_every_packing_keeps_the_rules(lengths, bins, equal, capacity):
    try:
        out = pylb.pack(lengths, bins, equal=equal, capacity=capacity)
    except InfeasibleError:
        assert capacity is not None
        return
    count = np.bincount(out.bin, minlength=bins)
    filled = np.bincount(out.bin, np.array(lengths, float), bins)
    np.testing.assert_array_equal(filled, out.cost)
    assert not equal or np.ptp(count) <= (len(lengths) % bins > 0)
    assert capacity is None or filled.max() <= capacity
    assert [len(items) for items in out.items] == count.tolist()
    mean = sum(lengths) / bins
    assert out.max_over_mean == pytest.approx(filled.max() / mean if mean else 1.0)
    assert 1.0 - 1e-12 <= out.bound <= out.max_over_mean * (1 + 1e-12)


def test_items_stay_where_that_costs_little():
    lengths = lengths_of("lognormal", 1000)
    first = pylb.pack(lengths, 16)
    later = np.append(lengths * np.random.default_rng(1).uniform(0.97, 1.03, 1000), [100.0] * 9)
    again = pylb.pack(later, 16, previous=np.append(first.bin, [-1] * 9))
    assert again.max_over_mean <= 1.001 * again.bound * (1 + 1e-9)
    assert (again.bin[:1000] != first.bin).mean() < 0.1
    kept = pylb.pack(lengths, 16, previous=first.bin)
    np.testing.assert_array_equal(kept.bin, first.bin)


BAD = [
    (([1.0, np.nan], 2), {}, r"lengths\[1\] is nan: expected 0 ... 1e30"),
    (([1.0, -2.0], 2), {}, r"lengths\[1\] is -2"),
    (([[1.0]], 2), {}, "lengths has shape"),
    (([1.0], 0), {}, "bins is 0: expected a number of bins, 1"),
    (([1.0], 2.5), {}, "bins is 2.5"),
    (([1.0], 2), {"capacity": 0}, "capacity is 0"),
    (([1.0, 9.0], 2), {"capacity": 8}, r"lengths\[1\] is 9: expected at most the capacity, 8"),
    (([1.0], 2), {"cost": (1, 2)}, r"cost has shape \(2,\): expected \(3,\)"),
    (([1.0], 2), {"cost": lambda x: -x}, r"cost\(lengths\)\[0\] is -1"),
    (([1.0], 2), {"cost": lambda x: x[:0]}, "cost returned 0 costs: expected 1"),
    (([1.0], 2), {"previous": [2]}, "expected 1 bins, -1 ... 1"),
    (([1.0], 2), {"equal": 2}, "equal is 2"),
]


@pytest.mark.parametrize(("args", "keys", "message"), BAD)
def test_bad_input_is_refused(args, keys, message):
    with pytest.raises(ValueError, match=message):
        pylb.pack(*args, **keys)


def test_a_capacity_that_nothing_satisfies_names_the_item():
    with pytest.raises(InfeasibleError, match="item 2, of length 6, fits into no bin beside"):
        pylb.pack([6, 6, 6], 2, capacity=10)


def test_a_million_items():
    lengths = np.random.default_rng(0).integers(1, 32768, 1_000_000)
    out = pylb.pack(lengths, 1024)
    assert out.max_over_mean <= out.bound * (1 + 1e-7)


def test_a_packer_learns_what_items_cost():
    rng = np.random.default_rng(3)
    packer = pylb.Packer(8, equal=True)
    assert packer.cost == (0.0, 1.0, 0.0)
    for _ in range(20):
        batch = rng.lognormal(6, 1, 64)
        out = packer.pack(batch)
        real = 0.02 + 1e-4 * batch + 2e-8 * batch**2
        packer.observe(np.bincount(out.bin, real, 8))
    np.testing.assert_allclose(packer.cost, (0.02, 1e-4, 2e-8), rtol=1e-5)
    other = pylb.Packer(2)
    other.observe([3.0, 2.0], lengths=[[1.0, 2.0], [2.0]])
    assert sum(other.cost) > 0
    with pytest.raises(ValueError, match="lengths is missing"):
        pylb.Packer(2).observe([1.0, 2.0])
    with pytest.raises(ValueError, match=r"seconds\[1\] is -2"):
        other.observe([1.0, -2.0], lengths=[[1.0], [2.0]])
    with pytest.raises(ValueError, match="lengths has 1 lists: expected 2"):
        other.observe([1.0, 2.0], lengths=[[1.0]])


def test_a_window_of_batches_makes_steps_alike():
    batches = [lengths_of("lognormal", 32, seed) for seed in range(9)]

    def worst(window):
        steps = list(pylb.Packer(8, window=window).stream(batches))
        assert len(steps) == 9
        got = np.sort(np.concatenate([x for step in steps for x in step]))
        np.testing.assert_array_equal(got, np.sort(np.concatenate(batches)))
        return sum(max(x.sum() for x in step) for step in steps)

    assert worst(4) < worst(1)
