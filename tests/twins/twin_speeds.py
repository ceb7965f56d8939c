"""The learner of speeds (csrc/measure/learner.c), in plain Python."""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.model.snapshot import F64, I32, I64

PLACEMENTS = 8  # number of placements that are remembered
AGEING = 0.7  # weight of a placement, divided by the weight of the next one
PRIOR = 0.25  # weight of the user's own work estimate, in observations
# A rank with at least LEAST objects is treated as a new one if the median change of its objects is
# CHANGED or more, and at least ERRORS times its own error, and if all objects changed alike: the
# outer deciles differ by at most ALIKE times the change, plus the usual difference on all ranks.
CHANGED, ALIKE, LEAST = math.log(1.1), 0.5, 4
NOISE = 1.5 * 2.56 * math.sqrt(2.0)  # usual difference of the outer deciles, in sigma
# Ranks count as different if the speeds explain the fraction EXPLAINED of the changes of objects
# that moved (STILL, once speeds are in use), one speed differs by more than UNLIKE, and the sum of
# squares of all, in units of their errors, exceeds its expectation by ERRORS standard deviations.
EXPLAINED, STILL, ERRORS, UNLIKE = 0.25, 0.05, 4.0, 0.05
# Speeds are used if the gain of their predictions is PROVEN, or if they explain the fraction CLEAR
# of all changes in the last interval. Half of each also suffices.
PROVEN, CLEAR = 8.5, 0.75
FEW_OBJECTS = 4.0  # changes of this number of objects, or of fewer, explain nothing
MOST = 3.0  # largest gain, and largest loss, of one observation and of one interval
FREEDOM = 3.0  # degrees of freedom of Student's t
FLOOR = 0.02  # smallest noise; changes below it give no gain
ENOUGH_MOVED = 4.0  # the mean over more objects counts as exactly as the mean over this number
PRIOR_RANK = 4.0  # objects with the mean spread, added to the control group of each rank
INTERVALS = 7  # number of intervals that are remembered
WARY = 1.5  # factor for the observed unsteadiness of ranks, since observations are few
DOUBTS = 2  # after this many fits in a row without a difference, the ranks count as equal again
ENOUGH = 250  # objects per rank; of more than twice as many, only a sample is used
FEW = 50  # if fewer than one in FEW objects moved, nothing is learned
BETTER = 0.05  # changing work must explain this much more of the variance than constant work


class Observation(NamedTuple):
    """The objects under one placement; `who` is the rank at that time."""

    key: I64
    who: I32
    seconds: F64
    usual: float = 0.0  # change of the whole program since the previous placement

    def weight(self) -> F64:
        """Return the weight of each object: the clock and quotas make short objects noisier."""
        mean = self.seconds.sum() / max(len(self.seconds), 1)
        return np.asarray(np.sqrt(self.seconds / max(mean, np.finfo(float).tiny)))


def _same_places(a: Observation, b: Observation) -> bool:
    return np.array_equal(a.key, b.key) and np.array_equal(a.who, b.who)


def _is_sampled(key: I64, n_ranks: int) -> Any:
    """Say which objects are in the sample, which is all unless there are very many objects."""
    parts = 1
    while len(key) > 2 * ENOUGH * n_ranks * parts:
        parts *= 2
    mixed = key.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing
    return (mixed >> np.uint64(32)) % np.uint64(parts) == 0


class Fit(NamedTuple):
    """Logarithms of the speeds, their errors, and how good they are."""

    log: F64
    error: F64
    sigma: float
    explained: float
    moved: int


