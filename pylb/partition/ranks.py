"""The ranks that ask together: agreement on errors, exchange of arrays, a directory of ids."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb.errors import BY_CODE, DomainError, PylbError, RemoteError, UnknownKeyError, by_rank
from pylb.parts import require

I64 = NDArray[np.int64]
T = TypeVar("T")
NUMBERS = 4  # that each rank may tell all others


class Facts(NamedTuple):
    """What a rank tells all others of its result.

    Attributes
    ----------
    same : dict
        Must be equal on all ranks that have them, but for those whose name begins with an
        underscore.
    numbers : tuple of int
        Of this rank, at most `NUMBERS`.
    """

    same: dict[str, Any] = {}  # noqa: RUF012  never changed
    numbers: tuple[int, ...] = ()

    def digest(self) -> int:
        """Of what must be equal."""
        text = repr(sorted(self.same.items())).encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


class Ranks:
    """A communicator of mpi4py, or (None) this process alone."""

    def __init__(self, comm: Any = None):
        self.comm, self.rank, self.size = comm, 0, 1
        self.heard: list[dict[str, Any]] = []  # of each rank, in the last `together`
        self.numbers = np.zeros((1, NUMBERS), np.int64)  # the same
        if comm is None:
            return
        require("mpi4py")
        MPI = _mpi()
        if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
            raise DomainError(f"comm is {comm!r}: expected an intracommunicator of mpi4py, or None")
        self.rank, self.size = comm.rank, comm.size

    def gather(self, value: T) -> list[T]:
        """The value of every rank, on every rank."""
        return [value] if self.size == 1 else self.comm.allgather(value)

    def sum(self, array: Any) -> Any:
        """Sum over the ranks, entry by entry."""
        if self.size == 1:
            return array
        out = np.empty_like(array)
        self.comm.Allreduce(array, out)
        return out

    def together(self, call: Callable[[], T], facts: Callable[[T], Facts] | None = None) -> T:
        """Do something on every rank; where one fails, all raise what that one has to say.

        `facts` of the result are heard by all: `heard`, `numbers`.  Where nothing is amiss this
        costs one exchange of a few numbers.
        """
        if self.size == 1:
            value = call()
            if facts is not None:
                same, numbers = facts(value)
                self.heard, self.numbers = [same], np.array([numbers])
            return value
        said: Exception | None = None
        mine = Facts()
        try:
            value = call()
            mine = mine if facts is None else facts(value)
        except Exception as error:  # any: the others must hear of it
            said = error
        row = np.zeros(2 + NUMBERS, np.int64)
        row[:2] = said is not None, mine.digest()
        row[2 : 2 + len(mine.numbers)] = mine.numbers
        every = np.empty((self.size, len(row)), np.int64)
        self.comm.Allgather(row, every)
        self.heard, self.numbers = [mine.same] * self.size, every[:, 2:]
        if every[:, 0].any() or (every[:, 1] != every[0, 1]).any():
            self._tell(said, mine)
        return value

    def _tell(self, said: Exception | None, mine: Facts) -> None:
        """In full, where ranks differ or one has failed."""
        told = None if said is None else (type(said).__name__, str(said))
        everyone = self.gather((told, mine.same))
        for rank, (failed, _) in enumerate(everyone):
            if failed is not None:
                raise _remote(rank, *failed) from said
        self.heard = [theirs for _, theirs in everyone]
        _same(self.heard)

    def route(self, dest: NDArray[Any]) -> Route:
        """A way from here to the rank in each entry of `dest`."""
        return Route(self, dest)


def _mpi() -> Any:
    from mpi4py import MPI

    return MPI


def _remote(rank: int, name: str, text: str) -> BaseException:
    """What another rank raised, as the same class where it is one of pylb's."""
    kinds = {kind.__name__: kind for kind in (*BY_CODE.values(), *PylbError.__subclasses__())}
    kind = kinds.get(name)
    if kind is None:
        return RemoteError(f"rank {rank}: {name}: {text}")
    return kind(f"rank {rank}: {text}")


