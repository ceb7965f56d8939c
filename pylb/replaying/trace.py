"""Trace and RunRecord: the classes by which users read, replay and write recorded runs."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import optional
from pylb.console import InNotebook, count
from pylb.errors import DomainError, FormatError, OutOfRangeError
from pylb.io import record_file, vt
from pylb.io.phases import Phases, frozen
from pylb.io.run_record import FIGURES, OF_RANKS, RunData
from pylb.model import checks
from pylb.model.snapshot import I32, I64, Snapshot
from pylb.replaying.replayed import Optimum, Replay, optimum, replay
from pylb.replaying.trace_conversion import snapshot_fields, stretches_of, trace_fields

if TYPE_CHECKING:
    import pandas as pd


class Trace(Phases, InNotebook):
    __doc__ = Phases.__doc__

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        stem: str | None = None,
        threads: int | None = None,
    ) -> Trace:
        """Read a recorded run: LBDatafiles of vt, or a run record of pylb.

        Parameters
        ----------
        path : path
            A run record, which `Balancer.save` writes; or, for files of vt, their folder, their
            common prefix ``folder/stem``, or one of them.
        stem : str, optional
            Selects one of several runs in a folder.  Default: the run with the shortest stem, with
            a warning if there are others.
        threads : int, optional
            How many files are decompressed at the same time.  Default: one per core, at most 8.

        Raises
        ------
        FormatError
            A file is neither a run record nor an LBDatafile, or it is damaged, or the phases differ
            between ranks.
        MissingPartError
            msgspec (for files of vt), brotli (if they are compressed) or h5py (for HDF5) is absent.

        Examples
        --------
        >>> pylb.Trace.load("run.h5")[0].metrics.max_over_mean
        2.6569586320827594
        """
        if threads is not None:
            threads = checks.whole("threads", threads, 1, "a number of files")
        if stem is None and record_file.is_record(path):
            return cls(**trace_fields(record_file.read(path)))
        return cls._of_run(_vt_run().read(vt.files(path, stem), threads))

    @classmethod
    def from_snapshots(cls, snapshots: Iterable[Snapshot]) -> Trace:
        """Make a trace whose phases are these snapshots; objects keep their order.

        Objects with the same `key` are the same object in all phases.  All snapshots have the same
        ranks and the same number of loads per object; all have `coords`, or none.  `node` is stored
        only with `near` or `node_memory_limit`.
        """
        return cls(
            **snapshot_fields(checks.several("snapshots", snapshots, "a list of pylb.Snapshot"))
        )

    @staticmethod
    def stems(folder: str | os.PathLike[str]) -> list[str]:
        """Return the stems of vt's runs in a folder, shortest first."""
        return list(vt.stems(folder))

    @classmethod
    def _of_run(cls, run: vt.Run) -> Trace:
        a = run.arrays
        inside = (a["comm_src"] >= 0) & (a["comm_dst"] >= 0)
        keep: Any = slice(None) if inside.all() else np.flatnonzero(inside)
        ptr = np.concatenate([[0], np.cumsum(inside)])[a["comm_ptr"]]
        edges = ("src", "dst", "bytes", "messages", "type")
        return cls(
            **{f.name: a[f.name] for f in dataclasses.fields(cls) if f.name in a},
            **{f"edge_{name}": frozen(a[f"comm_{name}"][keep]) for name in edges},
            **_shared(a, len(run.texts)),
            n_ranks=len(run.texts),
            phase_id=frozen(run.phase_id),
            task_bytes=_sizes(a, "task_serialized_bytes", "task_footprint_bytes"),
            task_memory=_sizes(a, "task_footprint_bytes", "task_working_bytes"),
            edge_ptr=frozen(ptr.astype(np.int64, copy=False)),
            dangling_edges=int(len(inside) - np.count_nonzero(inside)),
            skipped=tuple(run.skipped),
            _run=run,
            _phases=np.arange(len(run.phase_id)),
        )

    def on_ranks(self, n_ranks: int) -> Trace:
        """Return the same objects on another number of ranks, to replay them there.

        The objects are sorted by the recorded rank of their first task, and cut into equal parts,
        one for each new rank; so neighbours stay neighbours.  In the result, no object migrates.
        The new ranks have equal speeds, no background load and no memory limits.

        Examples
        --------
        >>> twice = trace.on_ranks(2 * trace.n_ranks)
        >>> twice.replay("GreedyLB", every=5).time < trace.replay("GreedyLB", every=5).time
        True
        """
        n_ranks = checks.whole("n_ranks", n_ranks, 1, "a number of ranks", below=2**20 + 1)
        n, t = self.n_entities, len(self.task_entity)
        first = np.full(n, -1)  # the first task of each entity: NumPy assigns it last
        first[self.task_entity[::-1]] = np.arange(t)[::-1]
        order = np.lexsort((first, self.task_rank[first]))
        where = np.empty(n, np.int32)
        where[order] = (np.arange(n) * n_ranks // max(n, 1)).astype(np.int32)
        rank = where.take(self.task_entity, mode="clip")  # the fastest mode; all are valid
        of_ranks = "core_group group_cores node near block_home task_home task_seconds"
        nothing: dict[str, Any] = dict.fromkeys(
            [*OF_RANKS, *of_ranks.split(), "measured", "figures", "recorded", "_run", "_phases"]
        )
        return dataclasses.replace(
            self,
            n_ranks=n_ranks,
            task_rank=frozen(rank),
            entity_home=frozen(where),
            task_subphases=self.parts_of(slice(None)),
            **nothing,
        )

    def replay(self, strategy: Any = "auto", **options: Any) -> Replay:
        """Replay the phases with other decisions; see `pylb.replay`.

        Examples
        --------
        >>> run = trace.replay("GreedyLB", every=5, cost=0.01)
        >>> run.speedup_over(trace.replay("unbalanced")) > 1.0
        True
        """
        return replay(self, strategy, **options)

    def optimum(self, strategy: Any = "GreedyLB", **options: Any) -> Optimum:
        """Find the best schedule of LB steps; see `pylb.replaying.optimum`.

        Examples
        --------
        >>> best = trace.optimum("GreedyLB", cost=0.1)
        >>> trace.replay("GreedyLB", every=20, cost=0.1).regret(best) > 0.0
        True
        """
        return optimum(self, strategy, **options)

    def save(
        self,
        folder: str | os.PathLike[str],
        stem: str = "data",
        *,
        compress: bool = False,
        rank: ArrayLike | None = None,
    ) -> list[Path]:
        """Write the run as LBDatafiles of vt, one file ``<stem>.<rank>.json`` for each rank.

        A trace that was read from LBDatafiles keeps everything, also keys that pylb does not know.
        Without `rank`, the text of each file is then the same as in the file that was read.

        Parameters
        ----------
        folder : path
            Created if it does not exist.  Each file is replaced as a whole.
        stem : str
        compress : bool
            Compress with Brotli, with the same file names.
        rank : (t,) array of int, optional
            Another placement: a rank for each task of the trace.  A task goes into the file of its
            new rank, and its ``node`` is replaced.  A communication goes into the file of one of
            its ends: a message to its sender, a broadcast to its receiver, as in vt.

        Raises
        ------
        DomainError, OutOfRangeError
            `rank` has the wrong length or an invalid rank, or moves an object that may not migrate;
            the folder has a run of the same name with more ranks; or `stem` is not a file name.  If
            the trace was read from LBDatafiles: its tasks have changed, or a phase and its copies
            are not all written with the same placement.
        StateError
            A file has changed since it was read.
        """
        checks.flag("compress", compress)
        where = self.task_rank if rank is None else self._placement(rank)
        if self._run is None or self._phases is None:
            text = _vt_run().generated(self, where)
        else:
            _, tasks = vt.rows(self._run.arrays["task_ptr"], self._phases)
            for name in ("task_entity", "task_rank", "task_load"):
                if not np.array_equal(getattr(self, name), self._run.arrays[name][tasks]):
                    raise DomainError(
                        f"{name} is not as recorded: pass a new placement as rank=, and write "
                        "other changes by Trace.from_snapshots(trace).save(...)"
                    )
            text = _vt_run().texts(self._run, self._phases, self.task_entity, where)
        return vt.write(folder, stem, self.n_ranks, text, compress)

    def _placement(self, rank: ArrayLike) -> I32:
        given = np.asarray(rank)
        if given.dtype.kind not in "iu" or given.shape != self.task_rank.shape:
            raise DomainError(
                f"rank has shape {given.shape} and dtype {given.dtype}: expected "
                f"{self.task_rank.shape} integers, one for each task"
            )
        for i in np.flatnonzero((given < 0) | (given >= self.n_ranks))[:1]:
            raise OutOfRangeError(f"rank[{i}] is {given[i]}: expected 0 ... {self.n_ranks - 1}")
        for i in np.flatnonzero(~self.movable(slice(None)) & (given != self.task_rank))[:1]:
            raise DomainError(
                f"rank[{i}] is {given[i]}: object {self.entity_key[self.task_entity[i]]} may not "
                f"migrate from rank {self.task_rank[i]}"
            )
        return given.astype(np.int32)

    def tasks(self, phase: int | None = None) -> pd.DataFrame:
        """Return the tasks as a pandas DataFrame, one row each.

        Columns: the phase's id, `rank`, `key`, `load` (as `task_load`), recorded properties of the
        entity, `nbytes` and `memory`, and the numbers of ``user_defined`` (NaN if a task has none).
        Where possible, columns of numbers are views of the trace's arrays.

        Parameters
        ----------
        phase : int, optional
            Index of the only phase to return, as in ``trace[phase]``.  Default: all phases.
        """
        trace = self if phase is None else self._only_phase(phase)
        entity = trace.task_entity
        columns: dict[str, Any] = {
            "phase": np.repeat(trace.phase_id, np.diff(trace.task_ptr)),
            "rank": trace.task_rank,
            "key": trace.entity_key[entity],
            "load": trace.task_load,
            "migratable": trace.movable(slice(None)),
            "home": trace.entity_home[entity],
            "collection": trace.entity_collection[entity],
            "nbytes": trace.task_bytes,
            "memory": trace.task_memory,
        }
        columns = {name: array for name, array in columns.items() if array is not None}
        if trace._run is not None and trace._phases is not None:
            arrays = trace._run.arrays
            _, tasks = vt.rows(arrays["task_ptr"], trace._phases)
            columns.update({k: arrays[k][tasks] for k in vt.USER if k in arrays})
        return optional.require("pandas").DataFrame(columns, copy=False)

    def communications(self, phase: int | None = None) -> pd.DataFrame:
        """Return the communications as a pandas DataFrame, one row each.

        Columns: the phase's id, `type`, `rank` (the rank whose file has it), `from` and `to`
        (recorded keys) with `from_type` and `to_type`, `src` and `dst` (entities of the trace; -1:
        this end is not a task of the phase), `nbytes` and `messages`.  A trace that was not read
        from vt's files lacks `type`, `rank`, `from_type` and `to_type`.  `phase` is as in `tasks`.
        """
        pandas = optional.require("pandas")
        trace = self if phase is None else self._only_phase(phase)
        columns: dict[str, Any]
        if trace._run is None or trace._phases is None:
            ptr = trace.edge_ptr
            columns = {
                "from": trace.entity_key[trace.edge_src],
                "to": trace.entity_key[trace.edge_dst],
                "src": trace.edge_src,
                "dst": trace.edge_dst,
                "nbytes": trace.edge_bytes,
                "messages": trace.edge_messages,
            }
        else:
            arrays = trace._run.arrays
            ptr, comms = vt.rows(arrays["comm_ptr"], trace._phases)
            names = ("type", "rank", "from", "from_type", "to", "to_type", "src", "dst")
            columns = {name: arrays[f"comm_{name}"][comms] for name in names}
            for name in ("type", "from_type", "to_type"):
                texts = vt.COMM_TYPES if name == "type" else vt.ENTITY_TYPES
                columns[name] = pandas.Categorical.from_codes(columns[name], list(texts))
            columns["nbytes"] = arrays["comm_bytes"][comms]
            columns["messages"] = arrays["comm_messages"][comms]
        phase_id = np.repeat(trace.phase_id, np.diff(ptr))
        return pandas.DataFrame({"phase": phase_id, **columns}, copy=False)

    def _only_phase(self, phase: int) -> Trace:
        i = self._index(phase)
        return self[i : i + 1]

    def _bars(self) -> dict[str, Any]:
        phase, p = np.repeat(np.arange(self.n_phases), np.diff(self.task_ptr)), self.n_ranks
        cells = np.bincount(phase * p + self.task_rank, self.task_load, self.n_phases * p)
        loads = cells.reshape(-1, p)
        mean = np.maximum(loads.mean(axis=1), np.finfo(float).tiny)
        return {"max/mean of the loads in each phase": loads.max(axis=1) / mean}

    def __repr__(self) -> str:
        dangling = f", {self.dangling_edges} dangling" if self.dangling_edges else ""
        return (
            f"<Trace: {count(self.n_phases, 'phase')} on {count(self.n_ranks, 'rank')}, "
            f"{count(self.n_entities, 'object')}, "
            f"{len(self.task_load)} tasks, {len(self.edge_src)} edges{dangling}>"
        )


class RunRecord(RunData, InNotebook):
    """The record of a run, written by ``lb.save("run.h5")``.

    Examples
    --------
    >>> run = pylb.RunRecord.load("run.h5")
    >>> run.n_ranks, run.n_iterations, len(run.history.lb_steps) > 0
    (8, 200, True)
    """

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RunRecord:
        """Read a run record; if it is truncated, up to its last complete iteration.

        In a record of the C library (JSON), each rank counts as one object.
        """
        return cls(**vars(record_file.read(path)))

    @classmethod
    def of(cls, trace: Trace) -> RunRecord:
        """Make a record without receipts; an iteration takes as long as its slowest rank."""
        m = trace.replay("none").metrics
        lowest = np.divide(m["min"], m["max"], out=np.ones_like(m["max"]), where=m["max"] > 0)
        none = np.zeros(len(lowest))
        # How long a rank waited at the end of an iteration is recorded in the next one.
        idle = np.append(0.0, m["idle_mean"])[: len(lowest)]
        columns = m["max"], m["max"], m["mean"], idle, lowest, m["min"], none, none
        figures: dict[str, Any] = dict(zip(FIGURES, columns, strict=True))
        given = {name: getattr(trace, name) for name in OF_RANKS}
        ranks = {name: row.tolist() for name, row in given.items() if row is not None}
        figures["parameters"] = {"ranks": ranks} if ranks else {}
        return cls(n_ranks=trace.n_ranks, stretches=list(stretches_of(trace)), **figures)

    @functools.cached_property
    def trace(self) -> Trace:
        """The run as a trace, e.g. for `replay` and `optimum`."""
        return Trace(**trace_fields(self))

    def _bars(self) -> dict[str, Any]:
        ratio = np.divide(self.max, self.mean, out=np.ones_like(self.max), where=self.mean > 0)
        return {"max/mean of each iteration": ratio}

    def __repr__(self) -> str:
        return (
            f"<RunRecord: {count(self.n_iterations, 'iteration')} on "
            f"{count(self.n_ranks, 'rank')}, {len(self.history.lb_steps)} LB steps>"
        )


def _vt_run() -> Any:
    """Return the module `pylb.io.vt_run`, which needs msgspec."""
    optional.require("msgspec")
    from pylb.io import vt_run

    return vt_run


def _shared(arrays: dict[str, Any], n_ranks: int) -> dict[str, Any]:
    """Return the data that vt's tasks share, as fields of a trace.

    The home is ``home_rank`` of the first task, or this task's rank if there is no such rank.
    """
    if "shared_id" not in arrays or "shared_bytes" not in arrays:
        return {}
    of, rank = np.nan_to_num(arrays["shared_id"], nan=-1), arrays["task_rank"]
    known, first, block = np.unique(of, return_index=True, return_inverse=True)
    none = int(np.searchsorted(known, 0.0))  # a task with a negative id shares nothing
    if none == len(known):
        return {}
    nbytes = np.zeros(len(known))
    np.maximum.at(nbytes, block, np.nan_to_num(arrays["shared_bytes"]))
    if nbytes.max() >= 2.0**62 / len(of):
        raise FormatError(f"shared_bytes is {nbytes.max():g}: expected a sum below 2**63")
    out = {
        "task_block": frozen(np.maximum(block - none, -1).astype(np.int32)),
        "block_bytes": frozen(np.ceil(nbytes[none:]).astype(np.int64)),
    }
    if "home_rank" in arrays:
        home = arrays["home_rank"][first[none:]]
        good = (home >= 0) & (home < n_ranks) & (home == np.rint(home))
        homes = np.where(good, home, rank[first[none:]]).astype(np.int32)
        out["block_home"] = frozen(homes)
    return out


def _sizes(arrays: dict[str, Any], first: str, second: str) -> I64 | None:
    """Return the bytes of each task: `first`, else `second`, else 0; None if none was recorded."""
    columns = [arrays[name] for name in (first, second) if name in arrays]
    if not columns:
        return None
    out = np.nan_to_num(np.where(np.isnan(columns[0]), columns[-1], columns[0]))
    if out.max(initial=0) >= 2.0**63:
        raise FormatError(f"{first} or {second} is {out.max():g}: expected below 2**63")
    return frozen(np.ceil(out).astype(np.int64))  # type: ignore[no-any-return]
