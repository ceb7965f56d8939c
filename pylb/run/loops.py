"""The loops of a program: what happens at the end of each iteration."""

from __future__ import annotations

import logging
import math
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NoReturn

from pylb import _core
from pylb.comm.agreement import NO_LOADS, Agreement, Attempt, Contribution, OpenLoop, Stats, Step
from pylb.comm.parcel import size_of
from pylb.comm.program_end import abort_after
from pylb.comm.transport import Sends
from pylb.decide.registry import trigger
from pylb.errors import MPIError, RemoteError, StateError, UnknownKeyError
from pylb.run.advice import Advice, Stopwatch
from pylb.run.local_objects import NO_PARTS, LocalObjects, key_of
from pylb.run.modes import AdvisingMode, AdvisorState, Measured, MeasuringMode, RunState
from pylb.run.options import loop_is_open, no_messages

NEVER = 10**9  # period of a trigger that never asks for an LB step


class AtSync(Enum):
    """The answer of `AsyncBalancer.at_sync`.

    Examples
    --------
    >>> lb = pylb.AsyncBalancer(comm, lag=2)
    >>> lb.add(7, "an object")
    >>> lb.begin(3)  # three iterations
    >>> lb.at_sync(7)  # object 7 has finished its first iteration
    <AtSync.GO: 'go'>
    """

    GO = "go"  #: The object may begin its next iteration.
    PAUSE = "pause"  #: Not yet: ask again later, and handle your own messages meanwhile.
    #: All objects of all ranks have stopped at the same iteration: call `AsyncBalancer.lb_step`.
    BALANCE = "balance"
    #: The object has finished its last iteration; without a key: the loop ended on all ranks.
    END = "end"


ANSWERS = (AtSync.GO, AtSync.PAUSE, AtSync.BALANCE, AtSync.END, None)  # None: a rank has failed


class AtSyncProtocol(OpenLoop):
    """One loop of n iterations with a lag on this rank, by `core` (``csrc/decide/consensus.h``).

    With `each`, each object reports the end of its iteration; without it, the rank does, for all.
    """

    def __init__(self, state: RunState, n: int, *, balances: bool, each: bool) -> None:
        lag, decider = state.options.lag, state.decider
        bounded = math.isfinite(lag)
        depth = (int(lag) if bounded else _core.ATSYNC_WINDOW) + 2
        self.each, self.started, self._facts = each, _core.clock(), state.options.facts
        self.core = _core.AtSync(
            state.agreement.transport.reduction(depth),
            decider.settings.trigger if balances else trigger("periodic", every=NEVER),
            decider.core if balances else None,
            ANSWERS,
            Step.SYNC,
            state.done,
            n,
            int(lag) if bounded else 0,
            balances,
        )

    def open(self, state: RunState) -> None:
        """Begin to take part in the reductions."""
        super().__init__(state.agreement)
        self.bind(state.objects)

    def bind(self, objects: LocalObjects) -> None:
        """Tell the C core which objects this rank has now."""
        keys = objects.places if self.each else None
        arrays = objects.seconds, objects.window, objects.estimates[: objects.base]
        self.core.bind(keys, objects.recorder, *arrays, self._facts.background)

    def give_up(self, failed: bool) -> None:
        if not self.left:
            self._agreement.at = f"in iteration {self.core.contributed}"
        self.left = True
        self.core.give_up(failed)

    def serve(self, seconds: float) -> bool:
        return self.core.serve(seconds)


