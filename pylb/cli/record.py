"""``pylb record``: run an MPI program, and write its operations to a file."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.errors import MissingFileError
from pylb.whatif.recorder.launch import record, signals_end
from pylb.whatif.recorder.recording import Recording

HELP = "run an MPI program and record its operations, for pylb whatif"
EXAMPLES = """\
  pylb record -o run -- mpiexec -n 4 python prog.py
  pylb record -o run -- mpiexec -n 4 ./a.out
  pylb record -o run --place 0,0,1,1 -- mpiexec -n 4 ./a.out   (predicts while the program runs)
  pylb whatif run --place 0,0,1,1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="FILE", help="the recording to write")
    host = (
        "address of this machine, to which the ranks connect "
        "(default: 127.0.0.1, which is enough if all ranks are on this machine)"
    )
    add("--host", default="127.0.0.1", help=host)
    add(
        "--procedures",
        default="",
        metavar="F,...",
        help="functions to record, in a program compiled with -finstrument-functions",
    )
    add(
        "--place",
        action="append",
        default=[],
        metavar="Q,...",
        help="processor of each rank: predict the time with this placement while the program runs; "
        "may be repeated",
    )
    add("--speed", metavar="X,...", help="speed of each processor, for --place")
    common.add_json_file(parser, "a summary of the recording")
    add("command", nargs="+", help="after --: mpiexec ..., or any MPI program")


def run(args: argparse.Namespace) -> int:
    procedures = [name for name in args.procedures.split(",") if name]
    speed = {} if args.speed is None else {"speed": common.numbers("speed", args.speed, float)}
    Recording.check_writable(args.output)
    if shutil.which(args.command[0]) is None:
        raise MissingFileError(f"command is {args.command[0]!r}: there is no such program")
    online = [{"placement": common.numbers("place", text, int), **speed} for text in args.place]
    how: Any = {"procedures": procedures, "host": args.host, "online": online}
    code, recording = record(args.command, say=console.note, **how)
    written = _save(recording, args.output) if recording.n_ranks else args.output
    for text in recording.warnings:
        console.note(text)
    if not recording.n_ranks:
        console.note(f"{args.output} is not written: nothing was recorded")
        return code or 1
    took = "" if recording.seconds is None else f", {recording.seconds:.4g} s"
    console.note(f"{written}: {recording.n_ops} operations of {recording.n_ranks} ranks{took}")
    told = {
        "written": written,
        "operations": recording.n_ops,
        "n_ranks": recording.n_ranks,
        "seconds": recording.seconds,
        "warnings": list(recording.warnings),
        "exit_code": code,
    }
    common.write_json(args, told)
    return code or int(written != args.output)


def _save(recording: Recording, path: str) -> str:
    """Write the recording, to a temporary folder if `path` cannot be written; return its path."""
    with signals_end():
        try:
            recording.save(path)
        except OSError as error:
            console.note(f"{path} cannot be written: {error}")
            path = os.path.join(tempfile.mkdtemp(prefix="pylb-"), os.path.basename(path))
            recording.save(path)
    return path
