"""Move objects to other ranks: pack, announce, allocate, send, restore.

All ranks agree that packing, allocating and restoring have succeeded.  Until the last agreement,
the objects stay where they are.  So a failure is an error on all ranks, and no object is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.transport import Sends
from pylb.errors import SerializationError, StateError
from pylb.run.local_objects import LocalObjects
from pylb.run.object_store import Items, LeavingObjects, Properties, converted
from pylb.run.partners import Speeds


def migrate(
    agreement: Agreement,
    iteration: int,
    objects: LocalObjects,
    moves: LeavingObjects,
    speed: Speeds,
) -> int:
    """Send each leaving object directly to its new rank; return the bytes sent.  Collective.

    If one rank fails, all ranks raise its error, and nothing has moved.
    """
    sends: Sends = []
    objects.store.properties.given.pop("was", None)
    with Attempt() as packed:
        sends = _packed(objects, moves, speed)
    nbytes = sum(parcel.size_of(parts) for _, parts in sends)
    received = _exchange(agreement, iteration, sends, packed.error)
    with Attempt() as restored:
        came = [_unpack(source, parts, objects) for source, parts in received]
        following = objects.store.changed(moves.places, came)
        if len(objects.kept(moves).places) < len(moves.places):
            raise StateError("an object was removed while it was packed; nothing has moved")
    agreement.step(Step.PACK, iteration, error=restored.error)
    objects.store.set(*following)
    objects.mailbox.rebind(objects.store.places, objects.store.keys[:0])
    return nbytes


def _exchange(agreement: Agreement, iteration: int, sends: Sends, error: Exception | None) -> Sends:
    """Announce the sizes of the data, allocate memory, send and receive the data."""
    sizes: Sends = [
        (rank, [np.array([memoryview(part).nbytes for part in parts], np.int64)])
        for rank, parts in sends
    ]
    _, announced = agreement.step(Step.PACK, iteration, sends=sizes, error=error)
    memory: dict[int, list[NDArray[np.uint8]]] = {}
    try:
        for rank, (size,) in announced:
            memory[rank] = [np.empty(n, np.uint8) for n in np.frombuffer(size, np.int64).tolist()]
    except MemoryError:
        total = sum(int(np.frombuffer(size, np.int64).sum()) for _, (size,) in announced)
        error = MemoryError(
            f"no memory for {total:,} bytes of arriving objects; no object has moved"
        )
    agreement.step(Step.ALLOCATE, iteration, error=error)
    return agreement.step(Step.MIGRATE, iteration, sends=sends, into=memory)[1]


def _packed(objects: LocalObjects, moves: LeavingObjects, speed: Speeds) -> Sends:
    """Pack the leaving objects for each new rank, with their messages."""
    me, store, mail = objects.rank, objects.store, objects.mailbox.mail
    mail.open()
    to = np.full(len(store), -1, np.int32)
    to[moves.places] = moves.to
    letters = {rank: (wire, others) for rank, _, wire, others in mail.pack_inboxes(to)}
    out: Sends = []
    for rank, rows in _core.rows_to(moves.to, objects.n_ranks, (moves.places,)).items():
        items = store.take(rows[:, 0])
        factor = 1.0 if speed is None else float(speed[rank] / speed[me])
        items = items._replace(estimates=converted(items.estimates, factor))
        out.append((rank, _pack(items, *letters.get(rank, (b"", [])))))
    return out


def _pack(items: Items, wire: bytes, others: list[Any]) -> parcel.Parts:
    """Return buffers: (n, m), then n buffers of properties, m of values, and others of messages."""

    def refused(i: int, why: Exception) -> Exception:
        return SerializationError(
            f"object {items.keys[i]} ({type(items.values[i]).__qualname__}) cannot be pickled: "
            f"{type(why).__name__}: {why}; nothing has moved"
        )

    known = parcel.pack((items.keys, items.properties.given, items.estimates))
    values = parcel.pack_each(items.values, refused)
    letters = [wire, *parcel.pack_messages(others)] if wire else []
    return [np.array([len(known), len(values)], np.int64), *known, *values, *letters]


def _unpack(source: int, parts: parcel.Parts, objects: LocalObjects) -> Items:
    """Restore the objects that come from a rank, and pass their messages to the mailbox."""
    n_known, n_values = np.frombuffer(parts[0], np.int64).tolist()
    known, rest = parts[1 : 1 + n_known], parts[1 + n_known :]
    values, letters = rest[:n_values], rest[n_values:]
    keys, given, estimates = parcel.unpack(known)

    def refused(i: int, why: Exception) -> Exception:
        return SerializationError(
            f"object {keys[i]} cannot be restored on its new rank: {type(why).__name__}: {why}; "
            "nothing has moved"
        )

    restored = parcel.unpack_each(values, len(keys), refused)
    if letters:
        objects.mailbox.mail.take(letters[0], parcel.unpack(letters[1:]) if letters[1:] else [])
    given["was"] = np.full(len(keys), source, np.int32)
    return Items(keys, restored, Properties(len(keys), given), estimates)
