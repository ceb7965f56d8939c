"""The data of a run record: loads, placements and messages of every iteration, and receipts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pylb.decide.receipts import History
from pylb.errors import FormatError, OutOfRangeError
from pylb.model.metrics import PhaseMetrics
from pylb.model.snapshot import F64, I32, I64

FIGURES = ("time", "max", "mean", "idle", "utilization", "min", "messages", "message_bytes")
"""Metrics of an iteration, in the order of csrc/replay/replay.h."""


OF_RANKS: dict[str, Any] = {
    "speed": np.float64,
    "background": np.float64,
    "memory_limit": np.int64,
    "node_memory_limit": np.int64,
    "node": np.int32,  # with node_memory_limit
}
MOST = 1e30  # largest allowed value of the `FIGURES`, in seconds, messages or bytes


def check_figures(table: F64, first: int = 0) -> None:
    """Raise FormatError if `FIGURES` (k, 8) of iterations from `first` on are out of range."""
    for i, column in np.argwhere(~((table >= 0) & (table <= MOST)))[:1]:
        raise FormatError(
            f"{FIGURES[column]} of iteration {first + i} is {table[i, column]}: expected a number "
            f"from 0 to {MOST:g}"
        )


class Stretch(NamedTuple):
    """Consecutive iterations with the same objects on the same ranks.

    Examples
    --------
    >>> first = pylb.RunRecord.load("run.h5").stretches[0]
    >>> first.first, first.load.shape
    (0, (2, 128))
    """

    first: int  #: Index of the first iteration.
    key: I64  #: (n,) keys of the objects, ascending.
    rank: I32  #: (n,) rank of each object.
    nbytes: I64  #: (n,) bytes that a migration of the object sends; 0 if not known.
    memory: I64  #: (n,) bytes that the object occupies; -1 if not known.
    migratable: Any  #: (n,)
    load: F64  #: (k, n) seconds of each object in each of the k iterations.
    #: (m,) indices of the sending and the receiving object of each edge.
    src: I32
    dst: I32
    #: (m,) bytes and messages per iteration, on average since the last LB step.
    edge_bytes: F64
    edge_messages: F64
    home: I32  #: (n,) the rank where each object was created; -1 if not known.
    #: (m,) index of the multicast of each edge, from 1, or 0 (see `pylb.Trace`).  None if there are
    #: no multicasts.
    edge_multicast: I32 | None = None
    #: (n, 3) positions of the objects at the end of these iterations.  None if not known.
    coords: F64 | None = None
    #: (n,) the user's estimates of the objects' work; 0 if not known.  None if all are unknown.
    work: F64 | None = None
    #: (n,) a number that differs between two objects that had the same key at different times.
    #: None if all are 0.
    birth: I64 | None = None
    #: Whether the stretch has no iterations, but the objects of an LB step at the start of a loop.
    starts: bool = False
    #: (k, n, d) seconds of each object in each phase of an iteration (`Balancer.phase`).  None if
    #: the program names no phases.
    phases: F64 | None = None
    #: (n, 3) the data that the object shares with other objects: their id, their bytes, and their
    #: home rank; -1 if it shares none.  None if no object shares data.
    shared: I64 | None = None

    @property
    def iterations(self) -> int:
        """Number of iterations, k."""
        return len(self.load)

    def rank_loads(self, n_ranks: int) -> F64:
        """Return the sum of the loads on each rank in each iteration, (k, n_ranks)."""
        out = np.zeros((self.iterations, n_ranks))
        order = np.argsort(self.rank, kind="stable")
        ranks, first = np.unique(self.rank[order], return_index=True)
        if len(ranks):
            out[:, ranks] = np.add.reduceat(self.load[:, order], first, axis=1)
        return out


class Loop(NamedTuple):
    """A loop of the program (`Balancer.iterate`), and its costs, as expected or as measured."""

    #: Index of the loop's first iteration, and its planned number of iterations.
    first: float
    n: float
    cost: float = math.nan  #: Expected seconds of the first LB step; nan if not known.
    #: Seconds per message and per byte; nan if not measured.
    alpha: float = math.nan
    beta: float = math.nan
    handling: float = math.nan  #: Seconds to pack one object; nan if not measured.
    #: Seconds of an LB step without migrations and without the strategy; nan if not measured.
    steps: float = math.nan
    #: Seconds of the run's clock per second of computing: 1, except for virtual ranks.
    pace: float = 1.0
    #: The part of `cost` for moving objects, if all of them moved; nan if not known.
    moving: float = math.nan


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunFacts:
    """The data of a run besides its iterations: parameters, receipts, loops."""

    #: Arguments of the balancer by name, and the version of pylb.
    parameters: dict[str, Any] = field(default_factory=dict)
    history: History = field(default_factory=History)  #: The receipts.
    loops: list[Loop] = field(default_factory=list)
    #: ``remaining[k]``: the objects that exist after k iterations, as a stretch without iterations.
    #: Recorded if objects were added or removed at the end of a loop or just before an LB step.
    remaining: dict[int, Stretch] = field(default_factory=dict)
    #: ``starting[k]``: the objects of an LB step at the start of a loop that begins after k
    #: iterations.
    starting: dict[int, Stretch] = field(default_factory=dict)
    #: What the user's functions returned about the ranks, an entry (moment, values) for each
    #: change.  The values are lists with a number for each rank, under "speed", "background" or
    #: "memory_limit".  Moment 2 k is after k iterations; moment 2 k + 1 is at the start of the loop
    #: that follows.
    answers: list[tuple[int, dict[str, list[float]]]] = field(default_factory=list)
    phases: tuple[str, ...] = ()  #: Names of the phases of an iteration.

    @property
    def links(self) -> dict[str, Any]:
        """`node` and `near` of the run's `Snapshot`, if it knew distances; otherwise {}."""
        if not (known := self.parameters.get("distances")):
            return {}
        return {
            "node": np.array(known["node"], np.int32),
            "near": np.array(known["near"], np.float64),
        }

    def ranks_at(self, moment: int) -> dict[str, Any]:
        """Return the ranks' properties (`OF_RANKS`) by name, (p,), at a moment (see `answers`)."""
        known = [given for at, given in self.answers if at <= moment]
        first = self.answers[0][1] if self.answers else self.parameters.get("ranks", {})
        given = known[-1] if known else first
        out = {name: np.array(row, OF_RANKS[name]) for name, row in given.items()}
        for row in out.values():
            row.flags.writeable = False
        return out


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RunData(RunFacts):
    """All data of a run record."""

    n_ranks: int
    #: The run, cut into stretches: consecutive iterations that differ only in loads.
    stretches: list[Stretch]
    #: (m,) values of each iteration, as in `IterationMetrics`.
    time: F64
    max: F64
    mean: F64
    idle: F64
    utilization: F64
    min: F64
    #: (m,) messages and bytes between ranks in each iteration.
    messages: F64
    message_bytes: F64
    path: str = ""

    @property
    def n_iterations(self) -> int:
        """Number of iterations, m."""
        return len(self.time)

    @property
    def figures(self) -> F64:
        """`FIGURES` of each iteration, (m, 8) float64."""
        return np.stack([getattr(self, name) for name in FIGURES], axis=1)

    @property
    def rank_times(self) -> F64:
        """Seconds of each rank in each iteration, with its background load, (m, p) float64."""
        parts = [
            s.rank_loads(self.n_ranks) + self.ranks_at(2 * s.first + 1).get("background", 0.0)
            for s in self.stretches
            if s.iterations
        ]
        return np.concatenate([np.zeros((0, self.n_ranks)), *parts])

    @property
    def phase_metrics(self) -> dict[str, PhaseMetrics]:
        """Metrics of each phase by its name; empty if the program names no phases."""
        every = [np.zeros((0, 2 * len(self.phases)))]
        for s in self.stretches:
            if s.phases is not None:
                phases = s.phases.T.swapaxes(1, 2)
                loads = np.array([s._replace(load=x).rank_loads(self.n_ranks) for x in phases])
                loads[0] += self.ranks_at(2 * s.first + 1).get("background", 0.0)
                every.append(np.concatenate([loads.max(axis=2), loads.mean(axis=2)]).T)
        return PhaseMetrics.by_name(self.phases, np.concatenate(every)) if self.phases else {}

    def at(self, iteration: int) -> Stretch:
        """Return the stretch that contains an iteration."""
        for stretch in self.stretches:
            if stretch.first <= iteration < stretch.first + stretch.iterations:
                return stretch
        raise OutOfRangeError(
            f"iteration is {iteration}: expected 0 ... {self.n_iterations - 1}, the iterations in "
            f"{self.path}"
        )
