"""``pylb convert``: a run from one format into another."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from pylb.cli import runs
from pylb.errors import DomainError
from pylb.io import h5
from pylb.replay.run_record import RunRecord
from pylb.replay.trace import Trace
from pylb.show import course, tables, timeline

HELP = "convert a run: pylb's HDF5, vt's LBDatafile JSON, Chrome trace, CSV"
EXAMPLES = """\
  pylb convert run/ run.h5                   (vt's files into a run record)
  pylb convert run.h5 vt/ --to vt            (for LBAF and vt-tv; --compress: with Brotli)
  pylb convert run.h5 run.json               (a Chrome trace, for ui.perfetto.dev)
  pylb convert run.h5 tables/ --to csv

What is written goes by the target's suffix (.h5, .hdf5: a run record; .json: a Chrome trace) or by
--to.  Receipts go into a run record alone.
"""

FORMATS = {"h5": "run record", "vt": "LBDatafile", "chrome": "Chrome trace", "csv": "tables"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb convert``."""
    runs.add_run(parser)
    parser.add_argument("target", metavar="TARGET", help="file or folder to write")
    parser.add_argument("--to", choices=FORMATS, help="default: by the target's suffix")
    parser.add_argument("--compress", action="store_true", help="vt's files with Brotli")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(args: argparse.Namespace) -> int:
    """Read, write, say what was written."""
    kind = args.to or _kind(args.target)
    if args.compress and kind != "vt":
        raise DomainError(f"--compress: expected with --to vt, and this writes {FORMATS[kind]}")
    found = runs.read(args.run, args.stem)
    written = [str(path) for path in _write(found, Path(args.target), kind, args)]
    if args.json:
        print(json.dumps({"format": kind, "written": written}, indent=2))
    else:
        print(f"pylb: wrote {len(written)} file{'s' * (len(written) != 1)}", file=sys.stderr)
        print("\n".join(written))
    return 0


def _kind(target: str) -> str:
    suffix = Path(target).suffix
    if suffix in h5.SUFFIXES:
        return "h5"
    if suffix == ".json":
        return "chrome"
    raise DomainError(
        f"target is {target!r}: expected a suffix of {', '.join(h5.SUFFIXES)}, .json, or --to "
        f"{', '.join(FORMATS)}"
    )


def _write(
    found: RunRecord | Trace, target: Path, kind: str, args: argparse.Namespace
) -> list[Path]:
    if kind == "vt":
        return runs.trace_of(found).write(target, compress=args.compress)
    if kind == "h5":
        h5.write(RunRecord.of(found) if isinstance(found, Trace) else found, target)
        return [target]
    shown = course.of(found, title=Path(args.run).resolve().name)
    return tables.write(shown, target) if kind == "csv" else [timeline.write(shown, target)]
