"""Receipts, their table and their sentences; the decisions behind them, on made-up statistics."""

import math

import numpy as np
import pytest

import pylb
from pylb import _core
from pylb.errors import DomainError, OutOfRangeError, SerializationError, StateError
from pylb.machine import Network
from pylb.runtime.choosing import Chosen, Fixed, Selected
from pylb.runtime.deciding import Decider
from pylb.runtime.migration import Outcome
from pylb.runtime.placing import placed
from pylb.runtime.transport import Sample, Stats
from pylb.triggers import make

OUTCOME = Outcome(1.5, 1.0, 1.5, 1.0, math.nan, 0.5, 0.9, 0.0, 0.0, 3, 1500, 0.1, 0.2, 0.3, 0.7)


def stats(*loads, time=None):
    """The record of an iteration in which each rank has one object."""
    time = max(loads) if time is None else time
    samples = [Sample(4, 0, 0, False, 1, np.array([x]), time=time) for x in loads]
    return Stats._make(_core.stats(samples))


def decider(gives_up=True, **when):
    return Decider(make(**when), Fixed("GreedyLB", {}), seed=7, gives_up=gives_up, speaks=True)


def balance(d, outcome=OUTCOME):
    receipt, chosen = d.balance()
    d.balanced(receipt, chosen, outcome)
    return receipt


def test_a_balancing_leaves_what_it_rested_on():
    d = decider(every=2)
    d.expect(10)
    assert not d.observe(0, stats(1.0, 2.0))
    assert d.observe(1, stats(1.0, 3.0))
    r = balance(d)
    assert (r.iteration, r.choice, r.strategy, r.trigger, r.seed) == (
        1,
        "balance",
        "GreedyLB",
        "periodic",
        7,
    )
    assert (r.max, r.mean, r.max_over_mean, r.left) == (3.0, 2.0, 1.5, 8)
    assert [(a.strategy, a.gain) for a in r.alternatives] == [("", 0.0), ("GreedyLB", 1.0)]
    assert math.isnan(r.alternatives[1].cost)
    assert (r.migrations, r.bytes, r.cost) == (3, 1500, 0.7)
    d.observe(2, stats(2.0, 2.0))
    d.observe(3, stats(3.0, 1.0))
    second = balance(d)
    assert r.realised == (2.0 + 3.0) / (2.0 + 2.0)
    assert (r.idle_mean, r.idle_max) == (0.5, 0.9)
    assert (r.realised_idle_mean, r.realised_idle_max) == (0.5, 1.0)  # Dasgupta eq. 1, 2
    assert r.reductions == pytest.approx((0.0, -100.0 / 9.0))  # eq. 5
    assert second.alternatives[1] == pylb.Alternative("GreedyLB", 1.0, 0.7)
    assert second.alternatives[1].repaid_in == 0.7


def test_slow_first_iterations_are_part_of_the_cost():
    d = decider(every=10)
    d.observe(0, stats(1.0, 1.0))
    r = balance(d)
    for i, time in enumerate([3.0, 1.0, 1.0, 1.0, 1.0, 1.0], start=1):
        d.observe(i, stats(1.0, 1.0, time=time))
    assert r.seconds_warm_up == 2.0
    assert r.cost == 2.7
    assert d.trigger.state()["cost"] == 2.7


def test_what_was_weighed_and_not_done_is_one_receipt_in_a_cycle():
    d = decider(trigger="auto")
    d.expect(1000)
    for i in range(200):
        assert not d.observe(i, stats(1.0, 1.0 + 1e-4 * (i % 3)))
    (r,) = d.history
    assert (r.choice, r.balanced) == ("hold", False)
    assert r.until == 199
    assert r.times > 100
    assert "nothing was moved" in r.explain()
    assert f"{r.times - 1} times more up to iteration 199" in r.explain()


def test_balancing_that_does_not_pay_is_switched_off_and_says_so(caplog):
    d = decider(trigger="threshold")
    at = []
    for i in range(400):
        asked = d.observe(i, stats(1.0, 2.0))
        if d.judges(asked):
            d.judge(0.1)
        if d.allows(asked):
            balance(d)
            at.append(i)
    # three; 0.7 s is 1 % of 47 iterations; a trial, judged after 47, fails: 94 more
    assert at == [0, 1, 2, 3 + 47, 3 + 47 + 47 + 94]
    off = [r for r in d.history if r.choice == "off"]
    assert len(off) >= 3
    assert "switched off until iteration" in off[0].reason
    assert "did not act on its trigger" in off[0].explain()
    assert len(caplog.messages) == 1
    assert "balancings cost" in caplog.messages[0]


