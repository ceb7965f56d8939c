"""One LB step: gather the load database, place the objects, move them.

After each part all ranks agree that it succeeded.  The objects stay where they are until the last
of these agreements: an error before it is raised on all ranks, and no object is lost.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Step
from pylb.comm.parcel import exchange_objects, gather_objects
from pylb.decide.decider import Decider
from pylb.errors import SerializationError
from pylb.model.snapshot import F64, I32, Snapshot
from pylb.place.registry import Strategy
from pylb.run.answer import Answer, snapshot_of
from pylb.run.local_objects import LocalObjects
from pylb.run.objects import HERE, Item, database
from pylb.run.rounds import place_in_rounds


class Arrived(NamedTuple):
    """An object that another rank has sent, with its inbox."""

    item: Item
    inbox: list[tuple[int, Any]]


@dataclass
class LBStep:
    """One LB step on one rank: `run`."""

    agreement: Agreement
    objects: LocalObjects
    decider: Decider
    iteration: int

    def run(self, reason: int = -1) -> F64:
        """Rebalance, and return the speeds of the ranks that the strategy used.  Collective.

        reason: number of the verdict that asked for the LB step; -1: the last one.

        Raises
        ------
        Exception
            Of the strategy, or of an object that cannot be pickled, on all ranks.
        """
        strategy = self.decider.choose(reason)
        start = _core.clock()
        answer = self._in_rounds(strategy) if strategy.distributed else self._gathered()
        self._convert(answer.rank, answer.speed)
        moving = _core.clock()
        nbytes = self._migrate(answer.rank)
        end = _core.clock()
        stats, _ = self.agreement.step(
            Step.COMMIT, self.iteration, message_bytes=nbytes, time=end - moving, cost=end - start
        )
        migrations = int(np.count_nonzero(answer.rank != self.objects.locations.rank))
        self.objects.locations.move(answer.rank)
        self.objects.store.arrange()
        self.objects.store.forget()
        self.objects.mailbox.graph.clear()
        core = self.decider.core
        core.placed(answer.figures, answer.speed)
        core.balanced(migrations, stats.message_bytes, stats.time_max, stats.cost_max, True)
        return answer.speed

    # ---- where to ----------------------------------------------------------------------------

    def _room(self) -> Answer:
        return Answer.empty(self.agreement.transport.size, len(self.objects.locations.keys))

    def _in_rounds(self, strategy: Strategy) -> Answer:
        """Place the objects by a distributed strategy: each rank places its own objects."""
        start = _core.clock()
        given = self.decider.settings
        rank, before, after = place_in_rounds(
            *(self.agreement, self.iteration, strategy),
            *(given.strategy_params, given.seed, self.objects),
        )
        stats, _ = self.agreement.step(Step.PLACE, self.iteration, time=_core.clock() - start)
        answer = self._room()
        # "auto" never selects these strategies, so the ratios with messages are not needed.
        ratios = [before.max_over_mean, after.max_over_mean] * 2
        idle = [*before[1:], *after[1:]]
        ahead = [0.0, *[math.nan] * 6]
        answer.figures[:] = [*ratios, math.nan, *idle, *ahead, 0.0, stats.time_max]
        answer.rank[:] = rank
        return answer

    def _gathered(self) -> Answer:
        """Place the objects on rank 0, and send the answer to all ranks."""
        start = _core.clock()
        whole = self._whole()
        answer = self._room()

        def place() -> None:
            answer.fill(self.decider, *self._snapshot(whole), start)

        self._on_root(place)
        self.agreement.transport.bcast(answer.data, 0)
        return answer

    def rehearse(self) -> float:
        """Measure the seconds of an LB step without a strategy and without moves.  Collective."""
        start = _core.clock()
        whole = self._whole()
        answer = self._room()
        self._on_root(lambda: self._snapshot(whole))
        self.agreement.transport.bcast(answer.data, 0)
        self._migrate(self.objects.locations.rank)
        seconds = _core.clock() - start
        stats, _ = self.agreement.step(Step.COMMIT, self.iteration, cost=seconds)
        return stats.cost_max

    def look(self) -> float:
        """Estimate the seconds per iteration that better estimates of the speeds would save.

        Collective.
        """
        whole = self._whole()
        gain = np.zeros(1)

        def look() -> None:
            gain[0] = self.decider.core.look(*self._snapshot(whole)[:3])

        self._on_root(look)
        self.agreement.transport.bcast(gain.view(np.uint8), 0)
        return float(gain[0])

    def _whole(self) -> list[tuple[Any, ...]]:
        """Gather the load database on rank 0; an empty list on the other ranks."""
        gathered = gather_objects(self.agreement, Step.GATHER, self.iteration, self._database())
        return list(gathered.values())

    def _on_root(self, action: Callable[[], Any]) -> None:
        self.agreement.on_root(Step.PLACE, self.iteration, action)

    def _convert(self, rank: I32, speed: F64) -> None:
        """Convert the estimates of leaving objects to seconds of their new ranks."""
        me = self.agreement.transport.rank
        leaving = np.flatnonzero((self.objects.locations.rank == me) & (rank != me))
        factor = speed[rank[leaving]] / speed[me] if speed[me] > 0 else np.ones(len(leaving))
        self.objects.store.leave(self.objects.locations.keys[leaving], factor)

    def _database(self) -> tuple[Any, ...]:
        """This rank's part of the load database."""
        store = self.objects.store
        passes, known = max(store.passes, 1), store.estimates
        work = np.array([item.work for item in store.items.values()])
        talk = self.objects.mailbox.edges()
        return store.facts(), known[0], talk, passes, known[HERE], work, store.drift()

    def _snapshot(self, whole: list[tuple[Any, ...]]) -> tuple[Snapshot, F64, F64 | None, F64]:
        """Join all parts in order of key, which gives the same on any number of ranks.

        Also returns the seconds of each object on its present rank, the user's estimates of work,
        and the change of each load per iteration.
        """
        db = database(*([part[i] for part in whole] for i in (0, 2, 3)))
        load, here, work, drift = (
            np.concatenate([part[i] for part in whole])[db.order] for i in (1, 4, 5, 6)
        )
        n_ranks = self.agreement.transport.size
        snapshot = snapshot_of(db, load, self.objects.locations.rank, n_ranks)
        return snapshot, here, work if work.any() else None, drift

    # ---- the move ----------------------------------------------------------------------------

    def _migrate(self, rank: I32) -> int:
        """Send each leaving object once, directly to its new rank; return the bytes sent.

        The objects are removed from the store after all of them have arrived.
        """
        leaving = self._leaving(rank)
        came = exchange_objects(
            *(self.agreement, Step.MIGRATE, self.iteration, leaving.copy),
            pack=self._pack,
            unpack=_unpack,
            packed=Step.PACK,
            restored=Step.PACK,
        )
        store, mailbox = self.objects.store, self.objects.mailbox
        for items in leaving.values():
            for item in items:
                del store.items[item.key]
                mailbox.inbox.pop(item.key, None)
        for arrived in came.values.values():
            for item, inbox in arrived:
                store.items[item.key] = item
                if inbox:
                    mailbox.inbox[item.key] = inbox
        return came.nbytes

    def _leaving(self, rank: I32) -> dict[int, list[Item]]:
        """The objects that leave this rank, by their new rank."""
        me = self.agreement.transport.rank
        out: dict[int, list[Item]] = {}
        for i in np.flatnonzero((self.objects.locations.rank == me) & (rank != me)).tolist():
            item = self.objects.store.items[int(self.objects.locations.keys[i])]
            out.setdefault(int(rank[i]), []).append(item)
        return out

    def _pack(self, items: list[Item]) -> parcel.Parts:
        """Pack objects: first a list of their properties and numbers of parts, then all parts."""
        index: list[tuple[tuple[int, ...], float, tuple[float, ...], int]] = []
        parts: parcel.Parts = [b""]
        for item in items:
            try:
                mine = parcel.pack((item.value, self.objects.mailbox.inbox.get(item.key, [])))
            except Exception as why:
                raise SerializationError(
                    f"object {item.key} ({type(item.value).__qualname__}) cannot be pickled: "
                    f"{type(why).__name__}: {why}; nothing has moved"
                ) from why
            index.append((item.facts(), item.work, self.objects.store.past(item.key), len(mine)))
            parts += mine
        parts[0] = pickle.dumps(index, protocol=5)
        return parts


def _unpack(parts: parcel.Parts) -> list[Arrived]:
    out = []
    at = 1
    for (key, nbytes, memory, migratable, home), work, past, n in pickle.loads(parts[0]):
        mine = parts[at : at + n]
        at += n
        try:
            value, inbox = parcel.unpack(mine)
        except Exception as why:
            raise SerializationError(
                f"object {key} cannot be restored on its new rank: {type(why).__name__}: {why}; "
                "nothing has moved"
            ) from why
        item = Item(key, value, nbytes, memory, bool(migratable), work, home, past)
        out.append(Arrived(item, inbox))
    return out
