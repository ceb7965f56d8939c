"""``pylb demo``: a small program that balances itself on virtual ranks, without MPI."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from pylb import console
from pylb.decide.receipts import Receipt
from pylb.replay.run_record import RunRecord
from pylb.run import demo
from pylb.show.plain import plain

HELP = "run a small program that balances itself on virtual ranks, and show what that gave"
EXAMPLES = """\
  pylb demo
  pylb demo --save run.h5 --html run.html    (a run to look at: pylb report run.h5, pylb.explore)
  pylb demo --ranks 64 --objects 1024 --strategy RefineLB --every 10
  pylb demo --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb demo``."""
    parser.add_argument("--ranks", type=int, default=8, help="virtual ranks (default: 8)")
    parser.add_argument("--objects", type=int, default=128, help="default: 128")
    parser.add_argument("--iterations", type=int, default=200, help="default: 200")
    parser.add_argument("--strategy", default="auto", help="default: auto")
    parser.add_argument("--every", type=int, help="balance every so many iterations")
    parser.add_argument("--trigger", help="when to balance, by name (default: auto)")
    parser.add_argument("--save", metavar="FILE", help="write the run record, .h5")
    parser.add_argument("--html", metavar="FILE", help="write the report, a page")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run it, and compare it with what it would have been without balancing."""
    when = {} if args.every is None else {"every": args.every}
    if args.trigger is not None:
        when["trigger"] = args.trigger
    with tempfile.TemporaryDirectory() as folder:
        save = Path(args.save) if args.save else Path(folder, "run.h5")
        report = demo.run(
            args.ranks,
            args.objects,
            args.iterations,
            save=save,
            report=args.html,
            strategy=args.strategy,
            **when,
        )
        trace = RunRecord.read(save).trace
    for path in filter(None, (args.save, args.html)):
        print(f"pylb: wrote {path}", file=sys.stderr)
    alone = trace.replay("unbalanced").time
    if args.json:
        print(json.dumps(plain({**report.to_dict(), "unbalanced": alone}), indent=2))
        return 0
    moved = report.iteration_seconds + report.balancing_seconds
    rows = [
        ("left alone", alone, 1.0, None, None),
        ("balanced", moved, alone / moved, len(report.history.balancings), report.migrations),
    ]
    title = (
        f"{args.objects} objects on {args.ranks} virtual ranks, {args.iterations} iterations; a "
        "hot spot travels through them"
    )
    console.show(["", "seconds", "speed-up", "LBs", "migrations"], rows, title=title)
    best = max(report.history.balancings, key=_gain, default=None)
    if best is not None:
        print(f"\nThe balancing that saved most:\n{best.explain()}")
    return 0


def _gain(receipt: Receipt) -> float:
    return receipt.gain if receipt.gain == receipt.gain else 0.0
