"""VT's LBDatafile: which files make a run, their text, and the index of it by the C core.

One file a rank, ``<stem>.<rank>.json``, plain JSON or Brotli under the same name.
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
import re
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError, FormatError, MissingFileError, MissingPartError
from pylb.snapshot import I64
from pylb.strategies import nearest

FILE_NAME = re.compile(r"(.+)\.(0|[1-9][0-9]*)\.json")
MOST_PHASES = 1_000_000  # identical_to_previous may ask for any number of copies


class Run(NamedTuple):
    """What the files of a run say.

    Attributes
    ----------
    scans : list
        The C core's index of each rank's text.
    phase_id : (m,) int64
    source : (m,) int64
        The phase of the files that each phase is; a phase that is recorded as identical to the
        one before has that one's.
    skipped : list of int
        Ids of the phases that the run left out of its record.
    arrays : dict
        Of the C core, see csrc/explore/vt.h.
    """

    scans: list[Any]
    phase_id: I64
    source: I64
    skipped: list[int]
    arrays: dict[str, Any]


def stems(folder: str | os.PathLike[str]) -> dict[str, dict[int, Path]]:
    """The runs in a folder: stem to rank to file, shortest stem first.

    Raises
    ------
    MissingFileError
        There is no such folder.
    """
    found: dict[str, dict[int, Path]] = {}
    try:
        entries = list(os.scandir(folder))
    except OSError as why:
        raise MissingFileError(f"{os.fspath(folder)}: {why.strerror}: expected a folder") from None
    for entry in entries:
        match = FILE_NAME.fullmatch(entry.name)
        if match:
            found.setdefault(match[1], {})[int(match[2])] = Path(entry.path)
    return {s: found[s] for s in sorted(found, key=lambda s: (len(s), s))}


def files(path: str | os.PathLike[str], stem: str | None = None) -> list[Path]:
    """The files of one run in order of the ranks: of a folder, a prefix or one of its files.

    Raises
    ------
    MissingFileError
        Nothing there, or the files of some ranks are missing.
    """
    path = Path(path)
    if path.is_dir():
        return _complete(*_choose(path, stem))
    if stem is not None:
        raise DomainError(f"stem is {stem!r}: expected a folder to go with it, not {path}")
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
            warnings.warn(
                f"{folder} has {len(found)} runs: reading {stem!r}; for another one give stem="
                + " or ".join(map(repr, others)),
                UserWarning,
                stacklevel=4,
            )
    elif stem not in found:
        raise MissingFileError(
            f"stem is {stem!r}: {folder} has {', '.join(map(repr, found))}" + nearest(stem, found)
        )
    return stem, found[stem]


def _complete(stem: str, ranks: dict[int, Path]) -> list[Path]:
    n = max(ranks) + 1
    if len(ranks) < n:
        gaps = list(itertools.islice((r for r in range(n) if r not in ranks), 11))
        text = ", ".join(map(str, gaps[:10])) + (", ..." if len(gaps) > 10 else "")
        raise MissingFileError(
            f"run {stem!r} has {len(ranks)} of {n} files: rank {text} missing in "
            f"{ranks[n - 1].parent}"
        )
    return [ranks[r] for r in range(n)]


# ---- text -----------------------------------------------------------------------------------


def scan(path: Path) -> Any:
    """The C core's index of one file, whose text stays mapped (or decompressed) in memory."""
    text = _mapped(path)
    if not _looks_like_json(text):
        return _core.vt_scan(_decompressed(path, text), str(path))
    try:
        return _core.vt_scan(text, str(path))
    except FormatError:
        # A Brotli stream may begin like JSON; then the JSON error is of no use.
        try:
            plain = _decompressed(path, text)
        except (FormatError, MissingPartError):
            plain = None
        if plain is None:
            raise
        return _core.vt_scan(plain, str(path))


def _mapped(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise FormatError(f"{path} is empty: expected an LBDatafile, JSON or Brotli")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as why:
        raise MissingFileError(f"{path}: {why.strerror}") from None


def _looks_like_json(text: Any) -> bool:
    head = text[:64].lstrip(b" \t\r\n")
    return head[:1] == b"{" and head[1:2] in b' \t\r\n"}'


def _decompressed(path: Path, text: Any) -> bytes:
    try:
        import brotli
    except ImportError:
        raise MissingPartError(
            f"{path} is not plain JSON; for Brotli: pip install 'pylb[io]'"
        ) from None
    try:
        return bytes(brotli.decompress(text))
    except brotli.error:
        raise FormatError(
            f"{path} is neither JSON nor a whole Brotli stream: it begins with {text[:8]!r}"
        ) from None


# ---- a run ----------------------------------------------------------------------------------


def read(paths: list[Path], threads: int | None = None) -> Run:
    """Read the files of one run, `threads` at a time (default: one a core, at most 8)."""
    if threads is None:
        threads = min(8, len(os.sched_getaffinity(0)))
    elif threads < 1:
        raise DomainError(f"threads is {threads}: expected 1 or more")
    with ThreadPoolExecutor(min(threads, len(paths))) as pool:
        scans = list(pool.map(scan, paths))
    heads = [_phases(str(path), *_core.vt_head(s)) for path, s in zip(paths, scans, strict=True)]
    arrays = _core.vt_merge(scans, heads[0][1])
    for path, head in zip(paths, heads, strict=True):
        if head != heads[0]:
            raise FormatError(
                f"ranks disagree on phases: metadata.phases of {path} and of {paths[0]} differ"
            )
    ids, source, skipped = heads[0]
    return Run(scans, np.array(ids, np.int64), np.array(source, np.int64), skipped, arrays)


def _phases(name: str, metadata: bytes | None, ids: list[int]) -> tuple[list[int], ...]:
    """Ids of all phases, the file's phase of each, ids of skipped phases."""
    skipped: list[int] = []
    same: list[int] = []
    try:
        phases = json.loads(metadata or b"{}").get("phases") or {}
        skipped = _ids(phases.get("skipped"))
        same = _ids(phases.get("identical_to_previous"))
    except (AttributeError, TypeError, ValueError) as why:
        raise FormatError(
            f"{name}: metadata.phases: expected skipped and identical_to_previous with a list "
            f"and a range of phase ids each; {why}"
        ) from None
    index = {phase: i for i, phase in enumerate(ids)}
    order = sorted({*ids, *same})
    source: list[int] = []
    for phase in order:
        if phase not in index and not source:
            raise FormatError(
                f"{name}: metadata.phases: phase {phase} is identical to the one before, but the "
                f"file has no phase before it"
            )
        source.append(index.get(phase, source[-1] if source else 0))
    return order, source, skipped


def _ids(entry: Any) -> list[int]:
    """Phases of a {"list": [3, ...], "range": [[first, last], ...]}, each once."""
    entry = entry or {}
    spans = [(i, i) for i in entry.get("list") or []]
    spans += [(first, last) for first, last in entry.get("range") or []]
    if not all(type(x) is int and 0 <= x < 2**63 for span in spans for x in span):
        raise TypeError("an id is no integer of 63 bits")
    if sum(max(0, last - first + 1) for first, last in spans) > MOST_PHASES:
        raise ValueError(f"more than {MOST_PHASES} phases")
    return sorted(set(_expand(spans)))


def _expand(spans: Iterable[tuple[int, int]]) -> Iterable[int]:
    return itertools.chain.from_iterable(range(first, last + 1) for first, last in spans)
