"""Run records in HDF5: flat arrays that only grow, so that a truncated file can still be read.

A stretch is a number of consecutive iterations with the same objects on the same ranks.  Each
dataset has the data of all stretches, one after the other; the table ``stretch`` has their lengths.
Missing data are found by checksums: one for the loads of each iteration, and one for the other
arrays of each stretch.  Receipts are numbered lines of JSON; a later line with the same number
replaces an earlier one.  Lines of ``changes`` replace parameters.  Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pylb._version import __version__
from pylb.decide.receipts import History, Receipt
from pylb.errors import FormatError
from pylb.files import begins, decoded, understood, writing
from pylb.io import hdf5
from pylb.io.hdf5 import SUFFIXES
from pylb.io.run_record import (
    FIGURES,
    MOST,
    OF_RANKS,
    Loop,
    RunData,
    RunFacts,
    Stretch,
    check_figures,
)
from pylb.model.objects import COLUMNS, used
from pylb.model.snapshot import F64

FORMAT = "pylb run"
VERSION = 8
READ = (6, 7, VERSION)  # version 6 has no phases, versions 6 and 7 have no shared data
OF_OBJECTS = ("key", "rank", *used("recorded"))
OF_EDGES = ("src", "dst", "edge_bytes", "edge_messages")
# Datasets that a stretch has completely or not at all.
OPTIONAL = ("edge_multicast", "coords", "work", "birth", "phases", "shared")
DTYPES: dict[str, Any] = {
    **{x: COLUMNS[x].dtype for x in used("recorded", "optional")},
    **dict.fromkeys(("rank", "src", "dst", "edge_multicast"), np.int32),
    **dict.fromkeys(("edge_bytes", "edge_messages", "load", "phases", *FIGURES), np.float64),
    **dict.fromkeys(("migratable", "receipts", "answers", "phase_names", "changes"), np.uint8),
    "key": np.int64,
    "load_check": np.uint32,
}
# Columns of the dataset ``stretch``; the last ones count the elements in `OPTIONAL` datasets.
STRETCH = ("first", "iterations", "objects", "edges", "check", *OPTIONAL)
# Elements of a chunk.  For loads: as many as objects, but at least `CHUNK`, at most `MOST_CHUNK`.
CHUNK, MOST_CHUNK = 1024, 1 << 17
STARTS = -1  # written as the number of iterations if `Stretch.starts`


class Writer:
    """Writes a run record, which grows with each call of `append`.

    `where` is as for `pylb.io.hdf5.Output`.  `n_objects` is the expected number of objects, for the
    chunk size of the loads.  Each method raises OSError if the disk is full.
    """

    def __init__(
        self,
        where: str | os.PathLike[str] | IO[bytes],
        n_ranks: int,
        parameters: dict[str, Any],
        n_objects: int = 0,
    ) -> None:
        self._out = hdf5.Output(where)
        self._file = self._out.h5
        self._out.text("format", FORMAT)
        self._file.attrs.update(version=VERSION, n_ranks=n_ranks)
        content = json.dumps({**parameters, "pylb": __version__}).encode()
        self._out.array("parameters", np.frombuffer(content, np.uint8))
        self._parameters = parameters
        for name, dtype in DTYPES.items():
            chunk = min(max(n_objects, CHUNK), MOST_CHUNK) if name == "load" else CHUNK
            self._file.create_dataset(name, (0,), dtype, maxshape=(None,), chunks=(chunk,))
        width = len(STRETCH)
        self._file.create_dataset(
            "stretch", (0, width), np.int64, maxshape=(None, width), chunks=(64, width)
        )
        width = len(Loop._fields)
        self._file.create_dataset(
            "loops", (0, width), np.float64, maxshape=(None, width), chunks=(16, width)
        )
        self._said: dict[int, str] = {}
        self._loops: list[Loop] = []
        self._n_answers = 0
        self._out.flush()

    def extend(self, stretches: list[Stretch], figures: F64, facts: RunFacts) -> None:
        """Append stretches, and what is new in the facts of the run.

        `figures` (k, 8) has the `FIGURES` of all iterations of these stretches.
        """
        if facts.loops != self._loops:  # write all again: costs are measured later
            self._loops = list(facts.loops)
            dataset = self._file["loops"]
            dataset.resize(len(self._loops), axis=0)
            dataset[:] = np.array(self._loops, np.float64).reshape(-1, len(Loop._fields))
            self._out.flush()
        # A single answer is not written, because the parameters contain it.
        if len(facts.answers) > 1:
            self._append_lines("answers", map(json.dumps, facts.answers[self._n_answers :]))
            self._n_answers = len(facts.answers)
        new = {k: v for k, v in facts.parameters.items() if self._parameters.get(k) != v}
        self._parameters = facts.parameters
        self._append_lines("changes", [json.dumps(new)] if new else [])
        if facts.phases and not len(self._file["phase_names"]):
            self._append_lines("phase_names", [json.dumps(facts.phases)])
        for s in stretches:
            at = s.first - stretches[0].first
            self.append(s, figures[at : at + s.iterations], facts.history)
        self.receipts(facts.history)

    def append(self, stretch: Stretch, rows: Any, history: History) -> None:
        """Append a stretch, the `FIGURES` of its iterations (k, 8), and the receipts so far."""
        load = np.ascontiguousarray(stretch.load)
        for name in (*OF_OBJECTS, *OF_EDGES):
            self._extend(name, getattr(stretch, name))
        self._extend("load", load.ravel())
        table = np.array(rows, np.float64).reshape(len(load), len(FIGURES))
        for i, name in enumerate(FIGURES):
            self._extend(name, table[:, i])
        counts = []
        for name in OPTIONAL:
            values = np.ravel([] if getattr(stretch, name) is None else getattr(stretch, name))
            self._extend(name, values)
            counts.append(len(values))
        head = (
            stretch.first,
            STARTS if stretch.starts else len(load),
            load.shape[1],
            len(stretch.src),
        )
        self._extend("load_check", [_check(row) for row in load])
        self._extend("stretch", [[*head, _check_of(stretch, table), *counts]])
        self.receipts(history)

    def receipts(self, history: History) -> None:
        """Append the receipts that are new or changed."""
        before, self._said = self._said, {}
        for i, receipt in enumerate(history):
            number = history.dropped.number(i)
            self._said[number] = json.dumps([number, receipt.to_dict()])
        self._append_lines("receipts", (x for i, x in self._said.items() if before.get(i) != x))
        self._out.flush()

    def _append_lines(self, name: str, lines: Iterable[str]) -> None:
        content = "".join(line + "\n" for line in lines)
        self._extend(name, np.frombuffer(content.encode(), np.uint8))

    def _extend(self, name: str, values: Any) -> None:
        if len(values):
            dataset = self._file[name]
            n = len(dataset)
            dataset.resize(n + len(values), axis=0)
            dataset[n:] = values

    def check(self) -> None:
        """Raise OSError if nothing more can be written."""
        self._out.check()

    def close(self) -> None:
        """Write everything to disk, and close the file."""
        self._out.close()


def write(run: RunData, path: str | os.PathLike[str]) -> None:
    """Write the record of a whole run; the file appears when it is complete."""
    n_objects = len(run.stretches[0].key) if run.stretches else 0
    # Objects that remain after iteration i - 1 are written before the iterations from i on.
    stretches = sorted(
        [*run.remaining.values(), *run.starting.values(), *run.stretches],
        key=lambda s: (s.first, s.iterations),
    )
    with (
        writing(path, "w+b") as file,
        contextlib.closing(Writer(file, run.n_ranks, run.parameters, n_objects)) as writer,
    ):
        writer.extend(stretches, run.figures, run)


def _check(array: Any) -> int:
    """Return a checksum that is never zero, because missing data read as zero."""
    return zlib.crc32(np.ascontiguousarray(array).tobytes()) | 1


def _check_of(stretch: Stretch, table: Any) -> int:
    """Return the checksum of all arrays except the loads."""
    out = zlib.crc32(np.ascontiguousarray(table).tobytes())
    for name in (*OF_OBJECTS, *OF_EDGES, *OPTIONAL):
        if (values := getattr(stretch, name)) is not None:
            out = zlib.crc32(np.ascontiguousarray(values, DTYPES[name]).tobytes(), out)
    return out | 1


# ---- reading --------------------------------------------------------------------------------


def is_record(path: str | os.PathLike[str]) -> bool:
    """Say whether the path has an HDF5 suffix, or the file begins with HDF5's signature."""
    if Path(decoded(path)).suffix in SUFFIXES:
        return True
    return begins(path, hdf5.SIGNATURE)


