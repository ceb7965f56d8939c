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
    - ``.npz``: arrays with the names in `KEYS`

    Raises MissingFileError if there is no such file, and FormatError if the file does not have the
    format of its suffix.
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


def _lines(file: Path) -> tuple[list[int], list[NDArray[np.int64]]]:
    """Return the line numbers and the integers of all lines that are not comments."""
    with reading(file) as lines:
        texts = lines.read().decode(errors="replace").splitlines()
    numbers = [i for i, text in enumerate(texts) if not text.startswith("%")]
    rows = []
    for i in numbers:
        try:
            rows.append(np.array(texts[i].split(), np.int64))
        except (ValueError, OverflowError):
            raise FormatError(f"line {i + 1}: expected integers") from None
    if not rows or len(rows[0]) < 2:
        raise FormatError("expected a first line of two numbers or more")
    return [i + 1 for i in numbers], rows


def _check_counts(file: Path, *counts: int) -> None:
    """Check that the numbers of objects are not too large for the size of the file."""
    most = file.stat().st_size + MOST_LONELY
    for n in counts:
        if not 0 <= n <= most:
            raise FormatError(f"{n} objects or nets: expected 0 ... {most} in a file of this size")


def _body(rows: list[NDArray[np.int64]], n: int) -> list[NDArray[np.int64]]:
    """Return the n lines after the first line; blank lines may follow."""
    rest = rows[1:]
    while len(rest) > max(n, 0) and not len(rest[-1]):
        rest.pop()
    if len(rest) != n:
        raise FormatError(f"{len(rest)} lines after the first: expected {n}")
    return rest


def _metis(file: Path) -> dict[str, Any]:
    """Read METIS' format: n m [fmt [ncon]]; for each vertex [size] [weights] (to [weight]) ..."""
    _, lines = _lines(file)
    n, m, *more = lines[0].tolist()
    digits = f"{more[0] if more else 0:03d}"
    columns = more[1] if len(more) > 1 else 1
    if len(digits) != 3 or set(digits) - {"0", "1"}:
        raise FormatError(f"format {digits}: expected digits 0 and 1")
    has_size, has_weight, has_edges = (c == "1" for c in digits)
    if columns < 0:
        raise FormatError(f"{columns} weights per vertex: expected 0 or more")
    rows = _body(lines, n)
    skip, step = has_size + columns * has_weight, 1 + has_edges
    for i, row in enumerate(rows):
        if len(row) < skip:
            raise FormatError(f"vertex {i + 1} has {len(row)} numbers: expected {skip} or more")
    counts = np.array([(len(row) - skip) // step for row in rows], np.int64)
    start = np.concatenate([[0], np.cumsum(counts)])
    rest = np.concatenate([np.zeros(0, np.int64), *(row[skip:] for row in rows)])
    if counts.sum() * step != len(rest) or counts.sum() != 2 * m:
        raise FormatError(f"{len(rest) / step / 2:g} edges: expected {m}")
    edge = (start, rest[::step] - 1, rest[1::2]) if has_edges else (start, rest - 1)
    out: dict[str, Any] = {"graph": edge}
    if skip > has_size:
        weight = np.array([row[has_size:skip] for row in rows])
        out["weight"] = weight[:, 0] if columns == 1 else weight
    if has_size:
        out["nbytes"] = np.array([row[0] for row in rows])
    return out


def _hmetis(file: Path) -> dict[str, Any]:
    """Read hMETIS' format: nets n [fmt], then for each net [weight] vertices ...

    With fmt 10 or 11, a line for each of the n vertices follows: its weight.
    """
    numbers, lines = _lines(file)
    nets, n, kind = [*lines[0].tolist(), 0][:3]
    _check_counts(file, nets, n)
    if kind not in (0, 1, 10, 11):
        raise FormatError(f"format {kind}: expected 1, 10, 11 or none")
    rows = _body(lines, nets + (n if kind >= 10 else 0))
    weighted = kind % 10
    for i, row in enumerate(rows):
        if len(row) < (weighted if i < nets else 1):
            raise FormatError(f"line {numbers[1 + i]}: expected a weight")
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
            raise FormatError("line 1: expected %%MatrixMarket matrix coordinate ...")
        line = lines.readline()
        while line.startswith("%") or (line and not line.strip()):
            line = lines.readline()
        rows, columns, entries = map(int, line.split())
        body = lines.read().split()
    _check_counts(file, rows, columns, entries)
    width = len(body) // max(entries, 1)
    if width * entries != len(body) or (entries and width < 2):
        raise FormatError(f"{len(body)} numbers: expected {entries} entries of 2 or more each")
    i, j = (np.array(body[k : entries * width : width or 1], np.int64) - 1 for k in (0, 1))
    if entries and not (0 <= i.min() <= i.max() < rows and 0 <= j.min() <= j.max() < columns):
        raise FormatError(f"an entry is outside the {rows} x {columns} matrix")
    if "general" not in banner[4:]:  # the file has only one triangle
        i, j = np.concatenate([i, j]), np.concatenate([j, i])
    if rows != columns:
        found = in_order(rows, i, j)
        return {"nets": (found.start, found.to), "weight": np.ones(columns)}
    i, j = np.concatenate([i, j]), np.concatenate([j, i])
    found = in_order(rows, i[i != j], j[i != j])
    return {"graph": (found.start, found.to)}


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
            raise FormatError(f"array {strange[0]!r}: expected {', '.join(KEYS)}")
        given = {name: archive[name] for name in archive.files}
    out: dict[str, Any] = {}
    for name, words in (
        ("graph", ("start", "to", "edge_weight")),
        ("nets", ("net_start", "pin", "net_weight")),
    ):
        arrays = [given.pop(word) for word in words if word in given]
        if len(arrays) == 1:
            raise FormatError(f"expected both arrays, {words[0]!r} and {words[1]!r}")
        if arrays:
            out[name] = tuple(arrays)
    return out | given
