"""The learner of speeds (csrc/measure/learner.c), in plain Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pylb.model.snapshot import F64

INTERVALS = 7  # number of intervals between placements that are remembered
AGEING = 0.7  # weight of an interval, divided by the weight of the next one
OUTDATED, SURPRISE = 0.01, 3.0  # this weight, if predictions miss by this many sigma
GROWTH = 2.0  # of this sigma after a surprise
PRIOR = 0.25  # weight of the user's own work estimate, in observations
HUBER, LEAST_SIGMA, ROUNDS = 1.345, 0.01, 5  # of the robust fit
KEPT = 1e-3  # weight of the assumption that a rank has kept its speed, or has the mean speed
PROVEN, UNLIKE = 0.75, 0.05  # evidence and difference from which on speeds are used
FEW_MOVES, SMALL_CHANGE = 4.0, 0.02  # fewer moves and smaller changes are weaker evidence
DOUBTS = 2  # after this many fits in a row without a difference, the ranks count as equal again
SAMPLE = 250  # objects per rank; of more than twice as many, only a sample is used
FEW = 50  # if fewer than one in FEW objects moved, nothing is learned


class SpeedLearner:
    """The twin of `pylb.measure.monitor.SpeedLearner`, without checks of its input."""

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.speed: F64 | None = None
        self.error: F64 = np.full(n_ranks, np.inf)
        self.sigma = self.evidence = self._noise = 0.0
        self._surprised = False
        self._guess: F64 = np.zeros(n_ranks)
        self._last: dict[int, tuple[int, float, float]] = {}  # key: rank, log seconds, weight
        # (from, to, change, weight) of each object that moved, interval by interval
        self._moved: list[list[tuple[int, int, float, float]]] = []
        self._doubts = 0
        self._unmoved = 0.0

    def observe(
        self, key: ArrayLike, rank: ArrayLike, seconds: ArrayLike, work: ArrayLike | None = None
    ) -> F64 | None:
        """Observe the objects' times under another placement; update `speed`."""
        keys, times = np.asarray(key, np.int64), np.asarray(seconds, float)
        sizes = np.zeros(len(keys)) if work is None else np.asarray(work, float)
        used = np.flatnonzero(times > 0)
        parts = 1
        while len(used) > 2 * SAMPLE * self.n_ranks * parts:
            parts *= 2
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing
        used = used[((mixed >> np.uint64(32)) % np.uint64(parts) == 0)[used]]
        used = used[np.argsort(keys[used])]
        now, estimates = {}, []
        for i in used.tolist():
            r, y = int(np.asarray(rank)[i]), float(np.log(times[i]))
            weight = max(float(np.sqrt(times[i] / times[used].mean())), 1e-6)
            now[int(keys[i])] = r, y, weight
            if sizes[i] > 0:
                change = y - float(np.log(sizes[i]))
                estimates.append((self.n_ranks, r, change, PRIOR * weight))
        self._compare(now)
        self._last = now
        self._fit(estimates)
        return self.speed

    def _compare(self, now: dict[int, tuple[int, float, float]]) -> None:
        stayed, moved = [], []
        for k, (b, y, weight) in now.items():
            if k in self._last:
                a, before, old = self._last[k]
                if a == b:
                    stayed.append(y - before)
                else:
                    moved.append((a, b, y - before, min(weight, old)))
        if not moved:
            return
        usual = float(np.median(stayed)) if stayed else 0.0
        moved = [(a, b, change - usual, weight) for a, b, change, weight in moved]
        self._unmoved = sum((change - usual) ** 2 for change in stayed)
        ageing = self._test(moved)
        self._moved = [
            *[[(a, b, d, ageing * w) for a, b, d, w in interval] for interval in self._moved],
            moved,
        ][-INTERVALS:]

    def _test(self, moved: list[tuple[int, int, float, float]]) -> float:
        """Test how well the previous fit predicts the changes of the objects that moved.

        Returns the weight of the older intervals relative to this one.
        """
        told = [
            (abs(d), abs(d - (self._guess[a] - self._guess[b])))
            for a, b, d, _ in moved
            if np.isfinite(self.error[a]) and np.isfinite(self.error[b])
        ]
        if not told:
            return AGEING
        n, (was, left) = len(told), np.sum(told, axis=0)
        part = (was - left) / (was + SMALL_CHANGE * n) * n / (n + FEW_MOVES)
        self.evidence = AGEING * self.evidence + max(part, -1.0)
        self._noise = min(self.sigma, GROWTH * self._noise) if self._surprised else self.sigma
        self._surprised = bool(left > SURPRISE * self._noise * max(n, FEW_MOVES))
        return OUTDATED if self._surprised else AGEING

    def _fit(self, estimates: list[tuple[int, int, float, float]]) -> None:
        """Fit the speeds by least squares with Huber's weights."""
        moves = [move for interval in self._moved for move in interval] + estimates
        if not moves or len(moves) * FEW < len(self._last):
            return
        a, b = (np.array([m[i] for m in moves]) for i in (0, 1))
        change, own = (np.array([m[i] for m in moves]) for i in (2, 3))
        q, weight = self.n_ranks + 1, own
        prior = np.append(np.zeros(q - 1) if self.speed is None else np.log(self.speed), 0.0)
        for _ in range(ROUNDS):
            matrix = KEPT * np.eye(q)
            for i, j, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
                np.add.at(matrix, (i, j), sign * weight)
            right = np.bincount(a, weight * change, q) - np.bincount(b, weight * change, q)
            s = np.linalg.solve(matrix, right + KEPT * prior)
            miss = np.abs(change - (s[a] - s[b]))
            self.sigma = max(1.4826 * float(np.median(miss)), LEAST_SIGMA)
            linked = np.diag(matrix)[:-1]
            weight = own * np.minimum(1.0, HUBER * self.sigma / np.maximum(miss, 1e-300))
        known = linked > 2.0 * KEPT
        self.error = np.where(known, self.sigma / np.sqrt(linked), np.inf)
        s, prior = s[:-1], prior[:-1]
        shift = (s - prior)[known].mean() if known.any() else 0.0
        self._guess = np.where(known, s - shift, prior)
        self._conclude(bool(estimates))

    def _explained(self) -> float:
        """Return which part of the last interval's changes the speeds explain.

        Each object is judged by the others; objects that stayed should not change.
        """
        if not self._moved:
            return 0.0
        a, b = (np.array([m[i] for m in self._moved[-1]]) for i in (0, 1))
        change = np.array([m[2] for m in self._moved[-1]])
        count = np.bincount(np.append(a, b), minlength=self.n_ranks)
        own = 1.0 / count[a] + 1.0 / count[b]
        miss = np.where(own < 1.0, (change - (self._guess[a] - self._guess[b])), change)
        miss /= np.where(own < 1.0, 1.0 - own, 1.0)
        was = float(np.sum(change**2))
        if not was * was > FEW_MOVES * float(np.sum(change**4)):
            return 0.0
        return max(0.0, 1.0 - (float(np.sum(miss**2)) + self._unmoved) / was)

    def _conclude(self, estimated: bool) -> None:
        in_use = self.speed is not None or estimated
        proven = self.evidence >= 0.0 if in_use else self.evidence + self._explained() >= PROVEN
        unlike = proven and bool(np.abs(self._guess).max() > UNLIKE)
        self._doubts = 0 if unlike else self._doubts + 1
        if unlike:
            self.speed = np.exp(self._guess)
        elif self._doubts >= DOUBTS:
            self.speed = None
