"""``pylb triggers``: list the triggers, or compare them on a recorded run."""

from __future__ import annotations

import argparse
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.cli.own import Functions
from pylb.cli.progress import progress
from pylb.decide.trigger import triggers
from pylb.errors import DomainError

HELP = "list the triggers, or compare them with the best schedule found for a recorded run"
EXAMPLES = """\
  pylb triggers
  pylb triggers run/ --strategy GreedyLB --cost 0.05
  pylb triggers run.h5 --trigger auto,boulmier,metabalancer --json
"""

NOTES = {
    "seconds": f"{common.COUNTED}; plus the time of the LB steps",
    "regret": "how much longer than with the best schedule found",
    "speed-up": "over the recorded run",
    "LBs": "number of LB steps",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser, optional=True)
    only = "only these triggers (default: all)"
    parser.add_argument("--trigger", metavar="A,B,...", type=common.words, help=only)
    common.add_strategy_and_cost(parser)
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    names = args.trigger or list(triggers())
    functions = Functions(args.imports, [args.strategy], names)
    if args.run is None:
        if args.cost is not None or args.strategy != common.DEFAULT_STRATEGY:
            raise DomainError("there is no RUN: expected --strategy and --cost only with a run")
        return _list(args, names)
    found = common.Schedule.of(args, functions)
    with progress("replaying with each trigger"):
        rows = [_row(found, name, functions.trigger(name)) for name in sorted(names)]
    rows.sort(key=lambda row: row["seconds"])
    best = found.best
    if args.json:
        common.print_json(
            args, {**found.to_dict(args.run), "optimum_seconds": best.time, "rows": rows}
        )
    else:
        title = (
            f"{args.run}: {found.name}, {found.cost:.4g} s per LB step; best schedule "
            f"{'' if best.exact else 'found '}{best.time:.4g} s with "
            f"{console.count(len(best.iterations), 'LB step')}, bound {best.bound:.4g} s, "
            f"recorded {found.recorded:.4g} s"
        )
        cells = [
            [
                r["trigger"],
                r["seconds"],
                f"{100 * r['regret']:.2f} %",
                r["speedup"],
                r["balancings"],
            ]
            for r in rows
        ]
        columns = ["trigger", "seconds", "regret", "speed-up", "LBs"]
        console.show(columns, cells, title=title, drop=["LBs", "speed-up"], notes=NOTES)
    return 0


def _row(found: common.Schedule, name: str, trigger: Any) -> dict[str, Any]:
    replay = found.trace.replay(found.strategy, trigger=trigger, cost=found.cost)
    return {
        "trigger": name,
        "seconds": replay.time,
        "regret": replay.regret(found.best),
        "speedup": found.speedup(replay.time),
        "balancings": len(replay.balanced_after),
        "balanced_after": replay.balanced_after,
    }


def _list(args: argparse.Namespace, names: list[str]) -> int:
    kinds = [triggers()[name] for name in names if name in triggers()]
    if args.json:
        rows = [
            {
                **{name: getattr(kind, name) for name in ("name", "help", "source")},
                "params": [param._asdict() for param in kind.params],
            }
            for kind in kinds
        ]
        common.print_json(args, {"triggers": rows})
    else:
        cells = [(k.name, k.help, k.source) for k in kinds]
        console.show(["trigger", "when it rebalances", "source"], cells, drop=["source"])
    return 0
