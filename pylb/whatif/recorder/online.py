"""Predict while the program runs: simulate operations soon after they have been recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pylb import _core
from pylb.errors import PylbError
from pylb.whatif.prediction import Target, comm_arrays, target
from pylb.whatif.recorder.monitor import RecordMonitor


class Online:
    """Simulations of a run while it is recorded, one for each target.

    targets: arguments of `pylb.whatif` for each target.  Every `period` seconds, ``say(line)`` is
    called for each target.
    """

    def __init__(
        self,
        monitor: RecordMonitor,
        targets: Sequence[Mapping[str, Any]],
        say: Callable[[str], None],
        period: float = 1.0,
    ) -> None:
        self._monitor = monitor
        self._given = targets
        self._say = say
        self._period = period
        self._last = time.monotonic()
        self._failed = False
        self._aims: list[Target] = []
        self._simulations: list[_core.Simulation] = []

    def __call__(self) -> None:
        """Simulate the operations that have arrived, if a period has passed."""
        now = time.monotonic()
        if self._failed or now - self._last < self._period:
            return
        try:
            if self._begin_if_complete():
                self._last = now
                for simulation, given in zip(self._simulations, self._given, strict=True):
                    self._go_on(simulation, given)
        except PylbError as error:  # the program and its recording continue
            self._failed = True
            self._say(f"no more predictions while the program runs: {error}")

    def _begin_if_complete(self) -> bool:
        monitor = self._monitor
        if not self._simulations and 0 < monitor.size == len(monitor.ranks):
            recording = monitor.recording([])
            self._aims = [target(recording, **given) for given in self._given]
            self._simulations = [aim.simulation(monitor.members) for aim in self._aims]
        return bool(self._simulations)

    def _go_on(self, simulation: _core.Simulation, given: Mapping[str, Any]) -> None:
        simulation.comms(*comm_arrays(self._monitor.members))
        for number, rank in self._monitor.ranks.items():
            simulation.feed(number, rank.ops(), rank.end is not None, None)
        simulation.run()
        times = simulation.times()
        here = 0.0
        for number, rank in self._monitor.ranks.items():
            done = int(times[number, 4])
            if done:
                last = rank.ops()[done - 1]
                here = max(here, 1e-9 * int(last["begin"]) + float(last["inside"]))
        there = float(times[:, 0].max())
        if here > 0:
            words = ", ".join(
                f"{name} {','.join(f'{x:g}' for x in np.atleast_1d(value))}"
                for name, value in given.items()
            )
            self._say(
                f"{here:.1f} s so far would take {there:.1f} s ({there / here:.0%}) with {words}"
            )
