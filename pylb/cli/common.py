"""What the subcommands share: arguments, notes, JSON, reading of recorded runs."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pylb import files
from pylb._version import __version__
from pylb.cli.own import Functions, add_import
from pylb.cli.progress import progress
from pylb.console import json_text, note
from pylb.errors import DomainError, FormatError, MissingFileError
from pylb.place.registry import Strategy
from pylb.replay.optima import Optimum
from pylb.replay.run_record import RunRecord
from pylb.replay.trace import Trace
from pylb.show import course

DEFAULT_STRATEGY = "GreedyLB"  # of the subcommands that compare schedules

# ---- output -------------------------------------------------------------------------------------


@contextmanager
def noting_warnings() -> Iterator[None]:
    """Print the warnings of a block as notes when it ends; equal warnings only once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(one.message) for one in caught):
        note(text)


def answer(args: argparse.Namespace, value: dict[str, Any]) -> dict[str, Any]:
    """Return what a command prints as JSON; docs/command_line.md explains the keys."""
    return {"pylb": __version__, "command": args.command_name, **value}


def print_json(args: argparse.Namespace, value: dict[str, Any]) -> None:
    print(json_text(answer(args, value), indent=2))


# A footnote of tables: how their seconds are counted.
COUNTED = (
    "sum over the iterations: measured time, minus the slowest rank's load in the recording, plus "
    "the slowest rank's load in the replay (with vt's files: only the last term)"
)

# ---- arguments ----------------------------------------------------------------------------------


def add_json(parser: argparse.ArgumentParser, help: str = "print one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=help)


def add_json_file(parser: argparse.ArgumentParser, what: str) -> None:
    help = f"write {what} as JSON (standard output belongs to the program that is run)"
    parser.add_argument("--json", metavar="FILE", help=help)


def write_json(args: argparse.Namespace, value: dict[str, Any]) -> None:
    if args.json is not None:
        files.write_text(args.json, json_text(answer(args, value), indent=2) + "\n")


def add_run(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    help = "a run record (.h5, or .json by pylb's C library), or vt's files: the folder or one file"
    parser.add_argument("run", metavar="RUN", nargs="?" if optional else None, help=help)
    parser.add_argument("--stem", help="read the run STEM.RANK.json if the folder has several runs")


def add_strategy_and_cost(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    strategy = "a name that pylb strategies lists (default: %(default)s)"
    add("--strategy", default=DEFAULT_STRATEGY, help=strategy)
    add_import(parser)
    cost = "seconds of an LB step (default: the mean of the run's own LB steps)"
    add("--cost", type=float, help=cost)


def words(text: str) -> list[str]:
    """Split ``a,b,c``; raise an error of `argparse` if a word is empty."""
    out = [word.strip() for word in text.split(",")]
    if not all(out):
        raise argparse.ArgumentTypeError(f"{text!r}: expected names, separated by commas")
    return out


def numbers(name: str, text: str, kind: type) -> list[Any]:
    """Read numbers such as ``"0,0.5"``; error messages begin with `name`."""
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise DomainError(f"{name} is {text!r}: expected {what}, separated by commas") from None


def counts(text: str) -> list[int]:
    """Read numbers of phases from a text such as ``1,5,10``."""
    try:
        out = [int(word) for word in text.split(",")]
    except ValueError:
        out = []
    if not out or min(out) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers of phases, 1 or more")
    return out


def check_targets(source: str, *targets: str | None) -> None:
    """Raise DomainError if a target is `source`, or an existing file in the folder `source`."""
    for target in targets:
        if target is None or not os.path.isfile(target) or not os.path.exists(source):
            continue
        if any(os.path.samefile(source, one) for one in (target, os.path.dirname(target) or ".")):
            raise DomainError(f"{target} would overwrite the input {source}: expected another file")


def check_output(word: str, path: str | None, suffixes: tuple[str, ...]) -> None:
    """Check the suffix and the folder of a file to be written; None: no file."""
    if path is None:
        return
    if Path(path).suffix not in suffixes:
        raise DomainError(f"{word} is {path!r}: expected the suffix {' or '.join(suffixes)}")
    if not Path(path).parent.is_dir():
        raise MissingFileError(f"{word} {path}: there is no folder {Path(path).parent}")


# ---- recorded runs ------------------------------------------------------------------------------


def read(args: argparse.Namespace) -> RunRecord | Trace:
    """Read the run on the command line; print warnings as notes."""
    with noting_warnings():
        return course.read(args.run, args.stem)


def trace_of(found: RunRecord | Trace) -> Trace:
    """Return the run as a trace; FormatError if it has no complete iteration."""
    trace = found.trace if isinstance(found, RunRecord) else found
    if not len(trace):
        raise FormatError("no complete iteration in the run")
    return trace


def _cost_of(found: RunRecord | Trace, given: float | None) -> float:
    """Return the given seconds of an LB step, else the mean of the recorded LB steps."""
    if given is not None:
        return given
    own = [r.cost for r in found.history.balancings] if isinstance(found, RunRecord) else []
    if not own:
        raise DomainError("--cost is not given and the run has no LB steps: expected seconds")
    return sum(own) / len(own)


class Schedule(NamedTuple):
    """The best schedule of LB steps for a run, and the input for finding it."""

    trace: Trace
    strategy: str | Strategy
    cost: float
    best: Optimum
    recorded: float  # seconds of the recorded run

    @classmethod
    def of(cls, args: argparse.Namespace, functions: Functions) -> Schedule:
        found, entry = read(args), functions.strategy(args.strategy)
        cost, trace = _cost_of(found, args.cost), trace_of(found)
        with progress("searching for the best schedule"):
            best = trace.optimum(entry, cost=cost)
        return cls(trace, entry, cost, best, trace.replay("none").time)

    @property
    def name(self) -> str:
        return self.strategy if isinstance(self.strategy, str) else self.strategy.name

    def speedup(self, seconds: float) -> float:
        """Return the speed-up, over the recorded run, of a replay that takes `seconds`."""
        return self.recorded / seconds if seconds > 0 else 1.0

    def to_dict(self, run: str) -> dict[str, Any]:
        """Return the keys of ``--json`` that all commands with a schedule share."""
        return {
            "run": run,
            "strategy": self.name,
            "cost": self.cost,
            "bound": self.best.bound,
            "exact": self.best.exact,
            "recorded_seconds": self.recorded,
        }
