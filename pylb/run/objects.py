"""The objects of one rank, where all objects live, and the load database of all ranks."""

from __future__ import annotations

import operator
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.comm.transport import Transport
from pylb.errors import DomainError, DuplicateKeyError
from pylb.model.snapshot import F64, I32, I64

ESTIMATE_ROWS = _core.ESTIMATE_ROWS
HERE = 4  # first row of the estimates from passes on this rank
FACTS = 5  # integer properties of an object


@dataclass
class Item:
    """An object of this rank and its properties.

    Attributes
    ----------
    nbytes : int
        Bytes that a migration sends: given by the user, else measured by `SizeEstimator`, else 0.
    memory : int
        Bytes that it occupies; -1: not given.
    work : float
        The user's estimate, in any unit; 0: not given.
    home : int
        The rank where it was added.
    past : tuple of float
        Its column of `Store.estimates` on its previous rank.
    """

    key: int
    value: Any
    nbytes: int = 0
    memory: int = -1
    migratable: bool = True
    work: float = 0.0
    home: int = 0
    past: tuple[float, ...] = (0.0,) * ESTIMATE_ROWS

    def facts(self) -> tuple[int, ...]:
        """The object's integer properties (`FACTS`)."""
        return self.key, self.nbytes, self.memory, self.migratable, self.home


def key_of(key: Any, name: str = "key") -> int:
    """`key` as int64."""
    try:
        out = operator.index(key)
    except TypeError:
        raise DomainError(f"{name} is {key!r}: expected an integer") from None
    if not -(2**63) <= out < 2**63:
        raise DomainError(f"{name} is {out}: expected an integer of 64 bits")
    return out


@dataclass
class Changes:
    """Objects that were added or removed here, of which the other ranks do not know yet.

    Attributes
    ----------
    new : dict of Item
        By key.
    gone : set of int
    """

    new: dict[int, Item] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.new) + len(self.gone)

    def share(self, transport: Transport) -> tuple[list[I64], set[int]]:
        """Return the new keys of each rank, and all keys that are gone.  Collective."""
        mine = np.array([len(self.new), *self.new, *self.gone], np.int64)
        every = [np.frombuffer(b, np.int64) for b in transport.allgather(mine)]
        new = [keys[1 : 1 + keys[0]] for keys in every]
        gone = [keys[1 + keys[0] :] for keys in every]
        return new, set(np.concatenate(gone).tolist())


class Store:
    """The objects of this rank, in order of key, and their measured loads.

    Attributes
    ----------
    items : dict of Item
        By key, ascending once `arrange` was called.
    recorder : _core.Recorder
        Yields (key, object) and adds the time of each loop body to `seconds`.
    seconds : (n,) float64
        Loads of the pass so far.
    estimates : (9, n) float64
        Estimates of the loads, see ``csrc/measure/estimate.h``; the first row is the load that is
        expected of each object.  The column of an object migrates with it.
    window : (n,) float64
        Sum of the loads of `passes` passes since the last LB step.
    """

    def __init__(self, clock: str) -> None:
        self.clock = clock
        self.items: dict[int, Item] = {}
        self._order: list[int] = []
        self.estimates: F64 = np.zeros((ESTIMATE_ROWS, 0))
        self.window: F64 = np.zeros(0)
        self.passes = 0
        self.arrange()

    def arrange(self) -> None:
        """Order the objects by key after a change; the estimates of their loads are kept."""
        known = dict(zip(self._order, self.estimates.T.tolist(), strict=True))
        sums = dict(zip(self._order, self.window.tolist(), strict=True))
        self.items = dict(sorted(self.items.items()))
        self._order = list(self.items)
        past = [known.get(key, item.past) for key, item in self.items.items()]
        self.estimates = np.array(past).reshape(-1, ESTIMATE_ROWS).T.copy()
        self.window = np.array([sums.get(key, 0.0) for key in self._order])
        self.seconds: F64 = np.zeros(len(self.items))
        self.recorder = _core.Recorder(
            tuple((key, item.value) for key, item in self.items.items()), self.seconds, self.clock
        )

    def change(self, changes: Changes) -> None:
        """Add and remove objects; call `arrange` afterwards."""
        for key in changes.gone:
            self.items.pop(key, None)
        self.items.update(changes.new)

    def end_pass(self) -> None:
        """Enter the loads of the pass into the estimates and the window."""
        _core.end_pass(self.seconds, self.estimates, self.window)
        self.passes += 1

    def forget(self) -> None:
        """Start a new window."""
        self.window.fill(0.0)
        self.passes = 0

    def drift(self) -> F64:
        """Return the change of each load per pass, (n,), as ``plb_estimate_drift`` does."""
        error, spread = self.estimates[2:HERE]
        signal = np.divide(np.abs(error), spread, out=np.zeros_like(error), where=spread > 0)
        drift: F64 = error * np.minimum(signal, 1.0)
        return drift

    def leave(self, keys: I64, factor: F64) -> None:
        """Convert the estimates of leaving objects to seconds of their new ranks.

        keys: of the leaving objects, ascending; factor: how many times faster the new rank is.
        """
        at = np.searchsorted(np.array(self._order, np.int64), keys)
        for row in (0, 2, 3):  # all but the number of passes
            self.estimates[row, at] /= factor
        self.estimates[HERE:, at] = 0.0

    def facts(self) -> I64:
        """The integer properties of each object, (n, 5)."""
        rows = [item.facts() for item in self.items.values()]
        return np.array(rows, np.int64).reshape(-1, FACTS)

    def past(self, key: int) -> tuple[float, ...]:
        """The estimates of an object that was here when `arrange` was called."""
        return tuple(self.estimates[:, bisect_left(self._order, key)].tolist())


