"""``pylb triggers``: the table of triggers, or all of them on a recorded run."""

from __future__ import annotations

import argparse
import json
from typing import Any

from pylb import console
from pylb.cli import runs
from pylb.decide.trigger import triggers
from pylb.replay.optima import Optimum
from pylb.replay.trace import Trace
from pylb.show.plain import plain

HELP = "list the triggers, or compare them on a recorded run with the best schedule found"
EXAMPLES = """\
  pylb triggers
  pylb triggers run/ --strategy GreedyLB --cost 0.05
  pylb triggers run.h5 --trigger auto,boulmier,metabalancer --json

columns: seconds of the whole run, how much longer than under the best schedule found (regret),
speed-up over the recorded placement, balancings
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb triggers``."""
    runs.add_run(parser, optional=True)
    parser.add_argument(
        "--trigger", metavar="A,B,...", type=runs.words, help="only these (default: all)"
    )
    runs.add_strategy_and_cost(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Show the table, or replay the run under each trigger."""
    if args.run is None:
        return _list(args.json)
    trace, strategy, cost, best, recorded = runs.asked(args)
    names = args.trigger or sorted(triggers())
    rows = [_row(trace, strategy, name, cost, best, recorded) for name in names]
    rows.sort(key=lambda row: row["time"])
    if args.json:
        head = {
            "run": args.run,
            "strategy": strategy.name,
            "cost": cost,
            "optimum": best.time,
            "bound": best.bound,
            "exact": best.exact,
            "recorded": recorded,
        }
        print(json.dumps(plain(head | {"rows": rows}), indent=2, allow_nan=False))
    else:
        title = (
            f"{args.run}: {strategy.name}, {cost:.4g} s a balancing; best schedule "
            f"{'' if best.exact else 'found '}{best.time:.4g} s with {len(best.iterations)} "
            f"balancings, bound {best.bound:.4g} s, recorded {recorded:.4g} s"
        )
        cells = [
            [r["trigger"], r["time"], f"{100 * r['regret']:.2f}%", r["speedup"], r["balancings"]]
            for r in rows
        ]
        console.show(["trigger", "seconds", "regret", "speed-up", "LBs"], cells, title=title)
    return 0


def _row(
    trace: Trace, strategy: Any, name: str, cost: float, best: Optimum, recorded: float
) -> dict[str, Any]:
    replay = trace.replay(strategy, trigger=name, cost=cost)
    return {
        "trigger": name,
        "time": replay.time,
        "regret": replay.regret(best),
        "speedup": recorded / replay.time if replay.time > 0 else 1.0,
        "balancings": len(replay.balanced_after),
        "balanced_after": replay.balanced_after,
    }


def _list(as_json: bool) -> int:
    kinds = list(triggers().values())
    if as_json:
        rows = [
            {
                "name": kind.name,
                "help": kind.help,
                "source": kind.source,
                "params": [param._asdict() for param in kind.params],
            }
            for kind in kinds
        ]
        print(json.dumps(plain({"triggers": rows}), indent=2, allow_nan=False))
    else:
        console.show(["trigger", "when", "source"], [(k.name, k.help, k.source) for k in kinds])
    return 0
