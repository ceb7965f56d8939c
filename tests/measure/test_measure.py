"""Room measure: every metric by its definition, exact sums, rank times."""

import itertools
import math

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb import _core
from pylb.errors import DomainError, OutOfRangeError
from pylb.measure.load_model import KEEPS, LoadModel, features_of, non_negative

SETTINGS = examples(200)


def test_metrics_by_hand():
    m = pylb.model.Metrics.of([4.0, 2.0, 1.0, 1.0])
    assert m.max == 4.0
    assert m.mean == 2.0
    assert m.min == 1.0
    assert m.std == pytest.approx(math.sqrt(1.5), rel=1e-15)
    assert m.max_over_mean == 2.0
    assert m.percent == 100.0
    assert m.efficiency == 0.5
    assert m.idle_mean == 2.0  # Dasgupta eq. 1: (0 + 2 + 3 + 3) / 4
    assert m.idle_max == 3.0  # Dasgupta eq. 2


def test_where_nothing_runs_nobody_waits():
    m = pylb.model.Metrics.of([0.0, 0.0])
    assert (m.max_over_mean, m.percent, m.efficiency, m.idle_max) == (1.0, 0.0, 1.0, 0.0)


def test_reductions_of_idle_time():
    """Dasgupta's eq. 5, with the sign of his table II: 12 s to 5 s, 30 s to 23 s at 23 W."""
    before, after = (
        pylb.model.Metrics.of([30.0, 18.0, 6.0]),
        pylb.model.Metrics.of([25.0, 20.0, 15.0]),
    )
    assert after.reductions(before) == pytest.approx((100 * 7 / 12, 100 * 14 / 24))
    assert before.reductions(before) == (0.0, 0.0)
    even = pylb.model.Metrics.of([1.0, 1.0])
    assert even.reductions(even) == (0.0, 0.0)
    assert even.reductions(after) == (100.0, 100.0)
    with pytest.raises(DomainError, match=r"other is 3: expected a pylb\.Metrics"):
        even.reductions(3)
    assert after.reductions(even) == (-math.inf, -math.inf)


def test_no_ranks_is_an_error():
    with pytest.raises(ValueError, match="time is empty"):
        pylb.model.Metrics.of([])


@SETTINGS
@given(st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=1, max_size=50))
def test_metrics_are_numpys(time):
    m, t = pylb.model.Metrics.of(time), np.asarray(time)
    assert m.max == t.max()
    assert m.min == t.min()
    assert m.mean == pytest.approx(t.mean(), rel=1e-12)
    assert m.std == pytest.approx(t.std(), rel=1e-9, abs=1e-9 * t.max())
    assert m.idle_mean == pytest.approx((t.max() - t).mean(), rel=1e-9, abs=1e-9 * t.max())
    assert m.idle_max == t.max() - t.min()
    if t.max() > 1e-300:
        assert m.max_over_mean == pytest.approx(t.max() / t.mean(), rel=1e-12)
        assert m.efficiency == pytest.approx(1 / m.max_over_mean, rel=1e-12)
        assert m.percent == pytest.approx(100 * (m.max_over_mean - 1), rel=1e-12)


def test_metrics_have_the_names_of_the_core():
    assert tuple(_core.metrics(np.ones(1))) == pylb.model.Metrics._fields


@SETTINGS
@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-30, 1e30)), max_size=60))
def test_exact_sums_are_fsum(values):
    assert _core.exact_sum(values) == math.fsum(values)
    assert _core.exact_sum(values[::-1]) == math.fsum(values)


def test_exact_sums_round_ties_to_even():
    for tail in ([2.0**-53], [2.0**-53, 2.0**-150], [2.0**-52, 2.0**-53]):
        assert _core.exact_sum([1.0, *tail]) == math.fsum([1.0, *tail])


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, 2e30])
def test_exact_sums_refuse(bad):
    with pytest.raises(ValueError, match=r"values\[1\]"):
        _core.exact_sum([1.0, bad])


def test_rank_times_with_speed_and_background():
    s = pylb.Snapshot(
        [1.0, 2.0, 4.0], [0, 0, 1], n_ranks=3, speed=[1, 2, 1], background=[0.5, 0, 3]
    )
    assert s.rank_times.tolist() == [3.5, 2.0, 3.0]
    assert s.metrics.max == 3.5
    assert _core.rank_times(s, [2, 2, 1]).tolist() == [0.5, 2.0, 6.0]
    assert s.with_rank([2, 2, 1]).rank_times.tolist() == [0.5, 2.0, 6.0]


