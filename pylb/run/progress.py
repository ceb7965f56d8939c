"""The bar of ``lb.iterate(progress=True)``."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

from pylb.console import seconds

EVERY = 1.0  # seconds between two lines
Update = Callable[[int], None]  # shows that so many iterations have ended


def shown(say: Callable[[], str], passes: Iterator[int], n: int) -> Iterator[int]:
    """Yield the `n` iterations of a loop, and show a bar on standard error; call it on one rank.

    `say` returns a text about the most recent iteration, which is shown beside the bar.  Without
    the package rich or a terminal, print lines instead of the bar.
    """
    columns = terminal() if find_spec("rich") else None
    with closing(passes), ExitStack() as bar:  # type: ignore[type-var]
        update = _lines(n, say) if columns is None else _bar(n, say, columns, bar)
        for done, it in enumerate(passes):
            if done:
                update(done)
            yield it
        if n:
            update(n)


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


def _bar(n: int, say: Callable[[], str], columns: int, stack: ExitStack) -> Update:
    """Show a bar by rich until the stack is closed."""
    from rich import progress as bars
    from rich.console import Console

    progress = bars.Progress(
        bars.TextColumn("iterations"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("{task.fields[said]}"),
        console=Console(stderr=True, force_terminal=True, width=columns or None),
    )
    task = progress.add_task("", total=n, said="")
    stack.enter_context(progress)
    return lambda done: progress.update(task, completed=done, said=say())


def _lines(n: int, say: Callable[[], str]) -> Update:
    """Print a line after each tenth of the iterations, at most one per second."""
    begin = last = time.monotonic()
    last_tenth = 0

    def update(done: int) -> None:
        nonlocal last, last_tenth
        now, tenth = time.monotonic(), 10 * done // n
        if tenth > last_tenth and (now - last >= EVERY or done == n):
            last, last_tenth = now, tenth
            left = seconds((now - begin) / done * (n - done))
            text = f"pylb: iteration {done} of {n}, {say()}, {left} left"
            print(text, file=sys.stderr, flush=True)

    return update
