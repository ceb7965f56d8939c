"""The ledger of LB steps, csrc/decide/decider.h, in plain Python."""

import math


class Ledger:
    """The rules of csrc/decide/decider.h for n strategies."""

    def __init__(self, n, tries, fade, pause, share, rise):
        self.costs = {i: [] for i in range(n)}
        self.warm_ups = {i: [] for i in range(n)}
        self.tries, self.fade, self.least, self.share, self.rise = tries, fade, pause, share, rise
        self.books = []  # (cost, gain) of each judged LB step since LB steps were last switched on
        self.last = None
        self.off = False
        self.trial = False
        self.until = self.pause = 0
        self.paid = self.gained = 0.0  # seconds that the LB steps in `books` cost and saved
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
            warm = max(times[0] + times[1] + times[2] - 3 * max(times[3:]), 0.0)
            self.last["warm_up"] = warm
            if self.last["open"]:
                self.last["cost"] += warm
            known = self.warm_ups[self.last["strategy"]]
            # after too few iterations, the warm-up of the earlier LB step counts as 0
            known += [0.0] * (len(self.costs[self.last["strategy"]]) > 1 and not known) + [warm]

    def balanced(self, iteration, strategy, *costs):
        statistics, place, move, whole = (c if c > 0 else 0.0 for c in costs)
        cost = max(statistics + place + move, whole) or self.mean
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
        self.paid = self.gained = 0.0
        for c, g in self.books:
            self.paid, self.gained = self.fade * self.paid + c, self.fade * self.gained + g
        if len(self.books) >= self.tries and self.gained < self.paid:
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
