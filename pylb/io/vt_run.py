"""The text of vt's LBDatafiles as columns, the text for another placement, and the text of a trace.

msgspec decodes a text into the structures below, and skips keys that they do not name.  No
structure can be part of a cycle, so the garbage collector does not search them (``gc=False``).
"""

from __future__ import annotations

import itertools
import logging
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct

from pylb import _core
from pylb.errors import DomainError, FormatError, StateError
from pylb.io import vt
from pylb.io.phases import COLLECTION, Phases
from pylb.model.snapshot import I32, I64

log = logging.getLogger("pylb")

MOST_PHASES = 1_000_000  # largest number of phases in `skipped` or in `identical_to_previous`
ABSENT = -(2**63)  # the home of an end of a communication, if the file does not give it

Size = Annotated[float, Meta(ge=0.0, le=1e30)]
Number = Annotated[float, Meta(ge=-1e30, le=1e30)]
Rank = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Home = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
PhaseId = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Kind = Literal["LBDatafile"]


class End(Struct, gc=False):
    """The entity at one end of a communication; `id` has priority over `seq_id`."""

    type: str
    id: int | None = None
    seq_id: int | None = None
    home: Home = ABSENT
    migratable: bool | None = None


class Entity(Struct, gc=False, omit_defaults=True):
    type: str
    home: Home
    migratable: bool
    id: int | None = None
    seq_id: int | None = None
    collection_id: int = -1
    objgroup_id: int = -1


class User(Struct, gc=False, omit_defaults=True):
    """What tasks may have in user_defined; the fields are those of `vt.USER`."""

    shared_id: Number | None = None
    shared_bytes: Size | None = None
    task_working_bytes: Size | None = None
    task_footprint_bytes: Size | None = None
    task_serialized_bytes: Size | None = None
    rank_working_bytes: Size | None = None
    home_rank: Number | None = None


class Subphase(Struct, gc=False):
    """A part of a task; all ranks wait at its end."""

    id: Annotated[int, Meta(ge=0)]
    time: Size


class Task(Struct, gc=False, omit_defaults=True):
    entity: Entity
    node: Rank
    time: Size
    user_defined: User | None = None
    subphases: list[Subphase] | None = None
    resource: Any = None


class Comm(Struct, gc=False, rename={"sender": "from", "receiver": "to"}):
    type: str
    sender: End
    receiver: End
    bytes: Size
    messages: Size


class Phase(Struct, gc=False):
    id: PhaseId
    tasks: list[Task] = []
    communications: list[Comm] = []


class Ids(Struct, rename={"each": "list", "spans": "range"}):
    each: list[PhaseId] = []
    spans: list[tuple[PhaseId, PhaseId]] = []  # first and last id


class PhaseIds(Struct):
    """Phases without data of their own: not recorded, and copies of the phase before."""

    skipped: Ids | None = None
    identical_to_previous: Ids | None = None


class Metadata(Struct):
    type: Kind = "LBDatafile"
    rank: Rank | None = None
    phases: PhaseIds | None = None


class File(Struct):
    phases: list[Phase]
    type: Kind = "LBDatafile"
    metadata: Metadata | None = None


def decoded(name: str, text: Any, into: Any = File) -> Any:
    """Decode the text of a file; an error names the file and the place in it."""
    try:
        return msgspec.json.decode(str(text, "utf-8"), type=into)
    except UnicodeDecodeError as why:
        raise FormatError(f"{name}, byte {why.start}: expected UTF-8; {why.reason}") from None
    except RecursionError:
        raise FormatError(f"{name}: values are nested too deep for this reader") from None
    except msgspec.MsgspecError as why:
        said, _, place = str(why).partition(" - at ")
        if "truncated" in said:
            said = f"the text ends in the middle of a value, after {len(text)} bytes"
        raise FormatError(f"{name}{place and f', {place}'}: {said}") from None


def _name(path: Path) -> str:
    return os.fsencode(path).decode(errors="replace")


# ---- a run ----------------------------------------------------------------------------------


