"""The state of an advisor, and its mode "on", which gives advice."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Stats, Step
from pylb.decide import sentences
from pylb.decide.decider import BALANCE, PREVIEW
from pylb.errors import DomainError, StrategyError
from pylb.measure.load_model import LoadModel
from pylb.model.snapshot import F64, Snapshot
from pylb.place.registry import Strategy
from pylb.run.cell_step import CellStep, PlacedCells
from pylb.run.cells import CellMessages, Cells, LocalCells
from pylb.run.modes import MeasuringMode
from pylb.run.options import Options
from pylb.run.run_state import KEEP, RunState
from pylb.run.trigger_check import same_answer

log = logging.getLogger("pylb")


def _own(snapshot: Snapshot) -> NoReturn:
    """Raise an error; this is the strategy of a program that redistributes its own data."""
    raise StrategyError("the program itself redistributes its data")


OWN = Strategy(sentences.OWN, "comprehensive", ("load",), _own.__doc__ or "", "", call=_own)


class Measured(NamedTuple):
    """What a rank has measured in a step."""

    form: int  # which arguments `advise` was given, as a code; the same on all ranks
    words: str  # names of these arguments
    cells: Cells
    changed: bool  # whether keys (without keys: the number of cells) differ from the previous step
    sent: CellMessages  # what the cells sent when `edges` were last examined
    features: F64 | None  # (n, k), if `advise` was given features or weights instead of loads
    model: LoadModel | None  # the state's model with this step, if there are features
    time: float  # seconds of the step; 0: it was not timed
    cost: float  # seconds of the redistribution before the step
    rebalanced: bool  # whether this rank carried out the LB step that was advised before the step


class AdvisorState(RunState):
    """The state of a run on one rank, if the program owns its data."""

    def __init__(self, agreement: Agreement, options: Options) -> None:
        self.cells = LocalCells(agreement.transport.rank)
        super().__init__(agreement, options, cast(Any, self.cells))
        self.records.parameters = {**self.records.parameters, "advisor": True}
        # Whether the program gives cells; None: not known before the first step.
        self.places: bool | None = None
        self.model: LoadModel | None = None  # estimates the loads of cells from their features
        self.features: F64 | None = None  # (n, k), of the cells in the most recent step

    def step(self) -> CellStep:  # type: ignore[override]
        """Return the LB step that follows the most recent step of the program.

        Collective if loads are estimated from features.
        """
        loads, measured = self.cells.now.loads, self.features is None
        if self.model is not None and self.features is not None:
            loads = self.features @ LoadModel.coefficients(self._sums(self.model))
        return CellStep(
            *(self.agreement, self.decider, self.done - 1, self.options.facts),
            *(self.cells, loads, measured),
        )

    def _sums(self, model: LoadModel) -> F64:
        """Add up `LoadModel.sums` over all ranks, to fit one model for all ranks.  Collective."""
        sums = np.ascontiguousarray(model.sums)
        # A rank that has failed comes to this step, but not to the collective call after it.
        self.agreement.step(Step.GATHER, self.done - 1)
        every = self.agreement.transport.allgather(sums)
        parts = [np.frombuffer(part).reshape(model.sums.shape) for part in every]
        return np.sum(parts, axis=0)  # type: ignore[no-any-return]

    def check(self, places: bool) -> None:
        """Raise DomainError if only some steps have cells, or if an option needs missing cells."""
        if self.places is not None and self.places != places:
            now, before = ("with cells", "without") if places else ("without cells", "with them")
            raise DomainError(
                f"advise() {now}, after steps {before}: expected cells in all steps or in none"
            )
        given = self.options.settings
        if places:
            return
        cells = "expected loads=, weights= or features= of cells in advise()"
        if not given.selects:
            source = given.said_by("strategy")
            raise DomainError(f"strategy is {given.name!r}{source} without cells to place: {cells}")
        if self.options.mode == "shadow":
            raise DomainError(
                f"mode is 'shadow'{given.said_by('mode')} without cells: the effect of the "
                f"program's own redistribution cannot be known; {cells}, or mode='off'"
            )

    def choose(self, places: bool) -> None:
        """Set whether the program gives cells.  Call it before the first step is observed."""
        if self.places is None and not places:
            given = replace(
                self.options.settings,
                name=OWN.name,
                strategies=(OWN,),
                strategy_params={},
                learns=False,
                watches=False,
            )
            self.decider = given.decider(self.agreement.transport.size, keep=KEEP)
            words = {"strategy": OWN.name, "strategy_params": {}, "unlike": False}
            self.records.parameters = {**self.records.parameters, **words}
        self.places = places
        self.cells.whole = not places


class AdvisingMode(MeasuringMode):
    """Mode "on": gives advice, by `_core.Advisor`, the state machine of the C library."""

    balances = decides = True
    _state: AdvisorState

    def __init__(self, state: AdvisorState) -> None:
        super().__init__(state)
        self._core: _core.Advisor | None = None
        self._ignored = 0  # number of advised LB steps that no rank carried out
        self._said = False  # whether the user was told that waiting is counted as work

    def _foresee(self) -> tuple[float, float]:
        """Estimate the cost of the first LB step, and the part of it that depends on what moves.

        The cost is the seconds to gather the cells, to send their new ranks, and to send all cells
        of a rank to another rank.  The cost is nan without cells, and after the first loop.  It is
        also nan if the user chose the strategy, because such runs must not depend on measured
        times.  The second value is always nan (not known).  Collective.
        """
        state = self._state
        if not (state.places and state.decider.settings.selects and self._core is None):
            return math.nan, math.nan
        guess = state.step().rehearse() + super()._foresee()[0]
        return guess if guess > 0 else math.nan, math.nan

    def _started(self, n: int) -> None:
        if self._core is None:
            state, saved = self._state, self._state.records.saved
            share = saved.cores.share if saved.waits else 1.0
            self._core = _core.Advisor(state.decider.core, bool(state.places), share)

    @property
    def core(self) -> _core.Advisor:
        """The state machine of the C library; it exists after the loop has started."""
        assert self._core is not None
        return self._core

    def advise(self, stats: Stats, now: int, elapsed: float) -> bool:
        """Observe the statistics of a step; return whether an LB step is due after step `now`.

        elapsed: length of that step on this rank, in seconds.

        Collective if the decider asks for the load database (`PREVIEW`), or if the trigger is a
        user's function.
        """
        state = self._state
        was_off = state.decider.core.ledger[0]
        looks = bool(state.places) and state.features is None
        given = state.decider.settings
        ask = same_answer(
            state.agreement, given, now, lambda: self.core.observe(stats, now, looks, elapsed)
        )
        if ask == PREVIEW:
            ask = self.core.previewed(state.step().preview(), now)
        self._report_switching(was_off)
        self._say_ignored()
        if self.core.waits and not self._said:
            self._said = True
            if state.objects.rank == 0:
                log.warning("pylb: %s", self.core.waits)
        return bool(ask == BALANCE)

    def _say_ignored(self) -> None:
        n = self.core.n_ignored
        if n > self._ignored == 0 and self._state.objects.rank == 0:
            log.warning(
                "pylb: before step %d: it seems that the advice to rebalance was not carried out, "
                "so its cost is not learned: expected `with lb.rebalancing()`, "
                "lb.rebalanced(seconds) or plan.migrate(...)",
                self._state.done,
            )
        self._ignored = n

    def place(self) -> PlacedCells:
        """Place the cells in the LB step that is due.  Collective."""
        state = self._state
        state.records.cut()
        try:
            part = state.step().place()
        except Exception:
            self.core.abandon()
            raise
        self.core.placed(part.figures, part.speed, part.migrations, part.nbytes)
        if state.records.saved.keyed:
            self._send_homes(part)
        return part

    def _send_homes(self, part: PlacedCells) -> None:
        """Tell the new ranks of this rank's cells where these were first.  Collective."""
        state, cells = self._state, self._state.cells
        me, homes = state.agreement.transport.rank, cells.homes
        sends = [
            (int(r), [cells.keys[part.rank == r], homes[part.rank == r]])
            for r in np.unique(part.rank[part.rank != me])
        ]
        _, received = state.agreement.step(Step.PLACE, state.done - 1, sends=sends)
        keys = [np.frombuffer(parts[0], np.int64) for _, parts in received]
        came = [np.frombuffer(parts[1], np.int32) for _, parts in received]
        cells.learn_homes(
            np.concatenate([cells.keys[:0], *keys]), np.concatenate([homes[:0], *came])
        )

    def abandon(self) -> None:
        if self._core is not None:
            self._core.abandon()

    def judge(self) -> None:
        if self._core is not None:
            self._core.judge()
