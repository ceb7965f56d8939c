"""Output for people and programs: tables, numbers with units, JSON."""

from __future__ import annotations

import binascii
import io
import json
import math
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from typing import Any, NamedTuple, TextIO, TypeVar

import numpy as np

DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
UNITS = {"%", "bytes", *(name for _, name in (*DURATIONS, *SIZES))}
NOTHING = 1e-13  # seconds; smaller values are rounding errors of differences
LONGEST = 300  # largest length of a text after `clip`, in characters
PAPER = 100  # characters per line if the output is a pipe or a file
NARROWEST = 14  # smallest width, in characters, of a column whose cells are wrapped


def note(text: object, by: str = "pylb") -> None:
    """Print a line on standard error."""
    print(f"{by}: {text}", file=sys.stderr, flush=True)


# ---- numbers and words --------------------------------------------------------------------------


def scaled(x: float, units: Sequence[tuple[float, str]], digits: int = 3) -> str:
    """Format `x` with `digits` digits in the largest of the units (size, name) that gives >= 1."""
    least = 1 - 0.51 * 10.0**-digits  # 999.9 ms is shown as "1 s"
    # "not <" instead of ">=", so that nan gets the largest unit
    size, unit = next((u for u in units if not abs(x) < least * u[0]), units[-1])
    return f"{x / size:.{digits}g} {unit}"


def seconds(x: float) -> str:
    """Format seconds, e.g. '12.3 ms'; less than `NOTHING` is 0."""
    return "0 s" if abs(x) < NOTHING else scaled(x, DURATIONS)


def percent(fraction: float) -> str:
    """Format a fraction, e.g. '12.3 %'."""
    return f"{100 * fraction:.1f} %"


def size(nbytes: float) -> str:
    """Format bytes, e.g. '1.5 MB'."""
    return scaled(nbytes, SIZES) if nbytes >= 1e3 else f"{nbytes:.0f} bytes"


def count(n: float, word: str, several: str = "") -> str:
    """Format a count, e.g. '2 objects'; `several` is the plural if this is not `word` + 's'."""
    return f"{n:.0f} {word if n == 1 else several or word + 's'}"


def clip(text: object, longest: int = LONGEST) -> str:
    """Cut a text after `longest` characters, the last of which is then an ellipsis."""
    whole = str(text)
    return whole if len(whole) <= longest else f"{whole[: longest - 1]}…"


def digits(values: Any, n: int = 4) -> list[float]:
    """Round floats to `n` significant digits: enough for a picture, and the JSON is shorter."""
    return [float(f"{x:.{n}g}") for x in np.asarray(values, np.float64).tolist()]


# ---- JSON ---------------------------------------------------------------------------------------


def packed(values: Any, dtype: str) -> str:
    """Return numbers for JSON as base64 of their bytes; `dtype` is little-endian."""
    return binascii.b2a_base64(np.asarray(values, dtype).tobytes(), newline=False).decode()


def plain(value: Any) -> Any:
    """Prepare `value` for JSON: arrays become lists; nan and infinity become None."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON; without `indent`, on one line and without spaces."""
    separators = None if indent else (",", ":")
    return json.dumps(plain(value), indent=indent, separators=separators, allow_nan=False)


def script_json(value: Any) -> str:
    """Return JSON for a ``<script>`` element: ASCII, and without the text that ends the element."""
    text = json_text(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# ---- tables -------------------------------------------------------------------------------------


def text(cell: Any) -> str:
    """Return the text of a cell: None is empty, a float has four significant digits."""
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, (float, np.floating)) else str(cell)


def is_number(cell: Any) -> bool:
    """Say whether a cell is a number, or a string such as ``12,000``, ``7 %`` or ``1.5 MB``."""
    if isinstance(cell, str):
        number, _, unit = cell.partition(" ")
        if unit and unit not in UNITS:
            return False
        try:
            float(number.removesuffix("%").replace(",", ""))
        except ValueError:
            return False
        return True
    return isinstance(cell, (int, float, np.number)) and not isinstance(cell, bool)