def read(paths: list[Path], threads: int | None = None) -> vt.Run:
    """Read the files of one run, of which `threads` are decompressed at once (see `vt.mapped`)."""
    names = list(map(_name, paths))
    texts, parts, heads = vt.mapped(vt.unpacked, paths, threads), [], []
    for r, name in enumerate(names):
        file = decoded(name, texts[r])
        heads.append(_head(name, r, file))
        if heads[r][3] != heads[0][3]:
            a, b = (f"{len(head[3])} phases, {head[3][:9]}" for head in (heads[0], heads[r]))
            raise FormatError(f"ranks have different phases: {name} has {b}, {names[0]} has {a}")
        if heads[r] != heads[0]:
            raise FormatError(
                f"ranks disagree on phases: metadata.phases of {name} and of {names[0]} differ"
            )
        parts.append(columns(name, r, file, heads[r][1]))
        node = int(parts[r][0]["rank"].max(initial=0))
        if node >= len(paths):
            raise FormatError(
                f"{name}: task node is {node}: expected 0 ... {len(paths) - 1}, a rank of the run"
            )
    ids, source, skipped = heads[0][:3]
    phase_id, where = np.array([ids, source], np.int64)
    return vt.Run(paths, texts, phase_id, where, skipped, joined(names, parts, len(ids)))


def _head(name: str, rank: int, file: Any) -> tuple[list[int], ...]:
    """Return the ids of all phases, `Run.source`, skipped phases, and the ids of the file."""
    metadata, ids = file.metadata, [phase.id for phase in file.phases]
    said = None if metadata is None else metadata.rank
    if said not in (None, rank):
        raise FormatError(
            f"{name}: metadata.rank is {said}: expected {rank}, as the file's name says"
        )
    for one, other in itertools.pairwise(ids):
        if one >= other:
            raise FormatError(f"{name}: phase {other} after phase {one}: expected increasing ids")
    about = (metadata and metadata.phases) or PhaseIds()
    same = _ids(name, about.identical_to_previous)
    index = {phase: i for i, phase in enumerate(ids)}
    order, source = sorted({*ids, *same}), list[int]()
    for phase in order:
        if phase not in index and not source:
            raise FormatError(
                f"{name}: metadata.phases: phase {phase} is identical to the one before, but the "
                f"file has no phase before it"
            )
        source.append(index.get(phase, source[-1] if source else 0))
    return order, source, _ids(name, about.skipped), ids


def _ids(name: str, ids: Ids | None) -> list[int]:
    """Return the ids, sorted, each once."""
    spans = [] if ids is None else [*((i, i) for i in ids.each), *ids.spans]
    if sum(max(0, last - first + 1) for first, last in spans) > MOST_PHASES:
        raise FormatError(f"{name}: metadata.phases: more than {MOST_PHASES} phases")
    return sorted({i for first, last in spans for i in range(first, last + 1)})


# ---- the columns of a file --------------------------------------------------------------------


Columns = dict[str, Any]  # the columns of the tasks, (t,) each, or of the communications, (c,)


def columns(name: str, rank: int, file: File, source: Sequence[int]) -> tuple[Columns, Columns]:
    """Return the columns of a file; phase i of the run is phase ``source[i]`` of the file."""
    tasks = [[t for t in p.tasks if not is_initial(p.id, t)] for p in file.phases]
    comms = [p.communications for p in file.phases]
    both: Any = ((_tasks, tasks, "file"), (_comms, comms, "rank"))
    out = []
    for read, items, key in both:  # a phase of the file may stand for many of the run
        of = read(name, [each for phase in items for each in phase])
        ends = np.cumsum([len(phase) for phase in items], dtype=int)
        rows = [np.arange(ends[s] - len(items[s]), ends[s]) for s in source]
        at = np.concatenate(rows) if rows else np.zeros(0, int)
        of = {field: column[at] for field, column in of.items()}
        of["phase"] = np.repeat(np.arange(len(source)), list(map(len, rows)))
        of[key] = np.full(len(at), rank, np.int32)
        out.append(of)
    return out[0], out[1]


