"""What a rank knows about objects: its own, their messages, and the ranks of some other objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.comm.addresses import Addresses
from pylb.comm.agreement import Agreement
from pylb.console import clip
from pylb.errors import DomainError
from pylb.model.snapshot import F64, I32, I64
from pylb.run.messages import Mailbox
from pylb.run.object_sizes import SizeEstimator
from pylb.run.object_store import FURTHER, NO_KEYS, LeavingObjects, NewObjects, Store


class LocalObjects:
    """The objects of this rank, which all parts of a Balancer share."""

    def __init__(
        self,
        agreement: Agreement,
        clock: str,
        load: Callable[[int, Any], float] | None,
        learns: bool,
    ) -> None:
        self.agreement = agreement
        self.store = Store(clock, learns)
        self.addresses = Addresses(agreement)  # ranks of objects that are not on this rank
        self.mailbox = Mailbox(agreement, self.addresses)
        self.mailbox.mail.bind(self.store.places)
        self.sizes = SizeEstimator()
        self.new = NewObjects(self.rank)  # objects that were added here and are not in the store
        self._gone: set[int] = set()  # keys of removed objects that are still in the store
        self._lost = NO_KEYS  # keys whose removal the other ranks do not know yet
        self._unregistered = NO_KEYS  # keys in the store that other ranks do not know yet
        self._births = 0  # number of calls of `learn`, the same on all ranks
        # in_loop: whether a loop is under way.  stale: whether objects were added or removed within
        # the loop; a loop with a lag sets it to False when it has applied these changes.
        self.in_loop = self.stale = False
        # Applies additions and removals immediately; set while each object runs at its own pace.
        self.join: Callable[[], None] | None = None
        self.load = load  # the user's function for loads, or None
        self.version = 0  # number of changes of properties, see `records.RecordedObjects`

    @property
    def rank(self) -> int:
        return self.agreement.transport.rank

    @property
    def n_ranks(self) -> int:
        return self.agreement.transport.size

    # ---- for the records, see `records.RecordedObjects` ------------------------------------------

    @property
    def n_objects(self) -> int:
        """Number of objects of all ranks."""
        return self.addresses.n_objects

    @property
    def seconds(self) -> F64:
        """Loads of this rank's objects in the present iteration."""
        return self.store.seconds

    @property
    def passes(self) -> int:
        return max(self.store.passes, 1)

    @property
    def more(self) -> dict[str, NDArray[Any]]:
        """The properties in `FURTHER` that at least one object of this rank has."""
        given = self.store.properties.given
        return {name: given[name] for name in FURTHER if name in given}

    def facts(self) -> I64:
        return self.store.facts()

    def edges(self) -> I64:
        return self.mailbox.mail.edges()

    # ---- adding and removing objects -------------------------------------------------------------

    @property
    def n_changed(self) -> int:
        """Number of additions and removals on this rank that the other ranks do not know yet."""
        return len(self.new) + len(self._gone) + len(self._lost) + len(self._unregistered)

    def has(self, key: int) -> bool:
        """Say whether the object is on this rank, or will be from the next iteration on."""
        return key in self.new or (self.store.place(key) >= 0 and key not in self._gone)

    def add(self, key: int, value: Any, given: dict[str, Any]) -> None:
        """Add an object whose key is not on this rank yet."""
        self.new.add(key, value, given)
        self.stale = self.in_loop

    def update(self, key: int, given: dict[str, Any]) -> None:
        """Change properties of an object that is here."""
        if key in self.new:
            self.new.update(key, given)
        else:
            self.store.properties.update(self.store.place(key), given)
            self.version += 1

    def remove(self, key: int) -> Any:
        """Remove an object of this rank, and return it."""
        self.stale = self.in_loop
        if key in self.new:
            return self.new.remove(key)
        self._gone.add(key)
        return self.store.values[self.store.place(key)]

    def kept(self, moves: LeavingObjects) -> LeavingObjects:
        """Leave out the objects that were removed since `learn`, e.g. by the trigger.

        They stay here, where the end of the iteration removes them.
        """
        if not self._gone:
            return moves
        gone = self.store.places.places(np.array(sorted(self._gone), np.int64))
        kept = ~np.isin(moves.places, gone)
        return LeavingObjects(moves.places[kept], moves.to[kept])

    def arrange(self) -> None:
        """Apply additions and removals on this rank; the other ranks do not know them yet."""
        if not len(self.new) and not self._gone:
            return
        gone, unregistered, lost = self._pending()
        places, new, nothing = self.store.places, NewObjects(self.rank), set[int]()
        # If Ctrl-C comes after `set` and before the assignments, the next call begins again: then
        # objects in `self.new` are here already.
        here = places.places(np.union1d(gone, self.new.keys))
        items = self.new.items(self.store.rows)
        self.store.set(*self.store.changed(here[here >= 0], [items]))
        self.new, self._gone, self._unregistered, self._lost = new, nothing, unregistered, lost
        self.mailbox.rebind(self.store.places, gone)

    def restored(self) -> None:
        """Note that the objects come from a checkpoint: other ranks do not know them yet."""
        self._unregistered = self.store.keys.copy()
        self.mailbox.rebind(self.store.places, NO_KEYS)

    def catches_up(self) -> bool:
        """Between two loops, apply additions and removals; return whether there were any."""
        if self.in_loop or not (len(self.new) or self._gone):
            return False
        self.arrange()
        return True

    def _pending(self) -> tuple[I64, I64, I64]:
        """Return the keys to remove here, to announce as added, and to announce as removed."""
        if not self._gone:
            return NO_KEYS, np.concatenate([self._unregistered, self.new.keys]), self._lost
        gone = np.array(sorted(self._gone), np.int64)
        known = ~np.isin(gone, self._unregistered)
        stay = self._unregistered[~np.isin(self._unregistered, gone)]
        born = np.concatenate([stay, self.new.keys])
        return gone, born, np.concatenate([self._lost, gone[known]])

    def learn(self, iteration: int) -> None:
        """Tell the other ranks which objects were added and removed.  Collective.

        If a key was added twice, all ranks raise DuplicateKeyError, and nothing has changed.
        """
        gone, born, lost = self._pending()
        n_here = len(self.store) + len(self.new) - len(gone)
        forgotten = self.addresses.change(iteration, born, lost, n_here)
        self.arrange()
        if self._births and len(born):
            self.store.properties.update(self.store.places.places(born), {"birth": self._births})
        self._births += 1
        self._lost = self._unregistered = NO_KEYS
        self.mailbox.rebind(self.store.places, forgotten)

    def ranks_of(self, keys: I64) -> I32:
        """Return the ranks of objects, which may be anywhere.  Collective."""
        new = np.isin(keys, self.new.keys)
        here = new | (self.store.places.places(keys) >= 0)
        self.addresses.ask(keys[~(new | (here & np.isin(keys, self._unregistered)))])
        return np.where(here, np.int32(self.rank), self.addresses.find(keys))

    def correspondents(self, moves: LeavingObjects) -> tuple[I64, I32, I64]:
        """Return which ranks must know where receivers of messages are after a migration.

        If an object that sends messages moves, its new rank must know the ranks of its receivers.
        If a receiver leaves and its sender stays, this rank must know the receiver's new rank.

        Returns
        -------
        (keys, ranks, all keys)
            Keys of receivers; for each, a rank that must know where the receiver is; keys of all
            receivers of messages from this rank's objects.
        """
        edges, me = self.edges(), np.int32(self.rank)
        new = np.full(len(self.store) + 1, me, np.int32)
        new[moves.places] = moves.to
        source, target = (self.store.places.places(edges[:, i]) for i in (0, 1))
        sender, receiver = new[source], np.where(target >= 0, new[target], -1)
        need = (sender != receiver) & ((sender != me) | ((target >= 0) & (receiver != me)))
        wanted, by = edges[need, 1], sender[need]
        if edges[:, 4].any():  # several multicasts may have the same sender and receiver
            once = np.unique(np.stack([wanted, by], axis=1), axis=0)
            wanted, by = once[:, 0], once[:, 1].astype(np.int32)
        return wanted, by, edges[:, 1]

    # ---- loads -----------------------------------------------------------------------------------

    def given_load(self, key: int) -> float:
        """Return the load of an object, computed by the user's function."""
        place = self.store.place(key)
        if place < 0:
            raise KeyError(key)
        return self._load_of(key, self.store.values[place])

    def _load_of(self, key: int, value: Any) -> float:
        assert self.load is not None
        given = self.load(key, value)
        try:
            load = float(given)
        except (TypeError, ValueError, OverflowError):
            load = math.nan
        if not 0.0 <= load <= 1e30:
            raise DomainError(
                f"load of object {key} is {clip(repr(given), 60)}: expected a finite number, zero "
                "or more"
            )
        return load

    def ask_loads(self) -> None:
        """Replace the measured loads by the results of the user's function, if there is one."""
        if self.load is not None:
            store = self.store
            # No map(): it would end early if the function raised StopIteration.
            pairs = zip(store.keys.tolist(), store.values, strict=True)
            store.seconds[:] = [self._load_of(key, value) for key, value in pairs]
