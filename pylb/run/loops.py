"""The loops of a Balancer: their interface, and the loop in which all ranks advance together."""

from __future__ import annotations

from collections.abc import Iterator

from pylb import _core
from pylb.comm.agreement import NO_LOADS, Contribution, Stats, Step
from pylb.comm.parcel import size_of
from pylb.comm.transport import Sends
from pylb.errors import StateError
from pylb.run.at_sync import AtSync
from pylb.run.modes import MeasuringMode
from pylb.run.options import loop_is_open
from pylb.run.run_state import RunState


class IterationLoop:
    """The interface of the loops of a Balancer: `SynchronousLoop` (lag=0) and `LaggedLoop`."""

    def __init__(self, state: RunState, mode: MeasuringMode) -> None:
        self._state, self._mode = state, mode

    # ---- what a program calls; see `Balancer` -----------------------------------------------

    def iterate(self, n: int) -> Iterator[int]:
        raise NotImplementedError

    def exchange(self) -> None:
        raise NotImplementedError

    def begin(self, n: int) -> None:
        raise StateError("begin() with lag=0: expected a Balancer with lag=... above 0")

    def at_sync(self, key: int | None) -> AtSync:
        raise StateError("at_sync(): no loop of begin() is under way")

    def balance(self) -> None:
        raise StateError("balance(): no loop of begin() is under way")

    def finish(self) -> None:
        """End a loop that this rank has left early; see `Balancer.finish`."""

    # ---- statistics that arrive later -------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether, at present, some ranks may know of more iterations than others."""
        return False

    def take(self) -> None:
        """Add to the records the iterations whose statistics have arrived."""

    def settle(self) -> None:
        """Complete, on all ranks, a loop that this rank has left early.  Collective."""

    # ---- for both kinds of loop -------------------------------------------------------------

    def _start(self, n: int) -> None:
        """Agree on the arguments, register new objects, and deliver messages that wait."""
        state = self._state
        objects = state.objects
        state.decider.core.abandon()  # after an error, a decision may be unfinished
        stats, _ = state.agreement.step(
            Step.START,
            state.done,
            state.options.arguments(f"iterate({n})"),
            n_changed=objects.n_changed,
            messages=objects.mailbox.mail.n_sent,
        )
        clock = state.clock()
        if stats.n_changed:
            state.learn()
        if clock != objects.store.clock:
            objects.store.use(clock)
        self._mode.start(n)
        # Deliver only now: an LB step that `start` has made must use the communication of the
        # previous loop, but the messages that wait now belong to the new loop.
        if stats.messages:
            self._deliver(Step.FIRST_MESSAGES)
        state.records.write(lambda: self._mode.history)
        objects.store.seconds.fill(0.0)

    def _deliver(self, kind: Step, passed: float = 0.0) -> Stats:
        raise NotImplementedError


class SynchronousLoop(IterationLoop):
    """With ``lag=0``: at the end of each iteration all ranks meet, and messages are delivered."""

    def __init__(self, state: RunState, mode: MeasuringMode) -> None:
        super().__init__(state, mode)
        # Seconds that this rank waited at the end of the previous iteration, then in `exchange`.
        self._idle = 0.0
        self._resumed = 0.0  # clock time at the start of the iteration
        self._sent = 0, 0  # messages that `exchange` has sent to other ranks; their bytes
        self._in_body = False  # whether the program runs the body of the loop
        # Whether the previous loop has ended normally.  Then no object has read its inbox yet.
        self._whole = True
        self._left = False  # whether a loop has begun and not ended: it runs, or was left early
        self._failed = False  # whether an error of pylb has ended the loop

    def iterate(self, n: int) -> Iterator[int]:
        state = self._state
        if state.objects.in_loop:
            raise loop_is_open()
        begin = _core.clock()
        state.objects.in_loop = True
        self._sent = 0, 0
        try:
            self._start(n)
            self._whole = False
            self._left, self._failed = True, False
            self._resumed = _core.clock()
            first = state.done
            for it in range(first, first + n):
                state.agreement.at = f"in iteration {it}"
                self._in_body = True
                yield it
                self._in_body = False
                self._end_iteration(is_last=it == first + n - 1)
            state.records.cut()  # add() and remove() take effect immediately between loops
            self._mode.end_loop()
            self._left = False
            state.agreement.at = f"after iteration {state.done - 1}"
            self._whole = True
        except Exception as why:
            self._failed = True
            state.agreement.tell(why)
            raise
        finally:
            state.objects.in_loop = self._in_body = False
            state.records.cut()  # also after break
            state.records.seconds += _core.clock() - begin

    def finish(self) -> None:
        self.settle()

    def settle(self) -> None:
        state = self._state
        if self._left and not state.objects.in_loop:
            self._left = False  # also if this fails: it cannot be repeated
            self._mode.end_loop(left_early=True, failed=self._failed)

    def exchange(self) -> None:
        if not self._in_body:
            raise StateError(
                "exchange() outside of iterate(): it delivers messages within an iteration"
            )
        self._in_body = False  # so that a message cannot call this while it is restored
        try:
            self._deliver(Step.MESSAGES)
        finally:
            self._in_body = True

    def _end_iteration(self, is_last: bool) -> None:
        """Exchange messages and statistics, decide, rebalance."""
        records = self._state.records
        stats = self._deliver(Step.SYNC, _core.clock() - self._resumed)
        records.add(stats)
        if stats.n_changed:
            self._state.learn()
        self._mode.observe(stats, is_last)
        if records.is_due and not is_last:
            records.write(lambda: self._mode.history)
        self._resumed = _core.clock()

    def _deliver(self, kind: Step, passed: float = 0.0) -> Stats:
        """Deliver the messages of all ranks; at the end of an iteration also merge statistics."""
        state, objects, is_sync = self._state, self._state.objects, kind is Step.SYNC
        error: Exception | None = None
        sends: Sends = []
        loads, n_open = objects.store.seconds, 0
        background = state.options.facts.background
        messages, nbytes = self._sent
        try:
            if is_sync:
                objects.ask_loads()
            sends, more, n_open = objects.mailbox.pack(objects.store.places)
            messages, nbytes = messages + more, nbytes + sum(size_of(parts) for _, parts in sends)
        except Exception as why:
            error = why
            loads = NO_LOADS
        begin = _core.clock()
        sample = Contribution(
            kind,
            state.done,
            0,
            error is not None,
            len(objects.store),
            loads,
            self._idle,
            messages,
            nbytes,
            passed,
            n_changed=objects.n_changed if is_sync else 0,
            messages_open=n_open,
            background=background,
        )
        self._sent = (0, 0) if is_sync else (messages, nbytes)
        stats, received = state.agreement.take(sample, sends, error)
        waited = _core.clock() - begin
        self._idle = waited if is_sync else self._idle + waited
        adds = kind is Step.FIRST_MESSAGES and self._whole
        objects.mailbox.receive(stats, received, state.done, adds=adds)
        if is_sync:
            own = _core.exact_sum(objects.store.seconds)
            state.records.rank_loads.append((background + own,))
            homes = objects.store.properties["home"]
            state.records.saved.keep(objects.store.seconds, homes, background)
            for history in state.records.keepers:
                history.keep()
            objects.store.end_pass(background)
        return stats