def is_initial(phase: int, task: Task) -> bool:
    """Return whether this is the task of zero time that vt appends to phase 0 of each rank.

    Its id is 0, which no object has (LBDataHolder::addInitialTask in vt).
    """
    if phase != 0 or task.time != 0.0 or task.user_defined is not None:
        return False
    e = task.entity
    return (e.id, e.migratable, e.collection_id, e.objgroup_id) == (0, False, -1, -1)


def _tasks(name: str, tasks: list[Task]) -> Columns:
    entities = list(map(attrgetter("entity"), tasks))
    ids = _numbers(entities)
    if None in ids:
        at = entities[ids.index(None)]
        raise FormatError(f"{name}: entity of a task without 'id' or 'seq_id': {at}")
    user: Columns = {}
    given = list(map(attrgetter("user_defined"), tasks))
    if given.count(None) < len(given):
        values = [msgspec.structs.astuple(u) if u else (None,) * len(vt.USER) for u in given]
        for key, column in zip(vt.USER, zip(*values, strict=True), strict=True):
            if column.count(None) < len(column):
                user[key] = np.array(column, float)  # None becomes NaN
    parts = [{p.id: p.time for p in t.subphases or ()} for t in tasks]
    for i in sorted(set().union(*parts)):
        user[f"subphase {i}"] = np.array([part.get(i, 0.0) for part in parts])
    return {
        "rank": _column(tasks, "node", np.int32),
        "load": _column(tasks, "time", np.float64),
        "id": _signed(name, ids),
        "home": _column(entities, "home", np.int64),
        "migratable": _column(entities, "migratable", np.bool_),
        "collection": _signed(name, list(map(attrgetter("collection_id"), entities))),
        **user,
    }


def _comms(name: str, comms: list[Comm]) -> Columns:
    out = {
        "type": _codes(vt.COMM_TYPES, comms),
        "bytes": _column(comms, "bytes", np.float64),
        "messages": _column(comms, "messages", np.float64),
    }
    for side, key in (("from", "sender"), ("to", "receiver")):
        ends = list(map(attrgetter(key), comms))
        ids = _numbers(ends)
        named = np.ones(len(ids), bool)
        if None in ids:
            named = np.array([i is not None for i in ids])
            ids = [i or 0 for i in ids]
        code = {False: 0, True: 1, None: 2}
        flags = map(code.__getitem__, map(attrgetter("migratable"), ends))
        out[side] = _signed(name, ids)
        out[f"{side}_type"] = _codes(vt.ENTITY_TYPES, ends)
        out[f"{side}_home"] = _column(ends, "home", np.int64)
        out[f"{side}_migratable"] = np.fromiter(flags, np.int64, len(ends))
        out[f"{side}_named"] = named & (out[f"{side}_type"] == 0)
    return out


def _numbers(entities: list[Any]) -> list[Any]:
    return [e.seq_id if e.id is None else e.id for e in entities]


def _column(items: list[Any], name: str, dtype: Any) -> Any:
    return np.fromiter(map(attrgetter(name), items), dtype, len(items))


def _codes(names: tuple[str, ...], items: list[Any]) -> Any:
    code = {name: i for i, name in enumerate(names)}
    found = map(code.get, map(attrgetter("type"), items))
    return np.fromiter((len(names) - 1 if c is None else c for c in found), np.uint8, len(items))


