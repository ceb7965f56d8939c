"""The part of a Balancer whose loop does not wait for its statistics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from pylb import _core
from pylb.comm.agreement import Agreement, Kind
from pylb.decide.decider import Decider
from pylb.decide.trigger import make
from pylb.errors import DomainError, RemoteError, StateError, UnknownKeyError
from pylb.run.objects import Changes, Store
from pylb.run.recording import Recording
from pylb.run.report import Log
from pylb.run.running import AtSync, Running

NEVER = 10**9  # iterations
PATIENCE = 10.0  # seconds, after which a rank that waits says so
log = logging.getLogger("pylb")


class Asynchronous:
    """Loops with ``lag`` > 0: `iterate` for ranks that run as a whole, `begin` for their objects.

    Where a loop is under way `_running` is it.
    """

    _agreement: Agreement
    _changes: Changes
    _done: int
    _in_loop: bool
    _lag: float
    _load: Callable[[int, Any], float] | None
    _loads: list[float]
    _mode: str
    _rows: Log
    _seconds: float
    _store: Store
    _decider: Decider
    _running: Running | None = None
    _stale = False  # objects have come or gone that the loop does not know

    if TYPE_CHECKING:  # of the Balancer

        def _start(self, n: int) -> None: ...
        def _learn(self) -> None: ...
        def _balance(self, reason: int = -1) -> None: ...
        def _carry_out(self, asked: bool, may_look: bool) -> bool: ...
        def _weigh(self) -> None: ...
        def _ask_loads(self, load: Callable[[int, Any], float]) -> None: ...
        def _keepers(self) -> list[Recording]: ...
        def _cut(self) -> None: ...
        def _reflect(self) -> None: ...

    # ---- objects at their own pace -----------------------------------------------------------

    def begin(self, n: int) -> None:
        """Begin a loop of `n` iterations that each object runs at its own pace.  Collective.

        Every object that is here may run its first iteration, and reports the end of each with
        `at_sync`.  ``lag`` of the Balancer says how far statistics may be behind an object.

        Raises
        ------
        StateError
            The Balancer has no lag; a loop is under way.
        DomainError, UnknownKeyError, RemoteError
            As `iterate`.
        """
        if not self._lag:
            raise StateError("begin() with lag=0: objects at their own pace need a lag")
        if self._mode == "shadow":
            raise StateError("begin() in shadow mode: expected iterate(), which it can follow")
        self._open(n, each=True)

    def at_sync(self, key: int | None = None) -> AtSync:
        """An object is through its iteration, or asks again; without a key: what this rank does.

        Never waits for other ranks.  What ``local()`` has timed of the object up to here is its
        load of the iteration.

        Returns
        -------
        AtSync
            Of an object: GO, it may begin its next iteration; PAUSE, ask again later; BALANCE;
            END, that was its last.  Without a key: PAUSE, BALANCE or, when all ranks have come to
            the end, END, and the loop is over.  A rank calls it until then, also one without
            objects; if nothing has happened since the last call it sleeps for a moment.

        Raises
        ------
        StateError
            No loop of `begin` is under way.
        UnknownKeyError
            No such object on this rank.
        RemoteError
            Another rank has failed.
        """
        running = self._pace("at_sync")
        answer: AtSync | None
        if key is None:
            if self._stale:
                self._join()
            answer = running.core.ask()
            if answer is AtSync.END:
                self._end(running)
        else:
            answer = self._reached(running, key)
        return self._fail() if answer is None else answer

    def balance(self) -> None:
        """Balance, where `at_sync` has answered BALANCE.  Collective.

        Then the objects of this rank are those of ``local()``, and each may begin its next
        iteration.  What the program itself keeps for an object has to follow it: ``rank_of``.

        Raises
        ------
        StateError
            `at_sync` has not asked for it.
        Exception
            As `iterate`.
        """
        running = self._pace("balance")
        if running.core.ask() is not AtSync.BALANCE:
            raise StateError("balance(): at_sync() has not answered BALANCE")
        self._rebalance(running)

    def _pace(self, name: str) -> Running:
        if self._running is None or not self._running.each:
            raise StateError(f"{name}(): no loop of begin() is under way")
        return self._running

    def _reached(self, running: Running, key: int) -> Any:
        try:
            if self._load is None:
                return running.core.reached(key)
            return running.core.reached(key, self._given(self._load, key))
        except KeyError:
            raise UnknownKeyError(f"key {key}: no such object on this rank") from None

    def _given(self, load: Callable[[int, Any], float], key: int) -> float:
        value = float(load(key, self._store.items[key].value))
        if not 0.0 <= value <= 1e30:
            raise DomainError(
                f"load of object {key} is {value}: expected a finite number, zero or more"
            )
        return value

    def finish(self) -> None:
        """Help the other ranks to the end of a loop that this rank has left by ``break``.

        With a lag; else there is nothing to do.  For a program that comes to a collective call of
        its own next, where it would serve nobody: the balancer's own calls do this by themselves.
        """
        running = self._running
        if running is not None and running.left and not running.serve(PATIENCE):
            log.warning(
                "pylb: rank %d left the loop %s, and waits until the others have come to its end",
                self._agreement.transport.rank,
                self._agreement.at,
            )
        if running is not None and running.left:
            self._finish()

    # ---- ranks as a whole --------------------------------------------------------------------

    def _passes(self, n: int) -> Iterator[int]:
        """The iterations of a loop, with at_sync() in between."""
        running = self._open(n, each=False)
        if running is None:
            return
        first = self._done
        at_sync, go, keep = running.core.at_sync, AtSync.GO, self._keepers()
        try:
            for it in range(first, first + n):
                yield it
                if self._load is not None:
                    self._ask_loads(self._load)
                for recording in keep:
                    recording.keep()
                answer = at_sync()
                if answer is not go or self._stale:
                    self._turn(running, answer)
            self._end(running)
        finally:
            self._in_loop = False
            if self._running is not None:  # by break, an error or an interrupt
                self._running.give_up(False)

    def _turn(self, running: Running, answer: AtSync | None) -> None:
        if answer is None:
            self._fail()
        if answer is AtSync.BALANCE:
            self._rebalance(running)
            if running.core.at_sync() is None:
                self._fail()
        elif self._stale:
            self._join()

    def _keep_no_more(self) -> None:
        """The ranks are at different iterations: what they keep from here on does not match."""
        self._cut()
        for recording in self._keepers():
            recording.full = True

    # ---- both --------------------------------------------------------------------------------

    def _open(self, n: int, each: bool) -> Running | None:
        """The loop, or None if it has no iterations."""
        if self._in_loop:
            raise StateError("a loop of this Balancer is under way")
        self._finish()
        other = self._agreement.running
        if other is not None and not other.left:
            raise StateError("a loop of another Balancer on this communicator is under way")
        self._start(n)
        if n == 0:
            return None
        self._in_loop = True
        decides = self._mode == "on"  # a shadow's decisions are made afterwards
        self._running = Running(
            self._agreement,
            self._decider.settings.trigger if decides else make(every=NEVER),
            self._decider.core if decides else None,
            self._store,
            first=self._done,
            n=n,
            lag=self._lag,
            balance=decides,
            each=each,
        )
        return self._running

    def _finish(self) -> None:
        """A loop that this rank has left early is over when the others have come to its end."""
        if self._running is not None:
            self._running.finish()
            self._close()
            self._keep_no_more()

    def _end(self, running: Running) -> None:
        """All ranks have come to the end of the loop, if none has left it before."""
        self._close()
        if not running.core.whole or running.each:
            self._keep_no_more()
        if running.core.whole:
            self._weigh()
            self._cut()
            self._reflect()

    def _close(self) -> None:
        self._take()
        if self._running is not None:
            self._running.close()
            self._seconds += _core.clock() - self._running.started
        self._running = None
        self._in_loop = False

    def _take(self) -> None:
        """The iterations that have become known."""
        if self._running is not None:
            rows = self._running.rows()
            self._rows.extend(rows[:, :-1])
            self._loads += rows[:, -1].tolist()
            self._store.passes += len(rows)
            self._done = len(self._rows)

    def _join(self) -> None:
        """Objects that were added here take part, those that were removed do so no more."""
        self._stale = False
        self._keep_no_more()
        self._store.change(self._changes)
        self._store.arrange()
        if self._running is not None:
            self._running.bind(self._store)

    def _rebalance(self, running: Running) -> None:
        """All objects of all ranks stand at the same iteration."""
        self._take()
        self._stale = False
        self._decider.core.abandon()  # where an error ended the last call, and this is another try
        changed, _ = self._agreement.step(
            Kind.CHANGES, self._done - 1, n_changed=len(self._changes)
        )
        if changed.n_changed:
            self._learn()
        if self._carry_out(asked=True, may_look=False):
            self._balance(running.reason())
        running.bind(self._store)
        running.core.balanced()

    def _fail(self) -> NoReturn:
        """Another rank has failed: leave with it."""
        if self._running is not None:
            self._running.give_up(False)
            self._finish()
        self._agreement.step(Kind.SYNC, self._done)  # it is there too, and says why
        raise RemoteError("another rank has failed")
