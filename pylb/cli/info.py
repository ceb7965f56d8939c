"""``pylb info``: show what is installed, and how to get what is missing."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.cli.installed import gather

HELP = "show versions, compiler, SIMD level, MPI and optional parts"
EXAMPLES = """\
  pylb info
  pylb info --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if find_spec("mpi4py") is not None:
        import mpi4py

        mpi4py.rc.initialize = False  # reading versions must not start MPI
    found = gather()
    if args.json:
        common.print_json(args, found)
        return 0
    console.show(["", ""], _head(found))
    print()
    console.show(["part", "version", "for"], map(_row, found["parts"]))
    missing: dict[str, list[str]] = {}
    for part in found["parts"]:
        if part["version"] is None:
            missing.setdefault(part["command"], []).append(part["name"])
    for command, names in missing.items():  # not wrapped, so that the command can be copied
        print(f"\nto install {', '.join(names)}:\n  {command}")
    return 0


def _head(found: dict[str, Any]) -> list[tuple[str, str]]:
    simd, mpi = found["simd"], found["mpi"]
    agree = {
        None: "",
        True: "the same",
        False: f"{mpi['mpi4py']} (differs from pylb's: a process can use only one of them)",
    }
    return [
        ("pylb", found["version"]),
        ("compiler", found["compiler"]),
        ("SIMD", f"{simd['cpu']} in the processor, compiled for {simd['compiled']}"),
        ("Python", found["python"]),
        ("NumPy", found["numpy"]),
        ("MPI of pylb", mpi["pylb"] or "none"),
        ("MPI of mpi4py", agree[mpi["agree"]] or mpi["mpi4py"] or "none"),
        *((f"{name} overrides programs", value) for name, value in found["environment"].items()),
    ]


def _row(part: dict[str, str | None]) -> tuple[str | None, str | None, str | None]:
    found = part["version"] or part["problem"] or "missing"
    return part["name"], found.partition(",")[0], part["purpose"]
