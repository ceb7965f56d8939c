"""Read a checkpoint, on the same or a different number of ranks.  See `Balancer.restore`."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import _core, files
from pylb.comm import parcel
from pylb.comm.agreement import Attempt, Step
from pylb.decide.decider import BALANCE, JUDGE, NOTHING, Decider
from pylb.decide.receipts import Receipt
from pylb.errors import DomainError, FormatError, SerializationError, StateError
from pylb.io import checkpoint as disk
from pylb.io.plain import decode
from pylb.model import checks
from pylb.model.snapshot import F64, I64
from pylb.run.checkpoint import SAVED
from pylb.run.iteration_log import Row
from pylb.run.modes import MeasuringMode
from pylb.run.object_store import HERE, PROPERTIES, Items, Properties
from pylb.run.run_state import RunState

Unpack = Callable[[int, Any], Any]
OF_OBJECTS = ("key", "value", "value_at", "estimates", "window", *SAVED)
OF_MESSAGES = ("target", "source", "message", "message_at")
OF_RUN = ("rows", "spans", "loops", "receipts")


class TakenObjects(NamedTuple):
    """The objects that this rank takes from one of the former ranks, and their messages."""

    items: Items
    window: F64
    letters: list[tuple[int, int, Any]]  # messages: target, source, data


def restore(
    state: RunState,
    mode: MeasuringMode,
    path: str | os.PathLike[str],
    unpack: Unpack | None,
    pickled: bool,
) -> None:
    """Read a checkpoint into a new run.  Collective; an error on one rank is raised on all."""
    agreement = state.agreement
    network = state.network() if state.decider.settings.selects else None
    with Attempt() as tried:
        if network is not None:
            state.decider.core.network(*network)
        state.ignore_recording_by_environment()
        _check_options(state)
        checks.flag("pickled", pickled)
        folder = Path(files.decoded(path))
        head = disk.head(folder)
        _check_request(head, unpack, pickled)
        parts = [
            _part(state, folder, head, rank, unpack)
            for rank in _sources(head.n_ranks, agreement.transport.size, agreement.transport.rank)
        ]
        _enter_objects(state, parts)
        run = disk.read(folder, head, 0, OF_RUN)
        with files.understood(disk.file_of(folder, head.id, 0), "a checkpoint"):
            _enter_run(state, mode, run, head)
    words = f"restore({str(path)!r}), pickled={pickled}"
    agreement.agree(Step.RESTORE, words, tried.error)


def _check_options(state: RunState) -> None:
    options = state.options
    if options.mode == "shadow" or options.replay is not None or options.record is not False:
        raise StateError(
            "restore(): expected mode='on' or 'off', record=False and no replay, because shadow "
            f"mode{options.settings.said_by('mode')}, a record and a replay need all iterations of "
            "a run"
        )


def _check_request(head: disk.Head, unpack: Unpack | None, pickled: bool) -> None:
    if head.pickled and not pickled:
        raise DomainError(
            "the objects of this checkpoint are pickled: expected pickled=True, which runs code of "
            "the file; do so only with files that you trust"
        )
    if pickled and not head.pickled:
        raise DomainError(
            "pickled is True, but the objects of this checkpoint are not pickled: expected "
            "pickled=False"
        )
    if head.packed != (unpack is not None):
        raise DomainError(
            "unpack is missing: the objects of this checkpoint were written with pack="
            if head.packed
            else "unpack is given: the objects of this checkpoint were written without pack="
        )


# ---- which objects go where ------------------------------------------------------------------


def _sources(was: int, now: int, rank: int) -> range:
    """Return the former ranks from which this rank takes objects.

    was, now: former and present number of ranks.  If former rank i is the interval from i to i + 1
    of a line, present rank j takes the interval from ``j * was / now`` to ``(j + 1) * was / now``.
    """
    return range(rank * was // now, -(-(rank + 1) * was // now))


def _taken_here(load: F64, source: int, was: int, now: int, rank: int) -> I64:
    """Return which objects of a former rank this rank takes.

    The objects, sorted by key, are cut into consecutive pieces of nearly equal weight.  The weight
    of an object is its load plus the mean load.
    """
    weight = load + load.mean() if load.any() else np.ones(len(load))
    middle = np.cumsum(weight) - 0.5 * weight
    at = source + middle / max(weight.sum(), 1e-300)
    first, last = source * now // was, -(-(source + 1) * now // was) - 1
    return np.flatnonzero(np.clip((at * now / was).astype(np.int64), first, last) == rank)


def _part(
    state: RunState, folder: Path, head: disk.Head, source: int, unpack: Unpack | None
) -> TakenObjects:
    transport, store = state.agreement.transport, state.objects.store
    found = disk.read(folder, head, source, OF_OBJECTS + OF_MESSAGES)
    name = disk.file_of(folder, head.id, source)
    keys = found["key"]
    n, same = len(keys), head.n_ranks == transport.size
    estimates = _estimates(found, n, store.rows, same, head.n_ranks, name)
    mine = _taken_here(estimates[0], source, head.n_ranks, transport.size, transport.rank)
    blobs = disk.pieces(found["value"], found["value_at"], mine)
    values = [
        _value(f"{name}: object {key}", blob, head.pickled, key, unpack)
        for key, blob in zip(keys[mine].tolist(), blobs, strict=True)
    ]
    given = _properties(found, n, mine)
    lost = given["home"] >= transport.size
    given["home"] = np.where(lost, transport.rank, given["home"]).astype(np.int32)
    if not same:  # then no gain of a former LB step is computed
        given.pop("was", None)
    table = np.ascontiguousarray(estimates[:, mine])
    items = Items(keys[mine], values, Properties(len(mine), given), table)
    letters = _messages_of(found, keys[mine], head.pickled, name)
    return TakenObjects(items, found["window"][mine] * same, letters)


def _properties(found: disk.Arrays, n: int, mine: I64) -> dict[str, Any]:
    """Return the properties that differ from their default for some object, and always `home`."""
    out = {"home": found["home"][mine]}
    for name in SAVED:
        dtype, default = PROPERTIES[name]
        values = found[name].reshape(n, *np.dtype(dtype).shape)[mine]
        values = values.astype(np.dtype(dtype).base)
        same = np.isnan(values) if default != default else values == default
        if not same.all():
            out[name] = values
    return out


def _estimates(found: disk.Arrays, n: int, rows: int, same: bool, n_ranks: int, name: Path) -> F64:
    """Check and return the estimates of a file.

    same: whether the former number of ranks, `n_ranks`, is the present one.  If not, the estimates
    that use only iterations on the present rank become 0.
    """
    keys, flat = found["key"], found["estimates"]
    columns = [found[c] for c in ("window", *SAVED)]
    if (
        np.any(keys[1:] <= keys[:-1])
        or any(len(c) != n * (3 if c is found["coords"] else 1) for c in columns)
        or len(found["value_at"]) != n + 1
        or (n and len(flat) % n)
        or not all(np.isfinite(c).all() for c in (flat, found["window"], found["work"]))
        or np.isinf(found["coords"]).any()
        or np.any(found["home"] < 0)
        or np.any((found["was"] < -1) | (found["was"] >= n_ranks))
        or np.any(found["window"] < 0)
    ):
        raise FormatError(f"{name}: not a checkpoint: its arrays do not belong together")
    out = np.zeros((rows, n))
    if n:
        given = flat.reshape(-1, n)[: rows if same else HERE]
        out[: len(given)] = given
    if np.any(out[:2] < 0) or np.any(out[0] > 1e30):
        raise FormatError(f"{name}: not a checkpoint: an estimate is out of range")
    return out


def _value(what: str, blob: bytes, pickled: bool, key: int, unpack: Unpack | None) -> Any:
    try:
        value = pickle.loads(blob) if pickled else decode(blob)  # noqa: S301
        return value if unpack is None else unpack(key, value)
    except FormatError as why:
        raise FormatError(f"{what}: {why}") from why
    except Exception as why:
        reason = f"{type(why).__name__}: {why}"
        raise SerializationError(f"{what} cannot be restored: {reason}") from why


def _messages_of(
    found: disk.Arrays, keys: I64, pickled: bool, name: Path
) -> list[tuple[int, int, Any]]:
    target, source = found["target"], found["source"]
    if not len(target) == len(source) == len(found["message_at"]) - 1:
        raise FormatError(f"{name}: not a checkpoint: its messages do not belong together")
    mine = np.flatnonzero(np.isin(target, keys))
    blobs = disk.pieces(found["message"], found["message_at"], mine)
    what = f"{name}: a message"
    return [
        (int(target[i]), int(source[i]), _value(what, blob, pickled, 0, None))
        for i, blob in zip(mine, blobs, strict=True)
    ]


# ---- into the new run ------------------------------------------------------------------------


def _enter_objects(state: RunState, parts: list[TakenObjects]) -> None:
    objects, store = state.objects, state.objects.store
    given = [part.items for part in parts if len(part.items.keys)]
    if given:
        items, _ = store.changed(np.zeros(0, np.int64), given)
        order = np.argsort(np.concatenate([i.keys for i in given]), kind="stable")
        window = np.concatenate([part.window for part in parts])
        store.set(items, window[order])
    objects.restored()
    _enter_letters(state, [letter for part in parts for letter in part.letters])


def _enter_letters(state: RunState, letters: list[tuple[int, int, Any]]) -> None:
    """Put messages into the inboxes, like messages that come from another rank."""
    if not letters or state.options.lag:
        return
    post = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)
    post.bind(_core.Keys(np.unique(np.array([source for _, source, _ in letters], np.int64))))
    for target, source, data in letters:
        post.post(target, source, data, False)
    post.open()
    mail = state.objects.mailbox.mail
    mail.open()
    for _, _, wire, others in post.pack(np.ones(len(letters), np.int32), 0):
        mail.take(wire, others)
    mail.part()
    mail.restore()
    mail.deliver(False)


def _enter_run(state: RunState, mode: MeasuringMode, found: disk.Arrays, head: disk.Head) -> None:
    """Continue the count of iterations, and let the decider observe the past iterations again.

    If the number of ranks has changed, or if a row of the metrics stands for several iterations,
    the decider gets only the mean cost of the LB steps.
    """
    width, done = len(Row._fields), head.iteration
    rows, loops = found["rows"].reshape(-1, width), found["loops"].reshape(-1, 3)
    span, passes, n_before = found["spans"].tolist()
    if (
        span < 1
        or min(passes, n_before) < 0
        or len(rows) != -(-done // span)
        or not np.isfinite(rows).all()
    ):
        raise FormatError("its iterations are damaged")
    steps = [Receipt.from_dict(r) for r in json.loads(found["receipts"].tobytes())]
    state.records.restore(rows, span, done)
    same = head.n_ranks == state.agreement.transport.size
    if same and span == 1:
        state.objects.store.count(passes, state.options.facts.background)
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
    begun = {int(first): (n, cost) for first, n, cost in loops}
    for i, row in enumerate(rows.tolist()):
        core.abandon()
        if i in begun:
            n, cost = begun[i]
            core.expect(int(n) if i == 0 else None, cost, cost)  # as in `MeasuringMode.start`
        time, most, mean, _, utilization, least, messages, nbytes = row
        figures = time, most, mean, least, mean * n_ranks, utilization, int(messages), int(nbytes)
        asked = core.observe(i, *figures)
        ask = core.next(asked, False)
        if ask == JUDGE and last is not None:
            share = min((i - last.iteration) / max(last.iterations, 1), 1.0)
            core.judge(0.0 if math.isnan(last.gain) else last.gain * share)
            ask = core.next(asked, False)
        if last is not None and i - last.iteration == last.iterations:
            core.judge(last.gain)  # enters the gain into the receipt
        if i in done:
            core.abandon()
            last = done[i]
            _repeat(decider, last, n_objects)
            ask = NOTHING
    return bool(ask == BALANCE)


def _repeat(decider: Decider, r: Receipt, n_objects: int) -> None:
    decider.choose(-1, n_objects)
    figures = np.array([getattr(r, name) for name in _core.FIGURES])
    decider.core.placed(figures, np.array(r.speed) if r.speed else None)
    decider.core.balanced(r.migrations, r.bytes, r.seconds_migration, r.seconds, r.moved)
