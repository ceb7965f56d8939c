"""``pylb convert``: convert a run from one format into another."""

from __future__ import annotations

import argparse
from pathlib import Path

from pylb import console
from pylb.cli import common
from pylb.console import count
from pylb.errors import DomainError
from pylb.io import h5, hdf5
from pylb.replay.run_record import RunRecord
from pylb.replay.trace import Trace
from pylb.show import course, tables, timeline

HELP = "convert a run: pylb's HDF5, vt's LBDatafile JSON, Chrome trace, CSV"
EXAMPLES = """\
  pylb convert run/ run.h5                   (vt's files into a run record)
  pylb convert run.h5 vt/ --to vt            (for LBAF and vt-tv; --compress: with Brotli)
  pylb convert run.h5 run.json               (a Chrome trace, for ui.perfetto.dev)
  pylb convert run.h5 tables/ --to csv

Without --to, the suffix of TARGET decides (.h5, .hdf5: run record; .json: Chrome trace).  Only a
run record keeps complete receipts.
"""

FORMATS = {"h5": "run record", "vt": "LBDatafile", "chrome": "Chrome trace", "csv": "tables"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("target", metavar="TARGET", help="file or folder to write")
    parser.add_argument("--to", choices=FORMATS, help="format (default: by TARGET's suffix)")
    parser.add_argument("--compress", action="store_true", help="compress vt's files by Brotli")
    common.add_json(parser, "print the names of the written files as JSON")


def run(args: argparse.Namespace) -> int:
    kind = args.to or _kind(args.target)
    if args.compress and kind != "vt":
        raise DomainError(f"--compress is for --to vt only, but the format is {FORMATS[kind]}")
    common.check_targets(args.run, args.target)
    found = common.read(args)
    written = [str(path) for path in _write(found, Path(args.target), kind, args)]
    if args.json:
        common.print_json(args, {"run": args.run, "format": kind, "written": written})
    else:
        console.note(f"wrote {count(len(written), 'file')}")
        print("\n".join(written))
    return 0


def _kind(target: str) -> str:
    suffix = Path(target).suffix
    if suffix in hdf5.SUFFIXES:
        return "h5"
    if suffix == ".json":
        return "chrome"
    raise DomainError(
        f"target is {target!r}: expected a suffix {', '.join(hdf5.SUFFIXES)} or .json, or --to "
        f"with {', '.join(FORMATS)}"
    )


def _write(
    found: RunRecord | Trace, target: Path, kind: str, args: argparse.Namespace
) -> list[Path]:
    if kind == "vt":
        return common.trace_of(found).write(target, compress=args.compress)
    if kind == "h5":
        h5.write(RunRecord.of(found) if isinstance(found, Trace) else found, target)
        return [target]
    shown = course.of(found, title=Path(args.run).resolve().name)
    if kind == "csv":
        return tables.write(shown, target)
    return [timeline.write(shown, target)]
