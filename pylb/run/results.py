"""The results of a run for the user: report, page, record, loads of the ranks."""

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
from pylb.errors import DomainError, StateError
from pylb.io.hdf5 import SUFFIXES
from pylb.io.run_record import Stretch
from pylb.model.snapshot import F64
from pylb.run.loops import IterationLoop
from pylb.run.modes import MeasuringMode
from pylb.run.records import RecordWriter
from pylb.run.report import Iterations, Report, check_suffix
from pylb.run.run_state import RunState
from pylb.show import page
from pylb.show.course import Course, of_stretches

log = logging.getLogger("pylb")
SUMMED = ("time", "max", "mean", "idle_mean", "idle_max")
GATHER = 1 << 27  # largest number of loads that rank 0 gathers for a page: 1 GiB


def report_on(
    state: RunState,
    mode: MeasuringMode,
    loop: IterationLoop,
    path: str | os.PathLike[str] | None,
    title: str | None,
    names: Mapping[int, str] | None,
    coords: Mapping[int, Any] | None,
) -> Report:
    """Report on the run so far; rank 0 also writes the report to `path`.  See `Balancer.report`."""
    loop.take()
    given, history = state.decider.settings, mode.history
    it = Iterations.of(state.records.figures)
    sums = {name: float((getattr(it, name) * it.span).sum()) for name in SUMMED}
    done, dropped = history.balancings, history.dropped
    cost = dropped.cost + sum(r.cost for r in done)
    report = Report(
        n_ranks=state.agreement.transport.size,
        n_objects=state.objects.n_objects,
        iterations=state.done,
        strategy=given.name + given.said_by("strategy"),
        trigger=given.trigger.name + given.said_by("trigger"),
        seconds=state.records.seconds,
        iteration_seconds=sums["time"],
        mean_max_over_mean=sums["max"] / sums["mean"] if sums["mean"] > 0 else 1.0,
        idle_mean=sums["idle_mean"],
        idle_max=sums["idle_max"],
        balancing_seconds=cost,
        balancings=dropped.balancings + len(done),
        migrations=dropped.migrations + sum(r.migrations for r in done),
        bytes=dropped.bytes + sum(r.bytes for r in done),
        history=history,
        **state.records.core_waits.figures(),
        would_save=mode.would_save - cost,
        span=state.records.figures.span,
    )
    if path is None:
        return report
    write: Callable[[], object] = functools.partial(report.write, path)
    if check_suffix(path) == ".html":
        course = _course(state, mode, rank_loads(state, loop), title or Path(path).stem, names)
        if course is not None:
            write = functools.partial(page.write, replace(course, coords=coords), path)
    state.agreement.on_root(Step.RECORDS, state.done, write)
    return report


def _course(
    state: RunState, mode: MeasuringMode, times: F64, title: str, names: Mapping[int, str] | None
) -> Course | None:
    """Return the data of a page on rank 0, None on the other ranks.  Collective.

    The page shows migrations only if the loads of all objects were kept, and are not too many.
    """
    records, stretches = state.records, list[Stretch]()
    if records.restored:
        raise DomainError("no page of a run that goes on from a checkpoint: expected .json or .txt")
    if state.done * times.shape[1] > GATHER:
        raise DomainError(f"a page of {state.done} iterations is too large: expected .json or .txt")
    loads = state.done * state.objects.n_objects  # number of loads, the same on all ranks
    in_memory = state.options.record is True and not state.options.lag
    if in_memory and loads < GATHER:
        stretches, _ = records.loads.gather(state.done, forget=False)
    if state.objects.rank:
        return None
    if records.writer is not None:
        stretches = records.writer.read()
    it = Iterations.of(records.figures)
    times, *figures = (np.repeat(a, it.span, axis=0) for a in (times, it.time, it.mean, it.idle))
    return of_stretches(
        stretches,
        state.agreement.transport.size,
        times=times,
        figures=(figures[0], figures[1], figures[2]),
        history=mode.history,
        parameters={**records.parameters, "seconds": records.seconds},
        title=title,
        names=names,
    )


def rank_loads(state: RunState, loop: IterationLoop) -> F64:
    """Return the load of every rank in every iteration; see `Balancer.rank_loads`."""
    if loop.running:
        raise StateError(
            f"rank_loads() within a loop with lag={state.options.lag}: the ranks know of different "
            "iterations"
        )
    loop.settle()
    state.agreement.step(Step.RECORDS, state.done)
    mine = state.records.rank_loads.table().ravel()
    every = state.agreement.transport.allgather(np.ascontiguousarray(mine))
    return np.stack([np.frombuffer(b, np.float64) for b in every], axis=1)


def save(
    state: RunState, mode: MeasuringMode, loop: IterationLoop, path: str | os.PathLike[str]
) -> None:
    """Write the run so far; see `Balancer.save`."""
    records = state.records
    if Path(path).suffix not in SUFFIXES:
        raise DomainError(f"path is {str(path)!r}: expected {' or '.join(SUFFIXES)}")
    if state.options.record is not True:
        where = records.writer and f"is written to {records.writer.path} during the run"
        raise StateError(f"save(): the run {where or 'is not kept'}, as record= says")
    if math.isinf(state.options.lag):
        raise StateError("save() with lag=inf: only the iterations of iterate() are kept")
    loop.settle()
    saved = RecordWriter(path).save(records, mode.history, mode.priced_loops())
    if state.objects.rank == 0 and saved < records.done:
        log.warning(
            "pylb: %s has only the first %d of %d iterations; record=path keeps all",
            *(path, saved, records.done),
        )
    if state.objects.rank == 0 and mode.history.dropped.n:
        log.warning("pylb: %s: %s record=path keeps all", path, mode.history.dropped)
