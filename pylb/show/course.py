"""The course of a run, from a record, a trace, a replay or a balancer."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb.console import digits, packed
from pylb.decide.receipts import History, Receipt
from pylb.decide.sentences import OWN, lb_steps, verdict
from pylb.errors import DomainError
from pylb.io import record_file
from pylb.io.run_record import Stretch
from pylb.model.metrics import PhaseMetrics
from pylb.model.snapshot import F64, I32, I64
from pylb.replaying.replayed import Replay, placed, replay
from pylb.replaying.trace import RunRecord, Trace
from pylb.replaying.trace_conversion import or_zeros, stretch_of
from pylb.show import aggregate
from pylb.show.objects import Objects


class Migrations(NamedTuple):
    """The migrations of one LB step, added up for each of k pairs of ranks."""

    iteration: int  # the iteration after which the LB step took place
    source: I32  # (k,) old rank
    target: I32  # (k,) new rank
    objects: I64  # (k,) number of objects
    nbytes: I64  # (k,) bytes of these objects; 0 if their sizes are not known
    load: F64  # (k,) seconds per iteration of these objects, in the iteration after the LB step


MOST_LANES = 64  # if there are more ranks, the lanes are these quantiles of the ranks' times
QUANTILES = {"fastest": 0.0, "10 %": 0.1, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "90 %": 0.9}
QUANTILES |= {"slowest": 1.0}


class Lanes(NamedTuple):
    """A run as bars: c columns, each an iteration or a group of them, and a lane for each rank."""

    name: str
    seconds: float  # of the whole run
    iteration: F64  # (c,) seconds of the iterations
    deciding: F64  # (c,) seconds of the LB step after each iteration, without `moving`
    moving: F64  # (c,) seconds in which the LB step moves objects
    hidden: F64  # (c,) seconds of the iterations in which objects move while ranks compute
    computing: F64  # (lanes, c) seconds for which a rank computes in the iteration

    def to_dict(self) -> dict[str, Any]:
        """Return the data for a page; a byte of ``computing`` is 255 for a whole iteration."""
        part = self.computing / np.where(self.iteration > 0, self.iteration, np.inf)
        cells = packed(np.rint(255 * np.minimum(part, 1.0)), "u1")
        names = ("iteration", "deciding", "moving", "hidden")
        lines = {name: digits(getattr(self, name)) for name in names}
        return {"name": self.name, "seconds": self.seconds, **lines, "computing": cells}


@dataclass(frozen=True, eq=False)
class Course:
    """The data of a run that pages and pictures show."""

    title: str
    n_ranks: int
    n_objects: int
    times: F64  # (m, p) seconds of each rank in each iteration
    elapsed: F64  # (m,) seconds of each iteration, with waiting and messages
    iteration_time: F64  # (m,) like `elapsed`, without the waits between iterations
    history: History  # the decisions
    moves: list[Migrations] = field(default_factory=list)  # in the order of the iterations
    facts: dict[str, Any] = field(default_factory=dict)  # further properties to show, by name
    # (key, name, mean load per iteration, number of iterations, last rank) of the heaviest objects
    heaviest: list[tuple[Any, ...]] = field(default_factory=list)
    parameters: Mapping[str, Any] = field(default_factory=dict)  # those of the record
    recorded: F64 | None = None  # (m,) seconds of the slowest rank as recorded; only in a replay
    objects: Objects | None = None
    coords: Mapping[int, Any] | None = None  # coordinates of the objects, by key
    times_without: F64 | None = None  # (m, p) like `times`, without LB steps; None if not known
    gained: F64 | None = None  # (m,), see the function `gained`; None if not known
    # (m,) seconds of each phase's slowest rank, added up over the phases; None without phases
    most: F64 | None = None

    @property
    def n_iterations(self) -> int:
        """Number of iterations, m."""
        return len(self.times)

    @functools.cached_property
    def max(self) -> F64:
        """(m,) seconds of the slowest rank of each iteration; with phases, the sum over them."""
        return np.asarray(self.times.max(axis=1)) if self.most is None else self.most

    @functools.cached_property
    def mean(self) -> F64:
        """Mean seconds of the ranks in each iteration, (m,)."""
        return np.asarray(self.times.mean(axis=1))

    @functools.cached_property
    def max_over_mean(self) -> F64:
        """Maximum load divided by the mean in each iteration, (m,); 1 if there is no load."""
        return np.divide(self.max, self.mean, out=np.ones_like(self.max), where=self.mean > 0)

    @functools.cached_property
    def lb_steps(self) -> list[Receipt]:
        """The LB steps that were carried out; in shadow mode there are none."""
        return [r for r in self.history if r.balanced and r.moved]

    @property
    def is_shadow(self) -> bool:
        """Whether LB steps were decided and not carried out."""
        return self.parameters.get("mode") == "shadow"

    @property
    def lb_step_iterations(self) -> list[int]:
        """Iterations after which an LB step took place; -1: before the first iteration."""
        return [r.iteration for r in self.lb_steps]

    @functools.cached_property
    def step_seconds(self) -> F64:
        """`Receipt.step_seconds` of the LB step after each iteration, (m,)."""
        return self.after_each("step_seconds")

    @functools.cached_property
    def moving(self) -> F64:
        """Seconds in which the LB step after each iteration moved objects, (m,)."""
        return np.minimum(self.after_each("seconds_migration"), self.step_seconds)

    @functools.cached_property
    def hidden(self) -> F64:
        """(m,) seconds of each iteration in which it computed while data of an LB step moved."""
        out = np.zeros(self.n_iterations)
        for r in self.lb_steps:
            if r.iteration + 1 < len(out) and r.seconds_hidden > 0:
                out[r.iteration + 1] += r.seconds_hidden
        return np.minimum(out, self.iteration_time)

    def after_each(self, name: str) -> F64:
        """Return a figure in seconds of the LB step after each iteration, (m,); 0 without it.

        The first entry includes LB steps before the first iteration.
        """
        out = np.zeros(self.n_iterations)
        for r in self.lb_steps:
            if r.iteration < len(out) and not math.isnan(value := getattr(r, name)):
                out[max(r.iteration, 0)] += value
        return out

    @property
    def seconds(self) -> float:
        """Seconds of the whole run: of its loops if measured, else of iterations and LB steps."""
        known = float(self.elapsed.sum() + self.step_seconds.sum())
        return max(self.parameters.get("seconds") or 0.0, known)

    @functools.cached_property
    def saved(self) -> F64 | None:
        """Seconds that LB steps have saved so far, less their time, (m,); None if not known."""
        return None if self.gained is None else np.cumsum(self.gained - self.step_seconds)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the run by name, see `pylb.decide.figures.RUN`."""
        known = self.parameters
        most, mean = float(self.max.sum()), float(self.mean.sum())
        done, steps = self.lb_steps, float(self.step_seconds.sum())
        messages = self.seconds - steps - most
        saved = math.nan if self.saved is None else float(self.saved[-1])
        if self.is_shadow:  # estimates, because no LB step was carried out
            done, saved = self.history.lb_steps, float(known.get("would_save", math.nan))
            steps = math.fsum(r.step_seconds for r in done)
        # Prefer the receipts: their bytes include messages that migrated with their objects, and
        # they count objects that moved before their first iteration, or after the last one.
        moves = self.moves
        migrations = sum(r.migrations for r in done) or sum(int(m.objects.sum()) for m in moves)
        nbytes = sum(r.nbytes for r in done) or sum(int(m.nbytes.sum()) for m in moves)
        unknown = any(r.strategy == OWN for r in done)  # the program moved its data itself
        return {
            "n_ranks": self.n_ranks,
            "n_objects": self.n_objects,
            "strategy": str(known.get("strategy", "")),
            "iterations": self.n_iterations,
            "seconds": self.seconds,
            "replayed_seconds": float(self.iteration_time.sum()),
            "computing": mean,
            "imbalance": most - mean,
            "messages": messages,
            "mean_max_over_mean": most / mean if mean > 0 else 1.0,
            "n_lb_steps": len(done),
            "lb_seconds": steps,
            "lb_cost": math.fsum(r.cost for r in done),
            "migrations": None if unknown else migrations,
            "nbytes": None if unknown else nbytes or None,
            "saved": None if math.isnan(saved) else saved,
            **{name: known[name] for name in OF_RANK_0 if known.get(name)},
        }

    def lanes(self, first: int, end: int, columns: int) -> tuple[int, list[str], list[Lanes]]:
        """Return how many iterations of `first` to `end` - 1 form a column, lanes' names, and runs.

        The run without LB steps comes first, if the run had LB steps and its times are known.
        """
        part, width = slice(first, end), aggregate.step(end - first, columns)
        names = list(map(str, range(self.n_ranks)) if self.n_ranks <= MOST_LANES else QUANTILES)

        def grouped(values: F64) -> F64:
            return np.asarray(np.add.reduceat(values, np.arange(0, end - first, width), axis=-1))

        def bars(name: str, whole: float, times: F64, *lines: F64) -> Lanes:
            rows = times[part].T
            if self.n_ranks > MOST_LANES:
                rows = np.quantile(rows, list(QUANTILES.values()), axis=0)
            iteration, deciding, moving, hidden = (grouped(x[part]) for x in lines)
            return Lanes(name, whole, iteration, deciding, moving, hidden, grouped(rows))

        none, moving, replayed = np.zeros(self.n_iterations), self.moving, self.iteration_time
        steps, gained, times = self.step_seconds - moving, self.gained, self.times_without
        done, whole = bool(self.lb_steps), float(replayed.sum() + self.step_seconds.sum())
        name = "with LB steps" if done else "as it was"
        out = [bars(name, whole, self.times, replayed, steps, moving, self.hidden)]
        if done and gained is not None and times is not None:
            before, name = replayed + gained, "without LB steps"
            out.insert(0, bars(name, float(before.sum()), times, before, none, none, none))
        return width, names, out

    @functools.cached_property
    def verdict(self) -> str:
        """Whether LB steps helped, by how much, or why not: one sentence."""
        said = {name: self.parameters.get(name) for name in ("mode", "cores")}
        said["others"] = float(self.parameters.get("others", 0.0))
        return verdict({**self.figures(), **said}, self.history)

    @property
    def when(self) -> str:
        """When LB steps took place, in words."""
        return lb_steps(self.history)


