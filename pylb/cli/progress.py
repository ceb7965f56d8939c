"""Show on the terminal what a command is doing, if it takes more than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before the line appears
CLEAR = "\r\x1b[K"


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show `what` and the seconds so far on a terminal's standard error.

    Yields a function that sets the words after `what`, e.g. ``say("with GreedyLB")``.
    """
    text = what

    def say(more: str) -> None:
        nonlocal text
        text = f"{what} {more}"

    if not sys.stderr.isatty():
        yield say
        return
    begun, done = time.monotonic(), threading.Event()

    def show() -> None:
        wait, shown = PATIENCE, False
        while not done.wait(wait):
            wait, shown = 0.5, True
            spent = time.monotonic() - begun
            print(f"{CLEAR}pylb: {text}, {spent:.0f} s", end="", file=sys.stderr, flush=True)
        if shown:
            print(CLEAR, end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        done.set()
        thread.join()
