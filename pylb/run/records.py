"""The records of a run: metrics, loads, what LB steps have saved, and the file with all of it."""

from __future__ import annotations

import errno
import logging
import math
import os
from array import array
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import _core, files
from pylb.comm.agreement import Agreement, Stats, Step
from pylb.comm.cores import Cores, Used
from pylb.comm.parcel import gather_objects
from pylb.decide.receipts import History
from pylb.io import record_file
from pylb.io.run_record import Loop, RunFacts, Stretch
from pylb.model.machine import BEFORE, as_before, fractions, spans
from pylb.model.objects import NO_KEYS, Objects, database, used
from pylb.model.snapshot import F64, I32, I64
from pylb.run.cells import LocalCells
from pylb.run.local_objects import LocalObjects
from pylb.run.options import Answers, Options

MOST_ROWS = 1 << 17  # an `IterationLog` has fewer rows than this


class Row(NamedTuple):
    """Metrics of one iteration (see `IterationMetrics`), and number and bytes of its messages."""

    time: float
    max: float
    mean: float
    idle: float
    utilization: float
    min: float
    messages: float = 0.0
    nbytes: float = 0.0


# The column of the utilization: a row of several iterations has their minimum, not their mean.
LOWEST = Row._fields.index("utilization")


class IterationLog:
    """A row of metrics for each iteration so far.

    In a long run, a row is the mean of 2, 4, 8, ... iterations, so that there are always fewer than
    `MOST_ROWS` rows.
    """

    def __init__(self, width: int = len(Row._fields), lowest: int = LOWEST) -> None:
        self.span = 1  # number of iterations per row; the last row may have fewer
        self._width, self._lowest = width, lowest
        self._rows = array("d")  # the rows, one after the other
        self._open: list[Sequence[float]] = []  # iterations that are not in a row yet
        self._n = 0  # number of iterations

    @classmethod
    def restored(cls, table: F64, span: int, n: int) -> IterationLog:
        """Make a log of n iterations from the `table` and the `span` of another log."""
        out = cls(table.shape[1])
        whole = n // span  # rows with `span` iterations; the last row may have fewer
        out.span, out._n = span, n
        out._rows = array("d", table[:whole].tobytes())
        out._open = np.repeat(table[whole:], span, axis=0)[: n - whole * span].tolist()
        return out

    def __len__(self) -> int:
        return self._n

    def append(self, row: Sequence[float]) -> None:
        self._n += 1
        if self.span > 1:
            self._open.append(row)
            if len(self._open) < self.span:
                return
            row, self._open = self._mean(self._open), []
        self._rows.extend(row)
        if len(self._rows) >= MOST_ROWS * self._width:
            pairs = np.array(self._rows).reshape(-1, 2, self._width)
            means = pairs.mean(axis=1)
            if self._lowest < self._width:
                means[:, self._lowest] = pairs[:, :, self._lowest].min(axis=1)
            self._rows = array("d", means.tobytes())
            self.span *= 2

    def extend(self, rows: Sequence[Sequence[float]]) -> None:
        for row in rows:
            self.append(row)

    @property
    def last(self) -> Row | None:
        """The row of the most recent iteration, or a mean of several; None: there is none."""
        if not self._n:
            return None
        return Row(*(self._open[-1] if self._open else self._rows[-self._width :]))

    def table(self) -> F64:
        """Return the rows, (m, width)."""
        rows = array("d", self._rows)
        rows.extend(self._mean(self._open))
        return np.array(rows).reshape(-1, self._width)

    def first(self) -> I64:
        """Return the first iteration of each row, (m,)."""
        return np.arange(0, self._n, self.span)

    def _mean(self, rows: list[Sequence[float]]) -> list[float]:
        """Return one row for these iterations; [] if there are none."""
        columns = enumerate(zip(*rows, strict=True))
        return [min(x) if i == self._lowest else sum(x) / len(x) for i, x in columns]


