"""Parts that the subcommands share: columns, JSON, notes, progress, types of arguments, runs."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from pylb import console, files
from pylb._version import __version__
from pylb.console import json_text, note
from pylb.decide.registry import Trigger, trigger, triggers
from pylb.errors import (
    DomainError,
    FormatError,
    MissingFileError,
    StrategyError,
    UnknownStrategyError,
    UnknownTriggerError,
    nearest,
)
from pylb.placing.registry import Strategy, strategies, strategy
from pylb.replaying.replayed import BASELINES, Optimum
from pylb.replaying.trace import RunRecord, Trace
from pylb.show import course

DEFAULT_STRATEGY = "GreedyLB"  # of the subcommands that compare schedules

# A footnote of tables: how their seconds are counted.
COUNTED = (
    "sum over the iterations: measured time, minus the slowest rank's load in the recording, plus "
    "the slowest rank's load in the replay (with vt's files: only the last term)"
)

# ---- output -------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A column of a printed table; ``--json`` prints the rows of the table."""

    heading: str
    value: str | Callable[[Any], Any]  #: the key of the cell in a row, or a function of the row
    note: str = ""  #: a footnote that explains the heading
    drop: int = 0  #: narrow terminals omit the column with 1 first, then 2, ...; 0: never


def show(columns: Sequence[Column], rows: Iterable[Any], **how: Any) -> None:
    """Print rows as a table; `how` has further arguments of `console.show`."""
    names = [c.heading for c in columns]
    cells = [[c.value(r) if callable(c.value) else r[c.value] for c in columns] for r in rows]
    drop = [c.heading for c in sorted(columns, key=lambda c: c.drop) if c.drop]
    notes = {c.heading: c.note for c in columns if c.note}
    console.show(names, cells, drop=drop, notes=notes, **how)


def print_json(args: argparse.Namespace, value: dict[str, Any]) -> bool:
    """With ``--json``, print an answer, and return True; docs/command_line.md explains the keys."""
    if args.json:
        print(json_text(answer(args, value), indent=2))
    return bool(args.json)


def answer(args: argparse.Namespace, value: dict[str, Any]) -> dict[str, Any]:
    return {"pylb": __version__, "command": args.command_name, **value}


def write_json(args: argparse.Namespace, value: dict[str, Any]) -> None:
    if args.json is not None:
        files.write_text(args.json, json_text(answer(args, value), indent=2) + "\n")


def print_text(text: str) -> None:
    print(console.fill(text, console.width_of(sys.stdout)))


@contextmanager
def noting_warnings() -> Iterator[None]:
    """Print the warnings of a block as notes when it ends; equal warnings only once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(one.message) for one in caught):
        note(text)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show `what` and the seconds so far on a terminal's standard error, if rich is installed.

    Yields a function that sets the text after `what`, e.g. ``say("with GreedyLB")``.
    """
    if not (sys.stderr.isatty() and importlib.util.find_spec("rich")):
        yield lambda more: None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(f"pylb: {what}")
        yield lambda more: shown.update(task, description=f"pylb: {what} {more}")


# ---- arguments of the command line --------------------------------------------------------------


def _values(kind: Callable[[str], Any], what: str) -> Callable[[str], list[Any]]:
    """Return the type of an argument: values separated by commas."""

    def read(text: str) -> list[Any]:
        try:
            return [kind(word.strip()) for word in text.split(",")]
        except ValueError:
            expected = f"expected {what}, separated by commas"
            raise argparse.ArgumentTypeError(f"{text!r}: {expected}") from None

    return read


