"""Change a lab while its command runs: at a given time, or at a moment announced by the command."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pylb.errors import DomainError
from pylb.lab.plan import Change

MOST_WORDS = 4096  # reading the name of a moment stops at this number of bytes
PATIENCE = 5.0  # seconds to wait for the name of a moment


class Done(NamedTuple):
    """A change that was made: seconds after the start, the change, and its error or "".

    Examples
    --------
    >>> pylb.lab.Done(20.1, pylb.lab.Change(at=20.0, values={"share": 0.25})).failed
    ''
    """

    seconds: float
    change: Change
    failed: str = ""


@contextmanager
def running(
    changes: Sequence[Change], path: Path, apply: Callable[[Change], None]
) -> Iterator[list[Done]]:
    """Make each change when its time comes, in a thread; yield the list of changes made so far.

    `path` is the socket to which `announce` sends names of moments.  `apply` makes a change.
    """
    done: list[Done] = []
    if not changes:
        yield done
        return
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mine, theirs = socket.socketpair()
    with listener, mine, theirs:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        listener.listen(1024)
        clock = _Clock(changes, apply, done)
        thread = threading.Thread(target=clock.run, args=(listener, theirs))
        thread.start()
        try:
            yield done
        finally:
            mine.close()
            thread.join()


class _Clock:
    def __init__(
        self, changes: Sequence[Change], apply: Callable[[Change], None], done: list[Done]
    ) -> None:
        self.start = time.monotonic()
        self.left, self.apply, self.done = sorted(changes, key=lambda c: c.begin), apply, done

    def run(self, listener: socket.socket, end: socket.socket) -> None:
        while True:
            times = [c.at for c in self.left if c.at is not None]
            pause = max(0.0, min(times) - self._elapsed()) if times else None
            ready = select.select([listener, end], [], [], pause)[0]
            if end in ready:
                return
            now = self._elapsed()
            self._make([c for c in self.left if c.at is not None and c.at <= now])
            if listener in ready:
                line = listener.accept()[0]
                with line:
                    try:
                        line.settimeout(PATIENCE)
                        words = b""
                        while (more := line.recv(MOST_WORDS)) and len(words) < MOST_WORDS:
                            words += more
                        moment = words.decode(errors="replace")
                        changed = self._make([c for c in self.left if c.when == moment])
                        line.sendall(b"1" if changed else b"0")
                    except OSError:
                        pass  # the program has ended, or sent no name in time

    def _make(self, now: Sequence[Change]) -> bool:
        for change in now:
            self.left.remove(change)
            failed = ""
            try:
                self.apply(change)
            except (OSError, RuntimeError, DomainError) as why:
                failed = str(why)
            self.done.append(Done(self._elapsed(), change, failed))
        return bool(now)

    def _elapsed(self) -> float:
        return time.monotonic() - self.start


# ---- moments that the program announces ---------------------------------------------------------


VARIABLE = "PYLB_LAB_MOMENTS"
"""Environment variable: the socket on which the lab listens."""


def announce(moment: str) -> bool:
    """Tell the lab that a moment has come; return after the lab has made the changes for it.

    Any rank may call this function; only the first call for a moment counts.  Outside a lab,
    nothing happens.

    Parameters
    ----------
    moment : str
        The name of the moment: `when` of changes in the lab's file.

    Returns
    -------
    bool
        Whether the lab changed anything.

    Examples
    --------
    >>> pylb.lab.announce("half")  # outside a lab
    False
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        line.sendall(moment.encode())
        line.shutdown(socket.SHUT_WR)
        return line.recv(1) == b"1"
