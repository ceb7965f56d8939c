"""Checkpoints: write objects, messages and what was learned, and continue from these files."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pylb import _core, files
from pylb.comm import parcel
from pylb.comm.agreement import Attempt, Step
from pylb.decide.decider import BALANCE, JUDGE, NOTHING, Decider
from pylb.decide.receipts import Receipt
from pylb.errors import DomainError, FormatError, SerializationError, StateError
from pylb.files import named
from pylb.io import checkpoint as disk
from pylb.io.checkpoint import decode, encode
from pylb.model import checks
from pylb.model.objects import COLUMNS, Objects, used
from pylb.model.snapshot import F64, I64
from pylb.run.local_objects import HERE, Items, LocalObjects
from pylb.run.loops import IterationLoop
from pylb.run.modes import MeasuringMode, RunState
from pylb.run.records import Row

SAVED = used("saved")
Pack = Callable[[int, Any], Any]  # the user's function pack(key, object), or unpack(key, value)


def checkpoint(
    state: RunState,
    mode: MeasuringMode,
    loop: IterationLoop,
    path: str | os.PathLike[str],
    pack: Pack | None,
    pickled: bool,
) -> None:
    """Write a checkpoint.  Collective; an error on one rank is raised on all."""
    folder, name, transport = Path(), b"", state.agreement.transport
    with Attempt() as tried:
        folder = Path(named(path))
        checks.flag("pickled", pickled)
        _check_place(state, mode, loop)
        if transport.rank == 0:
            if folder.exists() and not folder.is_dir():
                raise DomainError(f"path is {os.fspath(path)!r}: expected a folder, or a new name")
            folder.mkdir(exist_ok=True)
            name = os.urandom(8).hex().encode()
    words = f"checkpoint({str(path)!r}), pickled={pickled}, pack={pack is not None}"
    state.agreement.agree(Step.CHECKPOINT, words, tried.error)
    loop.complete()
    which = bytes(transport.allgather(name)[0]).decode()
    sizes = _each_file(state, mode, folder, which, pack, pickled)
    head = disk.Head(
        *(which, transport.size, state.done, pack is not None, pickled, np.ravel(sizes).tolist()),
        phases=None if (names := state.objects.phases) is None else [*names],
    )

    def finish() -> None:
        disk.finish(folder, head)
        disk.clean(folder, keep=which)

    state.agreement.on_root(Step.CHECKPOINT, state.done, finish)


def _each_file(
    state: RunState,
    mode: MeasuringMode,
    folder: Path,
    which: str,
    pack: Pack | None,
    pickled: bool,
) -> Any:
    """Write the file of this rank; return the size of every rank's file in bytes.  Collective."""
    size = np.zeros(1, np.int64)
    file = disk.file_of(folder, which, state.objects.rank)
    with Attempt() as tried:
        arrays = _objects(state, pack, pickled) | _messages(state, pickled)
        if state.objects.rank == 0:
            figures = state.records.figures
            encoded = json.dumps([r.to_dict() for r in mode.history.lb_steps]).encode()
            arrays |= {
                "rows": figures.table(),
                "spans": [figures.span, state.objects.passes, len(state.decider.before)],
                "loops": np.array([loop[:3] for loop in state.records.loops], np.float64),
                "receipts": np.frombuffer(encoded, np.uint8),
            }
        size[0] = disk.write(file, arrays)
    try:
        state.agreement.step(Step.CHECKPOINT, state.done, error=tried.error)
    except Exception:
        file.unlink(missing_ok=True)
        raise
    return [np.frombuffer(b, np.int64) for b in state.agreement.transport.allgather(size)]


def _check_place(state: RunState, mode: MeasuringMode, loop: IterationLoop) -> None:
    """Raise StateError if options or place permit no checkpoint; between loops, `arrange`."""
    objects, options = state.objects, state.options
    if options.mode == "shadow" or options.replay is not None:
        source = options.settings.said_by("mode")
        what = f"checkpoint() in shadow mode{source} or with replay=path"
        raise StateError(f"{what}: expected mode='on' or 'off', and no replay")
    if not objects.in_loop:
        objects.arrange()
    elif options.lag:
        raise StateError(f"checkpoint() in a loop with lag={options.lag}: expected it after a loop")
    elif objects.n_changed or np.any(objects.seconds) or mode.due:
        what = f"checkpoint() in the middle of iteration {state.done}"
        raise StateError(f"{what}: expected it before the first local(), add() or remove()")
    if objects.mail.n_sent:
        raise StateError("checkpoint() after send(): expected it before, or after the iteration")


