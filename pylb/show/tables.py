"""Write a run as tables of comma-separated values."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pylb import files
from pylb.decide.figures import RECEIPT
from pylb.show.course import Course

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]


def write(course: Course, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``iterations.csv``, ``ranks.csv``, ``decisions.csv`` and ``moves.csv`` in `folder`."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    return [_write(path / f"{name}.csv", *table) for name, table in tables(course).items()]


def tables(course: Course) -> dict[str, Table]:
    """Return each table by name: its columns and its rows."""
    most, mean, costs = course.max, course.mean, course.costs
    balanced = set(course.balanced_after)
    iterations = (
        (i, course.elapsed[i], most[i], mean[i], _ratio(most[i], mean[i]), i in balanced, costs[i])
        for i in range(course.n_iterations)
    )
    ranks = ((i, r, s) for i, row in enumerate(course.times.tolist()) for r, s in enumerate(row))
    decisions = ([_cell(f.of(r)) for f in RECEIPT] for r in course.history)
    moves = (
        (m.iteration, *row, nbytes or "")
        for m in course.moves
        for *row, nbytes in zip(*(a.tolist() for a in m[1:]), strict=True)
    )
    return {
        "iterations": (
            ("iteration", "seconds", "max", "mean", "max_over_mean", "balanced", "cost"),
            iterations,
        ),
        "ranks": (("iteration", "rank", "seconds"), ranks),
        "decisions": ([f.name for f in RECEIPT], decisions),
        "moves": (("iteration", "from", "to", "objects", "bytes"), moves),
    }


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    how = {"newline": "", "encoding": "utf-8", "errors": "backslashreplace"}
    with files.writing(path, "w", **how) as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(rows)
    return path


def _ratio(most: float, mean: float) -> float:
    return most / mean if mean > 0 else 1.0


def _cell(value: Any) -> Any:
    """Return a cell: "" if its value is not known; a ' before text that looks like a formula."""
    if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")):
        return f"'{value}"
    return "" if value is None else value
