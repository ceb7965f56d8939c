"""Limit the memory of ranks such that the kernel does not kill them.

A program that keeps using more memory than the limit of its control group (version 1) is sometimes
killed, although swap is free: Linux tries sixteen times to find a page to swap out, and gives up
(seen with Linux 6.18, once in some 10^4 to 10^5 page faults).  If the kernel is told not to kill,
system calls fail instead.  Therefore the group has a higher limit than the rank, by `SLACK` bytes.
A thread makes the kernel swap out the memory above the rank's limit, and tries again if that fails.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pylb.lab.shares import SLACK

PAUSE = 0.002  # seconds between two checks; a fast disk reads some 2 MB in this time


@contextmanager
def keeping(ranks: Callable[[], list[tuple[Path, int]]]) -> Iterator[None]:
    """Keep the ranks within their memory limits while the block runs.

    ranks: returns (group, limit in bytes) for each rank.
    """
    end = threading.Event()
    thread = threading.Thread(target=_keep, args=(ranks, end))
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _keep(ranks: Callable[[], list[tuple[Path, int]]], end: threading.Event) -> None:
    with suppress(OSError):  # real-time priority if permitted, like the metronomes
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while not end.wait(PAUSE):
        for group, memory in ranks():
            with suppress(OSError):  # raised if the group is gone
                if int((group / "memory.usage_in_bytes").read_text()) > memory:
                    _take_back(group / "memory.limit_in_bytes", memory)


def _take_back(limit: Path, memory: int) -> None:
    with suppress(OSError):  # the kernel found no page to swap out
        limit.write_text(str(memory))
    limit.write_text(str(memory + SLACK))
