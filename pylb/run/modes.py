"""The modes of a run: only measure, rebalance, repeat recorded LB steps, advise, or shadow."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np

from pylb import _core
from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Attempt, Contribution, Stats, Step
from pylb.comm.transport import Sends
from pylb.decide import sentences
from pylb.decide.decider import (
    BALANCE,
    BEGIN,
    JUDGE,
    PREVIEW,
    Decider,
    Settings,
    settings,
    why_switched_off,
)
from pylb.decide.receipts import History, Receipt
from pylb.decide.registry import Cycle
from pylb.errors import DomainError, StrategyError
from pylb.io import record_file
from pylb.io.phases import Phases
from pylb.io.run_record import Loop, RunFacts, Stretch
from pylb.measure.load_model import LoadModel
from pylb.model.machine import Links
from pylb.model.metrics import Metrics
from pylb.model.network import Network
from pylb.model.snapshot import F64, Snapshot
from pylb.placing.registry import Strategy, find, with_network
from pylb.replaying.replayed import OPEN
from pylb.replaying.trace import Trace
from pylb.replaying.trace_conversion import (
    on_ranks,
    on_speeds,
    one_phase,
    sharing_of,
    trace_arrays,
)
from pylb.run.cells import CellMessages, Cells, LocalCells
from pylb.run.lb_step import LBStep, Placed, Speeds
from pylb.run.local_objects import LocalObjects
from pylb.run.options import Options
from pylb.run.records import WRITE_EVERY, IterationLog, LoadHistory, Records, Row
from pylb.run.report import IterationMetrics

log = logging.getLogger("pylb")
MANY = 10_000  # if more objects than this come or go, unused memory is returned to the system
KEPT_RECEIPTS = 4096  # largest number of receipts in memory


class RunState:
    """The state of a run on one rank."""

    def __init__(self, agreement: Agreement, options: Options, objects: LocalObjects) -> None:
        self.agreement, self.options, self.objects = agreement, options, objects
        n_ranks = agreement.transport.size
        self.decider = (
            options.settings.decider(n_ranks, keep=KEPT_RECEIPTS)
            if options.replay is None
            else ReplayedDecider(options.replay, n_ranks)
        )
        self.records = Records(agreement, objects, options)
        given = options.network
        #: The cost of messages, if `network` was given; for "measure", `find_links` sets it.
        self.given_network = given.network if isinstance(given, Links) else None

    def ignore_recording_by_environment(self) -> None:
        """Record nothing if only ``PYLB_RECORD`` asks for it.  No iteration may have begun."""
        options = self.options
        if options.record is not False and options.settings.said_by("record"):
            self.options = replace(options, record=False)
            self.records = Records(self.agreement, self.objects, self.options)
            if self.objects.rank == 0:
                log.warning(
                    "pylb: PYLB_RECORD has no effect: a run that continues from a checkpoint has "
                    "no record"
                )

    @property
    def done(self) -> int:
        """Number of iterations so far."""
        return len(self.records.figures)

    def clock(self) -> str:
        """Return the clock that times objects, see `Cores.clock`.  Collective the first time."""
        self.records.core_waits.begin(self.agreement)
        cores = self.records.core_waits.cores
        clock = cores.clock(self.options.clock)
        if self.options.load is None:  # otherwise the user's function returns the loads
            self.records.saved.cores, self.records.saved.waits = cores, clock == "wall"
            self.decider.core.share(cores.share)
        return clock

    def observe(self, stats: Stats) -> None:
        """Register the objects that came or went in an iteration.  Collective if there are any."""
        if stats.n_changed:
            self.learn()

    def learn(self) -> None:
        """Tell all ranks which objects were added and removed.  Collective."""
        for history in self.records.keepers:
            history.change()
        many = self.objects.n_changed > MANY
        self.objects.learn(self.done)
        if self.options.mode != "off" or self.options.record is not False:
            self.objects.sizes.measure(self.objects)
        if many:
            _core.trim()  # `learn` has freed arrays as large as those that remain

    def step(self) -> LBStep:
        """Return the LB step that follows the most recent iteration."""
        return LBStep(
            *(self.agreement, self.decider, self.done - 1, self.options.facts, self.objects),
            overlap=self.options.overlap,
        )

    def network(self) -> Network:
        """Return the cost of messages, given or measured.  Collective the first time."""
        self.find_links()
        return self.given_network or self.agreement.network()

    def with_network(self, settings: Settings) -> bool:
        """Return whether strategies get the cost of messages; alpha and beta of the user stay."""
        values = settings.strategy.values
        measured = self.options.network == "measure" and not {"alpha", "beta"} & values.keys()
        return settings.selects or measured

    def find_links(self) -> None:
        """If `network` says so, measure the machine, or check a given one.  Collective."""
        given, facts = self.options.network, self.options.facts
        transport = self.agreement.transport
        plain = isinstance(given, Links) and given.machine is None
        if given is None or plain or facts.links or self.options.replay is not None:
            return
        with Attempt() as tried:
            if isinstance(given, Links):
                given.check_host(transport.rank, transport.host())
        self.agreement.step(Step.FORESEE, self.done, error=tried.error)
        links = given
        if not isinstance(links, Links):
            links = Links.of(transport.machine(), transport.size)
        self.given_network, facts.links = links.network, links.ranks
        if (near := facts.links.get("near")) is not None:
            known = {"node": facts.links["node"].tolist(), "near": near.tolist()}
            self.records.parameters = {**self.records.parameters, "distances": known}


ANSWERS = ("no LB step", "an LB step")


def same_answer(
    agreement: Agreement, settings: Settings, iteration: int, ask: Callable[[], int]
) -> int:
    """Call `ask`, which asks the decider what to do, and return the answer.

    Collective if the trigger is a user's function, because ranks with different answers could wait
    for each other forever: DomainError on all ranks.  Built-in triggers answer the same everywhere.
    """
    if settings.trigger.function is None:
        return ask()
    asked = 0
    with Attempt() as tried:
        asked = ask()
    words = ANSWERS[bool(asked)]
    agreement.step(Step.ANSWER, iteration, (int(bool(asked)), words), error=tried.error)
    return asked


class ReplayedDecider(Decider):
    """Repeats the LB steps of a record, in the same iterations and with the same placements."""

    def __init__(self, path: str | os.PathLike[str], n_ranks: int) -> None:
        self.run = record_file.read(path)
        if self.run.n_ranks != n_ranks:
            raise DomainError(
                f"replay is {self.run.path!r}, a run on {self.run.n_ranks} ranks: expected a run "
                f"on {n_ranks} ranks"
            )
        self._recorded = {
            r.iteration: r
            for r in self.run.history.lb_steps
            if r.iteration + 1 < self.run.n_iterations and r.moved
        }
        self._iteration = -1  # the most recent iteration that the trigger was asked about
        given = settings(replace(find(self._place), name="recorded"), trigger=self._asks)
        super().__init__(replace(given, gives_up=False), n_ranks, (0.0, 0.0), keep=0)

    def _asks(self, cycle: Cycle) -> bool:
        self._iteration = cycle.iteration
        return cycle.iteration in self._recorded

    def _place(self, snapshot: Snapshot) -> Any:
        return self.run.at(self._iteration + 1).rank

    def receipt(self, row: dict[str, Any]) -> Receipt:
        """Convert a receipt of the C core, and take its reasons from the record."""
        receipt = super().receipt(row)
        recorded = self._recorded[receipt.iteration]
        receipt.reason = f"the recorded run did an LB step here, because {recorded.reason}"
        receipt.why = f"the recorded run used {recorded.strategy}"
        return receipt


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
    def n_lb_steps(self) -> int:
        """Number of LB steps so far."""
        decider = self._state.decider
        return decider.core.n_lb_steps + len(decider.before)

    @property
    def saved(self) -> float:
        """Seconds that LB steps have saved (shadow mode: would save), before subtracting costs."""
        return self._state.records.saved.total

    # ---- at the start of a loop ----------------------------------------------------------------

    def start(self, n: int | None) -> None:
        """Begin `n` iterations (None: unknown); all objects are registered.  Collective."""
        state, core = self._state, self._state.decider.core
        state.options.facts.start(state.done)
        state.find_links()
        if state.done == 0 and self.balances and state.with_network(state.decider.settings):
            core.network(*state.network())
        if state.done == 0 and self.balances and state.decider.settings.selects:
            limit = state.options.facts.limit_of_root(state.done)
            if limit is not None:
                core.limit(limit)
        experience = state.options.experience
        if state.done == 0 and self.balances and experience is not None:
            trigger = state.decider.settings.trigger
            state.decider.told = experience.begin(trigger, state.agreement)
            if n is None:  # it is not known when the program's own loop ends
                experience.write_at_end(trigger, state.agreement)
        # In the first loop, `n` counts as the number of remaining iterations.  In later loops, this
        # number is not known, because a program with a second loop may also have a third one.
        (cost, moving), pace = self._foresee(), state.agreement.transport.pace
        state.records.begin(Loop(state.done, n or 0, cost, *self._prices(), pace, moving))
        core.expect(n if state.done == 0 else None, cost, moving)
        self._started(n or 0)

    def _started(self, n: int) -> None:
        """Do what the mode needs before the first iteration of a loop, after `_foresee`."""

    def _foresee(self) -> tuple[float, float]:
        """Estimate the seconds of the first LB step, and the part that depends on what moves.

        The same on every rank; nan: not needed, or not known.  Collective.
        """
        state, objects = self._state, self._state.objects
        needed = state.decider.settings.foresees and state.decider.core.foresees
        if not (self.decides and needed):
            return math.nan, math.nan
        known, transport = objects.recorded(), state.agreement.transport
        n, nbytes = len(known), int(known["nbytes"].sum())
        network, handling = state.given_network, objects.sizes.handling
        cost = _core.first_cost(*(network or (0.0, 0.0)), handling, n, nbytes, transport.size)
        if not network:
            # If a rank has failed, this step raises the error; the measurement would never end.
            state.agreement.step(Step.FORESEE, state.done)
            cost += transport.price(nbytes)
        most = state.agreement.reduce(Step.FORESEE, state.done, {"cost": ("max", cost)})["cost"]
        return most, most  # the whole cost depends on moves: other steps take almost no time

    def _prices(self) -> Prices:
        """Return the fields alpha, beta, handling and steps of a `Loop`; nan: unknown."""
        state = self._state
        known = state.given_network or state.agreement.known_network
        known = known or Network(math.nan, math.nan)
        return (*known, state.objects.sizes.handling, math.nan)

    def all_prices(self) -> Prices:
        """Return `_prices`, but measure unknown values; the same on all ranks.  Collective."""
        state, handling = self._state, self._state.objects.sizes.handling
        rest = state.step().rehearse()
        most = state.agreement.reduce(*(Step.RECORDS, state.done), {"handling": ("max", handling)})
        return (*state.network(), most["handling"], rest)

    def priced_loops(self) -> list[Loop]:
        """Return the loops; without LB steps and lag, first measure the cost.  Collective."""
        loops = self._state.records.loops
        if not loops or self.n_lb_steps or self._state.options.lag:
            return loops
        prices = self.all_prices()
        pace = self._state.agreement.transport.pace
        return [Loop(*loop[:3], *prices, pace, loop.moving) for loop in loops]

    # ---- at the end of an iteration ------------------------------------------------------------

    def observe(self, stats: Stats, is_last: bool) -> None:
        """Observe the statistics of an iteration; rebalance if the decider asks.  Collective."""

    def stand(self, reason: int) -> None:
        """Rebalance if the decider agrees, when all objects have stopped; see `Decider.choose`."""

    def abandon(self) -> None:
        """Cancel a decision that is not finished, or an LB step that is due."""
        self._state.decider.core.abandon()

    def judge(self) -> None:
        """Enter into the receipt of the last LB step what it has saved so far.  Collective."""

    def end_loop(self, left_early: bool = False, failed: bool = False) -> None:
        """Complete the receipts, and the file of ``record=path``.  Collective.

        If an error has ended the loop (`failed`), the gain of the last LB step is not known.
        """
        if not failed:
            self.judge()
            self.update_saved()
        self.catch_up(is_over=True, left_early=left_early)
        experience = self._state.options.experience
        if self.balances and experience is not None:
            experience.write(self._state.decider.settings.trigger, not (left_early or failed))
        self.write()

    def write(self) -> None:
        """Extend the file of ``record=path``, if there is one.  Collective."""
        self._state.records.write(lambda: self.history)

    def update_saved(self) -> None:
        """Compute what LB steps have saved so far.  Collective."""
        state, speed = self._state, self._state.options.facts.known("speed")
        learned: Sequence[float] = ()
        if speed is None and (last := state.decider.last) is not None:
            learned = last.speed
        state.records.saved.update(state.done, speed, learned)

    def catch_up(self, is_over: bool, left_early: bool = False) -> None:
        """In shadow mode, make the pending decisions, also at the end of a loop.  Collective."""

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
                stats.hidden_max,
                stats.idle_sum / stats.n_ranks,
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
        if ask == BEGIN:
            self._state.records.cut()
            self._state.step().begin()
        return bool(ask == BALANCE)

    def _gain(self) -> float:
        """Return the seconds that the most recent LB step has saved, on every rank.  Collective.

        For each object, the loads since the LB step are added up, so that noise evens out.  The
        gain is the sum on the slowest rank if all objects had stayed on their old ranks, minus the
        sum on the slowest rank now.  A rank sends only the sums of objects that have moved.
        """
        agreement, objects, speed = self._state.agreement, self._state.objects, self._speed
        at, me = (Step.WORTH, self._state.done - 1), agreement.transport.rank
        every, was = objects.sums, objects.table["was"]  # sums of all phases, then of each phase
        was = np.where(was < 0, me, was)
        guests = was != me
        # Convert the sums to seconds on the old ranks, e.g. to more seconds on a slower rank.
        there = every if speed is None else every * (speed[me] / speed[was])
        sends: Sends = [
            (int(r), [np.ascontiguousarray(there[:, was == r])]) for r in np.unique(was[guests])
        ]
        now, received = agreement.step(*at, sends=sends, **_summed(every, objects.other))
        came = [np.frombuffer(parts[0]).reshape(len(every), -1) for _, parts in received]
        stay = np.concatenate([every[:, ~guests], *came], axis=1)
        then, _ = agreement.step(*at, **_summed(stay, objects.other))
        return self._state.decider.core.saving(then.load_max, now.load_max)

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
            if self._state.decider.ahead is not None:  # a later LB step has other loads
                self._state.decider.ahead.begun = None
            raise


def _summed(sums: F64, background: float) -> dict[str, Any]:
    """Return fields of a `Contribution` from (1 + d, n) sums of loads: in all, and by phase."""
    known = {"loads": sums[0], "phases": sums[1:], "n_phases": len(sums) - 1}
    return {**known, "background": background, "n_objects": sums.shape[1]}


class ReplayingMode(BalancingMode):
    """Repeats the LB steps of a recorded run."""

    def _started(self, n: int) -> None:
        run, end = cast(ReplayedDecider, self._state.decider).run, self._state.done + n
        if end > run.n_iterations:
            raise DomainError(
                f"replay is {run.path!r}, a run of {run.n_iterations} iterations: expected {end} "
                "or more"
            )
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
        """Check that the recorded run had this program's objects in that iteration.  Collective.

        With `ranks`, each object was on this rank; without it, those that may not migrate were.
        """
        state, objects = self._state, self._state.objects
        run = cast(ReplayedDecider, state.decider).run
        keys = objects.keys
        with Attempt(DomainError) as tried:
            if state.done < run.n_iterations:
                there = run.at(state.done)
                name = f"replay is {run.path!r}, a record of another program: in iteration "
                name += f"{state.done}"
                odd = keys[~np.isin(keys, there.key)]
                if len(odd) or len(there.key) != objects.n_objects:
                    extra = f"; only this program has object {odd[0]}" if len(odd) else ""
                    raise DomainError(
                        f"{name} it has {len(there.key)} objects, but this program has "
                        f"{objects.n_objects}{extra}"
                    )
                was = there.rank[np.searchsorted(there.key, keys)]
                moves = was != objects.rank
                if not ranks:
                    moves &= ~objects.table["migratable"]
                for i in np.flatnonzero(moves)[:1]:
                    here = "but here it is on" if ranks else "but here it may not migrate from"
                    raise DomainError(
                        f"{name} object {keys[i]} is on rank {was[i]}, {here} rank {objects.rank}"
                    )
        state.agreement.fail_alike(Step.CHANGES, tried.error)


def _own(snapshot: Snapshot) -> NoReturn:
    """Raise an error; this is the strategy of a program that redistributes its own data."""
    raise StrategyError("the program itself redistributes its data")


OWN = Strategy(sentences.OWN, "comprehensive", ("load",), _own.__doc__ or "", "", call=_own)


class Measured(NamedTuple):
    """What a rank has measured in a step."""

    # For the statistics: `arguments` is a code of those of `advise`; `background` is missing yet,
    # and not subtracted from `idle`; `n_changed` is 1 if keys (without keys: the number of cells)
    # differ from the previous step.
    sample: Contribution
    words: str  # names of the arguments of `advise`
    cells: Cells
    sent: CellMessages  # what the cells sent when `edges` were last examined
    features: F64 | None  # (n, k), if `advise` was given features or weights instead of loads
    model: LoadModel | None  # the model of the loads, with this step; None: there are no features
    ahead: bool  # see `Advisor.advise`, also for `partial`
    partial: bool
    phases: tuple[str, ...] = ()  # names of the phases


class AdvisorState(RunState):
    """The state of a run on one rank, if the program owns its data."""

    def __init__(self, agreement: Agreement, options: Options) -> None:
        self.cells = LocalCells(agreement.transport.rank, agreement.transport.size)
        super().__init__(agreement, options, cast(Any, self.cells))
        self.records.parameters = {**self.records.parameters, "advisor": True}
        # Whether the program gives cells; None: not known before the first step.
        self.places: bool | None = None
        # Whether data move during the step after an advice; None: not known yet.
        self.ahead: bool | None = None
        self.cost = math.nan  # seconds of the first LB step, if the program has given them
        self.model: LoadModel | None = None  # estimates the loads of cells from their features
        self.features: F64 | None = None  # (n, k), of the cells in the most recent step
        # If an LB step is advised now: index of the last step before it takes effect, which is the
        # present step or (`ahead`) the next one; and seconds of the present step on this rank.
        self.ended = (-1, 0.0)
        self.partial = False  # see `Measured`, in the most recent step

    def observe(self, stats: Stats) -> None:
        self.cells.n_objects = stats.n_objects

    def step(self) -> LBStep:
        """Return the LB step that follows the step.  Collective if there are features."""
        self.cells.expected = None
        if self.model is not None and self.features is not None:
            sums = np.ascontiguousarray(self.model.sums)
            # If a rank has failed, this step raises the error; `allgather` would never end.
            self.agreement.step(Step.GATHER, self.done - 1)
            every = self.agreement.transport.allgather(sums)
            # From the sums over all ranks, fit one model for all ranks.
            whole = np.sum([np.frombuffer(part).reshape(sums.shape) for part in every], axis=0)
            self.cells.expected = self.features @ LoadModel.coefficients(whole)
        return super().step()

    def check(self, places: bool, ahead: bool) -> None:
        """Raise DomainError if steps differ, or if an option needs missing cells."""
        if self.ahead not in (None, ahead):
            raise DomainError(
                f"ahead is {ahead}, after steps with {self.ahead}: expected the same in all steps"
            )
        if self.places is not None and self.places != places:
            now, before = ("with", "without") if places else ("without", "with")
            raise DomainError(
                f"advise() {now} cells, after steps {before} cells: expected the same in all steps"
            )
        settings = self.options.settings
        if places:
            return
        cells = "expected loads=, weights= or features= of cells in advise()"
        if not settings.selects:
            source = settings.said_by("strategy")
            raise DomainError(
                f"strategy is {settings.strategy.name!r}{source} without cells to place: {cells}"
            )
        if self.options.mode == "shadow":
            raise DomainError(
                f"mode is 'shadow'{settings.said_by('mode')} without cells: the effect of the "
                f"program's own redistribution cannot be known; {cells}, or mode='off'"
            )

    def choose(self, places: bool) -> None:
        """Set whether the program gives cells.  Call it before the first step is observed."""
        if self.places is None and not places:
            settings = replace(
                self.options.settings,
                strategy=OWN,
                strategies=(OWN,),
                learns=False,
                watches=False,
            )
            self.decider = settings.decider(self.agreement.transport.size, keep=KEPT_RECEIPTS)
            words = {"strategy": OWN.name, "strategy_params": {}, "learn_speeds": False}
            self.records.parameters = {**self.records.parameters, **words}
        self.places = places
        self.cells.whole = not places


class DecidingMode(MeasuringMode):
    """A mode that decides for a program that owns its data, by `_core.Advisor`."""

    decides = True
    _state: AdvisorState

    def _foresee(self) -> tuple[float, float]:
        """Estimate the seconds of the first LB step; the second value is nan.  Collective.

        With cells, these are the seconds to gather them, to send their new ranks, and to send all
        cells of a rank to another rank.  They are nan after the first loop, and if the user chose
        the strategy, because such runs must not depend on measured times.  Without cells, they are
        what the program has given, or nan.
        """
        state = self._state
        if state.records.loops or not state.decider.core.foresees:
            return math.nan, math.nan
        if not (state.places and state.decider.settings.selects):
            return state.cost, math.nan
        guess = state.step().rehearse() + super()._foresee()[0]
        return guess if guess > 0 else math.nan, math.nan

    def advisor(self, decider: Decider) -> _core.Advisor:
        """Return a new state machine, the same as in the C library, that uses this decider."""
        state, saved = self._state, self._state.records.saved
        decider.core.share(saved.cores.share)
        clock = saved.cores.clock(state.options.clock)
        untold = not state.places and clock.startswith("mpi")
        return _core.Advisor(decider.core, bool(state.places), saved.waits, untold)


class AdvisingMode(DecidingMode):
    """Mode "on": gives advice."""

    balances = True

    def __init__(self, state: AdvisorState) -> None:
        super().__init__(state)
        self._core: _core.Advisor | None = None

    def _started(self, n: int) -> None:
        self._core = self._core or self.advisor(self._state.decider)

    @property
    def core(self) -> _core.Advisor:
        """The state machine of the C library; it exists after the loop has started."""
        assert self._core is not None
        return self._core

    def observe(self, stats: Stats, is_last: bool) -> None:
        """Observe the statistics of a step, and set `due`.  May be collective."""
        state = self._state
        (now, elapsed), partial = state.ended, state.partial
        was_off = state.decider.core.ledger[0]
        looks = bool(state.places) and state.features is None
        settings = state.decider.settings
        ask = same_answer(
            state.agreement,
            settings,
            now,
            lambda: self.core.observe(stats, now, looks, elapsed, partial),
        )
        if ask == PREVIEW:
            ask = self.core.previewed(state.step().preview(), now)
        self._report_switching(was_off)
        word = self.core.word()
        if word is not None and state.objects.rank == 0:
            log.warning("pylb: in step %d: %s", state.done - 1, word)
        self.due = bool(ask == BALANCE)
        if not self.n_lb_steps:
            state.records.saved.cancel()

    def place(self) -> Placed:
        """Place the cells in the LB step that is due.  Collective."""
        state = self._state
        state.records.cut()
        try:
            part = state.step().place(_core.clock())
        except Exception:
            self.core.abandon()
            raise
        speed = np.zeros(state.objects.n_ranks) if part.speed is None else part.speed
        self.core.placed(part.figures, speed, part.migrations, part.nbytes)
        if state.records.saved.keyed:
            state.cells.learn_homes(part.keys, part.homes)
        return part

    def abandon(self) -> None:
        if self._core is not None:
            self._core.abandon()

    def judge(self) -> None:
        if self._core is not None:
            self._core.judge()


# ---- shadow mode --------------------------------------------------------------------------------


class ShadowMode(MeasuringMode):
    """Mode "shadow": decides but moves nothing."""

    decides = True

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        # Loads not sent to rank 0 yet; with a lag, the ranks can send them only between two loops.
        self._loads = LoadHistory(state.agreement, state.objects, bounded=state.options.lag > 0)
        state.records.keepers.append(self._loads)
        # The results for the user, the same on all ranks: metrics and receipts of the replay.
        self.figures, self._history = IterationLog(), History()
        self._measured = 0.0  # measured seconds of the iterations, without LB steps
        # Rank 0 collects the replayed metrics here; `_share` sends them to all ranks.
        self._log, self._replayed = IterationLog(), 0.0
        self._replay: Any = None  # the replay, on rank 0
        self._decider: Any = None
        self._known: Phases | None = None  # a trace without phases, of all objects so far
        self._followed = 0  # number of iterations replayed
        self._remaining: Any = None  # trace of the objects after the last iteration, if changed
        self._in_loop = False
        # Whether some iterations were not recorded, or the replay has failed (e.g. in the user's
        # strategy).  If so, no later iteration is replayed.
        self._lost = False

    @property
    def history(self) -> History:
        return self._history

    @property
    def n_lb_steps(self) -> int:
        return len(self._history.lb_steps) + self._history.dropped.n_lb_steps

    @property
    def saved(self) -> float:
        would = IterationMetrics.of(self.figures)
        return self._measured - float((would.time * would.span).sum())

    def _prices(self) -> Prices:
        loops = self._state.records.loops
        return loops[-1][3:7] if loops else self.all_prices()

    def priced_loops(self) -> list[Loop]:
        return self._state.records.loops

    def _started(self, n: int) -> None:
        """Begin the loop in the replay on rank 0; the first loop makes the replay.  Collective."""
        if self._in_loop:  # the program left the previous loop early
            self._catch_up(left_early=True)
        self._in_loop = True
        self._state.records.tell_ranks()
        if self._state.objects.rank or self._lost:
            return
        loop = self._state.records.loops[-1]
        if self._replay is None:
            self._replay = self._new_replay(loop)
        self._lost = loop.first != self._followed
        if not self._lost:
            self._replay.loop(int(loop.first), int(loop.n) or OPEN, loop.cost, loop.moving)

    def _new_replay(self, loop: Loop) -> _core.Replay:
        n_ranks, settings = self._state.agreement.transport.size, self._state.decider.settings
        network = (loop.alpha, loop.beta)
        if not settings.selects and self._state.with_network(settings):
            told = with_network(settings.strategy, network)
            settings = replace(settings, strategy=told, strategies=(told,))
        settings.load(self._state.options.facts.links.get("near") is not None)
        self._decider = settings.decider(
            n_ranks, network if settings.selects else (0.0, 0.0), keep=KEPT_RECEIPTS
        )
        return _core.Replay(
            n_ranks=n_ranks,
            decider=self._decider.core,
            lag=int(self._state.options.lag),
            moves=False,
            model=(*network, loop.steps, loop.handling, loop.pace),
            **self._own(self._decider),
        )

    def _own(self, decider: Decider) -> dict[str, Any]:
        """Return further arguments of the replay."""
        return {}

    def observe(self, stats: Any, is_last: bool) -> None:
        if self._state.options.lag:  # then the ranks can send their loads only between two loops
            return
        if (self._state.done % WRITE_EVERY == 0 or self._loads.is_due) and not is_last:
            self.catch_up(is_over=False)

    def catch_up(self, is_over: bool, left_early: bool = False) -> None:
        """Replay the iterations since the previous call."""
        self._catch_up(left_early)
        if is_over:
            self._in_loop = False
            self._share(left_early)

    def _catch_up(self, left_early: bool = False) -> None:
        stretches, rows = self._loads.gather(self._state.done, forget=True)
        with Attempt() as tried:
            self._feed(stretches, rows)
            if left_early and self._replay is not None and not self._lost:
                self._replay.settle(self._remaining, True)
        self._lost |= tried.error is not None
        self._state.agreement.step(Step.RECORD, self._state.done, error=tried.error)

    def _feed(self, stretches: list[Stretch], rows: F64) -> None:
        if self._replay is None or self._lost:
            return
        records = self._state.records
        facts_of_run = RunFacts(parameters=records.parameters, answers=records.answers)
        stretches = [on_ranks(s, facts_of_run.ranks_at(0)) for s in stretches]
        links = facts_of_run.links
        left = stretches.pop() if stretches and not stretches[-1].iterations else None
        n_ranks = self._state.agreement.transport.size
        if stretches:
            facts = facts_of_run.ranks_at(2 * stretches[0].first + 1) | links
            until = stretches[-1].first + stretches[-1].iterations
            arrays = on_speeds(trace_arrays(stretches, self._known), facts)
            figures = np.ascontiguousarray(rows[: until - stretches[0].first])
            sharing = sharing_of(records.all_parameters())
            trace = Trace(n_ranks, **arrays, figures=figures, **sharing)
            self._known = trace[:0]
            self._replay.feed(trace)
            self._followed = until  # only now, because an interrupt may end `feed`
            self._replayed += float(np.maximum(figures[:, 0], figures[:, 1]).sum())
            values, seconds = self._replay.metrics(len(self._log))
            for time, m in zip(seconds.tolist(), map(Metrics._make, values.tolist()), strict=True):
                utilization = m.min / m.max if m.max > 0 else 1.0
                self._log.append(Row(time, m.max, m.mean, m.idle_mean, utilization, m.min))
        self._remaining = None
        if left is not None:
            facts = facts_of_run.ranks_at(2 * left.first) | links
            self._remaining = one_phase(n_ranks, left, self._known, facts)
            self._known = self._remaining[:0]

    def _share(self, left_early: bool) -> None:
        """Send the results of rank 0 to all ranks."""
        agreement, results = self._state.agreement, [b""]

        def finish() -> None:
            if self._replay is not None:
                if not left_early:  # otherwise `_catch_up` has made the last decision
                    self._replay.settle(self._remaining)
                results[0] = parcel.freeze((self._decider.history, self._log, self._replayed))

        agreement.on_root(Step.PLACE, self._state.done, finish)
        if whole := bytes(agreement.transport.allgather(results[0])[0]):
            self._history, self.figures, self._measured = parcel.thaw(parcel.Pickled(whole))
        done, dropped = self._history.lb_steps, self._history.dropped
        steps = dropped.step_seconds + sum(r.step_seconds for r in done)
        self._state.records.would_save = self.saved - steps


class AdvisorShadow(DecidingMode, ShadowMode):
    """Mode "shadow" of a program that owns its data."""

    _state: AdvisorState

    def _own(self, decider: Decider) -> dict[str, Any]:
        ahead = int(self._state.records.parameters.get("ahead", False))
        return {"advisor": self.advisor(decider), "ahead": ahead}
