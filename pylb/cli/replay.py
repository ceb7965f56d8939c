"""``pylb replay``: replay a recorded run under other placements."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.cli.own import Functions, add_import
from pylb.cli.progress import progress
from pylb.decide.sentences import OWN
from pylb.replay.replayed import BASELINES, Replay
from pylb.replay.run_record import RunRecord
from pylb.replay.trace import Trace

HELP = "replay a recorded run under other placements"
EXAMPLES = """\
  pylb replay run/
  pylb replay run.h5 --strategy RefineLB --trigger auto,boulmier --cost 0.1
  pylb replay run/ --strategy unbalanced,GreedyLB,RefineLB --every 1,5
  pylb replay run/ --trigger metabalancer --cost 0.2 --json
  pylb replay run.h5 --unbalanced            (what rebalancing has saved in this run)
  pylb replay run/ --import mine.py --strategy my_strategy --foresight

more strategies: auto chooses a strategy for each LB step and, by default, also when to rebalance;
unbalanced leaves every object on its first rank; none repeats the recorded placements and LB steps
"""

ONE_PHASE = (
    "the run has one phase, so an LB step at its end has no effect; --foresight rebalances before "
    "the phase"
)

OWN_DATA = (
    "the program itself has moved its data, and no replay can undo this: all rows have the loads "
    "of the recorded run"
)

NOTES = {
    "phases s": common.COUNTED,
    "LB s": "seconds of the LB steps, without the extra time of the first phases after them",
    "speed-up": "of (phases s + LB s), compared with the unbalanced run",
    "max/mean": "mean over the phases",
    "placed": "max/mean that the strategy predicted, mean over the LB steps",
    "LBs": "number of LB steps",
    "migrations": "how often an object changed its rank",
    "bytes": "size of what migrated",
}
COLUMNS = {
    "strategy": "strategy",
    "trigger": "balance",
    "iteration_seconds": "phases s",
    "balancing_seconds": "LB s",
    "speedup": "speed-up",
    "max_over_mean": "max/mean",
    "max_over_mean_placed": "placed",
    "balancings": "LBs",
    "migrations": "migrations",
    "bytes": "bytes",
}
DROP = ["bytes", "migrations", "placed", "LBs", "LB s"]

STRATEGIES = ["unbalanced", "auto", "GreedyLB", "RefineLB"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    add = parser.add_argument
    add(
        "--strategy",
        metavar="A,B,...",
        type=common.words,
        default=STRATEGIES,
        help="strategies of 'pylb strategies', or auto, unbalanced, none (as recorded) "
        f"(default: {','.join(STRATEGIES)})",
    )
    add_import(parser)
    add("--unbalanced", action="store_true", help="the same as --strategy none,unbalanced")
    add(
        "--every",
        metavar="N,M,...",
        type=common.counts,
        help="phases from one LB step to the next (default: 1; but with --trigger, or with "
        "strategy auto, the trigger decides)",
    )
    add("--trigger", metavar="A,B,...", type=common.words, help="triggers by name")
    add(
        "--foresight",
        action="store_true",
        help="rebalance before each phase with the loads of this phase: a perfect prediction",
    )
    add(
        "--cost",
        type=float,
        help="seconds of each LB step (default: as measured, if the recorded run did the same LB "
        "step; else from the cost model)",
    )
    add("--alpha", type=float, default=0.0, help="seconds per message (default: 0)")
    add("--beta", type=float, default=0.0, help="seconds per byte (default: 0)")
    add("--seed", type=int, default=0, help="seed for strategies that draw random numbers")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    names = list(BASELINES) if args.unbalanced else args.strategy
    functions = Functions(args.imports, names, args.trigger or [])
    found = common.read(args)
    trace = common.trace_of(found)
    if isinstance(found, RunRecord) and any(r.strategy == OWN for r in found.history):
        console.note(OWN_DATA)
    if trace.n_phases == 1 and not args.foresight:
        console.note(ONE_PHASE)
    options = {name: getattr(args, name) for name in ("alpha", "beta", "cost", "foresight", "seed")}
    rows = list(_rows(trace, names, functions, args, options))
    if args.json:
        head = {
            "run": args.run,
            "n_ranks": trace.n_ranks,
            "iterations": trace.n_phases,
            "n_objects": trace.n_entities,
            "options": options,
        }
        common.print_json(args, head | {"rows": rows})
    else:
        size = (console.count(trace.n_phases, "phase"), console.count(trace.n_ranks, "rank"))
        title = f"{args.run}: {' on '.join(size)}"
        cells = [[_cell(k, row[k]) for k in COLUMNS] for row in rows]
        columns = list(COLUMNS.values())
        console.show(columns, cells, title=title, drop_empty=True, drop=DROP, notes=NOTES)
    return 0


def _rows(
    trace: Trace,
    names: list[str],
    functions: Functions,
    args: argparse.Namespace,
    options: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    with progress("replaying") as say:
        unbalanced = trace.replay("unbalanced", **options)
        for name in names:
            say(f"with {name}")
            for when in _when_args(args, name, functions):
                row = _row(trace.replay(functions.strategy(name), **when, **options), unbalanced)
                known = trace.task_bytes is not None and trace.task_bytes.any()
                yield row if known else {**row, "bytes": None}


def _row(replay: Replay, unbalanced: Replay) -> dict[str, Any]:
    return {
        "strategy": replay.strategy,
        "trigger": replay.trigger or None,
        "seconds": replay.time,
        "iteration_seconds": replay.iteration_seconds,
        "balancing_seconds": replay.balancing_seconds,
        "speedup": replay.speedup_over(unbalanced),
        "max_over_mean": _mean(replay.metrics["max_over_mean"]),
        "max_over_mean_placed": _mean([d.predicted for d in replay.balancings]),
        "balancings": len(replay.balancings),
        "migrations": replay.migrations,
        "bytes": replay.bytes,
    }


def _cell(name: str, value: Any) -> Any:
    if name == "strategy":
        return "as recorded" if value == "none" else value
    return console.size(value) if name == "bytes" and value is not None else value


def _mean(values: Any) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None


def _when_args(args: argparse.Namespace, name: str, functions: Functions) -> list[dict[str, Any]]:
    """Return the argument `every` or `trigger` for each replay of a strategy; {}: neither."""
    if name in BASELINES or (name == "auto" and not (args.every or args.trigger)):
        return [{}]
    every = args.every or ([] if args.trigger else [1])
    return [{"every": n} for n in every] + [
        {"trigger": functions.trigger(one)} for one in args.trigger or []
    ]
