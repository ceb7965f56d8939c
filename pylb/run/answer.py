"""Turn the load database into a snapshot, and its placement into an answer for all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.decide.decider import FIGURES, Decider
from pylb.model.snapshot import F64, I32, I64, Edges, Snapshot
from pylb.run.database import Database
from pylb.run.rank_facts import relative


class Answer(NamedTuple):
    """What the placing rank sends to all ranks: figures, speeds of the ranks, and new ranks.

    Speeds are zero if all ranks count as equally fast.  All arrays are views of `data`.
    """

    data: NDArray[np.uint8]
    figures: F64
    speed: F64
    rank: I32

    @classmethod
    def empty(cls, n_ranks: int, n_objects: int) -> Answer:
        """Allocate an answer for these numbers of ranks and objects."""
        head = 8 * _core.PLACING
        tail = head + 8 * n_ranks
        data = np.zeros(tail + 4 * n_objects, np.uint8)
        return cls(
            data,
            data[:head].view(np.float64),
            data[head:tail].view(np.float64),
            data[tail:].view(np.int32),
        )

    def fill(
        self,
        decider: Decider,
        snapshot: Snapshot,
        here: F64 | None,
        work: F64 | None,
        drift: F64 | None,
        start: float,
    ) -> None:
        """Place the objects.  start: the time when the gathering of the load database began."""
        gathered = max(_core.clock() - start, 0.0)  # the clock may have been set back
        decider.core.place(snapshot, here, work, *self[1:], drift)
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
    """Make a snapshot of the load database; `load`, in seconds, and `rank` are in order of keys.

    facts: the speeds, other work and memory limits of the ranks, see `RankFacts`.
    """
    facts = facts or {}
    speed = facts.get("speed")
    remembers = db.memory is not None and np.any(db.memory >= 0)
    memory = np.maximum(db.memory, 0) if remembers else None
    if "memory_limit" in facts:
        memory = occupied(db.memory, db.bytes)
    return Snapshot(
        load=load if speed is None else load * speed[rank],
        rank=rank,
        n_ranks=n_ranks,
        key=db.key,
        bytes=db.bytes,
        memory=memory,
        migratable=db.migratable,
        edges=Edges(db.src, db.dst, db.edge_bytes, db.edge_messages),
        coords=coords,
        **facts,
    )


def occupied(memory: I64 | None, nbytes: I64) -> I64:
    """The memory of objects: as given (0 or more), else the bytes that a migration sends."""
    return nbytes if memory is None else np.where(memory < 0, nbytes, memory)