class IterationLoop:
    """What all loops of programs have in common."""

    def __init__(self, state: RunState, mode: MeasuringMode) -> None:
        self._state, self._mode = state, mode
        self._left = False  # whether a loop has begun and not ended: it runs, or was left early

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Report an error in the block to the other ranks, even if the program catches it."""
        try:
            yield
        except Exception as why:
            self._state.agreement.tell(why)
            raise

    def _end_iteration(self, stats: Stats, is_last: bool) -> None:
        """Record the statistics of an iteration, decide, and rebalance if due.  Collective."""
        records = self._state.records
        records.add(stats)
        self._state.observe(stats)
        self._mode.observe(stats, is_last)
        if records.is_due and not is_last:
            self._mode.write()

    @property
    def running(self) -> bool:
        """Whether, at present, some ranks may know of more iterations than others."""
        return False

    def take(self) -> None:
        """Record the iterations whose statistics have arrived."""

    def complete(self) -> None:
        """Complete, on all ranks, a loop that this rank has left early.  Collective."""


class BalancerLoop(IterationLoop):
    """With ``lag=0``: at the end of each iteration all ranks meet, and messages are delivered."""

    def __init__(self, state: RunState, mode: MeasuringMode) -> None:
        super().__init__(state, mode)
        # Seconds that this rank waited at the end of the previous iteration and in `exchange`.
        self._idle = 0.0
        self._resumed = 0.0  # clock time at the start of the iteration
        self._sent = 0, 0  # number and bytes of messages that `exchange` has sent to other ranks
        self._in_body = False  # whether the program runs the body of the loop
        # Whether the previous loop has ended normally.  If so, the inboxes have not been read yet.
        self._whole = True
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
                with Attempt() as settled:  # most often there is nothing to do
                    state.objects.settle()
                passed = _core.clock() - self._resumed
                stats = self._deliver(Step.SYNC, passed, settled.error)
                self._end_iteration(stats, is_last=it == first + n - 1)
                self._resumed = _core.clock()
            state.records.cut()  # add() and remove() take effect immediately between loops
            state.records.seconds += self._resumed - begin  # end_loop records these seconds
            begin = self._resumed
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
            state.objects.settle(whole=True)
            state.records.cut()  # also after break
            state.records.seconds += _core.clock() - begin

    def finish(self) -> None:
        """End a loop that this rank has left early; see `Balancer.finish`."""
        self.complete()

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
            messages=objects.mail.n_sent,
        )
        clock = state.clock()
        state.observe(stats)
        if clock != objects.clock:
            objects.use(clock)
        self._mode.start(n)
        # Deliver only now: an LB step that `start` has made must use the communication of the
        # previous loop, but the messages that wait now belong to the new loop.
        if stats.messages:
            self._deliver(Step.FIRST_MESSAGES)
        self._mode.write()
        objects.begin_pass()

    def complete(self) -> None:
        state = self._state
        if self._left and not state.objects.in_loop:
            self._left = False  # first, because a call that fails cannot be repeated
            self._mode.end_loop(left_early=True, failed=self._failed)

    def exchange(self) -> None:
        if not self._in_body:
            raise StateError("exchange() outside iterate(): expected it within an iteration")
        self._in_body = False  # unpickling a message must not call `exchange`
        try:
            self._deliver(Step.MESSAGES)
        finally:
            self._in_body = True

    def _deliver(self, kind: Step, passed: float = 0.0, error: Exception | None = None) -> Stats:
        """Deliver the messages of all ranks; at the end of an iteration also merge statistics."""
        state, objects, is_sync = self._state, self._state.objects, kind is Step.SYNC
        sends: Sends = []
        loads, parts, n_open, phases = objects.seconds, NO_PARTS, 0, ""
        background = state.options.facts.background
        messages, nbytes = self._sent
        try:
            if error is not None:
                raise error
            if is_sync:
                objects.ask_loads()
                phases, parts = objects.join_phases(state.done), objects.parts
            sends, more, n_open = objects.pack_messages()
            messages, nbytes = messages + more, nbytes + sum(size_of(parts) for _, parts in sends)
        except Exception as why:
            error = why
            loads, parts = NO_LOADS, NO_PARTS
        begin = _core.clock()
        sample = Contribution(
            kind,
            state.done,
            zlib.crc32(phases.encode()) if phases else 0,
            error is not None,
            len(objects),
            loads,
            self._idle,
            messages,
            nbytes,
            passed,
            n_changed=objects.n_changed if is_sync else 0,
            messages_open=n_open,
            background=background,
            phases=parts,
            n_phases=len(parts),
            hidden=objects.hidden if is_sync else 0.0,
        )
        self._sent = (0, 0) if is_sync else (messages, nbytes)
        stats, received = state.agreement.take(sample, sends, error, phases or "no phases")
        waited = _core.clock() - begin
        self._idle = waited if is_sync else self._idle + waited
        adds = kind is Step.FIRST_MESSAGES and self._whole
        objects.receive_messages(stats, received, state.done, adds=adds)
        if is_sync:
            own = _core.exact_sum(objects.seconds)
            state.records.rank_loads.append((background + own,))
            state.records.keep(background)
            objects.end_pass(background)
        return stats


TAKE = 1024  # number of iterations after which `iterate` records the statistics that have arrived
PATIENCE = 10.0  # seconds after which a waiting rank logs a warning
log = logging.getLogger("pylb")


class LaggedLoop(BalancerLoop):
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
        objects = self._state.objects
        answer: AtSync | None
        if key is None:
            if objects.stale:
                self._join()
            answer = protocol.core.ask()
            if answer is AtSync.END:
                self._end(protocol)
        else:
            try:
                load = None if objects.load is None else objects.given_load(key)
                answer = protocol.core.reached(key, load)
            except (KeyError, TypeError, OverflowError):
                if objects.places.find(key_of(key)) >= 0:
                    raise  # an error of the user's load or trigger
                raise UnknownKeyError(f"key {key}: no such object on this rank") from None
        return self._fail() if answer is None else answer

    def lb_step(self) -> None:
        protocol = self._of_objects("lb_step")
        if protocol.core.ask() is not AtSync.BALANCE:
            raise StateError("lb_step(): expected it only after at_sync() has returned BALANCE")
        self._rebalance(protocol)

    def _of_objects(self, name: str) -> AtSyncProtocol:
        if self._protocol is None or not self._protocol.each:
            raise StateError(f"{name}() without a loop: expected begin() before it")
        return self._protocol

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
            self.complete()

    # ---- all objects of a rank together ------------------------------------------------------

    def iterate(self, n: int) -> Iterator[int]:
        protocol = self._open(n, each=False)
        if protocol is None:
            return
        state, objects = self._state, self._state.objects
        first = state.done
        at_sync, go, keep = protocol.core.at_sync, AtSync.GO, state.records.keep
        background = state.options.facts.background
        try:
            for it in range(first, first + n):
                yield it
                objects.ask_loads()
                phases = objects.join_phases(it)
                if objects.phases is None:  # the first iteration, whose phases are now known
                    objects.name_phases()
                    protocol.bind(objects)
                keep(background)
                answer = self._end_phases(protocol, phases) if phases else at_sync()
                if it % TAKE == 0:
                    self.take()  # otherwise the statistics that have arrived fill the memory
                if answer is not go or objects.stale:
                    if answer is None:
                        self._fail()
                    if answer is AtSync.BALANCE:
                        self._rebalance(protocol)
                        if protocol.core.at_sync() is None:
                            self._fail()
                    elif self._state.objects.stale:
                        self._join()
            self._end(protocol)
        except MPIError as why:
            state.agreement.at = f"in iteration {protocol.core.contributed}"
            raise state.agreement.explained(why) from None
        except Exception as why:
            state.agreement.tell(why)
            raise
        finally:
            objects.in_loop = False
            if self._protocol is not None:  # the loop was left by break, an error or an interrupt
                self._protocol.give_up(False)

    def _end_phases(self, protocol: AtSyncProtocol, phases: str) -> AtSync | None:
        """End an iteration with phases, whose names are in `phases`."""
        objects = self._state.objects
        seconds = [_core.exact_sum(part) for part in objects.parts]
        seconds[0] += self._state.options.facts.background
        answer: AtSync | None = protocol.core.at_sync(zlib.crc32(phases.encode()), seconds)
        objects.end_phases()
        return answer

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
        self.complete()
        other = state.agreement.running
        if other is not None and not other.left:
            raise StateError("a loop of another Balancer on this communicator is under way")
        try:
            self._start(n)
            state.agreement.step(Step.OPEN, state.done)  # no rank goes on if another has failed
            if not n:
                return None
            # `balances` is False in shadow mode, which makes its decisions later, in `catch_up`.
            protocol = AtSyncProtocol(state, n, balances=self._mode.balances, each=each)
            state.agreement.step(Step.OPEN, state.done)
            self._protocol = protocol
            protocol.open(state)
            state.objects.in_loop = True
            state.objects.join = self._join if each else None
            return protocol
        except Exception as why:
            state.agreement.tell(why)
            if self._protocol is not None:
                self._protocol.give_up(True)
            raise

    def complete(self) -> None:
        if self._protocol is not None:
            self._protocol.finish()
            self._close()
            self._state.records.stop()

    def _end(self, protocol: AtSyncProtocol) -> None:
        """End the loop, which all ranks have completed (`whole`), or a rank has left early."""
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
            self._state.objects.count(len(rows), self._state.options.facts.background)

    def _join(self) -> None:
        """Apply the additions and removals of objects on this rank, within the loop."""
        objects = self._state.objects
        objects.stale = False
        self._state.records.stop()
        objects.arrange()
        if self._protocol is not None:
            self._protocol.bind(objects)

    def _rebalance(self, protocol: AtSyncProtocol) -> None:
        """Rebalance, now that all objects of all ranks have stopped at the same iteration."""
        state = self._state
        self.take()
        state.objects.stale = False
        state.decider.core.abandon()  # after an error, a decision may be unfinished
        changed, _ = state.agreement.step(
            Step.CHANGES, state.done - 1, n_changed=state.objects.n_changed
        )
        state.observe(changed)
        reason = protocol.core.why()[3]  # id of the trigger's reason, for `Decider.choose`
        self._mode.stand(reason)
        protocol.bind(state.objects)
        protocol.core.balanced()

    def _fail(self) -> NoReturn:
        """Leave the loop, because another rank has failed."""
        if self._protocol is not None:
            self._protocol.give_up(False)
            self.complete()
        # The rank that failed also takes part in this step, and sends its error.  If none has
        # failed, the phases of the first iteration differ between the ranks, and the step says so.
        names = ", ".join(self._state.objects.phases or ())
        words = zlib.crc32(names.encode()), names or "no phases"
        self._state.agreement.step(Step.SYNC, 0, words)
        raise RemoteError("another rank has failed")


class LaggedSteps(OpenLoop):
    """Steps with a lag: a rank waits only for the statistics of the step `lag` steps ago.

    Nonblocking reductions compute the statistics while the program continues.
    """

    def __init__(self, agreement: Agreement, lag: int) -> None:
        running = agreement.running
        if running is not None and not running.left:
            raise StateError("a loop of another Balancer or Advisor on this communicator is open")
        if running is not None:
            running.finish()
        self._core = _core.Steps(agreement.transport.reduction(lag + 2), lag)
        self._ready: list[Stats] = []  # statistics that `serve` has received, for `drain`
        # Contributions of this rank to the steps whose statistics are not known yet.
        self._under_way: deque[tuple[Contribution, str]] = deque()
        self._next = 0  # index of the next step
        self._failed = False
        super().__init__(agreement)

    def end(self, sample: Contribution, words: str, error: Exception | None) -> Stats | None:
        """End a step; return the statistics of the step `lag` steps ago, or None if none exists.

        `words` describes the arguments of `Advisor.advise`; `error` is an error of this rank.
        """
        self._agreement.last_step = (sample.kind, sample.iteration, words)
        self._next = sample.iteration + 1
        self._core.begin(sample)
        self._under_way.append((sample, words))
        if error is not None:
            self._fail(sample, words, error)
        record = self._core.take(-1.0)
        if record is None:
            return None
        sample, words = self._under_way.popleft()
        if self._core.broken:
            self._fail(sample, words, None)
        return Stats._make(record)

    def drain(self, step: int) -> Iterator[Stats]:
        """Complete all steps before step `step`, and yield their statistics.  Collective."""
        if self._failed:
            return
        self._next = step
        self.give_up(False)
        self.serve(-1.0)
        broken = self._core.broken
        self.close()
        if broken:
            self._raise(Contribution(Step.ADVISED, step, 0), "", None)
        yield from self._ready

    def _fail(self, sample: Contribution, words: str, error: Exception | None) -> None:
        """Leave the loop after an error of this or another rank, and raise this error.

        After an error of this rank, it waits at most `abort_after` seconds for the other ranks,
        because they never arrive here if they wait for messages of this rank.
        """
        if not self._core.leave(-1.0 if error is None else abort_after()):
            assert error is not None
            self.left = True
            raise error
        self.close()
        self._failed = True
        self._raise(sample, words, error)

    def _raise(self, sample: Contribution, words: str, error: Exception | None) -> None:
        """Join a step of all ranks, which raises the error of the rank that failed."""
        sample = sample._replace(failed=error is not None)
        self._agreement.take(sample, [], error, words)
        raise RemoteError("another rank has left the loop")

    def give_up(self, failed: bool) -> None:
        if not self.left and not self._core.broken:
            self._core.begin(Contribution(Step.ADVISED, self._next, 0, failed), True)
        self.left = True

    def serve(self, seconds: float) -> bool:
        while self._core.under_way and not self._core.broken:
            record = self._core.take(seconds, False)
            if record is None:
                return False
            stats = Stats._make(record)
            if not self._core.broken and stats.n_ended == 0:
                self._ready.append(stats)
        return self._core.leave(seconds)


class AdvisorLoop(IterationLoop):
    """The steps of an advisor, which the program ends by `Advisor.advise`."""

    _state: AdvisorState

    def __init__(self, state: AdvisorState, mode: MeasuringMode, watch: Stopwatch) -> None:
        super().__init__(state, mode)
        self._watch = watch
        self.step = 0  # index of the present step
        self.advice: Advice | None = None  # the advice at the end of the previous step
        # Number of steps of the present loop of `iterate`; None: the program has its own loop.
        self.n: int | None = None
        self.in_loop = False
        self._open = False
        self._steps: LaggedSteps | None = None  # with a lag: the steps under way
        self._last = 0.0  # clock time at the end of the previous step
        self._elapsed = 0.0  # seconds of the most recent step on this rank
        self._expected = 0  # index of the step that `iterate` has yielded most recently

    @property
    def running(self) -> bool:
        """Whether some ranks may know of more steps than others."""
        return self._state.options.lag > 0 and self.in_loop

    def complete(self) -> None:
        """Complete the pending steps, and a loop that was left early.  Collective."""
        steps, self._steps = self._steps, None
        if steps is not None:
            for stats in steps.drain(self.step):
                if self._enter(stats):
                    self._mode.abandon()
        if self._left:
            self._left = False  # first, because a call that fails cannot be repeated
            self._state.records.cut()
            self._mode.end_loop(left_early=True)

    def iterate(self, n: int) -> Iterator[int]:
        with self.telling():
            self.complete()
        self.in_loop = True
        self._watch.end_step()  # what precedes the loop is not part of its first step
        if self.advice is None:  # else the last step's redistribution may still be under way
            self._watch.resume()
        self.n, self._open, self.step = n, False, self._state.done
        is_over = False
        try:
            for _ in range(n):
                step = self._expected = self.step
                yield step
                if self.step == step:
                    why = StateError(f"advise() was not called in step {step}")
                    with self.telling():
                        self.end_step(None, why, step)
            self.close()
            is_over = True
        finally:
            self.in_loop, self.n = False, None
            if not is_over:  # left by break, an error or an interrupt
                self._left = self._open and not self._state.options.lag
                self._open = False
                if self._steps is not None:
                    self._steps.give_up(False)

    def check_twice(self) -> None:
        """Raise StateError for a second `advise` in a step of `iterate`."""
        if self.in_loop and self.step != self._expected:
            raise StateError(f"advise() was called twice in step {self._expected}")

    def _begin(self, measured: Measured | None, error: Exception | None) -> None:
        """Begin the loop at the end of its first step, when arguments are known.  Collective."""
        state = self._state
        self.complete()
        loop = "a loop of its own" if self.n is None else f"iterate({self.n})"
        words = "" if measured is None else measured.words
        state.agreement.step(
            *(Step.START, self.step, state.options.arguments(f"{loop}, {words}")), error=error
        )
        assert measured is not None
        state.ahead = measured.ahead
        if state.ahead:
            state.records.parameters = {**state.records.parameters, "ahead": True}
        self._watch.use(state.clock())
        state.choose(places=measured.sample.arguments & 7 > 0)  # loads, weights or features
        saved = state.records.saved
        saved.cores = state.records.core_waits.cores
        waits = not self._watch.work.used or self._watch.work.clock.endswith("wall")
        # All ranks must decide alike, and some may have no timed work.
        told = state.agreement.reduce(Step.START, self.step, {"waits": ("max", float(waits))})
        saved.waits = bool(told["waits"])
        saved.keyed = measured.cells.keys is not None
        if self.advice is None:  # otherwise the decider still expects results of the LB step
            self._mode.abandon()  # after an error, a decision may be unfinished
        self._accept(measured, cut=False)
        self._mode.start(self.n)
        self._mode.write()
        if state.options.lag:
            state.agreement.step(Step.OPEN, self.step)  # no rank begins if another has failed
        self._open, self._last = True, _core.clock()

    def close(self) -> None:
        """End the loop on all ranks.  Collective."""
        with self.telling():
            self.complete()
            self._state.agreement.step(Step.ADVISED, self.step)
            if self._open:
                self._state.records.cut()
                self._mode.end_loop()
                self._open = False
        self._state.agreement.at = f"after step {self.step - 1}"

    def end_step(self, measured: Measured | None, error: Exception | None, number: int) -> bool:
        """End a step with its index `number`; return whether to rebalance now.  Collective."""
        state = self._state
        if not self._open:
            self._begin(measured, error)
        words = "" if measured is None else measured.words
        self._elapsed = self._watch.elapsed()[0]
        sample = Contribution(Step.ADVISE, number, 0, failed=True)
        if measured is not None:
            background = state.options.facts.background
            idle = max(measured.sample.idle - background, 0.0)
            sample = measured.sample._replace(iteration=number, idle=idle, background=background)
        stats: Stats | None
        if lag := int(state.options.lag):
            self._steps = self._steps or LaggedSteps(state.agreement, lag)
            stats = self._steps.end(sample, words, error)
        else:
            stats, _ = state.agreement.take(sample, [], error, words)
        assert measured is not None
        self._keep(measured, stats)
        self._watch.end_step()
        if self.advice is not None and self.advice.ahead:
            self.advice.ahead, self.advice.late = False, True
        else:
            if self.advice is not None:
                self.advice.over = True
                self.advice = None
            self._watch.move.take()
        self.step += 1
        state.agreement.at = f"in step {self.step}"
        due = stats is not None and self._enter(stats)
        if due:
            assert isinstance(self._mode, AdvisingMode)
            part = self._mode.place() if state.places else None
            state.records.saved.begin(state.done)
            if part is None or part.migrations:
                self.advice = Advice(
                    *(state.agreement, self._watch, self.step - 1, part),
                    n=len(state.cells.keys),
                    ahead=measured.ahead,
                )
        now = _core.clock()
        state.records.seconds += max(now - self._last, 0.0)
        self._last = now
        self._watch.resume()
        return due and self.advice is not None

    def _keep(self, measured: Measured, stats: Stats | None) -> None:
        """Store the measurements of this rank for the LB step and for the records."""
        state, records = self._state, self._state.records
        if state.options.lag:
            if measured.sample.n_changed and len(records.rank_loads) and self.advice is None:
                records.stop()  # the other ranks do not know that these cells have changed
            self._accept(measured, cut=self.advice is not None and self.advice.late)
        else:
            assert stats is not None
            self._accept(measured, cut=bool(stats.n_changed))
        background = state.options.facts.background
        records.rank_loads.append((background + measured.cells.seconds,))
        records.keep(background)

    def _accept(self, measured: Measured, cut: bool) -> None:
        state = self._state
        if cut:
            state.records.cut()
        state.cells.accept(measured.cells, bool(measured.sample.n_changed), measured.sent)
        state.cells.phases, state.partial = measured.phases, measured.partial
        state.features, state.model = measured.features, measured.model or state.model

    def _enter(self, stats: Stats) -> bool:
        """Record the statistics of a step; return whether an LB step is due.  May be collective."""
        state = self._state
        # If the program gives seconds instead of timing them, `time_max` is 0.
        state.ended = self.step - 1 + bool(state.ahead), stats.time_max or self._elapsed
        if not stats.time_max > 0:  # no rank was timed: the largest load is the time of the step
            most, least = stats.load_max, stats.load_min
            stats = stats._replace(
                time_max=most,
                idle_sum=max(stats.n_ranks * most - stats.load_sum, 0.0),
                utilization_min=min(least / most, 1.0) if most > 0 else 1.0,
            )
        self._end_iteration(stats._replace(iteration=state.done), is_last=False)
        return self._mode.due
