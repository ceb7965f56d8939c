"""The ledger against a plain twin; tests/c/test_ledger.c has cases worked by hand."""

import math

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

from pylb import _core
from pylb.errors import DomainError, StateError

DEFAULTS = {row[0]: row[1] for row in _core.ledger()}


class Twin:
    """The rules of csrc/decide/ledger.h in plain Python."""

    def __init__(self, n, tries, fade, pause, share, rise):
        self.costs = {i: [] for i in range(n)}
        self.warm_ups = {i: [] for i in range(n)}
        self.tries, self.fade, self.least, self.share, self.rise = tries, fade, pause, share, rise
        self.books = []  # (cost, gain) of each judged LB step since LB steps were last switched on
        self.last = None
        self.off = False
        self.trial = False
        self.until = self.pause = 0
        self.beaten = 0.0
        self.excesses = []
        self.mean = 0.0

    @staticmethod
    def halfway(values):
        out = values[0]
        for v in values[1:]:
            out = (out + v) / 2
        return out

    def theta(self, i):
        if not self.costs[i]:
            return math.nan
        warm = self.warm_ups[i]
        return self.halfway(self.costs[i]) + (self.halfway(warm) if warm else 0.0)

    def observe(self, time, most, mean):
        self.mean = mean
        self.excesses.append(max(most - mean, 0.0))
        if self.last is None:
            return
        times = self.last["times"]
        times.append(time)
        if len(times) == 6:
            warm = max(sum(times[:3]) - 3 * max(times[3:]), 0.0)
            if self.last["open"]:
                self.last["cost"] += warm
            known = self.warm_ups[self.last["strategy"]]
            # after too few iterations, the warm-up of the earlier LB step counts as 0
            known += [0.0] * (len(self.costs[self.last["strategy"]]) > 1 and not known) + [warm]

    def balanced(self, iteration, strategy, *costs):
        parts = sum(c for c in costs[:3] if c > 0)
        cost = max(parts, costs[3] if costs[3] > 0 else 0.0) or self.mean
        self.costs[strategy].append(cost)
        found = self.excesses[-1] if self.excesses else 0.0
        self.last = {"cost": cost, "strategy": strategy, "times": [], "found": found, "open": True}
        self.trial = self.off
        if self.trial:
            self.until = iteration + self.pause

    def judges(self, iteration, asked):
        if self.last is None or not self.last["open"]:
            return False
        return iteration >= self.until if self.trial else asked

    def judge(self, iteration, gain):
        self.last["open"] = False
        pays = gain >= self.last["cost"]
        if self.trial and pays:
            self.off, self.books, self.beaten = False, [], 0.0
        if not pays:
            self.beaten = max(self.beaten, self.last["found"])
        if self.trial and not pays:
            return self.switch_off(iteration, 2 * self.pause)
        self.trial = False
        self.books.append((self.last["cost"], gain))
        paid = gained = 0.0
        for c, g in self.books:
            paid, gained = self.fade * paid + c, self.fade * gained + g
        if len(self.books) >= self.tries and gained < paid:
            second = self.share * self.mean
            pause = max(self.least, self.last["cost"] / second if second > 0 else 0)
            self.switch_off(iteration, min(math.ceil(pause), 10**15))
        return None

    def switch_off(self, iteration, pause):
        self.off, self.trial = True, False
        self.pause, self.until = pause, iteration + pause
        self.beaten = max(self.beaten, self.last["found"])
        self.excesses = [0.0]

    def allows(self, iteration):
        if not self.off:
            return True
        if self.trial and self.last["open"]:
            return False
        high = [e > self.rise * self.beaten for e in self.excesses[-3:]]
        return iteration >= self.until or (len(high) == 3 and all(high))


@examples(40)
@given(st.integers(0, 2**32 - 1))
def test_twin(seed):
    rng = np.random.default_rng(seed)
    params = {**DEFAULTS, "pause": int(rng.integers(1, 12)), "share": rng.choice([0.01, 0.5])}
    ledger, twin = _core.Ledger(2, list(params.values())), Twin(2, **params)
    worth = rng.choice([0.5, 1.0, 2.0])
    seen = set()
    for i in range(200):
        figures = rng.choice([1.0, 1.5, 4.0], 3).tolist()
        ledger.observe(*figures)
        twin.observe(*figures)
        asked = bool(rng.random() < 0.5)
        assert ledger.judges(i, asked) == twin.judges(i, asked)
        if twin.judges(i, asked):
            gain = worth * rng.choice([0.0, 1.0, 2.0])
            ledger.judge(i, gain)
            twin.judge(i, gain)
        assert ledger.allows(i) == twin.allows(i)
        if asked and twin.allows(i):
            costs = rng.choice([0.0, 0.25, 1.0, math.nan], 4).tolist()
            which = int(rng.integers(2))
            ledger.balanced(i, which, *costs)
            twin.balanced(i, which, *costs)
        state = ledger.state()
        assert (state["off"], state["trial"]) == (twin.off, twin.trial)
        assert not twin.off or state["until"] == twin.until
        thetas = [ledger.theta(0), ledger.theta(1)]
        np.testing.assert_allclose(thetas, [twin.theta(0), twin.theta(1)])
        seen.add((twin.off, twin.trial))
    assert len(seen) >= 1


def test_errors_name_the_value():
    ledger = _core.Ledger(1, list(DEFAULTS.values()))
    with pytest.raises(StateError, match="no LB step is to be judged"):
        ledger.judge(0, 1.0)
    with pytest.raises(DomainError, match="time is nan"):
        ledger.observe(math.nan, 1.0, 1.0)
    with pytest.raises(DomainError, match="fade is 2: expected 0"):
        _core.Ledger(1, list({**DEFAULTS, "fade": 2}.values()))
    with pytest.raises(ValueError, match="5 parameters"):
        _core.Ledger(1, [1.0])
