"""Run records: HDF5 from Python programs, JSON from the C library (``csrc/lib/record.c``).

The HDF5 file has flat arrays that only grow, so that a truncated file can still be read.

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
from pylb.decide.decider import receipt_of
from pylb.decide.receipts import History, Receipt
from pylb.errors import FormatError
from pylb.files import begins, decoded, json_of, understood, writing
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
    """Writes a run record, which grows with each call of `extend`.

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
        for name, dtype, rows, width in (
            ("stretch", np.int64, 64, len(STRETCH)),
            ("loops", np.float64, 16, len(Loop._fields)),
        ):
            limits = {"maxshape": (None, width), "chunks": (rows, width)}
            self._file.create_dataset(name, (0, width), dtype, **limits)
        self._said: dict[int, str] = {}
        self._n_answers = 0
        self._out.flush()

    def extend(self, stretches: list[Stretch], figures: F64, facts: RunFacts) -> None:
        """Append stretches with the `FIGURES` of their iterations (k, 8), and new facts."""
        loops = self._file["loops"]  # all again, because costs are measured later
        loops.resize(len(facts.loops), axis=0)
        loops[:] = np.array(facts.loops, np.float64).reshape(-1, len(Loop._fields))
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
            self._append(s, np.ascontiguousarray(figures[at : at + s.iterations], np.float64))
        before, self._said = self._said, {}
        for i, receipt in enumerate(facts.history):
            number = facts.history.dropped.number(i)
            self._said[number] = json.dumps([number, receipt.to_dict()])
        self._append_lines("receipts", (x for i, x in self._said.items() if before.get(i) != x))
        self._out.flush()

    def _append(self, stretch: Stretch, table: F64) -> None:
        load = np.ascontiguousarray(stretch.load)
        columns = {name: getattr(stretch, name) for name in (*OF_OBJECTS, *OF_EDGES, *OPTIONAL)}
        columns |= {"load": load, "load_check": [_check(row) for row in load]}
        columns |= dict(zip(FIGURES, table.T, strict=True))
        columns = {name: np.ravel([] if x is None else x) for name, x in columns.items()}
        for name, values in columns.items():
            self._extend(name, values)
        k, n = (STARTS if stretch.starts else len(load)), load.shape[1]
        counts = (len(columns[name]) for name in OPTIONAL)
        check = _check_of(stretch, table)
        self._extend("stretch", [[stretch.first, k, n, len(stretch.src), check, *counts]])
        self._out.flush()  # so that this stretch can be read if the disk is full later

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
    stretches = [*run.remaining.values(), *run.starting.values(), *run.stretches]
    stretches.sort(key=lambda s: (s.first, s.iterations))
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


def is_record(path: str | os.PathLike[str]) -> bool:
    """Say whether a file is a run record, by its suffix or its first bytes."""
    suffix = Path(decoded(path)).suffix
    return suffix in SUFFIXES or begins(path, hdf5.SIGNATURE) or begins(path, JSON_START)


def read(path: str | os.PathLike[str]) -> RunData:
    """Read a run record; if HDF5 is truncated, read it up to its last complete iteration."""
    name = decoded(path)
    with understood(name, "a readable run record"):
        if begins(name, JSON_START):
            return _of_json(name, json_of(name))
        with hdf5.reading(name, DTYPES, cut=True) as file:
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
    parameters = dict(json.loads(file.bytes("parameters")))
    for new in _lines(file, "changes"):
        parameters |= new if isinstance(new, dict) else {}
    return RunData(
        n_ranks=n_ranks,
        parameters=parameters,
        stretches=stretches,
        **dict(zip(FIGURES, table.T.copy(), strict=True)),
        history=_history(file, end),
        loops=_loops_of(file, end, end in starting),
        remaining=remaining,
        starting=starting,
        answers=_answers(file, n_ranks),
        phases=tuple(json.loads(file.bytes("phase_names") or b"[]")),
        path=name,
    )


def _loops_of(file: hdf5.Input, end: int, starts: bool) -> list[Loop]:
    """Read the loops that have begun; `starts`: the last one only with an LB step."""
    rows = file.rows("loops")
    loops = () if rows is None else (Loop(*map(float, row)) for row in rows)
    known = [
        x for x in loops if x.first < end or end == 0 or (x.first == end and (x.n == 0 or starts))
    ]
    return known or [Loop(0, end)]


