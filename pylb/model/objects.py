"""Objects as columns: one table of their properties, from which everything else derives.

A new property is a row of `COLUMNS`, and an argument or a field where it is used; CONTRIBUTING.md
shows an example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import I32, I64, Rows, starts

NO_KEYS: I64 = np.zeros(0, np.int64)


class Column(NamedTuple):
    """A property of objects; an array of it has the shape (n, *shape).

    The words of `uses` say where it is used.  "given": the user gives it for each object.
    "seen": part of the load database, for strategies.  "recorded": part of a run record;
    "optional": the same, if all objects have it.  "saved": part of a checkpoint.
    """

    dtype: Any
    default: Any  # the value of an object without this property
    uses: str = ""
    shape: tuple[int, ...] = ()
    check: Callable[[str, Any], Any] | None = None  # checks what the user gives for one object


COLUMNS = {
    # bytes that a migration sends; 0: not known
    "nbytes": Column(np.int64, 0, "given seen recorded saved", check=checks.nbytes),
    # bytes that the object occupies; -1: not given
    "memory": Column(np.int64, -1, "given seen recorded saved", check=checks.nbytes),
    "migratable": Column(np.bool_, True, "given seen recorded saved", check=checks.flag),
    # the user's estimate, in any unit; 0: not given
    "work": Column(np.float64, 0.0, "given seen optional saved", check=checks.positive),
    # position; nan: not given
    "coords": Column(np.float64, np.nan, "given seen optional saved", (3,), checks.position),
    # id, bytes and home rank of the data that it shares with other objects; -1: none
    "shared": Column(np.int64, -1, "given seen optional saved", (3,), checks.shared),
    # the rank where it was added (not its home rank in the directory); -1: not known
    "home": Column(np.int32, -1, "recorded saved"),
    # a number that differs between objects that had the same key at different times
    "birth": Column(np.int64, 0, "optional"),
    # the rank from which the most recent LB step moved it; -1: none
    "was": Column(np.int32, -1, "saved"),
    # In the load database only.  rank: where the object is; load: expected seconds.
    "rank": Column(np.int32, 0),
    "load": Column(np.float64, 0.0),
    "here": Column(np.float64, 0.0),  # seconds on the object's present rank, to learn speeds
    "drift": Column(np.float64, 0.0),  # seconds by which the load changes per iteration
}


def used(*words: str) -> tuple[str, ...]:
    """Return the names of the columns that have one of these words in `uses`."""
    return tuple(name for name, c in COLUMNS.items() if {*words} & {*c.uses.split()})


CHECKS = {name: c.check for name, c in COLUMNS.items() if c.check is not None}


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Check the properties that the user gives for one object; leave out those that are None."""
    return {name: CHECKS[name](name, x) for name, x in given.items() if x is not None}


def joined(parts: list[NDArray[Any]], order: Any = None) -> NDArray[Any]:
    """Join the parts, and return the elements with the indices `order`; None: all."""
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole if order is None else whole[order]


