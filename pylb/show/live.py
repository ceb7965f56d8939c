"""Show a run in progress: for ``pylb watch``, and the bar of ``lb.iterate(progress=True)``."""

from __future__ import annotations

import math
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from pylb.console import count, seconds, table
from pylb.decide.receipts import Receipt
from pylb.show.course import Course

BLOCKS = "▁▂▃▄▅▆▇█"
MOST_RANKS = 24  # lines of the table; if there are more ranks, only the slowest ones are shown
RECENT = 48  # number of iterations in a spark line


def spark(values: Any, top: float) -> str:
    """Draw values of 0 ... `top` as a line of blocks."""
    level = np.clip(np.asarray(values) / (top or 1.0) * (len(BLOCKS) - 1), 0, len(BLOCKS) - 1)
    return "".join(BLOCKS[round(x)] for x in level.tolist())


def state(course: Course) -> dict[str, Any]:
    """Return the state of the run, ready for JSON."""
    recent = course.times[-RECENT:]
    last = course.times[-1]
    mean = float(last.mean())
    decision = course.history[-1] if course.history else None
    order = np.argsort(-recent.mean(axis=0), kind="stable")[:MOST_RANKS]
    return {
        **course.figures(),
        "max": float(last.max()),
        "mean": mean,
        "max_over_mean": float(last.max()) / mean if mean > 0 else 1.0,
        "verdict": course.verdict,
        "decision": None if decision is None else decision.headline,
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
    """Return the seconds per iteration that the chosen strategy is expected to save.

    If no strategy was chosen: the most that any strategy is expected to save.  None: not known.
    """
    gains = {a.strategy: a.gain for a in r.alternatives if a.strategy and not math.isnan(a.gain)}
    return gains.get(r.strategy) if r.strategy else max(gains.values(), default=None)


def rows(now: dict[str, Any], ranks: int = MOST_RANKS, recent: int = RECENT) -> list[list[str]]:
    """Return a line for each shown rank: rank, seconds, ratio to the mean, recent iterations."""
    top = max((max(r["recent"]) for r in now["slowest"]), default=0.0)
    mean = now["mean"]
    return [
        [
            str(r["rank"]),
            seconds(r["seconds"]),
            f"{r['seconds'] / mean:.2f}" if mean > 0 else "",
            spark(r["recent"][-recent:], top),
        ]
        for r in now["slowest"][:ranks]
    ]


COLUMNS = ("rank", "last iteration", "/ mean", "recent iterations")


def head(now: dict[str, Any]) -> str:
    """Describe the run in one line."""
    return (
        f"{count(now['iterations'], 'iteration')} of {count(now['n_objects'], 'object')} on "
        f"{count(now['n_ranks'], 'rank')} in "
        f"{seconds(now['seconds'])}; max/mean now {now['max_over_mean']:.3f}; "
        f"{count(now['n_lb_steps'], 'LB step')} (cost {seconds(now['lb_cost'])})"
    )


def foot(now: dict[str, Any]) -> str:
    """Describe the most recent decision and its expected gain."""
    if now["decision"] is None:
        return "No decision yet."
    gain = now["expected_gain"]
    told = "" if gain is None else f"Expected gain: {seconds(gain)} per iteration. "
    return f"{told}{now['decision']}."


class View:
    """Draws a `state` with the package rich, shortened to the size of the terminal."""

    SPENT = 4  # lines other than head, foot and ranks, including the cursor's line

    def __init__(self, now: dict[str, Any]) -> None:
        self._now = now

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        width, height = options.max_width, console.size.height
        above = list(Text(f"{self._now['verdict']}.", "bold").wrap(console, width))
        above += Text(head(self._now)).wrap(console, width)
        below = list(Text(foot(self._now)).wrap(console, width))
        if len(below) > height // 3:
            below = below[: height // 3]
            below[-1].truncate(width - 1)
            below[-1].append("…")
        ranks = max(height - len(above) - len(below) - self.SPENT, 1)
        yield from above
        recent = width - len(table(COLUMNS, rows(self._now, ranks, 1))[0]) + len(COLUMNS[-1])
        yield from map(Text, table(COLUMNS, rows(self._now, ranks, recent)))
        more = self._now["n_ranks"] - min(ranks, len(self._now["slowest"]))
        if more > 0:
            yield Text(f"and {count(more, 'rank')} that are faster")
        yield from below


# ---- the bar --------------------------------------------------------------------------------


def progress(say: Callable[[], str], passes: Iterator[int], n: int) -> Iterator[int]:
    """Yield the `n` iterations of a loop, and show a bar on standard error; call it on one rank.

    `say` returns a text on the most recent iteration, which stands beside the bar.

    Without the package rich or a terminal, print lines instead of the bar.
    """
    columns = terminal() if find_spec("rich") else None
    bar = _Lines(n, sys.stderr) if columns is None else _Bar(n, columns)
    with closing(passes), closing(bar):  # type: ignore[type-var]
        for done, it in enumerate(passes):
            if done:
                bar.update(done, say)
            yield it
        if n:
            bar.update(n, say)


LAUNCHERS = ("mpiexec", "mpirun", "orterun", "prterun", "mpiexec.hydra")
# Options of launchers that redirect the output of the ranks, or add text to its lines: no bar then.
ADDED = re.compile(r"-l|--?(output|.*-output|.*output-.*|prepend-.*)(=.*)?")


def terminal() -> int | None:
    """Return the width of the terminal to which standard error is connected, or None.

    An MPI launcher reads the standard error of its ranks through a pipe, and copies the text to its
    own standard error.  So this function looks at the standard error of a launcher on this host.
    """
    if sys.stderr is not sys.__stderr__ or sys.stderr is None:
        return None
    try:
        if sys.stderr.isatty():
            return os.get_terminal_size(sys.stderr.fileno()).columns
        piped = stat.S_ISFIFO(os.fstat(sys.stderr.fileno()).st_mode)
        return _of_launcher() if piped else None
    except (OSError, ValueError):
        return None


def _of_launcher() -> int | None:
    pid = os.getppid()
    while pid > 1:
        process = Path(f"/proc/{pid}")
        words = process.joinpath("cmdline").read_bytes().split(b"\0")
        if os.path.basename(words[0].decode()) in LAUNCHERS:
            if any(ADDED.fullmatch(word.decode()) for word in words):
                return None
            terminal = os.open(process / "fd" / "2", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                return os.get_terminal_size(terminal).columns if os.isatty(terminal) else None
            finally:
                os.close(terminal)
        pid = int(process.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    return None


class _Bar:
    """A progress bar by rich, on a terminal."""

    def __init__(self, n: int, columns: int) -> None:
        from rich import progress as bars
        from rich.console import Console

        self._progress = bars.Progress(
            bars.TextColumn("iterations"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[said]}"),
            console=Console(stderr=True, force_terminal=True, width=columns or None),
        )
        self._task = self._progress.add_task("", total=n, said="")
        self._progress.start()

    def update(self, done: int, say: Callable[[], str]) -> None:
        self._progress.update(self._task, completed=done, said=say())

    def close(self) -> None:
        """Stop, and keep the bar on the screen."""
        self._progress.stop()


class _Lines:
    """Prints a line after each tenth of the iterations, at most one per second."""

    EVERY = 1.0

    def __init__(self, n: int, file: TextIO) -> None:
        self._n, self._file = n, file
        self._begin = self._said = time.monotonic()
        self._tenth = 0

    def update(self, done: int, say: Callable[[], str]) -> None:
        """Print that `done` iterations have ended, if a line is due."""
        now, tenth = time.monotonic(), 10 * done // self._n
        if tenth == self._tenth or (now - self._said < self.EVERY and done < self._n):
            return
        self._said, self._tenth = now, tenth
        left = (now - self._begin) / done * (self._n - done)
        print(
            f"pylb: iteration {done} of {self._n}, {say()}, {seconds(left)} left",
            file=self._file,
            flush=True,
        )

    def close(self) -> None:
        """Do nothing."""
