"""One LB step: gather the load database, place the objects, move them."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.comm.agreement import Step
from pylb.comm.parcel import gather_objects
from pylb.decide.decider import FIGURES
from pylb.errors import DomainError
from pylb.model.snapshot import F64, I32
from pylb.place.registry import Strategy
from pylb.run.central_placement import CentralPlacement, CentralStep, Known, snapshot_of
from pylb.run.load_database import Database, joined
from pylb.run.local_objects import LocalObjects
from pylb.run.object_migration import migrate
from pylb.run.object_store import HERE, LeavingObjects, Properties
from pylb.run.partners import PartnerSpeeds, Speeds, exchange_speeds
from pylb.run.rank_facts import joined as of_ranks
from pylb.run.rounds import PlacedInRounds, place_in_rounds

log = logging.getLogger("pylb")
FULL = FIGURES.index("memory_full")


class Placed(NamedTuple):
    """The part of a placement that concerns one rank."""

    figures: F64  # metrics of the placement, in the order of `FIGURES`
    speed: Speeds
    moves: LeavingObjects

    @property
    def speed_of_all(self) -> F64 | None:
        """The speeds of all ranks, if this rank knows them."""
        return None if isinstance(self.speed, PartnerSpeeds) else self.speed


@dataclass
class LBStep(CentralStep[Placed]):
    """One LB step on one rank; `run` does it."""

    objects: LocalObjects

    def run(self, reason: int = -1) -> Speeds:
        """Rebalance, and return the ranks' speeds; None: all count as equal.  Collective.

        reason: number of the trigger's reason for the LB step, see `Decider.choose`.  If the
        strategy fails, or an object cannot be pickled, all ranks raise an error.
        """
        strategy = self.decider.choose(reason, self.objects.n_objects)
        start = _core.clock()
        placed = self._in_rounds(strategy) if strategy.distributed else self._place_on_rank_0(start)
        self._say_memory(placed.figures)
        core = self.decider.core
        core.placed(placed.figures, placed.speed_of_all)
        moving = _core.clock()
        objects, moves = self.objects, self.objects.kept(placed.moves)
        keys, needed = objects.store.keys[moves.places], objects.correspondents(moves)
        nbytes = migrate(self.agreement, self.iteration, objects, moves, placed.speed)
        moved = objects.addresses.move(self.iteration, keys, moves.to, *needed)
        end = _core.clock()
        stats, _ = self.agreement.step(
            *(Step.COMMIT, self.iteration),
            message_bytes=nbytes,
            time=end - moving,
            cost=end - start,
        )
        objects.store.forget()
        objects.mailbox.mail.clear()
        core.balanced(moved, stats.message_bytes, stats.time_max, stats.cost_max, True)
        return placed.speed

    # ---- placement ---------------------------------------------------------------------------

    def _in_rounds(self, strategy: Strategy) -> Placed:
        """Place the objects by a distributed strategy: each rank places its own objects."""
        start = _core.clock()
        given, own = self.decider.settings, self.facts.own(self.iteration + 1)
        me, speed, learned = self.agreement.transport.rank, own.get("speed"), None
        if speed is None:
            learned = self._learn()
        mine = float(learned[me] if learned is not None else speed or 1.0)
        found = place_in_rounds(
            *(self.agreement, self.iteration, strategy),
            *(given.params_of(strategy), given.seed, self.objects),
            own=own,
            near=self.facts.near(self.iteration, strategy),
            speed=mine,
        )
        stats, _ = self.agreement.step(Step.PLACE, self.iteration, time=_core.clock() - start)
        moves = _moves_of(me, found.rank)
        speeds: Speeds = learned
        if speed is not None:
            speeds = exchange_speeds(self.agreement, self.iteration, speed, moves.to)
        return Placed(_figures(found, stats.time_max), speeds, moves)

    def _learn(self) -> F64 | None:
        """Return the speed of each rank, (p,); None: all count as equal.  Collective.

        Rank 0 learns from about 32 objects of each rank, always the same ones; with more than
        8,192 ranks, from fewer objects of each rank (about 262,144 objects in all).
        """
        if not self.decider.settings.learns:
            return None
        objects, store, transport = self.objects, self.objects.store, self.agreement.transport
        at = _core.sampled(store.keys, objects.n_objects, transport.size)
        mine = store.keys[at], store.estimates[HERE][at], store.properties["work"][at]
        came = gather_objects(self.agreement, Step.GATHER, self.iteration, mine)
        speed = np.zeros(transport.size)

        def observe() -> None:
            keys, here, work = (np.concatenate(part) for part in zip(*came.values(), strict=True))
            rank = np.repeat(
                np.arange(len(came), dtype=np.int32), [len(x[0]) for x in came.values()]
            )
            order = np.argsort(keys)
            given = work[order] if work.any() else None
            self.decider.core.learn(keys[order], rank[order], here[order], given, speed)

        self.agreement.on_root(Step.PLACE, self.iteration, observe)
        unlike = np.array([speed[0] > 0], np.uint8)
        transport.bcast(unlike, 0)
        if not unlike[0]:
            return None
        transport.bcast(speed.view(np.uint8), 0)
        return speed

    def _say_memory(self, figures: F64) -> None:
        """Log once, on rank 0, that a rank holds more than its memory limit."""
        full = float(figures[FULL])
        if self.facts.is_news(full) and self.agreement.transport.rank == 0:
            log.warning(
                "pylb: after iteration %d: no placement keeps memory_limit; a rank holds %.0f %% "
                "of its limit, and gets no more bytes than it holds",
                *(self.iteration, 100 * full),
            )

    def _parts(
        self, placement: CentralPlacement, known: Known, db: Database, own: list[I32]
    ) -> dict[int, Placed]:
        speed = placement.speed if placement.speed[0] > 0 else None
        return {
            r: Placed(placement.figures, speed, _moves_of(r, rank)) for r, rank in enumerate(own)
        }

    def _stay(self, part: Placed) -> None:
        migrate(self.agreement, self.iteration, self.objects, part.moves, part.speed)

    def _part(self) -> tuple[Any, ...]:
        objects, store, given = self.objects, self.objects.store, self.decider.settings
        known = store.estimates
        learned = known[HERE] if given.learns else None
        drift = store.drift() if given.selects else None
        return (
            *(store.keys, store.properties.of_database(), known[0], learned),
            *(objects.edges(), objects.passes, drift),
        )

    def _join_parts(self, whole: list[tuple[Any, ...]]) -> tuple[Database, Known]:
        keys, given, loads, here, edges, passes, drift, own = map(list, zip(*whole, strict=True))
        counts = [len(part) for part in keys]
        every = Properties.join([Properties(n, g) for n, g in zip(counts, given, strict=True)])
        columns = [np.concatenate(keys), every["nbytes"], every.given.get("memory")]
        db = joined([*columns, every["migratable"], None], edges, passes)
        rank = np.repeat(np.arange(len(whole), dtype=np.int32), counts)[db.order]
        facts = of_ranks(own)
        coords = _positions(every, db)
        snapshot = snapshot_of(db, np.concatenate(loads)[db.order], rank, len(whole), coords, facts)
        learned, drifts = (
            None if x[0] is None else np.concatenate(x)[db.order] for x in (here, drift)
        )
        if drifts is not None and snapshot.speed is not None:
            drifts = drifts * snapshot.speed[rank]
        work = every["work"][db.order] if "work" in every.given else None
        return db, Known(snapshot, learned, work, drifts)


def _positions(every: Properties, db: Database) -> F64 | None:
    """Return the positions of all objects, sorted by key; None: no object has one."""
    if "coords" not in every.given:
        return None
    out: F64 = every["coords"][db.order]
    missing = np.flatnonzero(np.isnan(out[:, 0]))
    if len(missing):
        raise DomainError(
            f"object {db.key[missing[0]]} has no coords: expected coords= in add() for all objects "
            "or for none"
        )
    return out


def _figures(found: PlacedInRounds, seconds: float) -> F64:
    """Return the metrics of a placement by a distributed strategy, in the order of `FIGURES`."""
    before, after = found.before, found.after
    known = {
        "before": before.max_over_mean,
        "predicted": after.max_over_mean,
        # Without messages, in spite of the names: no rank knows the messages of all objects.
        "before_with_messages": before.max_over_mean,
        "predicted_with_messages": after.max_over_mean,
        "idle_mean": before.idle_mean,
        "idle_max": before.idle_max,
        "predicted_idle_mean": after.idle_mean,
        "predicted_idle_max": after.idle_max,
        "memory_full": found.memory_full,
        "ahead": 0.0,
        "seconds_statistics": 0.0,
        "seconds_strategy": seconds,
    }
    return np.array([known.get(name, math.nan) for name in FIGURES])


def _moves_of(r: int, rank: I32) -> LeavingObjects:
    """Return which objects leave rank r; `rank` has the new rank of each object of rank r."""
    places = np.flatnonzero(rank != r)
    return LeavingObjects(places, rank[places])