class Objects:
    """The keys of n objects, (n,) int64, and the columns that differ from their default."""

    def __init__(self, key: I64, columns: dict[str, NDArray[Any]] | None = None) -> None:
        self.key, self.columns = key, {} if columns is None else columns

    def __len__(self) -> int:
        return len(self.key)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column, (n, ...), even if all objects have its default."""
        array = self.columns.get(name)
        if array is None:
            c = COLUMNS[name]
            array = np.full((len(self), *c.shape), c.default, c.dtype)
        return array

    def update(self, places: Any, given: dict[str, Any]) -> None:
        """Change properties of the objects with the indices `places`, or with one index."""
        for name, one in given.items():
            array = self[name]
            array[places] = one
            self.columns[name] = array

    @property
    def occupied(self) -> I64:
        """Bytes that each object occupies: as given, or else the bytes of its migration."""
        memory, nbytes = self.columns.get("memory"), self["nbytes"]
        return nbytes if memory is None else np.where(memory < 0, nbytes, memory)

    def only(self, *uses: str) -> Objects:
        """Return the objects with only the columns of these `uses`; the arrays are not copied."""
        names = used(*uses)
        return Objects(self.key, {x: a for x, a in self.columns.items() if x in names})

    def copy(self) -> Objects:
        return Objects(self.key, {name: array.copy() for name, array in self.columns.items()})

    def take(self, index: Any) -> Objects:
        return Objects(self.key[index], {name: a[index] for name, a in self.columns.items()})

    def plus(self, **columns: NDArray[Any]) -> Objects:
        """Return the objects with more columns."""
        return Objects(self.key, {**self.columns, **columns})

    @classmethod
    def join(cls, parts: list[Objects], order: Any = None) -> Objects:
        """Join the parts, and return the objects with the indices `order`; None: all."""
        names = {name for part in parts for name in part.columns}
        columns = {name: joined([part[name] for part in parts], order) for name in names}
        return cls(joined([part.key for part in parts], order), columns)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.key.nbytes + sum(array.nbytes for array in self.columns.values())


def blocks(shared: I64 | None, key: I64, alike: bool = True) -> dict[str, Any]:
    """Return what the objects `key` share as `block`, `block_bytes` and `home` of a `Snapshot`.

    If objects have different bytes or homes for one id, raise DomainError with `alike`; without
    it, these count as different data, because the program may have changed the data.
    """
    if shared is None or not (shared[:, 0] >= 0).any():
        return {}
    known, first, block = np.unique(
        shared[:, 0] if alike else shared, axis=0, return_index=True, return_inverse=True
    )
    block = block.reshape(-1)
    for i in np.flatnonzero((shared != shared[first[block]]).any(axis=1))[:1]:
        other = first[block[i]]
        raise DomainError(
            f"shared of object {key[i]} is {tuple(shared[i].tolist())}: expected "
            f"{tuple(shared[other].tolist())}, as for object {key[other]}, which shares these data"
        )
    if known.ravel()[0] < 0:  # objects that share nothing
        first, block = first[1:], block - 1
    nbytes, home = shared[first, 1], shared[first, 2]
    for i in np.flatnonzero(home < 0)[: int(alike and (home >= 0).any())]:
        what = f"shared data {shared[first[i], 0]} have no home"
        raise DomainError(f"{what}: expected a home for all shared data or for none")
    out = {"block": block.astype(np.int32), "block_bytes": nbytes}
    return {**out, "home": home.astype(np.int32)} if (home >= 0).all() else out


def shared_of(block: I32, block_bytes: I64, home: I32 | None) -> I64:
    """Return the column "shared" of objects from these fields of a `Snapshot`."""
    homes = np.full(len(block_bytes), -1) if home is None else home
    rows = np.stack([np.arange(len(block_bytes)), block_bytes, homes], axis=1)
    return np.append(rows, np.full((1, 3), -1), axis=0)[block]  # -1 selects the last row


class Database(NamedTuple):
    """The load database: all objects of all ranks, sorted by key, and what they send."""

    objects: Objects
    rows: Rows  # communication per iteration
    # (n,): index of each object in the joined parts of all ranks (rank 0 first); a slice if the
    # joined parts are already sorted by key.
    order: I64 | slice


def database(parts: list[Objects], edges: list[Any], passes: list[int]) -> Database:
    """Join the parts of all ranks, and their `Mail.edges`, each summed over `passes` iterations."""
    every = Objects.join(parts)
    rank = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
    order: I64 | slice = slice(None)  # select everything, without a copy
    if np.any(every.key[1:] < every.key[:-1]):
        order = np.argsort(every.key, kind="stable")  # fast, because keys mostly ascend
    objects = every.plus(rank=rank).take(order)
    return Database(objects, _rows(objects.key, edges, passes), order)


def _rows(key: I64, edges: list[Any], passes: list[int]) -> Rows:
    """Return the communication between these objects: edges, sorted, then multicasts by sender."""
    ends = np.concatenate([part[:, :2] for part in edges])
    places = _core.Keys(key if len(ends) else key[:0])
    src, dst = (places.places(ends[:, i]) for i in (0, 1))
    amounts = np.concatenate([part[:, 2:4] / k for part, k in zip(edges, passes, strict=True)])
    number = np.concatenate([part[:, 4] for part in edges])
    if number.any():  # each sender's multicasts stay in the order of sending
        by = np.lexsort((np.where(number > 0, 0, dst), src, number > 0))
    else:
        by = np.argsort(src * np.int64(len(key)) + dst, kind="stable")
    by = by[(src[by] >= 0) & (dst[by] >= 0)]  # leave out edges of removed objects
    which = np.zeros(len(by), np.int32)  # 1, 2, ..., independently of the number of ranks
    rows = by[cast := np.flatnonzero(number[by])]
    which[cast] = np.cumsum(starts(number[rows]) | starts(src[rows]))
    return Rows(src[by], dst[by], amounts[by, 0], amounts[by, 1], which)
