"""Shadow mode, which decides but moves nothing, and computes what LB steps would have saved.

Because nothing moves, the decisions can be made later.  The ranks keep the loads of their objects
and send them to rank 0 after a number of iterations; rank 0 replays these iterations.  So in most
iterations, a rank only copies the loads of its objects.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from pylb import _core
from pylb.comm.agreement import Attempt, Step
from pylb.decide.receipts import Dropped, History, Receipt
from pylb.errors import SerializationError
from pylb.io.run_record import Loop, RunFacts, Stretch
from pylb.model.snapshot import F64
from pylb.replaying.replayed import DEFAULTS
from pylb.replaying.trace import Trace
from pylb.replaying.trace_conversion import (
    NO_ENTITIES,
    Entities,
    on_ranks,
    on_speeds,
    one_phase,
    sharing_of,
    trace_arrays,
)
from pylb.run.modes import KEPT_RECEIPTS, MeasuringMode, Prices, RunState
from pylb.run.records import WRITE_EVERY, IterationLog, LoadHistory, Row
from pylb.run.report import IterationMetrics

OPEN = 1 << 52  # stands for an unknown number of iterations of a loop (csrc/replay/replay.h)


class ShadowMode(MeasuringMode):
    """Mode "shadow": decides but moves nothing."""

    decides = True

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        # Loads not sent to rank 0 yet; with a lag, the ranks can send them only between two loops.
        self._loads = LoadHistory(state.agreement, state.objects, bounded=state.options.lag > 0)
        state.records.keepers.append(self._loads)
        # The results for the user, the same on all ranks: metrics and receipts of the replay.
        self._figures, self._history = IterationLog(), History()
        self._measured = 0.0  # seconds of the iterations as they were
        # Rank 0 collects the replayed metrics here; `_share` sends them to all ranks.
        self._log, self._replayed = IterationLog(), 0.0
        self._replay: Any = None  # the replay, on rank 0
        self._decider: Any = None
        self._entities = NO_ENTITIES  # all objects so far, by index in the replay
        self._followed = 0  # number of iterations replayed
        self._remaining: Any = None  # trace of the objects after the last iteration, if changed
        self._in_loop = False
        # Whether some iterations were not kept, or the replay has failed (e.g. in a strategy of the
        # user): then no later iteration is replayed.
        self._lost = False

    @property
    def history(self) -> History:
        return self._history

    @property
    def n_lb_steps(self) -> int:
        return len(self._history.lb_steps) + self._history.dropped.n_lb_steps

    @property
    def saved(self) -> float:
        would = IterationMetrics.of(self._figures)
        return self._measured - float((would.time * would.span).sum())

    def shadow_figures(self) -> IterationLog:
        return self._figures

    def _prices(self) -> Prices:
        loops = self._state.records.loops
        return loops[-1][3:7] if loops else self.all_prices()

    def priced_loops(self) -> list[Loop]:
        return self._state.records.loops

    def _started(self, n: int) -> None:
        """Begin the loop in the replay, which rank 0 makes in the first loop.  Collective."""
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
        settings.load()
        self._decider = settings.decider(
            n_ranks, network if settings.selects else (0.0, 0.0), keep=KEPT_RECEIPTS
        )
        own = {"decider": self._decider.core, "lag": int(self._state.options.lag), "moves": False}
        model = (*network, loop.steps, loop.handling, loop.pace)
        return _core.Replay(**{**DEFAULTS, **own, "n_ranks": n_ranks, "model": model})

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
            self._check()
            self._feed(stretches, rows)
            if left_early and self._replay is not None and not self._lost:
                self._replay.settle(self._remaining, True)
        self._lost |= tried.error is not None
        self._state.agreement.step(Step.RECORD, self._state.done, error=tried.error)

    def _check(self) -> None:
        """Raise an error if an object cannot be packed, because no LB step could move it."""
        refused = self._state.objects.refused
        if refused is not None:
            key, why = refused
            raise SerializationError(f"shadow mode: object {key} cannot be pickled: {why}") from why

    def _feed(self, stretches: list[Stretch], rows: F64) -> None:
        if self._replay is None or self._lost:
            return
        records = self._state.records
        facts_of_run = RunFacts(parameters=records.parameters, answers=records.answers)
        stretches = [on_ranks(s, facts_of_run.ranks_at(0)) for s in stretches]
        left = stretches.pop() if stretches and not stretches[-1].iterations else None
        n_ranks = self._state.agreement.transport.size
        if stretches:
            self._run(stretches, rows, facts_of_run.ranks_at(2 * stretches[0].first + 1))
        self._remaining = None
        if left is not None:
            facts = facts_of_run.ranks_at(2 * left.first)
            self._remaining = one_phase(n_ranks, left, self._entities, facts)
            self._entities = Entities.of(self._remaining)

    def _run(self, stretches: list[Stretch], rows: F64, facts: dict[str, Any]) -> None:
        until = stretches[-1].first + stretches[-1].iterations
        arrays = on_speeds(trace_arrays(stretches, self._entities), facts)
        figures = np.ascontiguousarray(rows[: until - stretches[0].first])
        n_ranks = self._state.agreement.transport.size
        sharing = sharing_of(self._state.records.all_parameters())
        trace = Trace(n_ranks, **arrays, figures=figures, **sharing)
        self._entities = Entities.of(trace)
        self._replay.feed(trace)
        self._followed = until  # only now: an interrupt may end `feed`
        self._replayed += float(np.maximum(figures[:, 0], figures[:, 1]).sum())
        self._log.extend(self._new_rows())

    def _results(self) -> bytes:
        history, log = self._decider.history, self._log
        receipts, table = [r.to_dict() for r in history], log.table().tolist()
        results = [receipts, history.dropped, table, log.span, len(log), self._replayed]
        return json.dumps(results).encode()

    def _share(self, left_early: bool) -> None:
        """Send the results of rank 0 to all ranks."""
        agreement, results = self._state.agreement, [b""]

        def finish() -> None:
            if self._replay is not None:
                if not left_early:  # otherwise `_catch_up` has made the last decision
                    self._replay.settle(self._remaining)
                results[0] = self._results()

        agreement.on_root(Step.PLACE, self._state.done, finish)
        whole = bytes(agreement.transport.allgather(results[0])[0])
        receipts, dropped, table, span, n, self._measured = json.loads(whole)
        if n:
            self._figures = IterationLog.restored(np.array(table), span, n)
        self._history = History(map(Receipt.from_dict, receipts))
        self._history.dropped = Dropped(*dropped)
        steps = dropped[-1] + sum(r.step_seconds for r in self._history.lb_steps)
        self._state.records.would_save = self.saved - steps

    def _new_rows(self) -> list[Row]:
        metrics, seconds = self._replay.metrics(len(self._log))
        columns = (metrics[name].tolist() for name in ("max", "mean", "idle_mean", "min"))
        return [
            Row(time, most, mean, idle, least / most if most > 0 else 1.0, least)
            for time, most, mean, idle, least in zip(seconds.tolist(), *columns, strict=True)
        ]
