"""Output for people and programs: tables, numbers with units, JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any, TextIO

import numpy as np

DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
NOTHING = 1e-13  # seconds: what rounding leaves of a difference
LONGEST = 300  # how many characters of a name are shown

# ---- numbers and words --------------------------------------------------------------------------


def scaled(x: float, units: Sequence[tuple[float, str]], digits: int = 3) -> str:
    """Format `x` in the largest unit (size, name) that is not larger than it, as rounded."""
    least = 1 - 0.51 * 10.0**-digits  # 999.9 ms is "1 s"
    size, unit = next((u for u in units if abs(x) >= least * u[0]), units[-1])
    return f"{x / size:.{digits}g} {unit}"


def seconds(x: float) -> str:
    """Format seconds, e.g. '12.3 ms'; less than `NOTHING` is 0."""
    return scaled(x, DURATIONS) if abs(x) >= NOTHING else "0 s"


def size(nbytes: float) -> str:
    """Format bytes, e.g. '1.5 MB'."""
    return scaled(nbytes, SIZES) if nbytes >= 1e3 else f"{nbytes:.0f} bytes"


def count(n: float, word: str, several: str = "") -> str:
    """Format a count, e.g. '1 object', '2 objects'."""
    return f"{n:.0f} {word if n == 1 else several or word + 's'}"


def clip(text: object, longest: int = LONGEST) -> str:
    """Shorten a text that is too long."""
    said = str(text)
    return said if len(said) <= longest else f"{said[: longest - 1]}…"


def digits(values: Any, n: int = 4) -> list[float]:
    """Round floats to `n` significant digits: enough for a picture, with a third of the bytes."""
    return [float(f"{x:.{n}g}") for x in np.asarray(values, np.float64).tolist()]


# ---- JSON ---------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """`value` for JSON: arrays become lists; nan and infinity, which JSON lacks, become None."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON; without an indent on one line, without spaces."""
    separators = None if indent else (",", ":")
    return json.dumps(plain(value), indent=indent, separators=separators, allow_nan=False)


def script_json(value: Any) -> str:
    """Return JSON for a ``<script>`` element: nothing in it can end that element.

    It is ASCII, and so independent of the encoding of the page.
    """
    text = json_text(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# ---- tables -------------------------------------------------------------------------------------


def text(cell: Any) -> str:
    """A cell as shown: None is empty, a float has four significant digits."""
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, (float, np.floating)) else str(cell)


def is_number(cell: Any) -> bool:
    """Whether a cell is a number, or a string like one (``-1.5``, ``12,000``, ``7 %``)."""
    if isinstance(cell, str):
        try:
            float(cell.removesuffix("%").replace(",", ""))
        except ValueError:
            return False
        return True
    return isinstance(cell, (int, float, np.number)) and not isinstance(cell, bool)


def show(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str | None = None,
    file: TextIO | None = None,
    drop_empty: bool = False,
) -> None:
    """Print a table: rich draws it on a terminal; a pipe or a file gets plain aligned text.

    Parameters
    ----------
    columns : sequence of str
        Headings.  If all are empty, the table has no heading line.
    rows : iterable of sequences
        A cell for each column; None is an empty cell.  Columns of numbers are aligned right.
    title : str, optional
    file : text file, optional
        Default: standard output.
    drop_empty : bool
        Leave out the columns in which every cell is None.
    """
    out = sys.stdout if file is None else file
    cells = [list(row) for row in rows]
    if any(len(row) != len(columns) for row in cells):
        raise ValueError(f"every row needs {len(columns)} cells, one for each column")
    known = [[row[i] for row in cells if row[i] is not None] for i in range(len(columns))]
    used = [i for i, column in enumerate(known) if column or not (cells and drop_empty)]
    head = [(columns[i], bool(known[i]) and all(map(is_number, known[i]))) for i in used]
    shown = [[text(row[i]) for i in used] for row in cells]
    on_terminal = out.isatty() and find_spec("rich") is not None
    (_show_rich if on_terminal else _show_plain)(head, shown, title, out)


def html(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The same as an HTML table, for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(text(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


Head = list[tuple[str, bool]]  # names of the columns, and whether each is aligned right


def _show_plain(head: Head, rows: list[list[str]], title: str | None, out: TextIO) -> None:
    names, right = [name for name, _ in head], [to_right for _, to_right in head]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    if title is not None:
        print(title, file=out)
    for row in ([names, ["-" * width for width in widths]] if any(names) else []) + rows:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip(), file=out)


def rich_table(head: Head, rows: Iterable[Sequence[str]], title: str | None = None) -> Any:
    """Make a table of the package rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text  # not markup: a cell may hold brackets

    named = any(name for name, _ in head)
    box = SIMPLE_HEAD if named else None
    table = Table(box=box, show_header=named, pad_edge=False, title=title, title_justify="left")
    for name, to_right in head:
        table.add_column(Text(name), justify="right" if to_right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def rich_width(console: Any, table: Any) -> int:
    """Width of the whole table in characters."""
    options = console.options.update(max_width=10_000)
    return int(console.measure(table, options=options).maximum)


def _show_rich(head: Head, rows: list[list[str]], title: str | None, out: TextIO) -> None:
    from rich.console import Console

    console, table = Console(file=out), rich_table(head, rows, title)
    # Cells are never shortened: the terminal wraps lines that are too long.
    console.width = max(console.width, rich_width(console, table))
    console.print(table)