def gained(run: Replay) -> F64:
    """Return how much longer each iteration would take without LB steps, (m,)."""
    return run.unbalanced.iteration_time - run.iteration_time


def of(
    run: Any,
    *,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    coords: Mapping[int, Any] | None = None,
    stem: str | None = None,
) -> Course:
    """Make the course of a run; arguments and errors are those of `pylb.report`."""
    if isinstance(run, Course):
        return run
    if isinstance(run, (str, os.PathLike)):
        title = Path(run).name if title is None else title
        run = read(run, stem)
    if isinstance(run, RunRecord):
        moved = any(r.moved for r in run.history.lb_steps)
        base = run.trace.replay("none") if moved else None
        out = of_stretches(
            run.stretches,
            run.n_ranks,
            times=run.rank_times,
            figures=(run.time, run.mean, run.idle),
            history=run.history,
            parameters=run.parameters,
            title=title or Path(run.path or "run").name,
            names=names,
            gained=np.zeros(run.n_iterations) if base is None else gained(base),
            times_without=None if base is None else base.unbalanced.rank_times,
            most=run.max if run.phases else None,
            phases=run.phase_metrics,
        )
    elif isinstance(run, (Trace, Replay)):
        if not len(run.trace if isinstance(run, Replay) else run):
            raise DomainError("run has no phases: expected one or more")
        shown = run.replay("none") if isinstance(run, Trace) else run
        network, said, recorded = shown.network, "A recorded run", None
        if shown is run:
            said += f", replayed with {', '.join(filter(None, (run.strategy, run.trigger)))}"
        if shown.strategy != "none":
            recorded = replay(shown.trace, "none", alpha=network.alpha, beta=network.beta)
        phases, p = stretches(shown), shown.trace.n_ranks
        out = replace(
            of_replay(shown, recorded, title or said),
            moves=list(_moves_of(phases, p)),
            heaviest=_heaviest_of(phases, names),
            objects=Objects(phases, p),
        )
    else:
        raise DomainError(
            f"run is {type(run).__name__}: expected a path, RunRecord, Trace or Replay"
        )
    if out.n_iterations == 0:
        raise DomainError(f"{out.title} has no complete iteration: expected one or more")
    return out if coords is None else replace(out, coords=coords)