class Locations:
    """Where every object lives; the same on all ranks.

    Attributes
    ----------
    keys : (n,) int64
        Keys of all objects, ascending.
    rank : (n,) int32
        The rank of each.
    rank_of : dict
        The rank by key.
    """

    def __init__(self) -> None:
        self.keys: I64 = np.zeros(0, np.int64)
        self.rank: I32 = np.zeros(0, np.int32)
        self.rank_of: dict[int, int] = {}

    def add(self, keys: list[I64]) -> None:
        """Add the new keys of each rank.

        Raises
        ------
        DuplicateKeyError
            A key exists already; the message names both ranks, and nothing is added.
        """
        ranks = [np.full(len(k), r, np.int32) for r, k in enumerate(keys)]
        every = np.concatenate([self.keys, *keys])
        rank = np.concatenate([self.rank, *ranks])
        order = np.argsort(every, kind="stable")
        every, rank = every[order], rank[order]
        twice = np.flatnonzero(every[1:] == every[:-1])
        if len(twice):
            i = twice[0]
            first, second = sorted(rank[i : i + 2].tolist())
            raise DuplicateKeyError(
                f"key {every[i]} was added twice: on rank {first} and on rank {second}"
            )
        self.keys = every
        self.move(rank)

    def remove(self, keys: set[int]) -> None:
        """Remove objects."""
        if keys:
            stays = ~np.isin(self.keys, list(keys))
            self.keys = self.keys[stays]
            self.move(self.rank[stays])

    def move(self, rank: I32) -> None:
        """Set the new rank of each object."""
        self.rank = rank
        self.rank_of = dict(zip(self.keys.tolist(), rank.tolist(), strict=True))


class Database(NamedTuple):
    """The objects of all ranks in order of key, the same on any number of ranks.

    Attributes
    ----------
    order : (n,) int64
        Index of each object in the concatenated parts of the ranks.
    key, bytes, memory : (n,) int64
        memory: negative if not given.
    migratable : (n,) bool
    home : (n,) int32
        The rank where it was added.
    src, dst : (m,) int32
        Indices of objects that talk, sorted by source and target.
    edge_bytes, edge_messages : (m,) float64
        Per iteration.
    """

    order: I64
    key: I64
    bytes: I64
    memory: I64
    migratable: Any
    home: I32
    src: I32
    dst: I32
    edge_bytes: F64
    edge_messages: F64


def database(facts: list[Any], edges: list[Any], passes: list[int]) -> Database:
    """Join the parts of all ranks.

    facts: `Store.facts` of each rank; edges: `Mailbox.edges` of each rank; passes: number of
    iterations over which the edges of each rank are summed.
    """
    every = np.concatenate(facts)
    order = np.argsort(every[:, 0])
    key, nbytes, memory, migratable, home = np.ascontiguousarray(every[order].T)
    ends = np.concatenate([part[:, :2] for part in edges])
    amounts = np.concatenate([part[:, 2:] / k for part, k in zip(edges, passes, strict=True)])
    by = np.lexsort((ends[:, 1], ends[:, 0]))
    by = by[
        np.isin(ends[by], key).all(axis=1)
    ]  # the receiver of a message may have been removed since
    src, dst = (np.searchsorted(key, ends[by, i]).astype(np.int32) for i in (0, 1))
    return Database(
        order,
        key,
        nbytes,
        memory,
        migratable.astype(bool),
        home.astype(np.int32),
        src,
        dst,
        amounts[by, 0],
        amounts[by, 1],
    )