def test_it_is_switched_on_again_where_it_pays(caplog):
    d = decider(trigger="threshold")
    for i in range(400):
        asked = d.observe(i, stats(1.0, 2.0))
        if d.judges(asked):
            d.judge(0.1 if i < 10 else 5.0)
        if d.allows(asked):
            balance(d)
    assert len(caplog.messages) == 2
    assert "pays again" in caplog.messages[1]
    assert d.history.balancings[-1].iteration == 399


def test_auto_says_why_it_took_which_strategy():
    chooser = Selected(None, {"imbalance": 1.2})
    chooser.learn(Network(1e-3, 0.0))
    d = Decider(make(every=1), chooser, seed=0, gives_up=False, speaks=False)
    d.observe(0, stats(1.0, 3.0))
    first = balance(d)
    assert (first.strategy, "first balancing of its kind" in first.why) == ("GreedyLB", True)
    assert {a.strategy for a in first.alternatives} == {"", *chooser.selector.strategies}
    d.observe(1, stats(1.0, 3.0))
    second = balance(d)
    assert pylb.strategies()[second.strategy].family == "refinement"
    assert f"{second.strategy} was taken because the load is imbalanced" in second.explain()
    costs = {a.strategy: a.cost for a in second.alternatives}
    assert costs["GreedyLB"] == 0.7
    assert math.isnan(costs[second.strategy])
    d.observe(2, stats(1.0, 3.0)._replace(messages=1000))
    third = balance(d)
    assert "communication is intensive" in third.why


def test_a_refinement_stands_in_for_the_first_comprehensive_one():
    chooser = Selected(Network(0.0, 0.0), {})
    d = Decider(make(every=1), chooser, seed=0, gives_up=False, speaks=False)
    d.observe(0, stats(1.0, 3.0))
    receipt, chosen = d.balance()
    assert (chosen.strategy.name, chosen.instead.name) == ("GreedyLB", "BestFitLB")
    d.balanced(receipt, chosen, OUTCOME._replace(passed_over=1.0))
    assert (receipt.strategy, receipt.passed_over) == ("BestFitLB", 1.0)
    assert "BestFitLB leaves no more and moves fewer objects" in receipt.explain()
    records = chooser.selector.history()
    assert (records["GreedyLB"].after, records["GreedyLB"].n, records["BestFitLB"].n) == (1.0, 1, 1)
    d.observe(1, stats(1.0, 3.0))
    assert d.balance()[1].instead is None


def test_what_stands_in_leaves_as_little_and_moves_less():
    load, rank = np.ones(12), np.repeat([0, 0, 1], 4)
    snapshot = pylb.Snapshot(load, rank, n_ranks=3)
    greedy, best = (pylb.strategies()[name] for name in ("GreedyLB", "BestFitLB"))
    chosen = Chosen(greedy, {}, "", best, 1.05)
    made = placed(snapshot, chosen, 0, None)
    assert (made.passed_over, made.plan.migrations) == (1.0, 4)
    assert made.plan.migrations < pylb.place(snapshot, "GreedyLB").migrations
    stays = pylb.strategies()["none"]
    made = placed(snapshot, chosen._replace(instead=stays), 0, None)
    assert math.isnan(made.passed_over)
    assert made.after == 1.0


def test_auto_is_the_default():
    lb = pylb.Balancer(every=1)
    lb.add(1, "x")
    list(lb.iterate(3))
    assert lb.report().strategy == "auto"
    assert lb.history[0].strategy == "GreedyLB"
    with pytest.raises(DomainError, match=r"imbalance is 0\.5"):
        pylb.Balancer(strategy_params={"imbalance": 0.5})


def test_the_user_may_insist():
    d = decider(gives_up=False, trigger="threshold")
    for i in range(50):
        asked = d.observe(i, stats(1.0, 2.0))
        assert not d.judges(asked)
        if d.allows(asked):
            balance(d)
    assert len(d.history.balancings) >= 48


