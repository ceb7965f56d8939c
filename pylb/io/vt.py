"""Read and write LBDatafiles of vt: find the files of a run, and their text.

There is one file per rank, ``<stem>.<rank>.json``; it is plain JSON or compressed by Brotli.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError, FormatError, MissingFileError, MissingPartError, nearest, warn
from pylb.files import decoded, descriptor, kind_of, named, writing
from pylb.model.snapshot import I64
from pylb.optional import require
from pylb.threads import stoppable

ENTITY_TYPES = ("object", "node", "shared_id", "other")  # "other" stands for every other text
COMM_TYPES = (
    *("SendRecv", "Broadcast", "NodeToCollection", "NodeToCollectionBcast"),
    *("CollectionToNode", "CollectionToNodeBcast", "ReadOnlyShared", "WriteShared", "other"),
)
# Numbers in a task's user_defined that vt and its analysis tool LBAF know.
USER = (
    *("shared_id", "shared_bytes", "task_working_bytes", "task_footprint_bytes"),
    *("task_serialized_bytes", "rank_working_bytes", "home_rank"),
)
FILE_NAME = re.compile(r"(.+)\.(0|[1-9][0-9]*)\.json")
# The unpacked size of a file of b bytes is limited to MOST_UNPACKED + MOST_RATIO * b bytes.
MOST_UNPACKED, MOST_RATIO = 1 << 26, 1000
PIECE = 1 << 22  # bytes that are packed, unpacked or written between two checks for Ctrl-C


class Run(NamedTuple):
    """The contents of the files of a run."""

    paths: list[Path]  # the file of each rank
    texts: list[Any]  # its text, mapped or decompressed
    phase_id: I64  # (m,) ids of the phases as recorded
    # (m,) For each phase, the index (in the files) of the phase that has its data: an earlier phase
    # if the record says that the phase is identical to the previous phase.
    source: I64
    skipped: list[int]  # ids of the phases that the run did not record
    arrays: dict[str, Any]  # tasks, communications and objects: see `vt_run.joined`


def stems(folder: str | os.PathLike[str]) -> dict[str, dict[int, Path]]:
    """Return the runs in a folder as {stem: {rank: file}}, shortest stem first."""
    found: dict[str, dict[int, Path]] = {}
    try:
        entries = list(os.scandir(folder))
    except OSError as why:
        raise MissingFileError(f"{os.fspath(folder)}: {why.strerror}: expected a folder") from None
    for entry in entries:
        match = FILE_NAME.fullmatch(entry.name)
        if match and not entry.is_file(follow_symlinks=False):
            kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
            raise FormatError(f"{entry.path} is {kind}: expected a regular file")
        if match:
            found.setdefault(match[1], {})[int(match[2])] = Path(entry.path)
    return {s: found[s] for s in sorted(found, key=lambda s: (len(s), s))}


def files(path: str | os.PathLike[str], stem: str | None = None) -> list[Path]:
    """Return the files of one run by rank, given its folder, its prefix or one of its files."""
    path = Path(decoded(path))
    if path.is_dir():
        return _complete(*_choose(path, stem))
    if stem is not None:
        raise DomainError(f"stem is {stem!r}: it selects a run in a folder, but path is {path}")
    match = FILE_NAME.fullmatch(path.name)
    if path.is_file() and not match:
        return [path]
    name = match[1] if path.is_file() and match else path.name
    found = stems(path.parent) if path.parent.is_dir() else {}
    if name not in found:
        raise MissingFileError(f"{path}: no such folder, file or run (<stem>.<rank>.json)")
    return _complete(name, found[name])


def _choose(folder: Path, stem: str | None) -> tuple[str, dict[int, Path]]:
    found = stems(folder)
    if not found:
        raise MissingFileError(f"{folder}: no LBDatafile in it: expected <stem>.<rank>.json")
    if stem is None:
        stem, *others = found
        if others:
            known = " or ".join(map(repr, others))
            warn(
                f"{folder} has {len(found)} runs: reading {stem!r}; choose another by stem={known}"
            )
    elif stem not in found:
        known = ", ".join(map(repr, found)) + nearest(str(stem), found)
        raise MissingFileError(f"stem is {stem!r}: {folder} has {known}")
    return stem, found[stem]


def _complete(stem: str, ranks: dict[int, Path]) -> list[Path]:
    n = max(ranks) + 1
    for r in range(n):
        if r not in ranks:
            raise MissingFileError(
                f"run {stem!r} has {len(ranks)} of {n} files: rank {r} missing in "
                f"{ranks[n - 1].parent}"
            )
    return [ranks[r] for r in range(n)]


def unpacked(path: Path) -> Any:
    """Return the text of one file, mapped or decompressed."""
    with open(descriptor(path), "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise FormatError(f"{path} is empty: expected an LBDatafile (JSON or Brotli)")
        text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    head = text[:64].lstrip(b" \t\r\n")
    is_json = head[:1] == b"{" and head[1:2] in b' \t\r\n"}'
    return text if is_json else decompressed(path, text)


def decompressed(path: Path, text: Any) -> bytes:
    try:
        brotli = require("Brotli")
    except MissingPartError as why:
        raise MissingPartError(f"{path} is not plain JSON: {why}") from None
    most, stream = MOST_UNPACKED + MOST_RATIO * len(text), brotli.Decompressor()
    out, given = bytearray(), text[:]
    with contextlib.suppress(brotli.error):
        while len(out) < most and (given or not stream.can_accept_more_data()):
            out += stream.process(given, output_buffer_limit=min(PIECE, most - len(out)))
            given = b""
            _core.check_signals()
        if stream.is_finished():
            return bytes(out)
    if len(out) >= most:
        raise FormatError(f"{path}: {len(text)} bytes of Brotli hold more than {most} of JSON")
    raise FormatError(
        f"{path} is neither JSON nor a whole Brotli stream: it begins with {text[:8]!r}"
    )


def mapped(
    call: Callable[[Any], Any], items: Sequence[Any], threads: int | None = None
) -> list[Any]:
    n = min(threads or min(8, len(os.sched_getaffinity(0))), len(items))
    if n == 1:
        return list(map(call, items))
    with stoppable(n) as pool:
        return list(pool.map(call, items))


def write(
    folder: str | os.PathLike[str],
    stem: str,
    n_ranks: int,
    text: Callable[[int], bytes],
    compress: bool,
) -> list[Path]:
    """Write a file for each rank.  If a file cannot be written completely, it does not appear."""
    if not FILE_NAME.fullmatch(f"{stem}.0.json") or "/" in stem:
        raise DomainError(f"stem is {stem!r}: expected the beginning of a file name")
    pack = _compressed if compress and require("Brotli") else bytes  # before the folder is made
    folder = Path(named(folder))
    folder.mkdir(parents=True, exist_ok=True)
    beyond = [r for r in stems(folder).get(stem, {}) if r >= n_ranks]
    if beyond:
        raise DomainError(
            f"{folder} has a run {stem!r} with rank {max(beyond)}: a run of {n_ranks} ranks with "
            f"the same name would be mixed with it"
        )
    paths = [folder / f"{stem}.{r}.json" for r in range(n_ranks)]

    def one(r: int) -> None:
        with writing(paths[r]) as file:
            packed = memoryview(pack(text(r)))
            for begin in range(0, len(packed), PIECE):
                file.write(packed[begin : begin + PIECE])
                _core.check_signals()

    mapped(one, range(n_ranks))
    return paths


def _compressed(text: bytes) -> bytes:
    # Quality 5 takes a tenth of the time of the best quality, for a slightly larger file.
    stream, out = require("Brotli").Compressor(quality=5), []
    for begin in range(0, len(text), PIECE):
        out.append(stream.process(text[begin : begin + PIECE]))
        _core.check_signals()
    return b"".join([*out, stream.finish()])


def rows(ptr: I64, phases: I64) -> tuple[I64, Any]:
    """Select the rows of k phases: return where each phase then begins, (k + 1,), and the indices.

    `ptr` (m + 1,) says where each phase begins among all rows.  The indices of the rows are a slice
    if the phases are consecutive.
    """
    sizes = np.diff(ptr)[phases]
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if len(phases) and np.all(np.diff(phases) == 1):
        return bounds, slice(int(ptr[phases[0]]), int(ptr[phases[-1] + 1]))
    starts = ptr[:-1][phases]
    return bounds, np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], sizes)
