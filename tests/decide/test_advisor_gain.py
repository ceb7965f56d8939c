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


def age_bin(age):
    return age - 1 if age <= 8 else 8 + math.floor(4 * math.log2(age / 8))


class Twin:
    """The gain of the last LB step, from max/mean by age of a placement."""

    def __init__(self):
        self.sums, self.oldest, self.last, self.since = {}, 0, None, []

    def ratio(self, age):
        most, mean = self.sums[age_bin(age)]
        return max(most / mean, 1.0)

    def at(self, age):
        if age <= self.oldest or self.oldest == 1:
            return self.ratio(min(age, self.oldest))
        slope = (self.ratio(self.oldest) - self.ratio(1)) / (self.oldest - 1)
        return self.ratio(self.oldest) + 0.75 * slope * (age - self.oldest)

    def lb_step(self):
        k = min(max(len(self.since) // 4, 1), 4)
        usual = sum(most for most, _ in self.since[-k:]) / sum(m for _, m in self.since[-k:])
        self.last, self.since, self.gain = (max(usual, 1.0), len(self.since)), [], 0.0
        for k in self.sums:
            if k <= age_bin(self.last[1]):
                self.sums[k] = 0.8 * self.sums[k]

    def observe(self, most, mean):
        self.since.append((most, mean))
        if self.last:
            n, (usual, age) = len(self.since), self.last
            now = np.array([most, mean])
            self.sums[age_bin(n)] = self.sums.get(age_bin(n), 0.0) + now
            self.oldest = max(self.oldest, n)
            grown = self.at(age + n) - min(self.at(age), usual)
            self.gain += (usual + max(grown, 0.0)) * mean - most


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
    twin, due, n = Twin(), False, 0
    for i in range(60):
        loads = rng.lognormal(0, 0.3, ranks)
        if due:
            twin.lb_step()
            n += 1
        due = core.observe(record(i, loads, due), i, False, 0.0) == BALANCE
        twin.observe(loads.max(), math.fsum(loads) / ranks)
        if n:
            core.judge()
            assert decider.history.lb_steps[-1].gain == pytest.approx(twin.gain, abs=1e-9)
    assert len(decider.history.lb_steps) == n == (60 - 1) // every
