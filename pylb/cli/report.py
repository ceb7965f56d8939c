"""``pylb report``: show a run as a page, efficiencies, tables or a timeline."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pylb import console, files
from pylb.cli import common
from pylb.cli.own import Functions, add_import
from pylb.errors import DomainError
from pylb.show import course, efficiency, page, tables, timeline

HELP = "show a recorded run: an interactive page, efficiencies, tables, a timeline"
EXAMPLES = """\
  pylb report run.h5                         (writes run.html)
  pylb report run.h5 --html page.html --title 'Monday, 64 nodes'
  pylb report run/ --strategy RefineLB --every 10 --html refined.html
  pylb report run.h5 --json                  (efficiencies of the run, in the format of TALP)
  pylb report run.h5 --csv tables/ --chrome run.json    (run.json opens in ui.perfetto.dev)

A truncated run record is shown up to its last complete iteration.
"""

NOTES = {
    "region": "Global is the whole run, including the time between iterations",
    "parallel efficiency": "mean useful (computing) time / elapsed time = load balance * "
    "communication",
    "load balance": "mean / maximum of the ranks' useful times",
    "communication": "maximum useful time / elapsed time",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    add = parser.add_argument
    add("--html", metavar="FILE", help="write the page (if nothing else is written: RUN.html)")
    add("--csv", metavar="FOLDER", help="write tables of comma-separated values")
    add("--chrome", metavar="FILE", help="write a Chrome trace, for Perfetto")
    common.add_json(parser, "print the efficiencies in the JSON format of TALP")
    add("--title", help="title of the page (default: the file's name)")
    names = 'names of the objects, a JSON file: {"KEY": "name", ...}'
    add("--names", metavar="FILE", help=names)
    coords = 'positions of the objects for drawing them, a JSON file: {"KEY": [x, y, z], ...}'
    add("--coords", metavar="FILE", help=coords)
    add("--strategy", help="replay the run with this strategy, and show the replay")
    add_import(parser)
    add("--every", type=int, help="in the replay: iterations from one LB step to the next")
    add("--trigger", help="in the replay: name of the trigger (default: auto)")


def run(args: argparse.Namespace) -> int:
    common.check_targets(args.run, args.html, args.chrome)
    common.check_output("--html", args.html, (".html",))
    is_page = args.html is not None or not (args.csv or args.chrome or args.json)
    page.check_used(is_page, **{"--names": args.names, "--coords": args.coords})
    found: Any = _replayed(args) if args.strategy else _recorded(args)
    title = args.title or Path(args.run).resolve().name
    shown = course.of(found, title=title, names=_names(args.names), coords=_coords(args.coords))
    written = [] if args.csv is None else tables.write(shown, args.csv)
    if args.chrome is not None:
        written.append(timeline.write(shown, args.chrome))
    if is_page:
        written.append(page.write(shown, args.html or f"{Path(args.run).resolve().stem}.html"))
    for path in written:
        console.note(f"wrote {path}")
    if args.json:
        print(console.json_text(efficiency.talp(shown), indent=2))  # the keys are TALP's
    else:
        _show(efficiency.regions(shown))
    return 0


def _recorded(args: argparse.Namespace) -> Any:
    for name in ("every", "trigger", "imports"):
        if getattr(args, name):
            word = "import" if name == "imports" else name
            raise DomainError(f"--{word} without --strategy: expected both or neither")
    return common.read(args)


def _replayed(args: argparse.Namespace) -> Any:
    names = [args.trigger] if args.trigger else []
    functions = Functions(args.imports, [args.strategy], names)
    when: dict[str, Any] = {} if args.every is None else {"every": args.every}
    if args.trigger:
        when["trigger"] = functions.trigger(args.trigger)
    return common.trace_of(common.read(args)).replay(functions.strategy(args.strategy), **when)


def _names(path: str | None) -> dict[int, str]:
    if path is None:
        return {}
    with files.understood(path, "a JSON object of names by key"):
        return {int(k): str(v) for k, v in files.json_of(path).items()}


def _coords(path: str | None) -> dict[int, Any] | None:
    if path is None:
        return None
    with files.understood(path, "a JSON object of coordinates by key"):
        return {int(k): v for k, v in files.json_of(path).items()}


def _show(regions: list[efficiency.Region]) -> None:
    columns = ["region", "seconds", "parallel efficiency", "load balance", "communication"]
    rows = [
        (r.name, r.elapsed, r.parallel_efficiency, r.load_balance, r.communication_efficiency)
        for r in regions
    ]
    console.show(columns, rows, drop=columns[:2:-1], notes=NOTES)
