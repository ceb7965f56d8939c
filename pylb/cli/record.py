"""``pylb record``: an MPI program, its operations into a file."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from pylb.cli.whatif import numbers
from pylb.whatif.recorder.launch import record
from pylb.whatif.recorder.recording import Recording

HELP = "run an MPI program and record its operations, for pylb whatif"
EXAMPLES = """\
  pylb record -o run -- mpiexec -n 4 python prog.py
  pylb record -o run -- mpiexec -n 4 ./a.out
  pylb record -o run --place 0,0,1,1 -- mpiexec -n 4 ./a.out      (predicts while it runs)
  pylb whatif run --place 0,0,1,1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb record``."""
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="to be written")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address at which the ranks reach this machine"
    )
    parser.add_argument(
        "--procedures",
        default="",
        metavar="F,...",
        help="functions to tell apart, in a program compiled with -finstrument-functions",
    )
    parser.add_argument(
        "--place",
        action="append",
        default=[],
        metavar="Q,...",
        help="predict this placement while the program runs; may be given several times",
    )
    parser.add_argument("--speed", metavar="X,...", help="of each processor of these placements")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write what was recorded as JSON (standard output is the command's)",
    )
    parser.add_argument("command", nargs="+", help="after --: mpiexec ..., or any MPI program")


def run(args: argparse.Namespace) -> int:
    """Run the command; what is missing in the recording goes to standard error."""
    procedures = [name for name in args.procedures.split(",") if name]
    speed = {} if args.speed is None else {"speed": numbers("speed", args.speed, float)}
    Recording.check_writable(args.output)
    online = [{"placement": numbers("place", text, int), **speed} for text in args.place]
    code, recording = record(
        args.command, procedures=procedures, host=args.host, online=online, say=_say
    )
    written = _save(recording, args.output)
    for text in recording.warnings:
        print(f"pylb: {text}", file=sys.stderr)
    took = "" if recording.seconds is None else f", {recording.seconds:.4g} s"
    print(
        f"pylb: {written}: {recording.n_ops} operations of {recording.n_ranks} ranks{took}",
        file=sys.stderr,
    )
    if args.json is not None:
        told = {
            "written": written,
            "operations": recording.n_ops,
            "ranks": recording.n_ranks,
            "seconds": recording.seconds,
            "warnings": list(recording.warnings),
            "exit_code": code,
        }
        Path(args.json).write_text(json.dumps(told, indent=2) + "\n")
    return code or int(written != args.output)


def _save(recording: Recording, path: str) -> str:
    """Write it there, or where there is room: a run is not thrown away."""
    try:
        recording.save(path)
    except OSError as error:
        print(f"pylb: {path} cannot be written: {error}", file=sys.stderr)
        path = os.path.join(tempfile.mkdtemp(prefix="pylb-"), os.path.basename(path))
        recording.save(path)
    return path


def _say(text: str) -> None:
    print(f"pylb: {text}", file=sys.stderr, flush=True)
