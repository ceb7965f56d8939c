"""pylb's own record of a run: loads, placements and messages of every iteration, and why."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pylb.decide.receipts import History
from pylb.errors import OutOfRangeError, UnknownKeyError
from pylb.io.made import COLLECTION
from pylb.model.snapshot import F64, I32, I64

if TYPE_CHECKING:
    from pylb.replay.trace import Trace

Arrays = dict[str, Any]
FIGURES = ("time", "max", "mean", "idle", "utilization", "min", "messages", "message_bytes")
"""Of an iteration, in the order of csrc/replay/trace.h."""


class Stretch(NamedTuple):
    """Iterations one behind the other with the same objects in the same places.

    Attributes
    ----------
    first : int
        Number of its first iteration.
    key : (n,) int64
        Of the objects, ascending.
    rank : (n,) int32
        Where they were.
    bytes, memory : (n,) int64
        What a migration sends, and what an object occupies; 0 and -1: not known.
    migratable : (n,) bool
    load : (k, n) float64
        Seconds of each object in each of the k iterations.
    src, dst : (m,) int32
        Indices of the objects that talk.
    edge_bytes, edge_messages : (m,) float64
        Per iteration, mean since the last balancing.
    home : (n,) int32
        Where they were created; below 0: not known.
    """

    first: int
    key: I64
    rank: I32
    bytes: I64
    memory: I64
    migratable: Any
    load: F64
    src: I32
    dst: I32
    edge_bytes: F64
    edge_messages: F64
    home: I32

    @property
    def iterations(self) -> int:
        """Number of iterations, k."""
        return len(self.load)


class Loop(NamedTuple):
    """A loop of the program (`Balancer.iterate`), and what was known of costs when it began.

    Attributes
    ----------
    first, n : int
        Its first iteration, and how many it was to have.
    cost : float
        Seconds that a first balancing was expected to cost; nan: not known.
    alpha, beta : float
        Seconds per message and per byte; nan: not measured.
    handling : float
        Seconds to pack an object; nan: not measured.
    steps : float
        Seconds of a balancing where nothing moves, without the strategy; nan: not measured.
    pace : float
        Seconds by the run's clock that pass in a second of computing: 1, unless ranks are virtual.
    """

    first: float
    n: float
    cost: float = math.nan
    alpha: float = math.nan
    beta: float = math.nan
    handling: float = math.nan
    steps: float = math.nan
    pace: float = 1.0


class Recorded(NamedTuple):
    """What a trace knows of the run that it was recorded in.

    Attributes
    ----------
    parameters : dict
        Of the balancer, by name.
    loops : list of Loop
    history : History
        The receipts.
    remaining : dict of (n,) int64
        By the number of iterations until then: keys of the objects that were left, where they are
        not those of the iteration before.
    """

    parameters: dict[str, Any]
    loops: list[Loop]
    history: History
    remaining: dict[int, I64]


@dataclass(frozen=True, eq=False, repr=False)
class RunRecord:
    """A run of a `Balancer`, as ``lb.save("run.h5")`` wrote it.

    Attributes
    ----------
    n_ranks : int
    parameters : dict
        What the balancer was given, by name, and the version of pylb.
    stretches : list of Stretch
    time, max, mean, idle, utilization, min : (m,) float64
        Of each iteration, as in `Iterations`.
    messages, message_bytes : (m,) float64
        Between ranks, in each iteration.
    history : History
        The receipts.
    loops : list of Loop
    remaining : dict of (n,) int64
        By the number of iterations until then: keys of the objects that were left, where objects
        had come or gone and the loop was at its end, or balanced.
    path : str

    Examples
    --------
    >>> run = pylb.RunRecord.read("run.h5")
    >>> run.history.table(), run.history.balancings[0].explain()
    >>> run.trace.replay("RefineLB", trigger="auto").time
    """

    n_ranks: int
    parameters: dict[str, Any]
    stretches: list[Stretch]
    time: F64
    max: F64
    mean: F64
    idle: F64
    utilization: F64
    min: F64
    messages: F64
    message_bytes: F64
    history: History = field(default_factory=History)
    loops: list[Loop] = field(default_factory=list)
    remaining: dict[int, I64] = field(default_factory=dict)
    path: str = ""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RunRecord:
        """Read a run record; one that was cut short up to its last complete iteration.

        Raises
        ------
        MissingFileError
            No such file.
        FormatError
            No run record, a newer version, or damaged.
        MissingPartError
            h5py is absent.
        """
        from pylb.io import h5

        return h5.read(path)

    @property
    def n_iterations(self) -> int:
        """Number of iterations, m."""
        return len(self.time)

    def at(self, iteration: int) -> Stretch:
        """The stretch that an iteration belongs to."""
        for stretch in self.stretches:
            if stretch.first <= iteration < stretch.first + stretch.iterations:
                return stretch
        raise OutOfRangeError(
            f"iteration is {iteration}: {self.path} has 0 ... {self.n_iterations - 1}"
        )

    @functools.cached_property
    def trace(self) -> Trace:
        """The same as a trace: for replay, triggers and optimum."""
        from pylb.replay.trace import Trace

        figures = np.stack([getattr(self, name) for name in FIGURES], axis=1)
        figures.flags.writeable = False
        speeds = [r.speed for r in self.history.balancings if r.moved]
        measured = np.array(speeds[-1]) if speeds and speeds[-1] else None
        return Trace(
            self.n_ranks,
            **trace_arrays(self.stretches),
            figures=figures,
            measured=measured,
            recorded=Recorded(self.parameters, self.loops, self.history, self.remaining),
        )

    def __repr__(self) -> str:
        return (
            f"<RunRecord: {self.n_iterations} iterations on {self.n_ranks} ranks, "
            f"{len(self.history.balancings)} balancings>"
        )


def trace_arrays(stretches: list[Stretch], known: I64 | None = None) -> Arrays:
    """The fields of the trace whose phases the iterations are.

    known: keys of entities that have numbers already, in their order.
    """
    known = np.zeros(0, np.int64) if known is None else known
    keys, first, which = np.unique(
        np.concatenate([known, *(s.key for s in stretches)]),
        return_index=True,
        return_inverse=True,
    )
    which = which[len(known) :]
    order = np.argsort(first)  # entities are numbered in order of their first task
    number = np.empty(len(keys), np.int32)
    number[order] = np.arange(len(keys), dtype=np.int32)
    every = np.concatenate(
        [np.zeros(len(known), np.int32), *(s.rank for s in stretches)], dtype=np.int32
    )
    fixed = np.ones(len(keys), bool)
    entity = number[which].astype(np.int32)
    np.logical_and.at(fixed, entity, _joined(stretches, "migratable", bool))
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    tasks, edges, at = [], [], 0
    for s in stretches:
        n, k = len(s.key), s.iterations
        mine = entity[at : at + n]  # in order of key, as the runtime's snapshots
        at += n
        tasks += [n] * k
        edges += [len(s.src)] * k
        for name, values in (
            ("phase_id", s.first + np.arange(k)),
            ("task_entity", np.tile(mine, k)),
            ("task_rank", np.tile(s.rank, k)),
            ("task_home", np.tile(s.home, k)),
            ("task_load", s.load.ravel()),
            ("task_bytes", np.tile(s.bytes, k)),
            ("task_memory", np.tile(np.maximum(s.memory, 0), k)),
            ("edge_src", np.tile(mine[s.src], k)),
            ("edge_dst", np.tile(mine[s.dst], k)),
            ("edge_bytes", np.tile(s.edge_bytes, k)),
            ("edge_messages", np.tile(s.edge_messages, k)),
        ):
            columns[name].append(values)
    out: Arrays = {
        name: np.concatenate([np.zeros(0, dtype), *columns[name]])
        for name, dtype in _COLUMNS.items()
    }
    out |= {
        "entity_key": keys[order],
        "entity_migratable": fixed,
        "entity_home": every[first[order]],
        "entity_collection": np.full(len(keys), COLLECTION, np.int64),
        "task_ptr": np.concatenate([[0], np.cumsum(tasks)]).astype(np.int64),
        "edge_ptr": np.concatenate([[0], np.cumsum(edges)]).astype(np.int64),
    }
    for array in out.values():
        array.flags.writeable = False
    homeless = bool((out["task_home"] < 0).any())
    return {**out, "task_home": None} if homeless else out


def stretches_of(trace: Trace) -> Iterator[Stretch]:
    """The phases of a trace as stretches: those one behind the other that differ in loads alone.

    Raises
    ------
    UnknownKeyError
        Two objects have the same key.
    """
    if len(np.unique(trace.entity_key)) < trace.n_entities:
        raise UnknownKeyError("the trace has two objects with the same key: expected one of each")
    alike: list[Stretch] = []
    for i in range(len(trace)):
        new = _stretch_of(trace, i)
        if alike and not _alike(alike[0], new):
            yield _as_one(alike)
            alike = []
        alike.append(new)
    if alike:
        yield _as_one(alike)


def _as_one(alike: list[Stretch]) -> Stretch:
    return alike[0]._replace(load=np.concatenate([s.load for s in alike]))


def _stretch_of(trace: Trace, i: int) -> Stretch:
    tasks = slice(*trace.task_ptr[i : i + 2].tolist())
    edges = slice(*trace.edge_ptr[i : i + 2].tolist())
    key = trace.entity_key[trace.task_entity[tasks]]
    order = np.argsort(key)
    place = np.full(trace.n_entities, -1, np.int32)
    place[trace.task_entity[tasks][order]] = np.arange(len(key), dtype=np.int32)
    n = len(key)

    def of_tasks(column: Any, default: int) -> I64:
        return np.full(n, default, np.int64) if column is None else column[tasks][order]

    return Stretch(
        i,
        key[order],
        trace.task_rank[tasks][order],
        of_tasks(trace.task_bytes, 0),
        of_tasks(trace.task_memory, -1),
        trace.entity_migratable[trace.task_entity[tasks]][order],
        trace.task_load[tasks][order][None],
        place[trace.edge_src[edges]],
        place[trace.edge_dst[edges]],
        trace.edge_bytes[edges],
        trace.edge_messages[edges],
        of_tasks(trace.task_home, -1).astype(np.int32),
    )


def _alike(a: Stretch, b: Stretch) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in Stretch._fields
        if name not in ("first", "load")
    )


_COLUMNS = {
    "phase_id": np.int64,
    "task_entity": np.int32,
    "task_rank": np.int32,
    "task_home": np.int32,
    "task_load": np.float64,
    "task_bytes": np.int64,
    "task_memory": np.int64,
    "edge_src": np.int32,
    "edge_dst": np.int32,
    "edge_bytes": np.float64,
    "edge_messages": np.float64,
}


def _joined(stretches: list[Stretch], name: str, dtype: Any) -> Any:
    return np.concatenate([np.zeros(0, dtype), *(getattr(s, name) for s in stretches)])


def rows(stretches: list[Stretch]) -> Iterator[tuple[int, Stretch, int]]:
    """(iteration, its stretch, its row there)."""
    for s in stretches:
        for i in range(s.iterations):
            yield s.first + i, s, i
