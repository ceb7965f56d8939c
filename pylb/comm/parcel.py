"""Convert values to buffers and back: pickle protocol 5, large arrays without a copy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from pylb import _core

Parts = list[Any]  # contiguous buffers: the pickle, then the arrays that are outside of it
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
