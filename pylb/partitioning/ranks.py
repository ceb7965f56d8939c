"""Collective steps of a partition: compare the arguments of all ranks, and number the objects."""

from __future__ import annotations

import marshal
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb.comm import program_end
from pylb.comm.agreement import Step
from pylb.comm.connect import agreement_of
from pylb.comm.directory import Directory
from pylb.comm.plan import Plan
from pylb.errors import DomainError, by_rank
from pylb.model import checks

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
T = TypeVar("T")
NUMBERS = 3  # greatest length of `RankFacts.numbers`
ROW = struct.Struct(f"{1 + NUMBERS}q")  # a hash of `RankFacts.same`, then the numbers


class RankFacts(NamedTuple):
    """What a rank sends to all other ranks about its arguments."""

    #: Plain Python values, always in the same order.  A value must be equal on all ranks that have
    #: it, unless its name begins with an underscore.
    same: dict[str, Any] = {}  # noqa: RUF012  never changed
    numbers: tuple[int, ...] = ()  #: At most `NUMBERS` numbers of this rank.

    def row(self) -> bytes:
        """Return a hash of `same`, and the numbers."""
        words = marshal.dumps(self.same, 2)  # version 2: equal values give equal bytes
        digest = int.from_bytes(blake2b(words, digest_size=8).digest(), "little", signed=True)
        rest = (0,) * (NUMBERS - len(self.numbers))
        return ROW.pack(digest, *self.numbers, *rest)


class Ranks:
    """The ranks of an mpi4py communicator; without one, only this process."""

    def __init__(self, comm: Any = None):
        # pylb's own duplicate of the communicator; with one rank, the communicator itself, or None.
        self.comm, self.rank, self.size = comm, 0, 1
        # What the most recent call of `together` has exchanged: `same` and `numbers` of each rank.
        self.heard: list[dict[str, Any]] = []
        self.numbers: list[tuple[int, ...]] = []
        if comm is not None:
            program_end.watch_job()
            checks.intracommunicator(comm, ", or None")
            self.rank, self.size = comm.rank, comm.size
        self.agreement = agreement_of(comm if self.size > 1 else None, hold=False)
        if self.size > 1:
            self.comm = self.agreement.transport.comm  # type: ignore[attr-defined]

    def whole(self, call: Callable[[], T]) -> T:
        """Run all steps of a call; if one rank fails, all ranks raise an error.

        A rank that has failed joins the next step of the agreement, where all learn of its failure.
        So call `ready`, which is a step, before each library call in which ranks wait for each
        other.
        """
        return call() if self.size == 1 else self.agreement.together(Step.PARTITION, call)

    def ready(self) -> None:
        """Wait until all ranks are here.  If one has failed, all ranks raise its error."""
        if self.size > 1:
            self.agreement.step(Step.PARTITION, 0)

    def gather(self, value: T) -> list[T]:
        if self.size == 1:
            return [value]
        self.ready()
        return self.comm.allgather(value)  # type: ignore[no-any-return]

    def sum(self, array: Any) -> Any:
        """Add the arrays of all ranks, entry by entry."""
        if self.size == 1:
            return array
        out = np.empty_like(array)
        self.ready()
        self.comm.Allreduce(array, out)
        return out

    def together(self, call: Callable[[], T], facts: Callable[[T], RankFacts] | None = None) -> T:
        """Call a function on every rank; if it fails on one rank, all ranks raise its error.

        `facts` returns the `RankFacts` of the result.  All ranks then exchange these: see `heard`
        and `numbers`.
        """
        failure: Exception | None = None
        mine, row = RankFacts(), b""
        try:
            value = call()
            if facts is not None:
                mine = facts(value)
                row = mine.row()
        except Exception as error:  # the other ranks must learn of every error
            if self.size == 1:
                raise
            failure = error
        if self.size > 1:
            self.agreement.fail_alike(Step.PARTITION, failure)
        if facts is not None:
            self._tell(mine, row)
        return value

    def _tell(self, mine: RankFacts, row: bytes) -> None:
        """Exchange the rows, and `same` itself only if the hashes differ."""
        if self.size == 1:
            self.heard, self.numbers = [mine.same], [mine.numbers]
            return
        rows = self.agreement.transport.allgather(row)
        every = [ROW.unpack(r) for r in rows]
        self.heard, self.numbers = [mine.same] * self.size, [numbers[1:] for numbers in every]
        if any(digest != every[0][0] for digest, *_ in every):
            self.heard = self.gather(mine.same)
            names = {name for facts in self.heard for name in facts if not name.startswith("_")}
            for name in sorted(names):
                seen = [facts.get(name) for facts in self.heard]
                known = [x for x in seen if x is not None]
                if any(x != known[0] for x in known):
                    raise DomainError(
                        f"{name} differs: {by_rank(map(str, seen))}; expected the same on all ranks"
                    )

    def plan(self, dest: Callable[[], NDArray[Any]]) -> Plan:
        """Make a plan that sends each item to the rank that `dest` returns.  Collective."""
        return Plan.on(self.agreement, dest)


def owners(dist: I64, number: NDArray[Any]) -> I64:
    """Return the rank that owns each object or vertex; rank r has those from ``dist[r]`` on."""
    return np.searchsorted(dist, number, side="right") - 1


class Numbering:
    """Find the global indices of objects by their ids.  Collective.

    `ids` (n,) are those of this rank's objects, which have the indices from `first` on.  All ranks
    raise DuplicateKeyError if two objects have the same id.
    """

    def __init__(self, ranks: Ranks, ids: I64, first: int):
        self.directory = Directory.on(ranks.agreement)
        self.directory.update(ids, first + np.arange(len(ids)))

    def of(self, ids: I64) -> I64:
        """Return the global index for each id, or -1 if no rank has it.  Collective."""
        asked, where = np.unique(ids, return_inverse=True)
        return self.directory.find(asked, missing=True).local[where]
