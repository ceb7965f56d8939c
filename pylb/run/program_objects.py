"""The methods by which a program adds its objects, loops over them and sends messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DuplicateKeyError, UnknownKeyError
from pylb.model import checks
from pylb.model.objects import checked
from pylb.model.snapshot import I32
from pylb.run.local_objects import LocalObjects, key_of
from pylb.run.options import no_messages


class ProgramObjects:
    """The objects of a parallel program and the messages between them."""

    def __init__(self, objects: LocalObjects, lag: float) -> None:
        self._objects, self._lag = objects, lag
        self._mail = cast(_core.Mail, NoMessages(lag)) if lag else objects.mailbox.mail

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
        coords: ArrayLike | None = None,
    ) -> None:
        """Add an object to the balancer, on this rank.

        An object that is added within ``iterate`` takes part from the next iteration on.

        Parameters
        ----------
        key : int
            A unique 64-bit integer that identifies the object on all ranks.
        block : object
            Any value that can be pickled.  It belongs to the balancer from now on: a migration
            replaces it by a copy.
        nbytes : int
            Bytes that a migration sends.  0: pylb measures them by packing some of the objects.
        memory : int, optional
            Bytes that the object occupies.  Default: the bytes that a migration sends.
        migratable : bool
            False: the object stays on this rank.
        work : float, optional
            Your own estimate of the object's work, above 0, in any unit.  With
            ``learn_speeds=True``, the speeds of the ranks can then be estimated before any object
            has moved.
        coords : (1 ... 3,) array_like of float, optional
            The object's position, for strategies that read it (RCBLB, HSFCLB); missing dimensions
            are 0.  Give it for all objects, or for none.

        Raises
        ------
        DuplicateKeyError
            The key exists already.  If it was added on another rank, all ranks raise at the start
            of the next loop, or at the end of the present iteration.
        """
        objects, key = self._objects, key_of(key)
        if objects.has(key):
            raise DuplicateKeyError(f"key {key} was added twice on rank {self.rank}")
        properties = {"nbytes": nbytes or None, "memory": memory, "work": work, "coords": coords}
        if migratable is not True:
            properties["migratable"] = checks.flag("migratable", migratable)  # also None
        objects.add(key, block, checked(properties))

    def update(
        self,
        key: int,
        *,
        nbytes: int | None = None,
        memory: int | None = None,
        migratable: bool | None = None,
        work: float | None = None,
        coords: ArrayLike | None = None,
    ) -> None:
        """Change properties of an object of this rank, see `add`.  None: no change.

        Raises
        ------
        UnknownKeyError
            There is no such object on this rank.
        """
        key = self._key_here(key)
        properties = {"nbytes": nbytes, "memory": memory, "migratable": migratable, "work": work}
        self._objects.update(key, checked({**properties, "coords": coords}))

    def remove(self, key: int) -> Any:
        """Remove an object of this rank from the balancer, and the messages to it.

        Within ``iterate``, the object is removed at the end of the iteration.

        Returns
        -------
        object
            The object.

        Raises
        ------
        UnknownKeyError
            There is no such object on this rank.
        """
        key = self._key_here(key)
        return self._objects.remove(key)

    def _key_here(self, key: int) -> int:
        """Check that this rank has the object, and return its key as an int."""
        key = key_of(key)
        if not self._objects.has(key):
            raise UnknownKeyError(f"key {key}: no such object on rank {self.rank}")
        return key

    def local(self) -> Iterator[tuple[int, Any]]:
        """Yield (key, object) for the objects of this rank, ascending by key; time each loop body.

        The times of several loops in one iteration are added up.  In the first loop after an LB
        step, large objects that have come to this rank are last: they arrive while the others
        compute.
        """
        objects = self._objects
        if not objects.in_loop:
            objects.arrange()
        elif objects.stale and objects.join is not None:
            objects.join()
        return objects.store.local()

    def rank_of(self, key: int) -> int:
        """Return the rank where an object lives, if this rank knows it.

        A rank knows its own objects, those to which it has sent messages, and those for which it
        has called `ranks_of`.  Migrations update this knowledge.  In an LB step, a rank may forget
        objects to which it has sent no message since the previous LB step, except those for which
        it has called `ranks_of`.

        Raises
        ------
        UnknownKeyError
            This rank knows no such object.
        """
        objects, key = self._objects, key_of(key)
        if objects.has(key):
            return self.rank
        rank = int(objects.addresses.find(np.array([key]))[0])
        if rank < 0:
            raise UnknownKeyError(
                f"key {key}: no such object known on rank {self.rank}; ranks_of() asks all ranks"
            )
        return rank

    def ranks_of(self, keys: ArrayLike) -> I32:
        """Return the ranks where objects live.  Collective; each rank asks for any keys, or none.

        From then on, `rank_of` knows these objects on this rank, even after they have migrated.

        Parameters
        ----------
        keys : (n,) array_like of int

        Returns
        -------
        (n,) ndarray of int32

        Raises
        ------
        UnknownKeyError
            There is no such object; every rank raises.  An object that was added on another rank is
            known only from the next loop or iteration on.
        """
        return self._objects.ranks_of(checks.integers("keys", keys, np.int64))

    def send(self, target: int, source: int, data: Any, *, copy: bool = True) -> None:
        """Send `data` from object `source` on this rank to object `target` on any rank.

        The message is in the target's inbox in the next iteration, or after the next `exchange`.
        Between two loops, it comes in addition to the messages of the last iteration.

        Parameters
        ----------
        data : object
            Any value that can be pickled.  Later changes do not affect the message.
        copy : bool
            False: `data` are not copied, and the caller promises that neither sender nor receiver
            modifies them.

        Raises
        ------
        SerializationError
            The data cannot be pickled.  (With ``copy=False``, all ranks raise at the next exchange
            of messages.)
        UnknownKeyError
            The source is not on this rank.  If the target does not exist, all ranks raise at the
            next exchange of messages, and the messages of that iteration are dropped.
        """
        if copy is not True:
            checks.flag("copy", copy)
        try:
            self._mail.post(target, source, data, copy)
        except UnknownKeyError as why:
            if not self._objects.catches_up():
                raise UnknownKeyError(f"{why} {self.rank}") from None
            self._mail.post(target, source, data, copy)

    def multicast(
        self, targets: Iterable[int], source: int, data: Any, *, copy: bool = True
    ) -> None:
        """Send `data` from object `source` on this rank to several objects on any ranks.

        The receivers get the same messages as by a `send` to each of `targets`: an object that is
        named twice gets the data twice.  But this rank copies and packs the data only once, and
        sends them only once to each rank with receivers.  LB steps take this into account: the cost
        of a multicast grows with the number of ranks that it reaches (`pylb.model.Multicasts`).

        Parameters
        ----------
        targets : iterable of int
            Keys of the receivers; the source may be among them.  If empty, nothing is sent.
        data : object
            As for `send`.  Each receiver gets a separate copy, made on the receiver's rank.
        copy : bool
            False: the receivers on a rank share the data, and the caller promises that neither
            sender nor receivers modify them.

        Raises
        ------
        DomainError
            `targets` are not integers; nothing is sent.
        SerializationError, UnknownKeyError
            As for `send`.

        Notes
        -----
        If this rank does not know where a receiver is, it sends the data to the receiver's home,
        the rank that always knows.  Then the data can reach a rank twice; the receiver still gets
        them once.

        Examples
        --------
        >>> lb = pylb.Balancer()
        >>> for key in range(4):
        ...     lb.add(key, None)
        >>> for it in lb.iterate(2):
        ...     got = [lb.inbox(key) for key, _ in lb.local()]
        ...     lb.multicast([1, 2, 3], 0, "halo")
        >>> got
        [[], [(0, 'halo')], [(0, 'halo')], [(0, 'halo')]]
        """
        checks.flag("copy", copy)
        try:
            self._mail.multicast(targets, source, data, copy)
        except UnknownKeyError as why:
            if not self._objects.catches_up():
                raise UnknownKeyError(f"{why} {self.rank}") from None
            self._mail.multicast(targets, source, data, copy)

    def inbox(self, key: int) -> list[tuple[int, Any]]:
        """Return the messages that were delivered last to an object of this rank; see `send`.

        Returns
        -------
        list of (source, data)
            Sorted by source; the messages of one source are in the order of sending.

        Raises
        ------
        UnknownKeyError
            There is no such object on this rank.
        """
        try:
            return self._mail.inbox(key)
        except UnknownKeyError as why:
            if not self._objects.catches_up():
                raise UnknownKeyError(f"{why} {self.rank}") from None
            return self._mail.inbox(key)


class NoMessages:
    """Takes the place of `_core.Mail` if the Balancer has a lag: all calls raise StateError."""

    def __init__(self, lag: float) -> None:
        self._lag = lag

    def post(self, *_: Any) -> None:
        raise no_messages("send", self._lag)

    def multicast(self, *_: Any) -> None:
        raise no_messages("multicast", self._lag)

    def inbox(self, _: Any) -> None:
        raise no_messages("inbox", self._lag)