def read(path: str | os.PathLike[str]) -> RunData:
    """Read a run record; if it is truncated, read it up to its last complete iteration."""
    name = decoded(path)
    with understood(name, "a readable run record"), hdf5.reading(name, DTYPES, cut=True) as file:
        return _record(name, file)


def _record(name: str, file: hdf5.Input) -> RunData:
    version = file.number("version")
    if version not in (0, *READ):
        raise FormatError(f"{name}: version {version}: expected a run record of version {VERSION}")
    form = file.text("format")
    if form.startswith("pylb operations"):
        raise FormatError(
            f"{name}: a recording of MPI operations (pylb record), not a run record; to predict "
            f"from it: pylb whatif {name}"
        )
    if form != FORMAT:
        raise FormatError(f"{name}: an HDF5 file, but not a run record of pylb")
    n_ranks = file.number("n_ranks")
    if not 1 <= n_ranks < 2**31:
        raise FormatError(f"{name}: n_ranks is {n_ranks}: expected 1 or more")
    stretches, table, remaining, starting = _stretches(file, n_ranks)
    end = stretches[-1].first + stretches[-1].iterations if stretches else 0
    columns = [np.ascontiguousarray(column) for column in table.T]
    parameters = dict(json.loads(file.bytes("parameters")))
    for new in _lines(file, "changes"):
        parameters |= new if isinstance(new, dict) else {}
    return RunData(
        n_ranks=n_ranks,
        parameters=parameters,
        stretches=stretches,
        **dict(zip(FIGURES, columns, strict=True)),
        history=_history(file, end),
        loops=_loops_of(file, end, end in starting),
        remaining=remaining,
        starting=starting,
        answers=_answers(file, n_ranks),
        phases=tuple(json.loads(file.bytes("phase_names") or b"[]")),
        path=name,
    )