def _objects(state: RunState, pack: Pack | None, pickled: bool) -> disk.Arrays:
    objects = state.objects
    parts = [
        _bytes(f"object {key}", value if pack is None else pack(key, value), pickled)
        for key, value in zip(objects.keys.tolist(), objects.values, strict=True)
    ]
    value, at = disk.joined(parts)
    columns = {name: objects.table[name] for name in SAVED}
    return {
        "key": objects.keys,
        "value": value,
        "value_at": at,
        "estimates": objects.estimates,
        "window": objects.sums,
        **columns,
    }


def _messages(state: RunState, pickled: bool) -> disk.Arrays:
    """Return the arrays of the messages that wait in the inboxes; with a lag, there are none."""
    mail = state.objects.mail
    keys = [] if state.options.lag else state.objects.keys.tolist()
    letters = [(key, source, data) for key in keys for source, data in mail.inbox(key)]
    message, at = disk.joined(
        [_bytes(f"a message from {s} to {t}", data, pickled) for t, s, data in letters]
    )
    ends = {"target": [t for t, _, _ in letters], "source": [s for _, s, _ in letters]}
    return {**ends, "message": message, "message_at": at}


def _bytes(what: str, value: Any, pickled: bool) -> bytes:
    try:
        return pickle.dumps(value, protocol=5) if pickled else encode(value)
    except Exception as why:
        raise SerializationError(f"{what} cannot be written: {why}") from why


OF_OBJECTS = ("key", "value", "value_at", "estimates", "window", *SAVED)
OF_MESSAGES = ("target", "source", "message", "message_at")
OF_RUN = ("rows", "spans", "loops", "receipts")


# The objects that this rank takes from one of the former ranks, their sums of loads (see
# `LocalObjects.sums`), and their messages: target, source, data.
TakenObjects = tuple[Items, F64, list[tuple[int, int, Any]]]


def restore(
    state: RunState,
    mode: MeasuringMode,
    path: str | os.PathLike[str],
    unpack: Pack | None,
    pickled: bool,
) -> None:
    """Read a checkpoint into a new run.  Collective; an error on one rank is raised on all."""
    agreement = state.agreement
    network = state.network() if state.decider.settings.selects else None
    state.clock()  # tells the decider which ranks share cores
    with Attempt() as tried:
        if network is not None:
            state.decider.core.network(*network)
        state.ignore_recording_by_environment()
        options = state.options
        if options.mode == "shadow" or options.replay is not None or options.record is not False:
            source = options.settings.said_by("mode")
            what = f"restore() in shadow mode{source}, or with record or replay"
            raise StateError(f"{what}: expected mode='on' or 'off', record=False and no replay")
        checks.flag("pickled", pickled)
        folder = Path(files.decoded(path))
        head = disk.head(folder)
        _check_request(head, unpack, pickled)
        parts = [
            _taken_part(state, folder, head, rank, unpack)
            for rank in _sources(head.n_ranks, agreement.transport.size, agreement.transport.rank)
        ]
        _enter_objects(state, parts)
        run = disk.read(folder, head, 0, OF_RUN)
        with files.understood(disk.file_of(folder, head.id, 0), "a checkpoint"):
            _enter_run(state, mode, run, head)
    words = f"restore({str(path)!r}), pickled={pickled}"
    agreement.agree(Step.RESTORE, words, tried.error)


def _check_request(head: disk.Head, unpack: Pack | None, pickled: bool) -> None:
    if head.pickled != pickled:
        needed = "True, which runs code of the file; do so only with files that you trust"
        raise DomainError(
            f"pickled is {pickled}, but the objects of this checkpoint are {'not ' * pickled}"
            f"pickled: expected pickled={needed if head.pickled else False}"
        )
    if head.packed != (unpack is not None):
        known, given = ("with", "missing") if head.packed else ("without", "given")
        raise DomainError(f"unpack is {given}: the checkpoint was written {known} pack=")


