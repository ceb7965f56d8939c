"""Convert plain values to bytes and back; unlike pickle, reading never executes code.

Plain values are None, bool, int, float, complex, str, bytes, NumPy arrays and scalars without
objects, and lists, tuples and dicts of these. A float keeps every bit.

Layout: the length of the text (8 bytes, little-endian), the text, then the buffers. The text is
JSON, ``[value, lengths of the buffers]``. JSON represents None, bool, int and str directly. Any
other value is a list that begins with a letter for its type:

    ["f", bits], ["c", bits, bits]     float and complex, 16 hexadecimal digits for each number
    ["b", i], ["a", i], ["s", i]       bytes, array, scalar in buffer i; the last two as npy
    ["l", values], ["t", values]       list and tuple
    ["d", [[key, value], ...]]         dict
"""

from __future__ import annotations

import io
import itertools
import json
import math
import struct
from typing import Any

import numpy as np

from pylb.errors import FormatError, SerializationError

EXPECTED = (
    "expected numbers, texts, bytes, NumPy arrays, and lists, tuples and dicts of these; for other "
    "objects, give pack= or pickled=True"
)
HEAD = 8  # bytes of the length of the text
MOST_HEADER = 10_000  # characters of the header of an array


def encode(value: Any) -> bytes:
    """Return a plain value as bytes; SerializationError if it is not plain."""
    buffers: list[bytes] = []
    try:
        tree = _tree(value, buffers)
        text = json.dumps([tree, [len(b) for b in buffers]]).encode()
    except (RecursionError, ValueError) as why:
        raise SerializationError(f"it cannot be written: {why}; {EXPECTED}") from None
    return b"".join([len(text).to_bytes(HEAD, "little"), text, *buffers])


def decode(data: bytes) -> Any:
    """Return the value that `encode` was given; FormatError if the bytes are not a plain value."""
    try:
        end = HEAD + int.from_bytes(data[:HEAD], "little")
        tree, lengths = json.loads(data[HEAD:end])
        ends = end + np.cumsum([0, *lengths])
        if min(lengths, default=0) < 0 or ends[-1] != len(data):
            raise FormatError("its buffers do not have the lengths that its text gives")
        return _value(tree, [data[a:b] for a, b in itertools.pairwise(ends)])
    except FormatError:
        raise
    except Exception as why:
        raise FormatError(f"not a plain value: {type(why).__name__}: {why}") from why


def _tree(value: Any, buffers: list[bytes]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return ["f", _bits(value)]
    if kind is complex:
        return ["c", _bits(value.real), _bits(value.imag)]
    if kind is bytes:
        return _buffer("b", value, buffers)
    if kind is np.ndarray or isinstance(value, np.generic):
        return _buffer("a" if kind is np.ndarray else "s", _npy(np.asarray(value)), buffers)
    if kind in (list, tuple):
        return ["l" if kind is list else "t", [_tree(v, buffers) for v in value]]
    if kind is dict:
        return ["d", [[_tree(k, buffers), _tree(v, buffers)] for k, v in value.items()]]
    raise SerializationError(f"{kind.__qualname__} is not plain: {EXPECTED}")


def _value(tree: Any, buffers: list[bytes]) -> Any:
    if not isinstance(tree, list):
        if isinstance(tree, float | dict):
            raise FormatError("its text has a float or a JSON object, which `encode` never writes")
        return tree
    kind, *rest = tree
    if kind == "f":
        return _float(*rest)
    if kind == "c":
        return complex(*map(_float, rest))
    if kind in ("b", "a", "s"):
        (i,) = rest
        if not 0 <= i < len(buffers):
            raise FormatError(f"it has no buffer {i}")
        data = buffers[i]
        return data if kind == "b" else _array(data) if kind == "a" else _array(data)[()]
    if kind in ("l", "t"):
        values = [_value(v, buffers) for v in rest[0]]
        return values if kind == "l" else tuple(values)
    if kind == "d":
        return {_value(k, buffers): _value(v, buffers) for k, v in rest[0]}
    raise FormatError(f"it has an unknown kind of value, {kind!r:.20}")


def _bits(value: float) -> str:
    return struct.pack("<d", value).hex()


def _float(bits: str) -> float:
    return float(struct.unpack("<d", bytes.fromhex(bits))[0])


def _buffer(kind: str, data: bytes, buffers: list[bytes]) -> Any:
    buffers.append(data)
    return [kind, len(buffers) - 1]


def _npy(array: Any) -> bytes:
    if array.dtype.hasobject:
        raise SerializationError(f"an array of {array.dtype} has Python objects: {EXPECTED}")
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=(2, 0), allow_pickle=False)
    return out.getvalue()


def _array(data: bytes) -> Any:
    """Read an array; check its size before memory is allocated."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (2, 0):
        raise FormatError("an array is not in npy format, version 2.0")
    header = np.lib.format.read_array_header_2_0(file, max_header_size=MOST_HEADER)
    shape, by_column, dtype = header
    rest = data[file.tell() :]
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(rest):
        raise FormatError(f"{len(rest)} bytes are no array of shape {shape} and type {dtype}")
    if not dtype.itemsize:
        return np.empty(shape, dtype)
    flat = np.frombuffer(rest, dtype).copy()
    return flat.reshape(shape, order="F" if by_column else "C")