def _same(everyone: list[dict[str, Any]]) -> None:
    """Every fact that a rank has is the same as that of the others that have it."""
    names = {name for facts in everyone for name in facts if not name.startswith("_")}
    for name in sorted(names):
        seen = [facts.get(name) for facts in everyone]
        known = [x for x in seen if x is not None]
        if any(x != known[0] for x in known):
            raise DomainError(f"{name} differs: {by_rank(map(str, seen))}; expected one for all")


class Route:
    """Rows go to ranks, and what comes back lies as the rows did."""

    def __init__(self, ranks: Ranks, dest: NDArray[Any]):
        self.ranks = ranks
        if ranks.size == 1:
            return
        small = dest.astype(np.int16 if ranks.size < 2**15 else np.int32, copy=False)
        self.order = np.argsort(small, kind="stable")  # of 16 bits: by radix
        self.out = np.bincount(dest, minlength=ranks.size).astype(np.int32)
        self.into = np.empty_like(self.out)
        ranks.comm.Alltoall(self.out, self.into)

    @property
    def source(self) -> NDArray[np.int32]:
        """The rank that each row came from."""
        if self.ranks.size == 1:
            raise AssertionError("a single rank knows where its rows came from")
        return np.arange(self.ranks.size, dtype=np.int32).repeat(self.into)

    def send(self, array: NDArray[Any]) -> NDArray[Any]:
        """Each row to its rank; those that arrive stand in the order of the ranks."""
        if self.ranks.size == 1:
            return array
        return self._exchange(array[self.order], self.out, self.into)

    def back(self, array: NDArray[Any]) -> NDArray[Any]:
        """An entry for each row that arrived, to where it came from."""
        if self.ranks.size == 1:
            return array
        out = np.empty(len(self.order), array.dtype)
        out[self.order] = self._exchange(np.ascontiguousarray(array), self.into, self.out)
        return out

    def _exchange(self, array: Any, out: Any, into: Any) -> NDArray[Any]:
        received: NDArray[Any] = np.empty((int(into.sum()), *array.shape[1:]), array.dtype)
        width = prod(array.shape[1:])
        self.ranks.comm.Alltoallv([array, width * out], [received, width * into])
        return received


class Directory:
    """Which number the object of each id has; ids lie on ranks by a hash.

    Parameters
    ----------
    ranks : Ranks
    ids : (n,) int64
        Of the own objects.
    first : int
        Number of the first own object; the others follow.

    Raises
    ------
    UnknownKeyError
        Two objects have the same id; on every rank.
    """

    def __init__(self, ranks: Ranks, ids: I64, first: int):
        self.ranks = ranks
        route = ranks.route(self._home(ids))
        held = route.send(ids)
        number = route.send(first + np.arange(len(ids)))
        order = np.argsort(held, kind="stable")
        self.held, self.number = held[order], number[order]
        ranks.together(self._check)

    def _home(self, ids: I64) -> NDArray[np.int32]:
        mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
        home: NDArray[np.int32] = (mixed % np.uint64(self.ranks.size)).astype(np.int32)
        return home

    def _check(self) -> None:
        twice = np.flatnonzero(self.held[1:] == self.held[:-1])
        if len(twice):
            raise UnknownKeyError(
                f"ids: {self.held[twice[0]]} is there twice: expected each object once"
            )

    def numbers(self, ids: I64) -> I64:
        """Number of each id; -1: nobody has it.  Collective."""
        asked, where = np.unique(ids, return_inverse=True)
        route = self.ranks.route(self._home(asked))
        wanted = route.send(asked)
        at = np.minimum(np.searchsorted(self.held, wanted), max(len(self.held) - 1, 0))
        found = np.full(len(wanted), -1)
        if len(self.held):
            found = np.where(self.held[at] == wanted, self.number[at], -1)
        return np.asarray(route.back(found)[where], dtype=np.int64)
