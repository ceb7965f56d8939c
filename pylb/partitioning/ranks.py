"""Collective steps of a partition: compare the arguments of all ranks, and number the objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb.comm import program_end
from pylb.comm.agreement import Step
from pylb.comm.connect import agreement_of
from pylb.errors import DomainError, by_rank
from pylb.model import checks

T = TypeVar("T")
# What a rank sends to all other ranks about its arguments: plain Python values by name, and numbers
# of this rank.  A value must be equal on all ranks that have it, unless its name begins with "_".
RankFacts = tuple[dict[str, Any], tuple[Any, ...]]


class Ranks:
    """The ranks of an mpi4py communicator; without one, only this process."""

    def __init__(self, comm: Any = None):
        # pylb's own duplicate of the communicator; with one rank, the communicator itself, or None.
        self.comm, self.rank, self.size = comm, 0, 1
        # What the most recent call of `together` has exchanged: the `RankFacts` of each rank.
        self.heard: list[dict[str, Any]] = []
        self.numbers: list[tuple[Any, ...]] = []
        if comm is not None:
            program_end.watch_job()
            checks.intracommunicator(comm, ", or None")
            self.rank, self.size = comm.rank, comm.size
        self.agreement = agreement_of(comm if self.size > 1 else None, hold=False)
        if self.size > 1:
            self.comm = self.agreement.transport.comm  # type: ignore[attr-defined]

    def whole(self, call: Callable[[], T]) -> T:
        """Run all steps of a call; if one rank fails, all ranks raise its error in the next step.

        So call `ready`, a step, before each library call in which ranks wait for each other.
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

        `facts` returns the `RankFacts` of the result, which all ranks exchange and compare: see
        `heard` and `numbers`.
        """
        failure: Exception | None = None
        try:
            value = call()
            mine = None if facts is None else facts(value)
        except Exception as error:  # the other ranks must learn of every error
            if self.size == 1:
                raise
            failure = error
        if self.size > 1:
            self.agreement.fail_alike(Step.PARTITION, failure)
        if mine is not None:
            heard = self.gather(mine)
            self.heard, self.numbers = [same for same, _ in heard], [row for _, row in heard]
            for name in sorted({name for same in self.heard for name in same if name[0] != "_"}):
                seen = [same.get(name) for same in self.heard]
                known = [x for x in seen if x is not None]
                if any(x != known[0] for x in known):
                    values = by_rank(map(str, seen))
                    raise DomainError(f"{name} differs: {values}; expected the same on all ranks")
        return value


def owners(dist: NDArray[np.int64], number: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rank that owns each object or vertex; rank r has those from ``dist[r]`` on."""
    return np.searchsorted(dist, number, side="right") - 1
