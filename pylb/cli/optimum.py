"""``pylb optimum``: find the best schedule of LB steps for a recorded run."""

from __future__ import annotations

import argparse
import sys

from pylb import console
from pylb.cli import common
from pylb.cli.own import Functions

HELP = "find the best schedule of LB steps for a recorded run"
EXAMPLES = """\
  pylb optimum run/ --cost 0.05
  pylb optimum run.h5 --strategy RefineLB --json

"exact" means the best of all 2^(m-1) schedules for m iterations; "found" means the best schedule
that the search found.  No schedule takes less time than the bound.  A trigger cannot know the best
schedule in advance; pylb triggers RUN shows how much time each trigger loses.
"""

COUNTED = f"seconds: {common.COUNTED}; plus the time of the LB steps"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    common.add_strategy_and_cost(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = common.Schedule.of(args, Functions(args.imports, [args.strategy]))
    best, speedup = found.best, found.speedup(found.best.time)
    above = best.time / best.bound - 1 if best.bound > 0 else 0.0
    if args.json:
        answer = {
            **found.to_dict(args.run),
            "seconds": best.time,
            "speedup": speedup,
            "balanced_after": best.iterations,
            "balanced_by": best.strategies,
        }
        common.print_json(args, answer)
        return 0
    rows = [
        ("strategy", found.name, ""),
        ("cost of an LB step", found.cost, "s"),
        ("best schedule, exact" if best.exact else "best schedule, found", best.time, "s"),
        ("bound of all schedules", best.bound, "s"),
        ("above the bound", f"{100 * above:.2f} %", ""),
        ("as recorded", found.recorded, "s"),
        ("speed-up", speedup, ""),
        ("LB steps", len(best.iterations), ""),
        ("after iterations", " ".join(map(str, best.iterations.tolist())), ""),
    ]
    console.show(["", "", ""], rows, title=args.run)
    print(console.fill(COUNTED, console.width_of(sys.stdout)))
    return 0
