"""The learner of speeds (csrc/machine/learner.c), plainly."""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.snapshot import F64, I32, I64

PLACEMENTS = 8  # that are remembered
AGEING = 0.7  # weight of a placement against that of the next one
PRIOR = 0.25  # weight of the user's own work estimate, in observations
# When a rank is said to have changed: the median of its objects that stayed takes so much longer or
# shorter, LEAST of them, by ERRORS of its own, and they do alike: but for the noise, four in five
# within half of that.  Objects that have grown do so each by its own.
CHANGED, ALIKE, LEAST = math.log(1.1), 0.5, 4
NOISE = 2.56 * math.sqrt(2.0)  # between the deciles of a difference of two, in sigma
# When ranks are said to be unlike: the speeds account for a part of what changed as objects moved
# (for it to remain so: a smaller one), one is off by more than a twentieth, and the squares of all,
# in their errors, add up to more than chance allows, by ERRORS of that sum's deviations.
EXPLAINED, STILL, ERRORS, UNLIKE = 0.08, 0.03, 4.0, 0.05
WARY = 1.5  # times what ranks were seen to be unsteady by, as that is of few
DOUBTS = 2  # fits in a row that show no sign of it, until they are said to be alike again
ENOUGH = 250  # objects a rank; of more than twice as many, a part speaks for all
FEW = 50  # one object in so many must have moved, or nothing new is learned
BETTER = 0.05  # by how much work that changes must explain more than work that does not


class Observation(NamedTuple):
    """The objects under one placement, `who` is a rank as it was then."""

    key: I64
    who: I32
    seconds: F64

    def weight(self) -> F64:
        """Of each: short objects are noisier, by the clock and where a quota stops them."""
        mean = self.seconds.sum() / max(len(self.seconds), 1)
        return np.asarray(np.sqrt(self.seconds / max(mean, np.finfo(float).tiny)))


def _same_places(a: Observation, b: Observation) -> bool:
    return np.array_equal(a.key, b.key) and np.array_equal(a.who, b.who)


