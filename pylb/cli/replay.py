"""``pylb replay``: a recorded run under other placements."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

from pylb import console
from pylb.cli import runs
from pylb.place.registry import Strategy
from pylb.replay.replayed import BASELINES, Replay
from pylb.replay.trace import Trace

HELP = "replay a recorded run under other placements"
EXAMPLES = """\
  pylb replay run/
  pylb replay run.h5 --strategy RefineLB --trigger auto,boulmier --cost 0.1
  pylb replay run/ --strategy unbalanced,GreedyLB,RefineLB --every 1,5
  pylb replay run/ --trigger metabalancer --cost 0.2 --json
  pylb replay run/ --strategy mine.py:my_strategy --foresight

strategies are also auto, which chooses for each balancing, and by default when; unbalanced, every
object where it began; none, every object where it was recorded, with the run's own balancings

columns: seconds of the phases and of the balancings (LB), speed-up of both together over the
unbalanced run, mean max/mean of the phases, mean max/mean that the strategy reached on the
loads it saw (placed), balancings, objects and bytes moved
"""

ONE_PHASE = (
    "pylb: the run has one phase, and a balancing at its end has nothing to act on; --foresight "
    "shows what a placement for its own loads gives"
)

WORDS = ("auto", *BASELINES)
COLUMNS = {
    "strategy": "strategy",
    "trigger": "balance",
    "iteration_seconds": "phases s",
    "balancing_seconds": "LB s",
    "speedup": "speed-up",
    "max_over_mean": "max/mean",
    "max_over_mean_placed": "placed",
    "balancings": "LBs",
    "migrations": "moves",
    "bytes": "bytes",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb replay``."""
    runs.add_run(parser)
    parser.add_argument(
        "--strategy",
        default="unbalanced,auto,GreedyLB,RefineLB",
        metavar="A,B,...",
        help="names, or file.py:function for one of your own (default: %(default)s)",
    )
    parser.add_argument(
        "--every",
        metavar="N,M,...",
        type=runs.counts,
        help="phases from one balancing to the next (default: 1, unless --trigger is given; for "
        "strategy auto its own trigger)",
    )
    parser.add_argument("--trigger", metavar="A,B,...", type=runs.words, help="triggers by name")
    parser.add_argument(
        "--foresight",
        action="store_true",
        help="balance at the start of a phase with its own loads, as with a perfect prediction",
    )
    parser.add_argument(
        "--cost", type=float, help="seconds of each balancing (default: as measured, or modelled)"
    )
    parser.add_argument("--alpha", type=float, default=0.0, help="seconds per message (default: 0)")
    parser.add_argument("--beta", type=float, default=0.0, help="seconds per byte (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="for strategies that draw numbers")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Replay the run under every strategy and trigger asked for, one row each."""
    strategies = [
        word if word in WORDS else runs.strategy(word) for word in runs.words(args.strategy)
    ]
    trace = runs.trace_of(runs.read(args.run, args.stem))
    if trace.n_phases == 1 and not args.foresight:
        print(ONE_PHASE, file=sys.stderr)
    options = {name: getattr(args, name) for name in ("alpha", "beta", "cost", "foresight", "seed")}
    rows = list(_rows(trace, strategies, args, options))
    if args.json:
        head = {
            "run": args.run,
            "n_ranks": trace.n_ranks,
            "n_phases": trace.n_phases,
            "n_objects": trace.n_entities,
            "options": options,
        }
        print(json.dumps(head | {"rows": rows}, indent=2, allow_nan=False))
    else:
        phases = "1 phase" if trace.n_phases == 1 else f"{trace.n_phases} phases"
        title = f"{args.run}: {phases} on {trace.n_ranks} ranks"
        console.show(
            list(COLUMNS.values()), [[row[k] for k in COLUMNS] for row in rows], title=title
        )
    return 0


def _rows(
    trace: Trace,
    strategies: list[str | Strategy],
    args: argparse.Namespace,
    options: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    unbalanced = trace.replay("unbalanced", **options)
    for strategy in strategies:
        for when in _whens(args, strategy):
            yield _row(trace.replay(strategy, **when, **options), unbalanced)


def _row(replay: Replay, unbalanced: Replay) -> dict[str, Any]:
    return {
        "strategy": replay.strategy,
        "trigger": replay.trigger or None,
        "iteration_seconds": replay.iteration_seconds,
        "balancing_seconds": replay.balancing_seconds,
        "speedup": replay.speedup_over(unbalanced),
        "max_over_mean": _mean(replay.metrics["max_over_mean"]),
        "max_over_mean_placed": _mean([d.predicted for d in replay.balancings]),
        "balancings": len(replay.balancings),
        "migrations": replay.migrations,
        "bytes": replay.bytes,
    }


def _mean(values: Any) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None


def _whens(args: argparse.Namespace, strategy: str | Strategy) -> list[dict[str, Any]]:
    """When to balance, as often as it was asked; the baselines never do."""
    if strategy in BASELINES or (strategy == "auto" and not (args.every or args.trigger)):
        return [{}]
    every = args.every or ([] if args.trigger else [1])
    return [{"every": n} for n in every] + [{"trigger": name} for name in args.trigger or []]
