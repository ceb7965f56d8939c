"""A recorded run as arrays that hold all its phases, one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from pylb.errors import DomainError, OutOfRangeError
from pylb.io import vt
from pylb.io.run_record import OF_RANKS, RunFacts
from pylb.model import checks
from pylb.model.snapshot import F64, I32, I64, Rows, Snapshot

# The collection id that is written for entities without a collection.  It distinguishes them from
# the task without a collection id that vt appends to phase 0.
COLLECTION = 0
Bool = NDArray[np.bool_]
Self = TypeVar("Self", bound="Phases")


def check_trace(trace: Any) -> None:
    """Check that the argument `trace` of a public function is a `Trace`."""
    checks.instance("trace", trace, Phases, "Trace, e.g. RunRecord.trace")


@dataclass(frozen=True, eq=False, repr=False)
class Phases:
    """The phases of a run, stored as arrays; ``trace[i]`` is phase i as a `Snapshot`.

    An entity is an object of the run; a task is an entity in one phase.  Arrays over tasks and
    edges have the phases one after the other: phase i has the tasks
    ``task_ptr[i]:task_ptr[i + 1]``.  Arrays over phases, objects, tasks and edges are read-only.

    Examples
    --------
    >>> trace = pylb.Trace.load("run.h5")
    >>> trace.n_ranks, len(trace), trace[0].n_objects
    (8, 200, 128)
    """

    n_ranks: int
    phase_id: I64  #: (m,) ids of the phases as recorded, increasing.
    #: (n,) the ``id`` of the object in the record, or its ``seq_id``.  vt's ids are unsigned: those
    #: from 2**63 on appear as negative numbers.  In vt, two objects may have the same id if their
    #: homes differ, or if only one may migrate.  If a run has such objects, its keys are
    #: ``id * 2**18 + home * 4 + 2 + migratable``, as in vt's own ``id``.  Otherwise, two entities
    #: have the same key only if the program removed an object and added another one with its key.
    entity_key: I64
    entity_migratable: Bool  #: (n,) whether the object may migrate, at least in some phases.
    #: (n,) the object's ``home`` in vt's files; in other traces, the rank of its first task.
    entity_home: I32
    #: (n,) id of the collection of vt to which the object belongs; -1 if none.
    entity_collection: I64
    task_ptr: I64  #: (m + 1,)
    #: (t,) entity of each task.  The tasks of a phase are sorted by rank; on a rank they are in
    #: the order of the record.  An entity occurs at most once in a phase.
    task_entity: I32
    task_rank: I32  #: (t,) the rank where the task was recorded.
    task_load: F64  #: (t,) seconds.
    #: (t,) bytes that a migration sends.  In vt's files: ``task_serialized_bytes``, else
    #: ``task_footprint_bytes``, else 0; None if no task has either.
    task_bytes: I64 | None
    #: (t,) bytes that the object occupies.  In vt's files: ``task_footprint_bytes``, else
    #: ``task_working_bytes``, else 0; None if no task has either.
    task_memory: I64 | None
    edge_ptr: I64  #: (m + 1,)
    #: (e,) the two entities of each edge; both are tasks of the phase.
    edge_src: I32
    edge_dst: I32
    #: (e,)
    edge_bytes: F64
    edge_messages: F64
    #: (e,) index of the multicast of the edge, from 1; 0 if it is in none.  The edges of a
    #: multicast follow each other, and each has the multicast's sender, bytes and messages.  None
    #: if there are no multicasts.
    edge_multicast: I32 | None = None
    #: (e,) index into `COMM_TYPES`.  None if every edge is a SendRecv.
    edge_type: NDArray[np.uint8] | None = None
    #: (p,) as in a `Snapshot`.  None for a record of vt.
    speed: F64 | None = None
    background: F64 | None = None
    memory_limit: I64 | None = None  #: (p,) bytes that the objects of each rank may occupy.
    node_memory_limit: I64 | None = None  #: (p,) as in a `Snapshot`.
    node: I32 | None = None  #: (p,) and (2,), as in a `Snapshot`: nodes and distances.
    near: F64 | None = None
    task_coords: F64 | None = None  #: (t, 3) positions of the objects.
    #: (t,) index in ``block_bytes`` of the data that the object shares with others; -1 if none.
    #: ``block_bytes`` (b,) and ``block_home`` (b,) are the bytes and the home ranks of these data.
    task_block: I32 | None = None
    block_bytes: I64 | None = None
    block_home: I32 | None = None
    #: (t,) the user's estimates of the objects' work in any unit; 0 if not known.
    task_work: F64 | None = None
    #: (t,) whether the object may migrate after the phase; None: as in `entity_migratable`.
    task_migratable: Bool | None = None
    #: (n,) a number that differs between two objects that had the same key at different times.
    #: None if no key was used again.
    entity_birth: I64 | None = None
    #: (t,) the rank where the object was created.  None: the rank of its first phase.
    task_home: I32 | None = None
    #: (t,) measured seconds of each task on its rank, if the program gave the speeds of the ranks;
    #: ``task_load`` is then work, i.e. seconds times speed.
    task_seconds: F64 | None = None
    #: (t, d) seconds of each task in the d parts of its phase; all ranks wait at the end of a part.
    #: (Work instead of seconds, if ``task_load`` is work and ``task_seconds`` is None.)  The parts
    #: are ``subphases`` in vt's files, and the phases of an iteration in a run record.  None if
    #: there are no parts, or more than 8.
    task_subphases: F64 | None = None
    #: (p,) speeds that the run has learned for its ranks; the loads are seconds on ranks of these
    #: speeds.  None if the speeds are equal.
    measured: F64 | None = None
    figures: F64 | None = None  #: (m, 8) measurements of each phase: `pylb.io.run_record.FIGURES`.
    #: (p,) the lowest of the ranks that share cores with each rank.  None if none do.
    core_group: I32 | None = None
    #: (p,) number of cores that the rank and those of its group share.
    group_cores: F64 | None = None
    waits: bool = False  #: Whether loads include the time for which a rank waited for a core.
    #: Parameters, loops and receipts of the run, if pylb recorded it.
    recorded: RunFacts | None = None
    #: Number of recorded communications that are not edges of the trace, because one end is not a
    #: task of the phase: it is a node, or an object without a task.  `communications()` and `save`
    #: include them.
    dangling_edges: int = 0
    skipped: tuple[int, ...] = ()  #: Ids of phases that the run did not record.
    _run: vt.Run | None = None
    _phases: I64 | None = None

    COMM_TYPES: ClassVar[tuple[str, ...]] = vt.COMM_TYPES

    @property
    def n_phases(self) -> int:
        """Number of phases, m."""
        return len(self.phase_id)

    @property
    def n_subphases(self) -> int:
        """Number of parts of a phase, d (see `task_subphases`); 0 if not known."""
        return 0 if self.task_subphases is None else self.task_subphases.shape[1]

    @property
    def n_entities(self) -> int:
        """Number of objects with a task in any phase, n."""
        return len(self.entity_key)

    def __len__(self) -> int:
        return self.n_phases

    def __iter__(self) -> Iterator[Snapshot]:
        return (self._snapshot(i) for i in range(self.n_phases))

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...

    @overload
    def __getitem__(self, index: int) -> Snapshot: ...

    def __getitem__(self: Self, index: int | slice) -> Snapshot | Self:
        """Return phase `index` as a snapshot, or the phases of a slice as a trace."""
        if isinstance(index, slice):
            if (index.step or 1) < 0:
                raise DomainError(f"step of the slice is {index.step}: expected 1 or more")
            return self._part(np.arange(self.n_phases)[index])
        return self._snapshot(self._index(index))

    def _index(self, phase: int) -> int:
        i = checks.integer("phase", phase)
        if not -self.n_phases <= i < self.n_phases:
            raise OutOfRangeError(f"phase is {i}: expected 0 ... {self.n_phases - 1}")
        return i % self.n_phases

    def _snapshot(self, i: int) -> Snapshot:
        if self.recorded is not None and len(self.recorded.answers) > 1:
            return self._part(np.arange(i, i + 1))._snapshot(0)
        t = slice(int(self.task_ptr[i]), int(self.task_ptr[i + 1]))
        e = slice(int(self.edge_ptr[i]), int(self.edge_ptr[i + 1]))
        entity = self.task_entity[t]
        index = np.empty(self.n_entities, np.int32)
        index[entity] = np.arange(len(entity), dtype=np.int32)
        names = ("src", "dst", "bytes", "messages", "multicast")
        of_edges = (_pick(getattr(self, f"edge_{name}"), e) for name in names)
        edges, multicasts = Rows.given(*of_edges).placed(index).split()
        parts = self.parts_of(t)
        return Snapshot(
            load=self.task_load[t] if parts is None else parts,
            rank=self.task_rank[t],
            n_ranks=self.n_ranks,
            edges=edges,
            multicasts=multicasts,
            nbytes=_pick(self.task_bytes, t),
            memory=_pick(self.task_memory, t),
            migratable=self.movable(t),
            key=self.entity_key[entity],
            coords=_pick(self.task_coords, t),
            block=_pick(self.task_block, t),
            block_bytes=self.block_bytes,
            home=self.block_home,
            **{name: getattr(self, name) for name in (*OF_RANKS, "near")},
        )

    def parts_of(self, tasks: Any) -> F64 | None:
        """Return `task_subphases` of these tasks, in the unit of `task_load`."""
        if self.task_subphases is None:
            return None
        out = self.task_subphases[tasks]
        if self.speed is not None and self.task_seconds is not None:
            out = out * self.speed[self.task_rank[tasks]][:, None]
        return out  # type: ignore[no-any-return]

    def movable(self, tasks: Any) -> Bool:
        """Return whether the objects of these tasks may migrate."""
        own, entity = self.task_migratable, self.task_entity[tasks]
        out: Bool = self.entity_migratable[entity] if own is None else own[tasks]
        return out

    def _part(self: Self, phases: I64) -> Self:
        """Return the trace of these phases only; entities keep their indices."""
        task_ptr, tasks = vt.rows(self.task_ptr, phases)
        edge_ptr, edges = vt.rows(self.edge_ptr, phases)
        rows = {"task": tasks, "edge": edges}
        part: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            of, _, what = field.name.partition("_")
            if of in rows and what != "ptr":
                part[field.name] = _pick(getattr(self, field.name), rows[of])
        if self.recorded is not None and len(self.recorded.answers) > 1 and len(phases):
            part |= self.recorded.ranks_at(2 * int(phases[0]) + 1)
        if "speed" in part and self.task_seconds is not None:
            part["task_load"] = part["task_seconds"] * part["speed"][part["task_rank"]]
        return dataclasses.replace(
            self,
            phase_id=_pick(self.phase_id, phases),
            task_ptr=frozen(task_ptr),
            edge_ptr=frozen(edge_ptr),
            figures=_pick(self.figures, phases),
            recorded=None,
            dangling_edges=self._n_dangling(phases),
            _phases=None if self._phases is None else self._phases[phases],
            **part,
        )

    def _n_dangling(self, phases: I64) -> int:
        if self._run is None or self._phases is None:
            return 0
        comms = np.diff(self._run.arrays["comm_ptr"])[self._phases[phases]]
        return int(comms.sum() - np.diff(self.edge_ptr)[phases].sum())


def frozen(a: Any) -> Any:
    """Make the array read-only, and return it."""
    a.flags.writeable = False
    return a


def _pick(a: Any, rows: Any) -> Any:
    return None if a is None else frozen(a[rows])
