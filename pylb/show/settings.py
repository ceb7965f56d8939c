"""The settings of the explorer, and the replay of a run with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pylb.errors import DomainError
from pylb.replaying.replayed import BASELINES, Replay, replay
from pylb.replaying.trace import Trace
from pylb.show import course, page
from pylb.show.course import Course

MOST_ROWS, MOST_COLUMNS = 128, 512  # largest numbers of rows and columns of the heat map
MOST_DECISIONS = 400  # largest number of decisions in the list


@dataclass(frozen=True)
class ExplorerSettings:
    """The settings of the explorer, which a user can change."""

    strategy: str = "none"  # as recorded
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
        return trace if self.n_ranks in (0, trace.n_ranks) else trace.on_ranks(self.n_ranks)

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


# ---- data for the browser -------------------------------------------------------------------


def shown(run: Replay, recorded: Replay) -> Course:
    """Return the course of a replay; recorded: the replay of the recorded placement."""
    return course.of_replay(run, recorded.metrics["max"])


def picture(run: Course) -> dict[str, Any]:
    """Return loads and LB steps of a replay, with as many points as a screen can show."""
    return page.loads(run, MOST_ROWS, MOST_COLUMNS)


def figures(run: Course, recorded: Replay) -> dict[str, Any]:
    """Return the figures of a replay, and the seconds of the run as recorded and unbalanced."""
    said = {"facts": page.facts(run), "verdict": run.verdict}
    times = {"recorded": recorded.time, "unbalanced": recorded.unbalanced.time}
    return {**run.figures(), **said, **times}


def decisions(run: Replay) -> list[dict[str, Any]]:
    """Return the first `MOST_DECISIONS` decisions, without their details; see `details`."""
    return [page.listed(r) for r in run.decisions[:MOST_DECISIONS]]


def details(run: Replay, index: int) -> dict[str, Any]:
    """Return details of decision number `index`: explanation, fitted lines, migrations."""
    if not 0 <= index < len(run.decisions):
        raise DomainError(f"decision is {index}: expected 0 or more, below {len(run.decisions)}")
    found = run.decisions[index]
    return page.decision(found, course.moves_after(run, found.iteration))
