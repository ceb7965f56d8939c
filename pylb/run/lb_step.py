"""One LB step: gather the load database, place the objects, move them."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm import parcel
from pylb.comm.addresses import rows_to
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.parcel import exchange_objects, gather_objects
from pylb.comm.transport import Memory, Sends
from pylb.decide.decider import FIGURES, Decider
from pylb.errors import (
    DomainError,
    DuplicateKeyError,
    SerializationError,
    StateError,
    UnknownKeyError,
)
from pylb.model.objects import NO_KEYS, Database, Objects, blocks, database
from pylb.model.snapshot import F64, I32, I64, Snapshot
from pylb.placing.registry import Strategy
from pylb.run.cells import LocalCells
from pylb.run.local_objects import (
    HERE,
    Arrival,
    Items,
    LeavingObjects,
    LocalObjects,
    converted,
)
from pylb.run.options import Own, RankFacts, facts_of_all

log = logging.getLogger("pylb")
FULL, STATISTICS = FIGURES.index("memory_full"), FIGURES.index("seconds_statistics")
NOTE = np.dtype([("peer", np.int32), ("rest", "V36")])  # a plb_note_t (csrc/place/strategy.h)


Speeds = F64 | None  # speeds of ranks, nan if not known; None: all are equally fast


def exchange_speeds(agreement: Agreement, iteration: int, own: float, to: I32) -> F64:
    """Exchange `own`, the speed of this rank, with the ranks `to` and from which objects move."""
    speed = np.full(agreement.transport.size, math.nan)
    speed[agreement.transport.rank] = own
    told = dict.fromkeys(np.unique(to).tolist(), own)
    for _ in ("tell", "answer"):
        came = exchange_objects(agreement, Step.PLACE, iteration, told.copy)
        speed[list(came)] = list(came.values())
        told = dict.fromkeys(came, own)
    return speed


class Part(NamedTuple):
    """One rank's part of the load database."""

    objects: Objects  # with the columns "load", perhaps "here" (to learn speeds) and "drift"
    edges: I64
    passes: int
    facts: Own  # properties of the rank


class Placed(NamedTuple):
    """The part of a placement that concerns one rank."""

    figures: F64  # metrics of the placement, in the order of `FIGURES`
    speed: Speeds
    moves: LeavingObjects
    exchanged: bool = False  # whether `speed` has only the ranks with which objects are exchanged
    # Only for an `Advisor`: number and bytes of the cells that move, over all ranks.
    migrations: int = 0
    nbytes: int = 0
    # Only for an `Advisor`: the m cells that come to this rank, sorted by their old rank.
    keys: I64 = NO_KEYS
    source: I32 = NO_KEYS.astype(np.int32)  # (m,), their old ranks
    homes: I32 = NO_KEYS.astype(np.int32)  # (m,), the ranks on which they began; -1: not known