def test_history_is_a_list_and_a_table():
    pandas = pytest.importorskip("pandas")
    lb = pylb.Balancer(every=2, strategy="GreedyLB", load=lambda key, block: 1.0 + key)
    for key in range(4):
        lb.add(key, np.zeros(10))
    list(lb.iterate(7))
    history = lb.history
    assert isinstance(history, list)
    assert [r.iteration for r in history] == [1, 3, 5]
    frame = history.table()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.iteration.tolist() == [1, 3, 5]
    assert set(frame.columns) >= {"cost", "gain", "reason", "max_over_mean", "trigger_tau"}
    assert "GreedyLB" in str(history)
    assert "<table>" in history._repr_html_()
    assert len(history.balancings.table()) == 3


def test_receipts_survive_their_dict():
    lb = pylb.Balancer(every=2)
    lb.add(1, "x")
    list(lb.iterate(5))
    for r in lb.history:
        assert repr(pylb.Receipt.from_dict(r.to_dict())) == repr(r)


def test_explain():
    lb = pylb.Balancer(every=2, strategy="GreedyLB", load=lambda key, block: 1.0 + key)
    lb.add(1, "x")
    list(lb.iterate(5))
    text = lb.explain(0)
    assert text == lb.history[0].explain()
    assert "After iteration 1 the objects were placed anew: the given number of iterations" in text
    assert "worked for 2 s" in text
    assert "GreedyLB left every object where it was" in text
    with pytest.raises(OutOfRangeError, match="i is 2: expected one of 2 decisions"):
        lb.explain(2)


def test_strategies_that_were_never_tried_are_not_told_one_by_one():
    nan = float("nan")
    r = pylb.Receipt(3, "balance", "so", "auto", strategy="A")
    costs = {"": 0.0, "A": nan, "B": 0.5, "C": nan, "D": nan}
    r.alternatives = tuple(pylb.Alternative(name, 0.1, cost) for name, cost in costs.items())
    assert (
        "To balance with A was expected to save 100 ms an iteration at a cost not known yet; with "
        "B was expected to save 100 ms an iteration at a cost of 500 ms, back in 5 iterations; "
        "with 2 strategies not tried yet was expected to save up to 100 ms an iteration."
    ) in r.explain()


def test_sentences_of_a_balancing():
    r = pylb.Receipt(
        iteration=41,
        choice="balance",
        reason="the ideal period is over",
        trigger="metabalancer",
        strategy="RefineLB",
        why="refinements follow",
        max=12.3e-3,
        mean=8.2e-3,
        left=100,
        figures={"tau": 30.2, "max_slope": 2e-5, "mean_slope": -1e-6, "residual": 1.0},
        alternatives=(pylb.Alternative("RefineLB", 4e-3, 0.044),),
        moved=True,
        before=1.5,
        predicted=1.05,
        realised=1.08,
        migrations=37,
        bytes=1_200_000,
        seconds_strategy=5e-3,
        seconds_migration=39e-3,
        cost=0.044,
        gain=0.088,
        iterations=30,
    )
    assert r.explain() == (
        "After iteration 41 the objects were placed anew: the ideal period is over. The most "
        "loaded rank worked for 12.3 ms in that iteration and the mean one for 8.2 ms (max/mean "
        "1.5). By trigger metabalancer, the maximum grew by 20 µs an iteration, the mean fell by "
        "1 µs; the ideal period was 30 iterations. To balance with RefineLB was expected to save "
        "4 ms an iteration at a cost of 44 ms, back in 11 iterations; 100 iterations were left. "
        "RefineLB was taken because refinements follow. RefineLB moved 37 objects (1.2 MB), which "
        "was to bring max/mean from 1.5 to 1.05, and cost 44 ms, of which 5 ms for the strategy, "
        "39 ms for moving. It saved 88 ms in the 30 iterations after it, 2 times its cost "
        "(max/mean was 1.08 since)."
    )
    r.gain, r.moved = -0.01, False
    assert "It would have cost 10 ms more in the 30 iterations after it" in r.explain()
    assert "would have moved 37 objects" in r.explain()


def test_an_object_that_cannot_migrate_is_named_in_shadow_mode():
    lb = pylb.Balancer(mode="shadow")
    lb.add(1, lambda: None)
    with pytest.raises(SerializationError, match="shadow mode: object 1 cannot be pickled"):
        list(lb.iterate(2))
    with pytest.raises(StateError, match="in shadow mode: expected iterate"):
        pylb.Balancer(mode="shadow", lag=1).begin(3)
    with pytest.raises(DomainError, match="mode is 'on '"):
        pylb.Balancer(mode="on ")
