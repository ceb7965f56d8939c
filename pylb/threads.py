"""Threads whose work ends soon after Ctrl-C, although only the main thread receives the signal."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

from pylb import _core


@contextmanager
def stoppable(n: int) -> Iterator[futures.ThreadPoolExecutor]:
    """Open a pool of `n` threads that stop if the block raises an exception.

    Tasks that have not started are then cancelled.  In a running task, the next call of
    `_core.check_signals`, or of a function of the core that checks for signals, raises
    KeyboardInterrupt.  The block ends when all threads have ended.
    """
    stop: list[bool] = []
    with futures.ThreadPoolExecutor(n, initializer=_core.stop_when, initargs=(stop,)) as pool:
        try:
            yield pool
        except BaseException:
            stop.append(True)
            pool.shutdown(wait=False, cancel_futures=True)
            raise