@dataclass
class LBStep:
    """One LB step on one rank, of the objects of a Balancer or the cells of an Advisor."""

    agreement: Agreement
    decider: Decider
    iteration: int
    facts: RankFacts
    objects: LocalObjects | LocalCells
    overlap: bool | str  # whether objects move while the program goes on; "auto": see MUCH

    def run(self, reason: int = -1) -> Speeds:
        """Rebalance, and return the ranks' speeds (None: all count as equal).  Collective.

        `reason` is the id of the trigger's reason, see `Decider.choose`.  If an LB step fails, all
        ranks raise an error.
        """
        objects = self.objects
        assert isinstance(objects, LocalObjects)
        strategy = self.decider.choose(reason, objects.n_objects)
        start = _core.clock()
        placed = self._in_rounds(strategy, objects) if strategy.distributed else self.place(start)
        full = float(placed.figures[FULL])
        if full > 1.0 and not self.facts.exceeded and self.agreement.transport.rank == 0:
            log.warning(
                "pylb: after iteration %d: no placement respects memory limits; a rank or node "
                "uses %.0f %% of its limit, and gets no more bytes than it already has",
                *(self.iteration, 100 * full),
            )
        self.facts.exceeded |= full > 1.0
        core = self.decider.core
        core.placed(placed.figures, None if placed.exchanged else placed.speed)
        if not core.goes_on:  # otherwise `was` remains: the ranks before the first slice
            objects.table.columns.pop("was", None)
        moving = _core.clock()
        moves = objects.kept(placed.moves)
        at = self.agreement, self.iteration
        nbytes, news = migrate(*at, objects, moves, placed.speed, self.overlap)
        moved = objects.addresses.move(self.iteration, *news)
        end = _core.clock()
        of_all = self.agreement.reduce(
            *(Step.COMMIT, self.iteration),
            {
                "bytes": ("sum", nbytes),
                "moving": ("max", end - moving),
                "all": ("max", end - start),
            },
        )
        objects.forget()
        objects.mail.clear()
        core.balanced(moved, of_all["bytes"], of_all["moving"], of_all["all"], True)
        return placed.speed

    # ---- placement by rank 0 -------------------------------------------------------------------

    def place(self, start: float | None) -> Placed:
        """Run the strategy on rank 0, and return this rank's part.  Collective.

        `start` is the time at which the LB step began, by `_core.clock`.  None: call no strategy,
        and move nothing.
        """
        whole = self._gather_parts()

        def parts() -> dict[int, Placed]:
            if not whole:
                return {}
            db, snapshot = self._snapshot(whole)
            # metrics of the placement; speeds of the ranks, zeros if all are equal; new ranks
            figures, speed = np.zeros(_core.PLACING), np.zeros(len(whole))
            new = snapshot.rank.copy()
            if start is not None:
                gathered = max(_core.clock() - start, 0.0)  # the clock may have been set back
                drift = db.objects.columns.get("drift")
                if drift is not None and snapshot.speed is not None:
                    drift = drift * snapshot.speed[snapshot.rank]
                learned = _learned(db.objects)
                if snapshot.near is not None:
                    self.decider.settings.load(distances=True)
                self.decider.core.place(snapshot, *learned, figures, speed, new, drift)
                figures[STATISTICS] = gathered
            return self._parts(whole, db, figures, speed if speed[0] > 0 else None, new)

        placed = exchange_objects(self.agreement, Step.PLACE, self.iteration, parts)[0]
        return placed  # type: ignore[no-any-return]

    def begin(self) -> None:
        """Let rank 0 call the strategy in a thread, for a later LB step.  Collective."""
        self._ask(self.decider.core.begin)

    def _ask(self, question: Callable[..., Any]) -> list[Any]:
        """Ask the decider on rank 0 about a snapshot; return the answer there.  Collective."""
        whole = self._gather_parts()
        out: list[Any] = []

        def ask() -> None:
            db, snapshot = self._snapshot(whole)
            out.append(question(snapshot, *_learned(db.objects)))

        self.agreement.on_root(Step.PLACE, self.iteration, ask)
        return out

    def rehearse(self) -> float:
        """Measure the seconds of an LB step without a strategy and without moves.  Collective."""
        start = _core.clock()
        placed = self.place(None)
        if isinstance(self.objects, LocalObjects):
            migrate(self.agreement, self.iteration, self.objects, placed.moves, placed.speed)
        return self._most(_core.clock() - start)

    def preview(self) -> float:
        """Estimate the seconds per iteration that a new placement would save.  Collective."""
        gain = np.array(self._ask(self.decider.core.preview) or [0.0])
        self.agreement.transport.bcast(gain.view(np.uint8), 0)
        return float(gain[0])

    def _gather_parts(self) -> list[Part]:
        """Return each rank's part of the load database on rank 0, [] elsewhere.  Collective."""
        own = self.facts.own(self.iteration + 1)
        came = exchange_objects(
            *(self.agreement, Step.GATHER, self.iteration),
            lambda: {0: Part(*self.objects.part(self.decider.settings), own)},
        )
        return [came[rank] for rank in sorted(came)]

    def _snapshot(self, whole: list[Part]) -> tuple[Database, Snapshot]:
        """Return the load database, and a snapshot of it."""
        parts, sent, passes, of_ranks = map(list, zip(*whole, strict=True))
        db, facts = database(parts, sent, passes), facts_of_all(of_ranks)
        if isinstance(self.objects, LocalCells):
            _check_cells(db, sent)
        objects = db.objects
        load, rank, nbytes = objects["load"], objects["rank"], objects["nbytes"]
        speed, memory = facts.get("speed"), objects.columns.get("memory")
        if {"memory_limit", "node_memory_limit"} & facts.keys():
            memory = objects.occupied
        elif memory is not None:
            memory = np.maximum(memory, 0) if np.any(memory >= 0) else None
        coords = objects.columns.get("coords")
        if coords is not None and (absent := np.isnan(coords[:, 0])).any():
            key = objects.key[absent.argmax()]
            raise DomainError(f"object {key} has no coords: expected them for all objects or none")
        edges, multicasts = db.rows.split()
        snapshot = Snapshot(
            load=load if speed is None else (load.T * speed[rank]).T,
            rank=rank,
            n_ranks=len(whole),
            key=objects.key,
            nbytes=nbytes,
            memory=memory,
            migratable=objects["migratable"],
            edges=edges,
            multicasts=multicasts,
            coords=coords,
            **blocks(objects.columns.get("shared"), objects.key),
            **{**self.facts.links, **facts},
        )
        return db, snapshot

    def _parts(
        self, whole: list[Part], db: Database, figures: F64, speed: F64 | None, new: I32
    ) -> dict[int, Placed]:
        """Return, by rank, the part of the placement that is sent to that rank."""
        back = np.empty_like(new)
        back[db.order] = new
        ends = np.cumsum([len(part.objects) for part in whole])[:-1]
        moves = [_moves_of(r, rank) for r, rank in enumerate(np.split(back, ends))]
        if isinstance(self.objects, LocalObjects):
            return {r: Placed(figures, speed, out) for r, out in enumerate(moves)}
        objects, old, home = db.objects, db.objects["rank"], db.objects["home"]
        moving = np.flatnonzero(new != old)
        nbytes = int(objects["nbytes"][moving].sum())
        moving = moving[np.lexsort((objects.key[moving], old[moving], new[moving]))]
        arrive = np.searchsorted(new[moving], np.arange(len(whole) + 1))
        come = [moving[i:j] for i, j in itertools.pairwise(arrive)]
        return {
            r: Placed(
                *(figures, speed, out, False, len(moving), nbytes),
                *(objects.key[at], old[at], home[at]),
            )
            for r, (out, at) in enumerate(zip(moves, come, strict=True))
        }

    # ---- placement in rounds -------------------------------------------------------------------

    def _in_rounds(self, strategy: Strategy, objects: LocalObjects) -> Placed:
        """Place the objects by a distributed strategy: each rank places its own objects.

        An agent knows only its own objects, the messages of other agents, and the tally of all
        ranks.  If an agent fails, all ranks raise an error (see `Agreement.step`).
        """
        start = _core.clock()
        own = self.facts.own(self.iteration + 1)
        if (limit := own.get("node_memory_limit")) is not None:
            n_near = len(self.facts.neighbours(self.iteration)) or self.agreement.transport.size
            part = int(limit) // n_near
            own = {**own, "memory_limit": min(part, own.get("memory_limit", part))}
        me, speed, learned = self.agreement.transport.rank, own.get("speed"), None
        if speed is None:
            learned = self._learn(objects)
        own_speed = float(learned[me] if learned is not None else speed or 1.0)
        near = NO_KEYS.astype(np.int32)  # all ranks, or the strategy ignores nodes
        if "nodes" in strategy.looks_at:
            near = self.facts.neighbours(self.iteration)
        agent = self._agent(lambda: self._new_agent(strategy, objects, own, near, own_speed))
        before, after = (self._times(seconds) for seconds in agent.times)
        limit, full = own.get("memory_limit"), math.nan
        if limit is not None:
            full = self._most(agent.memory / max(limit, 1))
        seconds = self._most(_core.clock() - start)
        moves = _moves_of(me, agent.rank)
        if speed is not None:
            learned = exchange_speeds(self.agreement, self.iteration, speed, moves.to)
        known = {
            # Without messages in spite of the name: no rank knows the messages of all objects.
            **dict.fromkeys(("before", "before_with_messages"), before[0]),
            **dict.fromkeys(("predicted", "predicted_with_messages"), after[0]),
            **dict(zip(("idle_mean", "idle_max"), before[1:], strict=True)),
            **dict(zip(("predicted_idle_mean", "predicted_idle_max"), after[1:], strict=True)),
            "memory_full": full,
            "ahead": 0.0,
            "seconds_statistics": 0.0,
            "seconds_strategy": seconds,
        }
        figures = np.array([known.get(name, math.nan) for name in FIGURES])
        return Placed(figures, learned, moves, exchanged=speed is not None)

    def _agent(self, make: Callable[[], _core.Agent]) -> _core.Agent:
        """Let the agent of this rank (see `_new_agent`) run its rounds.  Collective."""
        agent: _core.Agent | None = None
        received: Sends = []
        tally: tuple[Any, ...] = (0.0, 0.0, 0.0, 0.0, 0, 0)  # plb_tally_t, of all ranks
        while True:
            sends: Sends = []
            own_tally = tally
            with Attempt() as tried:
                agent = agent or make()
                written, own_tally = agent.round(received_notes(received), tally)
                sends = notes_to_send(written)
            if tried.error is None and agent is not None and agent.done:
                return agent
            summed = zip(("sum", "sum", "max", "max", "sum", "sum"), own_tally, strict=True)
            out, received = self.agreement.reduce_and_exchange(
                *(Step.PLACE, self.iteration, dict(enumerate(summed))),
                sends=sends,
                error=tried.error,
            )
            tally = tuple(out.values())

    def _new_agent(
        self, strategy: Strategy, objects: LocalObjects, own: Own, near: I32, speed: float
    ) -> _core.Agent:
        """Make the agent of this rank, with its properties, its speed, and the ranks `near` it."""
        transport, settings = self.agreement.transport, self.decider.settings
        limit = own.get("memory_limit")
        columns, edges = objects.table, objects.edges()
        here = objects.places.places(edges[:, 1])
        rank = np.full(len(edges), transport.rank, np.int32)
        rank[here < 0] = objects.addresses.find(edges[here < 0, 1])
        cast = edges[:, 4] > 0  # a multicast counts as an edge to each receiver
        order = np.lexsort((np.where(cast, 0, edges[:, 1]), edges[:, 0], cast))
        order = order[rank[order] >= 0]  # without receivers that have been removed meanwhile
        edges, rank = edges[order], rank[order]
        return _core.Agent(
            strategy=strategy.name,
            params=strategy.numbers,
            seed=settings.seed,
            rank=transport.rank,
            n_ranks=transport.size,
            neighbours=near,
            speed=speed,
            background=own.get("background", 0.0),
            memory_limit=-1 if limit is None else int(limit),
            lenient=True,
            id=objects.keys,
            load=objects.estimates[0] * speed,
            memory=None if limit is None else columns.occupied,
            migratable=columns["migratable"],
            edge_object=objects.places.places(edges[:, 0]),
            edge_peer_id=edges[:, 1],
            edge_peer_rank=rank,
            edge_bytes=edges[:, 2] / max(objects.passes, 1),
        )

    def _most(self, value: float) -> float:
        """Return the largest `value` of all ranks.  Collective."""
        return float(self.agreement.reduce(Step.PLACE, self.iteration, {"": ("max", value)})[""])

    def _times(self, seconds: float) -> tuple[float, float, float]:
        """Return max/mean, and the mean and longest idle time, if each rank takes its `seconds`."""
        times = self.agreement.reduce(
            *(Step.PLACE, self.iteration),
            {name: (name, seconds) for name in ("max", "min", "sum")},
        )
        mean = times["sum"] / self.agreement.transport.size
        ratio = times["max"] / mean if mean > 0 else 1.0
        return ratio, times["max"] - mean, times["max"] - times["min"]

    def _learn(self, objects: LocalObjects) -> F64 | None:
        """Return the speed of each rank, (p,); None: all count as equal.  Collective.

        Rank 0 learns from about 32 objects of each rank, always the same ones; with more than
        8,192 ranks, from fewer objects of each rank (about 262,144 objects in all).
        """
        if not self.decider.settings.learns:
            return None
        transport = self.agreement.transport
        at = _core.sampled(objects.keys, objects.n_objects, transport.size)
        columns = {"here": objects.estimates[HERE][at], "work": objects.table["work"][at]}
        own = Objects(objects.keys[at], columns)
        came = gather_objects(self.agreement, Step.GATHER, self.iteration, own)
        speed = np.zeros(transport.size)

        def observe() -> None:
            every = database(list(came.values()), [objects.edges()[:0]], [1]).objects
            here, work = every["here"], every["work"] if every["work"].any() else None
            self.decider.core.learn(every.key, every["rank"], here, work, speed)

        self.agreement.on_root(Step.PLACE, self.iteration, observe)
        transport.bcast(speed.view(np.uint8), 0)
        return speed if speed[0] > 0 else None


