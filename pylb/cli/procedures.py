"""``pylb procedures``: a recorded program's critical path, and its procedures elsewhere."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

from pylb import console
from pylb.whatif.factors import CriticalPath, Procedures, critical_path, procedures
from pylb.whatif.recorder.recording import Recording

HELP = "what moving a procedure to the other side of its messages would save"
EXAMPLES = """\
  pylb procedures run
  pylb procedures run --from 0 --to 2
  pylb procedures run --json

columns: processor seconds in the procedure; the run's critical path if it ran where its messages
go (procedure load balancing factor), and if it took no time (critical path zeroing)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb procedures``."""
    add = parser.add_argument
    add("recording", metavar="RUN", help="file that pylb record wrote")
    add("--from", dest="source", type=int, metavar="RANK", help="only what this rank runs")
    add("--to", dest="target", type=int, metavar="RANK", help="only to this rank")
    add("--alpha", type=float, default=0.0, help="seconds of a message (default: %(default)s)")
    add("--beta", type=float, default=0.0, help="seconds of a byte (default: %(default)s)")
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the path's shares, then each procedure; doubts go to standard error."""
    recording = Recording.read(args.recording)
    network = (args.alpha, args.beta)
    path = critical_path(recording, network=network)
    told = Procedures([])
    if recording.procedures:
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            told = procedures(recording, source=args.source, target=args.target, network=network)
        for doubt in doubts:
            print(f"pylb procedures: {doubt.message}", file=sys.stderr)
    if args.json:
        print(json.dumps(as_json(path, told)))
        return 0
    console.show(
        ["rank", "path s", "share", "ends s"],
        [
            [rank, float(s), f"{s / path.time:.1%}" if path.time else "", float(end)]
            for rank, (s, end) in enumerate(zip(path.by_rank, path.finish, strict=True))
        ],
        title=f"critical path: {path.time:.4g} s",
    )
    console.show(
        ["procedure", "seconds", "on path s", "moved s", "saves", "zeroed s", "would save"],
        [[p.name, p.seconds, path.by_procedure[p.name], *p.row()] for p in told],
    )
    return 0


def as_json(path: CriticalPath, told: Procedures) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "critical_path": path.time,
        "by_rank": path.by_rank.tolist(),
        "by_procedure": path.by_procedure,
        "procedures": [
            {"name": p.name, "seconds": p.seconds, "moved": p.moved, "zeroed": p.zeroed}
            for p in told
        ],
    }
