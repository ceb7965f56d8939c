"""Loops that do not wait for their statistics: ``lag`` above 0."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NoReturn

from pylb import _core
from pylb.comm.agreement import Step
from pylb.errors import MPIError, RemoteError, StateError, UnknownKeyError
from pylb.run.at_sync import AtSync, AtSyncProtocol
from pylb.run.loops import IterationLoop
from pylb.run.modes import MeasuringMode
from pylb.run.object_store import key_of
from pylb.run.options import loop_is_open, no_messages
from pylb.run.run_state import RunState

TAKE = 1024  # number of iterations after which `iterate` records the statistics that have arrived
PATIENCE = 10.0  # seconds after which a waiting rank logs a warning
log = logging.getLogger("pylb")


class LaggedLoop(IterationLoop):
    """A loop with a lag, in which each rank (`iterate`) or object (`begin`) has its own pace."""

    def __init__(self, state: RunState, mode: MeasuringMode) -> None:
        super().__init__(state, mode)
        self._protocol: AtSyncProtocol | None = None  # of the present loop; None: there is none

    # ---- objects at their own pace -----------------------------------------------------------

    def begin(self, n: int) -> None:
        if self._state.options.mode == "shadow":
            source = self._state.options.settings.said_by("mode")
            raise StateError(f"begin() is not possible in shadow mode{source}: expected iterate()")
        self._open(n, each=True)

    def at_sync(self, key: int | None) -> AtSync:
        protocol = self._of_objects("at_sync")
        answer: AtSync | None
        if key is None:
            if self._state.objects.stale:
                self._join()
            answer = protocol.core.ask()
            if answer is AtSync.END:
                self._end(protocol)
        else:
            answer = self._reached(protocol, key)
        return self._fail() if answer is None else answer

    def balance(self) -> None:
        protocol = self._of_objects("balance")
        if protocol.core.ask() is not AtSync.BALANCE:
            raise StateError("balance(): at_sync() has not answered BALANCE")
        self._rebalance(protocol)

    def _of_objects(self, name: str) -> AtSyncProtocol:
        if self._protocol is None or not self._protocol.each:
            raise StateError(f"{name}(): no loop of begin() is under way")
        return self._protocol

    def _reached(self, protocol: AtSyncProtocol, key: int) -> Any:
        objects = self._state.objects
        try:
            load = None if objects.load is None else objects.given_load(key)
            return protocol.core.reached(key, load)
        except (KeyError, TypeError, OverflowError):
            if objects.store.place(key_of(key)) >= 0:
                raise  # an error of the user's load or trigger
            raise UnknownKeyError(f"key {key}: no such object on this rank") from None

    def finish(self) -> None:
        protocol = self._protocol
        if protocol is not None and protocol.each:  # only this call ends such a loop early
            protocol.give_up(False)
            self._state.objects.in_loop = False
        if protocol is not None and protocol.left and not protocol.serve(PATIENCE):
            log.warning(
                "pylb: rank %d left the loop %s, and waits until the other ranks have ended it",
                self._state.objects.rank,
                self._state.agreement.at,
            )
        if protocol is not None and protocol.left:
            self.settle()

    # ---- all objects of a rank together ------------------------------------------------------

    def iterate(self, n: int) -> Iterator[int]:
        protocol = self._open(n, each=False)
        if protocol is None:
            return
        state, objects = self._state, self._state.objects
        first = state.done
        at_sync, go, keepers = protocol.core.at_sync, AtSync.GO, state.records.keepers
        saved, background = state.records.saved, state.options.facts.background
        try:
            for it in range(first, first + n):
                yield it
                objects.ask_loads()
                saved.keep(objects.store.seconds, objects.store.properties["home"], background)
                for history in keepers:
                    history.keep()
                answer = at_sync()
                if it % TAKE == 0:
                    self.take()  # so that statistics which have arrived do not fill the memory
                if answer is not go or objects.stale:
                    self._turn(protocol, answer)
            self._end(protocol)
        except MPIError as why:
            state.agreement.at = f"in iteration {protocol.core.contributed}"
            raise state.agreement.explained(why) from None
        except Exception as why:
            state.agreement.tell(why)
            raise
        finally:
            objects.in_loop = False
            if self._protocol is not None:  # left by break, an error or an interrupt
                self._protocol.give_up(False)

    def _turn(self, protocol: AtSyncProtocol, answer: AtSync | None) -> None:
        if answer is None:
            self._fail()
        if answer is AtSync.BALANCE:
            self._rebalance(protocol)
            if protocol.core.at_sync() is None:
                self._fail()
        elif self._state.objects.stale:
            self._join()

    def exchange(self) -> None:
        raise no_messages("exchange", self._state.options.lag)

    # ---- for both kinds of loop --------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._protocol is not None and self._state.objects.in_loop

    def _open(self, n: int, each: bool) -> AtSyncProtocol | None:
        """Open the loop, and return its protocol; None: the loop has no iterations."""
        state = self._state
        if state.objects.in_loop:
            each = self._protocol is not None and self._protocol.each
            raise loop_is_open("finish()") if each else loop_is_open()
        self.settle()
        other = state.agreement.running
        if other is not None and not other.left:
            raise StateError("a loop of another Balancer on this communicator is under way")
        try:
            self._start(n)
            state.agreement.step(Step.OPEN, state.done)  # no rank goes on, if another has failed
            return self._protocol_of(n, each) if n else None
        except Exception as why:
            state.agreement.tell(why)
            if self._protocol is not None:
                self._protocol.give_up(True)
            raise

    def _protocol_of(self, n: int, each: bool) -> AtSyncProtocol:
        state = self._state
        # `balances` is False in shadow mode, which makes its decisions later, in `catch_up`.
        protocol = AtSyncProtocol(state, n, balances=self._mode.balances, each=each)
        state.agreement.step(Step.OPEN, state.done)
        self._protocol = protocol
        protocol.open(state)
        state.objects.in_loop = True
        state.objects.join = self._join if each else None
        return self._protocol

    def settle(self) -> None:
        if self._protocol is not None:
            self._protocol.finish()
            self._close()
            self._state.records.stop()

    def _end(self, protocol: AtSyncProtocol) -> None:
        """End the loop.  All ranks have completed it (`whole`), or a rank has left it early."""
        self._close()
        if not protocol.core.whole or protocol.each:
            self._state.records.stop()
        if protocol.core.whole:
            self._mode.judge()
            self._mode.update_saved()
            self._state.records.cut()
            self._mode.catch_up(is_over=True)

    def _close(self) -> None:
        self.take()
        if self._protocol is not None:
            self._protocol.close()
            self._state.records.seconds += _core.clock() - self._protocol.started
        self._protocol = None
        self._state.objects.in_loop = False
        self._state.objects.join = None

    def take(self) -> None:
        if self._protocol is not None:
            rows = self._protocol.core.rows()  # rows that have arrived since the last call
            self._state.records.extend(rows)
            self._state.objects.store.count(len(rows), self._state.options.facts.background)

    def _join(self) -> None:
        """Apply the additions and removals of objects on this rank, within the loop."""
        objects = self._state.objects
        objects.stale = False
        self._state.records.stop()
        objects.arrange()
        if self._protocol is not None:
            self._protocol.bind(objects.store)

    def _rebalance(self, protocol: AtSyncProtocol) -> None:
        """Rebalance, now that all objects of all ranks have stopped at the same iteration."""
        state = self._state
        self.take()
        state.objects.stale = False
        state.decider.core.abandon()  # after an error, a decision may be unfinished
        changed, _ = state.agreement.step(
            Step.CHANGES, state.done - 1, n_changed=state.objects.n_changed
        )
        if changed.n_changed:
            state.learn()
        reason = protocol.core.why()[3]  # number of the trigger's reason, for `Decider.choose`
        self._mode.stand(reason)
        protocol.bind(state.objects.store)
        protocol.core.balanced()

    def _fail(self) -> NoReturn:
        """Leave the loop, because another rank has failed."""
        if self._protocol is not None:
            self._protocol.give_up(False)
            self.settle()
        # The failed rank takes part in this step, too, and sends its error.
        self._state.agreement.step(Step.SYNC, self._state.done)
        raise RemoteError("another rank has failed")
