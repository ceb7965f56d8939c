"""``pylb triggers``: the table of triggers, or all of them on a recorded run."""

from __future__ import annotations

import argparse
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.decide.trigger import triggers

HELP = "list the triggers, or compare them on a recorded run with the best schedule found"
EXAMPLES = """\
  pylb triggers
  pylb triggers run/ --strategy GreedyLB --cost 0.05
  pylb triggers run.h5 --trigger auto,boulmier,metabalancer --json

columns: seconds of the whole run, how much longer that is than the best schedule found (regret),
speed-up over the recorded placement, number of LB steps
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    common.add_run(parser, optional=True)
    only = "only these (default: all)"
    parser.add_argument("--trigger", metavar="A,B,...", type=common.words, help=only)
    common.add_strategy_and_cost(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List the triggers, or replay the run under each of them."""
    if args.run is None:
        return _list(args.json)
    found = common.Schedule.of(args)
    rows = [_row(found, name) for name in args.trigger or sorted(triggers())]
    rows.sort(key=lambda row: row["time"])
    best = found.best
    if args.json:
        common.print_json({**found.to_dict(args.run), "optimum": best.time, "rows": rows})
    else:
        title = (
            f"{args.run}: {found.strategy.name}, {found.cost:.4g} s per LB step; best schedule "
            f"{'' if best.exact else 'found '}{best.time:.4g} s with {len(best.iterations)} LB "
            f"steps, bound {best.bound:.4g} s, recorded {found.recorded:.4g} s"
        )
        cells = [
            [r["trigger"], r["time"], f"{100 * r['regret']:.2f}%", r["speedup"], r["balancings"]]
            for r in rows
        ]
        console.show(["trigger", "seconds", "regret", "speed-up", "LBs"], cells, title=title)
    return 0


def _row(found: common.Schedule, name: str) -> dict[str, Any]:
    replay = found.trace.replay(found.strategy, trigger=name, cost=found.cost)
    return {
        "trigger": name,
        "time": replay.time,
        "regret": replay.regret(found.best),
        "speedup": found.speedup(replay.time),
        "balancings": len(replay.balanced_after),
        "balanced_after": replay.balanced_after,
    }


def _list(as_json: bool) -> int:
    kinds = list(triggers().values())
    if as_json:
        rows = [
            {
                **{name: getattr(kind, name) for name in ("name", "help", "source")},
                "params": [param._asdict() for param in kind.params],
            }
            for kind in kinds
        ]
        common.print_json({"triggers": rows})
    else:
        console.show(["trigger", "when", "source"], [(k.name, k.help, k.source) for k in kinds])
    return 0
