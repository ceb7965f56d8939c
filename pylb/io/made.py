"""Traces that no program recorded: from snapshots to arrays, from arrays to LBDatafile text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pylb.errors import DomainError, UnknownKeyError
from pylb.io.phases import Phases
from pylb.model.snapshot import I32, I64, Snapshot

# Entities get a collection, which also tells them from the task that vt appends to phase 0.
COLLECTION = 0


def arrays(snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """The fields of a trace whose phases these snapshots are, their objects in the same order."""
    _check(snapshots)
    task_ptr = _bounds([s.n_objects for s in snapshots])
    edge_ptr = _bounds([s.n_edges for s in snapshots])
    keys = np.concatenate([_key(s) for s in snapshots])
    known, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)  # entities are numbered in order of their first task
    number = np.empty(len(known), np.int32)
    number[order] = np.arange(len(known), dtype=np.int32)
    entity = number[which]
    rank = np.concatenate([s.rank for s in snapshots])
    migratable = np.ones(len(known), bool)
    np.logical_and.at(migratable, entity, np.concatenate([_migratable(s) for s in snapshots]))
    ends = zip(snapshots, task_ptr, strict=False)
    edges = [_edges(s, entity[start : start + s.n_objects]) for s, start in ends]
    out = {
        "n_ranks": snapshots[0].n_ranks,
        "phase_id": np.arange(len(snapshots)),
        "entity_key": known[order],
        "entity_migratable": migratable,
        "entity_home": rank[first[order]],
        "entity_collection": np.full(len(known), COLLECTION, np.int64),
        "task_ptr": task_ptr,
        "task_entity": entity,
        "task_rank": rank,
        "task_load": np.concatenate([s.load for s in snapshots]),
        "task_bytes": _optional(snapshots, "bytes"),
        "task_memory": _optional(snapshots, "memory"),
        "edge_ptr": edge_ptr,
        "speed": snapshots[0].speed,
        "background": snapshots[0].background,
    }
    for i, name in enumerate(("edge_src", "edge_dst", "edge_bytes", "edge_messages")):
        out[name] = np.concatenate([e[i] for e in edges])
    return out


def _check(snapshots: Sequence[Snapshot]) -> None:
    if not snapshots:
        raise DomainError("snapshots is empty: expected one for each phase")
    first = snapshots[0]
    for i, s in enumerate(snapshots):
        if s.n_components != 1:
            raise DomainError(f"snapshots[{i}] has {s.n_components} loads an object: expected 1")
        if s.n_ranks != first.n_ranks:
            raise DomainError(
                f"snapshots[{i}] has {s.n_ranks} ranks: expected {first.n_ranks}, as the first has"
            )
        for name in ("speed", "background"):
            if not _same(getattr(s, name), getattr(first, name)):
                raise DomainError(f"snapshots[{i}] has another {name} than the first: expected one")
        values, counts = np.unique(_key(s), return_counts=True)
        if np.any(counts > 1):
            key = values[np.argmax(counts > 1)]
            raise UnknownKeyError(f"snapshots[{i}] has the key {key} more than once")


def _same(a: Any, b: Any) -> bool:
    return (a is None) == (b is None) and np.array_equal(a, b)


def _bounds(sizes: list[int]) -> I64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _key(s: Snapshot) -> I64:
    return np.arange(s.n_objects) if s.key is None else s.key


def _migratable(s: Snapshot) -> Any:
    return np.ones(s.n_objects, bool) if s.migratable is None else s.migratable


def _optional(snapshots: Sequence[Snapshot], name: str) -> I64 | None:
    columns = [getattr(s, name) for s in snapshots]
    if all(c is None for c in columns):
        return None
    sizes = [s.n_objects for s in snapshots]
    empty = (np.zeros(n, np.int64) for n in sizes)
    return np.concatenate([z if c is None else c for z, c in zip(empty, columns, strict=True)])


def _edges(s: Snapshot, entity: I32) -> tuple[Any, ...]:
    if s.edges is None:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0), np.empty(0)
    messages = np.ones(s.n_edges) if s.edges.messages is None else s.edges.messages
    return entity[s.edges.src], entity[s.edges.dst], s.edges.nbytes, messages


# ---- text -----------------------------------------------------------------------------------


def texts(trace: Phases, rank: I32) -> Callable[[int], bytes]:
    """The text of each rank's file under the placement `rank`, (t,) int32.

    An edge is written by the rank of its sender.
    """
    entities = [
        json.dumps(
            {
                "collection_id": max(c, COLLECTION),
                "home": h,
                "id": k,
                "migratable": m,
                "type": "object",
            }
        )
        for c, h, k, m in zip(
            trace.entity_collection.tolist(),
            trace.entity_home.tolist(),
            trace.entity_key.tolist(),
            trace.entity_migratable.tolist(),
            strict=True,
        )
    ]
    sender = np.empty(len(trace.edge_src), np.int32)
    for i in range(len(trace)):
        t = slice(trace.task_ptr[i], trace.task_ptr[i + 1])
        e = slice(trace.edge_ptr[i], trace.edge_ptr[i + 1])
        where = np.empty(trace.n_entities, np.int32)
        where[trace.task_entity[t]] = rank[t]
        sender[e] = where[trace.edge_src[e]]

    def text(r: int) -> bytes:
        head = f'{{"type": "LBDatafile", "metadata": {{"type": "LBDatafile", "rank": {r}}}'
        phases = [_phase(trace, i, r, rank, sender, entities) for i in range(len(trace))]
        return f'{head}, "phases": [{", ".join(phases)}]}}\n'.encode()

    return text


def _phase(trace: Phases, i: int, r: int, rank: I32, sender: I32, entities: list[str]) -> str:
    start, stop = trace.task_ptr[i], trace.task_ptr[i + 1]
    tasks = start + np.flatnonzero(rank[start:stop] == r)
    start, stop = trace.edge_ptr[i], trace.edge_ptr[i + 1]
    edges = start + np.flatnonzero(sender[start:stop] == r)
    rows = zip(
        trace.task_entity[tasks].tolist(),
        trace.task_load[tasks].tolist(),
        _user(trace, tasks),
        strict=True,
    )
    task_texts = [
        f'{{"entity": {entities[e]}, "node": {r}, "resource": "cpu", "time": {time!r}{user}}}'
        for e, time, user in rows
    ]
    ends = zip(
        trace.edge_src[edges].tolist(),
        trace.edge_dst[edges].tolist(),
        trace.edge_bytes[edges].tolist(),
        trace.edge_messages[edges].tolist(),
        _types(trace, edges),
        strict=True,
    )
    edge_texts = [
        f'{{"type": "{kind}", "bytes": {size!r}, "messages": {_whole(messages)}, '
        f'"from": {entities[src]}, "to": {entities[dst]}}}'
        for src, dst, size, messages, kind in ends
    ]
    return (
        f'{{"id": {trace.phase_id[i]}, "tasks": [{", ".join(task_texts)}], '
        f'"communications": [{", ".join(edge_texts)}]}}'
    )


def _types(trace: Phases, edges: I64) -> list[str]:
    if trace.edge_type is None:
        return ["SendRecv"] * len(edges)
    return [trace.COMM_TYPES[code] for code in trace.edge_type[edges]]


def _user(trace: Phases, tasks: I64) -> list[str]:
    """``user_defined`` of each task, with the comma before it, or nothing."""
    columns = [
        (name, column[tasks].tolist())
        for name, column in (
            ("task_serialized_bytes", trace.task_bytes),
            ("task_footprint_bytes", trace.task_memory),
        )
        if column is not None
    ]
    if not columns:
        return [""] * len(tasks)
    members = zip(*([f'"{name}": {float(x)!r}' for x in c] for name, c in columns), strict=True)
    return [f', "user_defined": {{{", ".join(m)}}}' for m in members]


def _whole(messages: float) -> str:
    """vt counts messages in integers; a mean over iterations may be less than one."""
    return str(max(round(messages), int(messages > 0)))
