"""Write a checkpoint: objects, messages, and what was learned.  See `Balancer.checkpoint`."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pylb.comm.agreement import Attempt, Step
from pylb.errors import SerializationError, StateError
from pylb.files import named
from pylb.io import checkpoint as disk
from pylb.io.plain import encode
from pylb.model import checks
from pylb.run.loops import IterationLoop
from pylb.run.modes import MeasuringMode
from pylb.run.object_store import PROPERTIES
from pylb.run.run_state import RunState

# Properties that are saved; `birth` matters only to the record of the old run.
SAVED = tuple(name for name in PROPERTIES if name != "birth")
Pack = Callable[[int, Any], Any]


def checkpoint(
    state: RunState,
    mode: MeasuringMode,
    loop: IterationLoop,
    path: str | os.PathLike[str],
    pack: Pack | None,
    pickled: bool,
) -> None:
    """Write a checkpoint.  Collective; an error on one rank is raised on all."""
    folder, transport = Path(), state.agreement.transport
    name = b""
    with Attempt() as tried:
        folder = Path(named(path))
        checks.flag("pickled", pickled)
        _check_place(state, mode, loop)
        if transport.rank == 0:
            disk.make_folder(folder)
            name = disk.new_id().encode()
    words = f"checkpoint({str(path)!r}), pickled={pickled}, pack={pack is not None}"
    state.agreement.agree(Step.CHECKPOINT, words, tried.error)
    loop.settle()
    which = bytes(transport.allgather(name)[0]).decode()
    sizes = _each_file(state, mode, folder, which, pack, pickled)
    head = disk.Head(
        which, transport.size, state.done, pack is not None, pickled, np.ravel(sizes).tolist()
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
    mine = np.zeros(1, np.int64)
    file = disk.file_of(folder, which, state.objects.rank)
    with Attempt() as tried:
        arrays = _objects(state, pack, pickled) | _messages(state, pickled)
        if state.objects.rank == 0:
            arrays |= _run(state, mode)
        mine[0] = disk.write(file, arrays)
    try:
        state.agreement.step(Step.CHECKPOINT, state.done, error=tried.error)
    except Exception:
        file.unlink(missing_ok=True)
        raise
    return [np.frombuffer(b, np.int64) for b in state.agreement.transport.allgather(mine)]


def _check_place(state: RunState, mode: MeasuringMode, loop: IterationLoop) -> None:
    """Raise StateError if the options, or this place in the program, permit no checkpoint.

    Between two loops, first apply the additions and removals of objects on this rank.
    """
    objects, options = state.objects, state.options
    if options.mode == "shadow" or options.replay is not None:
        raise StateError(
            f"checkpoint() in shadow mode{options.settings.said_by('mode')} or with replay=path: "
            "expected mode='on' or 'off', and no replay"
        )
    if not objects.in_loop:
        objects.arrange()
    elif options.lag:
        raise StateError(
            f"checkpoint() within a loop with lag={options.lag}: call it between two loops"
        )
    elif objects.n_changed or np.any(objects.store.seconds) or mode.due:
        raise StateError(
            f"checkpoint() in the middle of iteration {state.done}: expected it before the first "
            "local(), add() or remove() of the iteration, or between two loops"
        )
    if objects.mailbox.mail.n_sent:
        raise StateError(
            "checkpoint() after send(): expected it before the first send(), or after the iteration"
        )


def _objects(state: RunState, pack: Pack | None, pickled: bool) -> disk.Arrays:
    store = state.objects.store
    parts = [
        _bytes(f"object {key}", value if pack is None else pack(key, value), pickled)
        for key, value in zip(store.keys.tolist(), store.values, strict=True)
    ]
    value, at = disk.joined(parts)
    given = {name: store.properties[name] for name in SAVED}
    return {
        "key": store.keys,
        "value": value,
        "value_at": at,
        "estimates": store.estimates,
        "window": store.window,
        **given,
    }


def _messages(state: RunState, pickled: bool) -> disk.Arrays:
    """Return the arrays of the messages that wait in the inboxes."""
    if state.options.lag:
        return _mail([], [], [])
    mail, keys = state.objects.mailbox.mail, state.objects.store.keys.tolist()
    letters = [(key, source, data) for key in keys for source, data in mail.inbox(key)]
    encoded = [_bytes(f"a message from {s} to {t}", data, pickled) for t, s, data in letters]
    return _mail([t for t, _, _ in letters], [s for _, s, _ in letters], encoded)


def _mail(target: list[int], source: list[int], encoded: list[bytes]) -> disk.Arrays:
    message, at = disk.joined(encoded)
    return {"target": target, "source": source, "message": message, "message_at": at}


def _run(state: RunState, mode: MeasuringMode) -> disk.Arrays:
    """Return the arrays that are the same on all ranks: iterations, loops and receipts."""
    figures = state.records.figures
    encoded = json.dumps([r.to_dict() for r in mode.history.balancings]).encode()
    return {
        "rows": figures.table(),
        "spans": [figures.span, state.objects.store.passes, len(state.decider.before)],
        "loops": np.array([loop[:3] for loop in state.records.loops], np.float64),
        "receipts": np.frombuffer(encoded, np.uint8),
    }


def _bytes(what: str, value: Any, pickled: bool) -> bytes:
    try:
        return pickle.dumps(value, protocol=5) if pickled else encode(value)
    except Exception as why:
        raise SerializationError(f"{what} cannot be written: {why}") from why
