"""The transport between ranks, its data types, and the transport of a single rank."""

from __future__ import annotations

import platform
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.cores import Cores
from pylb.errors import DomainError
from pylb.model.machine import Machine
from pylb.model.network import Network
from pylb.model.snapshot import I32, I64

QUICK = 1e-3  # seconds for which `Transport.machine` measures speeds, because nothing uses them
Sends = list[tuple[int, list[Any]]]  # (rank, buffers), at most one entry for each rank
Memory = dict[int, list[NDArray[np.uint8]]]  # memory for received buffers, by sending rank
StepResult = tuple[tuple[Any, ...], Sends]  # merged contributions, and what other ranks sent


class Side(NamedTuple):
    """The rows that a rank sends in an exchange, or that it receives."""

    rank: I32  # (k,), the partners, ascending; this rank may be one
    # (k + 1,): rows ``start[i]`` to ``start[i + 1] - 1`` of the buffer go to, or come from, rank[i]
    start: I64
    order: I32 | None = None  # (n,), the item at place i of the buffer; None: it is item i
    # (m + 1,): first row of each of the m items of this rank, and the number of all rows.  None:
    # each item has one row.
    offset: I64 | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows in the message buffer."""
        return int(self.start[-1])

    def n_own(self, n_items: int) -> int:
        """Number of rows of an array with `n_items` items."""
        return n_items if self.offset is None else int(self.offset[-1])


class Sides(NamedTuple):
    """One direction of a plan: what this rank sends (n_out items) and receives (n_into items)."""

    out: Side
    n_out: int
    into: Side
    n_into: int


class Transferred:
    """Buffers that move between ranks while the program goes on; in this class, all have moved."""

    def progress(self, times: int = 1) -> bool:
        """Let data move, so fast that `times` calls are enough; return whether all have moved."""
        return True

    def receive(self, rank: int) -> None:
        """Wait until all buffers from `rank` are here; call it for ranks in ascending order."""

    def finish(self) -> None:
        """Wait until all buffers have been sent and received."""


class Transport:
    """Collective operations over all ranks; in this base class, over one rank, without MPI."""

    rank, size = 0, 1
    pace = 1.0  # seconds of the ranks' clock per second of computing
    overlaps = False  # whether messages travel while the ranks compute
    is_virtual = False  # whether the ranks take turns in one process

    def step(self, sample: Any, sends: Sends, into: Memory | None = None, /) -> StepResult:
        """Merge the contributions of all ranks, and exchange buffers (received ones in `into`)."""
        return _core.stats([sample]), []

    def transfer(self, sends: Sends, into: Memory, /) -> Transferred:
        """Begin to exchange buffers; `into` has memory of the right size for each one received."""
        return Transferred()

    def bcast(self, array: Any, root: int, /) -> None: ...
    def allgather(self, data: Any, /) -> list[bytes]:
        return [bytes(data)]

    def reduction(self, depth: int, /) -> Any:
        """Return a capsule for up to `depth` reductions at a time; None: one rank.  Collective."""

    def exchanger(self) -> Any:
        """Return the exchanger of rows; None: use collective steps.  Collective the first time."""

    def network(self) -> Network:
        """Return the cost of messages between the ranks, measured if necessary.  Collective."""
        return Network(0.0, 0.0)

    def machine(self) -> Machine:
        """Measure the machine of the ranks.  Collective."""
        return Machine.measure(None, seconds=QUICK)

    def host(self) -> str:
        """Return the name of this rank's host; "": the ranks are virtual."""
        return platform.node()

    def price(self, nbytes: int) -> float:
        """Return the seconds of communication of an LB step that sends `nbytes`.  Collective."""
        return 0.0

    def cores(self) -> Cores:
        """Return which ranks share cores, as far as this is known.  Collective."""
        return Cores.of([_core.cores()], 0)


class Together(Transport):
    """The transport of a process that has the data of all p ranks, and acts as rank 0."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.loads: NDArray[np.float64] | None = None  # (p,) load of each rank

    def machine(self) -> Machine:
        raise DomainError("network is 'measure' with ranks=: expected (alpha, beta) or a Machine")

    def host(self) -> str:
        return ""

    def step(self, sample: Any, sends: Sends, into: Memory | None = None, /) -> StepResult:
        each = [sample] * self.size
        if self.loads is not None and len(sample.loads):
            each = [sample._replace(loads=self.loads[r : r + 1]) for r in range(self.size)]
        return _core.stats(each), []

    def allgather(self, data: Any, /) -> list[bytes]:
        return [bytes(data)] * self.size

    def cores(self) -> Cores:
        return Cores()