def _word(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


words, ints, floats = (
    _values(_word, "names"),
    _values(int, "whole numbers"),
    _values(float, "numbers"),
)
counts = _values(_count, "numbers of iterations, 1 or more")


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


def check_targets(source: str, *targets: str | None) -> None:
    """Raise DomainError if a target is `source`, or an existing file in the folder `source`."""
    for target in targets:
        if target is None or not os.path.isfile(target) or not os.path.exists(source):
            continue
        if any(os.path.samefile(source, one) for one in (target, os.path.dirname(target) or ".")):
            raise DomainError(f"{target} would overwrite the input {source}: expected another file")


def check_output(word: str, path: str | None, suffixes: tuple[str, ...]) -> None:
    """Check the suffix and the folder of a file to be written, if there is one."""
    if path is None:
        return
    if Path(path).suffix not in suffixes:
        raise DomainError(f"{word} is {path!r}: expected the suffix {' or '.join(suffixes)}")
    if not Path(path).parent.is_dir():
        raise MissingFileError(f"{word} {path}: there is no folder {Path(path).parent}")


# ---- the user's own functions -------------------------------------------------------------------


def _name_and_parameters(text: str) -> tuple[str, dict[str, Any]]:
    """Read a strategy or trigger: a name, or e.g. "periodic every=10"."""
    name, *rest = text.split() or [""]
    out: dict[str, Any] = {}
    for word in rest:
        key, equals, value = word.partition("=")
        if not equals:
            raise DomainError(f"{text!r}: expected a name, and NAME=VALUE for each parameter")
        try:
            out[key] = float(value)
        except ValueError:
            out[key] = value  # text for a user's function; for pylb's strategies, an error
    return name, out


class Functions:
    """Find strategies and triggers by name, also those of the modules that ``--import`` names.

    `strategies` and `triggers` are the names on the command line, which are checked at once.
    """

    def __init__(
        self, imports: Sequence[str], strategies: Sequence[str] = (), triggers: Sequence[str] = ()
    ) -> None:
        self._calls: dict[str, Callable[..., Any]] = {}
        for word in imports:
            self._calls |= {k: v for k, v in vars(_imported(word)).items() if callable(v)}
        for text in strategies:
            self.strategy(text)
        for text in triggers:
            self.trigger(text)

    def strategy(self, text: str) -> str | Strategy:
        """Return the strategy for "RefineLB overload=1.1" etc., or a baseline's name unchanged."""
        name, params = _name_and_parameters(text)
        if name in BASELINES and not params:
            return name
        try:
            return strategy(self._calls.get(name, name), **params)
        except UnknownStrategyError:
            names = sorted({"auto", *BASELINES, *strategies()})
            raise _unknown("strategy", name, names, UnknownStrategyError) from None

    def trigger(self, text: str) -> Trigger:
        """Return the trigger for a text such as "periodic every=10"."""
        name, params = _name_and_parameters(text)
        try:
            return trigger(self._calls.get(name, name), **params)
        except UnknownTriggerError:
            raise _unknown("trigger", name, sorted(triggers()), UnknownTriggerError) from None


def _unknown(what: str, name: str, names: list[str], error: type) -> Exception:
    if ".py:" in name:
        path, _, function = name.rpartition(":")
        return error(f"no {what} {name!r}: expected --import {path} --{what} {function}")  # type: ignore[no-any-return]
    return error(f"no {what} {name!r}: there are {', '.join(names)}{nearest(name, names)}")  # type: ignore[no-any-return]


def _imported(word: str) -> ModuleType:
    """Import a module: a file FILE.py, or a name, which is also looked for in this folder."""
    if importlib.util.find_spec("mpi4py") is not None:
        import mpi4py

        mpi4py.rc.initialize = False  # this command runs without mpiexec
    path = Path(word)
    if path.suffix == ".py" and not path.is_file():
        raise MissingFileError(f"--import {path}: there is no such file")
    note(f"executing {word}")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        if path.suffix != ".py":
            return importlib.import_module(word)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as why:
        raise StrategyError(f"--import {word} raised {type(why).__name__}: {why}") from why
    finally:
        sys.path.pop(0)


# ---- recorded runs ------------------------------------------------------------------------------


def read(args: argparse.Namespace) -> RunRecord | Trace:
    """Read the run on the command line; print warnings as notes."""
    with noting_warnings():
        return course.read(args.run, args.stem)


def trace_of(found: RunRecord | Trace) -> Trace:
    """Return the run as a trace; raise FormatError if it has no complete iteration."""
    trace = found.trace if isinstance(found, RunRecord) else found
    if not len(trace):
        raise FormatError("no complete iteration in the run")
    return trace


class Schedule(NamedTuple):
    """The best schedule of LB steps for a run, and the input for finding it."""

    trace: Trace
    strategy: str | Strategy
    cost: float
    best: Optimum
    recorded: float  # seconds of the recorded run
    own: str  # strategy and trigger of the recorded run, in words

    @classmethod
    def of(cls, args: argparse.Namespace, functions: Functions) -> Schedule:
        found, entry, cost = read(args), functions.strategy(args.strategy), args.cost
        if cost is None:
            own = [r.cost for r in found.history.lb_steps] if isinstance(found, RunRecord) else []
            if not own:
                raise DomainError(
                    "--cost is not given, and the run has no LB steps: expected --cost"
                )
            cost = sum(own) / len(own)
        trace = trace_of(found)
        with progress("searching for the best schedule"):
            best = trace.optimum(entry, cost=cost)
        how = found.parameters if isinstance(found, RunRecord) else {}
        words = ", ".join(str(how[k]) for k in ("strategy", "trigger") if how.get(k))
        return cls(trace, entry, cost, best, trace.replay("none").time, words or "unknown")

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