def read(path: str | os.PathLike[str], stem: str | None = None) -> RunRecord | Trace:
    """Read a run record, or the trace in a folder."""
    is_record = stem is None and record_file.is_record(path)
    return RunRecord.load(path) if is_record else Trace.load(path, stem=stem)


OF_RANK_0 = ("waited", "stolen", "lent", "hidden", "borrowed", "lending_saved")
SAID = ("trigger", "mode", "load", "seed", "lag", "cores", "pylb")  # parameters on a page


# ---- a run record ---------------------------------------------------------------------------


def of_stretches(
    stretches: list[Stretch],
    n_ranks: int,
    *,
    times: F64,
    figures: tuple[F64, F64, F64],
    history: History,
    parameters: dict[str, Any],
    title: str,
    names: Mapping[int, str] | None = None,
    gained: F64 | None = None,
    times_without: F64 | None = None,
    most: F64 | None = None,
    phases: Mapping[str, PhaseMetrics] | None = None,
) -> Course:
    """Make the course of a run of `Balancer` or `Advisor` from its stretches.

    `figures` are (m,) time, mean and idle seconds, see `IterationMetrics`; for the rest see
    `Course`.
    """
    # A stretch without iterations only lists the objects at the end of the run.
    stretches = [s for s in stretches if s.iterations]
    m = min(len(times), len(figures[0]))  # a truncated record can have more loads than `figures`
    times, (time, mean, idle) = times[:m], (x[:m] for x in figures)
    # `Balancer` with lag=0: the wait at the end of an iteration is in the next iteration's `idle`.
    is_late = not parameters.get("lag") and not parameters.get("advisor")
    waited = np.append(idle[1:], 0.0)[:m] if is_late else idle
    objects = Objects(stretches, n_ranks) if stretches else None
    busiest = times.max(axis=1, initial=0.0)
    facts = {k: v for k, v in parameters.items() if k in SAID and v and v != "on"}
    if parameters.get("learn_speeds") and parameters.get("mode") not in ("off", "shadow"):
        facts["speeds of ranks"] = "learned"
    for name, x in (phases or {}).items():
        facts[f"max/mean of phase {name}"] = f"{x.max_over_mean:.3f}"
    return Course(
        title=title,
        n_ranks=n_ranks,
        n_objects=0 if objects is None else len(objects.key),
        times=times,
        elapsed=np.maximum.reduce([time, mean + waited, busiest]),
        history=history,
        moves=list(_moves_of(stretches, n_ranks)),
        facts=facts,
        heaviest=_heaviest_of(stretches, names),
        parameters=parameters,
        iteration_time=np.maximum(time, busiest),
        objects=objects,
        gained=None if gained is None else gained[:m],
        times_without=None if times_without is None else times_without[:m],
        most=None if most is None else most[:m],
    )


