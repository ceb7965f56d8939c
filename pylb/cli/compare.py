"""``pylb compare``: compare two recorded runs, where their time went, and their LB steps."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pylb import console
from pylb.cli import common
from pylb.decide.receipts import Receipt
from pylb.decide.sentences import OWN
from pylb.show import course
from pylb.show.comparison import Comparison, Counted
from pylb.show.course import Course

HELP = "compare two recorded runs: where their time went, and their LB steps"
EXAMPLES = """\
  pylb demo --save auto.h5
  pylb demo --every 10 --strategy RefineLB --save every10.h5
  pylb compare auto.h5 every10.h5
  pylb compare auto.h5 every10.h5 --json
"""

NOTES = {
    "cost": "time of the LB step, and the extra time of the first iterations after it",
    "gain": "time that the LB step saved against the placement before it, until the next LB step",
    "moved": "number of objects that migrated",
}
ROWS = {
    "computing": "computing, mean of the ranks",
    "imbalance": "waiting for the slowest rank",
    "messages": "messages, waits for cores, all else",
    "balancing_seconds": "LB steps",
    "seconds": "the whole run",
}
COUNTS = {"iterations": "number of iterations", "balancings": "number of LB steps"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help = "a run record (.h5, or .json by pylb's C library), or a folder of vt's files"
    parser.add_argument("first", metavar="A", help=help)
    parser.add_argument("second", metavar="B", help="another run")
    common.add_json(parser)


def run(args: argparse.Namespace) -> int:
    with common.noting_warnings():
        both = Comparison(*(course.of(path) for path in (args.first, args.second)))
    for doubt in both.doubts():
        console.note(f"the runs differ: {doubt}")
    if args.json:
        common.print_json(args, {"first": args.first, "second": args.second, **both.to_dict()})
        return 0
    a, b = _titles(args.first, args.second)
    _show_time(both, a, b)
    print()
    _show_steps(both, a, b)
    return 0


def _titles(first: str, second: str) -> tuple[str, str]:
    """Return the end of each path, just long enough to tell the two paths apart."""
    a, b = Path(first).parts, Path(second).parts
    same = next((n for n in range(1, max(len(a), len(b)) + 1) if a[-n:] != b[-n:]), 1)
    return "/".join(a[-same:]), "/".join(b[-same:])


def _show_time(both: Comparison, a: str, b: str) -> None:
    rows: list[list[Any]] = []
    one, two = both.spent
    for name, words in ROWS.items():
        x, y = getattr(one, name), getattr(two, name)
        rows.append([words, console.seconds(x), console.seconds(y), _signed(y - x)])
    if one.saved is not None and two.saved is not None:
        saved = map(console.seconds, (one.saved, two.saved))
        rows.append(["saved by LB steps", *saved, _signed(two.saved - one.saved)])
    first, second = both.counted
    for name, words in COUNTS.items():
        x, y = getattr(first, name), getattr(second, name)
        rows.append([words, x, y, f"{y - x:+d}" if y != x else "0"])
    for words, *cells in zip(("number of migrations", "moved"), *map(_moves, both), strict=True):
        rows.append([words, *cells, None])
    title = f"{b} took {_times(both.speedup)} {a}"
    console.show(["", a, b, "difference"], rows, title=title, drop=["difference"])


def _moves(run: Course) -> tuple[Any, Any]:
    """Return the number of migrations, and their size as text; None: not known."""
    if any(r.strategy == OWN for r in run.balancings):
        return None, None
    n = Counted.of(run)
    return n.migrations, None if n.migrations and not n.bytes else console.size(n.bytes)


def _times(speedup: float) -> str:
    if 0.995 < speedup < 1.005:
        return "as long as"
    longer = speedup < 1
    percent = 100 * (1 / speedup - 1 if longer else 1 - 1 / speedup)
    return f"{percent:.3g} % {'longer' if longer else 'less time'} than"


def _signed(difference: float) -> str:
    return ("+" if difference > 0 else "-") * (difference != 0) + console.seconds(abs(difference))


def _show_steps(both: Comparison, a: str, b: str) -> None:
    rows = [[step.iteration, *_cells(step.first), *_cells(step.second)] for step in both.steps()]
    if not rows:
        print("Neither run had an LB step.")
        return
    columns = ["after iteration"]
    for name in (a, b):
        columns += [f"{name}:", "cost", "gain", "moved"]
    console.show(columns, rows, title="LB steps", drop=["moved"], notes=NOTES)


def _cells(step: Receipt | None) -> list[Any]:
    if step is None:
        return [None] * 4
    known = step.gain == step.gain  # False for nan
    gain = console.seconds(step.gain) if known else None
    moved = None if step.strategy == OWN else step.migrations
    return [step.strategy, console.seconds(step.cost), gain, moved]
