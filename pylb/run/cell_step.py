"""The LB step of a program that owns its cells: rank 0 gets all cells and finds the new ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DuplicateKeyError, UnknownKeyError
from pylb.model.snapshot import F64, I32, I64
from pylb.run.cells import LocalCells, edges_of
from pylb.run.central_placement import CentralPlacement, CentralStep, Known, snapshot_of
from pylb.run.load_database import Database, database
from pylb.run.rank_facts import joined as of_ranks


class PlacedCells(NamedTuple):
    """The part of a placement that concerns one rank, with n cells; m cells come to the rank."""

    figures: F64  # metrics of the placement, from `_core.Decider.place`
    speed: F64  # (p,), speeds of the ranks
    migrations: int  # number of cells that move, over all ranks
    nbytes: int  # bytes of these migrations
    rank: I32  # (n,), new rank of each cell of this rank, in this rank's order
    keys: I64  # (m,), keys of the cells that come, sorted by their old rank
    source: I32  # (m,), old ranks of these cells


@dataclass
class CellStep(CentralStep[PlacedCells]):
    """One LB step on one rank, after a step of the program."""

    cells: LocalCells
    loads: F64  # (n,), expected seconds of this rank's cells
    measured: bool = True  # False: `loads` come from features, and cannot show ranks' speeds

    def place(self) -> PlacedCells:
        """Place all cells by the chosen strategy.  Collective."""
        return self._place_on_rank_0(_core.clock())

    # ---- on rank 0 -----------------------------------------------------------------------------

    def _part(self) -> tuple[Any, ...]:
        cells = self.cells
        cells.sent = cells.sent._replace(edges=edges_of(cells.now.edges))
        return cells.facts(), cells.edges(), self.loads, cells.coords

    def _join_parts(self, whole: list[tuple[Any, ...]]) -> tuple[Database, Known]:
        facts, edges, loads, coords, own = zip(*whole, strict=True)
        db = database(list(facts), list(edges), [1] * len(whole))
        rank = np.repeat(np.arange(len(whole), dtype=np.int32), [len(part) for part in facts])
        rank = rank[db.order]
        _check(db, rank, edges)
        load = np.concatenate(loads)[db.order]
        places = None if coords[0] is None else np.concatenate(coords)[db.order]
        snapshot = snapshot_of(db, load, rank, len(whole), places, of_ranks(list(own)))
        return db, Known(snapshot, load if self.measured else None)

    def _parts(
        self, placement: CentralPlacement, known: Known, db: Database, own: list[I32]
    ) -> dict[int, PlacedCells]:
        new, old = placement.rank, known.snapshot.rank
        moves = np.flatnonzero(new != old)
        nbytes = int(db.bytes[moves].sum())
        moves = moves[np.lexsort((db.key[moves], old[moves], new[moves]))]
        arrive = np.searchsorted(new[moves], np.arange(len(own) + 1))
        figures, speed = placement.figures, placement.speed
        out = {}
        for r, rank in enumerate(own):
            mine = moves[arrive[r] : arrive[r + 1]]
            came = db.key[mine], old[mine]
            out[r] = PlacedCells(figures, speed, len(moves), nbytes, rank, *came)
        return out


def _check(db: Database, rank: I32, edges: tuple[I64, ...]) -> None:
    twice = np.flatnonzero(db.key[1:] == db.key[:-1])
    if len(twice):
        i = twice[0]
        first, second = sorted(rank[i : i + 2].tolist())
        where = f"twice on rank {first}" if first == second else f"on ranks {first} and {second}"
        raise DuplicateKeyError(f"key {db.key[i]} is given {where}: expected each key once")
    if len(db.src) < sum(map(len, edges)):
        ends = np.concatenate(edges)[:, :2].ravel()
        key = ends[~np.isin(ends, db.key)][0]
        raise UnknownKeyError(f"edges: no rank has a cell {key}")