def _sources(was: int, now: int, rank: int) -> range:
    """Return the former ranks from which present rank `rank` takes objects.

    There were `was` ranks; now there are `now`.  On a line, former rank i is the interval from i to
    i + 1, and present rank j is that from ``j * was / now`` to ``(j + 1) * was / now``.
    """
    return range(rank * was // now, -(-(rank + 1) * was // now))


def _taken_here(load: F64, source: int, was: int, now: int, rank: int) -> I64:
    """Return the indices of the objects that rank `rank` takes from former rank `source`.

    These are a part of the objects, which are sorted by key, with a weight of load plus mean load.
    """
    weight = load + load.mean() if load.any() else np.ones(len(load))
    middle = np.cumsum(weight) - 0.5 * weight
    at = source + middle / max(weight.sum(), 1e-300)
    first, last = source * now // was, -(-(source + 1) * now // was) - 1
    return np.flatnonzero(np.clip((at * now / was).astype(np.int64), first, last) == rank)


def _taken_part(
    state: RunState, folder: Path, head: disk.Head, source: int, unpack: Pack | None
) -> TakenObjects:
    transport, objects = state.agreement.transport, state.objects
    arrays = disk.read(folder, head, source, OF_OBJECTS + OF_MESSAGES)
    name = disk.file_of(folder, head.id, source)
    keys = arrays["key"]
    n, same = len(keys), head.n_ranks == transport.size
    if head.phases is not None and objects.phases is None:
        objects.name_phases(tuple(head.phases))
    estimates = _estimates(arrays, objects, same, head.n_ranks, name)
    index = _taken_here(estimates[0], source, head.n_ranks, transport.size, transport.rank)
    blobs = disk.pieces(arrays["value"], arrays["value_at"], index)
    values = [
        _value(f"{name}: object {key}", blob, head.pickled, key, unpack)
        for key, blob in zip(keys[index].tolist(), blobs, strict=True)
    ]
    columns = _properties(arrays, n, index)
    lost = columns["home"] >= transport.size
    columns["home"] = np.where(lost, transport.rank, columns["home"]).astype(np.int32)
    if "shared" in columns:  # if the home does not exist any more, all ranks choose the same one
        home = columns["shared"][:, 2]
        home[home >= transport.size] %= transport.size
    if not same:  # the gain of a former LB step is not computed then
        columns.pop("was", None)
    table = np.ascontiguousarray(estimates[:, index])
    items = Items(Objects(keys[index], columns), values, table)
    letters = _messages_of(arrays, keys[index], head.pickled, name)
    sums = arrays["window"].reshape(len(objects.sums), n)[:, index] * same
    return items, sums, letters


def _properties(arrays: disk.Arrays, n: int, index: I64) -> dict[str, Any]:
    """Return the properties that differ from their default for some object, and always `home`."""
    out = {"home": arrays["home"][index]}
    for name in SAVED:
        c = COLUMNS[name]
        values = arrays[name].reshape(n, *c.shape)[index].astype(c.dtype)
        same = np.isnan(values) if c.default != c.default else values == c.default
        if not same.all():
            out[name] = values
    return out


def _estimates(
    arrays: disk.Arrays, objects: LocalObjects, same: bool, n_ranks: int, name: Path
) -> F64:
    """Check and return the estimates of a file.

    If the number of ranks is not the `same`, those for an object's present rank become 0.
    """
    keys, flat = arrays["key"], arrays["estimates"]
    n, blocks = len(keys), objects.rows // objects.base  # one block for the sum, one for each phase
    columns = {name: arrays[name] for name in SAVED}
    if (
        np.any(keys[1:] <= keys[:-1])
        or any(len(c) != n * math.prod(COLUMNS[name].shape) for name, c in columns.items())
        or len(arrays["window"]) != n * len(objects.sums)
        or len(arrays["value_at"]) != n + 1
        or (n and len(flat) % (n * blocks))
        or not all(np.isfinite(c).all() for c in (flat, arrays["window"], arrays["work"]))
        or np.isinf(arrays["coords"]).any()
        or np.any(arrays["home"] < 0)
        or np.any((arrays["was"] < -1) | (arrays["was"] >= n_ranks))
        or np.any(arrays["window"] < 0)
    ):
        raise FormatError(f"{name}: not a checkpoint: its arrays do not fit together")
    out = np.zeros((objects.rows, n))
    if n:
        table = flat.reshape(blocks, -1, n)[:, : objects.base if same else HERE]
        out.reshape(blocks, -1, n)[:, : table.shape[1]] = table
    if np.any(out[:2] < 0) or np.any(out[0] > 1e30):
        raise FormatError(f"{name}: not a checkpoint: an estimate is out of range")
    return out


def _value(what: str, blob: bytes, pickled: bool, key: int, unpack: Pack | None) -> Any:
    try:
        value = pickle.loads(blob) if pickled else decode(blob)  # noqa: S301
        return value if unpack is None else unpack(key, value)
    except FormatError as why:
        raise FormatError(f"{what}: {why}") from why
    except Exception as why:
        reason = f"{type(why).__name__}: {why}"
        raise SerializationError(f"{what} cannot be restored: {reason}") from why


def _messages_of(
    arrays: disk.Arrays, keys: I64, pickled: bool, name: Path
) -> list[tuple[int, int, Any]]:
    target, source = arrays["target"], arrays["source"]
    if not len(target) == len(source) == len(arrays["message_at"]) - 1:
        raise FormatError(f"{name}: not a checkpoint: its messages do not fit together")
    index = np.flatnonzero(np.isin(target, keys))
    blobs = disk.pieces(arrays["message"], arrays["message_at"], index)
    what = f"{name}: a message"
    return [
        (int(target[i]), int(source[i]), _value(what, blob, pickled, 0, None))
        for i, blob in zip(index, blobs, strict=True)
    ]


def _enter_objects(state: RunState, parts: list[TakenObjects]) -> None:
    objects = state.objects
    parts_here = [items for items, _, _ in parts if len(items.objects)]
    if parts_here:
        items, _ = objects.changed(np.zeros(0, np.int64), parts_here)
        order = np.argsort(np.concatenate([i.objects.key for i in parts_here]), kind="stable")
        sums = np.concatenate([sums for _, sums, _ in parts], axis=1)
        objects.set(items, np.ascontiguousarray(sums[:, order]))
    objects.restored()
    letters = [letter for _, _, letters in parts for letter in letters]
    if not letters or state.options.lag:
        return
    # Put the messages into the inboxes, like messages that come from another rank.
    post = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)
    post.bind(_core.Keys(np.unique(np.array([source for _, source, _ in letters], np.int64))))
    for target, source, data in letters:
        post.post(target, source, data, False)
    post.open()
    mail = objects.mail
    mail.open()
    for _, _, wire, others in post.pack(np.ones(len(letters), np.int32), 0):
        mail.take(wire, others)
    mail.part()
    mail.restore()
    mail.deliver(False)


