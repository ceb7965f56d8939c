"""Room decide: the ideal period and metabalancer; its verdicts are golden cases, too."""

import math
import random

import numpy as np
import pytest

import pylb
from pylb.decide.registry import of_arguments
from pylb.errors import DomainError, StateError, UnknownTriggerError


def run(trigger, imbalance, n, cost, mean=1.0, promise=1.0):
    """Return the iterations after which `trigger` rebalances.

    max/mean of iteration i is imbalance(i, k), where the last LB step was k iterations before.
    """
    out, last = [], -1
    for i in range(n):
        if trigger.observe(i, mean * imbalance(i, i - last), mean):
            out.append(i)
            last = i
            trigger.balanced(i, cost, promise)
    return out


def test_the_table_names_parameters_with_range_and_help():
    table = pylb.triggers()
    assert list(table) == [
        "periodic",
        "threshold",
        "menon",
        "procassini",
        "marquez",
        "zhai",
        "boulmier",
        "metabalancer",
        "auto",
    ]
    for kind in table.values():
        assert kind.help
        assert "Menon" in kind.source or "2104.01688" in kind.source
        for p in kind.params:
            assert p.least <= p.default <= p.most
            assert p.help


@pytest.mark.parametrize(("every", "due"), [(1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5]), (9, [])])
def test_periodic_is_due_at_the_end_of_each_period(every, due):
    assert run(pylb.trigger("periodic", every=every), lambda i, k: 1.0, 7, 0.0) == due
    silent = pylb.trigger("periodic", every=every)  # no LB step takes place
    assert [i for i in range(7) if silent.observe(i, 1.0, 1.0)] == due


