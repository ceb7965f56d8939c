"""The files of a checkpoint: a folder with one file for each rank, and a list of these files.

``checkpoint.json`` names the files of the most recent complete checkpoint. The files of a new
checkpoint have different names; when all of them are on disk, ``checkpoint.json`` is replaced, and
then the old files are removed. So there is always a complete checkpoint, even if the program is
killed.

``ID.RANK.h5`` (HDF5) has for n objects: ``key`` (n,), ascending; ``value``, the bytes of all
values, one after the other, and ``value_at`` (n + 1,), where they begin; ``estimates`` and
``window``, see `pylb.run.local_objects`; properties such as ``nbytes`` and ``coords``. For m
messages that wait in inboxes it has the keys ``target`` and ``source`` (m,); ``message``, the bytes
of all messages, and ``message_at`` (m + 1,), where they begin. Values and messages are plain values
in the layout of `encode`, unless they were pickled. The file of rank 0 also has the history of the
run: ``rows``, ``spans``, ``loops``, ``receipts``.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import struct
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import files
from pylb.errors import FormatError, MissingFileError, SerializationError
from pylb.io import hdf5
from pylb.model import checks
from pylb.model.objects import COLUMNS, used

FORMAT, VERSION, LIST = "pylb checkpoint", 2, "checkpoint.json"
FILE = re.compile(r"[0-9a-f]{16}\.\d+\.h5")
MOST_RANKS = 1 << 24
MOST_LIST = 1 << 28  # largest size of checkpoint.json in bytes
DTYPES = {
    **{name: COLUMNS[name].dtype for name in used("saved")},
    **dict.fromkeys(("key", "value_at", "target", "source", "message_at", "spans"), np.int64),
    **dict.fromkeys(("estimates", "window", "rows", "loops"), np.float64),
    **dict.fromkeys(("value", "message", "migratable", "receipts"), np.uint8),
}
Arrays = dict[str, Any]


class Head(NamedTuple):
    """The contents of ``checkpoint.json``."""

    id: str
    n_ranks: int
    iteration: int  # number of complete iterations
    packed: bool  # whether a function of the user (``pack=``) has converted the objects
    pickled: bool  # whether objects and messages are pickled; else they are plain values
    sizes: list[int]  # bytes of each rank's file
    phases: list[str] | None = None  # names of the phases; None before the first iteration


def file_of(folder: Path, checkpoint: str, rank: int) -> Path:
    return folder / f"{checkpoint}.{rank}.h5"


def write(path: Path, arrays: Arrays) -> int:
    """Write the file of a rank, and wait until it is on the disk; return its size in bytes."""
    with files.writing(path, "w+b") as file:
        with closing(hdf5.Output(file)) as out:
            out.text("format", FORMAT)
            for name, values in arrays.items():
                out.array(name, np.ascontiguousarray(values, DTYPES[name]).ravel())
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def finish(folder: Path, head: Head) -> None:
    """Replace ``checkpoint.json``; from now on, it names this checkpoint."""
    content = {"format": FORMAT, "version": VERSION, **head._asdict()}
    with files.writing(folder / LIST, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def clean(folder: Path, keep: str) -> None:
    """Remove the files of other checkpoints, complete or not."""
    for path in folder.iterdir():
        if FILE.fullmatch(path.name) and not path.name.startswith(f"{keep}."):
            with suppress(OSError):
                path.unlink()


def head(folder: Path) -> Head:
    """Read ``checkpoint.json``; MissingFileError or FormatError if it is missing or damaged."""
    path = folder / LIST
    if not path.exists():
        raise MissingFileError(f"{os.fspath(folder)}: no complete checkpoint here")
    content = files.text(path, MOST_LIST)
    with files.understood(path, "a checkpoint"):
        found = json.loads(content)
        files.check_format(found, FORMAT, VERSION)
        out = Head(**{name: found[name] for name in Head._fields if name in found})
        checks.whole("n_ranks", out.n_ranks, 1, below=MOST_RANKS + 1)
        checks.whole("iteration", out.iteration, 0, below=2**62)
        words = all(type(name) is str for name in out.phases or [])
        if not re.fullmatch("[0-9a-f]{16}", out.id) or len(out.sizes) != out.n_ranks or not words:
            raise FormatError("id, sizes or phases are out of range")
    return out


def read(folder: Path, which: Head, rank: int, names: tuple[str, ...]) -> Arrays:
    """Read the arrays `names` from a rank's file; its errors are those of `head`."""
    path = file_of(folder, which.id, rank)
    size = os.stat(path).st_size if path.exists() else -1
    if size >= 0 and size != which.sizes[rank]:
        raise FormatError(f"{path}: it has {size} bytes: expected {which.sizes[rank]}")
    out: Arrays = {}
    with files.understood(path, "a checkpoint"), hdf5.reading(path, DTYPES) as file:
        if file.text("format") != FORMAT:
            raise FormatError("its attribute 'format' is not that of a checkpoint")
        for name in names:
            values = file.rows(name)
            if values is None:
                raise FormatError(f"{name} is damaged")
            out[name] = values
    return out


def pieces(blob: Any, at: Any, index: Any) -> list[bytes]:
    """Return pieces ``blob[at[i]:at[i + 1]]`` of a blob, for each i in `index`."""
    if at[0] != 0 or at[-1] != len(blob) or np.any(np.diff(at) < 0):
        raise FormatError("the positions of its values are damaged")
    return [blob[at[i] : at[i + 1]].tobytes() for i in index]


def joined(parts: list[bytes]) -> tuple[Any, Any]:
    """Join the parts to one blob; also return where each part begins, (n + 1,), for `pieces`."""
    at = np.cumsum([0, *map(len, parts)])
    return np.frombuffer(b"".join(parts), np.uint8), at


# ---- plain values -------------------------------------------------------------------------------

# A checkpoint stores plain values: None, bool, int, float, complex, str, bytes, NumPy arrays and
# scalars without objects, and lists, tuples and dicts of these.  A float keeps every bit; unlike
# pickle, reading never executes code.
#
# Layout: the length of the text (8 bytes, little-endian), the text, then the buffers. The text is
# JSON, ``[value, lengths of the buffers]``. JSON represents None, bool, int and str directly. Any
# other value is a list that begins with a letter for its type:
#
#     ["f", bits], ["c", bits, bits]     float and complex, 16 hexadecimal digits for each number
#     ["b", i], ["a", i], ["s", i]       bytes, array, scalar in buffer i; the last two as npy
#     ["l", values], ["t", values]       list and tuple
#     ["d", [[key, value], ...]]         dict

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
        return tree
    kind, *rest = tree
    if kind == "f":
        return _float(*rest)
    if kind == "c":
        return complex(*map(_float, rest))
    if kind in ("b", "a", "s"):
        if rest[0] not in range(len(buffers)):
            raise FormatError(f"it has no buffer {rest[0]!r:.20}")
        data = buffers[rest[0]]
        if kind == "b":
            return data
        array = np.lib.format.read_array(io.BytesIO(data), max_header_size=MOST_HEADER)
        return array if kind == "a" else array[()]
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
