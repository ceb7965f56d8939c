"""With strategy "auto", a distributed strategy is used if rank 0 would take too long."""

import math

import numpy as np
import pytest

import pylb
from pylb import _core
from pylb.decide.decider import settings

FAST, SLOW = (1e-6, 1e-10), (1e-6, 1e-5)  # seconds per message and per byte


def decider(n_ranks=1000, network=FAST, **given):
    """Return a decider that has seen ten iterations of mean 0.1 s, in which rank 0 takes 0.2 s."""
    out = settings("auto", unlike=False, distributed=True, **given).decider(n_ranks, network)
    for i in range(10):
        out.core.observe(i, 0.2, 0.2, 0.1, 0.05, 0.1 * n_ranks, 0.25, 0, 0)
    return out


def chosen(n_objects, **given):
    return decider(**given).choose(-1, n_objects).name


def expected(n, network, messages=0):
    """Return the seconds on rank 0, and in rounds, as csrc/decide/central.h has them; p is 1000."""
    alpha, beta = network
    root = n * (2e-7 + 64 * beta) + 40 * messages * beta
    rounds = 10 * (80 * (alpha + _core.STATS_BYTES * beta) + 50 * (alpha + 40 * beta)) + 40 * 1e-4
    return root, rounds


@pytest.mark.parametrize("network", [FAST, SLOW])
def test_the_choice_flips_where_the_time_saved_is_more_than_the_loss(network):
    loss = 0.01 * 0.1 * 100  # 1 % of 0.1 s in each of 100 iterations (the period is unknown)
    sizes = range(100, 2_000_000, 100)
    flips = next(n for n in sizes if np.subtract(*expected(n, network)) > loss)
    assert chosen(flips - 100, network=network) == "GreedyLB"
    assert chosen(flips, network=network) == "GossipLB"


def done(d, iteration, n, seconds, left):
    """Make an LB step that takes `seconds` without migrations, then ten iterations."""
    name = d.choose(-1, n).name
    figures = dict.fromkeys(_core.FIGURES, 1.0) | {
        "before": 2.0,
        "predicted": left,
        "passed_over": math.nan,
        "ahead": 0.0,
        "tolerance": 0.0,
        "seconds_statistics": 0.0,
        "seconds_strategy": seconds,
    }
    d.core.placed(np.array(list(figures.values())), None)
    d.core.balanced(1, 1, 0.0, seconds, True)
    for i in range(iteration, iteration + 10):
        d.core.observe(i, 0.2, 0.2, 0.1, 0.05, 100.0, 0.25, 0, 0)
    return name


def test_the_reason_has_both_figures():
    n, d = 10**6, decider()
    assert done(d, 10, n, 0.005, 1.01) == "GossipLB"
    root, rounds = (f"{1e3 * x:.3g} ms" for x in expected(n, FAST))
    said = f"; GossipLB instead of GreedyLB: {rounds} in rounds on all ranks, instead of {root} on"
    assert d.history.balancings[-1].why.endswith(f"{said} rank 0")


def test_what_lb_steps_have_cost_counts():
    """An LB step on rank 0 is expected to take 40 ms; one that took 500 ms changes the choice."""
    n, slow, fast = 200_000, decider(), decider()
    assert [done(slow, 10, n, 0.5, 1.0), slow.choose(-1, n).name] == ["GreedyLB", "GossipLB"]
    assert [done(fast, 10, n, 0.01, 1.0), fast.choose(-1, n).name] == ["GreedyLB", "BestFitLB"]


def test_a_poor_balance_outweighs_the_time_on_rank_0():
    n, d = 10**6, decider()
    # GossipLB leaves max/mean 1.5, which costs 0.5 * 0.1 s in each of ten iterations.
    assert done(d, 10, n, 0.005, 1.5) == "GossipLB"
    assert done(d, 20, n, 0.3, 1.0) == "GreedyLB"
    assert "not GossipLB, which would take 5 ms in rounds" in d.history.balancings[-1].why
    assert "but lose 500 ms by imbalance" in d.history.balancings[-1].why


def test_a_small_program_is_never_distributed_however_slow_the_machine():
    d = decider(n_ranks=4)
    for k in range(5):
        name = done(d, 10 + 10 * k, 10_000, 5.0, 1.0)
        assert not pylb.strategies()[name].distributed


def test_one_rank_has_nothing_to_distribute():
    assert chosen(10**9, n_ranks=1) == "GreedyLB"


def test_unknown_number_of_objects_is_central():
    assert chosen(0) == "GreedyLB"


def test_without_memory_on_rank_0_it_is_distributed_at_any_size():
    d = decider()
    d.core.limit(256 * 1000 - 1)
    assert d.choose(-1, 1000).name == "GossipLB"
    d = decider()
    d.core.limit(256 * 1000)
    assert d.choose(-1, 1000).name == "GreedyLB"
