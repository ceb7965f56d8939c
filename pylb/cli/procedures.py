"""``pylb procedures``: show the critical path, and what moving procedures would save."""

from __future__ import annotations

import argparse
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.whatif.factors import CriticalPath, Procedures, critical_path, procedures
from pylb.whatif.recorder.recording import Recording

HELP = "show the time saved if a procedure ran on the rank at the other end of its messages"
EXAMPLES = """\
  pylb procedures run
  pylb procedures run --from 0 --to 2
  pylb procedures run --json
"""

NOTES = {
    "seconds": "processor time in the procedure and the functions that it calls, on all ranks",
    "on path s": "seconds of the critical path in the procedure, without procedures that it calls",
    "moved s": "critical path if the procedure ran on the rank at the other end of its messages",
    "zeroed s": "critical path if the procedure took no time",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recording", metavar="RUN", help="file that pylb record wrote")
    add("--from", dest="source", type=int, metavar="RANK", help="only procedures of this rank")
    add("--to", dest="target", type=int, metavar="RANK", help="only moves to this rank")
    add("--alpha", type=float, default=0.0, help="seconds per message (default: %(default)s)")
    add("--beta", type=float, default=0.0, help="seconds per byte (default: %(default)s)")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    recording = Recording.read(args.recording)
    network = (args.alpha, args.beta)
    path = critical_path(recording, network=network)
    told = Procedures([])
    if recording.procedures:
        with common.noting_warnings():
            told = procedures(recording, source=args.source, target=args.target, network=network)
    if args.json:
        common.print_json(args, {"recording": args.recording, **_as_json(path, told)})
        return 0
    console.show(
        ["rank", "path s", "share", "ends s"],
        [
            [rank, float(s), console.percent(s / path.time) if path.time else "", float(end)]
            for rank, (s, end) in enumerate(zip(path.by_rank, path.finish, strict=True))
        ],
        title=f"critical path: {path.time:.4g} s",
        notes={"path s": "seconds of the path on this rank", "ends s": "when the rank ends"},
    )
    if not told:
        return 0
    print()
    console.show(
        ["procedure", "seconds", "on path s", "moved s", "saves", "zeroed s", "would save"],
        [[p.name, p.seconds, path.by_procedure[p.name], *p.row()] for p in told],
        notes=NOTES,
    )
    return 0


def _as_json(path: CriticalPath, told: Procedures) -> dict[str, Any]:
    return {
        "critical_path": path.time,
        "by_rank": path.by_rank,
        "by_procedure": path.by_procedure,
        "procedures": [
            {name: getattr(p, name) for name in ("name", "seconds", "moved", "zeroed")}
            for p in told
        ],
    }
