"""One balancing: gather the load database, place the objects anew, move them.

Every part ends with an agreement of all ranks, and the objects stay where they are until the last
one: whatever goes wrong before it is an error on all ranks, and nothing is lost.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.errors import SerializationError
from pylb.machine import Network, SpeedLearner
from pylb.metrics import Metrics
from pylb.runtime import parcel
from pylb.runtime.agreement import Agreement, Kind
from pylb.runtime.choosing import Chosen
from pylb.runtime.messages import Mailbox
from pylb.runtime.objects import HERE, Directory, Item, Store
from pylb.runtime.placing import Placed, placed
from pylb.runtime.rounds import place_in_rounds
from pylb.runtime.transport import Sends
from pylb.snapshot import F64, I32, Edges, Snapshot


class Outcome(NamedTuple):
    """What a balancing did, the same on all ranks; seconds on the rank where it took longest."""

    before: float
    predicted: float
    before_with_messages: float
    predicted_with_messages: float
    passed_over: float
    idle_mean: float
    idle_max: float
    predicted_idle_mean: float
    predicted_idle_max: float
    migrations: int
    bytes: int
    seconds_statistics: float
    seconds_strategy: float
    seconds_migration: float
    cost: float
    speed: tuple[float, ...] = ()


class Figures(NamedTuple):
    """What rank 0 tells of its placement."""

    before: float
    after: float
    before_with_messages: float
    after_with_messages: float
    passed_over: float
    idle_mean: float
    idle_max: float
    idle_mean_after: float
    idle_max_after: float
    statistics: float
    strategy: float


class Answer(NamedTuple):
    """Told by rank 0: figures, each rank's speed (zero where all are taken to be alike), each
    object's new rank; all in `data`.
    """

    data: NDArray[np.uint8]
    figures: F64
    speed: F64
    rank: I32

    @classmethod
    def empty(cls, n_ranks: int, n_objects: int) -> Answer:
        """Room for so many ranks and objects."""
        head = 8 * len(Figures._fields)
        tail = head + 8 * n_ranks
        data = np.zeros(tail + 4 * n_objects, np.uint8)
        return cls(
            data,
            data[:head].view(np.float64),
            data[head:tail].view(np.float64),
            data[tail:].view(np.int32),
        )

    def write(self, snapshot: Snapshot, made: Placed, gathered: float) -> None:
        """Rank 0 fills it in."""
        plan = made.plan
        ratios = plan.before.max_over_mean, plan.after.max_over_mean
        longest = made.before, made.after, made.passed_over
        self.figures[:] = Figures(
            *ratios, *longest, *idle(plan.before), *idle(plan.after), gathered, made.seconds
        )
        self.speed[:] = 0.0 if snapshot.speed is None else snapshot.speed
        self.rank[:] = plan.rank


class Arrived(NamedTuple):
    """An object that another rank has sent, with its inbox."""

    item: Item
    inbox: list[tuple[int, Any]]


@dataclass
class Balancing:
    """The parts of one balancing on one rank, in their order: `run`."""

    agreement: Agreement
    store: Store
    mailbox: Mailbox
    directory: Directory
    chosen: Chosen
    seed: int
    iteration: int
    network: Network | None = None
    learner: SpeedLearner | None = None

    def run(self) -> Outcome:
        """Balance.  Collective.

        Raises
        ------
        Exception
            Of the strategy, or of an object that cannot be pickled, on all ranks.
        """
        start = _core.clock()
        rank, figures, speed = self._placement()
        moving = _core.clock()
        nbytes = self._migrate(rank)
        end = _core.clock()
        stats, _ = self.agreement.step(
            Kind.COMMIT, self.iteration, message_bytes=nbytes, time=end - moving, cost=end - start
        )
        migrations = int(np.count_nonzero(rank != self.directory.rank))
        self.directory.move(rank)
        self.store.arrange()
        self.store.forget()
        self.mailbox.graph.clear()
        return Outcome(
            figures.before,
            figures.after,
            figures.before_with_messages,
            figures.after_with_messages,
            figures.passed_over,
            figures.idle_mean,
            figures.idle_max,
            figures.idle_mean_after,
            figures.idle_max_after,
            migrations,
            stats.message_bytes,
            figures.statistics,
            figures.strategy,
            stats.time_max,
            stats.cost_max,
            speed,
        )

    # ---- where to ----------------------------------------------------------------------------

    def _placement(self) -> tuple[I32, Figures, tuple[float, ...]]:
        """Where each object goes: rank 0 gathers and decides, or all do; the ranks' speeds."""
        return self._in_rounds() if self.chosen.strategy.distributed else self._gathered()

    def _in_rounds(self) -> tuple[I32, Figures, tuple[float, ...]]:
        """Each rank decides on its own objects."""
        start = _core.clock()
        facts = (self.store, self.mailbox, self.directory)
        strategy, params = self.chosen.strategy, self.chosen.params
        rank, before, after = place_in_rounds(
            self.agreement, self.iteration, strategy, params, self.seed, facts
        )
        seconds = self.agreement.step(Kind.PLACE, self.iteration, time=_core.clock() - start)
        # Not selected by "auto", so nobody asks for the messages' part.
        ratios = before.max_over_mean, after.max_over_mean
        idle = before[1:] + after[1:]
        longest = seconds[0].time_max
        return rank, Figures(*ratios, *ratios, math.nan, *idle, 0.0, longest), ()

    def _gathered(self) -> tuple[I32, Figures, tuple[float, ...]]:
        """Rank 0 gathers and decides, all learn it."""
        start = _core.clock()
        whole = self._whole()
        answer = Answer.empty(self.agreement.transport.size, len(self.directory.keys))

        def decide() -> None:
            snapshot = self._unlike(self._snapshot(whole), whole)
            gathered = max(_core.clock() - start, 0.0)  # it may have been set back
            made = placed(snapshot, self.chosen, self.seed, self.network)
            answer.write(snapshot, made, gathered)

        self._on_root(decide)
        self.agreement.transport.bcast(answer.data, 0)
        self._convert(answer.rank, answer.speed)
        speed = answer.speed.tolist()
        return (
            answer.rank,
            Figures(*answer.figures.tolist()),
            tuple(speed) if max(speed) > 0 else (),
        )

    def look(self) -> float:
        """Seconds an iteration that the strategy would save, knowing the speeds of the ranks as
        they have been since; 0 where they show no sign of being unlike.  Collective.
        """
        whole = self._whole()
        gain = np.zeros(1)

        def reckon() -> None:
            snapshot = self._unlike(self._snapshot(whole), whole)
            if snapshot.speed is not None:
                plan = placed(snapshot, self.chosen, self.seed, None).plan
                gain[0] = plan.before.max - plan.after.max

        self._on_root(reckon)
        self.agreement.transport.bcast(gain.view(np.uint8), 0)
        return float(gain[0])

    def _whole(self) -> list[tuple[Any, ...]]:
        """The load database: all parts of it on rank 0, nothing on the others."""
        mine = self._database()
        if self.agreement.transport.rank == 0:
            _, received = self.agreement.step(Kind.GATHER, self.iteration)
            return [mine, *(parcel.unpack(parts) for _, parts in received)]
        self.agreement.step(Kind.GATHER, self.iteration, sends=[(0, parcel.pack(mine))])
        return []

    def _on_root(self, action: Callable[[], None]) -> None:
        """Rank 0 does it; what it raises, all ranks raise."""
        error = None
        if self.agreement.transport.rank == 0:
            try:
                action()
            except Exception as why:
                error = why
        self.agreement.step(Kind.PLACE, self.iteration, error=error)

    def _unlike(self, snapshot: Snapshot, whole: list[tuple[Any, ...]]) -> Snapshot:
        """Work and speeds in place of seconds, where ranks have shown that they are not alike."""
        if self.learner is None:
            return snapshot
        assert snapshot.key is not None
        order = np.argsort(np.concatenate([part[0][:, 0] for part in whole]))
        seconds, work = (np.concatenate([part[i] for part in whole])[order] for i in (4, 5))
        speed = self.learner.observe(
            snapshot.key, snapshot.rank, seconds, work if work.any() else None
        )
        if speed is None or "speed" not in self.chosen.strategy.looks_at:
            return snapshot
        return replace(snapshot, load=snapshot.load * speed[snapshot.rank], speed=speed)

    def _convert(self, rank: I32, speed: F64) -> None:
        """What is known of the loads of leaving objects, as their new rank's seconds."""
        me = self.agreement.transport.rank
        leaving = np.flatnonzero((self.directory.rank == me) & (rank != me))
        factor = speed[rank[leaving]] / speed[me] if speed[me] > 0 else np.ones(len(leaving))
        self.store.leave(self.directory.keys[leaving], factor)

    def _database(self) -> tuple[Any, ...]:
        """This rank's part of the load database."""
        items = self.store.items.values()
        facts = np.array([item.facts() for item in items], np.int64).reshape(-1, 4)
        passes = max(self.store.passes, 1)
        known = self.store.estimates
        work = np.array([item.work for item in items])
        return facts, known[0], self.mailbox.edges(), passes, known[HERE], work

    def _snapshot(self, whole: list[tuple[Any, ...]]) -> Snapshot:
        """All parts, in order of key: the same on any number of ranks."""
        facts = np.concatenate([part[0] for part in whole])
        order = np.argsort(facts[:, 0])
        key, nbytes, memory, migratable = (np.ascontiguousarray(c) for c in facts[order].T)
        edges = np.concatenate([part[2] / [1, 1, part[3], part[3]] for part in whole])
        ends = np.concatenate([part[2][:, :2] for part in whole])
        by = np.lexsort((ends[:, 1], ends[:, 0]))
        return Snapshot(
            load=np.concatenate([part[1] for part in whole])[order],
            rank=self.directory.rank,
            n_ranks=self.agreement.transport.size,
            key=key,
            bytes=nbytes,
            memory=np.maximum(memory, 0) if np.any(memory >= 0) else None,
            migratable=migratable.astype(bool),
            edges=Edges(
                np.searchsorted(key, ends[by, 0]).astype(np.int32),
                np.searchsorted(key, ends[by, 1]).astype(np.int32),
                edges[by, 2],
                edges[by, 3],
            ),
        )

    # ---- the move ----------------------------------------------------------------------------

    def _migrate(self, rank: I32) -> int:
        """Send each leaving object once, straight to its new owner; bytes sent by this rank.

        The objects leave the store when all have arrived everywhere.
        """
        leaving = self._leaving(rank)
        sends: Sends = []
        error: Exception | None = None
        try:
            sends = [(to, self._pack(items)) for to, items in leaving.items()]
        except Exception as why:
            error = why
        self.agreement.step(Kind.PACK, self.iteration, error=error)
        _, received = self.agreement.step(Kind.MIGRATE, self.iteration, sends=sends)
        arrived: list[Arrived] = []
        try:
            arrived = [a for _, parts in received for a in _unpack(parts)]
        except Exception as why:
            error = why
        # A second look: an object may well be pickled and yet not be restored.
        self.agreement.step(Kind.PACK, self.iteration, error=error)
        for items in leaving.values():
            for item in items:
                del self.store.items[item.key]
                self.mailbox.inbox.pop(item.key, None)
        for item, inbox in arrived:
            self.store.items[item.key] = item
            if inbox:
                self.mailbox.inbox[item.key] = inbox
        return sum(parcel.size_of(parts) for _, parts in sends)

    def _leaving(self, rank: I32) -> dict[int, list[Item]]:
        """This rank's objects that go elsewhere, by their new rank."""
        me = self.agreement.transport.rank
        out: dict[int, list[Item]] = {}
        for i in np.flatnonzero((self.directory.rank == me) & (rank != me)).tolist():
            item = self.store.items[int(self.directory.keys[i])]
            out.setdefault(int(rank[i]), []).append(item)
        return out

    def _pack(self, items: list[Item]) -> parcel.Parts:
        """A parcel: what is known of each object and its number of parts, then all parts."""
        index: list[tuple[tuple[int, int, int, bool], float, tuple[float, ...], int]] = []
        parts: parcel.Parts = [b""]
        for item in items:
            try:
                mine = parcel.pack((item.value, self.mailbox.inbox.get(item.key, [])))
            except Exception as why:
                raise SerializationError(
                    f"object {item.key} ({type(item.value).__qualname__}) cannot be pickled: "
                    f"{type(why).__name__}: {why}; nothing has moved"
                ) from why
            index.append((item.facts(), item.work, self.store.past(item.key), len(mine)))
            parts += mine
        parts[0] = pickle.dumps(index, protocol=5)
        return parts


def idle(metrics: Metrics) -> tuple[float, float]:
    """Dasgupta 2013, eq. 1 and 2."""
    return metrics.idle_mean, metrics.idle_max


def _unpack(parts: parcel.Parts) -> list[Arrived]:
    out = []
    at = 1
    for (key, nbytes, memory, migratable), work, past, n in pickle.loads(parts[0]):
        mine = parts[at : at + n]
        at += n
        try:
            value, inbox = parcel.unpack(mine)
        except Exception as why:
            raise SerializationError(
                f"object {key} cannot be restored on its new rank: {type(why).__name__}: {why}; "
                "nothing has moved"
            ) from why
        size = nbytes or parcel.size_of(mine)
        out.append(Arrived(Item(key, value, size, memory, migratable, work, past), inbox))
    return out