def _speaks_for_all(key: I64, n_ranks: int) -> Any:
    """Of very many objects a part, the same each time: which are in it."""
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
    """`pylb.machine.speeds.SpeedLearner`, for input that it takes."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.speed: F64 | None = None
        self.error: F64 = np.full(n_ranks, np.inf)
        self.sigma, self.explained = 0.0, 0.0
        self._who: I32 = np.arange(n_ranks, dtype=np.int32)  # each rank, as it is now
        self._count = n_ranks + 1  # ranks of all times; n_ranks itself stands for the user
        self._seen: list[Observation] = []
        self._shifts: deque[float] = deque(maxlen=PLACEMENTS * n_ranks)
        self._doubts = 0

    def observe(
        self, key: ArrayLike, rank: ArrayLike, seconds: ArrayLike, work: ArrayLike | None = None
    ) -> F64 | None:
        """The objects' times under another placement; what `speed` is now."""
        keys, times = np.asarray(key, np.int64), np.asarray(seconds, float)
        ranks = np.asarray(rank, np.int32)
        order = np.argsort(keys)
        order = order[times[order] > 0]
        order = order[_speaks_for_all(keys[order], self.n_ranks)]
        self._follow_changes(keys[order], ranks[order], times[order])
        now = Observation(keys[order], self._who[ranks[order]], times[order])
        if self._seen and _same_places(self._seen[-1], now):
            self._seen.pop()  # no news of the speeds: what is older shall not be forgotten for it
        self._seen = [*self._seen[1 - PLACEMENTS :], now]
        estimates = None
        if work is not None:
            size = np.asarray(work, float)[order]
            known = size > 0
            user = np.full(int(known.sum()), self.n_ranks, np.int32)
            estimates = Observation(now.key[known], user, size[known])
        self._fit(estimates)
        return self.speed

    def _follow_changes(self, keys: I64, ranks: I32, times: F64) -> None:
        """Ranks whose objects stayed and changed alike are others from now on."""
        if not self._seen:
            return
        last = self._seen[-1]
        _, old, new = np.intersect1d(last.key, keys, assume_unique=True, return_indices=True)
        stayed = last.who[old] == self._who[ranks[new]]
        old, new = old[stayed], new[stayed]
        shift = np.log(times[new] / last.seconds[old])
        if not len(shift):
            return
        by = np.lexsort((shift, ranks[new]))
        found, first, m = np.unique(ranks[new][by], return_index=True, return_counts=True)
        low, middle, high = (
            shift[by][first + np.rint(part * (m - 1)).astype(int)] for part in (0.1, 0.5, 0.9)
        )
        change = np.abs(middle - (np.median(middle) if len(found) > 2 else 0.0))
        self._shifts.extend(change.tolist())
        alike = high - low < ALIKE * change + NOISE * self.sigma
        sure = change > np.maximum(CHANGED, ERRORS * 0.5 * (high - low) / np.sqrt(m))
        changed = found[alike & sure & (m >= LEAST)]
        self._who[changed] = self._count + np.arange(len(changed))
        self._count += len(changed)

    def _fit(self, estimates: Observation | None) -> None:
        """Two models: work that stays as it is, and work that has changed from each placement to
        the next one, for which only neighbouring placements are compared; the better one stands.
        """
        steady = self._solve([self._seen], estimates)
        pairs = [list(pair) for pair in itertools.pairwise(self._seen)]
        fit = steady
        if len(pairs) > 1:
            drifting = self._solve(pairs, None)
            fit = drifting if drifting.explained > steady.explained + BETTER else steady
        if fit.moved * FEW < len(self._seen[-1].key):
            return  # hardly an object has moved of late: what was known stands
        self.error = np.hypot(fit.error, self._unrest())
        self.sigma, self.explained = fit.sigma, fit.explained
        known = np.isfinite(self.error)
        off = np.abs(fit.log[known])
        free = max(np.count_nonzero(known) - 1, 1)
        chance = free + ERRORS * math.sqrt(2.0 * free)
        enough = EXPLAINED if self.speed is None else STILL
        unlike = (
            self.explained > enough
            and bool(off.max(initial=0.0) > UNLIKE)
            and float(np.sum((off / self.error[known]) ** 2)) > chance
        )
        self._doubts = 0 if unlike else self._doubts + 1
        if unlike:
            self.speed = np.exp(fit.log)
        elif self._doubts >= DOUBTS:
            self.speed = None

    def _unrest(self) -> F64:
        """What each speed is off by as ranks as a whole are unsteady, by other programs or by a
        drift of their objects: the median of what they have changed by from placement to placement,
        over as many as the rank was seen in.
        """
        if not self._shifts:
            return np.zeros(self.n_ranks)
        deviation = WARY * 1.4826 * float(np.median(self._shifts)) / math.sqrt(2.0)
        seen = sum(np.bincount(o.who, minlength=self._count)[self._who] > 0 for o in self._seen)
        return np.asarray(deviation / np.sqrt(np.maximum(seen, 1)))

    def _solve(self, groups: list[list[Observation]], estimates: Observation | None) -> Fit:
        """Work is one number for each object in each group of placements."""
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
        # The ranks as they are now come first; who has changed is known by what came before.
        past = np.setdiff1d(who, self._who)
        number_of = np.empty(self._count, np.int32)
        number_of[self._who] = np.arange(self.n_ranks)
        number_of[past] = self.n_ranks + np.arange(len(past))
        speed, error, sigma, explained, moved = _core.speeds_fit(
            np.append(np.flatnonzero(is_first), len(key)),
            number_of[who],
            np.concatenate([o.seconds for o in seen])[order],
            (np.repeat(weights, sizes) * np.concatenate([o.weight() for o in seen]))[order],
            self.n_ranks + len(past),
        )
        known = np.isfinite(error[: self.n_ranks])
        log = np.log(speed[: self.n_ranks])
        log[known] -= log[known].mean() if known.any() else 0.0
        return Fit(log, error[: self.n_ranks], sigma, explained, moved)
