"""The settings of the explorer, and the replay of a run with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.model.snapshot import I32, I64
from pylb.replaying.replayed import BASELINES, Replay, replay
from pylb.replaying.trace import Trace
from pylb.show import course, page
from pylb.show.course import Course

MOST_ROWS, MOST_COLUMNS = 128, 512  # largest numbers of rows and columns of the heat map
MOST_DECISIONS = 400  # largest number of decisions in the list


@dataclass(frozen=True)
class ExplorerSettings:
    """The settings of the explorer, which a user can change."""

    strategy: str = "auto"
    trigger: str = "auto"  # name of the trigger; empty: use `every`
    every: int = 10  # iterations from one LB step to the next
    n_ranks: int = 0  # 0: as many as recorded
    alpha: float = 0.0  # seconds per message
    beta: float = 0.0  # seconds per byte
    cost: float | None = None  # seconds of an LB step; None: as in `pylb.replay`
    rank: int = 0  # the rank whose speed is changed
    speed: float = 1.0  # factor on the speed of this rank; the other ranks keep their speed

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ExplorerSettings:
        """Check settings given by a browser or a caller; missing ones get their defaults."""
        known = {f.name: f.type for f in dataclasses.fields(cls)}
        if not isinstance(given, Mapping):
            raise DomainError(f"settings are {given!r}: expected a value for each name")
        out: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise DomainError(f"no setting {name}: expected one of {', '.join(known)}")
            try:
                out[name] = _KINDS[str(known[name])](value)
            except (TypeError, ValueError, OverflowError):
                raise DomainError(f"{name} is {value!r}: expected {known[name]}") from None
        return cls(**out)

    def replay(self, trace: Trace) -> Replay:
        """Replay the run with these settings; its errors are those of `pylb.replay`."""
        run = self.on(trace)
        when: dict[str, Any] = {"trigger": self.trigger} if self.trigger else {"every": self.every}
        return replay(
            run,
            self.strategy,
            cost=self.cost,
            alpha=self.alpha,
            beta=self.beta,
            speed=self._speeds(run),
            **({} if self.strategy in BASELINES else when),
        )

    def on(self, trace: Trace) -> Trace:
        """Return the run on the number of ranks of these settings."""
        return trace if self.n_ranks in (0, trace.n_ranks) else on_ranks(trace, self.n_ranks)

    def _speeds(self, trace: Trace) -> Any:
        if self.speed == 1.0:
            return None
        if not 0 <= self.rank < trace.n_ranks:
            raise DomainError(f"rank is {self.rank}: expected 0 ... {trace.n_ranks - 1}")
        out = np.ones(trace.n_ranks) if trace.speed is None else trace.speed.copy()
        out[self.rank] *= self.speed
        return out


_KINDS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "float | None": lambda value: None if value is None else float(value),
}


def on_ranks(trace: Trace, n_ranks: int) -> Trace:
    """Place the same objects on another number of ranks.

    The objects are sorted by the recorded rank of their first task, and cut into equal parts, one
    for each new rank; so neighbours stay neighbours.  In the result, no object migrates.  The new
    ranks have equal speeds, no background load and no memory limits.
    """
    if not 1 <= n_ranks <= 2**20:
        raise DomainError(f"n_ranks is {n_ranks}: expected 1 ... {2**20}")
    n = trace.n_entities
    first = _first_tasks(trace)
    order = np.lexsort((first, trace.task_rank[first]))
    where = np.empty(n, np.int32)
    where[order] = (np.arange(n) * n_ranks // max(n, 1)).astype(np.int32)
    rank = _of_tasks(trace, where)
    for array in (where, rank):
        array.flags.writeable = False
    return dataclasses.replace(
        trace,
        n_ranks=n_ranks,
        task_rank=rank,
        task_home=None,
        task_seconds=None,
        entity_home=where,
        speed=None,
        background=None,
        memory_limit=None,
        measured=None,
        figures=None,
        core_group=None,
        group_cores=None,
        recorded=None,
        _run=None,
        _phases=None,
    )


def _of_tasks(trace: Trace, where: I32) -> I32:
    """Return the rank of each task; where: the rank of each entity."""
    same = trace._repeats is not None and trace._repeats[1:].all()
    if not same:
        # "clip" is the fastest mode of `take`; it changes no index, because all are valid.
        return where.take(trace.task_entity, mode="clip")
    return np.tile(where[trace.task_entity[: int(trace.task_ptr[1])]], len(trace))


def _first_tasks(trace: Trace) -> I64:
    """Return the first task of each entity; most of these tasks are in the first phase."""
    out = np.full(trace.n_entities, -1)
    left = len(out)
    for begin, end in pairwise(trace.task_ptr.tolist()):
        entity = trace.task_entity[begin:end]
        new = np.flatnonzero(out[entity] < 0)
        out[entity[new]] = begin + new
        left -= len(new)
        if not left:
            break
    return out


# ---- data for the browser -------------------------------------------------------------------


def shown(run: Replay, recorded: Replay) -> Course:
    """Return the course of a replay; recorded: the replay of the recorded placement."""
    return course.of_replay(run, recorded.metrics["max"])


def picture(run: Course) -> dict[str, Any]:
    """Return loads and LB steps of a replay, with as many points as a screen can show."""
    return page.loads(run, MOST_ROWS, MOST_COLUMNS)


def figures(run: Course, recorded: Replay) -> dict[str, Any]:
    """Return the figures of a replay, and how much faster it is than as recorded."""
    known = run.figures()
    faster = recorded.time / run.seconds if run.seconds > 0 else 1.0
    said = {"facts": page.facts(run), "verdict": run.verdict}
    return {**known, **said, "recorded": recorded.time, "speedup": faster}


def decisions(run: Replay) -> list[dict[str, Any]]:
    """Return the first `MOST_DECISIONS` decisions, without their details; see `details`."""
    return [page.listed(r) for r in run.decisions[:MOST_DECISIONS]]


def details(run: Replay, index: int) -> dict[str, Any]:
    """Return details of decision number `index`: explanation, fitted lines, migrations."""
    if not 0 <= index < len(run.decisions):
        raise DomainError(f"decision is {index}: expected 0 or more, below {len(run.decisions)}")
    found = run.decisions[index]
    return page.decision(found, course.moves_after(run, found.iteration))