def test_rank_times_add_in_the_order_of_the_objects():
    rng = np.random.default_rng(0)
    load, rank = rng.lognormal(0, 3, 5_000), rng.integers(0, 7, 5_000)
    expected = [0.0] * 7
    for w, r in zip(load.tolist(), rank.tolist(), strict=True):
        expected[r] += w
    assert pylb.Snapshot(load, rank, n_ranks=7).rank_times.tolist() == expected
    order = np.argsort(rank, kind="stable")
    s = pylb.Snapshot(load[order], rank[order], n_ranks=7)
    assert s.rank_times.tolist() == expected


def test_rank_times_refuse_a_wrong_placement():
    s = pylb.Snapshot([1.0, 1.0], [0, 0], n_ranks=2, migratable=[False, True])
    with pytest.raises(OutOfRangeError, match=r"placement\[1\] is 2: expected 0 \.\.\. 1"):
        _core.rank_times(s, [0, 2])
    with pytest.raises(ValueError, match="placement has 1 entries: expected 2"):
        _core.rank_times(s, [0])
    with pytest.raises(DomainError, match="object 0 may not migrate from rank 0"):
        _core.rank_times(s, [1, 0])


def update(loads, table):
    """Update the table with the loads of an iteration, which become zero."""
    _core.end_pass(loads, table, np.zeros(len(loads)))


def estimated(loads):
    """Return the (9, n) table after iterations with loads[i, n]."""
    table = np.zeros((9, loads.shape[1]))
    for row in loads:
        update(np.array(row), table)
    return table


def test_a_change_of_the_rank_is_known_after_two_iterations_and_a_spike_is_no_change():
    rng = np.random.default_rng(1)
    work, noise = rng.lognormal(0.0, 1.0, 40), rng.uniform(0.8, 1.2, (30, 40))
    assert estimated(work * noise)[5].min() == 30  # noise is not mistaken for a change
    cap = np.concatenate([work * noise, 2.0 * work * noise[:2]])
    assert np.array_equal(estimated(cap)[4:6], [cap[-1], np.full(40, 2.0)])
    spike = np.concatenate([work * noise, 3.0 * work * noise[:1], work * noise[:1]])
    without = np.delete(spike, 30, axis=0)
    assert np.array_equal(estimated(spike)[4:], estimated(without)[4:])


def test_an_object_that_has_come_is_estimated_from_scratch_beside_its_past():
    table = estimated(np.full((30, 2), 4.0))
    table[4:, 1] = 0.0
    for load in (2.0, 2.2, 1.8):
        update(np.array([4.0, load]), table)
    assert np.array_equal(table[:, 0], estimated(np.full((33, 2), 4.0))[:, 0])
    assert table[4:6, 1] == pytest.approx([2.0, 3.0])
    assert table[0, 1] < 4.0


def test_the_first_iteration_is_a_warm_up():
    assert estimated(np.array([[9.0], [1.0]]))[0, 0] == 1.0
    assert estimated(np.array([[9.0], [1.0], [2.0]]))[0, 0] == 1.5


def test_an_estimate_follows_steps_and_drifts_not_spikes_and_noise():
    rng = np.random.default_rng(0)
    n = 200
    noise = rng.uniform(0.9, 1.1, (60, n))
    settled = estimated(noise)[0]
    assert np.abs(settled - 1.0).std() < 0.6 * noise.std()
    step = np.concatenate([noise, 3.0 * noise[:3]])
    assert np.abs(estimated(step)[0] - 3.0).mean() < 0.3
    assert np.abs(estimated(step[:-1])[0] - 3.0).mean() < 0.45  # two iterations after the step
    spike = np.concatenate([noise, [5.0 * noise[0]], noise[1:3]])
    assert np.abs(estimated(spike)[0] - 1.0).mean() < 0.6
    drift = noise * np.linspace(1.0, 4.0, 60)[:, None]
    assert np.abs(estimated(drift)[0] - 4.0).mean() < 0.4


def test_an_estimate_is_never_negative():
    """Rounding makes some tracking signals larger than 1, which is only seen if a load ends."""
    rng = np.random.default_rng(0)
    loads = np.cumsum(10.0 ** rng.uniform(-3.0, 3.0, (150, 30000)), axis=0)
    assert estimated(np.vstack([loads, np.zeros(30000)]))[0].min() == 0.0


def test_estimate_refuses_other_arrays():
    with pytest.raises(ValueError, match="table: expected a contiguous array of 27 entries"):
        update(np.zeros(3), np.zeros((4, 2)))


# ---- evaluation of a placement, by hand --------------------------------------------------------