class Column(NamedTuple):
    """A column of a printed table."""

    heading: str
    #: Key or index of the cell in a row, or a function of the row; None: the index of the column.
    value: Any = None
    note: str = ""  #: a footnote that explains the heading
    drop: int = 0  #: narrow terminals omit the column with 1 first, then 2, ...; 0: never

    def of(self, row: Any) -> Any:
        return self.value(row) if callable(self.value) else row[self.value]


def show(
    columns: Sequence[str | Column],
    rows: Iterable[Any],
    *,
    title: str | None = None,
    file: TextIO | None = None,
    drop_empty: bool = False,
) -> None:
    """Print a table as aligned text, wrapped to the terminal, or to `PAPER` characters elsewhere.

    Parameters
    ----------
    columns : sequence of str or Column
        Columns, or only their headings.  If all are empty, the table has no heading line.
    rows : iterable
        The cells, or what `Column.value` refers to; None is an empty cell.  Columns of numbers are
        aligned right.
    drop_empty : bool
        Omit the columns in which every cell is None.
    """
    out = sys.stdout if file is None else file
    rows, known = list(rows), [c if isinstance(c, Column) else Column(c) for c in columns]
    if all(c.value is None for c in known) and any(len(row) != len(known) for row in rows):
        raise ValueError(f"every row needs {len(known)} cells, one for each column")
    known = [c._replace(value=i) if c.value is None else c for i, c in enumerate(known)]
    table = [(c, [c.of(row) for row in rows]) for c in known]
    if drop_empty and rows:
        table = [(c, cells) for c, cells in table if any(cell is not None for cell in cells)]
    room, is_narrow = width_of(out), out.isatty() or "COLUMNS" in os.environ
    left_out = []
    for c in sorted(known, key=lambda c: c.drop):
        wide = sum(2 + max(map(len, [c.heading, *map(text, cells)])) for c, cells in table) - 2
        if c.drop and is_narrow and wide > room and c.heading not in left_out:
            left_out.append(c.heading)
            table = [(kept, cells) for kept, cells in table if kept.heading != c.heading]
    drawn = lines([(c.heading, cells) for c, cells in table], room)
    print(*([fill(title, room)] if title else []), *drawn, sep="\n", file=out)
    notes = {c.heading: c.note for c, _ in table if c.note}
    foot = [f"{name}: {text}" for name, text in notes.items()]
    if left_out:
        foot.append(f"not shown in this width: {', '.join(left_out)}")
    if foot:
        print(fill("; ".join(foot), room), file=out)


def lines(columns: Iterable[tuple[str, Sequence[Any]]], room: float = math.inf) -> list[str]:
    """Return a table of (heading, cells) as lines, texts wrapped to `room` characters per line."""
    names, right, widths, least, texts = [], [], [], [], []
    for name, cells in columns:
        names.append(name)
        seen = [cell for cell in cells if cell is not None]
        right.append(bool(seen) and all(map(is_number, seen)))
        texts.append([text(cell) for cell in cells])
        widths.append(max(map(len, [name, *texts[-1]])))
        words = [name, " " * NARROWEST, *(word for cell in texts[-1] for word in cell.split())]
        least.append(widths[-1] if right[-1] else max(map(len, words)))
    while sum(widths) + 2 * len(widths) - 2 > room:
        wide = [i for i, width in enumerate(widths) if width > least[i]]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    for cells, width, to_right in zip(texts, widths, right, strict=True):
        cells[:] = cells if to_right else [fill(cell, width) for cell in cells]
    rows = [
        line
        for row in zip(*texts, strict=True)
        for line in zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
    ]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    above = [names, ["-" * width for width in widths]] if any(names) else []
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in [*above, *rows]
    ]


