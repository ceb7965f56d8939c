"""Keep ranks to their memory without having them killed.

Where a program touches more memory than it may have again and again, Linux's reclaim for a control
group of version 1 now and then finds no page to take in its sixteen attempts, and kills the program
although swap is free (seen on 6.18: once in some 10^4 to 10^5 page faults).  With the killer off,
system calls fail instead.  So the group's own limit is much higher, and this thread has the
kernel take back what is above the rank's: where that fails it tries again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pylb.lab.shares import SLACK

PAUSE = 0.002  # seconds between two looks; a fast disk brings some 2 MB in them


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
    with suppress(OSError):  # as the metronomes
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while not end.wait(PAUSE):
        for group, memory in ranks():
            with suppress(OSError):  # the group has gone
                if int((group / "memory.usage_in_bytes").read_text()) > memory:
                    _take_back(group / "memory.limit_in_bytes", memory)


def _take_back(limit: Path, memory: int) -> None:
    with suppress(OSError):  # nothing was found this time
        limit.write_text(str(memory))
    limit.write_text(str(memory + SLACK))
