"""Ranks as greenlets, of which one runs at a time, each with its own virtual time.

A rank runs until it has to wait for another one.  The next one to run is the rank that has been
ready for the longest time; in a tie, the lowest rank.  So the order is the same in every run.
While a rank runs, its virtual time grows by the time of the clock, divided by the rank's speed.
After a wait, it is at least the time of the event for which the rank waited.
"""

from __future__ import annotations

import contextvars
import gc
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from greenlet import getcurrent, greenlet

from pylb import _core
from pylb.errors import DeadlockError, StateError, by_rank

SOURCES: dict[str, Callable[[], float]] = {
    "cpu": time.thread_time,
    "wall": time.perf_counter,
    "none": lambda: 0.0,
}
OBJECTS = 50  # Python collects garbage when each rank has made about this number of objects
Doing = str | Callable[[], str]  # the call in which a rank waits, or a function that returns it


class Ended(BaseException):
    """Ends a rank after a deadlock or another's error; ``except Exception`` does not catch it."""


class Ticket:
    """An event for which ranks wait."""

    def __init__(self) -> None:
        # After the event: the virtual time at which each rank can continue.
        self.at: Mapping[int, float] | None = None
        self.waiting: list[VirtualRank] = []


class VirtualRank:
    """One virtual rank; pace: virtual seconds per second of the clock."""

    def __init__(self, number: int, pace: float):
        self.number, self.pace = number, pace
        self.now = 0.0  # virtual time when the rank most recently stopped running
        self.doing: Doing = ""
        self.ended = False
        self.result: Any = None  # return value of the program on this rank
        self.life: Any = None  # the greenlet that runs this rank


_here: contextvars.ContextVar[tuple[Scheduler, VirtualRank] | None] = contextvars.ContextVar(
    "the virtual rank that runs", default=None
)


@contextmanager
def outer_clock() -> Iterator[None]:
    """Keep the clock of the virtual rank that runs, while the block uses the thread's clock."""
    here = _here.get()
    if here is None:
        yield
        return
    scheduler, rank = here
    now, source = _core.clock_leave(), SOURCES[scheduler.source]
    start = source()
    try:
        yield
    finally:
        now += rank.pace * (source() - start)
        _core.clock_enter(scheduler.source, now, rank.pace)


class Scheduler:
    """Decides which rank runs.

    paces: one for each rank; source: the clock that drives virtual time, "wall", "cpu" or "none".
    """

    def __init__(self, paces: list[float], source: str):
        self.ranks = [VirtualRank(i, pace) for i, pace in enumerate(paces)]
        self.source = source
        # The first error of a rank, or a deadlock; it ends all ranks.
        self.failure: BaseException | None = None
        self.ready = deque(self.ranks)
        self.running: VirtualRank | None = None

    def run(self, program: Callable[[int], Any]) -> list[Any]:
        """Run ``program(rank)`` on every rank; return the results, or raise the first error."""
        usual = gc.get_threshold()
        gc.set_threshold(usual[0] and max(usual[0], OBJECTS * len(self.ranks)), *usual[1:])
        try:
            with outer_clock():
                self._run(program)
        finally:
            gc.set_threshold(*usual)
        if self.failure is not None:
            raise self.failure
        return [rank.result for rank in self.ranks]

    def _run(self, program: Callable[[int], Any]) -> None:
        for rank in self.ranks:
            rank.life = greenlet(self._run_rank)
            rank.life.gr_context = contextvars.copy_context()
        while self.ready and self.failure is None:
            self.running = self.ready.popleft()
            self.running.life.switch(self.running, program)
        alive = [rank for rank in self.ranks if not rank.ended]
        if alive and self.failure is None:
            self.failure = self._deadlock()
        for rank in alive:
            self.running = rank
            if rank.life:  # false: the greenlet has not begun
                rank.life.throw(Ended)

    def _run_rank(self, rank: VirtualRank, program: Callable[[int], Any]) -> None:
        _here.set((self, rank))
        try:
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

    # ---- waiting and events ------------------------------------------------------------------

    def check(self, number: int) -> None:
        """Raise StateError unless the program of this rank, and no other one, makes the call."""
        rank = self.running
        if rank is None or rank.number != number or rank.life is not getcurrent():
            raise StateError(
                f"virtual rank {number} communicates outside of its own program: expected the call "
                "within the function that VirtualCluster.run calls for this rank"
            )

    def wait(self, ticket: Ticket, doing: Doing) -> None:
        """Let other ranks run until the ticket's event has happened."""
        rank = self.running
        assert rank is not None
        if self.failure is not None:
            raise Ended
        rank.now = _core.clock_leave()
        if ticket.at is None:
            rank.doing = doing
            ticket.waiting.append(rank)
            getcurrent().parent.switch()
        assert ticket.at is not None
        _core.clock_enter(self.source, max(rank.now, ticket.at[rank.number]), rank.pace)

    def happen(self, ticket: Ticket, at: Mapping[int, float]) -> None:
        """Let all ranks that wait for this event continue."""
        ticket.at = at
        self.ready.extend(sorted(ticket.waiting, key=lambda rank: rank.number))

    def _deadlock(self) -> DeadlockError:
        doing = (r.doing() if callable(r.doing) else r.doing for r in self.ranks)
        words = [
            "has ended" if rank.ended else f"waits in {what}"
            for rank, what in zip(self.ranks, doing, strict=True)
        ]
        return DeadlockError(f"no rank can continue: {by_rank(words)}")
