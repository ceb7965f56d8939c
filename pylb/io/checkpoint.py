"""The files of a checkpoint: a folder with one file for each rank, and a list of these files.

``checkpoint.json`` names the files of the most recent complete checkpoint. The files of a new
checkpoint have different names; when all of them are on disk, ``checkpoint.json`` is replaced, and
then the old files are removed. So there is always a complete checkpoint, even if the program is
killed.

``ID.RANK.h5`` (HDF5) has for n objects: ``key`` (n,), ascending; ``value``, the bytes of all
values, one after the other, and ``value_at`` (n + 1,), where they begin; ``estimates`` and
``window``, see `pylb.run.local_objects.Store`; properties such as ``nbytes`` and ``coords``. For m
messages that wait in inboxes it has the keys ``target`` and ``source`` (m,); ``message``, the bytes
of all messages, and ``message_at`` (m + 1,), where they begin. Values and messages are in the
layout of `pylb.io.plain`, unless they were pickled. The file of rank 0 also has the history of the
run: ``rows``, ``spans``, ``loops``, ``receipts``.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import files
from pylb.errors import DomainError, FormatError, MissingFileError
from pylb.io import hdf5
from pylb.model.objects import COLUMNS, used

FORMAT, VERSION, LIST = "pylb checkpoint", 1, "checkpoint.json"
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


def new_id() -> str:
    """Return a name for a new checkpoint."""
    return secrets.token_hex(8)


def make_folder(folder: Path) -> None:
    """Make the folder if it does not exist; DomainError if the path is not a folder."""
    if folder.exists() and not folder.is_dir():
        raise DomainError(f"path is {os.fspath(folder)!r}: expected a folder, or a new name")
    folder.mkdir(exist_ok=True)


def file_of(folder: Path, checkpoint: str, rank: int) -> Path:
    return folder / f"{checkpoint}.{rank}.h5"


def write(path: Path, arrays: Arrays) -> int:
    """Write the file of a rank, and wait until it is on the disk; return its size in bytes."""
    with files.writing(path, "w+b") as file:
        out = hdf5.Output(file)
        try:
            out.text("format", FORMAT)
            for name, values in arrays.items():
                out.array(name, np.ascontiguousarray(values, DTYPES[name]).ravel())
        finally:
            out.close()
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
        files.check_format(found, FORMAT)
        out = Head(**{name: found[name] for name in Head._fields})
        if not (
            re.fullmatch("[0-9a-f]{16}", out.id)
            and type(out.n_ranks) is int
            and 1 <= out.n_ranks <= MOST_RANKS
            and type(out.iteration) is int
            and 0 <= out.iteration < 2**62
            and len(out.sizes) == out.n_ranks
        ):
            raise FormatError("id, n_ranks, iteration or sizes are out of range")
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
