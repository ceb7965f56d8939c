"""What a run was like, from whatever holds it: a record, a trace, a replay, a balancer."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb.decide.receipts import History
from pylb.errors import DomainError
from pylb.io import h5
from pylb.io.run_record import Stretch
from pylb.model.snapshot import F64, I32, I64
from pylb.replay.replayed import Replay
from pylb.replay.run_record import RunRecord
from pylb.replay.trace import Trace


class Moves(NamedTuple):
    """The migrations of one balancing, added up for each pair of ranks.

    Attributes
    ----------
    iteration : int
        At whose end.
    source, target : (k,) int32
        Ranks.
    objects, bytes : (k,) int64
    """

    iteration: int
    source: I32
    target: I32
    objects: I64
    bytes: I64


class Heavy(NamedTuple):
    """An object, by its share of the load."""

    key: int
    name: str
    seconds: float
    iterations: int
    rank: int


@dataclass(frozen=True, eq=False)
class Course:
    """Everything that the pictures of a run are made of.

    Attributes
    ----------
    title : str
    n_ranks, n_objects : int
    times : (m, p) float64
        Seconds of each rank in each iteration.
    elapsed : (m,) float64
        Seconds of each iteration, waiting and messages included.
    history : History
        The decisions.
    moves : list of Moves
        In order of the iterations.
    facts : dict
        What else is known of the run, by name.
    heaviest : list of Heavy
    strategy : str
    """

    title: str
    n_ranks: int
    n_objects: int
    times: F64
    elapsed: F64
    history: History
    moves: list[Moves] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    heaviest: list[Heavy] = field(default_factory=list)
    strategy: str = ""

    @property
    def n_iterations(self) -> int:
        """Number of iterations, m."""
        return len(self.times)

    @functools.cached_property
    def max(self) -> F64:
        """Seconds of the slowest rank, (m,)."""
        return np.asarray(self.times.max(axis=1))

    @functools.cached_property
    def mean(self) -> F64:
        """Mean of the ranks, (m,)."""
        return np.asarray(self.times.mean(axis=1))

    @functools.cached_property
    def balanced_after(self) -> list[int]:
        """Iterations at whose end objects were placed anew; -1: before the first."""
        return [r.iteration for r in self.history if r.balanced and r.moved]

    @functools.cached_property
    def costs(self) -> F64:
        """Seconds of the balancings at the end of each iteration, (m,)."""
        out = np.zeros(self.n_iterations)
        for r in self.history:
            if r.balanced and r.moved and r.iteration < len(out):
                out[max(r.iteration, 0)] += r.cost
        return out


def of(
    run: Any,
    *,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    stem: str | None = None,
) -> Course:
    """The course of a run.

    Parameters
    ----------
    run : RunRecord, Trace, Replay, Course or path
    title : str, optional
        Default: the file, or what kind of run it is.
    names : mapping from int to str, optional
        Of objects, by key.
    stem : str, optional
        Which run of a folder.

    Raises
    ------
    DomainError
        Something else; a run without iterations.
    """
    if isinstance(run, Course):
        return run
    if isinstance(run, (str, os.PathLike)):
        title = Path(run).name if title is None else title
        run = read(run, stem)
    known = names or {}
    if isinstance(run, RunRecord):
        out = _of_record(run, title or Path(run.path or "run").name, known)
    elif isinstance(run, (Trace, Replay)):
        if not len(run.trace if isinstance(run, Replay) else run):
            raise DomainError("run has no phases: expected one or more")
        replay = run if isinstance(run, Replay) else run.replay("none")
        out = _of_replay(replay, title or _title_of(run), known)
    else:
        raise DomainError(
            f"run is {type(run).__name__}: expected a path, RunRecord, Trace or Replay"
        )
    if out.n_iterations == 0:
        raise DomainError(f"{out.title}: no complete iteration in it")
    return out


def read(path: str | os.PathLike[str], stem: str | None = None) -> RunRecord | Trace:
    """A run record, or the trace of a folder."""
    return RunRecord.read(path) if h5.is_record(path) else Trace.read(path, stem=stem)


def _title_of(run: Trace | Replay) -> str:
    if isinstance(run, Trace):
        return "A recorded run"
    return f"A recorded run, replayed with {run.strategy}" + (
        f", {run.trigger}" if run.trigger else ""
    )


SAID = ("trigger", "mode", "load", "seed", "lag", "pylb")  # of the parameters


# ---- a record of pylb's own -----------------------------------------------------------------


def _of_record(run: RunRecord, title: str, names: Mapping[int, str]) -> Course:
    return of_stretches(
        run.stretches,
        run.n_ranks,
        times=None,
        figures=(run.time, run.mean, run.idle),
        history=run.history,
        parameters=run.parameters,
        title=title,
        names=names,
    )


def of_stretches(
    stretches: list[Stretch],
    n_ranks: int,
    *,
    times: F64 | None,
    figures: tuple[F64, F64, F64],
    history: History,
    parameters: dict[str, Any],
    title: str,
    names: Mapping[int, str] | None = None,
) -> Course:
    """The course of a run of the runtime.

    times: (m, p), where they are known beyond what the stretches have.
    figures: time, mean and idle of each iteration.
    """
    stretches = [s for s in stretches if s.iterations]  # others say which objects were left
    if times is None:
        parts = [_rank_times(s, n_ranks) for s in stretches]
        times = np.concatenate([np.zeros((0, n_ranks)), *parts])
    m = min(len(times), len(figures[0]))  # a rank may know loads of iterations that are not decided
    times, (time, mean, idle) = times[:m], (x[:m] for x in figures)
    # What a rank waits at the end of a pass is told with the next one.
    waited = np.append(idle[1:], 0.0)[:m]
    keys = [s.key for s in stretches]
    return Course(
        title=title,
        n_ranks=n_ranks,
        n_objects=len(np.unique(np.concatenate(keys))) if keys else 0,
        times=times,
        elapsed=np.maximum.reduce([time, mean + waited, times.max(axis=1, initial=0.0)]),
        history=history,
        moves=list(_moves_of(stretches, n_ranks)),
        facts=_facts_of(parameters),
        heaviest=_heaviest_of(stretches, names or {}),
        strategy=str(parameters.get("strategy", "")),
    )


def _facts_of(parameters: dict[str, Any]) -> dict[str, Any]:
    out = {k: v for k, v in parameters.items() if k in SAID and v not in (None, {}, "", 0, "on")}
    return {**out, "speeds of ranks": "learned"} if parameters.get("unlike") else out


def _rank_times(s: Stretch, n_ranks: int) -> F64:
    out = np.zeros((s.iterations, n_ranks))
    order = np.argsort(s.rank, kind="stable")
    ranks, first = np.unique(s.rank[order], return_index=True)
    if len(ranks):
        out[:, ranks] = np.add.reduceat(s.load[:, order], first, axis=1)
    return out


def _moves_of(stretches: list[Stretch], n_ranks: int) -> Iterator[Moves]:
    for old, new in pairwise(stretches):
        _, i, j = np.intersect1d(old.key, new.key, assume_unique=True, return_indices=True)
        moved = old.rank[i] != new.rank[j]
        if moved.any():
            i, j = i[moved], j[moved]
            yield _added_up(new.first - 1, old.rank[i], new.rank[j], new.bytes[j], n_ranks)


def _added_up(iteration: int, source: Any, target: Any, nbytes: Any, n_ranks: int) -> Moves:
    pair, which = np.unique(source.astype(np.int64) * n_ranks + target, return_inverse=True)
    sizes = np.bincount(which, nbytes, len(pair))
    return Moves(
        iteration,
        (pair // n_ranks).astype(np.int32),
        (pair % n_ranks).astype(np.int32),
        np.bincount(which, minlength=len(pair)),
        sizes.astype(np.int64),
    )


MOST_HEAVY = 30


def _heaviest_of(stretches: list[Stretch], names: Mapping[int, str]) -> list[Heavy]:
    if not stretches:
        return []
    keys = np.concatenate([s.key for s in stretches])
    seconds = np.concatenate([s.load.sum(axis=0) for s in stretches])
    counts = np.concatenate([np.full(len(s.key), s.iterations) for s in stretches])
    ranks = np.concatenate([s.rank for s in stretches])
    return _heaviest(keys, seconds, counts, ranks, names)


def _heaviest(
    keys: Any, seconds: Any, counts: Any, ranks: Any, names: Mapping[int, str]
) -> list[Heavy]:
    """Of pieces of a run, one behind the other; an object's last piece says where it is."""
    known, which = np.unique(keys, return_inverse=True)
    total = np.bincount(which, seconds)
    number = np.bincount(which, counts)
    last = np.empty(len(known), np.int32)
    last[which] = ranks
    order = np.argsort(-total, kind="stable")[:MOST_HEAVY]
    return [
        Heavy(
            int(known[i]),
            str(names.get(int(known[i]), "")),
            float(total[i] / max(number[i], 1)),
            int(number[i]),
            int(last[i]),
        )
        for i in order
    ]


