"""Parts that the subcommands share: their table, arguments, JSON, notes, progress."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pylb import console, files
from pylb._version import __version__
from pylb.console import json_text, note
from pylb.errors import DomainError, MissingFileError

# ---- output -------------------------------------------------------------------------------------


def print_json(args: argparse.Namespace, value: dict[str, Any]) -> bool:
    """With ``--json``, print an answer, and return True; docs/command_line.md explains the keys."""
    if args.json:
        print(answer(args, value, indent=2))
    return bool(args.json)


def answer(args: argparse.Namespace, value: dict[str, Any], indent: int | None = None) -> str:
    told = {"pylb": __version__, "command": args.command_name, **value}
    return json_text(told, indent=indent)


def write_json(args: argparse.Namespace, value: dict[str, Any]) -> None:
    if args.json is not None:
        files.write_text(args.json, answer(args, value, indent=2) + "\n")


def fields(one: Any, names: str) -> dict[str, Any]:
    """Return some attributes of an object, by name."""
    return {name: getattr(one, name) for name in names.split()}


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
    """Show `what` and the seconds on a terminal, if rich is there; yield what adds a text to it."""
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


def without_mpi() -> None:
    """Let imports of mpi4py not start MPI: this command runs without mpiexec."""
    if importlib.util.find_spec("mpi4py") is not None:
        import mpi4py

        mpi4py.rc.initialize = False


# ---- subcommands and their arguments ------------------------------------------------------------


Argument = tuple[tuple[str, ...], dict[str, Any]]  # the arguments of `add_argument` of argparse
Run = Callable[[argparse.Namespace], int | None]  # returns the exit code, None for 0


class Command(NamedTuple):
    """A subcommand."""

    run: Run
    help: str
    examples: str
    arguments: tuple[Argument, ...]


COMMANDS: dict[str, Command] = {}


def command(help: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Make a function the subcommand of its name; its docstring: examples, blank line, notes."""

    def add(run: Run) -> Run:
        first, blank, notes = (inspect.getdoc(run) or "").partition("\n\n")
        examples = textwrap.indent(first, "  ") + blank + notes
        COMMANDS[run.__name__] = Command(run, help, examples, arguments)
        return run

    return add


def arg(
    words: str, help: str, kind: Callable[[str], Any] = str, default: Any = None, **how: Any
) -> Argument:
    """Describe an argument: "--name" or "-n, --name", and what the help shows for its value.

    `kind` converts its text; bool: an option without a value.  The help ends with the default.
    """
    *short, word = words.split(", ")
    name, _, shown = word.partition(" ")
    if kind is bool:
        how["action"] = "store_true"
    else:
        how |= {"type": kind, "default": default} | ({"metavar": shown} if shown else {})
        help += " (default: %(default)s)" * isinstance(default, (int, float, str))
        help += "; may be repeated" * ("action" in how)
    return (*short, name), {**how, "help": help}


def _values(
    kind: Callable[[str], Any], what: str, accepts: Callable[[Any], bool] = lambda value: True
) -> Callable[[str], list[Any]]:
    """Return the type of an argument: values separated by commas."""

    def read(text: str) -> list[Any]:
        with suppress(ValueError):
            out = [kind(word.strip()) for word in text.split(",")]
            if all(map(accepts, out)):
                return out
        raise argparse.ArgumentTypeError(f"{text!r}: expected {what}, separated by commas")

    return read


words = _values(str, "names", bool)
ints = _values(int, "whole numbers")
floats = _values(float, "numbers")
counts = _values(int, "numbers of iterations, 1 or more", lambda n: n >= 1)


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


REPEATED: dict[str, Any] = {"action": "append", "default": []}
PRICES = (
    arg("--alpha", "seconds per message", float, 0.0),
    arg("--beta", "seconds per byte", float, 0.0),
)
PROGRAM = arg("command", "after --: mpiexec ..., or any MPI program", nargs="+")
JSON = arg("--json", "print JSON", bool)
SUMMARY = arg("--json FILE", "write a summary as JSON (the program has the standard output)")


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
