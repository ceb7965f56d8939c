"""The methods with which a program adds its objects, loops over them and sends messages."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

from pylb.errors import DomainError, DuplicateKeyError, StateError, UnknownKeyError
from pylb.run.local_objects import LocalObjects
from pylb.run.objects import Item, key_of


class ProgramObjects:
    """The objects of a parallel program and the messages between them."""

    def __init__(self, objects: LocalObjects, lag: float) -> None:
        self._objects, self._lag = objects, lag

    @property
    def rank(self) -> int:
        """This rank."""
        return self._objects.rank

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return self._objects.agreement.transport.size

    def add(
        self,
        key: int,
        block: Any,
        *,
        nbytes: int = 0,
        memory: int | None = None,
        migratable: bool = True,
        work: float | None = None,
    ) -> None:
        """Add an object to the balancer, on its first rank.

        Within ``iterate`` it takes part from the next pass on.

        Parameters
        ----------
        key : int
            A unique 64-bit integer that identifies the object on all ranks.
        block : object
            Anything that can be pickled.  It belongs to the balancer from now on: a migration makes
            a new object of it.
        nbytes : int
            Bytes that a migration sends; 0: measured, by packing some of the objects.
        memory : int, optional
            Bytes that it occupies.
        migratable : bool
            False: it stays on this rank.
        work : float, optional
            Your own estimate of its work, above 0, in any unit.  With ``unlike=True`` it allows to
            estimate the ranks' speeds before any object has moved.

        Raises
        ------
        DuplicateKeyError
            The key exists already.  If it was added on another rank, all ranks raise at the start
            of the loop.
        """
        objects, key = self._objects, key_of(key)
        if objects.has(key):
            rank = objects.locations.rank_of.get(key, self.rank)
            raise DuplicateKeyError(
                f"key {key} was added twice: on rank {rank} and on rank {self.rank}"
            )
        for name, value in (("nbytes", nbytes), ("memory", memory)):
            if value is not None and operator.index(value) < 0:
                raise DomainError(f"{name} is {value}: expected zero or more bytes")
        if work is not None and not 0.0 < float(work) < math.inf:
            raise DomainError(f"work is {work!r}: expected a number above 0")
        objects.changes.new[key] = Item(
            key,
            block,
            operator.index(nbytes),
            -1 if memory is None else operator.index(memory),
            bool(migratable),
            0.0 if work is None else float(work),
            self.rank,
        )
        objects.stale = objects.in_loop
        if not objects.in_loop:
            objects.store.items[key] = objects.changes.new[key]

    def remove(self, key: int) -> Any:
        """Remove an object of this rank from the balancer, with the messages to it.

        Within ``iterate`` it is removed at the end of the pass.

        Returns
        -------
        object
            The object.

        Raises
        ------
        UnknownKeyError
            No such object on this rank.
        """
        objects, key = self._objects, key_of(key)
        item = objects.changes.new.pop(key, None)
        if item is None and key not in objects.changes.gone:
            item = objects.store.items.get(key)
        if item is None:
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        objects.changes.gone.add(key)
        objects.stale = objects.in_loop
        if not objects.in_loop:
            del objects.store.items[key]
        return item.value

    def local(self) -> Iterator[tuple[int, Any]]:
        """The objects of this rank, (key, object), in increasing order of key; each body is timed.

        The times of several loops in one pass are added up.
        """
        objects = self._objects
        if objects.changes and not objects.in_loop:
            objects.store.arrange()
        elif objects.stale and objects.join is not None:
            objects.join()
        return iter(objects.store.recorder)

    def rank_of(self, key: int) -> int:
        """The rank where an object lives.

        Raises
        ------
        UnknownKeyError
            No such object.  An object added on another rank is known from the next loop on.
        """
        key = key_of(key)
        rank = self._objects.locations.rank_of.get(key)
        if rank is None:
            if key not in self._objects.store.items:
                raise UnknownKeyError(f"key {key}: no such object")
            rank = self.rank
        return rank

    def send(self, target: int, source: int, data: Any, *, copy: bool = True) -> None:
        """Send `data` from object `source`, which lives here, to object `target`, anywhere.

        It is in the target's inbox in the next pass, or after the next `exchange`.

        Parameters
        ----------
        data : object
            Anything that can be pickled.  Its value at this moment is sent.
        copy : bool
            False saves a copy; the caller promises that neither sender nor receiver modifies the
            data.

        Raises
        ------
        UnknownKeyError
            No such target (before the first loop: at its start), or the source lives elsewhere.
        """
        self._check_messages("send")
        objects = self._objects
        if source not in objects.store.items:
            raise UnknownKeyError(f"source {source}: no such object on rank {self.rank}")
        if objects.in_loop and target not in objects.locations.rank_of:
            raise UnknownKeyError(
                f"target {target} of a message from object {source}: no such object"
            )
        objects.mailbox.post(key_of(target, "target"), key_of(source, "source"), data, copy)

    def inbox(self, key: int) -> list[tuple[int, Any]]:
        """The messages that were sent to an object of this rank before the last exchange.

        Returns
        -------
        list of (source, data)
            Sorted by source, and the messages of one source in the order of sending.

        Raises
        ------
        UnknownKeyError
            No such object on this rank.
        """
        self._check_messages("inbox")
        if key not in self._objects.store.items:
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        return self._objects.mailbox.inbox.get(key, [])

    def _check_messages(self, name: str) -> None:
        if self._lag:
            raise StateError(
                f"{name}() with lag={self._lag}: expected lag=0; with a lag no messages "
                "are delivered"
            )
