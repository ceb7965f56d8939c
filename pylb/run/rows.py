"""Divide rows of arrays among ranks of different speeds so that all ranks take equally long."""

from __future__ import annotations

import math
import operator
import zlib
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.connect import agreement_of
from pylb.comm.parcel import exchange_objects
from pylb.decide.decider import BALANCE, JUDGE, TriggerLike, settings
from pylb.decide.receipts import History
from pylb.errors import DomainError, OutOfRangeError, StateError
from pylb.model import checks
from pylb.model.snapshot import F64, I64
from pylb.model.speed_models import CHANGED, SHORTEST, SpeedModels
from pylb.placing.registry import find
from pylb.run.advice import Stopwatch
from pylb.run.modes import same_answer


def overlaps(box: I64, boxes: I64) -> I64:
    """Intersect each of `boxes` with `box`; the results may be empty."""
    out: I64 = boxes.copy()
    out[:, 0::2] = np.maximum(box[..., 0::2], boxes[:, 0::2])
    out[:, 1::2] = np.maximum(np.minimum(box[..., 1::2], boxes[:, 1::2]), out[:, 0::2])
    return out


def sizes_of(boxes: I64) -> I64:
    """Return the number of elements of each box."""
    return np.asarray((boxes[:, 1::2] - boxes[:, 0::2]).prod(axis=1), np.int64)


def slices_within(box: I64, boxes: I64) -> list[tuple[slice, ...]]:
    """Return the intersections of `box` with `boxes`, as slices of an array that covers `box`."""
    common = overlaps(box, boxes)
    low, high = common[:, 0::2] - box[0::2], common[:, 1::2] - box[0::2]
    return [tuple(map(slice, *pair)) for pair in zip(low.tolist(), high.tolist(), strict=True)]


def join_pieces(
    like: Any, extent: tuple[int, ...], pieces: list[Any], places: list[tuple[slice, ...]]
) -> Any:
    """Join `pieces` to an array or sparse matrix like `like`, with these first lengths."""
    if isinstance(like, np.ndarray):
        fortran = like.flags.f_contiguous and not like.flags.c_contiguous
        order: Any = "F" if fortran else "C"
        whole = np.empty((*extent, *like.shape[len(extent) :]), like.dtype, order)
        for place, piece in zip(places, pieces, strict=True):
            whole[place] = piece
        return whole
    from scipy import sparse  # type: ignore[import-untyped]

    if not pieces:
        return like.tocsr()[:0].asformat(like.format)
    return sparse.vstack(pieces, format="csr").asformat(like.format)


MODELS = ("cpm", "fpm", "power")
# A predicted time counts as exact, up to noise, if the number of rows differs by at most this
# fraction from a number of rows whose time was measured.
NEAR = 0.2


class Division(NamedTuple):
    """The record of one call of `RowPartition.redistribute`, the same on all ranks.

    Examples
    --------
    >>> part = pylb.RowPartition(comm, 64)
    >>> with part.timed():
    ...     total = np.arange(64)[part.local].sum()
    >>> part.redistribute()
    ()
    >>> part.history[0].moved
    0
    """

    counts: I64  #: (p,) rows of each rank before the call.
    seconds: F64  #: (p,) time of these rows: the mean of the timed blocks.
    spread: float  #: (longest - shortest) / shortest time of the ranks with rows.
    #: Number of rows that moved to another rank.  It is 0 if no move was due (without a `trigger`:
    #: the spread was within the tolerance), if no other division was better by more than the noise,
    #: or if a rank's time was unusual only in this call, e.g. because of one delay.
    moved: int


