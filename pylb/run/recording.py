"""What a rank keeps of its objects' loads, and how rank 0 makes a run record of all ranks'."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Kind
from pylb.decide.receipts import History
from pylb.io.run_record import Loop, Stretch
from pylb.model.snapshot import F64
from pylb.run.database import database
from pylb.run.messages import Mailbox
from pylb.run.objects import FACTS, Directory, Store

KEEP = 64 << 20  # bytes of loads that a rank keeps in memory
GATHER = 1 << 27  # loads of all ranks that a page is made of: 1 GiB on rank 0
LATEST = 1.0  # seconds of iterations, likewise
EVERY = 64  # iterations from one writing to the next, where the record is written as it comes


class Part(NamedTuple):
    """One rank's part of a stretch: facts of its objects (n, 5), loads (k, n), edges (m, 4)."""

    first: int
    facts: Any
    load: F64
    edges: Any
    passes: int


class Recording:
    """The loads of this rank's objects in every iteration that is not handed over yet.

    Attributes
    ----------
    full : bool
        No further iteration is kept: it would be more than `KEEP` bytes.
    """

    def __init__(self, agreement: Agreement, store: Store, mailbox: Mailbox) -> None:
        self._agreement = agreement
        self._store = store
        self._mailbox = mailbox
        self._parts: list[Part] = []
        self._loads: list[F64] = []
        self._facts: Any = None  # of the objects that those loads are of
        self._first = 0
        self._kept = 0
        self._changed = False  # objects have come or gone since the last iteration, on some rank
        self.full = False

    def change(self) -> None:
        """Objects come and go behind the last iteration, on some rank.

        At the start of a loop that is after what was decided on the last iteration, also where the
        loop before was left early: that was for the objects up to here, and it is said so.
        """
        starts = self._agreement.place[0] == Kind.START
        kept = bool(self._loads)
        self.cut()
        if starts and self._first and not self.full:
            self._append(self._facts, [])
        self._changed = kept and not starts

    def keep(self) -> None:
        """A pass is over."""
        self._changed = False
        if not self.full:
            if not self._loads:  # between two loops objects come and go at once
                self._facts = self._facts_now()
            self._loads.append(self._store.seconds.copy())
            self._kept += self._store.seconds.nbytes
            self.full = self._kept > KEEP

    def cut(self) -> None:
        """Something changes behind the last pass: the objects, where they are, who has asked.

        A part without iterations says which objects are left after the last one.
        """
        if self._loads or self._changed:
            self._append(self._facts if self._loads else self._facts_now(), self._loads)
            self._changed = False
            self._loads = []

    def _append(self, facts: Any, loads: list[F64]) -> None:
        load = np.array(loads).reshape(len(loads), len(facts))
        passes = max(self._store.passes, 1)
        self._parts.append(Part(self._first, facts, load, self._mailbox.edges(), passes))
        self._first += len(load)

    def _facts_now(self) -> Any:
        items = self._store.items.values()
        return np.array([item.facts() for item in items], np.int64).reshape(-1, FACTS)

    def gather(self, iteration: int, *, forget: bool) -> list[Stretch]:
        """Everything that all ranks have kept, on rank 0; empty on the others.  Collective."""
        self.cut()
        is_root = self._agreement.transport.rank == 0
        sends = [] if is_root else [(0, parcel.pack(self._parts))]
        _, received = self._agreement.step(Kind.RECORD, iteration, sends=sends)
        mine = self._parts
        if forget:
            self._parts, self._kept = [], 0
        if not is_root:
            return []
        whole = [(0, mine), *((rank, parcel.unpack(parts)) for rank, parts in received)]
        return _stretches(whole)


def _stretches(whole: list[tuple[int, list[Part]]]) -> list[Stretch]:
    """One for each cut; of the last ones only iterations that all ranks have kept."""
    out = []
    for parts in zip(*(mine for _, mine in whole), strict=False):
        k = min(len(part.load) for part in parts)
        most = max(len(part.load) for part in parts)
        if k or not most:
            out.append(_stretch([rank for rank, _ in whole], parts, k))
        if k < most:
            break
    return out


def _stretch(ranks: list[int], parts: tuple[Part, ...], k: int) -> Stretch:
    db = database(
        [part.facts for part in parts],
        [part.edges for part in parts],
        [part.passes for part in parts],
    )
    where = np.repeat(np.array(ranks, np.int32), [len(part.facts) for part in parts])
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
    )


class Scribe:
    """Writes a recording to a file, at once or as it comes.  On all ranks; rank 0 has the file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        agreement: Agreement,
        directory: Directory,
        parameters: dict[str, Any],
    ) -> None:
        self.path = Path(path)
        self._directory = directory
        self._agreement = agreement
        self._parameters = parameters
        self._writer: Any = None

    def write(
        self,
        recording: Recording,
        rows: F64,
        history: History,
        loops: list[Loop],
        iteration: int,
    ) -> None:
        """Append what was recorded since; the file is then complete up to there.  Collective."""
        stretches = recording.gather(iteration, forget=True)
        self._on_root(lambda: self._append(stretches, rows, history, loops), iteration)

    def save(
        self,
        recording: Recording,
        rows: F64,
        history: History,
        loops: list[Loop],
        iteration: int,
    ) -> int:
        """Write all, and only then give it its name; the number of iterations.  Collective."""
        stretches = recording.gather(iteration, forget=False)
        self._on_root(lambda: self._whole(stretches, rows, history, loops), iteration)
        return sum(s.iterations for s in stretches)

    def read(self) -> list[Stretch]:
        """What has been written so far, on rank 0."""
        from pylb.io import h5

        return [] if self._writer is None else h5.read(self.path).stretches

    def _on_root(self, call: Callable[[], None], iteration: int) -> None:
        error: Exception | None = None
        if self._agreement.transport.rank == 0:
            try:
                call()
            except Exception as why:
                error = why
        self._agreement.step(Kind.RECORD, iteration, error=error)

    def _append(
        self, stretches: list[Stretch], rows: F64, history: History, loops: list[Loop]
    ) -> None:
        from pylb.io.h5 import Writer

        if self._writer is None:
            self._writer = Writer(
                self.path,
                self._agreement.transport.size,
                self._parameters,
                len(self._directory.keys),
            )
        self._writer.loops(loops)
        for s in stretches:
            self._writer.append(s, rows[s.first : s.first + s.iterations], history)
        self._writer.receipts(history)

    def _whole(
        self, stretches: list[Stretch], rows: F64, history: History, loops: list[Loop]
    ) -> None:
        path, self.path = self.path, self.path.with_name(f".{self.path.name}.part")
        try:
            self._append(stretches, rows, history, loops)
            self._writer.close()
            self.path.replace(path)
        finally:
            self.path.unlink(missing_ok=True)
            self.path = path
