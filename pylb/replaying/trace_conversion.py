"""Convert run records and snapshots to the fields of a trace, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pylb import _core
from pylb.errors import DomainError, DuplicateKeyError
from pylb.io.phases import COLLECTION, Phases, frozen
from pylb.io.run_record import RunData, RunFacts, Stretch
from pylb.model import checks
from pylb.model.objects import blocks, shared_of
from pylb.model.snapshot import I64, Rows, Snapshot

Arrays = dict[str, Any]


def trace_fields(run: RunData) -> Arrays:
    """Return the fields of the trace of a run record."""
    ranks = run.ranks_at(0)
    learned = [r.speed for r in run.history.lb_steps if r.moved and "speed" not in ranks]
    facts = {field.name: getattr(run, field.name) for field in dataclasses.fields(RunFacts)}
    for name in ("remaining", "starting"):
        facts[name] = {at: on_ranks(s, ranks) for at, s in facts[name].items()}
    return {
        "n_ranks": run.n_ranks,
        **on_speeds(trace_arrays([on_ranks(s, ranks) for s in run.stretches]), ranks),
        "figures": frozen(run.figures),
        "measured": np.array(learned[-1]) if learned and learned[-1] else None,
        **sharing_of(run.parameters),
        **run.links,
        "recorded": RunFacts(**facts),
    }


def sharing_of(parameters: dict[str, Any]) -> Arrays:
    """Return which ranks shared cores, as fields of a trace; {} if none did."""
    if not (known := parameters.get("sharing")):
        return {}
    group, cores = np.array(known["group"], np.int32), np.array(known["cores"], np.float64)
    return {"core_group": frozen(group), "group_cores": frozen(cores), "waits": known["waits"]}


def on_ranks(s: Stretch, ranks: Arrays) -> Stretch:
    """With memory limits, let objects of unknown memory occupy the bytes that a migration sends."""
    if {"memory_limit", "node_memory_limit"} & ranks.keys():
        s = s._replace(memory=np.where(s.memory >= 0, s.memory, s.nbytes))
    return s


def on_speeds(arrays: Arrays, facts: Arrays) -> Arrays:
    """Return the fields of a trace with loads in seconds, joined with the facts of its ranks.

    With speeds, ``task_load`` becomes work.  The measured seconds are kept, because work / speed
    can differ from them in the last bit.
    """
    out = arrays | facts
    if (speed := facts.get("speed")) is not None:
        seconds, rank = arrays["task_load"], arrays["task_rank"]
        out |= {"task_load": frozen(seconds * speed[rank]), "task_seconds": seconds}
    return out


def one_phase(n_ranks: int, left: Stretch, known: Phases | None, facts: Arrays) -> Phases:
    """Return a trace with one phase, in which the objects of `left` exist but take no time."""
    phase = left._replace(load=np.zeros((1, len(left.key))), phases=None)
    return Phases(n_ranks, **on_speeds(trace_arrays([phase], known), facts))


def snapshot_fields(snapshots: Sequence[Snapshot]) -> Arrays:
    """Return the fields of a trace whose phases are these snapshots; objects keep their order."""
    _check(snapshots)
    out = trace_arrays([_of_snapshot(i, s) for i, s in enumerate(snapshots)])
    for name, column in (("nbytes", "task_bytes"), ("memory", "task_memory")):
        if all(getattr(s, name) is None for s in snapshots):
            out[column] = None
    names = ("n_ranks", *SAME, *_distances(snapshots[0]))
    return {**out, **{name: getattr(snapshots[0], name) for name in names}}


SAME = ("speed", "background", "memory_limit", "node_memory_limit")  # equal in all snapshots


def _distances(s: Snapshot) -> tuple[str, ...]:
    return () if s.near is None and s.node_memory_limit is None else ("node", "near")


def _check(snapshots: Sequence[Snapshot]) -> None:
    if not snapshots:
        raise DomainError("snapshots is empty: expected one for each phase")
    first = snapshots[0]
    for i, s in enumerate(snapshots):
        checks.instance(f"snapshots[{i}]", s, Snapshot)
        _core.rank_times(s)  # checks the arrays of s, which the caller may have changed
        for what, name in (("loads per object", "n_components"), ("ranks", "n_ranks")):
            if getattr(s, name) != getattr(first, name):
                raise DomainError(
                    f"snapshots[{i}] has {getattr(s, name)} {what}: expected "
                    f"{getattr(first, name)}, as in the first"
                )
        if (s.coords is None) != (first.coords is None):
            raise DomainError(f"snapshots[{i}] and the first: expected coords in both or in none")
        for name in (*SAME, *_distances(first), "near"):
            a, b = getattr(s, name), getattr(first, name)
            if (a is None) != (b is None) or not np.array_equal(a, b):
                raise DomainError(
                    f"snapshots[{i}] and the first one have different {name}: expected the same"
                )
        values, counts = np.unique([] if s.key is None else s.key, return_counts=True)
        for key in values[counts > 1][:1]:
            raise DuplicateKeyError(f"snapshots[{i}] has the key {key} more than once")


def _of_snapshot(i: int, s: Snapshot) -> Stretch:
    n, rows = s.n_objects, Rows.of(s)

    def given(column: Any, default: Any) -> Any:
        return default if column is None else column

    return Stretch(
        i,
        given(s.key, np.arange(n)),
        s.rank,
        given(s.nbytes, np.zeros(n, np.int64)),
        given(s.memory, np.zeros(n, np.int64)),
        given(s.migratable, np.ones(n, bool)),
        (s.load if s.n_components == 1 else s.load.sum(axis=1))[None],
        *rows[:4],
        np.full(n, -1, np.int32),
        rows.multicast if s.n_multicasts else None,
        s.coords,
        phases=None if s.n_components == 1 else s.load[None],
        shared=_shared(s.block, s.block_bytes, s.home),
    )


def trace_arrays(stretches: list[Stretch], known: Phases | None = None) -> Arrays:
    """Return the fields of a trace whose phases are the iterations of the stretches.

    The entities of the trace `known` keep their indices.
    """
    every = [(s.key, s.birth, s.rank, s.migratable) for s in stretches]
    n_known = 0 if known is None else known.n_entities
    if known is not None:
        rank = np.zeros(n_known, np.int32)
        every.insert(0, (known.entity_key, known.entity_birth, rank, known.entity_migratable))
    keys = np.concatenate([np.zeros(0, np.int64), *(key for key, *_ in every)])
    births = np.concatenate([np.zeros(0, int), *(or_zeros(b, len(key)) for key, b, *_ in every)])
    ranks = np.concatenate([np.zeros(0, np.int32), *(rank for *_, rank, _ in every)])
    movable = np.concatenate([np.zeros(0, bool), *(may for *_, may in every)])
    again = births.any()  # a key was used again, after its first object was removed
    pairs = np.rec.fromarrays([keys, births]) if again else keys
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    order = np.argsort(first)  # entities are numbered in order of their first task
    number = np.empty(len(first), np.int32)
    number[order] = np.arange(len(first), dtype=np.int32)
    can_move = np.zeros(len(first), bool)
    np.logical_or.at(can_move, number[which], movable)
    entity, movable = number[which][n_known:], movable[n_known:]
    shared: Arrays = {}
    if any(s.shared is not None for s in stretches):
        parts = [np.full((len(s.key), 3), -1) if s.shared is None else s.shared for s in stretches]
        shared = blocks(np.concatenate(parts), keys[n_known:], alike=False)
    block = shared.get("block")
    absent = {
        "task_work": all(s.work is None for s in stretches),
        "task_migratable": np.array_equal(movable, can_move[entity]),
        "task_home": any((s.home < 0).any() for s in stretches),
        "task_block": block is None,
        "task_coords": not len(entity) or any(s.coords is None and len(s.key) for s in stretches),
        "edge_multicast": all(s.edge_multicast is None for s in stretches),
    }
    places = pairwise(np.cumsum([0, *(len(s.key) for s in stretches)]).tolist())
    each = [
        (s, entity[a:b], None if block is None else block[a:b])
        for s, (a, b) in zip(stretches, places, strict=True)
    ]
    out: Arrays = dict.fromkeys(absent)
    for name, (dtype, of) in _COLUMNS.items():
        if not absent.get(name):
            rows = [(of(*one), one[0].iterations) for one in each]
            tiled = [np.tile(row, (k, *[1] * (row.ndim - 1))) for row, k in rows]
            out[name] = np.concatenate(tiled or [np.zeros(0, dtype)], dtype=dtype)
    phases = [s.phases.reshape(-1, s.phases.shape[2]) for s in stretches if s.phases is not None]
    sizes = [(len(s.key), len(s.src)) for s in stretches for _ in range(s.iterations)]
    task_ptr, edge_ptr = np.cumsum([(0, 0), *sizes], axis=0, dtype=np.int64).T.copy()
    none = np.zeros(0)
    out |= {
        "phase_id": np.concatenate(
            [none.astype(int), *(s.first + np.arange(s.iterations) for s in stretches)]
        ),
        "task_load": np.concatenate([none, *(s.load.ravel() for s in stretches)]),
        "task_subphases": np.concatenate(phases) if phases else None,
        "block_bytes": shared.get("block_bytes"),
        "block_home": shared.get("home"),
        "entity_key": keys[first[order]],
        "entity_birth": births[first[order]] if again else None,
        "entity_migratable": can_move,
        "entity_home": ranks[first[order]],
        "entity_collection": np.full(len(first), COLLECTION, np.int64),
        "task_ptr": task_ptr,
        "edge_ptr": edge_ptr,
    }
    return {name: array if array is None else frozen(array) for name, array in out.items()}


# The type of a column, and its values in each iteration of a stretch, whose objects are `entities`
# and share the data `block`.
_COLUMNS: dict[str, tuple[Any, Callable[[Stretch, Any, Any], Any]]] = {
    "task_entity": (np.int32, lambda s, entities, block: entities),
    "task_rank": (np.int32, lambda s, *_: s.rank),
    "task_home": (np.int32, lambda s, *_: s.home),
    "task_bytes": (np.int64, lambda s, *_: s.nbytes),
    "task_memory": (np.int64, lambda s, *_: np.maximum(s.memory, 0)),
    "task_work": (np.float64, lambda s, *_: or_zeros(s.work, len(s.key))),
    "task_migratable": (np.bool_, lambda s, *_: s.migratable),
    "task_block": (np.int32, lambda s, entities, block: block),
    "task_coords": (np.float64, lambda s, *_: np.zeros((0, 3)) if s.coords is None else s.coords),
    "edge_src": (np.int32, lambda s, entities, _: entities[s.src]),
    "edge_dst": (np.int32, lambda s, entities, _: entities[s.dst]),
    "edge_bytes": (np.float64, lambda s, *_: s.edge_bytes),
    "edge_messages": (np.float64, lambda s, *_: s.edge_messages),
    "edge_multicast": (np.int32, lambda s, *_: or_zeros(s.edge_multicast, len(s.src))),
}


def or_zeros(column: Any, n: int) -> Any:
    """Return the column, which has n numbers, or n zeros if it is None."""
    return np.zeros(n, np.int64) if column is None else column


def stretches_of(trace: Phases) -> Iterator[Stretch]:
    """Group the phases of a trace into stretches: consecutive phases that differ only in loads."""
    pairs = np.stack([trace.entity_key, or_zeros(trace.entity_birth, trace.n_entities)], axis=1)
    if len(np.unique(pairs, axis=0)) < trace.n_entities:
        raise DuplicateKeyError(
            "the trace has two objects with the same key: expected different keys"
        )
    alike: list[Stretch] = []
    for i in range(len(trace)):
        new = stretch_of(trace, i)
        if alike and not all(
            np.array_equal(getattr(alike[0], name), getattr(new, name))
            for name in Stretch._fields
            if name not in ("first", "load", "phases")
        ):
            yield _as_one(alike)
            alike = []
        alike.append(new)
    if alike:
        yield _as_one(alike)


def _as_one(alike: list[Stretch]) -> Stretch:
    columns = {name: [getattr(s, name) for s in alike] for name in ("load", "phases")}
    parts: Arrays = {name: np.concatenate(x) for name, x in columns.items() if x[0] is not None}
    return alike[0]._replace(**parts)


def stretch_of(trace: Phases, i: int) -> Stretch:
    tasks = slice(*trace.task_ptr[i : i + 2].tolist())
    edges = slice(*trace.edge_ptr[i : i + 2].tolist())
    entity = trace.task_entity[tasks]
    key = trace.entity_key[entity]
    order = np.argsort(key)
    place = np.full(trace.n_entities, -1, np.int32)
    place[entity[order]] = np.arange(len(key), dtype=np.int32)
    n = len(key)

    load = trace.task_load if trace.task_seconds is None else trace.task_seconds
    speed: Any = 1.0
    if trace.speed is not None and trace.task_seconds is None:
        speed = trace.speed[trace.task_rank[tasks]]

    def seconds(column: Any) -> Any:
        return None if column is None else (column[tasks].T / speed).T[order][None]

    def of_tasks(column: Any, default: int | None = None) -> Any:
        if column is None:
            return None if default is None else np.full(n, default)
        return column[tasks][order]

    return Stretch(
        i,
        key[order],
        trace.task_rank[tasks][order],
        of_tasks(trace.task_bytes, 0),
        of_tasks(trace.task_memory, -1),
        trace.movable(tasks)[order],
        seconds(load),
        place[trace.edge_src[edges]],
        place[trace.edge_dst[edges]],
        trace.edge_bytes[edges],
        trace.edge_messages[edges],
        of_tasks(trace.task_home, -1).astype(np.int32),
        None if trace.edge_multicast is None else trace.edge_multicast[edges],
        of_tasks(trace.task_coords),
        of_tasks(trace.task_work),
        None if trace.entity_birth is None else trace.entity_birth[entity][order],
        phases=seconds(trace.task_subphases),
        shared=_shared(of_tasks(trace.task_block), trace.block_bytes, trace.block_home),
    )


def _shared(block: Any, block_bytes: I64 | None, home: Any) -> I64 | None:
    return None if block is None or block_bytes is None else shared_of(block, block_bytes, home)
