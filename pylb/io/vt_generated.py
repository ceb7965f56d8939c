"""Generate the text of LBDatafiles from arrays, for traces that vt has not recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from pylb import _core
from pylb.io.phases import COLLECTION, Phases
from pylb.model.snapshot import I32, I64

Json = dict[str, Any]
PIECE = 2000  # tasks or edges that are written between two checks for Ctrl-C


def texts(trace: Phases, rank: I32) -> Callable[[int], bytes]:
    """Return ``text(r)``, a function that returns the text of rank r's file.

    `rank` (t,) is the placement.  An edge is in the file of its sender's rank.
    """
    rows = zip(
        np.maximum(trace.entity_collection, COLLECTION).tolist(),
        trace.entity_home.tolist(),
        trace.entity_key.tolist(),
        trace.entity_migratable.tolist(),
        strict=True,
    )
    names = ("collection_id", "home", "id", "migratable")
    entities = [{**dict(zip(names, row, strict=True)), "type": "object"} for row in rows]
    sender = np.empty(len(trace.edge_src), np.int32)
    for i in range(len(trace)):
        t, e = _slices(trace, i)
        where = np.empty(trace.n_entities, np.int32)
        where[trace.task_entity[t]] = rank[t]
        sender[e] = where[trace.edge_src[e]]

    def phase(i: int, r: int) -> str:
        t, e = _slices(trace, i)
        tasks = t.start + np.flatnonzero(rank[t] == r)
        edges = e.start + np.flatnonzero(sender[e] == r)
        return (
            f'{{"id": {int(trace.phase_id[i])}, '
            f'"tasks": {_list(tasks, lambda some: _tasks(trace, some, r, entities))}, '
            f'"communications": {_list(edges, lambda some: _communications(trace, some, entities))}'
            "}"
        )

    def text(r: int) -> bytes:
        kind = "LBDatafile"
        head = json.dumps({"type": kind, "metadata": {"type": kind, "rank": r}, "phases": []})
        phases = ", ".join(phase(i, r) for i in range(len(trace)))
        return f"{head[:-2]}{phases}]}}\n".encode()

    return text


def _list(rows: I64, made: Callable[[I64], list[Json]]) -> str:
    """Return the text of a list; check for Ctrl-C after every `PIECE` rows."""
    pieces = []
    for begin in range(0, len(rows), PIECE):
        pieces.append(json.dumps(made(rows[begin : begin + PIECE]))[1:-1])
        _core.check_signals()
    return f"[{', '.join(pieces)}]"


def _slices(trace: Phases, i: int) -> tuple[slice, slice]:
    """Return the tasks and the edges of phase i."""
    return slice(*trace.task_ptr[i : i + 2].tolist()), slice(*trace.edge_ptr[i : i + 2].tolist())


def _tasks(trace: Phases, tasks: I64, r: int, entities: list[Json]) -> list[Json]:
    out: list[Json] = [
        {"entity": entities[entity], "node": r, "resource": "cpu", "time": time}
        for entity, time in zip(
            trace.task_entity[tasks].tolist(), trace.task_load[tasks].tolist(), strict=True
        )
    ]
    if (parts := trace.parts_of(tasks)) is not None:
        for task, times in zip(out, parts.tolist(), strict=True):
            task["subphases"] = [{"id": i, "time": time} for i, time in enumerate(times)]
    if trace.task_migratable is not None:
        for task, movable in zip(out, trace.task_migratable[tasks].tolist(), strict=True):
            task["entity"] = {**task["entity"], "migratable": movable}
    for name, column in (
        ("task_serialized_bytes", trace.task_bytes),
        ("task_footprint_bytes", trace.task_memory),
    ):
        if column is not None:
            for task, size in zip(out, column[tasks].tolist(), strict=True):
                task.setdefault("user_defined", {})[name] = float(size)
    if trace.task_block is not None and trace.block_bytes is not None:
        for task, block in zip(out, trace.task_block[tasks].tolist(), strict=True):
            user = task.setdefault("user_defined", {})
            user["shared_id"] = block
            if block >= 0:
                user["shared_bytes"] = float(trace.block_bytes[block])
            if block >= 0 and trace.block_home is not None:
                user["home_rank"] = int(trace.block_home[block])
    return out


def _communications(trace: Phases, edges: I64, entities: list[Json]) -> list[Json]:
    codes = np.zeros(len(edges), int) if trace.edge_type is None else trace.edge_type[edges]
    columns = (trace.edge_src, trace.edge_dst, trace.edge_bytes, trace.edge_messages)
    rows = zip(*(column[edges].tolist() for column in columns), codes.tolist(), strict=True)
    return [
        {
            "type": trace.COMM_TYPES[code],
            "bytes": size,
            # vt needs an integer, but a mean over iterations can be below 1
            "messages": max(round(messages), int(messages > 0)),
            "from": entities[src],
            "to": entities[dst],
        }
        for src, dst, size, messages, code in rows
    ]
