"""Functional performance models: the speed of each rank as a function of its number of rows."""

from __future__ import annotations

import heapq
import json
import math
import os
from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import files
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.model.snapshot import F64, I64

FORMAT = "pylb speed models"
PAGING = 0.5  # a rank pages if its speed is below this fraction of its best speed with fewer rows
CHANGED = 1.25  # noise rarely changes a speed by a larger factor than this
SAME_TIME = 1e-9  # smaller relative differences of times count as zero
SHORTEST, LONGEST = 1e-9, 1e29  # seconds; a shorter or longer time counts as this long
LEAST, MOST = 1e-30, 1e30  # limits of rows and speeds; larger products with times would overflow
MOST_POINTS = 64  # of a model; each further point replaces the least useful one
MOST_ROWS = 10**12  # up to this number, rounding errors of sums of parts stay far below one row
# Largest number of steps of `_line`.  Newton's method needs about ten; bisection alone halves the
# interval until no double is left inside it.
MOST_STEPS = 4000

PAIR = "a pair of rows and rows per second"


class SpeedModels:
    """A piecewise linear speed function for each rank, built from measurements.

    A function is linear between its points, and constant before the first and after the last.
    More rows always take longer, so each line through the origin meets a function once
    (Lastovetsky and Reddy 2007; Clarke 2010).

    Parameters
    ----------
    points : sequence of (rows, speed)
        For each rank, two arrays of the same length, which may be empty: ascending numbers of rows,
        and the speed with each number of rows, in rows per second.

    Examples
    --------
    >>> models = pylb.SpeedModels([([100, 200], [50.0, 40.0]), ([100], [25.0])])
    >>> models.split(240)
    array([154,  86])
    """

    start: I64  #: (p + 1,) rank i has the points ``start[i]`` to ``start[i + 1] - 1``.
    #: (start[p],) number of rows of each point, and the speed with it.
    rows: F64
    speed: F64

    def __init__(self, points: Sequence[tuple[ArrayLike, ArrayLike]]) -> None:
        pairs = []
        for rank, pair in enumerate(checks.several("points", points, "a pair for each rank")):
            name, both = f"points[{rank}]", checks.several("points", pair, PAIR)
            arrays = [checks.vector(name, np.atleast_1d(checks.array(name, x))) for x in both]
            if len(arrays) != 2 or len(arrays[0]) != len(arrays[1]):
                sizes = ", ".join(str(len(x)) for x in arrays)
                expected = "expected two arrays of the same length"
                raise DomainError(f"{name} has arrays of {sizes} entries: {expected}")
            pairs.append(arrays)
        if not pairs:
            raise DomainError("points is empty: expected an entry for each rank")
        self._set(
            np.cumsum([0, *(len(rows) for rows, _ in pairs)], dtype=np.int64),
            np.concatenate([rows for rows, _ in pairs]),
            np.concatenate([speed for _, speed in pairs]),
        )
        self.check()

    def check(self) -> None:
        """Check that rows and speeds are in their domains, and that rows and times rise."""
        rows, speed, owner = self.rows, self.speed, self._owner()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            times = rows / speed
            before = np.zeros((2, len(rows)))  # rows and seconds of the point before
            before[:, 1:] = np.where(owner[1:] == owner[:-1], [rows[:-1], times[:-1]], 0.0)
            fits = (rows >= LEAST) & (rows <= MOST) & (speed >= LEAST) & (speed <= MOST)
            fits &= rows > before[0]
            bad = np.flatnonzero(~(fits & (times > before[1] * (1 + SAME_TIME))))
        for k in bad[:1].tolist():
            where = f"model of rank {owner[k]}, point {k - self.start[owner[k]]}: {rows[k]:g} rows"
            if not fits[k]:
                expected = f"1e-30 ... 1e30 for both, and more rows than {before[0, k]:g}"
                raise DomainError(f"{where} at speed {speed[k]:g}, expected {expected}")
            fewer = f"but fewer rows take {before[1, k]:g} s"
            raise DomainError(f"{where} take {times[k]:g} s, {fewer}, expected times that rise")

    def _set(self, start: I64, rows: F64, speed: F64) -> None:
        self.start, self.rows, self.speed = start, rows, speed

    def __len__(self) -> int:
        return len(self.start) - 1

    def points(self, rank: int) -> tuple[F64, F64]:
        """Return rows and speeds of one rank's points."""
        where = slice(*self.start[rank : rank + 2])
        return self.rows[where], self.speed[where]

    def copy(self) -> SpeedModels:
        """Return a copy that is independent of this one."""
        return copy(self)  # the arrays are replaced, never changed

    def update(self, counts: ArrayLike, seconds: ArrayLike) -> None:
        """Update the models by a measurement of each rank: its rows and its seconds, (p,) each.

        Earlier points that contradict the new one are removed.  If an earlier point with the same
        number of rows has a speed that differs by more than a factor of 1.25, the processor has
        changed, and all points of this rank are scaled.  They are not scaled if that point is below
        half of the rank's best speed: then the rank only paged.

        A rank with 0 rows has no measurement; a time of zero counts as a nanosecond.
        """
        times, d = checks.vector("seconds", seconds), self._counts(counts)
        if len(times) != len(d) or not (np.isfinite(times) & (times >= 0)).all():
            raise DomainError("seconds: expected finite numbers, 0 or more, one for each rank")
        times, owner = np.clip(times, SHORTEST, LONGEST), self._owner()
        here, seconds = d[owner], times[owner]  # rows and seconds of the rank of each point
        best, change = np.zeros(len(self)), np.ones(len(self))
        np.maximum.at(best, owner, self.speed)
        again = np.flatnonzero((self.rows == here) & (self.speed >= PAGING * best[owner]))
        ratio = here[again] / seconds[again] / self.speed[again]
        change[owner[again]] = np.where((ratio > CHANGED) | (ratio < 1 / CHANGED), ratio, 1.0)
        speed = self.speed * change[owner]
        took, margin = self.rows / speed, 1 + 2 * SAME_TIME
        fewer, more = self.rows < here, self.rows > here
        keep = (fewer & (took * margin < seconds)) | (more & (took > seconds * margin))
        keep &= (speed >= LEAST) & (speed <= MOST)
        keep |= here <= 0
        new = np.flatnonzero(d > 0)
        owner = np.concatenate([owner[keep], new])
        rows = np.concatenate([self.rows[keep], d[new]])
        speed = np.concatenate([speed[keep], d[new] / times[new]])
        order = np.lexsort((rows, owner))
        start = np.searchsorted(owner[order], np.arange(len(self) + 1))
        self._set(start, rows[order], speed[order])
        for i in np.flatnonzero(np.diff(start) > MOST_POINTS)[::-1].tolist():
            self._drop_least_telling(i, d[i])

    def _drop_least_telling(self, rank: int, keep: float) -> None:
        """Drop the inner point nearest to its neighbours' line, but not that with `keep` rows."""
        x, s = self.points(rank)
        at = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
        miss = np.abs(s[:-2] + at * (s[2:] - s[:-2]) - s[1:-1]) / s[1:-1]
        miss[x[1:-1] == keep] = np.inf
        k = int(self.start[rank]) + 1 + int(miss.argmin())
        start = self.start - (np.arange(len(self.start)) > rank)
        self._set(start, np.delete(self.rows, k), np.delete(self.speed, k))

    def constant(self, counts: ArrayLike, seconds: ArrayLike) -> None:
        """Replace all points of each rank that has a measurement by this measurement."""
        keep = (self._counts(counts) <= 0)[self._owner()]
        start = np.append(0, np.cumsum(keep))[self.start]
        self._set(start, self.rows[keep], self.speed[keep])
        self.update(counts, seconds)

    def merge(self, other: SpeedModels) -> SpeedModels:
        """Return the models of `other`, updated by all points of `self`, as by `update`."""
        checks.instance("other", other, SpeedModels)
        if len(other) != len(self):
            raise DomainError(f"other has {len(other)} models: expected {len(self)}")
        out = other.copy()
        for k in range(int(np.diff(self.start).max())):
            here = np.diff(self.start) > k
            at = self.start[:-1][here] + k
            counts, seconds = np.zeros(len(self), np.int64), np.zeros(len(self))
            counts[here] = np.round(self.rows[at])
            seconds[here] = counts[here] / self.speed[at]
            out.update(counts, seconds)
        return out

    def split(self, n: int) -> I64:
        """Divide n rows among the ranks, (p,), such that the predicted longest time is minimal.

        The parts are where one line through the origin meets all functions (Clarke 2010, eq. 3),
        rounded down.  Each remaining row goes to the rank that would finish first; in a tie, to
        the lowest of these ranks.  A rank without points is assumed to have a constant speed: the
        mean of the speeds at the last points of the other ranks.
        """
        models = self._filled()
        n = checks.whole("n", n, 0, "a number of rows", MOST_ROWS + 1)
        low, high = models._line(n) if n else (0.0, 0.0)
        part, _ = models._rows_in(low)
        if low < high:  # interpolate all parts by the same fraction
            more = models._rows_in(high)[0]
            part += (n - part.sum()) / (more.sum() - part.sum()) * (more - part)
        out = part.astype(np.int64)
        left = n - int(out.sum())
        for i in range(len(out) if left < 0 else 0):  # rounding errors: too many rows
            back = min(int(out[i]), max(-left, 0))
            out[i], left = out[i] - back, left + back
        ends = [(seconds, i) for i, seconds in enumerate(models.times(out + 1).tolist())]
        heapq.heapify(ends)
        for _ in range(left):
            i = ends[0][1]
            out[i] += 1
            seconds = (out[i] + 1) / np.interp(out[i] + 1, *models.points(i))
            heapq.heapreplace(ends, (float(seconds), i))
        return out

    def times(self, counts: ArrayLike) -> F64:
        """Return the seconds that the models predict for each rank with its given rows."""
        models, rows = self._filled(), checks.vector("counts", counts)
        if len(rows) != len(self):
            raise DomainError(f"counts has {len(rows)} entries: expected {len(self)}")
        low, high = models._pieces(models.rows < rows[models._owner()])
        x, s = models.rows[low], models.speed[low]
        part = (rows - x) / np.where(low < high, models.rows[high] - x, np.inf)
        return np.asarray(rows / (s + part * (models.speed[high] - s)))

    def _pieces(self, behind: NDArray[np.bool_]) -> tuple[I64, I64]:
        """Return the points at the ends of a piece of each function: `behind` has those before it.

        Outside all pieces, both are the same point.
        """
        first, last = self.start[:-1], self.start[1:] - 1
        at = first + np.add.reduceat(behind, first, dtype=np.int64)
        return np.maximum(at - 1, first), np.minimum(at, last)

    def _rows_in(self, seconds: float) -> tuple[F64, F64]:
        """Return the rows that each rank computes in `seconds`, and their derivatives."""
        low, high = self._pieces(self.rows / self.speed < seconds)
        x, s = self.rows[low], self.speed[low]
        dx, ds = self.rows[high] - x, self.speed[high] - s
        # On this piece rows = x + q dx and speed = s + q ds; rows = speed * seconds gives q.
        with np.errstate(all="ignore"):
            below = dx - seconds * ds  # > 0 on a piece, because the time rises along it
            rate = np.where(low < high, dx * (s * dx - x * ds) / below**2, s)
            rows = x + (seconds * s - x) / below * dx
        rows = np.fmin(np.fmax(rows, x), x + dx)  # on the piece despite rounding errors
        return np.where(low < high, rows, s * seconds), rate

    def _line(self, n: int) -> tuple[float, float]:
        """Return, twice, the seconds in which all ranks compute `n` rows, to a quarter of a row.

        If no double is close enough (times hardly rise with the rows), return the last one with
        fewer rows and the next one.  Uses Newton's method; if a step leaves the interval or hardly
        shortens it, uses the bisection of Lastovetsky and Reddy.
        """
        low, high = 0.0, math.inf
        seconds = n / float(self._rows_in(0.0)[1].sum())
        for _ in range(MOST_STEPS):
            rows, rate = self._rows_in(seconds)
            miss, width = rows.sum() - n, high - low
            with np.errstate(all="ignore"):
                after = seconds - float(miss / rate.sum())
            if abs(miss) <= 0.25:
                return seconds, seconds
            low, high = (low, seconds) if miss > 0 else (seconds, high)
            if math.isinf(high):
                seconds = max(2 * seconds, after)  # not nan
            elif low < after < high and high - low < 0.75 * width:
                seconds = after
            else:
                seconds = 0.5 * (low + high)
                if not low < seconds < high:
                    break
        return low, high

    def speeds(self, counts: ArrayLike) -> F64:
        """Return the rows per second of each rank if it has the given rows (at least one)."""
        rows = np.maximum(np.asarray(counts, float), 1.0)
        return np.asarray(rows / self.times(rows))

    def near(self, counts: ArrayLike, part: float) -> NDArray[np.bool_]:
        """Return, (p,), whether each rank has a measured point within `part` times its given rows.

        A point where the rank pages does not count, nor does any if it pages at the given rows.
        """
        d, edge, owner = np.asarray(counts), self.edges(), self._owner()
        alike = np.maximum(self.rows, d[owner]) <= edge[owner]
        out = np.zeros(len(self), bool)
        out[owner[alike & (np.abs(self.rows - d[owner]) <= part * d[owner])]] = True
        return out

    def _owner(self) -> I64:
        """Return the rank of each point."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def edges(self) -> F64:
        """Return the rows of each rank's last point before it pages; infinity if it never pages.

        A rank pages from the first point whose speed is below half of its best speed with fewer
        rows.
        """
        edge, best = np.full(len(self), np.inf), np.zeros(len(self))
        for k in range(int(np.diff(self.start).max())):
            here = np.flatnonzero(np.diff(self.start) > k)
            at = self.start[here] + k
            falls = np.isinf(edge[here]) & (self.speed[at] < PAGING * best[here])
            edge[here[falls]] = self.rows[at[falls] - 1]
            best[here] = np.maximum(best[here], self.speed[at])
        return edge

    def wary(self) -> SpeedModels:
        """Return models in which a rank pages as soon as it has more rows than `edges` says.

        With one more row than that, the rank already has the speed of its next measured point.
        """
        owner = self._owner()
        at = np.flatnonzero(self.rows == self.edges()[owner])
        at = at[self.rows[at + 1] > self.rows[at] + 1.0]
        rows = np.insert(self.rows, at + 1, self.rows[at] + 1.0)
        speed = np.insert(self.speed, at + 1, self.speed[at + 1])
        out = copy(self)
        out._set(self.start + np.searchsorted(at, self.start), rows, speed)
        return out

    def _filled(self) -> SpeedModels:
        """Return these models, with a constant speed for each rank without points."""
        met = np.diff(self.start) > 0
        if met.all():
            return self
        if not met.any():
            raise StateError("no rank has measured anything yet")
        last = self.start[1:][met] - 1
        rows, speed = self.rows[last].mean(), self.speed[last].mean()
        pairs = [self.points(i) if known else ([rows], [speed]) for i, known in enumerate(met)]
        return SpeedModels(pairs)

    def _counts(self, counts: ArrayLike) -> F64:
        """Check the number of rows of each rank; return them, (p,) float64."""
        given = checks.array("counts", counts)
        if given.shape != (len(self),) or (given.size and given.dtype.kind not in "iu"):
            said = f"shape {given.shape}, dtype {given.dtype}"
            raise DomainError(f"counts has {said}: expected integers, ({len(self)},)")
        return given.astype(np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file."""
        points = map(self.points, range(len(self)))
        models = [{"rows": rows.tolist(), "speed": speed.tolist()} for rows, speed in points]
        files.write_text(path, json.dumps({"format": FORMAT, "version": 1, "models": models}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SpeedModels:
        """Read what `save` wrote."""
        with files.understood(path, "a file of speed models"):
            found = files.json_of(path)
            files.check_format(found, FORMAT)
            return cls([(model["rows"], model["speed"]) for model in found["models"]])

    def __repr__(self) -> str:
        return f"<SpeedModels: {len(self)} ranks, {len(self.rows)} points>"