def _loops_of(file: hdf5.Input, end: int, starts: bool) -> list[Loop]:
    """Read the loops that have begun.

    `starts` says whether the last loop began with an LB step and has no complete iteration.
    """
    rows = file.rows("loops")
    loops = [] if rows is None else [Loop(*map(float, row)) for row in rows]
    known = [
        x for x in loops if x.first < end or end == 0 or (x.first == end and (x.n == 0 or starts))
    ]
    return known or [Loop(0, end)]


def _stretches(file: hdf5.Input, n_ranks: int) -> tuple[list[Stretch], Any, Any, Any]:
    """Return the stretches, the `FIGURES` of each iteration, and `remaining` and `starting`.

    If the last stretch is truncated, only its complete iterations are read.
    """
    out: list[Stretch] = []
    remaining: dict[int, Any] = {}
    starting: dict[int, Any] = {}
    tables = [np.zeros((0, len(FIGURES)))]
    at = dict.fromkeys(("objects", "edges", "iterations", "load", *OPTIONAL), 0)
    for first, k, n, m, check, *counts in _prefix(file):
        expected = out[-1].first + out[-1].iterations if out else 0
        more = dict.fromkeys(OPTIONAL, 0) | dict(zip(OPTIONAL, counts, strict=False))
        starts = k == STARTS
        k = max(k, 0) if starts else k
        if first != expected or min(k, n, m, *counts) < 0:
            break
        fields = {x: file.rows(x, at["objects"], n) for x in OF_OBJECTS}
        fields |= {x: file.rows(x, at["edges"], m) for x in OF_EDGES}
        fields |= {x: file.rows(x, at[x], count) for x, count in more.items() if count}
        iterations = [file.rows(x, at["iterations"], k) for x in FIGURES]
        if any(x is None for x in [*fields.values(), *iterations]):
            break
        table = np.stack(iterations, axis=1)
        for name in {"coords", "shared"} & {*fields}:
            fields[name] = fields[name].reshape(-1, 3)
        if "phases" in fields:
            fields["phases"] = fields["phases"].reshape(k, n, -1)
        load, complete = _loads(file, at["load"], at["iterations"], k, n)
        stretch = Stretch(first, load=load, **fields)
        if _check_of(stretch, table) != check:
            break
        stretch = stretch._replace(migratable=stretch.migratable.astype(bool))
        if stretch.phases is not None:
            stretch = stretch._replace(phases=stretch.phases[:complete])
        _check_values(stretch, n_ranks)
        check_figures(table, first)
        if starts:
            starting[first] = stretch._replace(starts=True)
        elif k == 0 and out:
            remaining.setdefault(first, stretch)
        if complete:
            out.append(stretch)
            tables.append(table[:complete])
        if complete < k:
            break
        more |= {"objects": n, "edges": m, "iterations": k, "load": k * n}
        for name, count in more.items():
            at[name] += count
    return out, np.concatenate(tables), remaining, starting


