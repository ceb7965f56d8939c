"""Keep ranks with limited memory alive while they page.

Where a program touches its memory again and again, Linux's reclaim for a control group of version 1
now and then finds no page to take in its sixteen attempts, and kills the program although swap is
free (seen on 6.18: once in some 10^4 to 10^5 page faults).  So the killer is off in the ranks'
groups; a rank that reclaim has failed sleeps, and is given a little more memory for a moment.  With
swap full the killer comes on again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pylb.lab.swap import swap_free

PAUSE = 0.005  # seconds between two looks
STEP = 2**19  # bytes that a rank gets that has stopped
AGAIN = 0.05  # seconds until it gets as much again
RESERVE = 2**22  # bytes of swap at which it is full


@contextmanager
def keeping(ranks: Callable[[], list[tuple[Path, int]]]) -> Iterator[None]:
    """Look after the groups of the ranks; `ranks` gives their folders and bytes of memory."""
    end = threading.Event()
    thread = threading.Thread(target=_keep, args=(ranks, end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _keep(ranks: Callable[[], list[tuple[Path, int]]], end: threading.Event) -> None:
    raised: dict[Path, float] = {}  # until when
    while not end.wait(PAUSE):
        for group, memory in ranks():
            with suppress(OSError):  # the group has gone, or cannot do with its memory yet
                _look(group, memory, raised)


def _look(group: Path, memory: int, raised: dict[Path, float]) -> None:
    limit, now = group / "memory.limit_in_bytes", time.monotonic()
    if "under_oom 1" in (group / "memory.oom_control").read_text():
        if swap_free() < RESERVE:
            (group / "memory.oom_control").write_text("0")
        if now >= raised.get(group, now):
            raised[group] = now + AGAIN
            limit.write_text(str(int(limit.read_text()) + STEP))
    elif group in raised:
        limit.write_text(str(memory))
        del raised[group]
