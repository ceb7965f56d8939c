"""Graphs, hypergraphs and points in files: METIS, hMETIS, Matrix Market, NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.errors import FormatError
from pylb.files import descriptor, reading, text, understood, writing
from pylb.partitioning.arrays import in_order

MOST_LONELY = 1 << 20  # a file of b bytes has at most b + MOST_LONELY objects: some need no text
MOST_DEFLATED = 1032  # largest possible ratio of decompressed to compressed bytes (RFC 1951)
KEYS = (
    *("start", "to", "edge_weight", "net_start", "pin", "net_weight"),
    *("coords", "weight", "old", "fixed_part", "nbytes", "tree", "shares"),
)


def read(path: str | Path) -> dict[str, Any]:
    """Read arguments of `pylb.partition` from a file, in the format of the file's suffix.

    - ``.graph``: METIS
    - ``.hgr``: hMETIS
    - ``.mtx``: Matrix Market; a square matrix becomes a symmetric graph, the rows of other matrices
      become nets
    - ``.npy``: points; if the array is a vector of integers, the parents of a refinement tree
    - ``.npz``: arrays named start, to, edge_weight; net_start, pin, net_weight; coords, weight,
      old, fixed_part, nbytes, tree, shares

    Raises MissingFileError if there is no such file, and FormatError if the file does not have the
    format of its suffix; the message names the line if possible.
    """
    file = Path(path)
    readers = {".graph": _metis, ".hgr": _hmetis, ".mtx": _market, ".npy": _npy, ".npz": _npz}
    if file.suffix not in readers:
        raise FormatError(f"{file}: suffix {file.suffix!r}: expected {', '.join(readers)}")
    with understood(file, f"a file of the format {file.suffix}"):
        return readers[file.suffix](file)


def write(path: str | Path, part: NDArray[np.int32]) -> None:
    """Write parts: one per line, as METIS does, or as a NumPy array if the suffix is ``.npy``."""
    with writing(path) as file:
        if Path(path).suffix == ".npy":
            np.save(file, part)
        else:
            file.write("".join(f"{r}\n" for r in part.tolist()).encode())


def read_parts(path: str | Path) -> NDArray[np.int64]:
    """Read parts that `write` wrote; the errors are those of `read`."""
    file = Path(path)
    with understood(file, "a file of one part per line"):
        given = _array(file) if file.suffix == ".npy" else np.array(text(file).split())
        return given.astype(np.int64)


# ---- text --------------------------------------------------------------------------------------


def _lines(file: Path) -> list[tuple[int, list[str]]]:
    """Return (line number, words) of each line that is not a comment."""
    with reading(file) as lines:
        texts = lines.read().decode(errors="replace").splitlines()
    return [(i, line.split()) for i, line in enumerate(texts, 1) if not line.startswith("%")]


def _numbers(file: Path, line: tuple[int, list[str]]) -> NDArray[np.int64]:
    try:
        return np.array(line[1], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise FormatError(f"{file}, line {line[0]}: {error}: expected integers") from error


def _head(file: Path, lines: list[tuple[int, list[str]]]) -> NDArray[np.int64]:
    if not lines or len(lines[0][1]) < 2:
        raise FormatError(f"{file}: expected a first line of two numbers or more")
    return _numbers(file, lines[0])


def _check_count(file: Path, line: int, *counts: int) -> None:
    """Raise FormatError if a number of objects is too large for the size of the file."""
    most = file.stat().st_size + MOST_LONELY
    wrong = [n for n in counts if not 0 <= n <= most]
    if wrong:
        raise FormatError(
            f"{file}, line {line}: {wrong[0]} objects or nets: expected 0 ... {most} in a file of "
            f"{most - MOST_LONELY} bytes"
        )


def _body(file: Path, lines: list[tuple[int, list[str]]], n: int) -> list[NDArray[np.int64]]:
    """Return the numbers in the n lines after the first line; blank lines may follow."""
    rest = lines[1:]
    while len(rest) > max(n, 0) and not rest[-1][1]:
        rest.pop()
    if len(rest) != n:
        raise FormatError(f"{file}: {len(rest)} lines after the first: expected {n}")
    return [_numbers(file, line) for line in rest]


def _metis(file: Path) -> dict[str, Any]:
    """Read METIS' format.

    First line: n m [fmt [ncon]].  Then a line for each vertex: [size] [weights] (neighbour
    [weight]) ...
    """
    lines = _lines(file)
    head = _head(file, lines)
    n, m = int(head[0]), int(head[1])
    kind = f"{int(head[2]) if len(head) > 2 else 0:03d}"
    if len(kind) != 3 or set(kind) - {"0", "1"}:
        raise FormatError(f"{file}, line {lines[0][0]}: format {kind}: expected digits 0 and 1")
    has_size, has_weight, has_edges = (c == "1" for c in kind)
    columns = (int(head[3]) if len(head) > 3 else 1) if has_weight else 0
    if columns < 0:
        raise FormatError(
            f"{file}, line {lines[0][0]}: {columns} weights per vertex: expected 0 or more"
        )
    rows = _body(file, lines, n)
    skip = has_size + columns
    short = [i for i, row in enumerate(rows) if len(row) < skip]
    if short:
        found = f"vertex {short[0] + 1} has {len(rows[short[0]])} numbers"
        raise FormatError(f"{file}: {found}: expected {skip} or more")
    step = 2 if has_edges else 1
    counts = np.array([(len(row) - skip) // step for row in rows], np.int64)
    start = np.concatenate([[0], np.cumsum(counts)])
    rest = np.concatenate([np.zeros(0, np.int64), *(row[skip:] for row in rows)])
    if counts.sum() * step != len(rest) or counts.sum() != 2 * m:
        raise FormatError(f"{file}: {len(rest) / step / 2:g} edges: expected {m}")
    edge = (start, rest[::step] - 1, rest[1::2]) if has_edges else (start, rest - 1)
    out: dict[str, Any] = {"graph": edge}
    if columns:
        weight = np.array([row[has_size:skip] for row in rows])
        out["weight"] = weight[:, 0] if columns == 1 else weight
    if has_size:
        out["nbytes"] = np.array([row[0] for row in rows])
    return out


def _hmetis(file: Path) -> dict[str, Any]:
    """Read hMETIS' format.

    First line: nets n [fmt].  Then a line for each net: [weight] vertices ...  With fmt 10 or 11,
    a line for each of the n vertices follows: its weight.
    """
    lines = _lines(file)
    head = _head(file, lines)
    nets, n, kind = int(head[0]), int(head[1]), int(head[2]) if len(head) > 2 else 0
    _check_count(file, lines[0][0], nets, n)
    if kind not in (0, 1, 10, 11):
        raise FormatError(f"{file}, line {lines[0][0]}: format {kind}: expected 1, 10, 11 or none")
    rows = _body(file, lines, nets + (n if kind >= 10 else 0))
    weighted = kind % 10
    for i, row in enumerate(rows):
        if len(row) < (weighted if i < nets else 1):
            raise FormatError(f"{file}, line {lines[1 + i][0]}: expected a weight")
    pins = [row[weighted:] for row in rows[:nets]]
    start = np.concatenate([[0], np.cumsum([len(row) for row in pins])]).astype(np.int64)
    pin = np.concatenate([np.zeros(0, np.int64), *pins]) - 1
    net_weight = (np.array([row[0] for row in rows[:nets]]),) if weighted else ()
    weight = np.array([row[0] for row in rows[nets:]]) if kind >= 10 else np.ones(n)
    return {"nets": (start, pin, *net_weight), "weight": weight}


def _market(file: Path) -> dict[str, Any]:
    """Read the positions of a matrix's entries; their values are ignored."""
    with open(descriptor(file)) as lines:
        banner = lines.readline().lower().split()
        if banner[:3] != ["%%matrixmarket", "matrix", "coordinate"]:
            raise FormatError(f"{file}, line 1: expected %%MatrixMarket matrix coordinate ...")
        line, number = lines.readline(), 2
        while line.startswith("%") or (line and not line.strip()):
            line, number = lines.readline(), number + 1
        rows, columns, entries = (int(word) for word in line.split())
        body = lines.read().split()
    _check_count(file, number, rows, columns, entries)
    width = len(body) // max(entries, 1)
    if width * entries != len(body) or (entries and width < 2):
        raise FormatError(
            f"{file}: {len(body)} numbers: expected {entries} entries of 2 or more numbers each"
        )
    i = np.array(body[::width], np.int64) - 1 if entries else np.zeros(0, np.int64)
    j = np.array(body[1::width], np.int64) - 1 if entries else np.zeros(0, np.int64)
    if entries and not (0 <= i.min() <= i.max() < rows and 0 <= j.min() <= j.max() < columns):
        raise FormatError(f"{file}: an entry is outside the {rows} x {columns} matrix")
    if "general" not in banner[4:]:  # the file has only one triangle
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    if rows != columns:
        return {"nets": _rows(rows, i, j), "weight": np.ones(columns)}
    i, j = np.concatenate([i, j]), np.concatenate([j, i])
    return {"graph": _rows(rows, i[i != j], j[i != j])}