def _learned(objects: Objects) -> tuple[F64 | None, F64 | None]:
    """Return the columns from which the decider learns speeds."""
    return objects.columns.get("here"), objects.columns.get("work")


def received_notes(received: Sends) -> NDArray[np.void]:
    """Join the notes of agents on other ranks; each note gets the rank of its sender."""
    received = sorted(received, key=itemgetter(0))
    notes = [np.frombuffer(note, NOTE) for _, (note,) in received]
    out = np.concatenate([np.empty(0, NOTE), *notes])
    out["peer"] = np.repeat([rank for rank, _ in received], [len(of_rank) for of_rank in notes])
    return out


def notes_to_send(written: bytes) -> Sends:
    """Group the notes of an agent by the rank to which they go."""
    notes = np.frombuffer(written, NOTE)
    notes = notes[np.argsort(notes["peer"], kind="stable")]
    ranks, start = np.unique(notes["peer"], return_index=True)
    pieces = zip(ranks.tolist(), np.split(notes, start[1:]), strict=False)
    return [(rank, [note.tobytes()]) for rank, note in pieces]


def _moves_of(r: int, rank: I32) -> LeavingObjects:
    """Return which objects leave rank r; `rank` has the new rank of each object of rank r."""
    places = np.flatnonzero(rank != r)
    return LeavingObjects(places, rank[places])


