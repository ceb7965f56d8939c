"""``pylb whatif``: a recorded MPI program on other processors."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from typing import Any

from pylb import console
from pylb.errors import DomainError
from pylb.lab.shares import parse_period
from pylb.whatif.prediction import MATCHING, WAITING, Prediction, whatif
from pylb.whatif.recorder.recording import Recording
from pylb.whatif.suggestion import Suggestion, suggest

HELP = "predict the time of a recorded MPI program under other placements"
EXAMPLES = """\
  pylb whatif run --place 0,0,1,1
  pylb whatif run --place 0,1,0,1 --place 0,0,0,1 --speed 1,0.5
  pylb whatif run --place 0,1 --share 0.9,0.45         (as under pylb lab --share 0.9,0.45)
  pylb whatif run --place 0,0,1,1 --suggest 3
  pylb whatif run --place 0,1,2,3 --node 0,0,1,1 --alpha 2e-6 --beta 1e-9 --json

columns: predicted seconds from the end of MPI_Init to the last MPI_Finalize, the part of the
processors' time that is used, the part of the ranks' time that they wait within MPI
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``pylb whatif``."""
    add = parser.add_argument
    add("recording", metavar="RUN", help="file that pylb record wrote")
    add(
        "--place",
        action="append",
        metavar="Q,...",
        help="processor of each rank; may be given several times (default: each has its own)",
    )
    add("--speed", metavar="X,...", help="of each processor, 1: as recorded; one value serves all")
    add("--share", metavar="X,...", help="part of each processor that there is, as of pylb lab")
    add("--period", help="in which a share is given out (default: 5ms; none if ranks wait asleep)")
    add("--node", metavar="N,...", help="of each processor (default: all on one)")
    add("--alpha", type=float, help="seconds of a message (default: as recorded)")
    add("--beta", type=float, help="seconds of a byte")
    add("--overhead", type=float, help="processor seconds of a call of MPI")
    add("--eager", type=int, help="bytes up to which a message needs no receive to be sent")
    add("--quantum", type=float, help="seconds of a turn on a shared processor; 0: equal shares")
    add("--waiting", choices=WAITING, help="what a rank that waits does to its processor")
    add("--matching", choices=MATCHING, default="arrival", help="of receives from any source")
    add(
        "--suggest",
        type=int,
        metavar="N",
        help="search from the last --place: the N changes that would save most",
    )
    add("--ranks", action="store_true", help="a row for each rank")
    add("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Predict each placement; what makes it doubtful goes to standard error."""
    recording = Recording.read(args.recording)
    network = {k: v for k in ("alpha", "beta") if (v := getattr(args, k)) is not None}
    given: dict[str, Any] = {
        name: getattr(args, name)
        for name in ("overhead", "eager", "quantum", "waiting", "matching")
    }
    if args.speed is not None:
        speeds = numbers("speed", args.speed, float)
        given["speed"] = speeds[0] if len(speeds) == 1 else speeds
    if args.share is not None:
        shares = numbers("share", args.share, float)
        given["share"] = shares[0] if len(shares) == 1 else shares
    if args.period is not None:
        given["period"] = 1e-6 * parse_period(args.period)
    if args.node is not None:
        given["node"] = numbers("node", args.node, int)
    places = [
        None if text is None else numbers("place", text, int) for text in args.place or [None]
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = [whatif(recording, placement=p, network=network, **given) for p in places]
        better: list[Suggestion] = []
        if args.suggest is not None:
            last = told[-1].target.placement
            better = suggest(recording, placement=last, best=args.suggest, network=network, **given)
    for text in dict.fromkeys(str(one.message) for one in caught):
        print(f"pylb: {text}", file=sys.stderr)
    if args.json:
        rows = [as_dict(one) for one in told]
        found = [_suggested(one) for one in better]
        head = {"run": args.recording, "ranks": recording.n_ranks, "seconds": recording.seconds}
        print(
            json.dumps(
                head | {"predictions": rows, "suggestions": found}, indent=2, allow_nan=False
            )
        )
    else:
        _show(recording, told, args.ranks)
        for one in better:
            print(one)
            if one.placement is not None and len(one.placement) <= 64:
                print("  --place " + ",".join(map(str, one.placement)))
    return 0 if all(one.complete for one in told) else 1


def _suggested(one: Suggestion) -> dict[str, Any]:
    placement = None if one.placement is None else one.placement.tolist()
    return {
        "time": one.time,
        "saves": one.saves,
        "placement": placement,
        "procedure": one.procedure,
        "reason": one.reason,
    }


def numbers(name: str, text: str, kind: type) -> list[Any]:
    """``"0,0.5"`` as numbers."""
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise DomainError(f"{name} is {text!r}: expected {what} with commas between") from None


def as_dict(told: Prediction) -> dict[str, Any]:
    """A prediction for JSON."""
    return {
        "placement": told.target.placement.tolist(),
        "speed": told.target.speed.tolist(),
        "time": told.time,
        "complete": told.complete,
        "finish": told.finish.tolist(),
        "busy": told.busy.tolist(),
        "waiting": told.waiting.tolist(),
        "end": told.end,
        "warnings": told.warnings,
    }


def _percent(part: float, whole: float) -> str | None:
    return f"{100 * part / whole:.0f}%" if whole > 0 else None


def _show(recording: Recording, told: list[Prediction], ranks: bool) -> None:
    took = "" if recording.seconds is None else f", {recording.seconds:.4g} s when recorded"
    title = f"{recording.n_ranks} ranks, {recording.n_ops} operations{took}"
    rows = [
        [
            ",".join(map(str, one.target.placement)),
            one.time,
            _percent(one.processor_busy.sum(), one.time * len(one.target.speed)),
            _percent(one.waiting.sum(), one.finish.sum()),
            "" if one.complete else "incomplete",
        ]
        for one in told
    ]
    console.show(["placement", "seconds", "used", "waiting", ""], rows, title=title)
    if ranks:
        for one in told:
            print()
            cells = zip(one.finish, one.busy, one.waiting, one.paused, one.end, strict=True)
            console.show(
                ["rank", "processor", "ends", "works", "waits", "pauses", ""],
                [[r, one.target.placement[r], *row] for r, row in enumerate(cells)],
                title=",".join(map(str, one.target.placement)),
            )