def _signed(name: str, numbers: list[int]) -> I64:
    """Return 64-bit integers; values from 2**63 on keep their bits, so they become negative."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        for bad in (i for i in numbers if not -(2**63) <= i < 2**64):
            raise FormatError(f"{name}: an id is {bad}: expected an integer of 64 bits") from None
        return np.array([i - 2**64 if i >= 2**63 else i for i in numbers], np.int64)


# ---- the columns of a run ---------------------------------------------------------------------


def joined(names: list[str], files: list[tuple[Columns, Columns]], n_phases: int) -> dict[str, Any]:
    """Join the files of the ranks to read-only arrays, sorted by phase, by rank, then as recorded.

    ``task_ptr`` and ``comm_ptr``, (m + 1,), say where each phase begins.  ``entity_*`` are the
    objects in order of their first task.  ``comm_src`` and ``comm_dst`` are entities with a task in
    the same phase, else -1; ``comm_from`` and ``comm_to`` are the ids as recorded, ``comm_rank`` is
    the rank whose file has the communication.  In numbers of user_defined, NaN: not recorded.
    """
    task, comm = (_sorted([file[kind] for file in files]) for kind in (0, 1))
    out = {f"task_{key}": task[key] for key in ("rank", "load", "file")}
    out |= {key: task[key] for key in vt.USER if key in task}
    out |= _subphases(names[0], task)
    kept = "type rank bytes messages from to from_type to_type".split()
    out |= {f"comm_{key}": comm[key] for key in kept}
    for kind, phase in (("task", task["phase"]), ("comm", comm["phase"])):
        out[f"{kind}_ptr"] = np.searchsorted(phase, np.arange(n_phases + 1))
    out |= _objects(names, task, comm)
    for array in out.values():
        array.flags.writeable = False
    return out


def _subphases(name: str, task: dict[str, Any]) -> dict[str, Any]:
    """Return the times of the tasks in each subphase, (t, d), if there are 2 to 8 of them.

    The time of a task outside its subphases is added to the first one.
    """
    ids = sorted(int(key.split()[1]) for key in task if key.startswith("subphase "))
    if len(ids) > _core.MOST_PHASES:
        log.warning(
            "pylb: %s and other ranks: tasks have %d subphases, more than %d: only their whole "
            "times are used",
            *(name, len(ids), _core.MOST_PHASES),
        )
    if not 2 <= len(ids) <= _core.MOST_PHASES:
        return {}
    times = np.stack([np.nan_to_num(task[f"subphase {i}"]) for i in ids], axis=1)
    rest = task["load"] - times.sum(axis=1)
    for i in np.flatnonzero(rest < -1e-3 * task["load"])[:1]:
        raise FormatError(
            f"{name} and other ranks: the subphases of object {task['id'][i]} take "
            f"{times[i].sum():g} s: expected at most its time, {task['load'][i]:g} s"
        )
    times[:, 0] += np.where(rest > 1e-9 * task["load"], rest, 0.0)
    return {"task_subphases": times}


def _sorted(files: list[Columns]) -> Columns:
    order = np.argsort(np.concatenate([f["phase"] for f in files]), kind="stable")
    out = {}
    for key in dict.fromkeys(itertools.chain.from_iterable(files)):
        parts = [f[key] if key in f else np.full(len(f["phase"]), np.nan) for f in files]
        out[key] = np.concatenate(parts)[order]
    return out


def _objects(names: list[str], task: dict[str, Any], comm: dict[str, Any]) -> dict[str, Any]:
    """Find the objects: vt identifies an object by its id, its home, and whether it may migrate.

    A program of pylb may let an object migrate in some phases only.  So the last of the three
    separates two objects only if a phase has two tasks with the same id and home.
    """
    n, c = len(task["id"]), len(comm["from"])
    rows = {"task": slice(n), "src": slice(n, n + c), "dst": slice(n + c, None)}
    number = np.unique(_all(task["id"], comm["from"], comm["to"]), return_inverse=True)[1]
    homes, home = np.unique(
        _all(task["home"], comm["from_home"], comm["to_home"]), return_inverse=True
    )
    flag = _all(task["migratable"], comm["from_migratable"], comm["to_migratable"])
    place = number * len(homes) + home
    full = place
    first, entity = _numbered(place[:n])
    if _twice(entity, task["phase"]) is not None:
        full = place * 3 + flag
        first, entity = _numbered(full[:n])
        twice = _twice(entity, task["phase"])
        if twice is not None:
            one, two = (names[task["file"][row]] for row in twice)
            raise FormatError(
                f"object {task['id'][twice[0]]} with home {task['home'][twice[0]]} occurs twice in "
                f"one phase: in {one} and in {two}"
            )
    movable = np.ones(len(first), bool)
    movable[entity[~task["migratable"]]] = False
    out = {
        "entity_key": _keys(names[0], task["id"][first], task["home"][first], movable),
        "entity_migratable": movable,
        "entity_home": task["home"][first].astype(np.int32),
        "entity_collection": task["collection"][first],
        "task_entity": entity,
    }
    for name, side in (("src", "from"), ("dst", "to")):
        of, found = rows[name], np.full(c, -1)
        absent = comm[f"{side}_home"] == ABSENT
        # An end may lack home or migratable if only one object matches the rest.
        for codes, given in (
            (number, absent),
            (place, ~absent & (flag[of] == 2)),
            (full, ~absent & (flag[of] != 2)),
        ):
            given = given & comm[f"{side}_named"]
            if given.any():
                found[given] = _only(codes[:n][first], codes[of][given])
        out[f"comm_{name}"] = _present(found, comm["phase"], entity, task["phase"])
    return out


def _all(*columns: Any) -> I64:
    return np.concatenate(columns).astype(np.int64, copy=False)


def _numbered(code: I64) -> tuple[I64, I32]:
    """Index the codes in order of their first row; return these rows, and each row's index."""
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    return first[order], place[number]