def _moves_of(stretches: list[Stretch], n_ranks: int) -> Iterator[Migrations]:
    for old, new in pairwise(stretches):
        _, i, j = np.intersect1d(old.key, new.key, assume_unique=True, return_indices=True)
        same = or_zeros(old.birth, len(old.key))[i] == or_zeros(new.birth, len(new.key))[j]
        moved = same & (old.rank[i] != new.rank[j])
        if not moved.any():
            continue
        i, j = i[moved], j[moved]
        pairs = old.rank[i].astype(np.int64) * n_ranks + new.rank[j]
        pair, which = np.unique(pairs, return_inverse=True)
        yield Migrations(
            new.first - 1,
            (pair // n_ranks).astype(np.int32),
            (pair % n_ranks).astype(np.int32),
            np.bincount(which),
            np.bincount(which, new.nbytes[j]).astype(np.int64),
            np.bincount(which, new.load[0, j]).astype(np.float64),
        )


MOST_HEAVY = 30


def _heaviest_of(
    stretches: list[Stretch], names: Mapping[int, str] | None
) -> list[tuple[Any, ...]]:
    """Return `Course.heaviest`."""
    if not stretches:
        return []
    names = names or {}
    known, which = np.unique(np.concatenate([s.key for s in stretches]), return_inverse=True)
    total = np.bincount(which, np.concatenate([s.load.sum(axis=0) for s in stretches]))
    counts = [np.full(len(s.key), s.iterations) for s in stretches]
    number = np.bincount(which, np.concatenate(counts))
    last = np.empty(len(known), np.int32)
    last[which] = np.concatenate([s.rank for s in stretches])
    order = np.argsort(-total, kind="stable")[:MOST_HEAVY]
    mean = total / np.maximum(number, 1)
    columns = (array[order].tolist() for array in (known, mean, number, last))
    return [(key, str(names.get(key, "")), *rest) for key, *rest in zip(*columns, strict=True)]


# ---- a replay -------------------------------------------------------------------------------


def of_replay(run: Replay, recorded: Replay | None, title: str = "") -> Course:
    """Make the course of a replay, without objects; `recorded` replays the recorded placement."""
    return Course(
        title=title,
        n_ranks=run.trace.n_ranks,
        n_objects=run.trace.n_entities,
        times=run.rank_times,
        elapsed=np.maximum(run.iteration_time, run.rank_times.max(axis=1, initial=0.0)),
        history=run.decisions,
        facts={"trigger": run.trigger, "seed": run.seed} if run.trigger else {},
        parameters={"strategy": run.strategy},
        recorded=None if recorded is None else recorded.metrics["max"],
        iteration_time=run.iteration_time,
        gained=gained(run),
        times_without=run.unbalanced.rank_times,
        most=run.metrics["max"] if run.trace.n_subphases else None,
    )


def stretches(run: Replay, first: int = 0, end: int | None = None) -> list[Stretch]:
    """Return some phases of a replay, each as a stretch with the objects on their new ranks."""
    moved = placed(run.trace, run.rank)
    return [stretch_of(moved, i) for i in range(*slice(first, end).indices(len(moved)))]


def moves_after(run: Replay, iteration: int) -> Migrations | None:
    """Return the migrations at the end of one iteration; None if there were none."""
    around = stretches(run, iteration, iteration + 2) if iteration >= 0 else []
    return next(_moves_of(around, run.trace.n_ranks), None)
