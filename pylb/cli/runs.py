"""What the subcommands share that work on a recorded run."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pylb.errors import DomainError, FormatError, StrategyError, UnknownStrategyError
from pylb.place.registry import Strategy, find
from pylb.replay.optima import Optimum
from pylb.replay.run_record import RunRecord
from pylb.replay.trace import Trace
from pylb.show import course

RUN_HELP = "a run: the file that Balancer.save wrote (.h5), or a folder of vt's files, or one file"


def add_run(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The argument for the run."""
    if optional:
        parser.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
    else:
        parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--stem", help="which run of the folder")


def read(path: str, stem: str | None = None) -> RunRecord | Trace:
    """The run; what the reader warns of goes to standard error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = course.read(path, stem)
    for warning in caught:
        print(f"pylb: {warning.message}", file=sys.stderr)
    return out


def trace_of(found: RunRecord | Trace) -> Trace:
    """The run as a trace, whatever wrote it.

    Raises
    ------
    FormatError
        There is no complete iteration.
    """
    trace = found.trace if isinstance(found, RunRecord) else found
    if not len(trace):
        raise FormatError("no complete iteration in the run")
    return trace


def add_strategy_and_cost(parser: argparse.ArgumentParser) -> None:
    """What a schedule of balancings is made with."""
    parser.add_argument(
        "--strategy", default="GreedyLB", help="or file.py:function (default: %(default)s)"
    )
    parser.add_argument(
        "--cost",
        type=float,
        help="seconds of each balancing (default: the mean of the run's own balancings)",
    )


def cost_of(found: RunRecord | Trace, given: float | None) -> float:
    """Seconds of a balancing: as given, else the mean of those that the run had.

    Raises
    ------
    DomainError
        Not given, and the run had none.
    """
    if given is not None:
        return given
    own = [r.cost for r in found.history.balancings] if isinstance(found, RunRecord) else []
    if not own:
        raise DomainError("cost: the run has no balancings of its own, expected --cost SECONDS")
    return sum(own) / len(own)


class Asked(NamedTuple):
    """What a schedule of balancings is made of."""

    trace: Trace
    strategy: Strategy
    cost: float
    best: Optimum
    recorded: float


def asked(args: argparse.Namespace) -> Asked:
    """The run of the command line, the best schedule for it, and its time as recorded."""
    found = read(args.run, args.stem)
    cost, trace, entry = cost_of(found, args.cost), trace_of(found), strategy(args.strategy)
    best = trace.optimum(entry, cost=cost)
    return Asked(trace, entry, cost, best, trace.replay("none").time)


def words(text: str) -> list[str]:
    """``a,b,c``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def counts(text: str) -> list[int]:
    """``1,5,10``: numbers of iterations."""
    try:
        out = [int(word) for word in words(text)]
    except ValueError:
        out = []
    if not out or min(out) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of phases, 1 or more")
    return out


def strategy(word: str) -> Strategy:
    """A strategy by name, or the function of a file: ``mine.py:my_strategy``."""
    path, colon, name = word.rpartition(":")
    if not (colon and path.endswith(".py")):
        return find(word)
    return find(_function(Path(path), name))


def _function(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise UnknownStrategyError(f"strategy {path}:{name}: there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as why:
        raise StrategyError(f"{path} raised {type(why).__name__}: {why}") from why
    call = getattr(module, name, None)
    if not callable(call):
        raise UnknownStrategyError(f"strategy {path}:{name}: {path} has no function {name!r}")
    return call  # type: ignore[no-any-return]
