"""The advisor's estimate of what an LB step has saved."""

import math

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

from pylb import _core
from pylb.comm.agreement import Contribution, Step
from pylb.decide.decider import BALANCE, settings
from pylb.run.modes import OWN


def gain(before, since):
    """Compute an LB step's gain from all iterations of the cycles before and after it."""
    k = min(max(len(before) // 4, 1), 4)
    usual = sum(most for most, _ in before[-k:]) / sum(mean for _, mean in before[-k:])
    saved = sum(max(usual, 1.0) * mean - most for most, mean in since)
    left = sum(most for most, _ in since[:2]) / sum(mean for _, mean in since[:2])
    grown = sum(most - left * mean for most, mean in since[2:])
    return saved + 0.75 * max(grown, 0.0)


def record(iteration, loads, rebalanced):
    """Return the merged record of a step."""
    samples = [
        Contribution(
            Step.ADVISE, iteration, 0, loads=np.array([x]), cost=0.5, n_rebalanced=rebalanced
        )
        for x in loads
    ]
    return _core.stats(samples)


@examples(30)
@given(seed=st.integers(0, 10**6), every=st.integers(1, 30), ranks=st.integers(1, 5))
def test_the_gain_agrees_with_the_twin(seed, every, ranks):
    rng = np.random.default_rng(seed)
    decider = settings(OWN, every=every).decider(ranks)
    core = _core.Advisor(decider.core, False)
    cycles, due = [[]], False
    for i in range(60):
        loads = rng.lognormal(0, 0.3, ranks)
        if due:
            cycles.append([])
        due = core.observe(record(i, loads, due), i, False, 0.0) == BALANCE
        cycles[-1].append((loads.max(), math.fsum(loads) / ranks))
        if len(cycles) > 1:
            core.judge()
            expected = gain(cycles[-2], cycles[-1])
            assert decider.history.lb_steps[-1].gain == pytest.approx(expected, abs=1e-9)
    assert len(decider.history.lb_steps) == len(cycles) - 1 == (60 - 1) // every
