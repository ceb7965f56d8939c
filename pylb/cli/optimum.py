"""``pylb optimum``: the best schedule of LB steps for a recorded run."""

from __future__ import annotations

import argparse
import json

from pylb import console
from pylb.cli import runs
from pylb.show.plain import plain

HELP = "find the best schedule of LB steps for a recorded run"
EXAMPLES = """\
  pylb optimum run/ --cost 0.05
  pylb optimum run.h5 --strategy RefineLB --json

Of all 2^(m-1) schedules of m iterations it is the best one, where it says exact; else the best one
found.  No schedule is shorter than the bound.  A program knows it only when it is over: it says how
far a trigger (pylb triggers RUN) is from what could be.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb optimum``."""
    runs.add_run(parser)
    runs.add_strategy_and_cost(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Find the schedule and show it beside the recorded run."""
    _, strategy, cost, best, recorded = runs.asked(args)
    speedup = recorded / best.time if best.time > 0 else 1.0
    above = best.time / best.bound - 1 if best.bound > 0 else 0.0
    if args.json:
        answer = {
            "run": args.run,
            "strategy": strategy.name,
            "cost": cost,
            "time": best.time,
            "bound": best.bound,
            "exact": best.exact,
            "recorded": recorded,
            "speedup": speedup,
            "balanced_after": best.iterations,
            "strategies": best.strategies,
        }
        print(json.dumps(plain(answer), indent=2, allow_nan=False))
        return 0
    rows = [
        ("strategy", strategy.name, ""),
        ("a balancing", cost, "s"),
        ("best schedule, exact" if best.exact else "best schedule found", best.time, "s"),
        ("bound of all schedules", best.bound, "s"),
        ("above the bound", f"{100 * above:.2f}%", ""),
        ("recorded", recorded, "s"),
        ("speed-up", speedup, ""),
        ("balancings", len(best.iterations), ""),
        ("after iterations", " ".join(map(str, best.iterations.tolist())), ""),
    ]
    console.show(["", "", ""], rows, title=args.run)
    return 0
