"""The objects of one rank, their messages, and what the rank knows of other objects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm import parcel
from pylb.comm.addresses import Addresses
from pylb.comm.agreement import Agreement, Attempt, Stats, Step
from pylb.comm.transport import Sends, Transferred
from pylb.decide.decider import Settings
from pylb.errors import DomainError, SerializationError, StateError, UnknownKeyError
from pylb.model import checks
from pylb.model.objects import NO_KEYS, Objects, joined
from pylb.model.snapshot import F64, I32, I64
from pylb.run.clocks import PhaseClock

log = logging.getLogger("pylb")
NO_PARTS: F64 = np.zeros((0, 0))  # loads by phase, if there are no phases
HERE = _core.ESTIMATE_HERE  # this row of estimates and later ones use only iterations on this rank
Ints = NDArray[np.integer[Any]]


def key_of(key: Any) -> int:
    """Check that `key` is an integer of 64 bits, and return it."""
    out = checks.integer("key", key)
    if not -(2**63) <= out < 2**63:
        raise DomainError(f"key is {out}: expected an integer of 64 bits")
    return out


class Items(NamedTuple):
    """Some objects, in any order, with their values and estimates."""

    objects: Objects
    values: list[Any]
    estimates: F64  # (rows, k), see `LocalObjects.rows`


class LeavingObjects(NamedTuple):
    """The objects that leave this rank."""

    places: I64  # (k,), indices of the leaving objects in the store, ascending
    to: I32  # (k,), their new ranks


class Arrival(NamedTuple):
    """Objects that come from a rank while the program goes on."""

    source: int
    keys: I64
    parts: parcel.Parts  # their packed values, which arrive in this memory meanwhile

    def values(self, after: str = "") -> list[Any]:
        """Restore the objects, whose data have arrived; `after` is the end of an error message."""
        load = parcel.loader(self.parts)
        out: list[Any] = []
        try:
            while len(out) < len(self.keys):
                out.append(load())
        except Exception as why:
            what = f"object {self.keys[len(out)]} cannot be restored on its new rank"
            raise SerializationError(f"{what}: {type(why).__name__}: {why}{after}") from why
        return out


def converted(estimates: F64, factor: float, base: int) -> F64:
    """Convert estimates to seconds on another rank, which is `factor` times as fast.

    There are `base` rows for the sum of all phases, and as many for each phase.  Of these, rows
    from `HERE` on become 0, because the objects have run no iteration on that rank.
    """
    out: F64 = estimates.copy()
    each = out.reshape(len(out) // base, base, -1)
    each[:, (0, 2, 3)] /= factor  # row 1 is the number of iterations
    each[:, HERE:] = 0.0
    return out


SAMPLE = 32  # largest number of objects of a type that are packed


class SizeEstimator:
    """Estimates the bytes of objects whose size is not given, and the seconds to pack an object.

    It packs some objects of each type, evenly spaced in order of keys; others get the mean size.
    """

    def __init__(self) -> None:
        self._of_type: dict[type, tuple[int, int]] = {}  # type -> (bytes, number of packed objects)
        self._seconds, self._packed = 0.0, 0

    @property
    def handling(self) -> float:
        """Mean seconds to pack an object; 0 if none was packed."""
        return self._seconds / self._packed if self._packed else 0.0

    def measure(self, store: LocalObjects) -> None:
        """Give every object a size; those that cannot be packed stay on this rank."""
        nbytes = store.table["nbytes"]
        unknown = np.flatnonzero(nbytes == 0) if self._packed else np.arange(len(store))
        if not len(unknown):
            return
        every = dict.fromkeys(map(type, store.values))
        number = np.fromiter(map(id, map(type, store.values)), np.int64, len(store))[unknown]
        for kind in every:
            places = unknown[number == id(kind)]
            if not len(places):
                continue
            if kind not in self._of_type:
                self._sample(kind, places[:: -(-len(places) // SAMPLE)], store, nbytes)
            total, n = self._of_type[kind]
            places = places[nbytes[places] == 0]
            nbytes[places] = total // max(n, 1)
        store.table.columns["nbytes"] = nbytes

    def _sample(self, kind: type, places: I64, store: LocalObjects, nbytes: I64) -> None:
        total = n = 0
        refused: list[int] = []
        for i in places.tolist():
            begin = _core.clock()
            try:
                size = parcel.size_of(parcel.pack(store.values[i]))
            except MemoryError:  # it may be packed when there is more memory
                continue
            except Exception:
                refused.append(i)
                continue
            self._seconds += max(_core.clock() - begin, 0.0)
            self._packed += 1
            nbytes[i] = nbytes[i] or size
            total, n = total + size, n + 1
        self._of_type[kind] = total, n
        store.pin(np.array(refused, np.int64))


def _unknown(targets: I64, sources: I64, to: Any) -> UnknownKeyError:
    i = int(np.argmax(to < 0))
    return UnknownKeyError(
        f"target {targets[i]} of a message from object {sources[i]}: no such object"
    )


def _parcels(packed: list[tuple[int, int, bytes, list[Any]]], told: dict[int, I64]) -> Sends:
    """Make the parcel for each rank: the addresses for it (`told`), then the messages for it."""
    out: dict[int, list[Any]] = {rank: [rows] for rank, rows in told.items()}
    for rank, _, wire, others in packed:
        parts = out.setdefault(rank, [b""])
        parts += [wire, *parcel.pack_messages(others)] if others else [wire]
    return list(out.items())


class LocalObjects:
    """The objects of this rank, sorted by key: their measured loads, their messages, and changes.

    Other ranks learn of added and removed objects by `learn`.
    """

    def __init__(
        self,
        agreement: Agreement,
        clock: str,
        load: Callable[[int, Any], float] | None,
        learns: bool,
        obeys: bool,
    ) -> None:
        self.clock = clock
        self.load = load  # the user's function for loads, or None
        # Number of iterations, and seconds of other work of this rank, since the last LB step.
        self.passes, self.other = 0, 0.0
        # Number of rows of `estimates` for the sum of all phases, and for each phase: 9, or 4 if
        # pylb does not learn the speeds of the ranks.
        self.base = _core.ESTIMATE_ROWS if learns else HERE
        # Names of the phases, which are the same in every iteration.  None before the first one.
        self.phases: tuple[str, ...] | None = None
        self._inside = ""  # the present phase, or "" outside the phases
        self._clock: PhaseClock | None = None  # the program's own clock for the present phase
        # (n,) loads in each phase of the present iteration so far, in the order of the phases;
        # `seconds` has only the loads since the end of the previous phase.
        self._parts: dict[str, F64] = {}
        # Loop bodies timed by a phase's clock: phase, index of the object, reader of the seconds.
        self._marks: list[tuple[str, int, Callable[[], Any]]] = []
        self._given: dict[tuple[str, int], float] = {}  # seconds that the program has measured
        self._begin: Callable[[], Transferred] | None = None
        self._transfer: Transferred | None = None  # of objects that move while the program goes on
        self.hidden = 0.0  # seconds of computing in this iteration, while objects were on their way
        self._arrivals: list[Arrival] = []
        self.set(Items(Objects(NO_KEYS), [], np.zeros((self.rows, 0))), np.zeros((1, 0)))
        self.agreement = agreement
        self.rank, self.n_ranks = agreement.transport.rank, agreement.transport.size
        self.addresses = Addresses(agreement)  # ranks of objects that are not on this rank
        # The messages, their order in the inboxes, and the communication graph.
        self.mail = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)
        self.mail.bind(self.places)
        self.sizes = SizeEstimator()
        # By key: objects that were added here and are not in the table yet, in the order of `add`,
        # and those of their properties that differ from the default.
        self.new: dict[int, Any] = {}
        self._properties: dict[int, dict[str, Any]] = {}
        self._gone: set[int] = set()  # keys of removed objects that are still in the table
        self._pinned: set[int] = set()  # keys of objects that cannot be pickled
        # Whether every strategy lets such objects stay; a Python function may not expect any.
        self._obeys = obeys
        self._lost = NO_KEYS  # keys whose removal the other ranks do not know yet
        self._unregistered = NO_KEYS  # keys in the table that other ranks do not know yet
        self._births = 0  # number of `learn` calls so far, the same on all ranks
        # in_loop: whether a loop is under way.  stale: whether objects were added or removed within
        # the loop; a loop with a lag sets it to False when it has applied these changes.
        self.in_loop = self.stale = False
        # Applies additions and removals at once; None, unless each object runs at its own pace.
        self.join: Callable[[], None] | None = None
        self.version = 0  # how often properties have changed, for the records

    def __len__(self) -> int:
        return len(self._values)

    @property
    def rows(self) -> int:
        """Number of rows of `estimates`."""
        return self.base * (1 + len(self.phases or ()))

    def row(self, number: int) -> F64:
        """Return (n,): row `number` of the estimates; with d phases, (n, d): that of each phase."""
        rows = self.estimates[self.base + number :: self.base]
        return np.ascontiguousarray(rows.T) if len(rows) else self.estimates[number]

    @property
    def keys(self) -> I64:
        return self.table.key

    @property
    def values(self) -> list[Any]:
        """The objects.  Reading this property waits for objects that have not arrived yet."""
        self.settle()
        return self._values

    def items(self) -> Items:
        return Items(self.table, self.values, self.estimates)

    def take(self, index: Any) -> Items:
        values = [self.values[i] for i in np.asarray(index).tolist()]
        return Items(self.table.take(index), values, self.estimates[:, index])

    def changed(self, gone: Ints, more: list[Items]) -> tuple[Items, F64]:
        """Return the objects and `sums` without the indices `gone`, but with `more`, for `set`."""
        parts = [items for items in [self.items(), *more] if len(items.objects)]
        n = sum(len(part.objects) for part in parts)
        if not len(gone) and n == len(self):
            return self.items(), self.sums
        keys = joined([part.objects.key for part in parts])
        if len(parts) == 1 and not len(gone) and np.all(keys[1:] > keys[:-1]):  # the first objects
            return parts[0], np.zeros((len(self.sums), n))
        stays = np.ones(n, np.bool_)
        stays[gone] = False
        at = np.flatnonzero(stays)  # indices that run through all parts, one after the other
        order = at[np.argsort(keys[at], kind="stable")]  # fast, because keys mostly ascend
        estimates = np.empty((self.rows, len(order)))
        for row, out in enumerate(estimates):
            # All indices are valid; with mode="raise", the default, NumPy would copy twice.
            joined([part.estimates[row] for part in parts]).take(order, out=out, mode="clip")
        values = [value for part in parts for value in part.values]
        items = Items(
            Objects.join([part.objects for part in parts], order),
            [values[i] for i in order.tolist()],
            estimates,
        )
        new = np.zeros(n - len(self))
        return items, np.stack([joined([row, new], order) for row in self.sums])

    def set(self, items: Items, sums: F64) -> None:
        """Replace all objects and `sums`, and drop the loads of the present iteration.

        Everything is computed first, so that Ctrl-C cannot come between two assignments.
        """
        key = items.objects.key
        places, seconds = _core.Keys(key), np.zeros(len(key))
        recorder = _core.Recorder(key, items.values, seconds, self.clock)
        # Estimates of the loads, (rows, n), see ``csrc/measure/measure.h``; the first row is the
        # expected load of each object.  The column of an object migrates with it.
        self.table, self._values, self.estimates = items
        self.places = places  # finds the index of a key, or -1 if it is not here
        # `sums`, (1 + d, n): loads since the last LB step, in total and in each of d phases;
        # `window`: the first row of `sums`; `seconds`, (n,): loads in the present iteration so far.
        self.sums, self.window, self.seconds = sums, sums[0], seconds
        self.recorder = recorder  # yields (key, object), adds the time of a loop body to `seconds`

    def use(self, clock: str) -> None:
        """Time the objects with this clock from now on."""
        self.clock = clock
        self.recorder = _core.Recorder(self.keys, self.values, self.seconds, clock)

    # ---- objects that are on their way -----------------------------------------------------------

    def expect(self, begin: Callable[[], Transferred], arrivals: list[Arrival]) -> None:
        """Let objects arrive and leave while the program goes on; the store already has new ones.

        Until `settle`, the values of new objects are missing.  `begin` starts to move the data.  It
        is called later; otherwise messages of the LB step itself would wait for these data.
        """
        self.settle(whole=True)
        self._begin, self._arrivals = begin, arrivals

    def settle(self, whole: bool = False) -> None:
        """Wait until all objects have arrived here; with `whole`, also those that left this rank.

        Without `whole`, other ranks may receive objects from this rank until their iteration ends.
        """
        self._start()
        while self._arrivals:
            self._receive()
        if whole and self._transfer is not None:
            self._transfer.finish()
        if self._transfer is not None and self._transfer.progress():
            self._transfer = None

    def _start(self) -> None:
        begin, self._begin = self._begin, None
        if begin is not None:
            self._transfer = begin()

    def _receive(self) -> list[int]:
        """Wait for the objects from the next rank, and return their indices."""
        assert self._transfer is not None
        arrival = self._arrivals[0]
        self._transfer.receive(arrival.source)
        self._arrivals = self._arrivals[1:]
        places: list[int] = self.places.places(arrival.keys).tolist()
        for place, value in zip(places, arrival.values(), strict=True):
            self._values[place] = value
        return places

    def local(self) -> Iterator[tuple[int, Any]]:
        """Yield (key, object), and time each loop body."""
        self._start()
        if self._clock is not None:
            return self._local_by(self._inside, self._clock)
        if self._transfer is None or (not self._arrivals and self._transfer.progress()):
            return iter(self.recorder)
        return self._local_meanwhile()

    def _local_by(self, phase: str, clock: PhaseClock) -> Iterator[tuple[int, Any]]:
        """Yield (key, object), and time each loop body by the `clock` of a phase."""
        for i, pair in enumerate(zip(self.keys.tolist(), self.values, strict=True)):
            begin = clock.mark()
            try:
                yield pair
            finally:
                self._marks.append((phase, i, partial(clock.between, begin, clock.mark())))

    def _local_meanwhile(self) -> Iterator[tuple[int, Any]]:
        """Yield the objects that are here, then those that arrive; let MPI move data in between."""
        keys, values, seconds, clock = self.keys.tolist(), self._values, self.seconds, self.clock
        absent = np.ones(len(keys), np.bool_)
        for arrival in self._arrivals:
            absent[self.places.places(arrival.keys)] = False
        places: list[int] = np.flatnonzero(absent).tolist()
        moves = True
        while places or self._arrivals:
            places = places or self._receive()
            for n, i in enumerate(places):
                if n and self._transfer is not None:  # before the first one, nothing was computed
                    moves = not self._transfer.progress(len(places) - n)
                begin = _core.load_clock(clock)
                try:
                    yield keys[i], values[i]
                finally:
                    passed = max(_core.load_clock(clock) - begin, 0.0)
                    seconds[i] += passed
                    self.hidden += passed * moves
            places = []

    # ---- the loads of an iteration ---------------------------------------------------------------

    def given_load(self, key: int) -> float:
        """Return the load of an object, computed by the user's function."""
        place = self.places.find(key)
        if place < 0:
            raise KeyError(key)
        assert self.load is not None
        return checks.load(key, self.load(key, self.values[place]))

    def ask_loads(self) -> None:
        """Replace the measured loads by the results of the user's function, if there is one."""
        if self.load is not None:
            # No map(): it would end early if the function raised StopIteration.
            pairs = zip(self.keys.tolist(), self.values, strict=True)
            self.seconds[:] = [checks.load(key, self.load(key, value)) for key, value in pairs]

    def begin_pass(self) -> None:
        """Drop the loads of an iteration that was not completed."""
        self.seconds.fill(0.0)
        self.hidden = 0.0
        self._parts, self._inside, self._clock, self._marks, self._given = {}, "", None, [], {}

    @contextmanager
    def phase(self, name: str, clock: PhaseClock | None = None) -> Iterator[None]:
        """Begin a phase: loop bodies in the block count for it, even if the block raises."""
        checks.phase(name, self._inside, self._parts)
        self._check_outside()
        self._inside, self._clock = name, clock
        try:
            yield
        finally:
            self._inside, self._clock = "", None
            part = self._parts.get(name)
            self._parts[name] = self.seconds.copy() if part is None else part + self.seconds
            self.seconds.fill(0.0)

    def give(self, key: int, place: int, seconds: dict[str, float]) -> None:
        """Add seconds of an object, measured by the program; `seconds`: phase -> seconds."""
        for name, value in seconds.items():
            if name != self._inside and name not in self._parts:
                expected = f"it within `with lb.phase({name!r})`, or later in the iteration"
                raise StateError(f"load({key}, {name}=...): expected {expected}")
            own = self._given.get((name, place), 0.0)
            self._given[name, place] = own + checks.load(key, value, name)

    def _check_outside(self) -> None:
        beyond = np.flatnonzero(self.seconds)
        if len(beyond):
            what = f"object {self.keys[beyond[0]]} took {self.seconds[beyond[0]]:.3g} s"
            raise DomainError(f"{what} outside the phases: expected `with lb.phase(name)`")

    @property
    def parts(self) -> F64:
        """Loads of the objects in each phase of the iteration that has ended, (d, n)."""
        return np.array(list(self._parts.values())) if self._parts else NO_PARTS

    def join_phases(self, iteration: int) -> str:
        """At the end of an iteration, sum the loads over the phases; return the phases' names."""
        if not (self._parts or self.phases):
            return ""
        names = tuple(self._parts)
        # Add the times by clocks of phases; seconds that the program has given replace all others.
        for name, i, read in self._marks:
            self._parts[name][i] += checks.load(int(self.keys[i]), read(), name)
        for (name, i), value in self._given.items():
            self._parts[name][i] = value
        self._marks, self._given = [], {}
        checks.same_phases(names, self.phases, self.rank, "iteration", iteration)
        if names:
            self._check_outside()
            self.seconds[:] = self.parts.sum(axis=0)
        return ", ".join(names)

    def name_phases(self, names: tuple[str, ...] | None = None) -> None:
        """Store the names of the phases (None: of this iteration); make estimates and sums."""
        names = tuple(self._parts) if names is None else names
        self.phases, n = names, len(self)
        more = np.zeros((self.base * len(names), n))
        if names:
            self.estimates = np.concatenate([self.estimates[: self.base], more])
            self.sums = np.concatenate([self.sums[:1], np.zeros((len(names), n))])
            self.window = self.sums[0]

    def end_pass(self, background: float) -> None:
        """Update the estimates and the sums by the loads of the iteration that ends."""
        self.hidden = 0.0
        if self.phases is None:
            self.name_phases()
        if not self._parts:
            _core.end_pass(self.seconds, self.estimates, self.window)
        else:
            _core.end_pass(self.seconds, self.estimates[: self.base], self.window)
            self.end_phases()
        self.count(1, background)

    def end_phases(self) -> None:
        """Update the estimates and the sums of each phase, without those of the whole load."""
        for k, part in enumerate(self._parts.values()):
            rows = self.base * (1 + k)
            _core.end_pass(part, self.estimates[rows : rows + self.base], self.sums[1 + k])
        self._parts = {}

    def count(self, n: int, background: float) -> None:
        """Count `n` iterations, each with `background` seconds of other work."""
        self.passes += n
        for _ in range(n):  # one by one, as in a replay, so that both sums are equal bit for bit
            self.other += background

    def forget(self) -> None:
        """Start a new window, after an LB step."""
        self.sums.fill(0.0)
        self.passes, self.other = 0, 0.0

    def drift(self) -> F64:
        """Return the change of each load in seconds per iteration, see ``plb_estimate_drift``."""
        error, spread = self.estimates[2:HERE]
        drift: F64 = np.zeros(len(self))
        np.divide(np.abs(error), spread, out=drift, where=spread > 0)
        np.minimum(drift, 1.0, out=drift)
        drift *= error
        return drift

    # ---- for the records and the load database ------------------------------------------

    @property
    def n_objects(self) -> int:
        """Number of objects of all ranks."""
        return self.addresses.n_objects

    @property
    def homes(self) -> NDArray[Any]:
        """The rank where each object was added, (n,)."""
        return self.table["home"]

    def recorded(self) -> Objects:
        """Return the objects with the properties that are recorded."""
        return self.table.only("recorded", "optional")

    def edges(self) -> I64:
        return self.mail.edges()

    def part(self, settings: Settings) -> tuple[Objects, I64, int]:
        """Return this rank's part of the load database: objects, edges and `passes`."""
        columns = {"load": self.row(0)}
        if settings.learns:
            columns["here"] = self.row(HERE)
        if settings.selects:
            columns["drift"] = self.drift()
        return self.table.only("seen").plus(**columns), self.edges(), max(self.passes, 1)

    # ---- adding and removing objects -------------------------------------------------------------

    @property
    def n_changed(self) -> int:
        """Number of additions and removals on this rank that the other ranks do not know yet."""
        return len(self.new) + len(self._gone) + len(self._lost) + len(self._unregistered)

    def has(self, key: int) -> bool:
        """Return whether the object is on this rank, or will be from the next iteration on."""
        return key in self.new or (self.places.find(key) >= 0 and key not in self._gone)

    def add(self, key: int, value: Any, properties: dict[str, Any]) -> None:
        """Add an object whose key is not on this rank yet."""
        self._properties.pop(key, None)  # those of an earlier object, or of an interrupted call
        if properties:
            self._properties[key] = properties
        self.new[key] = value  # last: from now on, the object is here
        self.stale = self.in_loop

    def update(self, key: int, properties: dict[str, Any]) -> None:
        """Change properties of an object that is here."""
        if "migratable" in properties:
            self._pinned.discard(key)
        if key in self.new:
            self._properties.setdefault(key, {}).update(properties)
        else:
            self.table.update(self.places.find(key), properties)
            self.version += 1

    def remove(self, key: int) -> Any:
        """Remove an object of this rank, and return it."""
        self.stale = self.in_loop
        if key in self.new:
            return self.new.pop(key)
        self._gone.add(key)
        return self.values[self.places.find(key)]

    def kept(self, moves: LeavingObjects) -> LeavingObjects:
        """Return `moves` without objects that must not move.

        These are objects that cannot be pickled, and those that were removed since `learn`, e.g. by
        the trigger, which are removed here at the end of the iteration.
        """
        stay = self.places.places(np.array(sorted(self._gone | self._pinned), np.int64))
        kept = ~np.isin(moves.places, stay)
        return LeavingObjects(moves.places[kept], moves.to[kept])

    def pin(self, places: I64) -> None:
        """From now on, let those of these objects stay here that cannot be pickled."""
        refused: list[int] = []
        first: Exception | None = None
        for place in places.tolist():
            value, key = self.values[place], int(self.keys[place])
            what = f"object {key} ({type(value).__qualname__}) cannot be pickled"
            try:
                parcel.tried(what, parcel.pack, value)
            except SerializationError as why:
                refused.append(place)
                first = first or why
        keys = self.keys[refused].tolist()
        if keys and self.n_ranks > 1:
            more = f", and so do {len(keys) - 1} more, e.g. {keys[1:20]}" if len(keys) > 1 else ""
            log.warning("pylb: %s; it stays on rank %d%s", first, self.rank, more)
        self._pinned.update(keys)
        if keys and self._obeys:
            self.table.update(refused, {"migratable": False})
            self.version += 1

    def arrange(self) -> bool:
        """Apply additions and removals on this rank; return whether there were any.

        The other ranks do not know them yet.
        """
        if not self.new and not self._gone:
            return False
        gone, unregistered, lost = self._pending()
        after: tuple[Any, ...] = {}, {}, set(), unregistered, lost
        # If Ctrl-C comes after `set` and before the assignments, the next call begins again, and
        # replaces the objects of `self.new` that are in the table already.
        items = self._new_items()
        here = self.places.places(np.union1d(gone, items.objects.key))
        self.set(*self.changed(here[here >= 0], [items]))
        self._pinned.difference_update(gone.tolist())
        self.new, self._properties, self._gone, self._unregistered, self._lost = after
        self.rebind(gone)
        return True

    def restored(self) -> None:
        """Mark all objects, which come from a checkpoint, as not known to the other ranks yet."""
        self._unregistered = self.keys.copy()
        self.rebind()

    def _new_items(self) -> Items:
        """Return the added objects, without estimates."""
        n = len(self.new)
        out = Objects(self._new_keys, {"home": np.full(n, self.rank, np.int32)})
        for i, key in enumerate(self.new if self._properties else ()):
            out.update(i, self._properties.get(key, {}))
        return Items(out, list(self.new.values()), np.zeros((self.rows, n)))

    @property
    def _new_keys(self) -> I64:
        return np.fromiter(self.new, np.int64, len(self.new))

    def _pending(self) -> tuple[I64, I64, I64]:
        """Return the keys to remove on this rank, to announce as added, and as removed."""
        gone = np.array(sorted(self._gone), np.int64)
        known = ~np.isin(gone, self._unregistered)
        stay = self._unregistered[~np.isin(self._unregistered, gone)]
        born = np.concatenate([stay, self._new_keys])
        return gone, born, np.concatenate([self._lost, gone[known]])

    def learn(self, iteration: int) -> None:
        """Exchange with the other ranks which objects were added and removed.  Collective.

        If a key was added twice, all ranks raise DuplicateKeyError, and nothing changes.
        """
        gone, born, lost = self._pending()
        n_here = len(self) + len(self.new) - len(gone)
        forgotten = self.addresses.change(iteration, born, lost, n_here)
        self.arrange()
        if self._births and len(born):
            self.table.update(self.places.places(born), {"birth": self._births})
        self._births += 1
        self._lost = self._unregistered = NO_KEYS
        self.rebind(forgotten)

    def ranks_of(self, keys: I64) -> I32:
        """Return the ranks, (n,), of the objects `keys`, which may be anywhere.  Collective."""
        new = np.isin(keys, self._new_keys)
        here = new | (self.places.places(keys) >= 0)
        self.addresses.ask(keys[~(new | (here & np.isin(keys, self._unregistered)))])
        return np.where(here, np.int32(self.rank), self.addresses.find(keys))

    def correspondents(self, moves: LeavingObjects) -> tuple[I64, I32, I64]:
        """Return (m,) keys of receivers, (m,) ranks that must know them, and all receivers' keys.

        If an object that sends messages moves, its new rank must know the ranks of its receivers.
        If a receiver leaves and its sender stays, this rank must know the receiver's new rank.
        """
        edges, me = self.edges(), np.int32(self.rank)
        new = np.full(len(self) + 1, me, np.int32)
        new[moves.places] = moves.to
        source, target = (self.places.places(edges[:, i]) for i in (0, 1))
        sender, receiver = new[source], np.where(target >= 0, new[target], -1)
        need = (sender != receiver) & ((sender != me) | ((target >= 0) & (receiver != me)))
        wanted, by = edges[need, 1], sender[need]
        if edges[:, 4].any():  # several multicasts may have the same sender and receiver
            once = np.unique(np.stack([wanted, by], axis=1), axis=0)
            wanted, by = once[:, 0], once[:, 1].astype(np.int32)
        return wanted, by, edges[:, 1]

    # ---- messages ------------------------------------------------------------------------------

    # If this rank does not know where the target of a message is, the message goes to the target's
    # home rank, which always knows (see `pylb.comm.addresses`).  In a second step, the home rank
    # forwards the message, and sends the target's rank to the sender.

    def rebind(self, gone: I64 = NO_KEYS) -> None:
        """Adapt the mail to a change of objects; drop the messages to the objects `gone`."""
        if len(gone):
            self.mail.forget(_core.Keys(np.unique(gone)))
        self.mail.bind(self.places)

    def pack_messages(self) -> tuple[Sends, int, int]:
        """Pack the messages of this iteration for other ranks; also return their number.

        The last result is the number of messages that need a second step, because a home rank must
        forward them, or because restoring them may fail.
        """
        self.mail.open()
        if not self.mail.n_sent:
            return [], 0, 0
        targets = self.mail.targets
        to = np.where(self.places.places(targets) >= 0, np.int32(self.rank), np.int32(-1))
        far = np.flatnonzero(to < 0)
        to[far], n_open = self.addresses.route(targets[far])
        if np.any(to < 0):
            sources = self.mail.sources
            self.mail.drop()
            raise _unknown(targets, sources, to)
        packed = self.mail.pack(to, self.rank)
        n_messages = sum(n for _, n, _, _ in packed)
        return _parcels(packed, {}), n_messages, n_open + self.mail.n_frozen

    def receive_messages(
        self, stats: Stats, received: Sends, iteration: int, *, adds: bool = False
    ) -> None:
        """Receive the messages of a step; make further steps until all are delivered.  Collective.

        With `adds`, the inboxes keep the messages that they have.  After an error, all ranks drop
        the messages of the iteration.
        """
        asks = stats.messages_open > 0
        try:
            while received or self.mail.n_coming or stats.messages_open:
                sends: Sends = []
                n_open = 0
                with Attempt() as tried:
                    sends, n_open = self._sort_messages(received, asks)
                if not stats.messages_open:
                    if tried.error is not None:
                        raise tried.error
                    break
                stats, received = self.agreement.step(
                    Step.FORWARD, iteration, sends=sends, error=tried.error, messages_open=n_open
                )
                asks = False
        except Exception:
            self.mail.drop()
            raise
        self.mail.deliver(adds)

    def _sort_messages(self, received: Sends, asks: bool) -> tuple[Sends, int]:
        """Restore the messages for this rank, and pack others; with `asks`, tell their senders."""
        mail, ends = self.mail, [self.mail.n_coming]
        for _, (rows, *packed) in received:
            if len(rows):
                self.addresses.learn(np.frombuffer(rows, np.int64).reshape(-1, 2))
            if packed:
                mail.take(packed[0], parcel.unpack(packed[1:]) if packed[1:] else [])
            ends.append(mail.n_coming)
        told: dict[int, I64] = {}
        if asks:
            ranks = np.array([self.rank, *(rank for rank, _ in received)], np.int64)
            told = self.addresses.answer(mail.arrived, np.repeat(ranks, np.diff(ends, prepend=0)))
        targets, sources = mail.part()
        try:
            mail.restore()
        except Exception as why:
            reason = f"{type(why).__name__}: {why}"
            raise SerializationError(f"a message cannot be restored: {reason}") from why
        to = self.addresses.forward(targets)
        if np.any(to < 0):
            raise _unknown(targets, sources, to)
        packed = mail.forward(to, self.rank) if len(targets) else []
        return _parcels(packed, told), len(targets)
