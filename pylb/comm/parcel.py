"""What travels between ranks: pickle protocol 5, arrays out of band and without a copy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from pylb import _core

Parts = list[Any]  # of contiguous buffers: the pickle, then what is out of band
OUT_OF_BAND = 2048  # bytes; below, a copy into the pickle is cheaper than a part of its own
AS_THEY_ARE = {int, float, complex, bool, str, bytes, type(None)}


def pack(value: Any) -> Parts:
    """`value` as buffers, the memory of its large arrays among them."""
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
    """The value of `pack`'s buffers; its arrays live in them."""
    return pickle.loads(parts[0], buffers=parts[1:])


def pack_mail(messages: list[tuple[int, int, Any]]) -> Parts:
    """Messages (target, source, data) as buffers: small arrays as their bytes, the rest pickled."""
    wire, others = _core.mail_pack(messages, OUT_OF_BAND)
    return [wire, *pack(others)] if others else [wire]


def unpack_mail(parts: Parts) -> list[tuple[int, int, Any]]:
    """The messages of `pack_mail`'s buffers."""
    return _core.mail_unpack(parts[0], unpack(parts[1:]) if len(parts) > 1 else [])


def size_of(parts: Parts) -> int:
    """Bytes of all parts."""
    return sum(memoryview(part).nbytes for part in parts)


class Pickled(bytes):
    """The pickle of a message, made when it was sent."""


def freeze(data: Any) -> Any:
    """The value of `data` now, whatever the sender does to it afterwards."""
    if type(data) in AS_THEY_ARE:
        return data
    if type(data) is np.ndarray and not data.dtype.hasobject:
        # The layout that pickling keeps, so that sums over it do not depend on the way it took.
        return data.copy(order="F" if data.flags.fnc else "C")
    return Pickled(pickle.dumps(data, protocol=5))


def thaw(data: Any) -> Any:
    """What the receiver sees of `freeze`'s answer."""
    return pickle.loads(data) if type(data) is Pickled else data


def weight(data: Any) -> int:
    """Bytes of a message as the communication graph counts them: its payload."""
    if isinstance(data, (bytes, str)):
        return len(data)
    return int(getattr(data, "nbytes", 8))
