"""Ranks as threads, of which one runs at a time, each with its own virtual time.

A rank runs until it has to wait for another one.  Then the rank runs that has been ready for the
longest time; with ties, the lowest rank.  So the order is the same in every run.  A rank's time
passes at its speed while it runs; the event that it waits for sets the time at which it continues.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pylb import _core
from pylb.errors import DeadlockError, by_rank

NOTICE = 0.05  # seconds between attempts to interrupt the rank that runs


class Ended(BaseException):
    """Ends this rank because another one failed; ``except Exception`` does not catch it."""


class Ticket:
    """An event for which ranks wait.

    Attributes
    ----------
    at : mapping of int to float
        After the event: the virtual time at which each rank can continue.
    """

    def __init__(self) -> None:
        self.at: Mapping[int, float] | None = None
        self.waiting: list[VirtualRank] = []


class VirtualRank:
    """One virtual rank.

    Attributes
    ----------
    pace : float
        Virtual seconds per second of the clock.
    now : float
        Its virtual time while it does not run.
    doing : str
        Description of what it waits for.
    result : object
        Return value of its program.
    """

    def __init__(self, number: int, pace: float):
        self.number, self.pace = number, pace
        self.now = 0.0
        self.doing = ""
        self.ended = False
        self.result: Any = None
        self.ticket: Ticket | None = None
        self.turn = threading.Lock()
        self.turn.acquire()
        self.thread: threading.Thread | None = None


class Scheduler:
    """Decides which rank runs.

    Parameters
    ----------
    paces : list of float
        Pace of each rank.
    source : {"wall", "cpu", "none"}
        The clock that drives virtual time.

    Attributes
    ----------
    failure : BaseException or None
        The first error of a rank, which ends all of them.
    """

    def __init__(self, paces: list[float], source: str):
        self.ranks = [VirtualRank(i, pace) for i, pace in enumerate(paces)]
        self.source = source
        self.failure: BaseException | None = None
        self.ready = deque(self.ranks)
        self.running: VirtualRank | None = None
        self.over = threading.Lock()

    def run(self, program: Callable[[int], Any]) -> list[Any]:
        """Run ``program(rank)`` on every rank; return the results, or raise the first error."""
        self.over.acquire()
        for rank in self.ranks:
            body = contextvars.copy_context().run
            rank.thread = threading.Thread(
                target=body, args=(self._live, rank, program), name=f"virtual rank {rank.number}"
            )
            rank.thread.daemon = True
            rank.thread.start()
        self._pass_turn()
        try:
            self.over.acquire()
        except BaseException as why:  # Ctrl-C arrives in the main thread
            self.failure = self.failure or why
            while not self.over.acquire(timeout=NOTICE):
                self._interrupt()
        for rank in self.ranks:
            if rank.thread is not None:
                rank.thread.join()
        if self.failure is not None:
            raise self.failure
        return [rank.result for rank in self.ranks]

    def _live(self, rank: VirtualRank, program: Callable[[int], Any]) -> None:
        rank.turn.acquire()
        try:
            if self.failure is None:
                _core.clock_enter(self.source, rank.now, rank.pace)
                rank.result = program(rank.number)
        except Ended:
            pass
        except BaseException as why:
            if self.failure is None:
                if sys.version_info >= (3, 11):
                    why.add_note(f"on virtual rank {rank.number} of {len(self.ranks)}")
                self.failure = why
        rank.now = _core.clock_leave()
        rank.ended = True
        self._pass_turn()

    # ---- the turn ----------------------------------------------------------------------------

    def wait(self, ticket: Ticket, doing: str) -> None:
        """Let other ranks run until the ticket's event has happened."""
        rank = self.running
        assert rank is not None
        rank.now = _core.clock_leave()
        if ticket.at is None:
            rank.ticket, rank.doing = ticket, doing
            ticket.waiting.append(rank)
            self._pass_turn()
            rank.turn.acquire()
            if self.failure is not None:
                raise Ended
        assert ticket.at is not None
        _core.clock_enter(self.source, max(rank.now, ticket.at[rank.number]), rank.pace)

    def happen(self, ticket: Ticket, at: Mapping[int, float]) -> None:
        """Let the ranks continue that wait for this event."""
        ticket.at = at
        self.ready.extend(sorted(ticket.waiting, key=lambda rank: rank.number))

    def _pass_turn(self) -> None:
        """Let the next rank run; after a failure, one that has not ended."""
        alive = [] if self.ready and self.failure is None else self._alive()
        if alive and self.failure is None:
            self.failure = self._deadlock()
        if self.failure is not None:
            following = alive[0] if alive else None
        else:
            following = self.ready.popleft() if self.ready else None
        self.running = following
        (self.over if following is None else following.turn).release()

    def _alive(self) -> list[VirtualRank]:
        return [rank for rank in self.ranks if not rank.ended]

    def _deadlock(self) -> DeadlockError:
        doing = ["has ended" if r.ended else f"waits in {r.doing}" for r in self.ranks]
        return DeadlockError(f"no rank can continue: {by_rank(doing)}")

    def _interrupt(self) -> None:
        """Raise `Ended` in the rank that runs, even if it does not wait."""
        with contextlib.suppress(AttributeError):  # nobody does
            ident = ctypes.c_ulong(self.running.thread.ident)  # type: ignore[union-attr,arg-type]
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Ended))
