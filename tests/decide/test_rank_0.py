"""With strategy "auto", a distributed strategy is used if there is too much for rank 0."""

import math

import numpy as np
from each_case import in_blocks

import pylb
from pylb import _core
from pylb.decide.decider import settings

NETWORK = (1e-6, 1e-10)  # seconds per message and per byte


def decider(n_ranks=1000, messages=0, **given):
    """Return a decider that has seen ten iterations of mean 0.1 s, in which rank 0 takes 0.2 s."""
    out = settings("auto", learn_speeds=False, distributed=True, **given).decider(n_ranks, NETWORK)
    for i in range(10):
        out.core.observe(i, 0.2, 0.2, 0.1, 0.05, 0.1 * n_ranks, 0.25, messages, 0)
    return out


def chosen(n_objects, limit=None, messages=0, **given):
    d = decider(messages=messages, **given)
    if limit is not None:
        d.core.limit(limit)
    return d.choose(-1, n_objects).name


def test_the_choice_flips_beyond_a_million_objects():
    assert chosen(10**6) == "GreedyLB"
    assert chosen(10**6 + 1) == "GossipLB"


def test_the_choice_flips_beyond_the_bytes_of_a_million_objects():
    messages = 256 * (10**6 - 1000) // 40
    assert not pylb.strategies()[chosen(1000, messages=messages)].distributed
    assert pylb.strategies()[chosen(1000, messages=messages + 1)].distributed


def test_a_smaller_memory_limit_of_rank_0_counts_instead():
    assert chosen(1000, limit=256 * 1000) == "GreedyLB"
    assert chosen(1000, limit=256 * 1000 - 1) == "GossipLB"
    assert chosen(10**6, limit=10**12) == "GreedyLB"
    assert chosen(10**6 + 1, limit=10**12) == "GossipLB"


def test_the_receipt_has_the_reason():
    d = decider()
    d.choose(-1, 2 * 10**6)
    unknown = dict.fromkeys(("passed_over", "placed_by", "by_sum"), math.nan)
    figures = dict.fromkeys(_core.FIGURES, 1.0) | unknown | {"ahead": 0.0, "tolerance": 0.0}
    d.core.placed(np.array(list(figures.values())), None)
    d.core.balanced(1, 1, 0.0, 0.1, True)
    assert d.history.lb_steps[-1].why.endswith(
        "; GossipLB instead of GreedyLB: the load database of 2000000 objects and 512 MB is too "
        "large for rank 0"
    )


def test_one_rank_has_nothing_to_distribute():
    assert chosen(10**9, n_ranks=1) == "GreedyLB"


def test_unknown_number_of_objects_is_central():
    assert chosen(0) == "GreedyLB"


# ---- strategy "auto" on virtual ranks is distributed if there is too much for rank 0 -----------


P = 16


def run(per_rank, path=None, **given):
    """Return the history of a program in which two ranks need four times as long as the others."""

    def main(comm):
        lb = pylb.Balancer(comm, every=10, **given)
        in_blocks(lb, per_rank * comm.size, lambda key: key)
        for _ in lb.iterate(40):
            for key, _ in lb.local():
                comm.elapse((4e-3 if key < 2 * per_rank else 1e-3) / per_rank)
        if path is not None:
            lb.save(path)
        return lb.history

    return pylb.VirtualCluster(P, clock="none", network=(1e-6, 1e-9)).run(main)[0]


def used(history):
    return [receipt.strategy for receipt in history.lb_steps]


def test_the_memory_of_rank_0_decides_and_the_receipt_says_so(tmp_path):
    """The replay chooses the same."""
    database = 256 * 20 * P
    for limit, expected in ((database, "BestFitLB"), (database - 1, "GossipLB")):
        path = tmp_path / f"{expected}.h5"
        history = run(20, path, memory_limit=[limit] + [database] * (P - 1))
        assert used(history)[0] == expected
        said = "GossipLB instead of GreedyLB: the load database" in history.lb_steps[0].why
        assert said == (expected == "GossipLB")
        assert pylb.Trace.load(path).replay(every=10).decisions == history


def test_a_strategy_that_is_given_is_kept():
    assert set(used(run(20, strategy="BestFitLB", memory_limit=256))) == {"BestFitLB"}
