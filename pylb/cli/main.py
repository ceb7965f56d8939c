"""The command ``pylb``: its subcommands, its errors, its exit codes.

A subcommand is a module of this package with `HELP`, `EXAMPLES`, `add_arguments(parser)` and
`run(args) -> exit code`.  Only data goes to standard output; an error is one line on standard
error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pylb._version import __version__
from pylb.cli import (
    completion,
    convert,
    demo,
    info,
    lab,
    optimum,
    partition,
    procedures,
    record,
    replay,
    report,
    triggers,
    watch,
    whatif,
)
from pylb.errors import PylbError

EXAMPLES = """\
  pylb info                                  (what is installed, and how to get the rest)
  pylb demo --save run.h5                    (run a program that balances itself; record it)
  pylb report run.h5                         (show the record as a page)
  pylb replay run.h5 --strategy GreedyLB,RefineLB --every 5
  pylb replay --help                         (each command has its own examples)"""
USAGE_ERROR = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells give it
BROKEN_PIPE = 141  # 128 + SIGPIPE


COMMANDS = (
    info,
    demo,
    replay,
    triggers,
    optimum,
    record,
    whatif,
    procedures,
    report,
    watch,
    convert,
    partition,
    lab,
    completion,
)


def _help(prog: str) -> argparse.HelpFormatter:
    """Keep the lines of the examples; an option and its help share a line."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="pylb",
        description="Dynamic load balancing for iterative parallel programs.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=_help,
    )
    parser.add_argument("--version", action="version", version=f"pylb {__version__}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for command in COMMANDS:
        sub = subparsers.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.HELP,
            description=command.HELP,
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=_help,
        )
        command.add_arguments(sub)
        sub.set_defaults(execute=command.run, parser=parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.execute(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output is gone; the interpreter's last flush must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except (PylbError, OSError) as error:
        print(f"pylb: {error}", file=sys.stderr)
        return USAGE_ERROR
    return code
