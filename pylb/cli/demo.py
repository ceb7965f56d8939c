"""``pylb demo``: run a small program that balances itself on virtual ranks, without MPI."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

from pylb import console
from pylb.cli import common
from pylb.cli.progress import progress
from pylb.io import hdf5
from pylb.model import checks
from pylb.replay.run_record import RunRecord
from pylb.run import demo
from pylb.virtual.cluster import MOST_RANKS

HELP = "run a small program that balances itself on virtual ranks, and show what it gains"
EXAMPLES = """\
  pylb demo
  pylb demo --save run.h5 --html run.html    (to look at the run: pylb report run.h5, pylb.explore)
  pylb demo --ranks 32 --objects 256 --strategy RefineLB --every 10
  pylb demo --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--ranks", type=int, default=8, help="number of virtual ranks (default: 8)")
    add("--objects", type=int, default=128, help="number of objects (default: 128)")
    add("--iterations", type=int, default=200, help="number of iterations (default: 200)")
    add("--strategy", default="auto", help="auto (default), or a name that pylb strategies lists")
    add("--every", type=int, help="iterations from one LB step to the next")
    add("--trigger", help="when to rebalance: name of a trigger (default: auto)")
    add("--save", metavar="FILE", help="write the run record (.h5)")
    add("--html", metavar="FILE", help="write the report as a page (.html)")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    checks.whole("--ranks", args.ranks, 1, "a number of ranks", below=MOST_RANKS + 1)
    common.check_output("--save", args.save, hdf5.SUFFIXES)  # before the run, which takes long
    common.check_output("--html", args.html, (".html",))
    when = {} if args.every is None else {"every": args.every}
    if args.trigger is not None:
        when["trigger"] = args.trigger
    with tempfile.TemporaryDirectory() as folder:
        save = Path(args.save) if args.save else Path(folder, "run.h5")
        size = (args.ranks, args.objects, args.iterations)
        with progress("running on virtual ranks"):
            report = demo.run(*size, save=save, report=args.html, strategy=args.strategy, **when)
        trace = RunRecord.read(save).trace
    for path in filter(None, (args.save, args.html)):
        console.note(f"wrote {path}")
    alone = trace.replay("unbalanced").time
    if args.json:
        told = {**report.to_dict(), "unbalanced_seconds": alone}
        told["max_over_mean"] = told.pop("mean_max_over_mean")
        told["balancings"] = len(report.history.balancings)
        common.print_json(args, told)
        return 0
    moved = report.iteration_seconds + report.balancing_seconds
    rows = [
        ("not balanced", alone, 1.0, None, None),
        ("balanced", moved, alone / moved, len(report.history.balancings), report.migrations),
    ]
    title = (
        f"{args.objects} objects on {args.ranks} virtual ranks, {args.iterations} iterations; the "
        "hot spot moves"
    )
    console.show(["", "virtual seconds", "speed-up", "LBs", "migrations"], rows, title=title)
    steps = report.history.balancings
    best = max(steps, key=lambda r: 0.0 if math.isnan(r.gain) else r.gain, default=None)
    if best is not None:
        said = console.fill(best.explain(), console.width_of(sys.stdout))
        print(f"\nThe LB step that gained the most time:\n{said}")
    return 0
