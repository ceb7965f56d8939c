"""``pylb info``: what is here, and how what is missing comes."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from typing import Any

from pylb import console
from pylb.cli.installed import gather

HELP = "show versions, compiler, SIMD level, MPI and optional parts"
EXAMPLES = """\
  pylb info
  pylb info --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb info``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print what `pylb.cli.installed.gather` finds."""
    if find_spec("mpi4py") is not None:
        import mpi4py

        mpi4py.rc.initialize = False  # asking for versions starts no MPI
    found = gather()
    if args.json:
        json.dump(found, sys.stdout, indent=2)
        print()
    else:
        console.show(["", ""], _head(found))
        print()
        console.show(["part", "version", "to install"], map(_row, found["parts"]))
    return 0


def _head(found: dict[str, Any]) -> list[tuple[str, str]]:
    simd, mpi = found["simd"], found["mpi"]
    agree = {None: "", True: "the same", False: "DIFFERENT: one process cannot use both"}
    return [
        ("pylb", found["version"]),
        ("compiler", found["compiler"]),
        ("SIMD", f"{simd['cpu']} in the processor, compiled for {simd['compiled']}"),
        ("Python", found["python"]),
        ("NumPy", found["numpy"]),
        ("MPI of pylb", mpi["pylb"] or "none"),
        ("MPI of mpi4py", " ".join(filter(None, [mpi["mpi4py"] or "none", agree[mpi["agree"]]]))),
    ]


def _row(part: dict[str, str | None]) -> tuple[str | None, str | None, str | None]:
    missing = part["version"] is None
    return (
        part["name"],
        part["version"] or part["problem"] or "missing",
        part["command"] if missing else "",
    )