class _When:
    """Decides when to move rows: a `Decider`, whose iterations are the calls of `redistribute`."""

    def __init__(self, agreement: Agreement, trigger: TriggerLike) -> None:
        divided = replace(find(lambda snapshot: snapshot.rank), name="rows")  # the caller divides
        given = settings(divided, trigger=trigger, learn_speeds=False)
        self._agreement, self._decider = agreement, given.decider(agreement.transport.size)
        self._decider.core.expect(None, math.nan)
        self._before: I64 | None = None  # rows of each rank before the most recent move
        self._ratio = 1.0  # max/mean in the most recent call of `redistribute`
        # Sum of the slowest ranks' seconds, and number of calls, since the most recent move.
        self._longest, self._calls = 0.0, 0

    @property
    def history(self) -> History:
        return self._decider.history

    def asks(self, call: int, seconds: F64, models: SpeedModels) -> bool:
        """Return whether to move rows, after a call of `redistribute` with these times."""
        core, most, least = self._decider.core, float(seconds.max()), float(seconds.min())
        self._longest, self._calls = self._longest + most, self._calls + 1
        total, utilization = float(seconds.sum()), least / most if most > 0 else 1.0
        self._ratio = most * len(seconds) / total if total > 0 else 1.0
        figures = most, most, total / len(seconds), least, total, utilization
        asked = same_answer(
            *(self._agreement, self._decider.settings, call),
            lambda: core.observe(call, *figures, 0, 0),
        )
        ask = core.next(bool(asked), False)
        if ask == JUDGE and self._before is not None:
            was = float(models.times(self._before).max())
            core.judge(self._calls * was - self._longest)
            ask = core.next(bool(asked), False)
        return bool(ask == BALANCE)

    def moves(self, n_ranks: int) -> None:
        """Begin to record a move of rows; this call, and not `moved`, allocates memory."""
        self._decider.choose()
        ratios = [self._ratio, 1.0] * 2  # max/mean before the move; expected after it: 1
        figures = np.full(_core.PLACING, math.nan)
        figures[:4] = ratios
        figures[5:9] = 0.0  # idle times
        self._decider.core.placed(figures, np.zeros(n_ranks))

    def moved(self, before: I64, rows: int, cost: float) -> None:
        """Record a move of `rows` rows, which took `cost` seconds on the slowest rank."""
        self._decider.core.balanced(rows, 0, cost, cost, True)
        self._before, self._longest, self._calls = before, 0.0, 0


NOISE = math.log(CHANGED)  # the noise is rarely larger than this
SURE = 3.0  # a deviation above `NOISE` and this many times the noise can mean a change
DEVIATIONS = 3.0  # by chance, the slowest mean can be this many standard deviations too large
STEEP = 2.0  # paging is a risk if it can make the slowest rank this many times slower
MEMORY = 8  # the noise is computed from the 8 p most recent deviations of p ranks


class Repeats:
    """Judges repeated measurements of the same parts.

    A rank's time is the mean of several measurements.  If a measurement is far from this mean, the
    processor has changed or was interrupted; the next measurement shows which of the two.
    """

    def __init__(self, n_ranks: int) -> None:
        self._off: deque[float] = deque(maxlen=MEMORY * n_ranks)  # relative deviations
        self.mean = np.zeros(n_ranks)  # (p,) seconds
        self.begin()

    def begin(self) -> None:
        """Start new means, because the ranks have new parts; the noise remains known."""
        self.n = np.zeros(len(self.mean), np.int64)  # (p,) number of measurements in the mean
        # (p,) whether the last measurement was far above the mean (1), far below (-1), or near (0)
        self._doubt = np.zeros(len(self.mean))

    def _noise(self) -> float:
        """Return the relative standard deviation of a measurement; 0 if unknown."""
        return min(1.4826 * float(np.median(self._off)), NOISE) if self._off else 0.0

    def observe(self, seconds: F64, busy: NDArray[np.bool_]) -> bool:
        """Add a measurement of the ranks that are busy, i.e. have rows.

        Returns False if a time is far from its mean for the first time.  If the rank's next time is
        far off on the same side, the rank has changed, and a new mean starts.
        """
        time, known = np.maximum(seconds, SHORTEST), busy & (self.n > 0)
        shift = np.log(time / np.where(known, self.mean, time))
        far = known & (np.abs(shift) > max(NOISE, SURE * self._noise()))
        way = np.where(shift > 0, 1.0, -1.0)
        again = far & (self._doubt == way)
        near, first = known & ~far, (busy & ~known) | again
        n = self.n + 1
        self._off.extend((np.abs(shift) * np.sqrt(self.n / n))[near].tolist())
        self.mean = np.where(near, self.mean + (time - self.mean) / n, self.mean)
        self.mean[first] = time[first]
        self.n = np.where(near, n, np.where(first, 1, self.n))
        self._doubt = np.where(far & ~again, way, 0.0)
        return not self._doubt.any()

    def predicted(self, seconds: F64, expected: F64, which: NDArray[np.bool_]) -> None:
        """Learn the noise from the errors of predictions for parts like those measured before."""
        off = np.abs(np.log(np.maximum(seconds, SHORTEST)[which] / expected[which]))
        self._off.extend((off[off < NOISE] / math.sqrt(2)).tolist())

    def choose(self, now: float, bold: float, paging: float, safe: float, tolerance: float) -> int:
        """Choose the present parts (0), those of the models (1), or parts that avoid paging (2).

        The arguments are seconds of the slowest rank: `now` with the present parts, `bold` with the
        parts of the models, `paging` with the same if ranks page as soon as they have more rows
        than ever, `safe` with parts that avoid this.  New parts must be better by more than chance
        explains, or by more than `tolerance`.  If paging is a risk, choose the safe parts if they
        are nearly as good; if not, parts of the models must be better by more than `tolerance`.
        """
        chance = DEVIATIONS * self._noise() / math.sqrt(max(int(self.n.max()), 1))
        most = 1 - min(chance, tolerance)
        if paging > STEEP * now:
            if safe <= (1 + tolerance) * bold and safe < most * now:
                return 2
            most = 1 - tolerance
        return int(bold < most * now)


