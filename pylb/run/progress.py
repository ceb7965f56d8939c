"""The bar of ``lb.iterate(progress=True)``."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from pylb.console import seconds


def shown(say: Callable[[], str], passes: Iterator[int], n: int) -> Iterator[int]:
    """Yield the `n` iterations of a loop, and show a bar on standard error; call it on one rank.

    `say` returns a text about the most recent iteration, which is shown beside the bar.

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
# With these options, a launcher redirects the ranks' output or adds text to it; so there is no bar.
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
