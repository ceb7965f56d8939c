"""``pylb lab``: a command whose ranks each get a share of a core."""

from __future__ import annotations

import argparse
import os
import sys

from pylb.cli import table
from pylb.lab import Lab, Usage
from pylb.lab.shares import parse_period, parse_shares

HELP = "run a command with each MPI rank held to a share of a core"
EXAMPLES = """\
  pylb lab --share 0.25 -- mpiexec -n 8 python prog.py
  pylb lab --share 0.5,0.25 -- mpiexec -n 4 python prog.py    (ranks 0, 2: half a core)
  pylb lab --share 0.1 -- python serial.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb lab``."""
    parser.add_argument(
        "--share",
        required=True,
        metavar="CORES,...",
        help="cores for each rank, cyclic by rank; one value serves all",
    )
    parser.add_argument(
        "--period",
        metavar="TIME",
        help="in which a share is given out; default: 5ms, more for shares below 0.2",
    )
    parser.add_argument("--quiet", action="store_true", help="do not show what each rank used")
    parser.add_argument("command", nargs="+", help="after --: mpiexec ..., or any program")


def run(args: argparse.Namespace) -> int:
    """Run the command and show on standard error what its ranks used."""
    period = None if args.period is None else parse_period(args.period)
    with Lab(parse_shares(args.share), period_us=period) as lab:
        code = lab.run(args.command)
        usage = lab.usage()
    if usage and not args.quiet:
        _show(usage, lab.seconds)
    return code


def _show(usage: list[Usage], seconds: float) -> None:
    columns = ["rank", "share", "used", "CPU s", "throttled s", "throttled periods", "period ms"]
    rows = [
        (
            use.rank,
            f"{use.limit.share:.3f}",
            f"{use.cpu_seconds / seconds:.3f}",
            f"{use.cpu_seconds:.3f}",
            f"{use.throttled_seconds:.3f}",
            f"{100 * use.throttled / max(use.periods, 1):.0f}%",
            f"{use.limit.period_us / 1e3:g}",
        )
        for use in usage
    ]
    table.show(columns, rows, title=f"pylb lab: {seconds:.3f} s", file=sys.stderr)
    total, cores = sum(use.limit.share for use in usage), len(os.sched_getaffinity(0))
    if total > cores:
        print(
            f"pylb lab: the shares add up to {total:g} cores, but there are {cores}: "
            "ranks also waited for each other's cores",
            file=sys.stderr,
        )