def _enter_run(state: RunState, mode: MeasuringMode, arrays: disk.Arrays, head: disk.Head) -> None:
    """Continue the count of iterations, and let the decider observe the past iterations again.

    With another number of ranks, or if a row of the metrics stands for several iterations, the
    decider gets only the mean cost of the LB steps.
    """
    width, done = len(Row._fields), head.iteration
    rows, loops = arrays["rows"].reshape(-1, width), arrays["loops"].reshape(-1, 3)
    span, passes, n_before = arrays["spans"].tolist()
    if (
        span < 1
        or min(passes, n_before) < 0
        or len(rows) != -(-done // span)
        or not np.isfinite(rows).all()
    ):
        raise FormatError("its iterations are damaged")
    steps = [Receipt.from_dict(r) for r in json.loads(arrays["receipts"].tobytes())]
    state.records.restore(rows, span, done)
    same = head.n_ranks == state.agreement.transport.size
    if same and span == 1:
        state.objects.count(passes, state.options.facts.background)
        n_objects = state.objects.n_objects
        state.decider.before, steps = steps[:n_before], steps[n_before:]
        due = _seen_again(state.decider, rows, loops, steps, head.n_ranks, n_objects)
        mode.due = due and mode.balances
    elif steps:
        state.decider.before = steps
        state.decider.core.expect(None, float(np.mean([r.cost for r in steps])))


def _seen_again(
    decider: Decider, rows: F64, loops: F64, steps: list[Receipt], n_ranks: int, n_objects: int
) -> bool:
    """Let a decider observe all past iterations and LB steps; return whether to rebalance now."""
    core, ask, last = decider.core, NOTHING, None
    done = {r.iteration: r for r in steps}
    begun = {int(first): (int(n), cost) for first, n, cost in loops}
    ends = {first + n - 1 for first, (n, _) in begun.items() if n}
    for i, row in enumerate(rows.tolist()):
        core.abandon()
        if i in begun:
            n, cost = begun[i]
            core.expect(n if i == 0 else None, cost, cost)  # as in `MeasuringMode.start`
        time, most, mean, idle, utilization, least, messages, nbytes = row
        figures = time, most, mean, least, mean * n_ranks, utilization, int(messages), int(nbytes)
        asked = core.observe(i, *figures, 0.0, idle)
        # The strategy has begun beside an iteration, unless this was the planned end of its loop;
        # a run without a record knows this only of its last loop.
        beside = decider.settings.beside and i not in ends
        ask = core.next(asked, beside)
        if ask == JUDGE and last is not None:
            share = min((i - last.iteration) / max(last.iterations, 1), 1.0)
            core.judge(0.0 if math.isnan(last.gain) else last.gain * share)
            ask = core.next(asked, beside)
        if last is not None and i - last.iteration == last.iterations:
            core.judge(last.gain)  # enters the gain into the receipt
        if i in done:
            core.abandon()
            last = r = done[i]
            decider.choose(-1, n_objects)
            names = [s.name for s in decider.settings.strategies]
            by = names.index(r.strategy) if r.strategy in names else math.nan
            placing = np.array([getattr(r, name, by) for name in _core.FIGURES])
            core.placed(placing, np.array(r.speed) if r.speed else None)
            core.balanced(r.migrations, r.nbytes, r.seconds_migration, r.seconds, r.moved)
            ask = NOTHING
    return bool(ask == BALANCE)
