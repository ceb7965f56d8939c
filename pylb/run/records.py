"""The records of a run: metrics of iterations, loads of objects, and the file with both."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import files
from pylb.comm.agreement import Agreement, Stats, Step
from pylb.comm.parcel import gather_objects
from pylb.decide.receipts import History
from pylb.io.run_record import Loop, Stretch
from pylb.model.snapshot import F64
from pylb.run.cells import LocalCells
from pylb.run.core_waits import CoreWaits
from pylb.run.iteration_log import IterationLog, Row
from pylb.run.load_database import Database, database
from pylb.run.local_objects import LocalObjects
from pylb.run.object_store import Properties
from pylb.run.options import Options
from pylb.run.rank_facts import Answers
from pylb.run.saved import Saved

log = logging.getLogger("pylb")
# A disk is full, a file would be too large, or another run is recorded in the file.
STOPS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBUSY)
# Largest number of bytes of loads that a rank keeps in memory; a file is extended when all ranks
# together keep more.
KEEP = 64 << 20
BESIDE = 512  # approximate bytes that an iteration or a `KeptLoads` takes besides its arrays
LATEST = 1.0  # a running program extends its file after iterations of more than this many seconds
EVERY = 64  # a running program also extends its file after each multiple of so many iterations


# The objects of a rank whose loads are recorded.  The records use: `n_objects`, `seconds`, `passes`
# (the number of iterations over which `edges` are summed), `facts()`, `edges()`, `version` (a
# number that changes whenever `facts()` changes for the same objects), and `more` (those properties
# in `object_store.FURTHER` that at least one object of this rank has).
RecordedObjects = LocalObjects | LocalCells


class KeptLoads(NamedTuple):
    """One rank's part of a `Stretch`: k iterations without a change of its n objects.

    facts: (n, 5); load: (k, n); edges: (m, 5); more: see `RecordedObjects`; starts: see `Stretch`.
    """

    first: int
    facts: Any
    load: F64
    edges: Any
    passes: int
    more: dict[str, Any]
    starts: bool = False


Kept = tuple[list[Stretch], F64]  # stretches, and the metrics of their iterations


class LoadHistory:
    """The loads of this rank's objects, kept until `gather` sends and deletes them.

    bounded: whether at most `KEEP` bytes are kept; otherwise the caller gathers when `is_due`.
    """

    def __init__(self, agreement: Agreement, objects: RecordedObjects, bounded: bool) -> None:
        self._agreement, self._objects, self._bounded = agreement, objects, bounded
        self._parts: list[KeptLoads] = []
        self._loads: list[F64] = []
        self._facts: Any = None  # properties of the objects whose loads are kept
        self._version = -1  # value of `RecordedObjects.version` for `_facts`
        self._more: dict[str, Any] = {}  # `RecordedObjects.more` after the last iteration
        self._rows: list[Sequence[float]] = []  # metrics of the iterations, on rank 0
        self._first = self._rows_from = 0  # first iteration of `_loads`, and of `_rows`
        self._kept = 0  # bytes on this rank
        self._of_all = 0  # bytes on all ranks, without messages; the same on every rank
        self._changed = False  # whether objects came or went since the last iteration
        # Whether no more loads are kept: `KEEP` is reached, or `Records.stop` was called.
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
            self._append(self._facts, [], self._more)
        self._changed = kept and not starts

    def start(self) -> None:
        """List the objects in an empty part, because an LB step starts the loop."""
        if not self.full:
            self._append(self._objects.facts(), [], self._objects.more, starts=True)

    def keep(self) -> None:
        """Keep the loads of the iteration that has ended."""
        self._changed = False
        if not self.full:
            seconds = self._objects.seconds
            # Take the properties now: between loops, add() and remove() take effect immediately.
            if not self._loads or self._version != self._objects.version:
                self._facts, self._version = self._objects.facts(), self._objects.version
            self._more = self._objects.more
            self._loads.append(seconds.copy())
            self._count_kept(seconds.nbytes)
            self._of_all += 8 * self._objects.n_objects

    def _count_kept(self, nbytes: int) -> None:
        self._kept += BESIDE + nbytes
        self.full |= self._bounded and self._kept > KEEP

    @property
    def is_due(self) -> bool:
        """Whether the ranks together keep so much that they should `gather` it."""
        return self._of_all > KEEP

    def figures(self, rows: Sequence[Sequence[float]]) -> None:
        """On rank 0, keep the metrics of iterations whose loads are kept."""
        if self._agreement.transport.rank == 0:
            self._rows += rows[: max(self.until - self._rows_from - len(self._rows), 0)]

    @property
    def until(self) -> int:
        """The first iteration whose loads have not been kept so far."""
        return self._first + len(self._loads)

    def cut(self) -> None:
        """End a part (`KeptLoads`), because the objects or their ranks change now.

        If objects have changed since the previous part and no iteration has followed, the part has
        no loads, and lists the objects that exist now.
        """
        if self._loads or self._changed:
            now = (self._facts, self._more)
            facts, more = now if self._loads else (self._objects.facts(), self._objects.more)
            self._append(facts, self._loads, more)
            self._changed = False
            self._loads = []

    def _append(
        self, facts: Any, loads: list[F64], more: dict[str, Any], starts: bool = False
    ) -> None:
        load = np.array(loads).reshape(len(loads), len(facts))
        edges, passes = self._objects.edges(), self._objects.passes
        more = {name: array.copy() for name, array in more.items()}
        if self._parts:  # the first part counts for nothing: each `gather` has one
            self._of_all += 8 * 5 * self._objects.n_objects
        self._parts.append(KeptLoads(self._first, facts, load, edges, passes, more, starts))
        self._first += len(load)
        self._count_kept(sum(x.nbytes for x in (facts, edges, *more.values())))

    def gather(self, iteration: int, *, forget: bool) -> tuple[list[Stretch], F64]:
        """On rank 0, return the kept loads, and the metrics of their iterations, (k, 8).

        Collective.  forget: whether all ranks delete the loads from their memory.
        """
        if self._loads:  # a part without loads is ended only by an LB step or the end of a loop
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
            out.append(_stretch(list(whole), parts, k))
        if k < most:
            break
    return out


def _stretch(ranks: list[int], parts: tuple[KeptLoads, ...], k: int) -> Stretch:
    db = database(
        [part.facts for part in parts],
        [part.edges for part in parts],
        [part.passes for part in parts],
    )
    where = np.repeat(np.array(ranks, np.int32), [len(part.facts) for part in parts])
    more = Properties.join([Properties(len(part.facts), part.more) for part in parts])
    return Stretch(
        parts[0].first,
        db.key,
        where[db.order],
        db.bytes,
        db.memory,
        db.migratable,
        np.concatenate([part.load[:k] for part in parts], axis=1)[:, db.order],
        db.src,
        db.dst,
        db.edge_bytes,
        db.edge_messages,
        db.home,
        db.edge_multicast if db.edge_multicast.any() else None,
        **{name: _sorted(array, db) for name, array in more.given.items()},
        starts=parts[0].starts,
    )


def _sorted(array: NDArray[Any], db: Database) -> NDArray[Any] | None:
    """Return a property of all objects, sorted by key; None: not all objects have it."""
    return array[db.order] if len(array) and np.isfinite(array).all() else None


class RecordWriter:
    """Writes a run record, after or during the run.  All ranks call it; rank 0 has the file.

    If the disk is full during the run, or the program begins to record another run in the same
    file, the recording ends, but the run continues.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(files.named(path))
        self._writer: Any = None
        self._stopped = False

    def write(self, records: Records, history: History) -> None:
        """Append the iterations since the previous call.  Collective."""
        records.tell_ranks()
        kept = records.loads.gather(records.done, forget=True)
        records.agreement.on_root(
            *(Step.RECORD, records.done),
            lambda: self._extend(records, kept, history),
        )

    def save(self, records: Records, history: History, loops: list[Loop]) -> int:
        """Write the record to a temporary file and rename it.  Collective.

        Rank 0 returns the number of iterations in the file; the other ranks return 0.
        """
        records.tell_ranks()
        kept = records.loads.gather(records.done, forget=False)
        records.agreement.on_root(
            Step.RECORD, records.done, lambda: self._write(records, kept, history, loops)
        )
        return sum(s.iterations for s in kept[0])

    def read(self) -> list[Stretch]:
        """Read what has been written so far, on rank 0; nothing if it was overwritten."""
        from pylb.io import h5

        if self._writer is not None and not self._stopped:
            try:
                self._writer.check()
            except OSError as why:
                self._stop(why)
        return [] if self._writer is None else h5.read(self.path).stretches

    def _extend(self, records: Records, kept: Kept, history: History) -> None:
        if self._stopped:
            return
        try:
            self._writer = self._writer or _make_writer(records, self.path)
            self._writer.check()
            _append(self._writer, kept, history, records.loops, records.answers)
        except OSError as why:
            self._stop(why)

    def _stop(self, why: OSError) -> None:
        if why.errno not in STOPS:
            raise why
        self._stopped = True
        if why.errno == errno.EBUSY:
            self._writer = None
        log.warning("pylb: %s: the recording stops, and the run goes on: %s", self.path, why)

    def _write(self, records: Records, kept: Kept, history: History, loops: list[Loop]) -> None:
        with files.writing(self.path, "w+b") as file:
            writer = _make_writer(records, file, seconds=records.seconds)
            try:
                _append(writer, kept, history, loops, records.answers)
            finally:
                writer.close()