def _twice(entity: I32, phase: I64) -> tuple[int, int] | None:
    """Return two tasks of an entity in one phase; None if there are none."""
    order = np.lexsort((entity, phase))
    again = np.flatnonzero((np.diff(entity[order]) == 0) & (np.diff(phase[order]) == 0))
    return (int(order[again[0]]), int(order[again[0] + 1])) if len(again) else None


def _keys(name: str, ids: I64, home: I64, migratable: Any) -> I64:
    """Return a key for each object: its id; if two objects of the run share an id, see `Phases`.

    vt makes the ``id`` of an element of a collection in the same way.
    """
    if len(np.unique(ids)) == len(ids):
        return ids
    bad = (ids < 0) | (ids >= 2**45) | (home < 0) | (home >= 2**16)
    for at in np.flatnonzero(bad)[:1]:
        raise FormatError(
            f"{name} and other ranks: objects of different homes have the same id, and object "
            f"{ids[at]} has home {home[at]}: expected ids below 2**45 and homes below 2**16"
        )
    return ids * 2**18 + home * 4 + 2 + migratable  # type: ignore[no-any-return]


def _only(codes: I64, wanted: I64) -> I64:
    """Return the index of the one object with the wanted code; -1 if none or several have it."""
    known, first, many = np.unique(codes, return_index=True, return_counts=True)
    if not len(known):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[at] == wanted) & (many[at] == 1), first[at], -1)


def _present(end: I64, phase: I64, entity: I32, task_phase: I64) -> I32:
    """Return the ends whose entity has a task in the phase; else -1."""
    n = int(entity.max(initial=-1)) + 1
    here = np.isin(phase * n + end, task_phase * n + entity)
    return np.where(here & (end >= 0), end, -1).astype(np.int32)


# ---- another placement ------------------------------------------------------------------------


