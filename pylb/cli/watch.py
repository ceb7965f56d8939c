"""``pylb watch``: show a run while its program writes it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from pylb import console, optional
from pylb.cli import common
from pylb.errors import DomainError, FormatError
from pylb.io.records import is_record
from pylb.replay.run_record import RunRecord
from pylb.show import course, live, served

HELP = "watch a run while its program writes it (Balancer(record='run.h5'))"
EXAMPLES = """\
  pylb watch run.h5
  pylb watch run.h5 --serve                  (a page for a browser on this host)
  pylb watch run.h5 --once                   (the present state, once)
  pylb watch run.h5 --json --interval 5      (a line of JSON whenever the file changes)

Ctrl-C ends the command.  The program writes after 64 iterations or a second, whichever is earlier.
"""

NAMES = {"ranks": "n_ranks", "objects": "n_objects"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="FILE", help="the file that the program writes")
    add(
        "--interval",
        type=float,
        default=1.0,
        help="seconds between two checks of the file (default: 1)",
    )
    add("--once", action="store_true", help="show the present state once")
    add(
        "--serve",
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="serve a page for a browser on this host (default of PORT: any free port)",
    )
    common.add_json(parser, "print JSON, one object per line")


def run(args: argparse.Namespace) -> int:
    if not 0.05 <= args.interval <= 3600:
        raise DomainError(f"--interval is {args.interval}: expected seconds, 0.05 ... 3600")
    if args.serve is not None and not 0 <= args.serve < 2**16:
        raise DomainError(f"--serve is {args.serve}: expected a port, 0 ... 65535")
    if os.path.isdir(args.run):
        raise DomainError(f"{args.run} is a folder: expected the file that a program writes")
    if os.path.exists(args.run) and os.path.getsize(args.run) and not is_record(args.run):
        raise DomainError(f"{args.run} is not a run record: expected a file that a program writes")
    if args.serve is not None and (args.once or args.json):
        raise DomainError("--serve with --once or --json: expected only one of them")
    try:
        if args.serve is not None:
            _serve(args)
        elif args.json:
            for now in _news(args):
                print(console.json_text(common.answer(args, _named(now))), flush=True)
        elif args.once or not sys.stdout.isatty():
            for now in _news(args):
                _print(now)
        else:
            _live(args)
    except KeyboardInterrupt:
        if args.once:
            raise
    return 0


def _news(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the state of the run whenever the file has changed; with ``--once``, only now."""
    seen = None
    while True:
        try:
            stat = os.stat(args.run)
            changed = (stat.st_mtime_ns, stat.st_size) != seen
            seen = (stat.st_mtime_ns, stat.st_size)
            if changed:
                yield live.state(course.of(RunRecord.read(args.run)))
        except FileNotFoundError:
            if args.once:
                raise
        except (DomainError, FormatError):
            if args.once:
                raise
            # The file is being written, or has no complete iteration yet.
        if args.once:
            return
        time.sleep(args.interval)


def _named(now: dict[str, Any]) -> dict[str, Any]:
    """Return the state with the key names that the JSON of other commands has."""
    return {NAMES.get(name, name): value for name, value in now.items()}


def _print(now: dict[str, Any]) -> None:
    console.show(live.COLUMNS, live.rows(now), title=live.head(now))
    print(f"{console.fill(live.foot(now), console.width_of(sys.stdout))}\n", flush=True)


def _serve(args: argparse.Namespace) -> None:
    share = served.SHARE[served.step_back()]
    with served.Server(args.run, args.serve, args.interval, share) as server:
        print(f"{args.run}: {server.address}", flush=True)
        server.serve_forever()


def _live(args: argparse.Namespace) -> None:
    optional.require("rich")
    from rich.live import Live
    from rich.text import Text

    with Live(Text(f"{args.run}: nothing yet"), refresh_per_second=4) as shown:
        for now in _news(args):
            shown.update(live.View(now))