def _check_cells(db: Database, edges: Sequence[I64]) -> None:
    """Raise an error if a key is given twice, or an edge has an end that does not exist."""
    key, rank = db.objects.key, db.objects["rank"]
    twice = np.flatnonzero(key[1:] == key[:-1])
    if len(twice):
        i = twice[0]
        first, second = sorted(rank[i : i + 2].tolist())
        where = f"twice on rank {first}" if first == second else f"on ranks {first} and {second}"
        raise DuplicateKeyError(f"key {key[i]} is given {where}: expected each key once")
    if len(db.rows.src) < sum(map(len, edges)):
        ends = np.concatenate(edges)[:, :2].ravel()
        unknown = ends[~np.isin(ends, key)][0]
        raise UnknownKeyError(f"edges: no rank has a cell {unknown}")


# Objects arrive late if one rank sends another at least MUCH bytes, and MUCH_EACH per object that
# it has.  For fewer bytes it does not pay: the next loop becomes slower by 0.5 us per object.  Less
# than MUCH is sent with the objects' properties, without asking first whether there is memory.
MUCH, MUCH_EACH = 1 << 20, 1 << 12

# ---- migration -----------------------------------------------------------------------------------

# All ranks agree that packing and restoring have succeeded; if large objects move, also that all
# have memory for them.  Until then, the objects stay where they are.  A failure is an error on all
# ranks, and no object is lost.


