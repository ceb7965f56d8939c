"""The modes of a run: measure only, do LB steps, or repeat the LB steps of a recorded run.

Shadow mode is in `pylb.run.shadow`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np

from pylb import _core
from pylb.comm.agreement import Attempt, Stats, Step
from pylb.comm.transport import Sends
from pylb.decide.decider import BALANCE, JUDGE, PREVIEW, why_switched_off
from pylb.decide.receipts import History
from pylb.errors import DomainError, StateError
from pylb.io.run_record import Loop
from pylb.model.network import Network
from pylb.run.iteration_log import IterationLog
from pylb.run.partners import Speeds
from pylb.run.replayed_decider import ReplayedDecider
from pylb.run.run_state import RunState
from pylb.run.trigger_check import same_answer

log = logging.getLogger("pylb")
Prices = tuple[float, float, float, float]


class MeasuringMode:
    """Mode "off", which only measures; the base of the other modes."""

    balances = False  # whether this mode moves objects
    decides = False  # whether this mode makes decisions

    def __init__(self, state: RunState) -> None:
        self._state = state
        self.due = False  # whether an LB step is postponed to the start of the next loop

    @property
    def history(self) -> History:
        """A receipt for each decision, the same on every rank."""
        return self._state.decider.history

    @property
    def n_balancings(self) -> int:
        """Number of LB steps so far."""
        decider = self._state.decider
        return decider.core.n_balancings + len(decider.before)

    @property
    def saved(self) -> float:
        """Seconds that LB steps have saved (in shadow mode: would save), without their own time."""
        return self._state.records.saved.total

    def shadow_figures(self) -> IterationLog:
        """In shadow mode: the metrics that the iterations would have had with LB steps."""
        mode = self._state.options.mode
        raise StateError(f"shadow with mode={mode!r}: expected mode='shadow'")

    # ---- at the start of a loop ----------------------------------------------------------------

    def start(self, n: int | None) -> None:
        """Begin n iterations (None: unknown), after all objects were registered.  Collective."""
        state, core = self._state, self._state.decider.core
        state.options.facts.start(state.done)
        if state.done == 0 and self.balances and state.decider.settings.selects:
            core.network(*state.network())
            limit = state.options.facts.limit_of_root(state.done)
            if limit is not None:
                core.limit(limit)
        # In the first loop, n is taken as the number of remaining iterations.  In later loops, this
        # number is not known: a program with a second loop may also have a third one.
        (cost, moving), pace = self._foresee(), state.agreement.transport.pace
        state.records.begin(Loop(state.done, n or 0, cost, *self._prices(), pace, moving))
        core.expect(n if state.done == 0 else None, cost, moving)
        self._started(n or 0)

    def _started(self, n: int) -> None:
        """Do what the mode needs before the first iteration of a loop, after `_foresee`."""

    def _foresee(self) -> tuple[float, float]:
        """Estimate the cost of the first LB step, and the part of it that depends on what moves.

        Both are in seconds, and the same on every rank; nan: not needed, or not known.  Collective.
        """
        state, objects = self._state, self._state.objects
        needed = state.decider.settings.foresees and state.decider.core.foresees
        if not (self.decides and needed):
            return math.nan, math.nan
        facts, transport = objects.facts(), state.agreement.transport
        n, nbytes = len(facts), int(facts[:, 1].sum())
        given, handling = state.options.network, objects.sizes.handling
        mine = _core.first_cost(*(given or (0.0, 0.0)), handling, n, nbytes, transport.size)
        if not given:
            # A rank that has failed comes to this step, but not to the measurement after it.
            state.agreement.step(Step.FORESEE, state.done)
            mine += transport.price(nbytes)
        most = state.agreement.step(Step.FORESEE, state.done, cost=mine)[0].cost_max
        return most, most  # all of the cost is for moves: collective steps take almost no time

    def _prices(self) -> Prices:
        """Return alpha, beta, handling and steps: costs of an LB step, see `Loop`; nan: unknown."""
        state = self._state
        known = state.options.network or state.agreement.known_network
        return (*(known or Network(math.nan, math.nan)), state.objects.sizes.handling, math.nan)

    def all_prices(self) -> Prices:
        """Return the costs of `_prices`, equal on all ranks; measure unknown ones.  Collective."""
        state, handling = self._state, self._state.objects.sizes.handling
        rest = state.step().rehearse()
        most, _ = state.agreement.step(Step.RECORDS, state.done, cost=handling)
        return (*state.network(), most.cost_max, rest)

    def priced_loops(self) -> list[Loop]:
        """Return the loops; without LB steps and lag, measure an LB step's cost.  Collective."""
        loops = self._state.records.loops
        if not loops or self.n_balancings or self._state.options.lag:
            return loops
        prices = self.all_prices()
        pace = self._state.agreement.transport.pace
        return [Loop(*loop[:3], *prices, pace, loop.moving) for loop in loops]

    # ---- at the end of an iteration ------------------------------------------------------------

    def observe(self, stats: Stats, is_last: bool) -> None:
        """Observe the statistics of an iteration; rebalance if the decider asks.  Collective."""

    def stand(self, reason: int) -> None:
        """Rebalance if the decider agrees.  Call it when all objects have stopped.  Collective.

        reason: number of the trigger's reason for the LB step, see `Decider.choose`.
        """

    def abandon(self) -> None:
        """Cancel a decision that is not finished, or an LB step that is due."""
        self._state.decider.core.abandon()

    def judge(self) -> None:
        """Write into the receipt of the last LB step what it has saved so far.  Collective."""

    def end_loop(self, left_early: bool = False, failed: bool = False) -> None:
        """Complete the receipts, and the file of ``record=path``.  Collective.

        left_early: the loop has ended before its last iteration, failed: by an error, so the gain
        of the last LB step is not known.
        """
        if not failed:
            self.judge()
            self.update_saved()
        self.catch_up(is_over=True, left_early=left_early)
        self._state.records.write(lambda: self.history)

    def update_saved(self) -> None:
        """Compute what LB steps have saved so far.  Collective."""
        state, given = self._state, self._state.options.facts.known("speed")
        learned: Sequence[float] = ()
        if given is None:
            learned = next((r.speed for r in reversed(self.history) if r.balanced and r.moved), ())
        state.records.saved.update(state.done, given, learned)

    def catch_up(self, is_over: bool, left_early: bool = False) -> None:
        """In shadow mode: make the pending decisions.  Collective.

        is_over: the loop has ended, left_early: before its last iteration.
        """

    def _report_switching(self, was_off: bool) -> None:
        """Log on rank 0 if the decider has just switched LB steps off, or on again."""
        off, paid, saved, until = self._state.decider.core.ledger
        if self._state.objects.rank == 0 and off != was_off:
            message = (
                why_switched_off(paid, saved, until)
                if off
                else "LB steps pay again and are switched on"
            )
            log.warning("pylb: after iteration %d: %s", self._state.done - 1, message)


