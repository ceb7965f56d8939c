"""The command ``pylb``: its subcommands, errors and exit codes.

Only data goes to standard output; an error is one line on standard error.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from pylb._version import __version__
from pylb.cli import installed, programs, runs, steer  # noqa: F401  (they fill COMMANDS)
from pylb.cli.common import COMMANDS
from pylb.errors import DomainError, PylbError, nearest

EXAMPLES = """\
  pylb info                                  (what is installed, and how to get what is missing)
  pylb demo --save run.h5                    (run a program that balances itself; record it)
  pylb report run.h5                         (show the record as a page)
  pylb replay run.h5 --strategy GreedyLB,RefineLB --every 5
  pylb replay --help                         (each command has its own examples)"""
ORDER = (
    "info demo replay compare strategies triggers experience optimum run steer record whatif "
    "procedures report watch convert partition lab completion"
).split()
USAGE_ERROR = 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells
BROKEN_PIPE = 141  # 128 + SIGPIPE


def _help(prog: str) -> argparse.HelpFormatter:
    """Make a formatter that keeps the line breaks of the examples."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and suggest names for a misspelt word."""

    def error(self, message: str) -> NoReturn:
        raise DomainError(f"{message.removeprefix('argument ')} ({self.prog} --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; the error for an unknown option suggests the nearest options."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            known = [word for action in found.sub._actions for word in action.option_strings]
            self.prog = found.sub.prog
            self.error(f"unexpected {rest[0]!r}{nearest(rest[0].partition('=')[0], known)}")
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = list(action.choices or [])
        if choices and value not in choices:
            name = next(iter(action.option_strings), action.metavar or action.dest)
            words = ", ".join(map(str, choices))
            self.error(f"{name} is {value!r}: expected {words}{nearest(str(value), choices)}")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="pylb",
        description="Dynamic load balancing for iterative parallel programs.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=_help,
    )
    parser.add_argument("--version", action="version", version=f"pylb {__version__}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for name in ORDER:
        command = COMMANDS[name]
        sub = subparsers.add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog=f"examples:\n{command.examples}",
            formatter_class=_help,
        )
        for words, how in command.arguments:
            sub.add_argument(*words, **how)
        sub.set_defaults(execute=command.run, parser=parser, sub=sub, command_name=name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    _make_usable("stdout")
    _make_usable("stderr")
    try:
        args = build_parser().parse_args(argv)
        code: int = args.execute(args) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The program that reads the output has ended.  When Python exits, it writes what is left in
        # the buffer: to /dev/null, so that no second error occurs.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (PylbError, OSError) as error:
        said = " ".join(str(error).split())
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            said = f"{os.fspath(error.filename)}: {error.strerror}"
        print(f"pylb: {said}", file=sys.stderr)
        return USAGE_ERROR
    return code


def _make_usable(name: str) -> None:
    """Replace a stream that is closed, and escape characters that a stream cannot encode."""
    stream = getattr(sys, name)
    if stream is None:
        setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    elif isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