def migrate(
    agreement: Agreement,
    iteration: int,
    objects: LocalObjects,
    moves: LeavingObjects,
    speed: Speeds,
    overlap: bool | str = False,
) -> tuple[int, tuple[I64, I32, I64, I32, I64]]:
    """Send each leaving object directly to its new rank.  Collective.

    If one rank fails, all ranks raise its error, and nothing has moved.  An object that cannot be
    pickled stays, and the others move.

    With `overlap`, the objects may arrive after this call, while the program goes on; "auto": only
    if they are large, see `MUCH`.  Returns the bytes sent, and arguments of `Addresses.move`.
    """
    sends: Sends = []
    large: tuple[Sends, Sends] = [], []
    nbytes = 0
    with Attempt() as packed:
        try:
            sends, large, nbytes = _packed(objects, moves, speed, overlap)
        except SerializationError:
            objects.pin(moves.places)
            moves = objects.kept(moves)
            sends, large, nbytes = _packed(objects, moves, speed, overlap)
        news = objects.keys[moves.places], moves.to, *objects.correspondents(moves)
    n_now, n_late = map(len, large)
    stats, received = agreement.step(
        *(Step.PACK, iteration),
        sends=sends,
        error=packed.error,
        n_changed=n_now + n_late,
        messages=n_now,
    )
    received.sort(key=itemgetter(0))
    memory: tuple[Memory, Memory] = {}, {}
    data: dict[int, parcel.Parts] = {}  # large ones
    if stats.n_changed:  # on any rank
        with Attempt() as allocated:
            for source, (head, *_) in received:
                late, *sizes = np.frombuffer(head, np.int64).tolist()
                if sizes:
                    data[source] = memory[late][source] = _new_memory(sizes)
        agreement.step(Step.ALLOCATE, iteration, error=allocated.error)
    if stats.messages:
        _, moved = agreement.step(Step.MIGRATE, iteration, sends=large[0], into=memory[0])
        data.update(moved)
    came: list[Items] = []
    arrivals: list[Arrival] = []
    with Attempt() as restored:
        for source, (_, *parts) in received:
            items, n = _unpack(source, parts, objects)
            arrival = Arrival(source, items.objects.key, data.get(source) or parts[n:])
            if source in memory[1]:
                arrivals.append(arrival)
            else:
                items = items._replace(values=arrival.values("; nothing has moved"))
            came.append(items)
        following = objects.changed(moves.places, came)
        if len(objects.kept(moves).places) < len(moves.places):
            raise StateError("an object was removed while it was packed; nothing has moved")
    agreement.step(Step.PACK, iteration, error=restored.error)
    objects.set(*following)
    objects.rebind()
    if overlap is True or large[1] or memory[1]:
        objects.expect(lambda: agreement.transport.transfer(large[1], memory[1]), arrivals)
    return nbytes, news


