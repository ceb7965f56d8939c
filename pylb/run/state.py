"""What the loops, the modes and the reports of a Balancer share."""

from __future__ import annotations

from pylb import _core
from pylb.comm.agreement import Agreement
from pylb.model.network import Network
from pylb.run.lb_step import LBStep
from pylb.run.local_objects import LocalObjects
from pylb.run.options import Options
from pylb.run.records import Records
from pylb.run.replayed import ReplayedDecider

MANY = 100_000  # objects
KEEP = 4096  # receipts


class RunState:
    """A run on one rank, so far."""

    def __init__(self, agreement: Agreement, options: Options, objects: LocalObjects) -> None:
        self.agreement, self.options, self.objects = agreement, options, objects
        n_ranks = agreement.transport.size
        self.decider = (
            options.settings.decider(n_ranks, keep=KEEP)
            if options.replay is None
            else ReplayedDecider(options.replay, n_ranks)
        )
        self.records = Records(agreement, objects, options)

    @property
    def done(self) -> int:
        """Number of iterations so far."""
        return self.records.done

    def clock(self) -> str:
        """The clock of loads, once it is known who shares the cores.  Collective the first time."""
        self.records.strain.begin(self.agreement)
        return self.records.strain.cores.clock(self.options.clock)

    def learn(self) -> None:
        """Tell all ranks which objects were added and removed.  Collective."""
        for history in self.records.keepers:
            history.change()
        self.objects.learn(self.done)
        if self.options.mode != "off" or self.options.record is not False:
            self.objects.sizes.measure(self.objects.store)
        if len(self.objects.store) > MANY:
            _core.trim()  # what this took for a moment is as much as what it keeps

    def step(self) -> LBStep:
        """An LB step after the last iteration."""
        return LBStep(self.agreement, self.objects, self.decider, self.done - 1)

    def network(self) -> Network:
        """The cost of messages: as given, else measured once.  Collective."""
        return self.options.network or self.agreement.network()
