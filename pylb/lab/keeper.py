"""Limit the memory of ranks without having them killed.

If a program keeps touching more memory than its limit, Linux's reclaim for a control group of
version 1 occasionally finds no page in its sixteen attempts, and kills the program although swap is
free (seen on 6.18: once in some 10^4 to 10^5 page faults).  With the killer off, system calls fail
instead.  Therefore the group's own limit is much higher, and this thread makes the kernel take back
the memory above the rank's limit, again and again if that fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pylb.lab.shares import SLACK

PAUSE = 0.002  # seconds between two looks; a fast disk reads some 2 MB in this time


@contextmanager
def keeping(ranks: Callable[[], list[tuple[Path, int]]]) -> Iterator[None]:
    """Watch the groups of the ranks; `ranks` returns their folders and bytes of memory."""
    end = threading.Event()
    thread = threading.Thread(target=_keep, args=(ranks, end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _keep(ranks: Callable[[], list[tuple[Path, int]]], end: threading.Event) -> None:
    with suppress(OSError):  # like the metronomes
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while not end.wait(PAUSE):
        for group, memory in ranks():
            with suppress(OSError):  # the group is gone
                if int((group / "memory.usage_in_bytes").read_text()) > memory:
                    _take_back(group / "memory.limit_in_bytes", memory)


def _take_back(limit: Path, memory: int) -> None:
    with suppress(OSError):  # the kernel found no page this time
        limit.write_text(str(memory))
    limit.write_text(str(memory + SLACK))