def _stretches(file: hdf5.Input, n_ranks: int) -> tuple[list[Stretch], Any, Any, Any]:
    """Return the stretches, the `FIGURES` of each iteration, and `remaining` and `starting`."""
    out: list[Stretch] = []
    remaining: dict[int, Any] = {}
    starting: dict[int, Any] = {}
    tables = [np.zeros((0, len(FIGURES)))]
    at = dict.fromkeys(("objects", "edges", "iterations", "load", *OPTIONAL), 0)
    rows = (file.rows("stretch", i, 1) for i in range(file.length("stretch")))
    for row in itertools.takewhile(lambda row: row is not None, rows):
        first, k, n, m, check, *counts = map(int, row[0])
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
    checks, load = file.rows("load_check", iteration, k), file.rows("load", at, k * n)
    if checks is None:
        return np.zeros((0, n)), 0
    if load is None:  # row by row, up to the first one that cannot be read
        rows = (file.rows("load", at + i * n, n) for i in range(k))
        load = np.array([*itertools.takewhile(lambda row: row is not None, rows)])
    load = load.reshape(-1, n) if n else np.zeros((k, 0))
    good = [_check(row) == check for row, check in zip(load, checks, strict=False)]
    complete = [*good, False].index(False)
    return load[:complete], complete


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
        values, (low, high) = getattr(s, name), allowed.get(name, (-math.inf, math.inf))
        if values is not None and (
            len(values) != rows.get(name, len(values))
            or (values.size and not low <= values.min() <= values.max() <= high)
        ):
            wrong.append(name)
    if wrong:
        raise FormatError(f"{wrong[0]} is out of range from iteration {s.first} on")


def _answers(file: hdf5.Input, n_ranks: int) -> list[tuple[int, Any]]:
    out = [(int(moment), given) for moment, given in _lines(file, "answers")]
    for _, given in out:
        if not {*given} <= {*OF_RANKS} or any(len(row) != n_ranks for row in given.values()):
            raise FormatError(f"answers: expected {', '.join(OF_RANKS)}, one number for each rank")
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


# ---- records of the C library ----------------------------------------------------------------


JSON_FORMAT, JSON_VERSION = "pylb advisor", 1
JSON_START = f'{{"format": "{JSON_FORMAT}"'.encode()
SETTINGS = (
    *("pylb", "strategy", "strategy_params", "trigger", "trigger_params"),
    *("mode", "lag", "seed", "clock", "pause_if_useless"),
)


def _of_json(name: str, record: dict[str, Any]) -> RunData:
    """Return the run of a record.  Each rank counts as one object, with its load in each step."""
    if record.get("format") != JSON_FORMAT:
        raise FormatError(f"{name}: JSON, but not a run record of pylb's C library")
    if record["version"] != JSON_VERSION:
        raise FormatError(f"{name}: version {record['version']}: expected version {JSON_VERSION}")
    figures = np.array(record["figures"], np.float64).reshape(-1, len(FIGURES))
    p = int(record["n_ranks"])
    load = np.array(record["loads"], np.float64).reshape(p, -1).T
    if len(load) != len(figures) or not ((load >= 0) & (load <= MOST)).all():
        raise FormatError(
            f"{name}: loads: expected numbers from 0 to {MOST:g} for each of {len(figures)} steps"
        )
    check_figures(figures)
    columns: dict[str, Any] = dict(zip(FIGURES, figures.T, strict=True))
    parameters = {word: record[word] for word in SETTINGS}
    parameters |= {word: record[word] for word in ("cores",) if word in record}
    if known := record.get("sharing"):  # assume that successive ranks are on the same host
        n = max(int(known["ranks"]), 1)
        group = [r // n * n for r in range(p)]
        parameters["sharing"] = {**known, "group": group, "cores": [known["cores"]] * p}
    return RunData(
        n_ranks=p,
        stretches=[_stretch(load)] if len(load) else [],
        parameters=parameters | {"advisor": True, "keyed": False},
        history=History(_receipt(row, record) for row in record["receipts"]),
        loops=[Loop(0, len(load))],
        path=name,
        **columns,
    )


def _stretch(load: F64) -> Stretch:
    """Return a stretch with one object per rank, which may not migrate."""
    p = load.shape[1]
    rank, none, nothing = np.arange(p, dtype=np.int32), np.zeros(0, np.int32), np.zeros(0)
    objects = np.arange(p), rank, np.zeros(p, np.int64), np.full(p, -1), np.zeros(p, bool)
    return Stretch(0, *objects, load, none, none, nothing, nothing, home=rank)


def _receipt(row: dict[str, Any], record: dict[str, Any]) -> Receipt:
    def number(x: Any) -> Any:
        return math.nan if x is None else x

    known = {k: number(v) for k, v in row.items()}
    known["speed"] = tuple(row["speed"])
    known["alternatives"] = [list(map(number, pair)) for pair in row["alternatives"]]
    return receipt_of(known, record["strategies"], record["trigger"], record["seed"])
