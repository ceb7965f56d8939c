"""The results of a run for the user, the same for a `Balancer` and an `Advisor`."""

from __future__ import annotations

import functools
import logging
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pylb.comm.agreement import Step
from pylb.comm.transport import Together
from pylb.console import InNotebook
from pylb.decide.receipts import History
from pylb.errors import DomainError, OutOfRangeError, StateError
from pylb.files import named
from pylb.io.hdf5 import SUFFIXES
from pylb.io.run_record import FIGURES, RunData, Stretch
from pylb.model import checks
from pylb.model.metrics import PhaseMetrics
from pylb.model.snapshot import F64
from pylb.replaying.trace import Trace
from pylb.replaying.trace_conversion import trace_fields
from pylb.run.loops import IterationLoop
from pylb.run.modes import MeasuringMode, RunState, ShadowMode
from pylb.run.report import IterationMetrics, Report, check_suffix
from pylb.run.share import Sharer

log = logging.getLogger("pylb")
SUMMED = ("time", "max", "mean", "idle_mean", "idle_max")
GATHER = 1 << 27  # rank 0 gathers at most this number of loads for a page (1 GiB)


class RunResults(InNotebook):
    """The methods of `Balancer` and `Advisor` that return the results of the run so far.

    For an `Advisor`, the iterations are its steps, and the objects are its cells.
    """

    _state: RunState
    _mode: MeasuringMode
    _loop: IterationLoop
    _comm: Any
    _words = "objects", "iterations"

    @functools.cached_property
    def _sharer(self) -> Sharer:
        """What lends rows in `share`; made, collectively, by its first call."""
        self._check_others("share()")
        out = Sharer(self._comm, mode=self._state.options.mode)
        self._state.records.lending = out.sums
        return out

    def _check_others(self, what: str) -> None:
        if isinstance(self._state.agreement.transport, Together):
            raise StateError(f"{what} needs the other ranks: expected an Advisor without ranks=")

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: rank {self.rank} of {self.n_ranks}, "
            f"{len(self._state.objects.seconds)} {self._words[0]} here, {self._state.done} "
            f"{self._words[1]}, {self.n_lb_steps} LB steps>"
        )

    def _bars(self) -> dict[str, Any]:
        return {"max/mean of the last iterations": self.metrics.max_over_mean[-64:]}

    @property
    def rank(self) -> int:
        """This rank."""
        return self._state.objects.rank

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return self._state.objects.n_ranks

    @property
    def metrics(self) -> IterationMetrics:
        """Metrics of every iteration so far, e.g. time and max/mean; the same on every rank.

        The time of an `Advisor`'s step is measured if `timed` was used; otherwise it is the largest
        load.
        """
        self._loop.take()
        return IterationMetrics.of(self._state.records.figures)

    @property
    def phases(self) -> dict[str, PhaseMetrics]:
        """Metrics of each phase by its name, in order; empty if the program names no phases.

        The same on every rank.  The sum over the phases of `PhaseMetrics.max` is `metrics.max`.
        """
        self._loop.take()
        state = self._state
        log = state.records.phases
        return {} if log is None else PhaseMetrics.by_name(state.objects.phases or (), log.table())

    @property
    def shadow(self) -> IterationMetrics:
        """The iterations as they would have been with LB steps, up to the end of the previous loop.

        The measured load of each object counts for the rank where the object would have been;
        everything else in an iteration takes as long as it did.  The same on every rank.
        """
        if not isinstance(self._mode, ShadowMode):
            mode = self._state.options.mode
            raise StateError(f"shadow with mode={mode!r}: expected mode='shadow'")
        return IterationMetrics.of(self._mode.figures)

    @property
    def n_lb_steps(self) -> int:
        """Number of LB steps so far; of an `Advisor`: those known to have been carried out."""
        return self._mode.n_lb_steps

    @property
    def history(self) -> History:
        """A receipt for each decision for or against an LB step, the same on every rank.

        The receipt of an `Advisor`'s LB step appears after the next step, when its cost is known.
        """
        return self._mode.history

    def explain(self, i: int = -1) -> str:
        """Explain decision `i` of `history` in sentences."""
        history, i = self.history, checks.integer("i", i)
        if not -len(history) <= i < len(history):
            raise OutOfRangeError(f"i is {i}: expected one of {len(history)} decisions")
        return history[i].explain()

    def rank_loads(self) -> F64:
        """Return the load of every rank in every iteration, (iterations, p) float64.  Collective.

        In a very long run, rows are means of several iterations, as in `metrics`.  In a loop with a
        lag, call it only after the loop.
        """
        self._check_others("rank_loads()")
        state, loop = self._state, self._loop
        if loop.running:
            what = f"rank_loads() within a loop with lag={state.options.lag}"
            raise StateError(f"{what}: expected it after the loop")
        loop.complete()
        state.agreement.step(Step.RECORDS, state.done)
        own = state.records.rank_loads.table().ravel()
        every = state.agreement.transport.allgather(np.ascontiguousarray(own))
        return np.stack([np.frombuffer(b, np.float64) for b in every], axis=1)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        names: Mapping[int, str] | None = None,
        coords: Mapping[int, Any] | None = None,
    ) -> Report:
        """Report on the run so far.  Collective with a path.

        Parameters
        ----------
        path : str or Path, optional
            Rank 0 also writes the report to this file, as JSON (``.json``), as text (``.txt``), or
            as an interactive page (``.html``) that needs no network; no other suffix is possible.
        title : str, optional
            Title of the report.  Default: "Run", or, for a page, the file's name.
        names, coords : mapping from int to str, and from int to 1 ... 3 floats, optional
            Names and coordinates of objects, by key, for a page; those of rank 0 are used.
        """
        from pylb.show import page  # not at the top: it slows `import pylb`

        is_page = path is not None and check_suffix(path) == ".html"
        page.check_used(is_page, names=names, coords=coords)
        if path is not None and not self._loop.running:
            self._loop.complete()
        state, mode, it = self._state, self._mode, self.metrics
        settings, history = state.decider.settings, mode.history
        sums = {name: float((getattr(it, name) * it.span).sum()) for name in SUMMED}
        done, dropped = history.lb_steps, history.dropped
        cost = dropped.cost + sum(r.cost for r in done)
        steps = dropped.step_seconds + sum(r.step_seconds for r in done)
        report = Report(
            n_ranks=state.agreement.transport.size,
            n_objects=state.objects.n_objects,
            iterations=state.done,
            strategy=settings.strategy.name + settings.said_by("strategy"),
            trigger=settings.trigger.name + settings.said_by("trigger"),
            mode=state.options.mode + settings.said_by("mode"),
            seconds=state.records.seconds,
            iteration_seconds=sums["time"],
            computing=sums["mean"],
            replayed_seconds=float((np.maximum(it.time, it.max) * it.span).sum()),
            mean_max_over_mean=sums["max"] / sums["mean"] if sums["mean"] > 0 else 1.0,
            idle_mean=sums["idle_mean"],
            idle_max=sums["idle_max"],
            lb_seconds=steps,
            lb_cost=cost,
            n_lb_steps=dropped.n_lb_steps + len(done),
            migrations=dropped.migrations + sum(r.migrations for r in done),
            nbytes=dropped.nbytes + sum(r.nbytes for r in done),
            history=history,
            **state.records.core_waits.figures(),
            **state.records.lending(),
            saved=mode.saved - steps,
            others=state.records.saved.others,
            shadow=state.options.mode == "shadow",
            span=state.records.figures.span,
            title="Run" if title is None else title,
            phases={name: phase.max_over_mean for name, phase in self.phases.items()},
        )
        if path is None:
            return report
        write: Callable[[], object] = functools.partial(report.save, path)
        if is_page:
            course = self._course(title or Path(named(path)).stem, names)
            if course is not None:
                write = functools.partial(page.write, replace(course, coords=coords), path)
        state.agreement.on_root(Step.RECORDS, state.done, write)
        return report

    def _course(self, title: str, names: Mapping[int, str] | None) -> Any:
        """Return the `Course` of a page on rank 0, None on the other ranks.  Collective.

        The page shows migrations only if rank 0 has the loads of all objects: from the file of the
        run, or from the memory of the ranks (only with lag=0 and fewer than `GATHER` loads).
        """
        from pylb.show.course import of_stretches

        state, records, stretches = self._state, self._state.records, list[Stretch]()
        if records.restored:
            raise DomainError("a run from a checkpoint has no page: expected .json or .txt")
        if not state.done:
            raise DomainError("the run has no iteration for a page: expected .json or .txt")
        times = self.rank_loads()
        if state.done * times.shape[1] > GATHER:
            what = f"a page of {state.done} iterations on {times.shape[1]} ranks"
            raise DomainError(f"{what} is too large: expected .json or .txt")
        loads = state.done * state.objects.n_objects  # number of loads, the same on all ranks
        in_memory = state.options.record is True and not state.options.lag
        if in_memory and loads < GATHER:
            stretches, _ = records.loads.gather(state.done, forget=False)
        if state.objects.rank:
            return None
        if records.path is not None:
            stretches = records.written()
        it = IterationMetrics.of(records.figures)
        times, most, *figures = (
            np.repeat(a, it.span, axis=0) for a in (times, it.max, it.time, it.mean, it.idle)
        )
        return of_stretches(
            stretches,
            state.agreement.transport.size,
            times=times,
            figures=(figures[0], figures[1], figures[2]),
            gained=records.saved.by_iteration(state.done),
            times_without=self._times_without(stretches, figures[0]),
            history=self.history,
            parameters=records.all_parameters(),
            title=title,
            names=names,
            most=most if self.phases else None,
            phases=self.phases,
        )

    def _times_without(self, stretches: list[Stretch], time: F64) -> F64 | None:
        """Return the seconds of each rank without LB steps, (m, p); None: not known."""
        records = self._state.records
        stretches = [s for s in stretches if s.iterations]
        if sum(s.iterations for s in stretches) != len(time) or not records.saved.keyed:
            return None
        known: dict[str, Any] = dict.fromkeys(FIGURES, np.zeros_like(time))
        known |= {"parameters": records.all_parameters(), "history": self.history}
        n_ranks = self._state.agreement.transport.size
        run = RunData(n_ranks=n_ranks, stretches=stretches, answers=records.answers, **known)
        return Trace(**trace_fields(run)).replay("unbalanced").rank_times

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run so far: loads, placements, messages, receipts, parameters.  Collective.

        Rank 0 writes an HDF5 file (``.h5`` or ``.hdf5``), which appears when it is complete.
        `pylb.Trace.load` and `pylb.RunRecord.load` read it, and ``Balancer(replay=path)`` repeats
        the LB steps of a `Balancer`.  If the program of an `Advisor` gives no cells, the record has
        one object per rank.

        It needs ``record=True`` and a finite ``lag``.  If ``PYLB_RECORD`` has set another value of
        `record`, `save` only logs a warning.
        """
        state, mode, loop = self._state, self._mode, self._loop
        records = state.records
        if Path(named(path)).suffix not in SUFFIXES:
            raise DomainError(f"path is {str(path)!r}: expected {' or '.join(SUFFIXES)}")
        if state.options.record is not True:
            where = records.path and f"is written to {records.path} during the run"
            says = f"save(): the run {where or 'is not recorded'}"
            source = state.options.settings.said_by("record")
            if not source:
                raise StateError(f"{says}: expected record=True")
            if state.objects.rank == 0:
                log.warning("pylb: %s%s, so %s is not written", says, source, path)
            return
        if math.isinf(state.options.lag):
            raise StateError("save() with lag=inf: only the iterations of iterate() are recorded")
        loop.complete()
        saved = records.save(path, mode.history, mode.priced_loops())
        if state.objects.rank == 0 and saved < records.done:
            log.warning(
                "pylb: %s has only the first %d of %d iterations; record=path records all",
                *(path, saved, records.done),
            )
        if state.objects.rank == 0 and mode.history.dropped.n:
            log.warning("pylb: %s: %s record=path records all", path, mode.history.dropped)
