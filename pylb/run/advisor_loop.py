"""The steps of a program that owns its loop: what happens at the end of each step."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Contribution, OpenLoop, Stats, Step
from pylb.comm.program_end import abort_after
from pylb.errors import RemoteError, StateError
from pylb.run.advice import Advice
from pylb.run.advising_mode import AdvisingMode, AdvisorState, Measured
from pylb.run.modes import MeasuringMode
from pylb.run.stopwatch import Stopwatch

log = logging.getLogger("pylb")


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
        self._ready: list[Stats] = []  # statistics that `serve` took, for `drain`
        # Contributions of this rank to the steps whose statistics are not known yet.
        self._under_way: deque[tuple[Contribution, str]] = deque()
        self._next = 0  # number of the next step
        self._failed = False
        super().__init__(agreement)

    def end(self, mine: Contribution, words: str, error: Exception | None) -> Stats | None:
        """End a step; return the statistics of the step `lag` steps ago, or None if none exists.

        words: the arguments of `Advisor.advise`; error: an error of this rank.  Raises the same
        errors as `Agreement.step`.
        """
        self._agreement.last_step = (mine.kind, mine.iteration, words)
        self._next = mine.iteration + 1
        self._core.begin(mine)
        self._under_way.append((mine, words))
        if error is not None:
            self._fail(mine, words, error)
        record = self._core.take(-1.0)
        if record is None:
            return None
        mine, words = self._under_way.popleft()
        if self._core.broken:
            self._fail(mine, words, None)
        return Stats._make(record)

    def drain(self, step: int) -> Iterator[Stats]:
        """Complete the steps before number `step`, and yield their statistics.  Collective."""
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

    def _fail(self, mine: Contribution, words: str, error: Exception | None) -> None:
        """Leave after an error of this or another rank, and raise it.

        If this rank has an error, it waits at most `abort_after` seconds for the other ranks: they
        never arrive here if they wait for messages of this rank.
        """
        if not self._core.leave(None, -1.0 if error is None else abort_after()):
            assert error is not None
            self.left = True
            raise error
        self.close()
        self._failed = True
        self._raise(mine, words, error)

    def _raise(self, mine: Contribution, words: str, error: Exception | None) -> None:
        """Take a step with all ranks, which raises the error of the rank that failed."""
        sample = mine._replace(failed=error is not None)
        self._agreement.take(sample, [], error, words)
        raise RemoteError("another rank has left the loop")

    # ---- when a rank leaves ------------------------------------------------------------------

    def give_up(self, failed: bool) -> None:
        if not self.left and not self._core.broken:
            self._core.end(Contribution(Step.ADVISED, self._next, 0, failed))
        self.left = True

    def serve(self, seconds: float) -> bool:
        while self._core.under_way and not self._core.broken:
            record = self._core.next(seconds)
            if record is None:
                return False
            stats = Stats._make(record)
            if not self._core.broken and stats.n_ended == 0:
                self._ready.append(stats)
        return self._core.leave(None, seconds)


class AdvisorLoop:
    """The steps of an advisor.  For reports it has the interface of `loops.IterationLoop`."""

    def __init__(self, state: AdvisorState, mode: MeasuringMode, watch: Stopwatch) -> None:
        self._state, self._mode, self._watch = state, mode, watch
        self.step = 0  # number of the present step
        self.advice: Advice | None = None  # the advice at the end of the previous step
        # Number of steps of the present loop of `iterate`; None: the program has its own loop.
        self.n: int | None = None
        self.in_loop = False
        self._open = False
        self._left = False  # whether the program has left the previous loop early, without a lag
        self._steps: LaggedSteps | None = None  # with a lag: the steps under way
        self._last = 0.0  # clock time at the end of the previous step
        self._elapsed = 0.0  # seconds of the most recent step on this rank
        self._expected = 0  # number of the step that `iterate` has yielded most recently

    # ---- for reports -----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether some ranks may know of more steps than others."""
        return self._state.options.lag > 0 and self.in_loop

    def take(self) -> None:
        """Do nothing: the records already have every step whose statistics this rank has."""

    def settle(self) -> None:
        """Complete the pending steps, and a loop that was left early.  Collective."""
        steps, self._steps = self._steps, None
        if steps is not None:
            for stats in steps.drain(self.step):
                if self._enter(stats):
                    self._mode.abandon()
        if self._left:
            self._left = False  # also if this fails: it cannot be repeated
            self._state.records.cut()
            self._mode.end_loop(left_early=True)

    # ---- begin and end ---------------------------------------------------------------------------

    def begin(self, n: int) -> None:
        """Begin a loop of `iterate`.  Collective."""
        with self._told():
            self.settle()
        self.in_loop = True
        self.n, self._open, self.step = n, False, self._state.done

    def expect(self) -> int:
        """Return the number of the next step of `iterate`, in which one `advise` is expected."""
        self._expected = self.step
        return self.step

    def check_twice(self) -> None:
        """Raise StateError for a second `advise` in a step of `iterate`."""
        if self.in_loop and self.step != self._expected:
            raise StateError(f"advise() was called twice in step {self._expected}")

    def end(self, is_over: bool) -> None:
        """End a loop of `iterate`; is_over=False: left early (break, error or interrupt)."""
        self.in_loop, self.n = False, None
        if not is_over:
            self._left = self._open and not self._state.options.lag
            self._open = False
            if self._steps is not None:
                self._steps.give_up(False)

    def _begin(self, mine: Measured | None, error: Exception | None) -> None:
        """Begin the loop when its first step ends: then the arguments are known.  Collective."""
        state = self._state
        self.settle()
        loop = "a loop of its own" if self.n is None else f"iterate({self.n})"
        words = "" if mine is None else mine.words
        state.agreement.step(
            *(Step.START, self.step, state.options.arguments(f"{loop}, {words}")), error=error
        )
        assert mine is not None
        self._watch.work.clock = state.clock()
        state.choose(places=mine.form > 0)
        saved = state.records.saved
        saved.cores = state.records.core_waits.cores
        saved.waits = not self._watch.work.used or self._watch.work.clock == "wall"
        saved.keyed = mine.cells.keys is not None
        if self.advice is None:  # otherwise this step learns how the advised LB step went
            self._mode.abandon()  # after an error, a decision may be unfinished
        self._accept(mine, cut=False)
        self._mode.start(self.n)
        state.records.write(lambda: self._mode.history)
        if state.options.lag:
            state.agreement.step(Step.OPEN, self.step)  # no rank begins, if another has failed
        self._open, self._last = True, _core.clock()

    def close(self) -> None:
        """End the loop on all ranks.  Collective."""
        with self._told():
            self.settle()
            self._state.agreement.step(Step.ADVISED, self.step)
            if self._open:
                self._state.records.cut()
                self._mode.end_loop()
                self._open = False
        self._state.agreement.at = f"after step {self.step - 1}"

    # ---- the end of a step -----------------------------------------------------------------------

    def end_step(self, mine: Measured | None, error: Exception | None, number: int) -> bool:
        """End a step; return whether the program should rebalance now.  Collective.

        mine: None if there is an error; number: number of this step, compared between ranks.
        """
        with self._told():
            return self._end_step(mine, error, number)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell the other ranks an error of the block, even if the program catches it."""
        try:
            yield
        except Exception as why:
            self._state.agreement.tell(why)
            raise

    def _end_step(self, mine: Measured | None, error: Exception | None, number: int) -> bool:
        state = self._state
        if not self._open:
            self._begin(mine, error)
        words = "" if mine is None else mine.words
        self._elapsed = self._watch.elapsed()
        sample = _sample(mine, number, state.options.facts.background)
        stats: Stats | None
        if lag := int(state.options.lag):
            self._steps = self._steps or LaggedSteps(state.agreement, lag)
            stats = self._steps.end(sample, words, error)
        else:
            stats, _ = state.agreement.take(sample, [], error, words)
        assert mine is not None
        self._keep(mine, stats)
        if self.advice is not None:
            self.advice.over = True
            self.advice = None
        self._watch.work.take()
        self._watch.move.take()
        self.step += 1
        state.agreement.at = f"in step {self.step}"
        due = stats is not None and self._enter(stats)
        return self._plan() if due else self._end()

    def _plan(self) -> bool:
        state, mode = self._state, self._mode
        assert isinstance(mode, AdvisingMode)
        part = mode.place() if state.places else None
        state.records.saved.begin(state.done)
        if part is None or part.migrations:
            self.advice = Advice(state.agreement, self._watch, self.step - 1, part)
        return self._end()

    def _end(self) -> bool:
        records = self._state.records
        if records.is_due and not self._state.options.lag:
            records.write(lambda: self._mode.history)
        now = _core.clock()
        records.seconds += max(now - self._last, 0.0)
        self._last = now
        self._watch.resume()
        return self.advice is not None

    def _keep(self, mine: Measured, stats: Stats | None) -> None:
        """Keep the measurements of this rank for the LB step and for the records."""
        state, records = self._state, self._state.records
        if state.options.lag:
            if mine.changed and len(records.rank_loads) and self.advice is None:
                records.stop()  # the other ranks do not know that these cells have changed
            self._accept(mine, cut=False)
        else:
            assert stats is not None
            self._accept(mine, cut=bool(stats.n_changed))
        background, cells = state.options.facts.background, state.cells
        records.rank_loads.append((background + mine.cells.seconds,))
        records.saved.keep(cells.seconds, cells.homes, background)
        for history in records.keepers:
            history.keep()

    def _accept(self, mine: Measured, cut: bool) -> None:
        state = self._state
        if cut:
            state.records.cut()
        state.cells.accept(mine.cells, mine.changed, mine.sent)
        state.features, state.model = mine.features, mine.model or state.model

    def _enter(self, stats: Stats) -> bool:
        """Record the statistics of a step; return whether an LB step is due.  May be collective."""
        state = self._state
        elapsed = stats.time_max or self._elapsed  # the latter if seconds are told, not timed
        stats = _complete(stats)._replace(iteration=state.done)
        state.cells.n_objects = stats.n_objects
        state.records.add(stats)
        if isinstance(self._mode, AdvisingMode):
            due = self._mode.advise(stats, self.step - 1, elapsed)
            if not self._mode.n_balancings:
                state.records.saved.cancel()
            return due
        if not state.options.lag:
            self._mode.observe(stats, is_last=False)
        return False


def _sample(mine: Measured | None, number: int, background: float) -> Contribution:
    if mine is None:
        return Contribution(Step.ADVISE, number, 0, failed=True)
    cells = mine.cells
    return Contribution(
        Step.ADVISE,
        number,
        mine.form,
        False,
        len(cells.loads),
        np.array([cells.seconds]),
        max(mine.time - cells.seconds - background, 0.0),
        mine.sent.messages,
        mine.sent.nbytes,
        mine.time,
        mine.cost,
        int(mine.changed),
        int(mine.rebalanced),
        background=background,
    )


def _complete(stats: Stats) -> Stats:
    """If no rank was timed, the largest load is the time of the step: set time and idle times."""
    if stats.time_max > 0:
        return stats
    most, least = stats.load_max, stats.load_min
    return stats._replace(
        time_max=most,
        idle_sum=max(stats.n_ranks * most - stats.load_sum, 0.0),
        utilization_min=least / most if most > 0 else 1.0,
    )