def test_evaluation_by_hand():
    """A multicast to three objects on two other ranks is two messages, one within the node."""
    snap = pylb.Snapshot(
        load=np.ones(5),
        rank=[0, 0, 1, 1, 2],
        n_ranks=3,
        node=[0, 0, 1],
        edges=([0, 2], [1, 4], [7.0, 9.0]),
        multicasts=([0], [0, 4], [1, 2, 3, 4], [10.0]),
        memory=[1, 1, 1, 1, 1],
        block=[-1, 0, 0, 0, 0],
        block_bytes=[100],
    )
    e = pylb.evaluate(snap)
    assert (e.cut, e.connectivity) == (9.0, 20.0)
    assert (e.bytes_local, e.bytes_node, e.bytes_network) == (17.0, 10.0, 19.0)
    assert e.hop_bytes == 2 * 10.0 + 4 * 19.0
    assert (e.messages_local, e.messages_node, e.messages_network) == (2, 1, 2)
    assert (e.sent_max, e.received_max) == (20.0, 19.0)
    assert (e.link_max, e.link_src, e.link_dst) == (10.0, 0, 1)
    assert (e.neighbours_mean, e.neighbours_max) == (2.0, 2)
    assert e.memory_max == 102
    assert e.metrics.max_over_mean == pytest.approx(1.2)


def test_bad_placements_are_errors():
    snap = pylb.Snapshot(np.ones(3), [0, 1, 1], migratable=[True, False, True])
    with pytest.raises(ValueError, match="2 entries: expected 3"):
        pylb.evaluate(snap, [0, 1])
    with pytest.raises(OutOfRangeError, match=r"placement\[2\] is 2: expected 0 \.\.\. 1"):
        pylb.evaluate(snap, [0, 1, 2])
    with pytest.raises(DomainError, match="object 1 may not migrate from rank 1"):
        pylb.evaluate(snap, [0, 0, 1])


def test_fields_have_the_names_of_the_core():
    assert tuple(_core.evaluate(pylb.Snapshot([], []))) == pylb.measure.Evaluation._fields[1:]


# ---- the linear model of loads against a search over all sets of features ----------------------


def twin(a, b):
    """Return the best of all sets of features, each by plain least squares."""
    best, least = np.zeros(len(b)), 0.0
    for size in range(1, len(b) + 1):
        for which in itertools.combinations(range(len(b)), size):
            some = np.array(which)
            x = np.zeros(len(b))
            x[some] = np.linalg.lstsq(a[np.ix_(some, some)], b[some], rcond=None)[0]
            value = 0.5 * x @ a @ x - b @ x
            if (x >= 0).all() and value < least:
                best, least = x, value
    return best, least


@given(seed=st.integers(0, 10**6), k=st.integers(1, 5), n=st.integers(1, 12))
def test_the_search_finds_the_best(seed, k, n):
    rng = np.random.default_rng(seed)
    rows = rng.random((n, k)) * 10.0 ** rng.integers(-3, 4, k)
    seconds = rows @ rng.normal(0.3, 1.0, k) + rng.normal(0, 0.1, n)
    a, b = rows.T @ rows, rows.T @ seconds
    x = non_negative(a, b)
    _, least = twin(a, b)
    assert (x >= 0).all()
    assert 0.5 * x @ a @ x - b @ x <= least + 1e-6 * (abs(least) + 1e-12)


def test_coefficients_are_found_and_older_steps_fade():
    rng = np.random.default_rng(1)
    model = LoadModel(2)
    for true in ([2.0, 0.5], [0.5, 3.0]):
        for _ in range(400):
            features = rng.random((30, 2))
            model = model.observe(features, float((features @ true).sum()))
        assert LoadModel.coefficients(model.sums) == pytest.approx(true, rel=1e-3)
    assert 0 < KEEPS < 1


def test_sums_of_ranks_add():
    steps = ([[4.0, 0.0]], 8.0), ([[0.0, 2.0]], 1.0)
    ranks = [LoadModel(2).observe(np.array(features), seconds) for features, seconds in steps]
    assert LoadModel.coefficients(ranks[0].sums + ranks[1].sums) == pytest.approx([2.0, 0.5])


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_nothing_is_known_of_a_rank_without_cells(seconds):
    model = LoadModel(2)
    model = model.observe(np.zeros((0, 2)), seconds)
    assert LoadModel.coefficients(model.sums).tolist() == [1.0, 1.0]


def test_features_that_are_always_alike():
    model = LoadModel(3)
    for n in (1, 2, 5):
        model = model.observe(np.ones((n, 3)), 6.0 * n)
    assert LoadModel.coefficients(model.sums).sum() == pytest.approx(6.0)


def test_features_are_checked():
    assert features_of([1, 2, 3]).shape == (3, 1)
    for wrong, says in (
        ([[1.0, -1.0]], r"features\[0, 1\] is -1"),
        ([[1.0], [np.nan]], r"features\[1, 0\] is nan"),
        (np.ones((2, 2, 2)), "has shape"),
        (np.ones((2, 0)), "has shape"),
        ("many", "expected an array"),
    ):
        with pytest.raises(DomainError, match=says):
            features_of(wrong)
