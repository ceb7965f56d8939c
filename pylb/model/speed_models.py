"""Functional performance models: the speed of each rank as a function of its number of rows."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core, files
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.model.snapshot import F64, I64

FORMAT = "pylb speed models"
PAGING = 0.5  # a rank pages if its speed is below this fraction of its best speed with fewer rows


PAIR = "a pair of rows and rows per second"


class SpeedModels:
    """A piecewise linear speed function for each rank, built from measurements.

    A function is linear between its points, and constant before the first and after the last.  With
    one point it is the constant model.  More rows always take longer, so each line through the
    origin meets a function once (Lastovetsky and Reddy 2007; Clarke 2010).

    Parameters
    ----------
    points : sequence of (rows, speed)
        For each rank, two arrays of the same length, which may be empty: ascending numbers of rows,
        and the speed with each number of rows, in rows per second.

    Attributes
    ----------
    start : (p + 1,) int64
        Rank i has the points ``start[i]`` to ``start[i + 1] - 1``.
    rows, speed : (start[p],) float64

    Raises
    ------
    DomainError
        The two arrays of a rank differ in length, a value is not in 1e-30 ... 1e30, or the rows, or
        their times, do not increase.

    Examples
    --------
    >>> models = pylb.SpeedModels([([100, 200], [50.0, 40.0]), ([100], [25.0])])
    >>> models.split(240)
    array([154,  86])
    """

    def __init__(self, points: Sequence[tuple[ArrayLike, ArrayLike]]) -> None:
        pairs = [
            tuple(
                np.atleast_1d(checks.array("points", one, float))
                for one in checks.several("points", pair, PAIR)
            )
            for pair in checks.several("points", points, "a pair for each rank")
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise DomainError("points: expected a pair of rows and rows per second for each rank")
        if not pairs:
            raise DomainError("points is empty: expected an entry for each rank")
        for rank, (rows, speed) in enumerate(pairs):
            if rows.shape != speed.shape or rows.ndim != 1:
                raise DomainError(
                    f"points[{rank}] has rows of shape {rows.shape} and speeds of shape "
                    f"{speed.shape}: expected two arrays of the same length"
                )
        self._set(
            np.cumsum([0, *(len(rows) for rows, _ in pairs)], dtype=np.int64),
            np.concatenate([rows for rows, _ in pairs]),
            np.concatenate([speed for _, speed in pairs]),
        )
        met = SpeedModels._of(*self._arrays_of(np.diff(self.start) > 0)) if len(self.rows) else self
        if len(met.rows):
            _core.fpm_check(met.start, met.rows, met.speed)

    def _set(self, start: I64, rows: F64, speed: F64) -> None:
        self.start, self.rows, self.speed = start, rows, speed

    @classmethod
    def _of(cls, start: I64, rows: F64, speed: F64) -> SpeedModels:
        self = cls.__new__(cls)
        self._set(start, rows, speed)
        return self

    def _arrays_of(self, which: Any) -> tuple[I64, F64, F64]:
        """Return the arrays for the ranks `which` only; the other ranks must have no points."""
        return np.cumsum([0, *np.diff(self.start)[which]]), self.rows, self.speed

    def __len__(self) -> int:
        return len(self.start) - 1

    def points(self, rank: int) -> tuple[F64, F64]:
        """Return rows and speeds of one rank's points."""
        where = slice(*self.start[rank : rank + 2])
        return self.rows[where], self.speed[where]

    def copy(self) -> SpeedModels:
        """Return a copy, which `update` changes on its own."""
        return SpeedModels._of(self.start, self.rows, self.speed)

    # ---- measurements --------------------------------------------------------------------------

    def update(self, counts: ArrayLike, seconds: ArrayLike) -> None:
        """Update the models by a measurement of each rank.

        Earlier points that contradict the new one are removed: those with more rows that did not
        take longer, or with fewer rows that did not take less time.  If a point has the same number
        of rows, and its speed differs from the new one by more than a factor of 1.25, the processor
        is assumed to have changed, and all points of this rank are scaled.  But if the old speed is
        below half of the rank's best speed, the processor pages, and no points are scaled.

        Parameters
        ----------
        counts : (p,) int
            Rows of each rank; a rank with 0 rows has no measurement.
        seconds : (p,) float
            A time of zero, which a coarse clock may give, counts as a nanosecond.
        """
        times, counts = checks.vector("seconds", seconds), _whole(counts)
        if not (np.isfinite(times) & (times >= 0)).all():
            raise DomainError("seconds: expected finite numbers, 0 or more, one for each rank")
        self._set(*_core.fpm_update(self.start, self.rows, self.speed, counts, times))

    def constant(self, counts: ArrayLike, seconds: ArrayLike) -> None:
        """Replace all points of each rank that has a measurement by this measurement."""
        rows = _whole(counts)
        pairs = [((), ()) if d > 0 else self.points(i) for i, d in enumerate(rows)]
        self._set(*(lambda m: (m.start, m.rows, m.speed))(SpeedModels(pairs)))
        self.update(rows, seconds)

    def merge(self, other: SpeedModels) -> SpeedModels:
        """Return the models of `other`, updated by all points of `self`, as by `update`."""
        checks.instance("other", other, SpeedModels)
        if len(other) != len(self):
            raise DomainError(f"other has {len(other)} models: expected {len(self)}")
        out = SpeedModels._of(other.start, other.rows, other.speed)
        for k in range(int(np.diff(self.start).max())):
            here = np.diff(self.start) > k
            at = self.start[:-1][here] + k
            counts, seconds = np.zeros(len(self), np.int64), np.zeros(len(self))
            counts[here] = np.round(self.rows[at])
            seconds[here] = counts[here] / self.speed[at]
            out.update(counts, seconds)
        return out

    # ---- predictions ---------------------------------------------------------------------------

    def split(self, n: int) -> I64:
        """Divide n rows among the ranks such that the predicted longest time is minimal.

        The parts are where one line through the origin meets all functions (Clarke 2010, eq. 3),
        rounded down.  Each remaining row goes to the rank that would finish first; in a tie, to
        the lowest of these ranks.  A rank without points is assumed to have a constant speed: the
        mean of the speeds at the last points of the other ranks.

        Returns
        -------
        (p,) int64

        Raises
        ------
        StateError
            No model has any point.
        """
        return _core.fpm_split(*self._filled(), checks.whole("n", n, 0))[0]

    def times(self, counts: ArrayLike) -> F64:
        """Return the seconds that the models predict for each rank with its given rows."""
        return _core.fpm_times(*self._filled(), checks.vector("counts", counts))

    def speeds(self, counts: ArrayLike) -> F64:
        """Return the rows per second of each rank if it has the given rows (at least one)."""
        rows = np.maximum(np.asarray(counts, float), 1.0)
        return np.asarray(rows / self.times(rows))

    def near(self, counts: ArrayLike, part: float) -> NDArray[np.bool_]:
        """Say which ranks have a measured point near their given rows.

        A point is near if its number of rows differs by at most `part` times the given rows, and if
        the rank pages neither at this point nor at the given rows.
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

        With one row more, the rank already has the speed of its next measured point.
        """
        owner = self._owner()
        at = np.flatnonzero(self.rows == self.edges()[owner])
        at = at[self.rows[at + 1] > self.rows[at] + 1.0]
        start = self.start + np.searchsorted(at, self.start)
        return SpeedModels._of(
            start,
            np.insert(self.rows, at + 1, self.rows[at] + 1.0),
            np.insert(self.speed, at + 1, self.speed[at + 1]),
        )

    def _filled(self) -> tuple[I64, F64, F64]:
        """Return the arrays, with a constant speed for each rank without points."""
        met = np.diff(self.start) > 0
        if met.all():
            return self.start, self.rows, self.speed
        if not met.any():
            raise StateError("no rank has measured anything yet")
        last = self.start[1:][met] - 1
        rows, speed = self.rows[last].mean(), self.speed[last].mean()
        pairs = [self.points(i) if known else ([rows], [speed]) for i, known in enumerate(met)]
        whole = SpeedModels(pairs)
        return whole.start, whole.rows, whole.speed

    # ---- files ---------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file."""
        models = [
            dict(zip(("rows", "speed"), map(list, self.points(i)), strict=True))
            for i in range(len(self))
        ]
        files.write_text(path, json.dumps({"format": FORMAT, "version": 1, "models": models}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SpeedModels:
        """Read what `save` wrote.

        Raises
        ------
        MissingFileError, FormatError
            The file does not exist, or is not a file of speed models.
        """
        with files.understood(path, "a file of speed models"):
            found = files.json_of(path)
            files.check_format(found, FORMAT)
            return cls([(model["rows"], model["speed"]) for model in found["models"]])

    def __repr__(self) -> str:
        return f"<SpeedModels: {len(self)} ranks, {len(self.rows)} points>"


def _whole(counts: ArrayLike) -> I64:
    given = checks.array("counts", counts)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        said = f"shape {given.shape}, dtype {given.dtype}"
        raise DomainError(f"counts has {said}: expected integers, (p,)")
    return checks.array("counts", given, np.int64)