def texts(run: vt.Run, phases: I64, task_entity: I32, rank: I32) -> Callable[[int], bytes]:
    """Return ``text(r)``, a function that returns the text of rank r's file with these phases.

    `rank` is the placement: a rank for each task of these phases.  Everything except the lists of
    tasks and communications, and ``node`` of tasks, is copied.
    """
    for file in run.texts:
        if isinstance(file, mmap.mmap) and file.size() != len(file):
            raise StateError("a file of the run has a different size than when it was read")
    if len(phases) < len(run.source) and len(set(run.source.tolist())) < len(run.source):
        raise DomainError(
            "the record has phases that are copies of earlier ones: expected all of its phases"
        )
    if len(phases) == len(run.source) and np.array_equal(rank, run.arrays["task_rank"]):
        return lambda r: bytes(run.texts[r][:])
    a: dict[str, Any] = {}
    for kind in ("task", "comm"):
        a[f"{kind}_ptr"], some = vt.rows(run.arrays[f"{kind}_ptr"], phases)
        a |= {x: run.arrays[x][some] for x in run.arrays if x.startswith(kind) and x not in a}
    a["task_entity"] = task_entity
    names = map(_name, run.paths)
    roots = [decoded(name, text, Fields) for name, text in zip(names, run.texts, strict=True)]
    old = [msgspec.json.decode(root["phases"], type=list[Fields]) for root in roots]
    new: list[list[dict[str, Any]]] = [[] for _ in roots]
    changed, last, before = set[int](), -1, rank
    n = int(task_entity.max(initial=-1)) + 1
    for i, phase in enumerate(run.source[phases].tolist()):
        t = slice(*a["task_ptr"][i : i + 2].tolist())
        if phase == last:
            for at in np.flatnonzero(rank[t] != before)[:1]:
                raise DomainError(
                    f"rank[{t.start + at}] is {rank[t][at]}: expected {before[at]}, because "
                    f"this phase is a copy of phase {run.phase_id[np.argmax(run.source == phase)]}"
                )
            continue
        last, before = phase, rank[t]
        files = [file[phase] for file in old]
        node, to, where = _places(a, n, i, before)
        tasks = _moved(files, "tasks", to, node)
        comms = _moved(files, "communications", where)
        changed |= tasks.keys() | comms.keys()
        for r, fields in enumerate(files):
            new[r].append(fields | tasks.get(r, {}) | comms.get(r, {}))
    if len(new[0]) < len(old[0]):
        changed = set(range(len(roots)))

    def text(r: int) -> bytes:
        if r not in changed:
            return bytes(run.texts[r][:])
        return msgspec.json.encode(roots[r] | {"phases": new[r]})

    return text


Fields = dict[str, Raw]  # an object of a file, whose values are copied


def _places(a: dict[str, Any], n: int, i: int, rank: I32) -> Iterator[list[int]]:
    """Return where tasks and communications of phase i go if its tasks move to the ranks `rank`.

    Yields the new rank of each task if it changes, else -1; the file of each task; and the file of
    each communication.  A task goes into the file of its new rank.  A communication goes with its
    sender if the sender's task was in the same file, or else with its receiver.  For a broadcast
    the receiver has priority, as in vt.
    """
    t, c = (slice(*a[key][i : i + 2].tolist()) for key in ("task_ptr", "comm_ptr"))
    stays = rank == a["task_rank"][t]
    yield np.where(stays, -1, rank).tolist()
    to = np.where(stays, a["task_file"][t], rank)
    yield to.tolist()
    was, now = np.full((2, n + 1), -1)  # of the n entities; the last: of an end that is none
    was[a["task_entity"][t]], now[a["task_entity"][t]] = a["task_file"][t], to
    ends = np.array([a["comm_dst"][c], a["comm_src"][c]])
    broadcast = a["comm_type"][c] == vt.COMM_TYPES.index("Broadcast")
    ends[:, broadcast] = ends[::-1, broadcast]
    file = where = a["comm_rank"][c]
    for end in ends:  # the second has priority
        where = np.where(was[end] == file, now[end], where)
    yield where.tolist()


def _moved(
    phases: list[Fields], key: str, to: list[int], node: list[int] | None = None
) -> dict[int, dict[str, Any]]:
    """Return the lists of a phase that change, by file: items that stay, then new items."""
    stay: list[list[Raw]] = [[] for _ in phases]
    come: list[list[Raw]] = [[] for _ in phases]
    changed, k = set(), 0
    for r, phase in enumerate(phases):
        begins = node is not None and bytes(phase["id"]) == b"0"
        for item in msgspec.json.decode(phase.get(key, b"[]"), type=list[Raw]):
            if begins and is_initial(0, msgspec.json.decode(item, type=Task)):
                stay[r].append(item)
                continue
            if node is not None and node[k] >= 0:
                fields = msgspec.json.decode(item, type=Fields)
                item = Raw(msgspec.json.encode(fields | {"node": node[k]}))
                changed.add(r)
            if to[k] != r:
                changed.update((r, to[k]))
            (stay if to[k] == r else come)[to[k]].append(item)
            k += 1
    return {r: {key: stay[r] + come[r]} for r in changed}