class SpeedLearner:
    """The twin of `pylb.measure.learner.SpeedLearner`, without checks of its input."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.speed: F64 | None = None
        self.error: F64 = np.full(n_ranks, np.inf)
        self.sigma, self.explained = 0.0, 0.0
        # Number of each rank; a rank that has changed gets a new number.
        self._who: I32 = np.arange(n_ranks, dtype=np.int32)
        # Number of ranks, where a rank that has changed counts as new; plus one for the user.
        self._count = n_ranks + 1
        self._seen: list[Observation] = []
        self._shifts: deque[float] = deque(maxlen=PLACEMENTS * n_ranks)
        self._doubts = 0
        self.has_changed = False  # whether a rank has changed since the previous placement
        self._guess: F64 = np.zeros(n_ranks)
        self._gains: deque[F64] = deque(maxlen=INTERVALS)

    @property
    def evidence(self) -> float:
        """Return the gain of the speeds' predictions over the best simple guess."""
        return float(np.min(np.sum(self._gains, axis=0))) if self._gains else 0.0

    def observe(
        self, key: ArrayLike, rank: ArrayLike, seconds: ArrayLike, work: ArrayLike | None = None
    ) -> F64 | None:
        """Observe the objects' times under another placement; update `speed`."""
        keys, times = np.asarray(key, np.int64), np.asarray(seconds, float)
        ranks = np.asarray(rank, np.int32)
        order = np.argsort(keys)
        order = order[times[order] > 0]
        order = order[_is_sampled(keys[order], self.n_ranks)]
        usual = self._compare(keys[order], ranks[order], times[order])
        now = Observation(keys[order], self._who[ranks[order]], times[order], usual)
        if self._seen and _same_places(self._seen[-1], now):
            # this shows nothing new about the speeds, so the older placements stay
            now = now._replace(usual=usual + self._seen.pop().usual)
        self._seen = [*self._seen[1 - PLACEMENTS :], now]
        estimates = None
        if work is not None:
            size = np.asarray(work, float)[order]
            known = size > 0
            user = np.full(int(known.sum()), self.n_ranks, np.int32)
            estimates = Observation(now.key[known], user, size[known])
        self._fit(estimates)
        return self.speed

    def _compare(self, keys: I64, ranks: I32, times: F64) -> float:
        """Find the ranks that have changed, and test the predictions for objects that moved.

        Returns by how much the program as a whole has changed.
        """
        if not self._seen:
            return 0.0
        last = self._seen[-1]
        _, old, new = np.intersect1d(last.key, keys, assume_unique=True, return_indices=True)
        was = np.searchsorted(self._who, last.who[old], sorter=np.argsort(self._who))
        a, b = np.argsort(self._who)[was], ranks[new]
        change = np.log(times[new] / last.seconds[old])
        known = np.isfinite(self.error)
        tells = (a == b) | (known[a] & known[b] & (self.speed is not None))
        shift = np.where(tells, change - (self._guess[a] - self._guess[b]), np.nan)
        by_rank = {r: shift[(b == r) & tells] for r in np.unique(b[tells]).tolist()}
        low, middle, high = (
            np.array([np.sort(x)[int(np.rint(part * (len(x) - 1)))] for x in by_rank.values()])
            for part in (0.1, 0.5, 0.9)
        )
        every = float(np.median(middle)) if len(by_rank) > 2 else 0.0
        noise = min(float(np.median(high - low)) if by_rank else 0.0, NOISE * self.sigma)
        control = np.full(self.n_ranks, every)
        before = self._count
        for i, (r, x) in enumerate(by_rank.items()):
            by, width = abs(middle[i] - every), high[i] - low[i]
            self._shifts.append(by)
            sure = by > max(CHANGED, ERRORS * 0.5 * width / math.sqrt(len(x)))
            if width < ALIKE * by + noise and sure and len(x) >= LEAST:
                control[r] = middle[i] if self.speed is not None else every
                self._who[r] = self._count
                self._count += 1
        if not np.array_equal(last.key, keys) or np.any(a != b):
            self._test(old, last, a, b, change - control[b], every)
        self.has_changed = self._count > before
        if self.has_changed and self.evidence < 0.0:
            self._gains.clear()
        return every

    def _history(self, then: Observation, keys: I64, y: F64) -> F64:
        """Return the changes of log times since placement `then`; 0: the object is not in it."""
        if not len(then.key):
            return np.zeros(len(keys))
        at = np.minimum(np.searchsorted(then.key, keys), len(then.key) - 1)
        return np.where(then.key[at] == keys, y - np.log(then.seconds[at]), 0.0)

    def _test(self, old: I64, last: Observation, a: I64, b: I32, change: F64, every: float) -> None:
        """Test whether the earlier speeds predict the new placement."""
        p, stayed = self.n_ranks, a == b
        square = np.bincount(b[stayed], change[stayed] ** 2, p)
        count = np.bincount(b[stayed], minlength=p)
        spread = (square + PRIOR_RANK * square.sum() / max(count.sum(), 1)) / (count + PRIOR_RANK)
        moved = ~stayed & np.isfinite(self.error)[a] & np.isfinite(self.error)[b]
        if not moved.any():
            return
        a, b, d = a[moved], b[moved], change[moved]
        again = trend = np.zeros(len(d))
        if len(self._seen) > 1:
            keys, y = last.key[old][moved], np.log(last.seconds[old][moved])
            again = self._history(self._seen[-2], keys, y)
            trend = self._history(self._seen[0], keys, y) / (len(self._seen) - 1)
        told = d - (self._guess[a] - self._guess[b])
        gains = []
        for side in (a, b):
            n = np.bincount(side, minlength=p)
            some = n > 0
            n = n[some]

            def mean(x: F64, side: Any = side, some: Any = some, n: Any = n) -> F64:
                return np.asarray(np.bincount(side, x, p)[some] / n)

            square, middle = mean(told**2), mean(told) ** 2
            noise = np.maximum(mean(np.maximum(spread[a], spread[b])), square - middle)
            noise = FREEDOM * (noise / np.minimum(n, ENOUGH_MOVED) + FLOOR**2)

            def by_object(x: F64, square: F64 = square, middle: F64 = middle) -> F64:
                return np.maximum(middle + mean(x**2) - square, 0.0)

            off = [
                np.minimum(mean(d) ** 2, by_object(d)),
                np.minimum(mean(d + every) ** 2, by_object(d + every)),
                mean(d + every - again) ** 2,
                by_object(d + every + again),
                mean(d + every - trend) ** 2,
            ]
            gain = [0.5 * FREEDOM * np.log((noise + x) / (noise + middle)) for x in off]
            gains.append([np.clip(g, -MOST, MOST).sum() for g in gain])
        self._gains.append(np.clip(np.min(gains, axis=0), -MOST, MOST))

    def _explained(self) -> float:
        """Return the fraction of all changes in the last interval that the guess explains."""
        if len(self._seen) < 2:
            return 0.0
        last, now = self._seen[-2:]
        _, old, new = np.intersect1d(last.key, now.key, assume_unique=True, return_indices=True)
        number = {who: r for r, who in enumerate(self._who.tolist())}
        a, b = (
            np.array([number.get(w, -1) for w in who.tolist()], int)
            for who in (last.who[old], now.who[new])
        )
        change = np.log(now.seconds[new] / last.seconds[old]) - now.usual
        moved = (a != b) & (a >= 0) & (b >= 0)  # without ranks that have changed
        left = change - (self._guess[a] - self._guess[b])
        linked = np.bincount(np.append(a[moved], b[moved]), minlength=self.n_ranks)
        owed = 1.0 / np.maximum(linked[a], 1) + 1.0 / np.maximum(linked[b], 1)
        left = np.where(owed < 1.0, left / np.where(owed < 1.0, 1.0 - owed, 1.0), change)
        left = np.where(moved, left, change)
        was, squares = float(np.sum(change[moved] ** 2)), float(np.sum(change[moved] ** 4))
        if not was * was > FEW_OBJECTS * squares:
            return 0.0
        return max(0.0, 1.0 - float(np.sum(left**2)) / was)

    def _is_proven(self, has_estimates: bool) -> bool:
        if self.speed is not None or has_estimates:
            return self.evidence >= 0.0
        return self.evidence / PROVEN + self._explained() / CLEAR > 1.0

    def _fit(self, estimates: Observation | None) -> None:
        """Fit two models, and keep the better one: work is constant, or it changes from each
        placement to the next, so that only successive placements are compared.
        """
        steady = self._solve([self._seen], estimates)
        pairs = [list(pair) for pair in itertools.pairwise(self._seen)]
        fit = steady
        if len(pairs) > 1:
            drifting = self._solve(pairs, None)
            fit = drifting if drifting.explained > steady.explained + BETTER else steady
        if fit.moved * FEW < len(self._seen[-1].key):
            return  # hardly any object moved recently: keep what was known
        self.error = np.hypot(fit.error, self._unrest())
        self.sigma, self.explained, self._guess = fit.sigma, fit.explained, fit.log
        known = np.isfinite(self.error)
        off = np.abs(fit.log[known])
        free = max(np.count_nonzero(known) - 1, 1)
        chance = free + ERRORS * math.sqrt(2.0 * free)
        enough = EXPLAINED if self.speed is None else STILL
        unlike = (
            self.explained > enough
            and bool(off.max(initial=0.0) > UNLIKE)
            and float(np.sum((off / self.error[known]) ** 2)) > chance
            and self._is_proven(estimates is not None and len(estimates.key) > 0)
        )
        self._doubts = 0 if unlike else self._doubts + 1
        if unlike:
            self.speed = np.exp(fit.log)
        elif self._doubts >= DOUBTS:
            self.speed = None

    def _unrest(self) -> F64:
        """Return the part of each speed's error that comes from other programs and drifting
        objects: the median change of a rank from one placement to the next, divided by the square
        root of the number of placements with the rank.
        """
        if not self._shifts:
            return np.zeros(self.n_ranks)
        deviation = WARY * 1.4826 * float(np.median(self._shifts)) / math.sqrt(2.0)
        seen = sum(np.bincount(o.who, minlength=self._count)[self._who] > 0 for o in self._seen)
        return np.asarray(deviation / np.sqrt(np.maximum(seen, 1)))

    def _solve(self, groups: list[list[Observation]], estimates: Observation | None) -> Fit:
        """Fit the speeds and the work of the objects. An object has the same work in all placements
        of a group, and different work in different groups.
        """
        seen, weights, own = [], [], []
        for number, group in enumerate(groups):
            age = len(groups) - 1 - number
            for i, placement in enumerate(group):
                seen.append(placement)
                weights.append(AGEING ** (age + len(group) - 1 - i))
                own.append(number)
        if estimates is not None:
            seen.append(estimates)
            weights.append(PRIOR)
            own.append(0)
        sizes = [len(o.key) for o in seen]
        key, group_of = np.concatenate([o.key for o in seen]), np.repeat(own, sizes)
        order = np.lexsort((group_of, key))
        key, group_of = key[order], group_of[order]
        is_first = np.ones(len(key), bool)
        is_first[1:] = (key[1:] != key[:-1]) | (group_of[1:] != group_of[:-1])
        who = np.concatenate([o.who for o in seen])[order]
        # The present ranks come first, then ranks as they were before a change.
        past = np.setdiff1d(who, self._who)
        number_of = np.empty(self._count, np.int32)
        number_of[self._who] = np.arange(self.n_ranks)
        number_of[past] = self.n_ranks + np.arange(len(past))
        # A stay on a rank is one observation.
        y = np.log(np.concatenate([o.seconds for o in seen])[order])
        weight = (np.repeat(weights, sizes) * np.concatenate([o.weight() for o in seen]))[order]
        comes = is_first.copy()
        comes[1:] |= who[1:] != who[:-1]
        stay = np.cumsum(comes) - 1
        whole = np.bincount(stay, weight)
        speed, error, sigma, explained, moved = _core.speeds_fit(
            np.append(np.flatnonzero(is_first[comes]), len(whole)),
            number_of[who[comes]],
            np.exp(np.bincount(stay, weight * y) / whole),
            whole,
            self.n_ranks + len(past),
        )
        known = np.isfinite(error[: self.n_ranks])
        log = np.log(speed[: self.n_ranks])
        log[known] -= log[known].mean() if known.any() else 0.0
        return Fit(log, error[: self.n_ranks], sigma, explained, moved)
