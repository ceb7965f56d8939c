"""The ranks that ask together: agreement on errors, exchange of arrays, numbers of objects."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb.comm.directory import Directory
from pylb.comm.plan import Plan
from pylb.errors import BY_CODE, DomainError, PylbError, RemoteError, by_rank
from pylb.optional import require

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
T = TypeVar("T")
NUMBERS = 4  # that each rank may tell all others
ROW = struct.Struct(f"{2 + NUMBERS}q")  # behind whether it has failed, and a digest


class Facts(NamedTuple):
    """What a rank tells all others of its result.

    Attributes
    ----------
    same : dict
        Plain Python values, in one order.  Equal on all ranks that have them, but for those whose
        name begins with an underscore.
    numbers : tuple of int
        Of this rank, at most `NUMBERS`.
    """

    same: dict[str, Any] = {}  # noqa: RUF012  never changed
    numbers: tuple[int, ...] = ()

    def digest(self) -> int:
        """Of what must be equal."""
        words = marshal.dumps(self.same, 2)  # no references: equal for what is equal
        return int.from_bytes(blake2b(words, digest_size=8).digest(), "little", signed=True)


class Ranks:
    """A communicator of mpi4py, or (None) this process alone."""

    def __init__(self, comm: Any = None):
        self.comm, self.rank, self.size = comm, 0, 1
        self.heard: list[dict[str, Any]] = []  # of each rank, in the last `together`
        self.numbers: list[tuple[int, ...]] = []  # the same
        if comm is None:
            return
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
                self.heard, self.numbers = [same], [numbers]
            return value
        said: Exception | None = None
        mine = Facts()
        try:
            value = call()
            mine = mine if facts is None else facts(value)
        except Exception as error:  # any: the others must hear of it
            said = error
        rest = (0,) * (NUMBERS - len(mine.numbers))
        row = ROW.pack(said is not None, mine.digest(), *mine.numbers, *rest)
        found = bytearray(len(row) * self.size)
        self.comm.Allgather(row, found)
        every = list(ROW.iter_unpack(found))
        self.heard, self.numbers = [mine.same] * self.size, [told[2:] for told in every]
        if any(failed or digest != every[0][1] for failed, digest, *_ in every):
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

    def plan(self, dest: NDArray[Any]) -> Plan:
        """A way for items from here to the rank in each entry of `dest`.  Collective."""
        return Plan(self.comm if self.size > 1 else None, dest)


@cache
def _mpi() -> Any:
    require("mpi4py")
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


class Numbering:
    """Which number the object of each id has: objects are numbered through the ranks.  Collective.

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
        self.directory = Directory(ranks.comm if ranks.size > 1 else None)
        self.directory.update(ids, first + np.arange(len(ids)))

    def of(self, ids: I64) -> I64:
        """Number of each id; -1: nobody has it.  Collective."""
        asked, where = np.unique(ids, return_inverse=True)
        return self.directory.find(asked, missing=True).local[where]
