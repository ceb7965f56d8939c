"""The report: one HTML page that needs no network and can be sent to a colleague.

For safety, texts of the run are in the page only as JSON, and the script shows them only as text.
A policy in the page permits only the page's script and style, and embedded pictures.  The constants
below limit the size of the page of a long run.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pylb import files
from pylb._version import __version__
from pylb.console import clip, digits, json_text, packed, script_json, text
from pylb.decide.figures import RECEIPT, RUN
from pylb.decide.receipts import Receipt
from pylb.errors import DomainError
from pylb.model.snapshot import F64
from pylb.show import aggregate, course, efficiency
from pylb.show.course import Course, Migrations

STATIC = Path(__file__).with_name("static")
SHARED = tuple(
    f"{name}.js"
    for name in "words heat charts picture timeline parts objects view".split()  # in this order
)
MOST_ROWS, MOST_COLUMNS = 200, 800  # largest numbers of rows and columns of the heat map
MOST_RECEIPTS = 250
MOST_FLOWS = 120  # largest number of pairs of ranks shown for one LB step
MOST_GROUPS = 24  # largest number of groups of ranks in the picture of all migrations
MOST_REGIONS = 40

POLICY = "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:"
FRAME = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="pylb {version}">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>pylb report</title>
<style>{style}</style>
</head>
<body>
<main id="report" class="pylb"><noscript>This page shows a run of a parallel program. It needs \
JavaScript, which is blocked here.</noscript></main>
<script type="application/json" id="run">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def check_used(is_page: bool, **given: Any) -> None:
    """Raise DomainError if arguments that only a page uses are given, and there is no page."""
    for name, value in given.items():
        if value is not None and not is_page:
            raise DomainError(f"{name} without a page: expected a path that ends in .html")


def write(course: Course, path: str | os.PathLike[str]) -> Path:
    """Write the page; the file appears when it is complete."""
    out = Path(path)
    files.write_text(out, html(course))
    return out


def html(course: Course) -> str:
    """Return the page as ASCII text."""
    return framed(script_json(data(course)), "page.js")


def framed(run: str, *scripts: str, also: str = "") -> str:
    """Return a page with the JSON `run` and these scripts; `also` has rules to add to `POLICY`."""
    style = static("style.css")
    script = f'"use strict";\n{static(*SHARED, "report.js", *scripts)}'
    return FRAME.format(
        version=__version__,
        policy=POLICY.format(_hash(script), _hash(style)) + also,
        style=style,
        script=script,
        data=run,
    )


def static(*names: str) -> str:
    """Return the joined text of files in the folder ``static``."""
    return "\n".join((STATIC / name).read_text(encoding="ascii") for name in names)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# ---- the data of the page -------------------------------------------------------------------


def data(course: Course) -> dict[str, Any]:
    step, moved, load = aggregate.between_groups(course.n_ranks, course.moves, MOST_GROUPS)
    by_iteration = {m.iteration: m for m in course.moves}
    most, shown = sorted(course.moves, key=lambda m: -int(m.objects.sum())), course.objects
    frames = [] if shown is None else shown.frames([m.iteration for m in most])
    regions = efficiency.regions(course)
    return {
        "title": clip(course.title),
        "verdict": clip(course.verdict),
        "when": course.when,
        "pylb": __version__,
        "facts": [[clip(k), clip(v)] for k, v in facts(course)],
        "picture": loads(course),
        "timeline": timeline(course),
        "columns": columns(),
        "decisions": [decision(r, by_iteration.get(r.iteration)) for r in _chosen(course)],
        "decisions_in_all": len(course.history),
        "groups": [[int(i), int(j), moved[i, j], 0, load[i, j]] for i, j in np.argwhere(moved)],
        "group": step,
        "regions": regions[:MOST_REGIONS],
        "regions_in_all": len(regions),
        "heaviest": [[str(key), clip(name), *more] for key, name, *more in course.heaviest],
        "objects": None if shown is None else {**shown.base(course.coords), "frames": frames},
    }


def loads(course: Course, rows: int = MOST_ROWS, columns: int = MOST_COLUMNS) -> dict[str, Any]:
    """Return the loads of ranks over iterations as at most `rows` x `columns` cells; the LB steps.

    ``cells`` are (rows, columns) uint16: the largest load of ``rank_step`` ranks in
    ``iteration_step`` iterations, where 65535 means ``top`` seconds.  ``brightest`` is the seconds
    of the brightest colour, and ``spread`` the highest ratio to the mean that has an own colour.
    ``max``, ``mean``, ``elapsed`` and ``recorded`` have a value for each column.
    """
    times, recorded = course.times, course.recorded
    m, p = times.shape
    width, height = aggregate.step(m, columns), aggregate.step(p, rows)
    cells = aggregate.largest(times, width, height).T
    top, means = float(cells.max()), aggregate.mean(times.mean(axis=1), width)
    ratios = np.divide(cells, means, out=np.ones_like(cells), where=means > 0)

    def line(values: F64) -> list[float]:
        return digits(aggregate.largest(values[None], 1, width)[0])

    return {
        "n_ranks": p,
        "n_iterations": m,
        "rank_step": height,
        "iteration_step": width,
        "rows": cells.shape[0],
        "columns": cells.shape[1],
        "top": top,
        "brightest": aggregate.brightest(cells),
        "spread": aggregate.spread(ratios),
        "cells": packed(np.rint(cells / (top or 1.0) * 65535), "<u2"),
        "max": line(times.max(axis=1)),
        "mean": digits(means),
        "elapsed": line(course.elapsed),
        "recorded": None if recorded is None else line(recorded),
        # LB steps in the same column are drawn as one: the last
        "balanced": list({i // width: i for i in course.lb_step_iterations}.values()),
    }


def timeline(course: Course, columns: int = MOST_COLUMNS) -> dict[str, Any]:
    """Return when the ranks compute and wait, in the run itself and in the run without LB steps."""
    width, names, runs = course.lanes(0, course.n_iterations, columns)
    return {"step": width, "labels": names, "runs": [run.to_dict() for run in runs]}


def facts(course: Course) -> list[tuple[str, str]]:
    """Return the rows (heading, text) of the table below the title."""
    known, out = course.figures(), []
    for f in RUN:
        value = known.get(f.name)
        if f.printed and value is not None:
            would = course.is_shadow and (f.when in ("step", "lending") or f.name == "saved")
            heading = f.heading.removeprefix("... ").replace("this rank", "rank 0")
            whole = isinstance(value, int) and f.kind == "number"
            said = f"{value:,}" if whole else text(f.cell(value))
            out.append(("would be " * would + heading, said))
    return out + [(k, str(v)) for k, v in course.facts.items()]


def _chosen(course: Course) -> list[Receipt]:
    """Return at most `MOST_RECEIPTS` decisions; LB steps of high cost or gain are preferred."""

    def weight(r: Receipt) -> tuple[bool, float]:
        return r.balanced, max(r.cost, abs(r.gain) if r.gain == r.gain else 0.0)

    shown = list(course.history)
    kept = sorted(range(len(shown)), key=lambda i: weight(shown[i]), reverse=True)[:MOST_RECEIPTS]
    return [shown[i] for i in sorted(kept)]


FIT = ("max_slope", "max_offset", "mean_slope", "mean_offset", "tau")


def columns() -> list[list[str]]:
    """Return name, heading, kind and note of each column of the list of decisions."""
    shown = [f for f in RECEIPT if f.name != "reason"]  # the explanation of a receipt contains it
    return [[f.name, f.heading, f.kind, f.note] for f in shown]


def listed(r: Receipt) -> dict[str, Any]:
    """Return the values of a receipt for its line in the list of decisions."""
    known = {f.name: f.of(r) for f in RECEIPT if f.name != "reason"}
    return {**known, "moved": r.moved, "strategy": clip(r.strategy)}


def decision(r: Receipt, moves: Migrations | None = None) -> dict[str, Any]:
    """Return all data of a decision: values, explanation, fitted lines and migrations."""
    flows: list[list[float]] = []  # from, to, objects, bytes, load of the pairs with the most load
    if moves is not None:
        order, digits = np.argsort(-moves.load, kind="stable")[:MOST_FLOWS], "{:.4g}".format
        flows = [[*(int(a[i]) for a in moves[1:5]), float(digits(moves.load[i]))] for i in order]
    return {
        **listed(r),
        "trigger": clip(r.trigger),
        "headline": clip(r.headline, 500),
        "said": clip(r.explain(), 3000),
        "fit": {name: r.figures.get(name) for name in FIT},
        "flows": flows,
        "pairs": 0 if moves is None else len(moves.source),
    }


# ---- pylb.report --------------------------------------------------------------------------------


def report(
    run: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    coords: Mapping[int, Any] | None = None,
    stem: str | None = None,
) -> Path:
    """Write a file that shows a recorded run; for a running program see `Balancer.report`.

    Parameters
    ----------
    run : RunRecord, Trace, Replay or path
    path : path
        ``.html``: one interactive page, which needs no network.  ``.json``: efficiencies of the
        whole run, and of the iterations between LB steps, in the format of TALP.
    title : str, optional
        Title of the page, or of the run.  Default: the file's name, or the kind of run.
    names : mapping from int to str, optional
        Names of objects by key.  Any text is safe, because it is shown as text.
    coords : mapping from int to 1 ... 3 floats, optional
        Coordinates of the objects by key, at which the page draws them.  Default: objects that
        communicate are drawn close to each other.
    stem : str, optional
        Selects one of several runs in a folder, see `Trace.load`.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> pylb.report("run.h5", "run.html", names={12: "core"}).name
    'run.html'
    >>> pylb.report(trace.replay("RefineLB", every=10), "refined.html").name
    'refined.html'
    """
    out = Path(files.named(path))
    if out.suffix not in (".html", ".json"):
        raise DomainError(f"path is {str(out)!r}: expected a suffix .html or .json")
    check_used(out.suffix == ".html", names=names, coords=coords)
    shown = course.of(run, title=title, names=names, coords=coords, stem=stem)
    if out.suffix == ".html":
        return write(shown, out)
    files.write_text(out, json_text(efficiency.talp(shown), indent=2) + "\n")
    return out