class RowPartition:
    """Rows 0 to n - 1 of arrays, divided into a contiguous part for each rank, in order of rank.

    Each rank's part is timed while the program works on it; `redistribute` compares the times and
    moves rows if the times differ by more than `tol`.  The constructor is collective.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    n : int
        Number of rows, 0 or more.  Without `models`, each of the p ranks has n/p of them at first.
    model : {"fpm", "cpm", "power"}
        "fpm": a rank's speed is a function of its number of rows, fitted to all its timings (Clarke
        2010), which notices when a part becomes too large for a rank's memory.  "cpm": the speed is
        that of the last measurement (the traditional algorithm of the same paper).  "power": like
        "cpm", but the parts follow Dasgupta 2013, eq. 3 and 4, rounded by the largest remainder.
    tol : float
        Clarke's epsilon: times count as balanced up to this relative difference.  Infinity
        (without a `trigger`): parts are timed, but never changed.  "fpm" also keeps the parts if
        new parts would be better only by the noise, or by less than `tol` if they may cause paging.
    trigger : str or callable, optional
        When to move rows, as for `Balancer`.  ``"auto"`` moves them when it pays, judged by the
        costs and savings of previous moves.  Default: whenever times differ by more than `tol`.
    models : SpeedModels, optional
        Models that are known in advance; they determine the first parts.

    Examples
    --------
    >>> part, x = pylb.RowPartition(comm, 64, model="fpm"), np.arange(64.0)
    >>> mine = x[part.local]
    >>> for k in range(3):
    ...     with part.timed():
    ...         mine = np.sqrt(mine)
    ...     mine = part.redistribute(mine)
    >>> part.counts
    array([64])
    """

    _COUNTED, _AXES = "n", "rows"  # the argument that `_count` takes; axes that are divided
    counts: I64  #: (p,) rows (of a `TilePartition`: elements) of each rank.
    history: list[Division]  #: A record for each call of `redistribute`.
    models: SpeedModels  #: What is known of the ranks' speeds.

    def __init__(
        self,
        comm: Any,
        n: int,
        model: str = "fpm",
        *,
        tol: float = 0.05,
        trigger: TriggerLike = None,
        models: SpeedModels | None = None,
    ) -> None:
        self._agreement: Agreement = agreement_of(comm)
        transport = self._agreement.transport
        self.rank, self.size = transport.rank, transport.size
        with Attempt(DomainError) as tried:
            self.n = self._count(n)
            checks.one_of("model", model, MODELS)
            if not isinstance(tol, (int, float)) or not tol >= 0:
                raise DomainError(f"tol is {tol!r}: expected a relative difference, 0 or more")
            if models is not None:
                checks.instance("models", models, SpeedModels)
                if len(models) != self.size:
                    raise DomainError(f"models has {len(models)} ranks: expected {self.size}")
        # The repr of a function has its memory address, which differs between ranks.
        when = "a function" if callable(trigger) else repr(trigger)
        counted = f"{self._COUNTED}={getattr(self, self._COUNTED, n)}"
        words = f"{counted}, model={model!r}, tol={tol!r}, trigger={when}"
        known = () if models is None or tried.error else (models.start, models.rows, models.speed)
        self._calls = 0
        self._step(words, b"".join(a.tobytes() for a in known), tried.error)
        self._watch = Stopwatch(self._agreement.cores().clock("auto"))
        self.model, self.tol = model, tol
        self._decided = True  # False after an error: then the ranks' models may differ
        self.history = []
        self._agreement.together(Step.ROWS, lambda: self._begin(models, trigger))

    def _begin(self, models: SpeedModels | None, trigger: TriggerLike) -> None:
        """Make the models and the first parts."""
        if models is None:
            self.models = SpeedModels([((), ())] * self.size)
            counts = _core.apportion(np.ones(self.size), self.n)
        else:
            self.models = models.copy()
            counts = models.split(self.n)
        self._set(self._arrange(counts))
        self._repeats = Repeats(self.size)
        self._when = _When(self._agreement, trigger) if trigger is not None else None

    def _count(self, n: Any) -> int:
        """Return the number of elements to divide."""
        return checks.whole("n", n, 0, "a number of rows", 10**12 + 1)

    def _step(self, words: str, data: bytes = b"", error: Exception | None = None) -> None:
        """Check, in a collective step, that all ranks make the same call."""
        fingerprint = zlib.crc32(words.encode(errors="backslashreplace") + data)
        self._agreement.step(Step.ROWS, self._calls, (fingerprint, words), error=error)

    @property
    def decisions(self) -> History:
        """A receipt for each decision of the trigger; empty without one."""
        return History() if self._when is None else self._when.history

    @property
    def offsets(self) -> I64:
        """First row of each rank, and n; (p + 1,) int64."""
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def local(self) -> slice:
        """The rows of this rank."""
        return slice(*self.offsets[self.rank : self.rank + 2].tolist())

    def _arrange(self, counts: I64) -> I64:
        """Return (p, 2): first row and end of each rank's part; rank r gets ``counts[r]`` rows."""
        ends = np.cumsum(counts)
        return np.stack([ends - counts, ends], axis=1)

    def _set(self, parts: I64) -> None:
        self._boxes, self.counts = parts, sizes_of(parts)

    def __repr__(self) -> str:
        what = f"{self._COUNTED}={getattr(self, self._COUNTED)} on {self.size} ranks"
        each = f"{self.counts.min()} to {self.counts.max()} each"
        return f"<{type(self).__name__}: {what}, {each}>"

    @property
    def balanced(self) -> bool:
        """Whether the most recent `redistribute` moved nothing."""
        return bool(self.history) and self.history[-1].moved == 0

    def timed(self) -> AbstractContextManager[None]:
        """Time this rank's work on its rows; do not include waiting for other ranks.

        `redistribute` uses the mean of the blocks since its previous call, so all ranks need the
        same number of blocks.  A block that raises an error does not count.
        """
        return self._watch.work

    def redistribute(self, *arrays: Any) -> Any:
        """Compare the ranks' times, and move rows if the times differ by more than `tol`.

        Collective.  This is the step of Clarke 2010: all ranks learn the times; if the times differ
        by more than the tolerance, the model makes new parts.  With a `trigger`, the trigger
        decides when; "fpm" still keeps parts whose mean times differ by at most `tol`.  Only rows
        that change their rank are sent, directly to their new rank.  If arrays are not as expected,
        all ranks raise, and nothing has moved.

        `arrays` are this rank's rows of arrays or scipy.sparse matrices: of all that are divided by
        rows, in one call.  Returns this rank's new rows of each; if nothing has moved, the same
        arrays.
        """
        self._calls += 1
        words = ""
        with Attempt() as tried:
            words = ", ".join(self._describe(i, a) for i, a in enumerate(arrays))
            if not self._watch.work.used and self.counts[self.rank] > 0:
                raise StateError("redistribute() without a timed() block before it")
            if not self._decided:
                raise StateError("redistribute() failed before: expected a new partition")
        self._step(words, error=tried.error)
        n = max(self._watch.work.n, 1)
        own = np.array([self._watch.work.take() / n])
        every = self._agreement.transport.allgather(own)
        seconds = np.frombuffer(b"".join(every), np.float64)
        spread = self._spread(seconds)
        new = self._agreement.together(
            Step.ROWS, lambda: self._decide(seconds, spread > self.tol), self._calls
        )
        moved = int(self.counts.sum() - sizes_of(overlaps(self._boxes, new)).sum())
        if moved:
            arrays = self._move(arrays, new, moved)
        else:
            new = self._boxes  # no row moves; `new` may differ in the positions of empty parts
        self.history.append(Division(self.counts, seconds, spread, moved))
        self._set(new)
        return arrays[0] if len(arrays) == 1 else arrays

    def _describe(self, index: int, array: Any) -> str:
        own = tuple(np.diff(self._boxes[self.rank])[::2].tolist())
        sparse = len(own) == 1 and hasattr(array, "tocsr")
        if not (sparse or isinstance(array, np.ndarray)) or array.shape[: len(own)] != own:
            what = getattr(array, "shape", type(array).__name__)
            kinds = "an ndarray" + " or a matrix of scipy.sparse" * (len(own) == 1)
            raise DomainError(
                f"array {index} is {what}: expected {kinds} with the {self._AXES} of this rank, "
                f"{own} (pass all arrays in one call)"
            )
        checks.without_mask(f"array {index}", array)
        form = array.format if sparse else "array"
        return f"{form} of {array.dtype} (..., {', '.join(map(str, array.shape[len(own) :]))})"

    def _spread(self, seconds: F64) -> float:
        busy = seconds[self.counts > 0]
        if len(busy) == 0 or busy.max() <= 0.0:
            return 0.0
        return float((busy.max() - busy.min()) / max(busy.min(), 1e-9))

    def _decide(self, seconds: F64, due: bool) -> I64:
        """Learn from the times, and return the new parts."""
        self._decided = False
        sure = self._learn(seconds)
        if self._when is not None:
            due = self._when.asks(self._calls, seconds, self.models)
        new = self._divide() if sure and due else self._boxes
        self._decided = True
        return new

    def _learn(self, seconds: F64) -> bool:
        """Update the models with the times; return whether the times are reliable."""
        busy = self.counts > 0
        if not busy.any():
            return False
        if self.model != "fpm":
            self.models.constant(self.counts, seconds)
            return True
        near = busy & self.models.near(self.counts, NEAR)
        if near.any() and not self._repeats.n.any():
            self._repeats.predicted(seconds, self.models.times(self.counts), near)
        sure = self._repeats.observe(seconds, busy)
        self.models.update(self.counts, self._repeats.mean)
        return sure

    def _divide(self) -> I64:
        if self.model == "power":
            return self._arrange(_core.apportion(self.models.speeds(self.counts), self.n))
        if self.model == "cpm":
            return self._arrange(self.models.split(self.n))
        now = self._repeats.mean
        return self._boxes if self._spread(now) <= self.tol else self._functional(now.max())

    def _functional(self, now: float) -> I64:
        """Return new parts by the functional models, or the present parts if they are as good.

        A part of a size that was never measured may exceed its rank's memory.  So parts of measured
        sizes are preferred if they are slower by at most `tol` (`Repeats.choose`).
        """
        wary = self.models.wary()
        bold, safe = (self._arrange(models.split(self.n)) for models in (self.models, wary))
        prospects = (
            self._longest(self.models, bold),
            self._longest(wary, bold),
            self._longest(wary, safe),
        )
        chosen = self._repeats.choose(now, *prospects, self.tol)
        return (self._boxes, bold, safe)[chosen]

    @staticmethod
    def _longest(models: SpeedModels, parts: I64) -> float:
        return float(models.times(sizes_of(parts)).max())

    def _move(self, arrays: tuple[Any, ...], new: I64, moved: int) -> tuple[Any, ...]:
        """Move all arrays to the new parts; return this rank's part of each.  Collective."""
        start, when = _core.clock(), self._when

        def move() -> tuple[Any, ...]:
            if when is not None:
                self._decided = False
                when.moves(self.size)
            return self._exchange(arrays, new)

        out = self._agreement.together(Step.ROWS, move, self._calls)
        self._decided = True
        self._repeats.begin()
        if when is not None:
            took = {"seconds": ("max", _core.clock() - start)}
            slowest = self._agreement.reduce(Step.ROWS, self._calls, took)
            when.moved(self.counts, moved, slowest["seconds"])
        return out

    def _exchange(self, arrays: tuple[Any, ...], new: I64) -> tuple[Any, ...]:
        """Send pieces of this rank's part to their new ranks; return the new part of all arrays."""
        got = exchange_objects(
            *(self._agreement, Step.ROWS, self._calls, lambda: self._pieces(arrays, new)),
            arguments=(zlib.crc32(b"rows"), "rows"),
        )
        sources = sorted(got)
        places = slices_within(new[self.rank], self._boxes[sources])
        box = new[self.rank]
        shape = tuple((box[1::2] - box[0::2]).tolist())
        return tuple(
            join_pieces(array, shape, [got[source][i] for source in sources], places)
            for i, array in enumerate(arrays)
        )

    def _pieces(self, arrays: tuple[Any, ...], new: I64) -> dict[int, list[Any]]:
        """Cut this rank's part of all arrays into pieces; return the pieces by their new rank."""
        meets = sizes_of(overlaps(self._boxes[self.rank], new)) > 0
        forms = [array.tocsr() if hasattr(array, "tocsr") else array for array in arrays]
        to = np.flatnonzero(meets).tolist()
        places = slices_within(self._boxes[self.rank], new[to])
        return {rank: [array[at] for array in forms] for rank, at in zip(to, places, strict=True)}


