"""The ranks that partition together: what each tells the others, and numbers of objects."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb.comm.agreement import Step
from pylb.comm.connect import agreement_of
from pylb.comm.directory import Directory
from pylb.comm.plan import Plan
from pylb.errors import DomainError, by_rank
from pylb.optional import require

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
T = TypeVar("T")
NUMBERS = 4  # that each rank may tell all others
ROW = struct.Struct(f"{1 + NUMBERS}q")  # a digest and the numbers


class RankFacts(NamedTuple):
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
    """The ranks of an mpi4py communicator, or (None) this process alone.

    Attributes
    ----------
    comm
        pylb's own duplicate; of one rank, the communicator itself.
    """

    def __init__(self, comm: Any = None):
        self.comm, self.rank, self.size = comm, 0, 1
        self.heard: list[dict[str, Any]] = []  # of each rank, in the last `together`
        self.numbers: list[tuple[int, ...]] = []  # the same
        if comm is not None:
            MPI = _mpi()
            if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
                raise DomainError(
                    f"comm is {comm!r}: expected an intracommunicator of mpi4py, or None"
                )
            self.rank, self.size = comm.rank, comm.size
        self.agreement = agreement_of(comm if self.size > 1 else None, hold=False)
        if self.size > 1:
            self.comm = self.agreement.transport.comm  # type: ignore[attr-defined]

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

    def together(self, call: Callable[[], T], facts: Callable[[T], RankFacts] | None = None) -> T:
        """Do something on every rank; if one fails, all raise its error.

        All ranks hear the `facts` of the result: `heard`, `numbers`.
        """
        said: Exception | None = None
        mine = RankFacts()
        try:
            value = call()
            mine = mine if facts is None else facts(value)
        except Exception as error:  # any: the others must hear of it
            if self.size == 1:
                raise
            said = error
        if self.size > 1:
            self.agreement.fail_alike(Step.PARTITION, said)
        if facts is not None:
            self._tell(mine)
        return value

    def _tell(self, mine: RankFacts) -> None:
        """Tell all ranks the facts: in full only if ranks differ."""
        if self.size == 1:
            self.heard, self.numbers = [mine.same], [mine.numbers]
            return
        rest = (0,) * (NUMBERS - len(mine.numbers))
        row = ROW.pack(mine.digest(), *mine.numbers, *rest)
        rows = self.agreement.transport.allgather(row)
        every = [ROW.unpack(r) for r in rows]
        self.heard, self.numbers = [mine.same] * self.size, [told[1:] for told in every]
        if any(digest != every[0][0] for digest, *_ in every):
            self.heard = self.gather(mine.same)
            _same(self.heard)

    def plan(self, dest: NDArray[Any]) -> Plan:
        """A way for items from here to the rank in each entry of `dest`.  Collective."""
        return Plan.on(self.agreement, dest)


@cache
def _mpi() -> Any:
    require("mpi4py")
    from mpi4py import MPI

    return MPI


def _same(everyone: list[dict[str, Any]]) -> None:
    """Check that every fact is the same on all ranks that have it."""
    names = {name for facts in everyone for name in facts if not name.startswith("_")}
    for name in sorted(names):
        seen = [facts.get(name) for facts in everyone]
        known = [x for x in seen if x is not None]
        if any(x != known[0] for x in known):
            raise DomainError(f"{name} differs: {by_rank(map(str, seen))}; expected one for all")


class Numbering:
    """The number of each id's object: objects are numbered through the ranks.  Collective.

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
        self.directory = Directory.on(ranks.agreement)
        self.directory.update(ids, first + np.arange(len(ids)))

    def of(self, ids: I64) -> I64:
        """Number of each id; -1: nobody has it.  Collective."""
        asked, where = np.unique(ids, return_inverse=True)
        return self.directory.find(asked, missing=True).local[where]
