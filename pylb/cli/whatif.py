"""``pylb whatif``: predict the time of a recorded MPI program on other processors."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.cli.progress import progress
from pylb.errors import DomainError
from pylb.lab import units
from pylb.whatif.prediction import MATCHING, Prediction, whatif
from pylb.whatif.recorder.recording import Recording
from pylb.whatif.suggestion import Suggestion, suggest

HELP = "predict the time of a recorded MPI program under other placements"
EXAMPLES = """\
  pylb whatif run --place 0,0,1,1
  pylb whatif run --place 0,1,0,1 --place 0,0,0,1 --speed 1,0.5
  pylb whatif run --place 0,1,0,1 --share 0.9,0.45     (under pylb lab --share 0.9,0.45)
  pylb whatif run --place 0,0,1,1 --suggest 3
  pylb whatif run --place 0,1,2,3 --node 0,0,1,1 --alpha 2e-6 --beta 1e-9 --json
"""

AS_GIVEN = ("overhead", "eager", "matching")
PREDICTED = ("complete", "finish", "busy", "waiting", "end", "warnings")
NOTES = {
    "seconds": "from the end of MPI_Init to the last MPI_Finalize, as predicted",
    "used": "fraction of the processors' time in which ranks work",
    "waiting": "fraction of the ranks' time in which they wait within MPI",
}
RANKS = {
    "ends": "when the rank ends, in seconds",
    "works": "seconds on the processor",
    "waits": "seconds within MPI",
    "pauses": "seconds asleep, or waiting for files",
    "how": "through: the rank ends; cut: its records end early; stuck: it waits for a message that "
    "never comes",
}
SUGGESTED = ("saves", "placement", "procedure", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("recording", metavar="RUN", help="file that pylb record wrote")
    places = "processor of each rank; may be repeated (default: each rank has its own)"
    add("--place", action="append", default=[], metavar="Q,...", help=places)
    speed = "speed of each processor, or one number for all; 1: as fast as the recorded ones"
    add("--speed", metavar="X,...", help=speed)
    add("--share", metavar="X,...", help="available fraction of each processor, as in pylb lab")
    add("--period", help="share period (default: 5ms; 0ms if waiting ranks slept when recorded)")
    add("--node", metavar="N,...", help="node of each processor (default: all on one)")
    add("--alpha", type=float, help="seconds per message (default: as measured with the recording)")
    add("--beta", type=float, help="seconds per byte (default: as measured with the recording)")
    add("--overhead", type=float, help="processor seconds of an MPI call")
    eager = "largest message in bytes that is sent before its receive is posted"
    add("--eager", type=int, help=eager)
    add(
        "--matching",
        choices=MATCHING,
        default="arrival",
        help="which message a receive from any source gets",
    )
    most = "search for the N changes of the last --place that save the most time"
    add("--suggest", type=int, metavar="N", help=most)
    add("--ranks", action="store_true", help="show a row for each rank")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.suggest is not None and args.suggest < 1:
        raise DomainError(f"--suggest is {args.suggest}: expected a number of changes, 1 or more")
    recording, given = Recording.read(args.recording), _given(args)
    places: list[Any] = [common.numbers("place", text, int) for text in args.place]
    with common.noting_warnings(), progress("simulating"):
        predictions = [whatif(recording, placement=p, **given) for p in places or [None]]
        better: list[Suggestion] = []
        if args.suggest is not None:
            last = predictions[-1].target.placement
            better = suggest(recording, placement=last, best=args.suggest, **given)
    if args.json:
        answer = {
            "recording": args.recording,
            "n_ranks": recording.n_ranks,
            "recorded_seconds": recording.seconds,
            "predictions": [_as_dict(one) for one in predictions],
            "suggestions": list(map(_suggested, better)),
        }
        common.print_json(args, answer)
    else:
        _show(recording, predictions, args.ranks)
        if args.suggest is not None and not better:
            print("found no change of the last placement that saves time")
        for one in better:
            print(console.fill(str(one), console.width_of(sys.stdout)))
            if one.placement is not None and len(one.placement) <= 64:
                print("  --place " + ",".join(map(str, one.placement)))
    return 0 if all(one.complete for one in predictions) else 1


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments for `whatif` and `suggest` that the command line gives."""
    out = {name: getattr(args, name) for name in AS_GIVEN}
    network = {k: v for k in ("alpha", "beta") if (v := getattr(args, k)) is not None}
    for name in ("speed", "share"):
        if (text := getattr(args, name)) is not None:
            values = common.numbers(name, text, float)
            out[name] = values[0] if len(values) == 1 else values
    if args.period is not None:
        out["period"] = 1e-6 * units.microseconds("period", args.period)
    if args.node is not None:
        out["node"] = common.numbers("node", args.node, int)
    return {**out, "network": network}


def _as_dict(one: Prediction) -> dict[str, Any]:
    target = {name: getattr(one.target, name) for name in ("placement", "speed")}
    return target | {"seconds": one.time} | {name: getattr(one, name) for name in PREDICTED}


def _suggested(one: Suggestion) -> dict[str, Any]:
    return {"seconds": one.time} | {name: getattr(one, name) for name in SUGGESTED}


def _percent(part: float, whole: float) -> str | None:
    return f"{100 * part / whole:.0f} %" if whole > 0 else None


def _show(recording: Recording, predictions: list[Prediction], ranks: bool) -> None:
    took = "" if recording.seconds is None else f", {recording.seconds:.4g} s when recorded"
    title = f"{recording.n_ranks} ranks, {recording.n_ops} operations{took}"
    rows = [
        [
            ",".join(map(str, one.target.placement)),
            one.time,
            _percent(one.processor_busy.sum(), one.time * len(one.target.speed)),
            _percent(one.waiting.sum(), one.finish.sum()),
            None if one.complete else "incomplete",
        ]
        for one in predictions
    ]
    columns = ["placement", "seconds", "used", "waiting", ""]
    console.show(columns, rows, title=title, drop_empty=True, notes=NOTES)
    if ranks:
        for one in predictions:
            print()
            cells = zip(one.finish, one.busy, one.waiting, one.paused, one.end, strict=True)
            console.show(
                ["rank", "processor", *RANKS],
                [[r, one.target.placement[r], *row] for r, row in enumerate(cells)],
                title=",".join(map(str, one.target.placement)),
                notes=RANKS if one is predictions[-1] else None,
            )