# ---- a replay -------------------------------------------------------------------------------


def _of_replay(run: Replay, title: str, names: Mapping[int, str]) -> Course:
    t = run.trace
    keys = t.entity_key[t.task_entity]
    ones = np.ones(len(keys), np.int64)
    return Course(
        title=title,
        n_ranks=t.n_ranks,
        n_objects=t.n_entities,
        times=run.rank_times,
        elapsed=np.maximum(run.iteration_time, run.rank_times.max(axis=1, initial=0.0)),
        history=run.decisions,
        moves=list(_moves_of_replay(run)),
        facts={"trigger": run.trigger, "seed": run.seed} if run.trigger else {},
        heaviest=_heaviest(keys, t.task_load, ones, run.rank, names),
        strategy=run.strategy,
    )


def moves_after(run: Replay, iteration: int) -> Moves | None:
    """The migrations at the end of one iteration; None: there were none."""
    t = run.trace
    if not 0 <= iteration < t.n_phases - 1:
        return None
    old, new = (slice(*t.task_ptr[i : i + 2].tolist()) for i in (iteration, iteration + 1))
    before = np.full(t.n_entities, -1, np.int32)
    before[t.task_entity[old]] = run.rank[old]
    return _moved(run, iteration, before, new)


def _moved(run: Replay, iteration: int, before: I32, tasks: slice) -> Moves | None:
    """Where the entities of `tasks` came from, if not from where they are."""
    t = run.trace
    source, target = before[t.task_entity[tasks]], run.rank[tasks]
    moved = (source >= 0) & (source != target)
    if not moved.any():
        return None
    nbytes = np.zeros(len(moved)) if t.task_bytes is None else t.task_bytes[tasks]
    return _added_up(iteration, source[moved], target[moved], nbytes[moved], t.n_ranks)


def _moves_of_replay(run: Replay) -> Iterator[Moves]:
    t = run.trace
    held = np.full(t.n_entities, -1, np.int32)
    for i, ends in enumerate(pairwise(t.task_ptr.tolist())):
        tasks = slice(*ends)
        moves = _moved(run, i - 1, held, tasks)
        held[t.task_entity[tasks]] = run.rank[tasks]
        if moves is not None:
            yield moves
