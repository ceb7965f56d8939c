"""The state of a run, which loops, modes and reports share."""

from __future__ import annotations

import logging
from dataclasses import replace

from pylb import _core
from pylb.comm.agreement import Agreement
from pylb.model.network import Network
from pylb.run.lb_step import LBStep
from pylb.run.local_objects import LocalObjects
from pylb.run.options import Options
from pylb.run.records import Records
from pylb.run.replayed_decider import ReplayedDecider

log = logging.getLogger("pylb")
MANY = 10_000  # if more objects than this come or go, unused memory goes back to the system
KEEP = 4096  # largest number of receipts that are kept


class RunState:
    """The state of a run on one rank."""

    def __init__(self, agreement: Agreement, options: Options, objects: LocalObjects) -> None:
        self.agreement, self.options, self.objects = agreement, options, objects
        n_ranks = agreement.transport.size
        self.decider = (
            options.settings.decider(n_ranks, keep=KEEP)
            if options.replay is None
            else ReplayedDecider(options.replay, n_ranks)
        )
        self.records = Records(agreement, objects, options)

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
        if self.options.load is None:  # otherwise loads are what the user says
            self.records.saved.cores, self.records.saved.waits = cores, clock == "wall"
        return clock

    def learn(self) -> None:
        """Tell all ranks which objects were added and removed.  Collective."""
        for history in self.records.keepers:
            history.change()
        many = self.objects.n_changed > MANY
        self.objects.learn(self.done)
        if self.options.mode != "off" or self.options.record is not False:
            self.objects.sizes.measure(self.objects.store)
        if many:
            _core.trim()  # `learn` has freed arrays as large as those that remain

    def step(self) -> LBStep:
        """Return the LB step that follows the most recent iteration."""
        return LBStep(self.agreement, self.decider, self.done - 1, self.options.facts, self.objects)

    def network(self) -> Network:
        """Return the cost of messages, given or measured.  Collective the first time."""
        return self.options.network or self.agreement.network()