@pytest.mark.parametrize("cost", [0.5, 5.0, 50.0, 500.0])
@pytest.mark.parametrize("growth", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("memory", [10, 1000])
def test_linear_growth_gives_the_period_of_eq_3_5(cost, growth, memory):
    tau = math.sqrt(2 * cost / growth)
    trigger = pylb.trigger("metabalancer", memory=memory)
    trigger.balanced(-1, cost, 1.0)
    due = run(trigger, lambda i, k: 1 + growth * k, int(10 * tau) + 20, cost)
    assert len(due) >= 9
    assert np.all(np.abs(np.diff([-1, *due]) - tau) <= 1)


def test_growing_mean_is_not_taken_for_imbalance():
    """What an LB step could not remove is a constant factor of the mean (Menon 2012, 3.5.3)."""
    trigger = pylb.trigger("metabalancer")
    trigger.balanced(-1, 8.0, 1.5)
    for i in range(300):
        mean = 1 + 0.01 * i
        assert not trigger.observe(i, 1.5 * mean, mean)
    state = trigger.state()
    assert state["growth"] == pytest.approx(0, abs=1e-12)
    assert state["max_slope"] == pytest.approx(0.015)
    assert state["mean_slope"] == pytest.approx(0.01)
    assert state["mean_offset"] == pytest.approx(0.99)
    assert state["residual"] == pytest.approx(1.5)


@pytest.mark.parametrize("promise", [1.0, 1.6])
@pytest.mark.parametrize("cost", [0.0, 0.01, 100.0])
def test_constant_imbalance_that_stays_gets_one_lb_step(promise, cost):
    due = run(pylb.trigger("metabalancer"), lambda i, k: 1.7, 500, cost, promise=promise)
    assert due == [3]  # after 3 iterations the imbalance has cost 3 * 0.7 > 2; one more confirms it


def test_noisy_imbalance_that_stays_gets_few_lb_steps():
    rng = random.Random(1)
    due = run(pylb.trigger("metabalancer"), lambda i, k: 1.5 + rng.gauss(0, 0.05), 1000, 1.0)
    assert len(due) < 30


def test_a_spike_is_confirmed_first():
    def spike(i, k):
        return 3.0 if i == 50 else 1.0

    for patience, due in [(2, []), (1, [50])]:
        trigger = pylb.trigger("metabalancer", patience=patience)
        trigger.balanced(-1, 1.0, 1.0)
        assert run(trigger, spike, 200, 1.0) == due
    assert trigger.state()["reason"] == "the imbalance does not grow"


def test_a_sudden_imbalance_is_removed_soon_even_if_an_lb_step_is_expensive():
    for patience, due in [(1, [50]), (2, [51]), (4, [53])]:
        trigger = pylb.trigger("metabalancer", patience=patience)
        trigger.balanced(-1, 1e6, 1.0)
        last = due[0]
        assert run(trigger, lambda i, k: 1.5 if 50 <= i <= last else 1.0, 200, 1e6) == due  # noqa: B023


def test_saturated_imbalance_is_removed_when_it_has_cost_as_much_as_an_lb_step():
    """An imbalance that grows in a few iterations and stays: the fitted period is too long."""
    trigger = pylb.trigger("metabalancer", memory=10)
    trigger.balanced(-1, 20.0, 1.0)
    due = run(trigger, lambda i, k: 1 + 0.25 * min(k, 40) / 40, 120, 20.0)
    assert due
    assert 80 <= due[0] <= 105


@pytest.mark.parametrize("growth", [0.1, lambda k: 1 / (0.4 * k + 1), lambda k: 0.02 * k, 0.0])
@pytest.mark.parametrize("noise", [0.0, 0.03, 0.1, 0.3])
def test_close_to_the_best_fixed_period_in_published_programs(growth, noise):
    """Published synthetic programs (arXiv 2104.01688): mean 0.52 s, LB step 52 s, 500 iterations.

    The imbalance grows in a concave, linear or convex way, or not at all; noise is added.
    """

    def seconds(trigger):
        rng, total, k, level = random.Random(1), 0.0, 0, 1.0
        trigger.balanced(-1, 52.0, 1.0)
        for i in range(500):
            high = 0.52 * level * (1 + abs(rng.gauss(0, noise)))
            total += high
            k += 1
            level += growth(k) if callable(growth) else growth
            if trigger.observe(i, high, 0.52):
                total, k, level = total + 52.0, 0, 1.0
                trigger.balanced(i, 52.0, 1.0)
        return total

    best = min(
        seconds(pylb.trigger("periodic", every=every)) for every in [*range(15, 100, 2), 1000]
    )
    assert seconds(pylb.trigger("metabalancer")) < 1.1 * best


def test_a_first_lb_step_of_unknown_cost_is_tried_when_the_imbalance_has_cost_enough():
    grows = pylb.trigger("metabalancer")
    due = run(grows, lambda i, k: 1 + 0.01 * k, 60, 1e9)
    assert due == [19]  # the sum 0.01 + ... + 0.20 is more than 2
    told = pylb.trigger("metabalancer")
    told.expect(None, 2.0)
    assert run(told, lambda i, k: 1 + 0.01 * k, 30, 2.0)[0] == 19  # Menon's eq. 3.5
    within = pylb.trigger("metabalancer", threshold=1.5)
    assert run(within, lambda i, k: 1.4, 100, 1.0) == []
    assert "not known yet" in within.state()["reason"]
    assert math.isnan(within.state()["cost"])


def test_cost_follows_what_is_measured():
    trigger = pylb.trigger("metabalancer")
    for i, cost in enumerate([8.0, 4.0, 4.0]):
        trigger.balanced(i, cost, 1.0)
    trigger.observe(3, 1.0, 1.0)
    assert trigger.state()["cost"] == 5.0


def test_observations_from_before_the_lb_step_change_nothing():
    trigger, plain = pylb.trigger("metabalancer"), pylb.trigger("metabalancer")
    for t in (trigger, plain):
        t.observe(0, 1.0, 1.0)
        t.balanced(4, 1.0, 1.0)
    for i in range(1, 5):
        assert not trigger.observe(i, 100.0, 1.0)
        assert "before the last LB step" in trigger.state()["reason"]
    for i in range(5, 30):
        assert trigger.observe(i, 1 + 0.01 * i, 1.0) == plain.observe(i, 1 + 0.01 * i, 1.0)
        np.testing.assert_equal(trigger.state(), plain.state())


def test_no_load_and_skipped_iterations():
    trigger = pylb.trigger("metabalancer")
    assert not any(trigger.observe(i, 0.0, 0.0) for i in range(0, 100, 7))


def test_bad_arguments():
    for given_, match in [
        ({}, "expected exactly one"),
        ({"every": 1, "trigger": "periodic"}, "expected exactly one"),
        ({"every": 0}, "every is 0"),
        ({"every": 2.5}, r"every is 2\.5"),
        ({"every": True}, "every is True"),
    ]:
        with pytest.raises(DomainError, match=match):
            of_arguments(given_.get("every"), given_.get("trigger"))
    for given_, match in [
        ({"threshold": 0.5}, r"threshold is 0\.5: expected 1"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"patience": "x"}, "patience is 'x'"),
        ({"tresh": 2}, "no parameter 'tresh'.*threshold"),
    ]:
        with pytest.raises(DomainError, match=match):
            pylb.trigger("metabalancer", **given_)
    with pytest.raises(UnknownTriggerError, match="did you mean metabalancer"):
        pylb.trigger("metabalancr")
    with pytest.raises(UnknownTriggerError, match="expected a name"):
        pylb.trigger(3)


def test_bad_observations_change_nothing():
    trigger = pylb.trigger("metabalancer")
    trigger.observe(5, 1.0, 1.0)
    before = trigger.state()
    for args in [(6, math.nan, 1.0), (6, 1.0, math.inf), (6, -1.0, 1.0)]:
        with pytest.raises(DomainError, match="expected seconds"):
            trigger.observe(*args)
    with pytest.raises(StateError, match="iteration is 5: expected more than 5"):
        trigger.observe(5, 1.0, 1.0)
    with pytest.raises(DomainError, match="cost is nan"):
        trigger.balanced(5, math.nan, 1.0)
    with pytest.raises(DomainError, match=r"max_over_mean is 0\.5"):
        trigger.balanced(5, 1.0, 0.5)
    np.testing.assert_equal(trigger.state(), before)


def test_repr_and_params():
    trigger = pylb.trigger("periodic", every=4)
    assert repr(trigger) == "<Trigger periodic {'every': 4.0}>"
    assert trigger.name == "periodic"
    assert pylb.trigger("metabalancer", threshold=2).params["threshold"] == 2.0