# ---- a trace that vt has not recorded ---------------------------------------------------------


def generated(trace: Phases, rank: I32) -> Callable[[int], bytes]:
    """Return ``text(r)``, a function that returns the text of rank r's file.

    `rank` (t,) is the placement.  An edge is in the file of its sender's rank.
    """
    collections = np.maximum(trace.entity_collection, COLLECTION)
    columns = (trace.entity_home, trace.entity_migratable, trace.entity_key, collections)
    entities = [
        Entity("object", home, migratable, id=key, collection_id=collection)
        for home, migratable, key, collection in zip(*(c.tolist() for c in columns), strict=True)
    ]
    sender = np.empty(len(trace.edge_src), np.int32)
    where = np.empty(trace.n_entities, np.int32)
    spans = [
        (slice(*trace.task_ptr[i : i + 2].tolist()), slice(*trace.edge_ptr[i : i + 2].tolist()))
        for i in range(len(trace))
    ]
    for t, e in spans:
        where[trace.task_entity[t]] = rank[t]
        sender[e] = where[trace.edge_src[e]]

    def text(r: int) -> bytes:
        phases = []
        for number, (t, e) in zip(trace.phase_id.tolist(), spans, strict=True):
            tasks = t.start + np.flatnonzero(rank[t] == r)
            edges = e.start + np.flatnonzero(sender[e] == r)
            comms = _generated_comms(trace, edges, entities)
            phase = Phase(number, _generated_tasks(trace, tasks, r, entities), comms)
            phases.append(Raw(msgspec.json.encode(phase)))
            _core.check_signals()
        kind = "LBDatafile"
        head = {"type": kind, "metadata": {"type": kind, "rank": r}}
        return msgspec.json.encode({**head, "phases": phases})

    return text


def _generated_tasks(trace: Phases, tasks: I64, r: int, entities: list[Any]) -> list[Task]:
    def of(column: Any) -> list[Any]:
        return [None] * len(tasks) if column is None else column[tasks].tolist()

    parts, out = trace.parts_of(tasks), []
    times_of = of(None) if parts is None else parts.tolist()
    names = "entity load migratable bytes memory block".split()
    columns = [of(getattr(trace, f"task_{name}")) for name in names]
    for times, entity, time, movable, nbytes, memory, block in zip(times_of, *columns, strict=True):
        user = User(block, task_serialized_bytes=nbytes, task_footprint_bytes=memory)
        if block is not None and block >= 0 and trace.block_bytes is not None:
            user.shared_bytes = float(trace.block_bytes[block])
            if trace.block_home is not None:
                user.home_rank = int(trace.block_home[block])
        task = Task(entities[entity], r, time, None if user == User() else user, resource="cpu")
        if movable is not None:
            task.entity = msgspec.structs.replace(task.entity, migratable=movable)
        if times is not None:
            task.subphases = list(map(Subphase, range(len(times)), times))
        out.append(task)
    return out


def _generated_comms(trace: Phases, edges: I64, entities: list[Any]) -> list[Comm]:
    codes = np.zeros(len(edges), int) if trace.edge_type is None else trace.edge_type[edges]
    columns = (trace.edge_src, trace.edge_dst, trace.edge_bytes, trace.edge_messages)
    rows = zip(*(column[edges].tolist() for column in columns), codes.tolist(), strict=True)
    return [
        Comm(
            vt.COMM_TYPES[code],
            entities[src],
            entities[dst],
            size,
            # vt needs an integer, but a mean over iterations can be below 1
            max(round(messages), int(messages > 0)),
        )
        for src, dst, size, messages, code in rows
    ]
