"""The report: one HTML page that needs no network and can be sent to a colleague.

For safety, texts of the run are in the page only as JSON, and the script shows them only as text.
A policy in the page permits only the page's script and style, and embedded pictures.  The constants
below limit the size of the page of a long run.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from pylb import files
from pylb._version import __version__
from pylb.console import clip, script_json, seconds, size
from pylb.decide.receipts import Receipt
from pylb.errors import DomainError
from pylb.show import aggregate, efficiency
from pylb.show.course import Course, Migrations
from pylb.show.objects import ObjectPicture

STATIC = Path(__file__).with_name("static")
SHARED = ("words.js", "heat.js", "charts.js", "picture.js", "parts.js", "objects.js", "view.js")
MOST_ROWS, MOST_COLUMNS = 200, 800  # largest numbers of rows and columns of the heat map
MOST_RECEIPTS = 250
MOST_FLOWS = 40  # largest number of pairs of ranks shown for one LB step
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
<main id="report"><noscript>This page shows a run of a parallel program. It needs JavaScript, \
which is blocked here.</noscript></main>
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
    """Return a page with the JSON `run` and these scripts; also: rules to add to `POLICY`."""
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
    shown = _chosen(course)
    step, moved = aggregate.between_groups(course.n_ranks, course.moves, MOST_GROUPS)
    by_iteration = {m.iteration: m for m in course.moves}
    regions = efficiency.regions(course)
    return {
        "title": clip(course.title),
        "pylb": __version__,
        "facts": [[clip(k), clip(v)] for k, v in facts(course)],
        "picture": coded(loads(course)),
        "decisions": [decision(r, by_iteration.get(r.iteration)) for r in shown],
        "decisions_in_all": len(course.history),
        "groups": {"step": step, "n": len(moved), "objects": moved.tolist()},
        "regions": [r._asdict() for r in regions[:MOST_REGIONS]],
        "regions_in_all": len(regions),
        "heaviest": [[str(h.key), clip(h.name), *h[2:]] for h in course.heaviest],
        "objects": objects(course),
    }


def objects(course: Course) -> dict[str, Any] | None:
    """Return data about the objects in some iterations, mainly before and after LB steps."""
    if course.objects is None:
        return None
    picture = ObjectPicture(course.objects, course.coords)
    most = sorted(course.moves, key=lambda m: -int(m.objects.sum()))
    frames = picture.frames([m.iteration for m in most])
    return coded({**picture.base(), "frames": [coded(frame) for frame in frames]})


def coded(values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with bytes in base64, for JSON."""
    return {
        k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in values.items()
    }


def loads(course: Course) -> dict[str, Any]:
    """Return the ranks' loads with as many points as a screen can show, and the LB steps."""
    picture = aggregate.picture(
        course.times,
        course.elapsed,
        MOST_ROWS,
        MOST_COLUMNS,
        saved=course.saved,
        recorded=course.recorded,
    )
    width = picture["iteration_step"]  # LB steps in the same column are drawn as one: the last
    picture["balanced"] = list({i // width: i for i in course.balanced_after}.values())
    return picture


def facts(course: Course) -> list[tuple[str, Any]]:
    """Return the rows (name, value) of the table below the title."""
    whole = efficiency.regions(course)[0]
    # Prefer the receipts: their bytes include the messages that migrated with their objects, and
    # they count objects that moved before their first iteration, or after the last one of the run.
    objects = sum(r.migrations for r in course.balancings)
    objects = objects or sum(int(m.objects.sum()) for m in course.moves)
    nbytes = sum(r.bytes for r in course.balancings)
    nbytes = nbytes or sum(int(m.bytes.sum()) for m in course.moves)
    out: list[tuple[str, Any]] = [
        ("ranks", f"{course.n_ranks:,}"),
        ("objects", f"{course.n_objects:,}"),
        ("iterations", f"{course.n_iterations:,}"),
        ("strategy", course.strategy),
        ("time", seconds(course.seconds)),
        ("time spent rebalancing", seconds(float(course.step_seconds.sum()))),
        ("max/mean", f"{1 / whole.of_iterations:.3f}" if whole.of_iterations > 0 else ""),
        *([("saved by LB steps", course.saving)] if course.saving else []),
        ("LB steps", f"{len(course.balancings):,}"),
        ("migrations", f"{objects:,}" + (f" ({size(nbytes)})" if nbytes else "")),
    ]
    known = {name for name, _ in out}
    return out + [(k, v) for k, v in course.facts.items() if k not in known]


def _chosen(course: Course) -> list[Receipt]:
    """Return at most `MOST_RECEIPTS` decisions; LB steps of high cost or gain are preferred."""
    history = list(course.history)
    if len(history) <= MOST_RECEIPTS:
        return history

    def weight(r: Receipt) -> tuple[bool, float]:
        return r.balanced, max(r.cost, abs(r.gain) if r.gain == r.gain else 0.0)

    kept = sorted(history, key=weight, reverse=True)[:MOST_RECEIPTS]
    return sorted(kept, key=lambda r: r.iteration)


FIT = ("max_slope", "max_offset", "mean_slope", "mean_offset", "tau")


def listed(r: Receipt) -> dict[str, Any]:
    """Return the values of a receipt for its line in the list of decisions."""
    return {
        "iteration": r.iteration,
        "until": r.until,
        "choice": r.choice,
        "moved": r.moved,
        "strategy": clip(r.strategy),
        "ratio": r.max_over_mean if r.max == r.max else None,
        "before": r.before,
        "predicted": r.predicted,
        "realised": r.realised,
        "migrations": r.migrations,
        "bytes": r.bytes,
        "cost": r.cost,
        "gain": r.gain,
    }


def decision(r: Receipt, moves: Migrations | None = None) -> dict[str, Any]:
    """Return all data of a decision: values, explanation, fitted lines and migrations."""
    return {
        **listed(r),
        "trigger": clip(r.trigger),
        "said": clip(r.explain(), 3000),
        "fit": {name: r.figures.get(name) for name in FIT},
        "flows": [] if moves is None else flows(moves),
    }


def flows(moves: Migrations) -> list[list[int]]:
    """Return (from, to, objects, bytes) for the pairs of ranks with the most migrations."""
    order = np.argsort(-moves.objects, kind="stable")[:MOST_FLOWS]
    return [[int(a[i]) for a in moves[1:]] for i in order]
