"""The ledger in the decider, against a plain twin; tests/c/test_ledger.c has cases by hand."""

import math

import numpy as np
from chance import examples
from hypothesis import given
from hypothesis import strategies as st
from twin_decider import BALANCE, JUDGE
from twin_ledger import Ledger

import pylb
from pylb import _core

DEFAULTS = {row[0]: row[1] for row in _core.ledger()}


def decider(params):
    """Return a decider with one strategy, whose trigger is silent, and which can give up."""
    return _core.Decider(
        n_ranks=2,
        candidates=(("GreedyLB", "GreedyLB", False, 1, []),),
        trigger=pylb.trigger("periodic", every=10**9),
        selects=False,
        selection=[p.default for p in pylb.decide.selection.PARAMS],
        ledger=list(params.values()),
        gives_up=True,
        learns=False,
        watches=False,
        network=(0.0, 0.0),
        seed=0,
        keep=0,
    )


def balance(core, twin, i, costs):
    """Make an LB step with these costs: statistics, strategy, migration, whole."""
    core.choose()
    figures, speed, rank = np.zeros(_core.PLACING), np.zeros(2), np.zeros(1, np.int32)
    core.place(pylb.Snapshot([1.0], [0], n_ranks=2, key=[1]), None, None, figures, speed, rank)
    figures[-2:] = costs[:2]  # the seconds of statistics and strategy
    core.placed(figures, speed)
    expected = twin.theta(0)
    core.balanced(0, 0, *costs[2:], True)
    twin.balanced(i, 0, *costs)
    receipt = core.receipts()[-1]
    assert receipt["cost"] == twin.last["cost"]
    np.testing.assert_equal(receipt["alternatives"][0][1], expected)


@examples(40)
@given(st.integers(0, 2**32 - 1))
def test_twin(seed):
    rng = np.random.default_rng(seed)
    params = {**DEFAULTS, "pause": int(rng.integers(1, 12)), "share": rng.choice([0.01, 0.5])}
    core, twin = decider(params), Ledger(1, **params)
    worth = rng.choice([0.5, 1.0, 2.0])
    seen = set()
    for i in range(200):
        mean, most, time = np.sort(rng.choice([1.0, 1.5, 1.9, 4.0], 3)).tolist()
        core.observe(i, time, most, mean, mean, 2 * mean, 0.5, 0, 0)
        twin.observe(time, most, mean)
        asked = bool(rng.random() < 0.5)
        ask = core.next(asked, False)
        assert (ask == JUDGE) == twin.judges(i, asked)
        if ask == JUDGE:
            gain = worth * rng.choice([0.0, 1.0, 2.0])
            core.judge(gain)
            twin.judge(i, gain)
            assert not twin.judges(i, asked)
            ask = core.next(asked, False)
        assert (ask == BALANCE) == (asked and twin.allows(i))
        assert ask != JUDGE
        if ask == BALANCE:
            costs = rng.choice([0.0, 0.25, 1.0, math.nan], 3).tolist()
            balance(core, twin, i, [*costs, float(rng.choice([0.0, 0.25, 1.0]))])
        assert core.ledger == (twin.off, twin.paid, twin.gained, twin.until)
        seen.add((twin.off, twin.trial))
    assert len(seen) >= 1
