"""A run while it goes on: what `pylb watch` shows, and the bar of ``lb.iterate(progress=True)``."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from pylb import parts, sentences
from pylb.receipts import Receipt
from pylb.show.course import Course

if TYPE_CHECKING:
    from pylb.runtime.balancer import Balancer

BLOCKS = "▁▂▃▄▅▆▇█"
MOST_RANKS = 24  # lines of the table; of more ranks the slowest ones
RECENT = 48  # iterations of a spark line


def spark(values: Any, top: float) -> str:
    """Values of 0 ... `top` as a line of blocks."""
    level = np.clip(np.asarray(values) / (top or 1.0) * (len(BLOCKS) - 1), 0, len(BLOCKS) - 1)
    return "".join(BLOCKS[round(x)] for x in level.tolist())


def state(course: Course) -> dict[str, Any]:
    """How the run stands, ready for JSON."""
    recent = course.times[-RECENT:]
    last = course.times[-1]
    mean = float(last.mean())
    decision = course.history[-1] if course.history else None
    balancings = [r for r in course.history if r.balanced and r.moved]
    order = np.argsort(-recent.mean(axis=0), kind="stable")[:MOST_RANKS]
    return {
        "iterations": course.n_iterations,
        "ranks": course.n_ranks,
        "objects": course.n_objects,
        "seconds": float(course.elapsed.sum() + course.costs.sum()),
        "max": float(last.max()),
        "mean": mean,
        "max_over_mean": float(last.max()) / mean if mean > 0 else 1.0,
        "balancings": len(balancings),
        "balancing_seconds": math.fsum(r.cost for r in balancings),
        "saved": math.fsum(r.gain for r in balancings if not math.isnan(r.gain)),
        "decision": None if decision is None else decision.explain(),
        "expected_gain": None if decision is None else expected(decision),
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


def expected(r: Receipt) -> float | None:
    """Seconds an iteration that balancing was expected to save: of what was chosen, or the most."""
    gains = [a.gain for a in r.alternatives if a.strategy and not math.isnan(a.gain)]
    chosen = [a.gain for a in r.alternatives if a.strategy and a.strategy == r.strategy]
    known = chosen or gains
    return max(known) if known else None


def rows(now: dict[str, Any]) -> list[list[str]]:
    """A line for each rank that is shown: rank, seconds, over the mean, the last iterations."""
    top = max((max(r["recent"]) for r in now["slowest"]), default=0.0)
    mean = now["mean"]
    return [
        [
            str(r["rank"]),
            sentences.seconds(r["seconds"]),
            f"{r['seconds'] / mean:.2f}" if mean > 0 else "",
            spark(r["recent"], top),
        ]
        for r in now["slowest"]
    ]


COLUMNS = ("rank", "last iteration", "/ mean", "the iterations before")


def head(now: dict[str, Any]) -> str:
    """The run in a line."""
    saved = f", saved {sentences.seconds(now['saved'])}" if now["balancings"] else ""
    return (
        f"{now['iterations']} iterations of {now['objects']} objects on {now['ranks']} ranks in "
        f"{sentences.seconds(now['seconds'])}; max/mean {now['max_over_mean']:.3f}; "
        f"{sentences.count(now['balancings'], 'balancing')} "
        f"({sentences.seconds(now['balancing_seconds'])}{saved})"
    )


def foot(now: dict[str, Any]) -> str:
    """The last decision, and what it was expected to gain."""
    if now["decision"] is None:
        return "No decision yet."
    gain = now["expected_gain"]
    more = "" if gain is None else f" Expected gain: {sentences.seconds(gain)} an iteration."
    return f"{now['decision']}{more}"


# ---- the bar --------------------------------------------------------------------------------


def progress(lb: Balancer, passes: Iterator[int], n: int) -> Iterator[int]:
    """The passes of a loop of `n`, with a bar on standard error; for one rank, of all."""
    bar = _Bar(n) if sys.stderr.isatty() else _Lines(n, sys.stderr)
    with closing(passes), closing(bar):  # type: ignore[type-var]
        for done, it in enumerate(passes):
            if done:
                bar.update(done, lb)
            yield it
        bar.update(n, lb)


def _said(lb: Balancer) -> str:
    row = lb.last_row
    if row is None:
        return ""
    ratio = row.max / row.mean if row.mean > 0 else 1.0
    return f"max/mean {ratio:.2f}, {sentences.count(lb.n_balancings, 'balancing')}"


class _Bar:
    """rich's, on a terminal."""

    def __init__(self, n: int) -> None:
        parts.require("rich")
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("iterations"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[said]}"),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=n, said="")
        self._progress.start()

    def update(self, done: int, lb: Balancer) -> None:
        """`done` iterations are over."""
        self._progress.update(self._task, completed=done, said=_said(lb))

    def close(self) -> None:
        """Leave the bar as it is."""
        self._progress.stop()


class _Lines:
    """A line for each tenth, and no more than one a second: for a file, or under mpiexec."""

    EVERY = 1.0

    def __init__(self, n: int, file: TextIO) -> None:
        self._n, self._file = n, file
        self._begin = self._said = time.monotonic()
        self._tenth = 0

    def update(self, done: int, lb: Balancer) -> None:
        """`done` iterations are over."""
        now, tenth = time.monotonic(), 10 * done // self._n
        if tenth == self._tenth or (now - self._said < self.EVERY and done < self._n):
            return
        self._said, self._tenth = now, tenth
        left = (now - self._begin) / done * (self._n - done)
        print(
            f"pylb: iteration {done} of {self._n}, {_said(lb)}, {sentences.seconds(left)} left",
            file=self._file,
            flush=True,
        )

    def close(self) -> None:
        """Nothing to end."""
