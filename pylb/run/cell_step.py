"""The LB step of a program that owns its cells: gather them on rank 0, and place them there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Step
from pylb.comm.parcel import exchange_objects
from pylb.decide.decider import Decider
from pylb.errors import DuplicateKeyError, UnknownKeyError
from pylb.model.snapshot import F64, I32, I64, Snapshot
from pylb.run.cells import LocalCells, edges_of
from pylb.run.central_placement import CentralPlacement, snapshot_of
from pylb.run.load_database import Database, database
from pylb.run.rank_facts import RankFacts
from pylb.run.rank_facts import joined as of_ranks


class PlacedCells(NamedTuple):
    """The part of a placement that concerns one rank.

    Attributes
    ----------
    figures, speed : float64
        Figures of the placement and speeds of the ranks, from `_core.Decider.place`.
    migrations, nbytes : int
        Number of migrations on all ranks, and their bytes.
    rank : (n,) int32
        New rank of each cell of this rank, in this rank's order.
    keys : (m,) int64
        Keys of the cells that come to this rank, sorted by their old rank.
    source : (m,) int32
        Old rank of each of these cells.
    """

    figures: F64
    speed: F64
    migrations: int
    nbytes: int
    rank: I32
    keys: I64
    source: I32


@dataclass
class CellStep:
    """One LB step on one rank, after a step of the program.

    Attributes
    ----------
    loads : (n,) float64
        Expected seconds of this rank's cells.
    measured : bool
        Whether the cells were measured on this rank, so that speeds can be learned from them.
    """

    agreement: Agreement
    cells: LocalCells
    decider: Decider
    iteration: int
    loads: F64
    facts: RankFacts
    measured: bool = True

    def place(self) -> PlacedCells:
        """Place all cells by the chosen strategy.  Collective."""
        start = _core.clock()
        return self._placed(lambda placement, known: placement.fill(self.decider, *known, start))

    def preview(self) -> float:
        """Estimate the seconds per step that better estimates of speeds would save.  Collective."""
        gain = np.zeros(1)
        whole = self._whole()

        def preview() -> None:
            snapshot, here, _ = self._known(whole)
            gain[0] = self.decider.core.preview(snapshot, here, None)

        self.agreement.on_root(Step.PLACE, self.iteration, preview)
        self.agreement.transport.bcast(gain.view(np.uint8), 0)
        return float(gain[0])

    def rehearse(self) -> float:
        """Measure the seconds of an LB step without a strategy and without moves.  Collective."""
        start = _core.clock()

        def stay(placement: CentralPlacement, known: Any) -> None:
            placement.rank[:] = known[0].rank

        self._placed(stay)
        seconds = _core.clock() - start
        return self.agreement.step(Step.COMMIT, self.iteration, cost=seconds)[0].cost_max

    # ---- on rank 0 -----------------------------------------------------------------------------

    def _whole(self) -> list[tuple[Any, ...]]:
        """Return each rank's part of the load database on rank 0, [] elsewhere.  Collective."""
        cells = self.cells

        def mine() -> dict[int, tuple[Any, ...]]:
            cells.sent = cells.sent._replace(edges=edges_of(cells.now.edges))
            return {0: (cells.facts(), cells.edges(), self.loads, cells.coords, own)}

        own = self.facts.own(self.iteration)
        came = exchange_objects(self.agreement, Step.GATHER, self.iteration, mine).values
        return [came[rank] for rank in sorted(came)]

    def _known(self, whole: list[tuple[Any, ...]]) -> tuple[Snapshot, F64 | None, Database]:
        """Join the parts of all ranks in order of keys.

        Returns the snapshot, the seconds of each cell on its present rank (None: not measured), and
        the load database.
        """
        facts, edges, loads, coords, own = zip(*whole, strict=True)
        db = database(list(facts), list(edges), [1] * len(whole))
        rank = np.repeat(np.arange(len(whole), dtype=np.int32), [len(part) for part in facts])
        rank = rank[db.order]
        _check(db, rank, edges)
        load = np.concatenate(loads)[db.order]
        places = None if coords[0] is None else np.concatenate(coords)[db.order]
        snapshot = snapshot_of(db, load, rank, len(whole), places, of_ranks(list(own)))
        return snapshot, load if self.measured else None, db

    def _placed(self, fill: Any) -> PlacedCells:
        """Fill a placement on rank 0, and send each rank its part.  Collective."""
        whole = self._whole()

        def parts() -> dict[int, PlacedCells]:
            if not whole:
                return {}
            snapshot, here, db = self._known(whole)
            placement = CentralPlacement.empty(len(whole), snapshot.n_objects)
            fill(placement, (snapshot, here, None, None))
            return _parts(placement, snapshot, db, [len(part[0]) for part in whole])

        came = exchange_objects(self.agreement, Step.PLACE, self.iteration, parts).values
        return came[0]  # type: ignore[no-any-return]


def _check(db: Database, rank: I32, edges: tuple[I64, ...]) -> None:
    twice = np.flatnonzero(db.key[1:] == db.key[:-1])
    if len(twice):
        i = twice[0]
        first, second = sorted(rank[i : i + 2].tolist())
        where = f"twice on rank {first}" if first == second else f"on ranks {first} and {second}"
        raise DuplicateKeyError(f"key {db.key[i]} is there {where}: expected each key once")
    if len(db.src) < sum(map(len, edges)):
        ends = np.concatenate(edges)[:, :2].ravel()
        key = ends[~np.isin(ends, db.key)][0]
        raise UnknownKeyError(f"edges: no rank has a cell {key}")


def _parts(
    placement: CentralPlacement, snapshot: Snapshot, db: Database, counts: list[int]
) -> dict[int, PlacedCells]:
    """Cut the placement into a part for each rank; counts: number of cells of each rank."""
    new, old = placement.rank, snapshot.rank
    moves = np.flatnonzero(new != old)
    nbytes = int(db.bytes[moves].sum())
    moves = moves[np.lexsort((db.key[moves], old[moves], new[moves]))]
    arrive = np.searchsorted(new[moves], np.arange(len(counts) + 1))
    of_all = np.empty_like(new)
    of_all[db.order] = new
    own = np.split(of_all, np.cumsum(counts)[:-1])
    out = {}
    for r in range(len(counts)):
        mine = moves[arrive[r] : arrive[r + 1]]
        out[r] = PlacedCells(
            placement.figures, placement.speed, len(moves), nbytes, own[r], db.key[mine], old[mine]
        )
    return out
