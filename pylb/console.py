"""Tables for people: rich on a terminal, plain aligned text in a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any, TextIO

import numpy as np


def text(cell: Any) -> str:
    """A cell as shown: None is empty, a float has four significant digits."""
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, (float, np.floating)) else str(cell)


def is_number(cell: Any) -> bool:
    """Whether a cell is a number, or a string that reads as one (``-1.5``, ``12,000``, ``7 %``)."""
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
) -> None:
    """Print a table.

    Parameters
    ----------
    columns : sequence of str
        Headings; where all are empty the table has no head.
    rows : iterable of sequences
        A cell for each column.  Columns of numbers (None between them is fine) are aligned right.
    title : str, optional
    file : text file, optional
        Default: standard output.  Where it is a terminal and rich is installed, rich draws.
    """
    out = sys.stdout if file is None else file
    cells = [list(row) for row in rows]
    if any(len(row) != len(columns) for row in cells):
        raise ValueError(f"every row needs {len(columns)} cells, one for each column")
    right = [
        any(row[i] is not None for row in cells)
        and all(row[i] is None or is_number(row[i]) for row in cells)
        for i in range(len(columns))
    ]
    shown = [[text(cell) for cell in row] for row in cells]
    if out.isatty() and find_spec("rich") is not None:
        _show_rich(columns, shown, right, title, out)
    else:
        _show_plain(columns, shown, right, title, out)


def html(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The same as an HTML table, for notebooks."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(text(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _show_plain(
    columns: Sequence[str],
    rows: list[list[str]],
    right: list[bool],
    title: str | None,
    out: TextIO,
) -> None:
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    if title is not None:
        print(title, file=out)
    head = [list(columns), rule] if any(columns) else []
    for row in head + rows:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        print("  ".join(cells).rstrip(), file=out)


def _show_rich(
    columns: Sequence[str],
    rows: list[list[str]],
    right: list[bool],
    title: str | None,
    out: TextIO,
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # not markup: a cell may hold brackets

    table = Table(
        box=SIMPLE_HEAD if any(columns) else None,
        show_header=any(columns),
        pad_edge=False,
        title=title,
        title_justify="left",
    )
    for name, to_right in zip(columns, right, strict=True):
        table.add_column(Text(name), justify="right" if to_right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=out)
    # A cell is never broken or cut: a line that is too long is the terminal's to wrap.
    needed = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.width = max(console.width, needed)
    console.print(table)
