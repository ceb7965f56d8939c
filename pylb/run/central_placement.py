"""A placement of all objects by rank 0: from the load database to a snapshot, and new ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.decide.decider import FIGURES, Decider
from pylb.model.snapshot import F64, I32, I64, Snapshot
from pylb.run.load_database import Database
from pylb.run.rank_facts import relative


class CentralPlacement(NamedTuple):
    """The result of an LB step on rank 0.

    Attributes
    ----------
    figures : float64
        Figures of the placement, named by `pylb.decide.decider.FIGURES`.
    speed : (p,) float64
        Speeds of the ranks; zeros if all ranks count as equally fast.
    rank : (n,) int32
        New rank of each object.
    """

    figures: F64
    speed: F64
    rank: I32

    @classmethod
    def empty(cls, n_ranks: int, n_objects: int) -> CentralPlacement:
        """Allocate the arrays for these numbers of ranks and objects."""
        return cls(np.zeros(_core.PLACING), np.zeros(n_ranks), np.zeros(n_objects, np.int32))

    def fill(
        self,
        decider: Decider,
        snapshot: Snapshot,
        here: F64 | None,
        work: F64 | None,
        drift: F64 | None,
        start: float,
    ) -> None:
        """Run the strategy that the decider has chosen, and fill the arrays.

        Parameters
        ----------
        here : (n,) float64 or None
            Seconds of each object on its present rank, if speeds are learned.
        work : (n,) float64 or None
            The user's estimate of the work of each object.
        drift : (n,) float64 or None
            Change of each load per iteration.
        start : float
            The time, by `_core.clock`, when the gathering of the load database began.
        """
        gathered = max(_core.clock() - start, 0.0)  # the clock may have been set back
        decider.core.place(snapshot, here, work, *self, drift)
        if snapshot.speed is not None:
            self.speed[:] = relative(snapshot.speed)
        self.figures[FIGURES.index("seconds_statistics")] = gathered


def snapshot_of(
    db: Database,
    load: F64,
    rank: I32,
    n_ranks: int,
    coords: F64 | None = None,
    facts: Mapping[str, NDArray[Any]] | None = None,
) -> Snapshot:
    """Make a snapshot of the load database.

    Parameters
    ----------
    load : (n,) float64
        Seconds of each object, in order of keys.
    rank : (n,) int32
        Rank of each object, in order of keys.
    facts : mapping, optional
        What the user has said about the ranks, see `RankFacts`.
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
    """Return the bytes that each object occupies: as given, else those of a migration."""
    return nbytes if memory is None else np.where(memory < 0, nbytes, memory)
