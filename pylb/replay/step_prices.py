"""Costs of LB steps in a replay, and the costs that the decider knows in advance."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from pylb import _core
from pylb.decide.decider import Settings
from pylb.io.phases import Phases
from pylb.io.run_record import Loop


class Prices:
    """The costs of one replay.

    Parameters
    ----------
    cost : float or None
        Seconds of each LB step, if the user gives them.
    tell : bool
        Whether the decider knows the expected cost of the first LB step in advance.
    network : (alpha, beta)
        Seconds per message and per byte, as given; (0, 0): not given.
    moves : (float, float)
        Seconds per migration and per byte that migrates.
    """

    def __init__(
        self,
        trace: Phases,
        cost: float | None,
        tell: bool,
        network: tuple[float, float],
        moves: tuple[float, float],
    ) -> None:
        self._trace = trace
        self._cost, self._tell = cost, tell
        self._per_move, self._per_byte = moves
        self._given = network
        self._loops = trace.recorded.loops if trace.recorded else []

    def _known(self, name: str) -> float:
        """Return the most recent value that the run measured for this field of `Loop`, or nan."""
        known = [getattr(loop, name) for loop in self._loops]
        return next((x for x in reversed(known) if not math.isnan(x)), math.nan)

    def network(self, given: Settings | None) -> tuple[float, float]:
        """Return (alpha, beta), the cost of messages for the choice of a strategy."""
        recorded = self._known("alpha"), self._known("beta")
        if any(self._given) or given is None or not given.selects:
            return self._given
        return (0.0, 0.0) if any(map(math.isnan, recorded)) else recorded

    @functools.cached_property
    def _network(self) -> tuple[float, float]:
        recorded = self._known("alpha"), self._known("beta")
        if not any(map(math.isnan, recorded)):
            return recorded
        return self._given if any(self._given) else (0.0, copy_speed())

    def model(self) -> tuple[float, float, float, float, float]:
        """Return (alpha, beta, steps, handling, pace), the cost model of LB steps; see `Loop`."""
        handling = self._known("handling")
        pace = self._loops[0].pace if self._loops else 1.0
        return *self._network, self._steps(), 0.0 if math.isnan(handling) else handling, pace

    def _steps(self) -> float:
        """Return the seconds of an LB step without its strategy and its migration.

        They are the median of the recorded LB steps, or what was measured before the first one.
        """
        done = [] if self._trace.recorded is None else self._trace.recorded.history.balancings
        moved = [r for r in done if r.moved]
        rest = [r.seconds - r.seconds_strategy - r.seconds_migration for r in moved]
        known = [max(x, r.seconds_statistics) for x, r in zip(rest, moved, strict=True) if x == x]
        measured = self._known("steps")
        if known:
            return float(np.median(known))
        return 0.0 if math.isnan(measured) else measured

    def foreseen(self, loop: Loop, given: Settings | None) -> tuple[float, float]:
        """Return the expected cost of a first LB step, and its part for the objects that move.

        nan: the decider does not know the value.
        """
        if given is None or not self._tell:
            return math.nan, math.nan
        if self._cost is not None:
            return float(self._cost), math.nan
        if not given.foresees:
            return math.nan, math.nan
        if not math.isnan(loop.cost) or loop.first > 0:
            return loop.cost, loop.moving
        return (self._first_cost(),) * 2

    def _first_cost(self) -> float:
        """Return the cost of an LB step in which all objects of the first phase migrate.

        Without recorded loops, packing objects counts as free.  nan: there are no phases, or the
        recorded run did not measure the time to pack an object (`Loop.handling`).
        """
        t = self._trace
        handling = self._known("handling") if self._loops else 0.0
        if t.n_phases == 0 or math.isnan(handling):
            return math.nan
        first = slice(0, int(t.task_ptr[1]))
        n = np.bincount(t.task_rank[first], minlength=t.n_ranks)
        weights = np.zeros(first.stop) if t.task_bytes is None else t.task_bytes[first]
        nbytes = np.bincount(t.task_rank[first], weights, t.n_ranks)
        slowest = max(
            _core.first_cost(*self._network, handling, int(k), int(b), t.n_ranks)
            for k, b in zip(n.tolist(), nbytes.tolist(), strict=True)
        )
        return slowest + self._per_move * first.stop + self._per_byte * float(weights.sum())

    def steps(self, given: Settings | None) -> list[tuple[Any, ...]]:
        """Return the LB steps that the recorded run measured, as the C core takes them."""
        if given is None or self._trace.recorded is None:
            return []
        names = [s.name for s in given.strategies]
        return [
            (
                r.iteration,
                names.index(r.strategy),
                r.migrations,
                r.bytes,
                r.seconds_statistics,
                r.seconds_strategy,
                r.seconds_migration,
                r.seconds,
            )
            for r in self._trace.recorded.history.balancings
            if r.strategy in names and not math.isnan(r.seconds)
        ]


@functools.cache
def copy_speed() -> float:
    """Measure the seconds to copy a byte on this machine; to send one takes at least as long."""
    data = np.zeros(1 << 22, np.uint8)
    best = math.inf
    for _ in range(3):
        start = _core.clock()
        data.copy()
        best = min(best, _core.clock() - start)
    return max(best, 0.0) / data.size