# ---- tiles: a rectangle of a grid for each rank -------------------------------------------------


KEEP = 1.1  # old columns stay if their borders are at most 1.1 times as long as the shortest


def rectangles(share: ArrayLike, shape: Sequence[int], column: ArrayLike | None = None) -> I64:
    """Divide a grid into a rectangle for each rank, with the given shares and short borders.

    The method is column-based (Beaumont 2001): the grid is cut into columns, and each column into
    the rectangles of its ranks.  Before rounding (of widths and heights, by the largest remainder),
    the sum of the half perimeters is the smallest that columns allow.

    `share`, (p,), is the share of each rank, 0 or more, in any unit, e.g. its speed; `shape` is
    (rows, columns); `column`, (p,), is the column of each rank, by default that with the shortest
    borders.  Returns first row, end of the rows, first column and end of the columns of each rank.

    Examples
    --------
    >>> pylb.run.rectangles([32, 16, 16], (8, 8))
    array([[0, 8, 0, 4],
           [0, 4, 4, 8],
           [4, 8, 4, 8]])
    """
    rows, cols = _shape(shape)
    parts = checks.vector("share", share)
    return _boxes(parts, _columns(parts, rows, cols)[0] if column is None else column, rows, cols)


def _columns(share: F64, rows: float, cols: float) -> tuple[I64, float]:
    """Return the columns with the shortest borders, and the sum of their half perimeters.

    In the best columns, ranks have similar shares, so dynamic programming finds them.  Columns are
    numbered in the order of their lowest ranks.
    """
    _core.apportion(share, 0)  # checks the shares
    order = np.argsort(-share, kind="stable")
    order = order[share[order] > 0]
    above = np.concatenate([[0.0], np.cumsum(share[order])])
    # For the ranks with the k largest shares: the shortest borders, and where their last column
    # begins.  Ranks without a share stay in the column of the largest share.
    n = len(order)
    cost, begin, of = np.zeros(n + 1), np.zeros(n + 1, np.int64), np.zeros(len(share), np.int64)
    for k in range(1, n + 1):
        width = cols * (above[k] - above[:k]) / above[n]
        here = cost[:k] + rows + width * (k - np.arange(k))
        begin[k] = here.argmin()
        cost[k] = here[begin[k]]
    k = n
    while k > 0:
        of[order[begin[k] : k]] = begin[k]
        k = int(begin[k])
    _, first, column = np.unique(of, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[column], float(cost[n])


def _perimeters(share: F64, column: I64, rows: float, cols: float) -> float:
    """Return the sum of the half perimeters of exact rectangles."""
    busy, wide = np.bincount(column, share > 0), np.bincount(column, share) / share.sum()
    return float((rows + cols * wide * busy)[busy > 0].sum())


def _boxes(share: F64, column: Any, rows: int, cols: int) -> I64:
    """Return the rectangle of each rank; within a column, ranks keep their order."""
    p = len(share)
    column = checks.integers("column", column, np.int64)
    for i in np.flatnonzero((column < 0) | (column >= p))[:1].tolist():
        raise OutOfRangeError(f"column[{i}] is {column[i]}: expected 0 ... {p - 1}")
    width = _core.apportion(np.bincount(column, share, p), cols)
    right = np.cumsum(width)
    box = np.zeros((p, 4), np.int64)
    for c in np.unique(column).tolist():
        mine = np.flatnonzero(column == c)
        if share[mine].any():
            height = _core.apportion(share[mine], rows)
            box[mine, 1] = np.cumsum(height)
            box[mine, 0] = box[mine, 1] - height
        box[mine, 2:] = right[c] - width[c], right[c]
    return box


def _shape(shape: Any) -> tuple[int, int]:
    try:
        rows, cols = (operator.index(n) for n in shape)
    except (TypeError, ValueError):
        rows = cols = -1
    if not (0 <= rows <= 10**9 and 0 <= cols <= 10**9 and rows * cols <= 10**12):
        expected = "(rows, columns), each at most 1e9, product at most 1e12"
        raise DomainError(f"shape is {shape!r}: expected {expected}")
    return rows, cols


class TilePartition(RowPartition):
    """The elements of a grid, divided into a rectangle for each rank; see `RowPartition`.

    The rectangles are arranged in columns.  Ranks keep their positions in the columns as long as
    the borders are not much longer than the shortest possible ones, so that few elements move.
    `shape` is (rows, columns); the other arguments are those of `RowPartition`.

    Examples
    --------
    >>> part = pylb.TilePartition(comm, (8, 6))
    >>> mine = np.ones((8, 6))[part.local]
    >>> for k in range(3):
    ...     with part.timed():
    ...         mine += 1.0
    ...     mine = part.redistribute(mine)
    >>> part.boxes
    array([[0, 8, 0, 6]])
    """

    _COUNTED, _AXES = "shape", "rows and columns"

    def __init__(self, comm: Any, shape: Sequence[int], model: str = "fpm", **options: Any) -> None:
        super().__init__(comm, shape, model, **options)  # type: ignore[arg-type]

    def _count(self, n: Any) -> int:
        self.shape = _shape(n)
        return self.shape[0] * self.shape[1]

    @property
    def boxes(self) -> I64:
        """First row, end of the rows, first column, end of the columns of each rank; (p, 4)."""
        return self._boxes

    @property
    def local(self) -> tuple[slice, slice]:  # type: ignore[override]
        """The rows and columns of this rank."""
        first, end, left, right = self._boxes[self.rank].tolist()
        return slice(first, end), slice(left, right)

    def _arrange(self, counts: I64) -> I64:
        share = np.asarray(counts, float)
        if not share.any():
            share = np.ones(self.size)
        column, least = _columns(share, *self.shape)
        if hasattr(self, "_boxes"):
            old = np.unique(self._boxes[:, 2], return_inverse=True)[1]
            column = old if _perimeters(share, old, *self.shape) <= KEEP * least else column
        return _boxes(share, column, *self.shape)