def _rows(n: int, i: NDArray[np.int64], j: NDArray[np.int64]) -> tuple[Any, Any]:
    found = in_order(n, i, j)
    return found.start, found.to


# ---- NumPy -------------------------------------------------------------------------------------


def _array(file: Path) -> Any:
    with reading(file) as handle:
        return np.lib.format.read_array(handle, allow_pickle=False)


def _npy(file: Path) -> dict[str, Any]:
    given = _array(file)
    return {"tree" if given.dtype.kind in "iu" and given.ndim == 1 else "coords": given}


def _npz(file: Path) -> dict[str, Any]:
    with reading(file) as handle, np.load(handle, allow_pickle=False) as archive:
        strange = [name for name in archive.files if name not in KEYS]
        if strange:
            raise FormatError(f"{file}: array {strange[0]!r}: expected {', '.join(KEYS)}")
        size = sum(one.file_size for one in archive.zip.infolist())
        if size > MOST_DEFLATED * file.stat().st_size:
            raise FormatError(
                f"{file}: its arrays claim {size} bytes, more than a file of this size can hold"
            )
        given = {name: archive[name] for name in archive.files}
    out: dict[str, Any] = {}
    for name, words in (
        ("graph", ("start", "to", "edge_weight")),
        ("nets", ("net_start", "pin", "net_weight")),
    ):
        arrays = [given.pop(word) for word in words if word in given]
        if len(arrays) == 1:
            raise FormatError(f"{file}: expected both arrays, {words[0]!r} and {words[1]!r}")
        if arrays:
            out[name] = tuple(arrays)
    return out | given
