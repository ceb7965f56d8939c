"""Write a run as tables of comma-separated values, and as a Chrome trace for Perfetto."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pylb import files
from pylb.console import clip, json_text
from pylb.decide.figures import RECEIPT
from pylb.show.course import Course


def write_tables(course: Course, folder: str | os.PathLike[str]) -> list[Path]:
    """Write ``iterations.csv``, ``ranks.csv``, ``decisions.csv`` and ``moves.csv`` in `folder`."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    m, done = course.n_iterations, set(course.lb_step_iterations)
    lines = (course.elapsed, course.max, course.mean, course.max_over_mean)
    balanced, costs = (i in done for i in range(m)), course.after_each("cost")
    iterations = zip(range(m), *lines, balanced, costs, strict=True)
    ranks = ((i, r, s) for i, row in enumerate(course.times.tolist()) for r, s in enumerate(row))
    decisions = ([_cell(f.of(r)) for f in RECEIPT] for r in course.history)
    moves = (
        (m.iteration, *row, nbytes or "")
        for m in course.moves
        for *row, nbytes in zip(*(a.tolist() for a in m[1:5]), strict=True)
    )
    tables: dict[str, tuple[str, Iterable[Any]]] = {
        "iterations": ("iteration seconds max mean max_over_mean balanced cost", iterations),
        "ranks": ("iteration rank seconds", ranks),
        "decisions": (" ".join(f.name for f in RECEIPT), decisions),
        "moves": ("iteration from to objects bytes", moves),
    }
    how = {"newline": "", "encoding": "utf-8", "errors": "backslashreplace"}
    for name, (headings, rows) in tables.items():
        with files.writing(path / f"{name}.csv", "w", **how) as file:
            csv.writer(file).writerows(itertools.chain([headings.split()], rows))
    return [path / f"{name}.csv" for name in tables]


def _cell(value: Any) -> Any:
    """Return a cell: "" for an unknown value; text that looks like a formula gets a ' in front."""
    if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")):
        return f"'{value}"
    return "" if value is None else value


# ---- Chrome trace -------------------------------------------------------------------------------

# Process ids.  The ranks are threads of one process, which Perfetto can collapse.
RANKS, FIGURES = 1, 2
EIGHTH = 0.125  # microseconds; floating-point numbers represent its multiples exactly


def write_timeline(course: Course, path: str | os.PathLike[str]) -> Path:
    """Write the trace, one event at a time to save memory."""
    out = Path(path)
    with files.writing(out, "w", encoding="ascii") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        for i, event in enumerate(events(course)):
            file.write(f"{',' if i else ''}{json_text(event)}\n")
        file.write("]}\n")
    return out


def events(course: Course) -> Iterator[dict[str, Any]]:
    """Yield the events: when ranks compute and wait, LB steps, decisions, migrations, figures.

    An iteration begins on all ranks at the same time, after the previous one and its LB step.
    Times are in microseconds, as the format requires.  They are rounded to multiples of 1/8,
    because Perfetto drops a slice that begins even slightly before the previous one ends.
    """
    yield _name("process_name", RANKS, _thread(0), clip(f"pylb: {course.title}"))
    yield _name("process_name", FIGURES, _thread(0), "figures")
    for r in range(course.n_ranks):
        yield _name("thread_name", RANKS, _thread(r), f"rank {r}")
        sort = {"name": "thread_sort_index", "ph": "M", "pid": RANKS, "tid": _thread(r)}
        yield {**sort, "args": {"sort_index": r}}
    begin = 1e6 * begins(course)
    end = begin[:-1] + 1e6 * course.elapsed  # when iterations end, and their LB steps begin
    counter = {"ph": "C", "pid": FIGURES}
    for i, row in enumerate((1e6 * course.times).tolist()):
        args = {"max/mean": float(course.max_over_mean[i])}
        yield {"name": "max/mean", **counter, "ts": _to_eighths(begin[i]), "args": args}
        for r, micros in enumerate(row):
            if micros > 0:
                yield _slice("compute", r, begin[i], begin[i] + micros, {"iteration": i})
            if end[i] > begin[i] + micros:
                yield _slice("wait", r, begin[i] + micros, end[i], {"iteration": i})
    for i, saved in enumerate([] if course.saved is None else course.saved.tolist()):
        at = _to_eighths(begin[i + 1])
        yield {"name": "saved", **counter, "ts": at, "args": {"seconds": saved}}
    ends = np.append(end, 0.0)  # the last one: of LB steps before iteration 0, which have -1
    yield from _lb_steps(course, ends)
    yield from _migrations(course, begin, ends)


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _thread(rank: int) -> int:
    """Return the thread number of a rank, 1 or more: for some programs, 0 is the idle thread."""
    return rank + 1


def _to_eighths(micros: float) -> float:
    return round(micros / EIGHTH) * EIGHTH


def _slice(name: str, rank: int, begin: float, end: float, args: dict[str, Any]) -> dict[str, Any]:
    first = _to_eighths(begin)
    where = {"pid": RANKS, "tid": _thread(rank), "ts": first, "dur": _to_eighths(end) - first}
    return {"name": name, "ph": "X", **where, "args": args}


def begins(course: Course) -> Any:
    """Return when each iteration begins, and when the run ends: (m + 1,) seconds."""
    early = sum(r.step_seconds for r in course.lb_steps if r.iteration < 0)
    steps = course.step_seconds.copy()
    if len(steps):
        steps[0] -= early  # steps[0] includes LB steps before the first iteration
    return early + np.concatenate([[0.0], np.cumsum(course.elapsed + steps)])


def _lb_steps(course: Course, ends: Any) -> Iterator[dict[str, Any]]:
    for r in course.history:
        at = float(ends[min(r.iteration, course.n_iterations - 1)])
        args = {"why": clip(r.explain(), 2000)}
        if r.balanced and r.moved:
            name = clip(f"balance: {r.strategy}")
            for rank in range(course.n_ranks):
                end = at + 1e6 * r.step_seconds
                moves = end - 1e6 * min(max(0.0, r.seconds_migration), r.step_seconds)
                yield _slice(name, rank, at, moves, {} if rank else args)
                if moves < end:
                    yield _slice("move objects", rank, moves, end, {})
        else:
            where = {"s": "g", "pid": RANKS, "tid": _thread(0), "ts": _to_eighths(at)}
            yield {"name": r.choice, "ph": "i", **where, "args": args}


def _migrations(course: Course, begin: Any, ends: Any) -> Iterator[dict[str, Any]]:
    """Yield arrows from old to new ranks, each from the beginning of the LB step to its end."""
    flows = itertools.count(1)
    for moves in course.moves:
        start = _to_eighths(float(ends[min(moves.iteration, course.n_iterations - 1)]))
        end = _to_eighths(float(begin[min(moves.iteration + 1, course.n_iterations)])) - EIGHTH
        for source, target, objects, nbytes in zip(*(a.tolist() for a in moves[1:5]), strict=True):
            common = {"name": "migration", "cat": "migration", "id": next(flows), "pid": RANKS}
            common["args"] = {"objects": objects} | ({"bytes": nbytes} if nbytes else {})
            yield {**common, "ph": "s", "tid": _thread(source), "ts": start}
            yield {**common, "ph": "f", "bp": "e", "tid": _thread(target), "ts": max(start, end)}