def _new_memory(sizes: list[int]) -> list[NDArray[np.uint8]]:
    try:
        return [np.empty(n, np.uint8) for n in sizes]
    except MemoryError:
        what = f"no memory for {sum(sizes):,} bytes of arriving objects"
        raise MemoryError(f"{what}; no object has moved") from None


def _packed(
    objects: LocalObjects, moves: LeavingObjects, speed: Speeds, overlap: bool | str
) -> tuple[Sends, tuple[Sends, Sends], int]:
    """Pack the leaving objects for each new rank.

    Returns, by rank: whether large data move late, their sizes; counts, properties, messages; small
    data.  Then large data that move now, and while the program goes on; and the number of bytes.
    """
    me, mail = objects.rank, objects.mail
    mail.open()
    to = np.full(len(objects), -1, np.int32)
    to[moves.places] = moves.to
    inboxes = {rank: (wire, others) for rank, _, wire, others in mail.pack_inboxes(to)}
    sends: Sends = []
    large: tuple[Sends, Sends] = [], []
    much, nbytes = max(MUCH, MUCH_EACH * len(objects)), 0
    for rank, rows in rows_to(moves.to, objects.n_ranks, (moves.places,)).items():
        items = objects.take(rows[:, 0])
        factor = 1.0 if speed is None else float(speed[rank] / speed[me])
        estimates = converted(items.estimates, factor, objects.base)
        known = parcel.pack((items.objects.key, items.objects.columns, estimates))
        values = parcel.tried("an object cannot be pickled", parcel.pack_each, items.values)
        wire, others = inboxes.get(rank, (b"", []))
        letters = [wire, *parcel.pack_messages(others)] if wire else []
        counts = np.array([len(known), len(letters)], np.int64)
        parts, size = [counts, *known, *letters], parcel.size_of(values)
        nbytes += parcel.size_of(parts) + size
        late = overlap is True or bool(overlap and size >= much)
        head: list[int] = [late]
        if late or size >= MUCH:
            large[late].append((rank, values))
            head += [memoryview(part).nbytes for part in values]
            values = []
        sends.append((rank, [np.array(head, np.int64), *parts, *values]))
    return sends, large, nbytes


def _unpack(source: int, parts: parcel.Parts, objects: LocalObjects) -> tuple[Items, int]:
    """Restore the objects that come from rank `source`, still without their values.

    Passes their messages to the mail.  Also returns the number of buffers read from `parts`.
    """
    n_known, n_letters = np.frombuffer(parts[0], np.int64).tolist()
    end = 1 + n_known + n_letters
    known, letters = parts[1 : 1 + n_known], parts[1 + n_known : end]
    keys, columns, estimates = parcel.unpack(known)
    if letters:
        objects.mail.take(letters[0], parcel.unpack(letters[1:]) if letters[1:] else [])
    was = columns.get("was", np.full(len(keys), -1, np.int32))
    columns["was"] = np.where(was < 0, np.int32(source), was)
    return Items(Objects(keys, columns), [None] * len(keys), estimates), end