def _make_writer(records: Records, where: Any, **also: float) -> Any:
    """Make an HDF5 writer for a path or a file; `also`: more parameters to record."""
    from pylb.io.h5 import Writer

    n_ranks, n_objects = records.agreement.transport.size, records.objects.n_objects
    parameters = {**records.all_parameters(), **also}
    return Writer(where, n_ranks, parameters, n_objects)


def _append(
    writer: Any, kept: Kept, history: History, loops: list[Loop], answers: list[Answers]
) -> None:
    stretches, rows = kept
    writer.loops(loops)
    writer.answers(answers)
    for s in stretches:
        at = s.first - stretches[0].first
        writer.append(s, rows[at : at + s.iterations], history)
    writer.receipts(history)


class Records:
    """Everything that a rank records of a run."""

    def __init__(self, agreement: Agreement, objects: RecordedObjects, options: Options) -> None:
        self.agreement, self.objects, self.parameters = agreement, objects, options.parameters
        self.figures = IterationLog()  # metrics of each iteration, the same on every rank
        self.rank_loads = IterationLog(1)  # load of this rank in each iteration, (n, 1)
        self.loops: list[Loop] = []
        in_memory = isinstance(options.record, bool)  # else a file is extended during the run
        self.loads = LoadHistory(agreement, objects, in_memory)  # for `save` and `report`
        # All histories of loads; shadow mode adds another one.
        self.keepers = [] if options.record is False else [self.loads]
        self.writer = None if in_memory else RecordWriter(options.record)  # type: ignore[arg-type]
        self.seconds = 0.0  # time in the loops on this rank
        self.core_waits = CoreWaits()
        self.saved = Saved(agreement, self.core_waits)
        self._facts = options.facts
        self.answers: list[Answers] = []  # on rank 0: properties of all ranks at each change
        self.restored = False  # whether the run goes on from a checkpoint
        self._unwritten = 0.0  # seconds of iterations that the file does not have yet

    @property
    def done(self) -> int:
        """Number of iterations so far."""
        return len(self.figures)

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
        self.figures.append(row)
        for history in self.keepers:
            history.figures((row,))
        self._unwritten += stats.time_max  # time_max is the same on all ranks

    def extend(self, rows: F64) -> None:
        """Add m iterations of a loop with a lag, (m, 9): a `Row`, then this rank's load."""
        figures = rows[:, :-1].tolist()
        self.figures.extend(figures)
        self.rank_loads.extend(rows[:, -1:].tolist())
        for history in self.keepers:
            history.figures(figures)

    def all_parameters(self) -> dict[str, Any]:
        """Return the parameters, and what is known of the cores; on rank 0."""
        out = {**self.parameters, **self.core_waits.figures()}
        if self.saved.cores.shared:
            cores, waits = self.saved.cores, self.saved.waits
            out["sharing"] = {"group": cores.group, "cores": cores.cores, "waits": waits}
        if self.saved.others:
            out["others"] = self.saved.others
        return out if self.saved.keyed else {**out, "keyed": False}

    def restore(self, rows: F64, span: int, done: int) -> None:
        """Continue after the iterations of a checkpoint, whose loads per rank are not known."""
        self.figures = IterationLog.restored(rows, span, done)
        self.rank_loads = IterationLog.restored(np.full((len(rows), 1), np.nan), span, done)
        self.restored = True

    def begin(self, loop: Loop) -> None:
        """Add a loop.

        If no more loads are kept (`record` is False, or all `keepers` are full), first drop the
        previous loop, unless some of its loads were kept.  So the list stays short.
        """
        beyond = all(history.full for history in self.keepers)
        if self.loops and beyond and self.loops[-1].first >= self.loads.until:
            self.loops.pop()
        self.loops.append(loop)

    def cut(self) -> None:
        """End the parts of all histories, because objects or their ranks change now."""
        for history in self.keepers:
            history.cut()

    def stop(self) -> None:
        """Stop keeping loads, because the ranks may now differ in their iterations or objects."""
        self.cut()
        for history in self.keepers:
            history.full = True

    @property
    def is_due(self) -> bool:
        """Whether it is time to extend the file."""
        return self.done % EVERY == 0 or self._unwritten > LATEST or self.loads.is_due

    def tell_ranks(self) -> None:
        """Send the given properties of each rank to rank 0.  Collective if there are any."""
        if self._facts.words:
            self.answers += self._facts.of_all(self.done)
            first = self.answers[0][1] if self.answers else {}
            self.parameters = {**self.parameters, "ranks": first}

    def write(self, history: Callable[[], History]) -> None:
        """Extend the file, if there is one.  Collective."""
        self._unwritten = 0.0
        if self.writer is not None:
            self.writer.write(self, history())
