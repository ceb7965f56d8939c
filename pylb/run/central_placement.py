"""Placement by rank 0, which makes a snapshot of the load database and runs the strategy on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Step
from pylb.comm.parcel import exchange_objects
from pylb.decide.decider import FIGURES, Decider
from pylb.model.snapshot import F64, I32, I64, Snapshot
from pylb.run.load_database import Database
from pylb.run.rank_facts import RankFacts

Part = TypeVar("Part")


class Known(NamedTuple):
    """The load database on rank 0; the arrays, (n,), are sorted by the keys of the objects."""

    snapshot: Snapshot
    here: F64 | None = None  # seconds on the object's present rank, if speeds are learned
    work: F64 | None = None  # the user's estimates of the object's work, in any unit
    # Seconds by which the load changes per iteration, if the decider chooses the strategy.
    drift: F64 | None = None


class CentralPlacement(NamedTuple):
    """The placement that rank 0 computes in an LB step."""

    figures: F64  # metrics of the placement, named by `pylb.decide.decider.FIGURES`
    speed: F64  # (p,), speeds of the ranks; zeros if all ranks count as equally fast
    rank: I32  # (n,), new rank of each object

    @classmethod
    def empty(cls, n_ranks: int, n_objects: int) -> CentralPlacement:
        return cls(np.zeros(_core.PLACING), np.zeros(n_ranks), np.zeros(n_objects, np.int32))

    def fill(self, decider: Decider, known: Known, start: float) -> None:
        """Run the strategy that the decider has chosen, and fill the arrays.

        start: the time, by `_core.clock`, when the gathering of the load database began.
        """
        gathered = max(_core.clock() - start, 0.0)  # the clock may have been set back
        decider.core.place(*known[:3], *self, known.drift)
        self.figures[FIGURES.index("seconds_statistics")] = gathered


@dataclass
class CentralStep(Generic[Part]):
    """One LB step on one rank: rank 0 places the objects, and sends each rank its `Part`."""

    agreement: Agreement
    decider: Decider
    iteration: int
    facts: RankFacts

    def _part(self) -> tuple[Any, ...]:
        """Return this rank's part of the load database, without the properties of the rank."""
        raise NotImplementedError

    def _join_parts(self, whole: list[tuple[Any, ...]]) -> tuple[Database, Known]:
        """Join all parts, sorted by key, so that the result is the same on any number of ranks.

        The last entry of each part has the properties of its rank.
        """
        raise NotImplementedError

    def _parts(
        self, placement: CentralPlacement, known: Known, db: Database, own: list[I32]
    ) -> dict[int, Part]:
        """Return, by rank, the part of the placement that is sent to that rank.

        own: for each rank, the new ranks of its objects, in the order of its `_part`.
        """
        raise NotImplementedError

    def _stay(self, part: Part) -> None:
        """Do the collective steps of a migration that moves nothing; for `rehearse`."""

    def _gather_parts(self) -> list[tuple[Any, ...]]:
        """Return each rank's part of the load database on rank 0, [] elsewhere.  Collective."""
        own = self.facts.own(self.iteration + 1)
        came = exchange_objects(
            self.agreement, Step.GATHER, self.iteration, lambda: {0: (*self._part(), own)}
        ).values
        return [came[rank] for rank in sorted(came)]

    def _place_on_rank_0(self, start: float) -> Part:
        """Run the strategy on rank 0, and return this rank's part.  Collective."""
        return self._filled(lambda placement, known: placement.fill(self.decider, known, start))

    def _filled(self, fill: Callable[[CentralPlacement, Known], None]) -> Part:
        whole = self._gather_parts()

        def parts() -> dict[int, Part]:
            if not whole:
                return {}
            db, known = self._join_parts(whole)
            placement = CentralPlacement.empty(len(whole), len(db.key))
            fill(placement, known)
            rank = np.empty_like(placement.rank)
            rank[db.order] = placement.rank
            ends = np.cumsum([len(part[0]) for part in whole])[:-1]
            return self._parts(placement, known, db, np.split(rank, ends))

        came = exchange_objects(self.agreement, Step.PLACE, self.iteration, parts).values
        return came[0]  # type: ignore[no-any-return]

    def rehearse(self) -> float:
        """Measure the seconds of an LB step without a strategy and without moves.  Collective."""
        start = _core.clock()

        def keep(placement: CentralPlacement, known: Known) -> None:
            placement.rank[:] = known.snapshot.rank

        self._stay(self._filled(keep))
        seconds = _core.clock() - start
        return self.agreement.step(Step.COMMIT, self.iteration, cost=seconds)[0].cost_max

    def preview(self) -> float:
        """Estimate the seconds per iteration that a new placement would save.

        Collective; all ranks get the same number.
        """
        whole = self._gather_parts()
        gain = np.zeros(1)

        def preview() -> None:
            gain[0] = self.decider.core.preview(*self._join_parts(whole)[1][:3])

        self.agreement.on_root(Step.PLACE, self.iteration, preview)
        self.agreement.transport.bcast(gain.view(np.uint8), 0)
        return float(gain[0])


def snapshot_of(
    db: Database,
    load: F64,
    rank: I32,
    n_ranks: int,
    coords: F64 | None = None,
    facts: Mapping[str, NDArray[Any]] | None = None,
) -> Snapshot:
    """Make a snapshot of the load database.

    load (in seconds), rank and coords (n, 3) are those of the objects, sorted by key; facts: the
    properties of the ranks that the user has given, see `RankFacts`.
    """
    facts = facts or {}
    speed = facts.get("speed")
    remembers = db.memory is not None and np.any(db.memory >= 0)
    memory = np.maximum(db.memory, 0) if remembers else None
    if "memory_limit" in facts:
        memory = occupied(db.memory, db.bytes)
    edges, multicasts = db.rows.split()
    return Snapshot(
        load=load if speed is None else load * speed[rank],
        rank=rank,
        n_ranks=n_ranks,
        key=db.key,
        bytes=db.bytes,
        memory=memory,
        migratable=db.migratable,
        edges=edges,
        multicasts=multicasts,
        coords=coords,
        **facts,
    )


def occupied(memory: I64 | None, nbytes: I64) -> I64:
    """Return the bytes that each object occupies: as given, or else the bytes of its migration."""
    return nbytes if memory is None else np.where(memory < 0, nbytes, memory)