def _processor_ticks() -> tuple[int, int]:
    """Return the clock ticks that other virtual machines used, and all ticks; see proc(5)."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0, 0)


class CoreWaits:
    """How this rank has used its cores, and waited for them, since the first loop began."""

    def __init__(self) -> None:
        self.cores = Cores()  # known after `begin`
        self._delay, self._ticks = 0.0, (0, 0)
        self._began = Used(0.0, 0.0, 0.0)

    def begin(self, agreement: Agreement) -> None:
        """Find out which ranks share cores.  Collective the first time."""
        if not self.cores.n_ranks:
            self.cores = agreement.cores()
            if self.cores.n_ranks:
                self._delay, self._ticks = _core.run_delay(), _processor_ticks()
                self._began = Used.now()

    def used(self) -> Used:
        """Return how much the cores of this rank were used since the first loop began."""
        if not self.cores.n_ranks:
            return self._began
        return Used(*(b - a for a, b in zip(self._began, Used.now(), strict=True)))

    def figures(self) -> dict[str, Any]:
        """Return these fields of a `Report`, unless they are 0 or empty; {} for virtual ranks."""
        if not self.cores.n_ranks:
            return {}
        stolen, every = (b - a for a, b in zip(self._ticks, _processor_ticks(), strict=True))
        out = {
            "cores": self.cores.words,
            "waited": max(_core.run_delay() - self._delay, 0.0),
            "stolen": stolen / every if every > 0 else 0.0,
        }
        return {name: value for name, value in out.items() if value}


# Without a lag, rank 0 gets the sums of the loads at least once in this many iterations.
SUMS_EVERY = 256
# With a lag, rank 0 gets the sums in LB steps; a rank stores them for fewer iterations than this.
MOST_SUMS = 1 << 14


class Saved:
    """The seconds that LB steps have saved, before their cost is subtracted."""

    def __init__(self, agreement: Agreement, core_waits: CoreWaits) -> None:
        self._agreement, self._me = agreement, agreement.transport.rank
        self._core_waits = core_waits
        self.total = 0.0  # seconds up to the most recent `update`, on all ranks; nan: not known
        self.others = 0.0  # number of cores that other programs used, if ranks waited for them
        self.log = IterationLog(1)  # on rank 0: seconds saved in each iteration since an LB step
        self.waits = False  # whether the loads include the time for which a rank waited for a core
        # Whether it is known where an object was created.  If not, assume that without LB steps,
        # each rank would still have the share of the loads that it had before the first LB step.
        self.keyed = True
        self.cores = Cores()  # the ranks that share cores; none if the loads are not measured
        self._begun = False  # whether an LB step has taken place: before it, nothing can be saved
        # Loads of this rank in the last iterations before the first LB step, in each phase.
        self._recent: list[list[float]] = []
        self._width = 1  # number of phases; 1 without phases
        # Parts (ranks, rows): n ranks where objects were created, and rows with n sums of loads:
        # one for each iteration, or one for each phase, as all ranks wait at the end of a phase.
        self._parts: list[tuple[I32, list[F64]]] = []
        self._kept = 0  # number of iterations in all parts
        self._homes: Any = None  # the array that `_slot` was made from
        self._slot: Any = None  # for each object, the index of its home in the last part's ranks
        self._until = 0  # number of iterations that `total` includes
        self._first = 0  # the first iteration of `log`

    def begin(self, done: int) -> None:
        """Start to add up loads if this LB step, after `done` iterations, is the first one."""
        if not self._begun:
            self._begun, self._until, self._first = True, done, done

    def cancel(self) -> None:
        """Forget that LB steps have begun: the program did not carry out the first one."""
        self._begun, self._parts, self._kept = False, [], 0

    def keep(self, loads: Sequence[F64] | F64, homes: Any, background: float) -> None:
        """Store the loads, (1 or d phases, n), of objects that were created on ranks `homes`."""
        self._width = len(loads)
        if not self._begun:
            own = [float(load.sum()) for load in loads]
            own[0] += background
            self._recent = [*self._recent[1 - BEFORE :], own]
            return
        if not self._parts or homes is not self._homes:  # begin a part, whose last rank is this one
            self._homes, every = homes, np.array([self._me], np.int32)
            guests = None if homes is None else homes != self._me
            if guests is not None and guests.any():
                others, slot = np.unique(homes[guests], return_inverse=True)
                every = np.append(others, every).astype(np.int32)
                self._slot = np.full(len(guests), len(others))
                self._slot[guests] = slot
            self._parts.append((every, []))
        ranks, rows = self._parts[-1]
        if self._kept >= MOST_SUMS:  # what LB steps have saved is then not known
            self._parts[:-1] = []
            rows.clear()
            self._kept = 0
        for load in loads:
            if len(ranks) > 1:
                row: F64 = np.bincount(self._slot, load, len(ranks))  # type: ignore[assignment]
            else:
                row = np.array([load.sum()])
            row[-1] += background
            background = 0.0  # it counts only in the first phase
            rows.append(row)
        self._kept += 1

    def is_due(self, done: int) -> bool:
        """Whether `update` is due after `done` iterations; the same on all ranks."""
        return self._begun and done % SUMS_EVERY == 0

    def update(self, done: int, speed: float | None, learned: Sequence[float]) -> None:
        """Compute what was saved up to now.  Collective, if an LB step has taken place.

        `speed` is the user's value for this rank; `learned`: the speeds of all ranks, or empty.
        """
        if not self._begun or done == self._until:
            return
        parts = [(ranks, np.array(rows)) for ranks, rows in self._parts]
        self._parts, self._kept = [], 0
        part = parts, self._recent, speed, self._width
        used = self._core_waits.used()
        whole = gather_objects(self._agreement, Step.WORTH, done - 1, (part, used))
        new = np.zeros(2)
        if whole:
            new[0] = self._evaluate([part for part, _ in whole.values()], learned, done)
            new[1] = self._core_waits.cores.others([used for _, used in whole.values()])
        self._agreement.transport.bcast(new, 0)
        self.total, self.others = self.total + float(new[0]), float(new[1])
        self._until = done

    def by_iteration(self, done: int) -> F64 | None:
        """On rank 0, return the seconds saved in each of `done` iterations; None: not known."""
        if math.isnan(self.total):
            return None
        known = np.repeat(self.log.table()[:, 0], self.log.span)[: max(done - self._first, 0)]
        out = np.zeros(done)
        out[self._first : self._first + len(known)] = known
        return out

    def _evaluate(self, whole: list[Any], learned: Sequence[float], done: int) -> float:
        p, d = len(whole), max(width for *_, width in whole)
        k = (done - self._until) * d
        if any(sum(map(len, (rows for _, rows in parts))) != k for parts, *_ in whole):
            return math.nan  # e.g. objects that ran at their own pace
        speed = np.array(learned or [own or 1.0 for _, _, own, _ in whole])
        sharing = (self.cores.group, self.cores.cores) if self.cores.shared else None
        now = np.array([np.concatenate([rows.sum(axis=1) for _, rows in x[0]]) for x in whole]).T
        worked = fractions(now, sharing if self.waits else None)
        was = np.zeros((k, p))  # sums of the loads by the ranks where objects were created
        for r, (parts, *_) in enumerate(whole):
            at = 0
            for ranks, rows in parts:
                here = slice(at, at := at + len(rows))
                was[here, ranks] += rows * worked[here, r, None] * (speed[r] / speed[ranks])
        if not self.keyed:
            n = min(len(recent) for _, recent, *_ in whole)
            some = [recent[len(recent) - n :] for _, recent, *_ in whole]
            before = np.array(some).reshape(p, n, d).T
            for j in range(d):
                own = np.ascontiguousarray(before[j])
                own *= fractions(own, sharing if self.waits else None)
                was[j::d] = as_before(own, (now * worked)[j::d])
        gain = spans(was, sharing) - spans(now * worked, sharing)
        gain = gain.reshape(-1, d).sum(axis=1)
        self.log.extend(gain[:, None].tolist())
        return float(gain.sum())


log = logging.getLogger("pylb")
# A disk is full, a file would be too large, or another run is recorded in the file.
STOPS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBUSY)
# Largest number of bytes of loads in the memory of a rank.  A file is extended when all ranks
# together have more than this.
KEPT_BYTES = 64 << 20
BESIDE = 512  # approximate bytes that an iteration or a `KeptLoads` takes besides its arrays
LATEST = 1.0  # a running program extends its file after iterations of more than this many seconds
# A running program also extends its file after each multiple of so many iterations.
WRITE_EVERY = 64


class KeptLoads(NamedTuple):
    """One rank's part of a `Stretch`: k iterations without a change of its n objects.

    `load` is (k, n); `edges`, (m, 5), are summed over `passes` iterations.
    """

    first: int
    objects: Objects
    load: F64
    edges: Any
    passes: int
    starts: bool = False
    phases: F64 | None = None


Kept = tuple[list[Stretch], F64]  # stretches, and the metrics of their iterations


class LoadHistory:
    """The loads of this rank's objects, stored until `gather` sends and deletes them.

    If `bounded`, at most `KEPT_BYTES` are stored; if not, the caller gathers when `is_due`.
    """

    def __init__(
        self, agreement: Agreement, objects: LocalObjects | LocalCells, bounded: bool
    ) -> None:
        self._agreement, self._objects, self._bounded = agreement, objects, bounded
        self._parts: list[KeptLoads] = []
        self._loads: list[F64] = []
        self._phases: list[F64] = []  # with phases: (n, d) for each of `_loads`
        self._known = Objects(NO_KEYS)  # the objects with loads in `_loads`
        self._version = -1  # value of `LocalObjects.version` for `_known`
        self._rows: list[Sequence[float]] = []  # metrics of the iterations, on rank 0
        self._first = self._rows_from = 0  # first iteration of `_loads`, and of `_rows`
        self._kept = 0  # bytes on this rank
        self._of_all = 0  # bytes on all ranks, without messages; the same on every rank
        self._changed = False  # whether objects came or went since the last iteration
        # Whether no more loads are stored: `KEPT_BYTES` is reached, or `Records.stop` was called.
        self.full = False

    def change(self) -> None:
        """End a part (`KeptLoads`), because a rank has added or removed objects.

        At the start of a loop, an empty part then lists the old objects, because the decision after
        the previous iteration was about them.
        """
        starts = self._agreement.last_step[0] == Step.START
        kept = bool(self._loads)
        self.cut()
        is_listed = bool(self._parts) and not len(self._parts[-1].load)
        if starts and self._first and not self.full and not is_listed:
            self._append(self._known, [])
        self._changed = kept and not starts

    def start(self) -> None:
        """List the objects in an empty part, because an LB step starts the loop."""
        if not self.full:
            self._append(self._objects.recorded().copy(), [], starts=True)

    def keep(self, parts: F64) -> None:
        """Store the loads of the iteration that has ended; `parts`, (d, n): by phase."""
        self._changed = False
        if not self.full:
            seconds = self._objects.seconds
            # Take the properties now: between loops, add() and remove() take effect immediately.
            if not self._loads or self._version != self._objects.version:
                self._known, self._version = self._objects.recorded().copy(), self._objects.version
            self._loads.append(seconds.copy())
            if len(parts):
                self._phases.append(parts.T.copy())
            self._count_kept(seconds.nbytes + parts.nbytes)
            self._of_all += 8 * self._objects.n_objects * (1 + len(parts))

    def _count_kept(self, nbytes: int) -> None:
        self._kept += BESIDE + nbytes
        self.full |= self._bounded and self._kept > KEPT_BYTES

    @property
    def is_due(self) -> bool:
        """Whether the ranks together store so many loads that they should `gather` them."""
        return self._of_all > KEPT_BYTES

    def figures(self, rows: Sequence[Sequence[float]]) -> None:
        """On rank 0, store the metrics of those iterations whose loads are stored."""
        if self._agreement.transport.rank == 0:
            self._rows += rows[: max(self.until - self._rows_from - len(self._rows), 0)]

    @property
    def until(self) -> int:
        """The first iteration whose loads have not been stored."""
        return self._first + len(self._loads)

    def cut(self) -> None:
        """End a part (`KeptLoads`), because the objects or their ranks change now.

        If objects have changed and no iteration has followed, the part lists the present objects.
        """
        if self._loads or self._changed:
            objects = self._known if self._loads else self._objects.recorded().copy()
            self._append(objects, self._loads)
            self._changed = False
            self._loads = []

    def _append(self, objects: Objects, loads: list[F64], starts: bool = False) -> None:
        load = np.array(loads).reshape(len(loads), len(objects))
        edges, passes = self._objects.edges(), max(self._objects.passes, 1)
        if self._parts:  # the first part is not counted, because every `gather` has one
            self._of_all += 8 * 5 * self._objects.n_objects
        phases = np.array(self._phases) if loads and self._phases else None
        self._phases = []
        self._parts.append(KeptLoads(self._first, objects, load, edges, passes, starts, phases))
        self._first += len(load)
        self._count_kept(objects.nbytes + edges.nbytes)

    def gather(self, iteration: int, *, forget: bool) -> tuple[list[Stretch], F64]:
        """On rank 0, return the stored loads and metrics; `forget` deletes them.  Collective."""
        if self._loads:  # only an LB step or the end of a loop ends a part without loads
            self.cut()
        whole = gather_objects(self._agreement, Step.RECORD, iteration, self._parts)
        rows = np.array(self._rows, np.float64).reshape(-1, len(Row._fields))
        if forget:
            self._parts, self._kept, self._of_all = [], 0, 0
            self._rows_from, self._rows = self._rows_from + len(rows), []
        return _stretches(whole), rows


def _stretches(whole: dict[int, list[KeptLoads]]) -> list[Stretch]:
    """Join the parts of the ranks, up to the last iteration that all ranks have."""
    out = []
    for parts in zip(*whole.values(), strict=False):
        k = min(len(part.load) for part in parts)
        most = max(len(part.load) for part in parts)
        if k or not most:
            out.append(_stretch(parts, k))
        if k < most:
            break
    return out


def _stretch(parts: tuple[KeptLoads, ...], k: int) -> Stretch:
    objects, rows, order = database(
        *([getattr(p, name) for p in parts] for name in ("objects", "edges", "passes"))
    )
    phases = [part.phases[:k] for part in parts if part.phases is not None]
    columns: dict[str, Any] = {name: objects[name] for name in used("recorded")}
    for name in used("optional"):  # None if some object does not have the property
        array = objects.columns.get(name, NO_KEYS)
        columns[name] = array if len(array) and np.isfinite(array).all() else None
    return Stretch(
        first=parts[0].first,
        key=objects.key,
        rank=objects["rank"],
        load=np.concatenate([part.load[:k] for part in parts], axis=1)[:, order],
        src=rows.src,
        dst=rows.dst,
        edge_bytes=rows.nbytes,
        edge_messages=rows.messages,
        edge_multicast=rows.multicast if rows.multicast.any() else None,
        starts=parts[0].starts,
        phases=np.concatenate(phases, axis=1)[:, order] if k and phases else None,
        **columns,
    )


class Records:
    """Everything that a rank records of a run."""

    def __init__(
        self, agreement: Agreement, objects: LocalObjects | LocalCells, options: Options
    ) -> None:
        self.agreement, self.objects, self.parameters = agreement, objects, options.parameters
        self.figures = IterationLog()  # metrics of each iteration, the same on every rank
        self.rank_loads = IterationLog(1)  # load of this rank in each iteration, (n, 1)
        # (n, 2 d): for each iteration, the largest loads of a rank in d phases, and d mean loads.
        self.phases: IterationLog | None = None
        self.loops: list[Loop] = []
        # The file that is extended during the run; None: loads stay in memory.
        self.path = None if isinstance(options.record, bool) else Path(files.named(options.record))
        self.loads = LoadHistory(agreement, objects, self.path is None)  # for `save` and `report`
        # All histories of loads; shadow mode adds another one.
        self.keepers = [] if options.record is False else [self.loads]
        self._writer: Any = None  # on rank 0: writes the file `path`
        # Whether the recording has stopped: the disk is full, or another run uses the file.
        self._stopped = False
        self.seconds = 0.0  # time in the loops on this rank
        self.core_waits = CoreWaits()
        self.saved = Saved(agreement, self.core_waits)
        self._facts = options.facts
        self.answers: list[Answers] = []  # on rank 0: properties of all ranks at each change
        self.lending: Callable[[], dict[str, Any]] = dict  # figures of `share`
        self.restored = False  # whether the run continues from a checkpoint
        self.would_save = math.nan  # in shadow mode: seconds that LB steps would have saved
        self._unwritten = 0.0  # seconds of iterations that the file does not have yet

    @property
    def done(self) -> int:
        """Number of iterations so far."""
        return len(self.figures)

    def keep(self, background: float) -> None:
        """Store the loads of this rank's objects in the iteration that has ended."""
        objects, parts = self.objects, self.objects.parts
        self.saved.keep(parts if len(parts) else (objects.seconds,), objects.homes, background)
        for history in self.keepers:
            history.keep(parts)

    def add(self, stats: Stats) -> None:
        """Add an iteration."""
        row = Row(
            stats.time_max,
            stats.load_max,
            stats.load_sum / stats.n_ranks,
            stats.idle_sum / stats.n_ranks,
            stats.utilization_min,
            stats.load_min,
            stats.messages,
            stats.message_bytes,
        )
        d, sums = stats.n_phases, stats.phases[stats.n_phases :]
        means = [total / stats.n_ranks for total in sums]
        self._add([row], [(*stats.phases[:d], *means)] if d else [])
        self._unwritten += stats.time_max  # time_max is the same on all ranks

    def extend(self, rows: F64) -> None:
        """Add iterations of a loop with a lag; `rows`, (m, 25): see `_core.AtSync.rows`."""
        self.rank_loads.extend(rows[:, 8:9].tolist())
        d = 2 * len(self.objects.phases or ())
        self._add(rows[:, :8].tolist(), rows[:, 9 : 9 + d].tolist() if d else [])

    def _add(self, figures: list[Any], phases: list[Any]) -> None:
        self.figures.extend(figures)
        if phases:
            d = len(phases[0])
            self.phases = self.phases or IterationLog(d, lowest=d)
            self.phases.extend(phases)
        for history in self.keepers:
            history.figures(figures)

    def all_parameters(self) -> dict[str, Any]:
        """Return the parameters, and the figures that a report needs; call it on rank 0."""
        out = {**self.parameters, **self.core_waits.figures(), **self.lending()}
        out["seconds"] = self.seconds
        if self.saved.cores.shared:
            cores, waits = self.saved.cores, self.saved.waits
            out["sharing"] = {"group": cores.group, "cores": cores.cores, "waits": waits}
        if self.saved.others:
            out["others"] = self.saved.others
        if not math.isnan(self.would_save):
            out["would_save"] = self.would_save
        return out if self.saved.keyed else {**out, "keyed": False}

    def restore(self, rows: F64, span: int, done: int) -> None:
        """Continue after the iterations of a checkpoint, whose loads per rank are not known."""
        self.figures = IterationLog.restored(rows, span, done)
        self.rank_loads = IterationLog.restored(np.full((len(rows), 1), np.nan), span, done)
        self.restored = True

    def begin(self, loop: Loop) -> None:
        """Add a loop; first drop the previous one if none of its loads were, or will be, stored."""
        beyond = all(history.full for history in self.keepers)
        if self.loops and beyond and self.loops[-1].first >= self.loads.until:
            self.loops.pop()
        self.loops.append(loop)

    def cut(self) -> None:
        """End the parts of all histories, because objects or their ranks change now."""
        for history in self.keepers:
            history.cut()

    def stop(self) -> None:
        """Store no more loads, because the ranks may now differ in their iterations or objects."""
        self.cut()
        for history in self.keepers:
            history.full = True

    @property
    def is_due(self) -> bool:
        """Whether it is time to extend the file."""
        return self.done % WRITE_EVERY == 0 or self._unwritten > LATEST or self.loads.is_due

    def tell_ranks(self) -> None:
        """Send the given properties of each rank to rank 0.  Collective if there are any."""
        if self._facts.words:
            self.answers += self._facts.of_all(self.done)
            first = self.answers[0][1] if self.answers else {}
            self.parameters = {**self.parameters, "ranks": first}

    def write(self, history: Callable[[], History]) -> None:
        """Extend the file of ``record=path``, if there is one.  Collective."""
        self._unwritten = 0.0
        if self.path is not None:
            self.tell_ranks()
            kept = self.loads.gather(self.done, forget=True)
            self.agreement.on_root(Step.RECORD, self.done, lambda: self._extend(kept, history()))

    def save(self, path: str | os.PathLike[str], history: History, loops: list[Loop]) -> int:
        """Write the record to a temporary file and rename it.  Collective.

        Rank 0 returns the number of iterations in the file; the other ranks return 0.
        """
        self.tell_ranks()
        kept = self.loads.gather(self.done, forget=False)

        def write() -> None:
            name = Path(files.named(path))
            with files.writing(name, "w+b") as file, closing(self._new_writer(file)) as writer:
                self._append(writer, kept, history, loops)

        self.agreement.on_root(Step.RECORD, self.done, write)
        return sum(s.iterations for s in kept[0])

    def written(self) -> list[Stretch]:
        """Return, on rank 0, what the file has so far; [] if another run overwrote it."""
        if self._writer is not None and not self._stopped:
            try:
                self._writer.check()
            except OSError as why:
                self._stop(why)
        return [] if self._writer is None else record_file.read(self.path).stretches  # type: ignore[arg-type]

    def _extend(self, kept: Kept, history: History) -> None:
        if self._stopped:
            return
        try:
            self._writer = self._writer or self._new_writer(self.path)
            self._writer.check()
            self._append(self._writer, kept, history, self.loops)
        except OSError as why:
            self._stop(why)

    def _stop(self, why: OSError) -> None:
        if why.errno not in STOPS:
            raise why
        self._stopped = True
        if why.errno == errno.EBUSY:
            self._writer = None
        log.warning("pylb: %s: the recording stops, and the run goes on: %s", self.path, why)

    def _new_writer(self, where: Any) -> Any:
        """Make an HDF5 writer for a path or a file."""
        n_ranks, n_objects = self.agreement.transport.size, self.objects.n_objects
        return record_file.Writer(where, n_ranks, self.all_parameters(), n_objects)

    def _append(self, writer: Any, kept: Kept, history: History, loops: list[Loop]) -> None:
        facts = RunFacts(
            parameters=self.all_parameters(),
            history=history,
            loops=loops,
            answers=self.answers,
            phases=self.objects.phases or (),
        )
        writer.extend(*kept, facts)