def _loads(file: hdf5.Input, at: int, iteration: int, k: int, n: int) -> tuple[Any, int]:
    """Read the loads of the complete iterations; return them and their number."""
    load, checks = np.zeros((0, n)), file.rows("load_check", iteration, k)
    whole = file.rows("load", at, k * n)
    if checks is None:
        return load, 0
    if whole is not None:
        load = whole.reshape(k, n)
    else:  # row by row, up to the first one that cannot be read
        some = (file.rows("load", at + i * n, n) for i in range(k))
        load = np.array(list(itertools.takewhile(lambda row: row is not None, some))).reshape(-1, n)
    good = [_check(row) == check for row, check in zip(load, checks, strict=False)]
    complete = good.index(False) if False in good else len(good)
    return load[:complete], complete


def _prefix(file: hdf5.Input) -> Iterator[tuple[int, ...]]:
    """Read the table of stretches, row by row, up to the first row that cannot be read."""
    for i in range(file.length("stretch")):
        row = file.rows("stretch", i, 1)
        if row is None:
            return
        yield tuple(map(int, row[0]))


def _check_values(s: Stretch, n_ranks: int) -> None:
    """Raise FormatError if a value is out of range; checksums show only missing data."""
    n, most = len(s.key), np.iinfo(np.int64).max
    allowed = {
        "rank": (0, n_ranks - 1),
        "home": (-1, n_ranks - 1),
        "nbytes": (0, most),
        "load": (0, MOST),
        "phases": (0, MOST),
        "work": (0, math.inf),
        "birth": (0, most),
        "coords": (-sys.float_info.max, sys.float_info.max),
        "shared": (-1, most),
        "src": (0, n - 1),
        "dst": (0, n - 1),
        "edge_bytes": (0, MOST),
        "edge_messages": (0, MOST),
    }
    rows = {**dict.fromkeys(used("optional"), n), "edge_multicast": len(s.src)}
    wrong = [] if np.all(np.diff(s.key) > 0) else ["key"]
    for name in {**rows, **allowed}:
        values = getattr(s, name)
        if values is not None and len(values) != rows.get(name, len(values)):
            wrong.append(name)
        elif values is not None and values.size and name in allowed:
            low, high = allowed[name]
            wrong += [name] * (not (low <= values.min() and values.max() <= high))
    if wrong:
        raise FormatError(f"{wrong[0]} is out of range from iteration {s.first} on")


def _answers(file: hdf5.Input, n_ranks: int) -> list[tuple[int, Any]]:
    out: list[tuple[int, Any]] = []
    for moment, given in _lines(file, "answers"):
        if not {*given} <= {*OF_RANKS} or any(len(row) != n_ranks for row in given.values()):
            raise FormatError(f"answers: expected {', '.join(OF_RANKS)}, one number for each rank")
        out.append((int(moment), given))
    return out


def _lines(file: hdf5.Input, name: str) -> Iterator[Any]:
    """Yield the lines of JSON of a dataset, without those that are missing or incomplete."""
    for line in file.bytes(name).split(b"\n"):
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _history(file: hdf5.Input, end: int) -> History:
    """Read the receipts of iterations before `end`, in order."""
    content: dict[int, Any] = {}
    for line in _lines(file, "receipts"):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            i, fields = line
            content[i] = Receipt.from_dict(fields)
    return History(content[i] for i in sorted(content) if content[i].iteration < end)
