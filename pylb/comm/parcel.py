"""Exchange Python objects between ranks: convert them to buffers, send them, restore them.

Uses pickle protocol 5; large arrays are sent without a copy.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends

Parts = list[Any]  # contiguous buffers: the pickle, then the large arrays
OUT_OF_BAND = 2048  # bytes; smaller arrays are copied into the pickle, which is cheaper
AS_THEY_ARE = {int, float, complex, bool, str, bytes, type(None)}


def pack(value: Any) -> Parts:
    """Return `value` as buffers; large arrays are not copied, their memory is a buffer."""
    parts: Parts = [b""]

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < OUT_OF_BAND:
            return True
        parts.append(raw)
        return False

    parts[0] = pickle.dumps(value, protocol=5, buffer_callback=keep)
    return parts


def unpack(parts: Parts) -> Any:
    """Return the value that `pack` was given; its arrays use the memory of the buffers."""
    return pickle.loads(parts[0], buffers=parts[1:])


def pack_mail(messages: list[tuple[int, int, Any]]) -> Parts:
    """Return messages (target, source, data) as buffers: small arrays as bytes, others pickled."""
    wire, others = _core.mail_pack(messages, OUT_OF_BAND)
    return [wire, *pack(others)] if others else [wire]


def unpack_mail(parts: Parts) -> list[tuple[int, int, Any]]:
    """Return the messages that `pack_mail` was given."""
    return _core.mail_unpack(parts[0], unpack(parts[1:]) if len(parts) > 1 else [])


def size_of(parts: Parts) -> int:
    """Return the total size of the parts in bytes."""
    return sum(memoryview(part).nbytes for part in parts)


class Pickled(bytes):
    """A message that was pickled when it was sent."""


def freeze(data: Any) -> Any:
    """Return a copy of `data` that later changes by the sender do not affect."""
    if type(data) in AS_THEY_ARE:
        return data
    if type(data) is np.ndarray and not data.dtype.hasobject:
        # Pickling keeps this layout, so sums do not depend on whether the data was sent or copied.
        return data.copy(order="F" if data.flags.fnc else "C")
    return Pickled(pickle.dumps(data, protocol=5))


def thaw(data: Any) -> Any:
    """Return the data that the receiver gets from what `freeze` returned."""
    return pickle.loads(data) if type(data) is Pickled else data


def weight(data: Any) -> int:
    """Return the size of a message for the communication graph: the bytes of its payload."""
    if isinstance(data, (bytes, str)):
        return len(data)
    return int(getattr(data, "nbytes", 8))


# ---- between ranks ---------------------------------------------------------------------------


class Exchanged(NamedTuple):
    """The received values by their source, and the bytes that this rank sent."""

    values: dict[int, Any]
    nbytes: int


def exchange_objects(
    agreement: Agreement,
    kind: Step,
    iteration: int,
    pieces: Callable[[], dict[int, Any]],
    *,
    pack: Callable[[Any], Parts] = pack,
    unpack: Callable[[Parts], Any] = unpack,
    packed: Step | None = None,
    restored: Step | None = None,
    arguments: tuple[int, str] = (0, ""),
) -> Exchanged:
    """Send each rank its piece; this rank's own piece stays as it is.  Collective.

    Parameters
    ----------
    pieces : callable
        Returns the pieces by rank.  All ranks raise an error of it or of `pack`.
    packed, restored : Step, optional
        Steps in which all ranks agree that packing, and restoring, succeeded everywhere.  Some
        objects can be pickled but not restored.
    arguments : (fingerprint, words)
        What must be equal on all ranks.
    """
    me = agreement.transport.rank
    own: dict[int, Any] = {}
    sends: Sends = []
    error: Exception | None = None
    try:
        given = pieces()
        own = {me: given.pop(me)} if me in given else {}
        sends = [(to, pack(piece)) for to, piece in given.items()]
    except Exception as why:
        error = why
    if packed is not None:
        agreement.step(packed, iteration, error=error)
    _, received = agreement.step(kind, iteration, arguments, sends=sends, error=error)
    values: dict[int, Any] = {}
    try:
        values = {source: unpack(parts) for source, parts in received}
    except Exception as why:
        if restored is None:
            raise
        error = why
    if restored is not None:
        agreement.step(restored, iteration, error=error)
    return Exchanged(values | own, sum(size_of(parts) for _, parts in sends))


def gather_objects(agreement: Agreement, kind: Step, iteration: int, value: Any) -> dict[int, Any]:
    """Gather the values of all ranks, by rank, on rank 0; {} on the others.  Collective."""
    came = exchange_objects(agreement, kind, iteration, lambda: {0: value}).values
    return dict(sorted(came.items()))