class BalancingMode(MeasuringMode):
    """Mode "on": rebalances when the decider asks for it."""

    balances = decides = True
    _speed: Speeds = None  # speeds that the most recent LB step used

    def _started(self, n: int) -> None:
        if self.due and n:  # a loop without iterations does nothing
            for history in self._state.records.keepers:
                history.start()
            self.rebalance()

    def observe(self, stats: Stats, is_last: bool) -> None:
        state = self._state
        asked = same_answer(
            *(state.agreement, state.decider.settings, state.done - 1),
            lambda: state.decider.core.observe(
                state.done - 1,
                stats.time_max,
                stats.load_max,
                stats.load_sum / stats.n_ranks,
                stats.load_min,
                stats.load_sum,
                stats.utilization_min,
                stats.messages,
                stats.message_bytes,
            ),
        )
        self.due = self._answer(bool(asked), may_preview=not is_last)
        if state.records.saved.is_due(state.done) and not is_last:
            self.update_saved()
        if self.due and not is_last:
            self.rebalance()

    def stand(self, reason: int) -> None:
        if self._answer(asked=True, may_preview=False):
            self.rebalance(reason)

    def _answer(self, asked: bool, may_preview: bool) -> bool:
        """Do what the decider asks for; return whether to rebalance.  Collective."""
        core = self._state.decider.core
        ask = core.next(asked, may_preview)
        if ask == JUDGE:
            was_off = core.ledger[0]
            core.judge(self._gain())
            self._report_switching(was_off)
            ask = core.next(asked, may_preview)
        if ask == PREVIEW:
            self._state.records.cut()  # so that the record has the same objects as the preview
            ask = core.previewed(self._state.step().preview())
        return bool(ask == BALANCE)

    def _gain(self) -> float:
        """Return the seconds that the most recent LB step has saved, on every rank.  Collective.

        For each object, the loads since the LB step are added up, so that noise evens out.  The
        gain is the sum on the slowest rank if all objects had stayed on their old ranks, minus the
        sum on the slowest rank now.  A rank sends only the sums of objects that have moved, to
        their old ranks.
        """
        agreement, store, speed = self._state.agreement, self._state.objects.store, self._speed
        at, me = (Step.WORTH, self._state.done - 1), agreement.transport.rank
        sums, was = store.window, store.properties["was"]
        was = np.where(was < 0, me, was)
        guests = was != me
        # Convert the sums to seconds on the old ranks, e.g. to more seconds on a slower rank.
        there = sums if speed is None else sums * (speed[me] / speed[was])
        sends: Sends = [
            (int(r), [np.ascontiguousarray(there[was == r])]) for r in np.unique(was[guests])
        ]
        now, received = agreement.step(
            *at, sends=sends, loads=sums, background=store.other, n_objects=len(sums)
        )
        loads = [sums[~guests], *(np.frombuffer(parts[0]) for _, parts in received)]
        then, _ = agreement.step(*at, loads=np.concatenate(loads), background=store.other)
        return then.load_max - now.load_max

    def judge(self) -> None:
        if self._state.decider.core.can_judge:
            self._state.decider.core.judge(self._gain())

    def rebalance(self, reason: int = -1) -> None:
        """Rebalance after the iteration that has just ended.  Collective."""
        self.due = False
        self.judge()
        self._state.records.cut()
        self.update_saved()
        self._state.records.saved.begin(self._state.done)
        try:
            self._speed = self._state.step().run(reason)
        except BaseException:
            # If this rank ends now, the error of the other ranks names this place.
            self._state.agreement.at = self._state.agreement.last_step_in_words
            raise


class ReplayingMode(BalancingMode):
    """Repeats the LB steps of a recorded run."""

    @property
    def _decider(self) -> ReplayedDecider:
        assert isinstance(self._state.decider, ReplayedDecider)
        return self._state.decider

    def _started(self, n: int) -> None:
        self._decider.check_length(self._state.done + n)
        super()._started(n)
        if n:
            self._check_objects()

    def observe(self, stats: Stats, is_last: bool) -> None:
        super().observe(stats, is_last)
        if stats.n_changed and not is_last:
            self._check_objects()

    def rebalance(self, reason: int = -1) -> None:
        self._check_objects(ranks=False)
        super().rebalance(reason)

    def _check_objects(self, ranks: bool = True) -> None:
        """Check that the record has this program's objects; ranks=True: also on the same ranks."""
        state = self._state
        with Attempt(DomainError) as tried:
            self._decider.check_objects(state.done, state.objects, ranks)
        state.agreement.fail_alike(Step.CHANGES, tried.error)
