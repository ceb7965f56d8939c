"""Receipts, their table and their sentences; the decisions in them, for invented statistics."""

import dataclasses
import math
import re

import chance
import numpy as np
import pytest
from each_case import in_blocks
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb import _core
from pylb.decide.decider import BALANCE, FIGURES, JUDGE, settings
from pylb.errors import DomainError, OutOfRangeError, StateError

PLACED = (
    *(1.5, 1.0, 1.5, 1.0, *[math.nan] * 3, 0.5, 0.9, 0.0, 0.0, *[math.nan] * 4, 0.0),
    *[math.nan] * 9,
    *(0.1, 0.2),
    *[math.nan] * 3,
)


def decider(strategy="GreedyLB", network=(0.0, 0.0), **when):
    """Return a decider for two ranks."""
    gives_up = when.pop("gives_up", True)
    given = settings(strategy, seed=7, gives_up=gives_up, **when)
    return given.decider(2, network)


def observe(d, i, *loads, time=None, messages=0):
    """Observe an iteration in which each rank has one object."""
    most, total = max(loads), sum(loads)
    time = most if time is None else time
    mean = total / len(loads)
    return d.core.observe(i, time, most, mean, min(loads), total, 1.0, messages, 0)


def balance(d, **figures):
    """Make an LB step; return its receipt."""
    d.core.choose()
    row = np.array([figures.get(n, x) for n, x in zip(FIGURES, PLACED, strict=True)])
    d.core.placed(row, np.zeros(2))
    d.core.balanced(3, 1500, 0.3, 0.7, True)
    return d.receipt(d.core.receipts()[-1])


def go_on(d, asked, gain=0.0):
    """Observe an iteration; return whether an LB step is due."""
    ask = d.core.next(asked, True)
    if ask == JUDGE:
        d.core.judge(gain)
        ask = d.core.next(asked, True)
    return ask == BALANCE


def test_an_lb_step_leaves_a_receipt_with_its_figures():
    d = decider(every=2)
    d.core.expect(10, math.nan)
    assert not observe(d, 0, 1.0, 2.0)
    assert observe(d, 1, 1.0, 3.0)
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
    assert (r.migrations, r.nbytes, r.cost) == (3, 1500, 0.7)
    assert (r.seconds_statistics, r.seconds_strategy, r.seconds_migration) == (0.1, 0.2, 0.3)
    assert (r.seconds, r.moved, r.until, r.times) == (0.7, True, 1, 1)
    observe(d, 2, 2.0, 2.0)
    observe(d, 3, 3.0, 1.0)
    second = balance(d)
    r = d.history[0]
    assert r.realised == (2.0 + 3.0) / (2.0 + 2.0)
    assert (r.idle_mean, r.idle_max) == (0.5, 0.9)
    assert (r.realised_idle_mean, r.realised_idle_max) == (0.5, 1.0)  # Dasgupta eq. 1, 2
    assert r.reductions == pytest.approx((0.0, -100.0 / 9.0))  # Dasgupta eq. 5
    assert second.alternatives[1] == pylb.decide.Alternative("GreedyLB", 1.0, 0.7)
    assert second.alternatives[1].repaid_in == 0.7


def test_slow_first_iterations_are_part_of_the_cost():
    d = decider(every=10)
    observe(d, 0, 1.0, 1.0)
    balance(d)
    for i, time in enumerate([3.0, 1.0, 1.0, 1.0, 1.0, 1.0], start=1):
        observe(d, i, 1.0, 1.0, time=time)
    (r,) = d.history
    assert r.seconds_warm_up == 2.0
    assert r.cost == 2.7
    assert d.settings.trigger.state()["cost"] == 2.7


def test_each_reason_to_hold_has_one_receipt_in_a_cycle():
    d = decider(trigger="auto")
    d.core.expect(1000, math.nan)
    for i in range(200):
        assert not observe(d, i, 1.0, 1.0 + 1e-4 * (i % 3))
    (r,) = d.history
    assert (r.choice, r.balanced) == ("hold", False)
    assert r.until == 199
    assert r.times > 100
    assert "asked for no LB step" in r.explain()
    assert f"{r.times - 1} more times up to iteration 199" in r.explain()


