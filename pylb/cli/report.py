"""``pylb report``: a run as one page, as figures, as tables, as a timeline."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pylb import console
from pylb.cli import runs
from pylb.errors import DomainError
from pylb.show import course, efficiency, page, tables, timeline
from pylb.show.plain import plain

HELP = "show a recorded run: a page to look around in, efficiencies, tables, a timeline"
EXAMPLES = """\
  pylb report run.h5                         (writes run.html)
  pylb report run.h5 --html page.html --title 'Monday, 64 nodes'
  pylb report run/ --strategy RefineLB --every 10 --html refined.html
  pylb report run.h5 --json                  (TALP's: efficiencies of the run and its regions)
  pylb report run.h5 --csv tables/ --chrome run.json    (run.json opens in ui.perfetto.dev)

A run file that was cut short is shown up to its last complete iteration.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb report``."""
    runs.add_run(parser)
    parser.add_argument("--html", metavar="FILE", help="the page (default: beside the run)")
    parser.add_argument("--csv", metavar="FOLDER", help="tables of comma-separated values")
    parser.add_argument("--chrome", metavar="FILE", help="a Chrome trace, for Perfetto")
    parser.add_argument("--json", action="store_true", help="print efficiencies, as TALP's JSON")
    parser.add_argument("--title", help="of the page (default: the file's name)")
    parser.add_argument("--names", metavar="FILE", help='JSON: {"KEY": "name of the object", ...}')
    parser.add_argument("--strategy", help="show the run replayed with this strategy")
    parser.add_argument("--every", type=int, help="of the replay: balance every so many iterations")
    parser.add_argument("--trigger", help="of the replay: by name (default: auto)")


def run(args: argparse.Namespace) -> int:
    """Write what was asked for; efficiencies go to standard output."""
    found: Any = runs.read(args.run, args.stem)
    if args.strategy:
        when = {"every": args.every} if args.every else {"trigger": args.trigger or "auto"}
        strategy = runs.strategy(args.strategy)
        found = runs.trace_of(found).replay(strategy, **({} if strategy.name == "none" else when))
    title = args.title or Path(args.run).resolve().name
    shown = course.of(found, title=title, names=_names(args.names))
    written = [] if args.csv is None else tables.write(shown, args.csv)
    if args.chrome is not None:
        written.append(timeline.write(shown, args.chrome))
    if args.html is not None or not (written or args.json):
        written.append(page.write(shown, args.html or f"{_stem(args.run)}.html"))
    for path in written:
        print(f"pylb: wrote {path}", file=sys.stderr)
    if args.json:
        print(json.dumps(plain(efficiency.talp(shown)), indent=2, allow_nan=False))
    else:
        _show(efficiency.regions(shown))
    return 0


def _stem(run: str) -> str:
    """Where the page goes by default: into the present folder, under the run's name."""
    return Path(run).resolve().stem


def _names(path: str | None) -> dict[int, str]:
    if path is None:
        return {}
    try:
        return {int(k): str(v) for k, v in json.loads(Path(path).read_text("utf-8")).items()}
    except (ValueError, AttributeError) as why:
        raise DomainError(f"{path}: expected a JSON object of names by key; {why}") from None


def _show(regions: list[efficiency.Region]) -> None:
    columns = ["region", "seconds", "parallel efficiency", "load balance", "communication"]
    rows = [
        (r.name, r.elapsed, r.parallel_efficiency, r.load_balance, r.communication_efficiency)
        for r in regions
    ]
    console.show(columns, rows)
