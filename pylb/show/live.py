"""Show a run in progress, for ``pylb watch``."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np

from pylb import console
from pylb.console import count, fill, seconds
from pylb.decide.receipts import Receipt
from pylb.errors import DomainError
from pylb.show.course import Course

BLOCKS = "▁▂▃▄▅▆▇█"
MOST_RANKS = 24  # lines of the table; if there are more ranks, only the slowest ones are shown
RECENT = 48  # number of iterations in a spark line


def check_interval(name: str, seconds: float) -> None:
    if not 0.05 <= seconds <= 3600:
        raise DomainError(f"{name} is {seconds}: expected seconds, 0.05 ... 3600")


def spark(values: Any, top: float) -> str:
    """Draw values of 0 ... `top` as a line of blocks."""
    level = np.clip(np.asarray(values) / (top or 1.0) * (len(BLOCKS) - 1), 0, len(BLOCKS) - 1)
    return "".join(BLOCKS[round(x)] for x in level.tolist())


def state(course: Course) -> dict[str, Any]:
    """Return the state of the run, ready for JSON."""
    recent = course.times[-RECENT:]
    last = course.times[-1]
    decision = course.history[-1] if course.history else None
    order = np.argsort(-recent.mean(axis=0), kind="stable")[:MOST_RANKS]
    return {
        **course.figures(),
        "max": float(last.max()),
        "mean": float(last.mean()),
        "max_over_mean": float(course.max_over_mean[-1]),
        "verdict": course.verdict,
        "when": course.when,
        "decision": None if decision is None else decision.headline,
        "expected_gain": None if decision is None else _gain(decision),
        "slowest": [
            {
                "rank": int(r),
                "seconds": float(last[r]),
                "mean": float(recent[:, r].mean()),
                "recent": recent[:, r].tolist(),
            }
            for r in order
        ],
    }


def _gain(r: Receipt) -> float | None:
    """Return the seconds per iteration that the chosen or best strategy is expected to save."""
    gains = {a.strategy: a.gain for a in r.alternatives if a.strategy and not math.isnan(a.gain)}
    return gains.get(r.strategy) if r.strategy else max(gains.values(), default=None)


def ranks(now: dict[str, Any], most: int = MOST_RANKS, recent: int = RECENT) -> list[str]:
    """Return the table of the shown ranks: seconds, ratio to the mean, recent iterations."""
    shown, mean = sorted(now["slowest"][:most], key=itemgetter("rank")), now["mean"]
    top = max((max(r["recent"]) for r in now["slowest"]), default=0.0)
    columns = {
        "rank": [str(r["rank"]) for r in shown],
        "last iteration": [seconds(r["seconds"]) for r in shown],
        "/ mean": [f"{r['seconds'] / mean:.2f}" if mean > 0 else "" for r in shown],
        "recent iterations": [spark(r["recent"][-recent:], top) for r in shown],
    }
    return console.lines(columns.items())


def head(now: dict[str, Any]) -> str:
    """Describe the run in one line."""
    return (
        f"{count(now['iterations'], 'iteration')} of {count(now['n_objects'], 'object')} on "
        f"{count(now['n_ranks'], 'rank')} in "
        f"{seconds(now['seconds'])}; max/mean now {now['max_over_mean']:.3f}; "
        f"{count(now['n_lb_steps'], 'LB step')} (cost {seconds(now['lb_seconds'])})"
    )


def foot(now: dict[str, Any]) -> str:
    """Say when LB steps took place; describe the most recent decision and its expected gain."""
    if now["decision"] is None:
        return "No decision yet."
    gain = now["expected_gain"]
    told = f" An LB step would gain {seconds(gain)} per iteration." if gain else ""
    return f"{now['when']} {now['decision']}.{told}".strip()


SPENT = 4  # lines of a terminal besides head, foot and ranks, including the cursor's line


def lines(now: dict[str, Any], width: int, height: int = 10**6) -> list[str]:
    """Return a `state` as lines; on a terminal of this height, fewer ranks may be shown."""
    above = [*fill(f"{now['verdict']}.", width).split("\n"), *fill(head(now), width).split("\n")]
    below = fill(foot(now), width).split("\n")
    if len(below) > height // 3:
        below = below[: height // 3]
        below[-1] = f"{below[-1][: width - 1]}\N{HORIZONTAL ELLIPSIS}"
    room = max(height - len(above) - len(below) - SPENT, 1)
    shown = ranks(now, room, width - ranks(now, room, 1)[0].index("recent"))
    more = now["n_ranks"] - min(room, len(now["slowest"]))
    if more > 0:
        shown.append(f"and {count(more, 'rank')} that are faster")
    return above + shown + below