def test_lb_steps_that_do_not_pay_are_switched_off():
    d = decider(trigger="threshold")
    at = []
    for i in range(400):
        if go_on(d, observe(d, i, 1.0, 2.0), 0.1):
            balance(d)
            at.append(i)
    # After three LB steps there is a pause of 47 iterations, so that 0.7 s are 1 % of it. The trial
    # after the pause is judged 47 iterations later. It has not paid, so the next pause is 94
    # iterations.
    assert at == [0, 1, 2, 3 + 47, 3 + 47 + 47 + 94]
    off = [r for r in d.history if r.choice == "off"]
    assert len(off) >= 3
    assert "switched off until iteration" in off[0].reason
    assert "asked for an LB step, but none was made" in off[0].explain()
    assert d.core.ledger[0]


@st.composite
def programs(draw):
    """Loads (m, n) that stay, grow, jump or move, and the ranks of the objects."""
    p, m = draw(st.integers(2, 5)), draw(st.integers(5, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = int(rng.integers(p, 30))
    i, k = np.arange(m)[:, None], np.arange(n)
    factor = {
        "stays": np.ones((m, n)),
        "grows": 1 + 0.05 * i * (k < n / 3),
        "noise": 1 + rng.random((m, n)) * rng.choice([0.05, 1.0]),
        "jumps": 1 + 7.0 * ((i % 20 < 10) & (k < 3)),
        "moves": 1 + 5.0 * (np.abs(k - (i / 2) % n) < 2),
    }[draw(st.sampled_from(["stays", "grows", "noise", "jumps", "moves"]))]
    loads = 1e-3 * rng.exponential(1.0, n) * factor
    rank = np.sort(rng.integers(0, p, n))
    return pylb.Trace.from_snapshots([pylb.Snapshot(row, rank, n_ranks=p, key=k) for row in loads])


@chance.examples(100)
@given(
    trace=programs(),
    strategy=st.sampled_from(["auto", "GreedyLB", "RefineLB"]),
    trigger=st.sampled_from([name for name in pylb.triggers() if name != "periodic"]),
    cost=st.sampled_from([0.0, 1e-4, 1e-3, 1e-2, 0.1]),
)
def test_a_receipt_does_not_contradict_itself(trace, strategy, trigger, cost):
    history = trace.replay(strategy, trigger=trigger, cost=cost, pause_if_useless=True).decisions
    steps = [r.iteration for r in history if r.balanced]
    for r in history:
        said = r.explain()
        repaid = re.findall(r"repaid in (\d+) iterations?", said)
        left = re.search(r"; (\d+) iterations? (?:was|were) left", said)
        if "too few to repay" in r.reason and any(s < r.iteration for s in steps):
            assert left is not None
            assert all(int(n) > int(left[1]) for n in repaid)
            if r.figures["level"] > 0:
                assert repaid
        off = re.search(r"until iteration (\d+)( at the latest)?", r.reason)
        if off is not None:
            early = [s for s in steps if r.iteration < s < int(off[1])]
            assert not early or off[2]
            assert r.until < int(off[1])
        if not r.balanced:
            assert r.iteration <= r.until
            assert not [s for s in steps if r.iteration <= s <= r.until]


def test_lb_steps_are_switched_on_again_when_they_pay():
    d = decider(trigger="threshold")
    off = []
    for i in range(400):
        if go_on(d, observe(d, i, 1.0, 2.0), 0.1 if i < 10 else 5.0):
            balance(d)
        off.append(d.core.ledger[0])
    assert [i for i in range(1, 400) if off[i] != off[i - 1]] == [3, 3 + 47 + 47]
    assert d.history.lb_steps[-1].iteration == 399


def test_rank_0_says_that_lb_steps_are_switched_off(caplog):
    """An LB step in which all objects change their rank saves nothing."""

    def main(comm):
        lb = pylb.Balancer(comm, strategy=lambda s: 1 - s.rank, trigger="threshold")
        if comm.rank == 0:
            lb.add(0, None)
            lb.add(1, None)
        for _ in lb.iterate(60):
            for _ in lb.local():
                comm.elapse(1e-3)
        return lb.history

    caplog.set_level("WARNING", "pylb")
    cluster = pylb.VirtualCluster(2, network=(1e-3, 1e-6), clock="none")
    history = cluster.run(main)[0]
    assert any(r.choice == "off" for r in history)
    said = [m for m in caplog.messages if "LB steps" in m]
    assert "the last LB steps cost" in said[0]
    assert "they are switched off until iteration" in said[0]
    assert len(said) == 1  # printed by one rank


def test_in_the_iteration_of_an_lb_step_for_better_speeds_nothing_is_held():
    def main(comm):
        lb = in_blocks(pylb.Balancer(comm, learn_speeds=True), 32 * comm.size)
        for it in lb.iterate(90):
            for key, _ in lb.local():
                slower = 3.0 if it >= 60 and lb.rank == 0 else 1.0
                comm.elapse(1e-3 * slower * (1.0 + key % 7))
        return lb.history

    cluster = pylb.VirtualCluster(4, speed=[1.0, 1.0, 0.5, 0.25], clock="none")
    history = cluster.run(main)[0]
    steps = {r.iteration for r in history if r.balanced}
    assert any("better estimates of the ranks' speeds" in r.reason for r in history)
    held = [r for r in history if r.choice == "hold"]
    assert held
    assert [(r.iteration, r.until) for r in held if {r.iteration, r.until} & steps] == []


def test_auto_says_why_it_took_which_strategy():
    d = decider(pylb.strategy("auto", imbalance=1.2), every=1, gives_up=False)
    d.core.network(1e-3, 0.0)
    observe(d, 0, 1.0, 3.0)
    first = balance(d)
    assert (first.strategy, "first LB step of its kind" in first.why) == ("GreedyLB", True)
    names = {s.name for s in d.settings.strategies}
    assert {a.strategy for a in first.alternatives} == {"", *names}
    observe(d, 1, 1.0, 3.0)
    second = balance(d)
    assert pylb.strategies()[second.strategy].family == "refinement"
    assert f"{second.strategy} was chosen because the load is imbalanced" in second.explain()
    costs = {a.strategy: a.cost for a in second.alternatives}
    assert costs["GreedyLB"] == 0.7
    assert math.isnan(costs[second.strategy])
    observe(d, 2, 1.0, 3.0, messages=1000)
    third = balance(d)
    assert "communication is intensive" in third.why


def test_a_refinement_replaces_the_first_comprehensive_strategy():
    d = decider("auto", every=1, gives_up=False)
    names = [s.name for s in d.settings.strategies]
    observe(d, 0, 1.0, 3.0)
    chosen, instead = d.core.choose()
    assert (names[chosen], names[instead]) == ("GreedyLB", "BestFitLB")
    d.core.abandon()
    receipt = balance(d, passed_over=1.0, placed_by=instead)
    assert (receipt.strategy, receipt.passed_over) == ("BestFitLB", 1.0)
    said = "but BestFitLB balances about as well as GreedyLB and moves fewer objects. Best"
    assert said in receipt.explain()
    observe(d, 1, 1.0, 3.0)
    chosen, instead = d.core.choose()
    assert pylb.strategies()[names[chosen]].family == "refinement"  # GreedyLB has been tried, too
    assert instead == -1


def test_a_refinement_that_replaces_the_comprehensive_one_leaves_as_little_and_moves_less():
    load, rank = np.ones(12), np.repeat([0, 0, 1], 4)
    snapshot = pylb.Snapshot(load, rank, n_ranks=3, key=np.arange(12))
    d = settings("auto", every=1).decider(3)
    observe(d, 0, 1.0, 3.0, 0.0)
    d.core.choose()
    figures, speed, where = np.zeros(_core.PLACING), np.zeros(3), np.zeros(12, np.int32)
    d.core.place(snapshot, None, None, figures, speed, where)
    made = dict(zip(FIGURES, figures, strict=True))
    assert (made["passed_over"], np.count_nonzero(where != rank)) == (1.0, 4)
    assert made["predicted"] == made["predicted_with_messages"] == 1.0
    assert pylb.place(snapshot, "GreedyLB").migrations > 4
    assert where.tolist() == pylb.place(snapshot, "BestFitLB").rank.tolist()


def test_auto_is_the_default():
    lb = pylb.Balancer(every=1)
    lb.add(1, "x")
    list(lb.iterate(3))
    assert lb.report().strategy == "auto"
    assert lb.history[0].strategy == "GreedyLB"
    with pytest.raises(DomainError, match=r"imbalance is 0\.5"):
        pylb.Balancer(strategy=pylb.strategy("auto", imbalance=0.5))


def test_without_give_up_lb_steps_are_never_switched_off():
    d = decider(gives_up=False, trigger="threshold")
    for i in range(50):
        ask = d.core.next(observe(d, i, 1.0, 2.0), True)
        assert ask != JUDGE
        if ask == BALANCE:
            balance(d)
    assert len(d.history.lb_steps) >= 48


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
    assert len(history.lb_steps.table()) == 3


def test_receipts_are_equal_after_to_dict_and_from_dict():
    lb = pylb.Balancer(every=2)
    lb.add(1, "x")
    list(lb.iterate(5))
    for r in lb.history:
        assert repr(pylb.decide.Receipt.from_dict(r.to_dict())) == repr(r)


def test_explain():
    lb = pylb.Balancer(every=2, strategy="GreedyLB", load=lambda key, block: 1.0 + key)
    lb.add(1, "x")
    list(lb.iterate(5))
    text = lb.explain(0)
    assert text == lb.history[0].explain()
    assert "After iteration 1 the objects were rebalanced: the given number of iterations" in text
    assert "worked for 2 s" in text
    assert "GreedyLB left every object where it was" in text
    with pytest.raises(OutOfRangeError, match="i is 2: expected one of 2 decisions"):
        lb.explain(2)


def test_strategies_that_were_never_tried_are_not_listed_one_by_one():
    nan = float("nan")
    r = pylb.decide.Receipt(3, "balance", "so", "auto", strategy="A")
    costs = {"": 0.0, "A": nan, "B": 0.5, "C": nan, "D": nan}
    r.alternatives = tuple(pylb.decide.Alternative(name, 0.1, cost) for name, cost in costs.items())
    assert (
        "A was expected to save 100 ms per iteration at a cost not known yet; B was expected to "
        "save 100 ms per iteration at a cost of 500 ms, repaid in 5 iterations; 2 other "
        "strategies, not tried yet, were expected to save up to 100 ms per iteration."
    ) in r.explain()


def test_sentences_about_an_lb_step():
    r = pylb.decide.Receipt(
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
        alternatives=(pylb.decide.Alternative("RefineLB", 4e-3, 0.044),),
        moved=True,
        before=1.5,
        predicted=1.05,
        realised=1.08,
        migrations=37,
        nbytes=1_200_000,
        seconds_strategy=5e-3,
        seconds_migration=39e-3,
        cost=0.044,
        gain=0.088,
        iterations=30,
    )
    assert r.explain() == (
        "After iteration 41 the objects were rebalanced: the ideal period is over. In that "
        "iteration the most loaded rank worked for 12.3 ms; the mean over the ranks was 8.2 ms "
        "(max/mean 1.5). Trigger metabalancer found: the maximum grew by 20 µs per iteration and "
        "the mean fell by 1 µs; the ideal period was 30 iterations. RefineLB was expected to save "
        "4 ms per iteration at a cost of 44 ms, repaid in 11 iterations; 100 iterations were left. "
        "RefineLB was chosen because refinements follow. RefineLB moved 37 objects (1.2 MB), to "
        "reduce max/mean of the estimated loads from 1.5 to 1.05. The LB step cost 44 ms, of which "
        "5 ms for the strategy, 39 ms for moving. The LB step saved 88 ms in the 30 iterations "
        "after it, 2 times its cost (max/mean was 1.08)."
    )
    r.gain, r.moved = -0.01, False
    assert "The LB step would have cost 10 ms more in the 30 iterations after it" in r.explain()
    assert "would have moved 37 objects" in r.explain()
    assert "The LB step would have cost 44 ms, of which 5 ms for the strategy" in r.explain()
    assert "; 1 iteration was left." in dataclasses.replace(r, left=1.0).explain()
    r = dataclasses.replace(r, idle_mean=1.0, predicted_idle_mean=0.5, realised_idle_mean=0.5)
    r = dataclasses.replace(r, heaviest=1.3, next_heaviest=1.2, heaviest_key=7.0, memory_full=0.5)
    floats = [name for name, value in dataclasses.asdict(r).items() if isinstance(value, float)]
    for name in {*floats} - {"cost", "heaviest_key"}:  # others may be unknown
        for strategy in ("RefineLB", "own"):
            some = dataclasses.replace(r, strategy=strategy, **{name: math.nan})
            assert "nan" not in some.explain() + some.headline, name


def test_an_object_that_cannot_be_pickled_stays_in_shadow_mode(caplog):
    def program(comm):
        lb = pylb.Balancer(comm, mode="shadow", every=1, strategy="GreedyLB", load=lambda *_: 1.0)
        for key in range(4) if lb.rank == 0 else ():
            lb.add(key, (lambda: None) if key else [key])
        list(lb.iterate(3))
        return sum(r.migrations for r in lb.history)

    assert pylb.VirtualCluster(2).run(program) == [1, 1]
    assert "object 1 (function) cannot be pickled" in caplog.text
    with pytest.raises(StateError, match="in shadow mode: expected iterate"):
        pylb.AsyncBalancer(mode="shadow", lag=1).begin(3)
    with pytest.raises(DomainError, match="mode is 'on '"):
        pylb.Balancer(mode="on ")


def test_receipts_are_equal_to_the_bit():
    one, other = (pylb.decide.Receipt(3, "hold", "why", "auto", max=0.1) for _ in range(2))
    assert one == other  # so that unknown figures (nan) compare as equal
    assert pylb.decide.History([one]) == pylb.decide.History([other])
    assert one != pylb.decide.Receipt(3, "hold", "why", "auto", max=np.nextafter(0.1, 1.0))
    assert one != "a receipt"


def test_a_program_that_redistributes_in_its_own_way_is_explained():
    def program(comm):
        lb, since = pylb.Advisor(comm, every=10), 0
        for _ in lb.iterate(30):
            if lb.advise(seconds=1e-3 * (1.0 + 0.1 * since * (lb.rank == 0))):
                lb.rebalanced(2e-3)
                since = 0
            since += 1
        return lb.history[0].explain()

    said = pylb.VirtualCluster(2, clock="none").run(program)[0]
    assert "the program's data were rebalanced" in said
    assert "A redistribution was expected to save" in said
    assert "memory limit" not in said
    assert "in the 10 iterations after it" in said
    assert "in its own way: max/mean was 1.31 before, and 1.05 in the first" in said
    assert "left every object where it was" not in said


def test_rows_are_explained_without_what_nobody_knows():
    def program(comm):
        part = pylb.RowPartition(comm, 40, "cpm", trigger=lambda cycle: cycle.n >= 2)
        for k in range(6):
            with part.timed():
                comm.elapse(0.01 * (1 + (comm.rank + k // 2) % 2) * int(part.counts[comm.rank]))
            part.redistribute()
        return part.decisions.lb_steps

    done = pylb.VirtualCluster(2, clock="none").run(program)[0]
    assert len(done) > 1
    for r in done:
        assert np.isnan([r.memory_full, r.heaviest, r.loss_0]).all()
        assert "memory limit" not in r.explain()
        assert "0 iterations" not in r.explain()


def test_the_object_that_limits_the_balance_is_named():
    def program(comm):
        lb = pylb.Balancer(comm, strategy="BestFitLB", every=5)
        for key in range(10, 18):
            if (key - 10) * comm.size // 8 == comm.rank:
                lb.add(key, None)
        for _ in lb.iterate(10):
            for key, _ in lb.local():
                comm.elapse(0.05 if key == 12 else 0.01)
        return lb.history

    first = pylb.VirtualCluster(4, clock="none").run(program)[0].lb_steps[0]
    assert first.heaviest_key == 12
    assert first.heaviest == pytest.approx(0.05 / 0.03) == pytest.approx(first.predicted)
    assert first.next_heaviest == pytest.approx(0.01 / 0.03)
    assert "Object 12 alone takes 1.67 times the mean" in first.explain()
    said = "Divided into 2 parts, it would allow a max/mean of 1: 20 ms less per iteration."
    assert said in first.explain()
