"""Collective steps of a partition: compare the arguments of all ranks, and number the objects."""

from __future__ import annotations

import zlib
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
# What a rank sends to all other ranks about its arguments: plain Python values by name, always in
# the same order, and numbers of this rank.  A value must be equal on all ranks that have it, unless
# its name begins with an underscore.
RankFacts = tuple[dict[str, Any], tuple[int, ...]]


class Ranks:
    """The ranks of an mpi4py communicator; without one, only this process."""

    def __init__(self, comm: Any = None):
        # pylb's own duplicate of the communicator; with one rank, the communicator itself, or None.
        self.comm, self.rank, self.size = comm, 0, 1
        # What the most recent call of `together` has exchanged: the `RankFacts` of each rank.
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

        They learn of the failure in the next step of the agreement.  So call `ready`, which is a
        step, before each library call in which ranks wait for each other.
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
            self._tell(*mine)
        return value

    def _tell(self, same: dict[str, Any], numbers: tuple[int, ...]) -> None:
        """Exchange a hash of `same` and the numbers; if hashes differ, exchange `same` itself."""
        self.heard, self.numbers = [same] * self.size, [numbers]
        if self.size == 1:
            return
        row = np.array([zlib.crc32(repr(same).encode()), *numbers], np.int64)
        rows = self.agreement.transport.allgather(row)
        every = [np.frombuffer(r, np.int64).tolist() for r in rows]
        self.numbers = [tuple(numbers) for _, *numbers in every]
        if any(digest != every[0][0] for digest, *_ in every):
            self.heard = self.gather(same)
            names = {name for facts in self.heard for name in facts if not name.startswith("_")}
            for name in sorted(names):
                seen = [facts.get(name) for facts in self.heard]
                known = [x for x in seen if x is not None]
                if any(x != known[0] for x in known):
                    if isinstance(known[0], tuple):  # show only the first entries that differ
                        i = next(
                            i for i, row in enumerate(zip(*known, strict=True)) if len({*row}) > 1
                        )
                        name, seen = f"{name}[{i}]", [x and x[i] for x in seen]
                    raise DomainError(
                        f"{name} differs: {by_rank(map(str, seen))}; expected the same on all ranks"
                    )


def owners(dist: NDArray[np.int64], number: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rank that owns each object or vertex; rank r has those from ``dist[r]`` on."""
    return np.searchsorted(dist, number, side="right") - 1