def width_of(out: TextIO) -> int:
    """Return the characters per line: `$COLUMNS`, else those of the terminal, else `PAPER`."""
    if out.isatty():
        import shutil  # not at the top: it slows `import pylb`

        return shutil.get_terminal_size((PAPER, 24)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) else PAPER


def fill(text: str, room: int) -> str:
    """Break a text between words into lines of at most `room` characters."""
    if len(text) <= room:
        return text
    return "\n".join(textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False))


def html(columns: Sequence[str], rows: Iterable[Sequence[Any]], below: Iterable[str] = ()) -> str:
    """Return a table as HTML, without empty columns; `below` has lines of text to add below it."""
    cells = [list(row) for row in rows]
    used = [i for i in range(len(columns)) if any(row[i] is not None for row in cells)]

    def line(tag: str, row: Sequence[Any]) -> str:
        out = []
        for cell in (row[i] for i in used):
            side = "right" if is_number(cell) else "left"
            style = f"text-align:{side};white-space:nowrap;padding-right:1em"
            out.append(f'<{tag} style="{style}">{escape(text(cell))}</{tag}>')
        return f"<tr>{''.join(out)}</tr>"

    body = "".join(line("td", row) for row in cells)
    foot = "".join(f"<div><small>{escape(one)}</small></div>" for one in below)
    table = f"<table><thead>{line('th', columns)}</thead><tbody>{body}</tbody></table>"
    return f'<div style="overflow-x:auto" tabindex="0">{table}</div>{foot}'


MOST_BARS = 64  # if there are more values, a bar shows the largest of some neighbours


def card(said: str, bars: Mapping[str, Any] | None = None) -> str:
    """Return a line of text as HTML, and small bars in its colour for each name in `bars`."""
    parts = [f"<div>{escape(said)}</div>"]
    for name, given in (bars or {}).items():
        values = np.asarray(given, np.float64).ravel()
        values = np.maximum.reduceat(
            values, np.arange(0, len(values), -(-len(values) // MOST_BARS))
        )
        top, wide = float(values.max()) or 1.0, min(max(320 // len(values), 4), 24)
        rects = "".join(
            f'<rect x="{i * wide}" y="{40 - h:.1f}" width="{wide - 1}" height="{h:.1f}"/>'
            for i, h in enumerate((40 * np.clip(values / top, 0.0, 1.0)).tolist())
        )
        parts.append(
            '<div style="display:inline-block;margin:4px 18px 0 0;vertical-align:top">'
            f'<svg width="{wide * len(values)}" height="40" role="img" aria-label="{escape(name)}" '
            f'style="display:block" fill="currentColor" fill-opacity="0.55">{rects}</svg>'
            f"<small>{escape(name)}</small></div>"
        )
    return f"<div>{''.join(parts)}</div>"


class InNotebook:
    """A mixin: a notebook shows an object as its `repr` and as the bars that `_bars` returns."""

    def _bars(self) -> dict[str, Any]:
        return {}

    def _repr_html_(self) -> str:
        bars = {name: values for name, values in self._bars().items() if np.size(values)}
        return card(repr(self).removeprefix("<").removesuffix(">"), bars)


Value = TypeVar("Value")


class Listing(dict[str, Value]):
    """A dictionary shown as a table, a row for each value, whose attributes `columns` names."""

    def __init__(self, values: Mapping[str, Value], columns: Mapping[str, str]) -> None:
        super().__init__(values)
        self._columns = columns

    def _rows(self) -> list[list[Any]]:
        cells = (
            [getattr(value, name) for name in self._columns.values()] for value in self.values()
        )
        return [[", ".join(x) if isinstance(x, tuple) else x for x in row] for row in cells]

    def __repr__(self) -> str:
        out = io.StringIO()
        show(list(self._columns), self._rows(), file=out)
        return out.getvalue().rstrip()

    def _repr_html_(self) -> str:
        return html(list(self._columns), self._rows())
