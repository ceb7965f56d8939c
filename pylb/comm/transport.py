"""The transport interface, its data types, and the transport of a single rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.cores import Cores
from pylb.model.network import Network
from pylb.model.snapshot import I32, I64

Sends = list[tuple[int, list[Any]]]  # (rank, buffers), at most one entry for each rank

LOADS = 5  # index of the loads in a sample, see `pylb.comm.agreement.Contribution`

Memory = dict[int, list[NDArray[np.uint8]]]  # memory for received buffers, by sending rank


class Side(NamedTuple):
    """The rows that a rank sends in an exchange, or that it receives."""

    rank: I32  # (k,), the partners, ascending; this rank may be one
    # (k + 1,): rows ``start[i]`` to ``start[i + 1] - 1`` of the buffer go to, or come from, rank[i]
    start: I64
    order: I32 | None = None  # (n,), the item at each place i of the buffer; None: it is item i
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


class AnyLane(Protocol):
    """Sends rows of one dtype and shape in one direction of a plan, any number of times."""

    @property
    def unlike(self) -> Sequence[int]:
        """Ranks that exchanged objects where this rank exchanged rows, or the other way round.

        In the most recent exchange.
        """
        ...

    def begin(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> bool:
        """Begin to send; return False if the rows do not fit or the lane is in use."""
        ...

    def wait(self) -> NDArray[Any]:
        """Wait for the received rows; return `out` or a new array."""
        ...

    def move(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> NDArray[Any] | None:
        """Call `begin` and `wait`, and return the received rows; None: `begin` returned False."""
        ...


class AnyExchanger(Protocol):
    """Makes the lanes between the ranks of one communicator."""

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> AnyLane:
        """Return a lane for rows with the dtype and shape of those of `like`."""
        ...

    def tell(self, sides: Sides, error: Exception) -> bool:
        """Tell an error to the partners instead of exchanging rows; if all ranks are told, raise.

        Returns whether a partner exchanges objects.
        """
        ...

    def meet(self, sides: Sides, tag: int) -> AnyLane:
        """Begin to check that all partners exchange objects, too.

        ``wait()`` raises StateError if one exchanges rows: it does not come to the next step.
        """
        ...


class AnyTransfer(Protocol):
    """Buffers that are on their way between ranks while the program goes on."""

    def progress(self, times: int = 1) -> bool:
        """Let data move, as much as needed if this is called `times` times; return if it is all."""
        ...

    def receive(self, rank: int) -> None:
        """Wait until all buffers of a rank are here; call it for the ranks in ascending order."""
        ...

    def finish(self) -> None:
        """Wait until all has been sent and received."""
        ...


class Transport(Protocol):
    """Collective operations over all ranks; a rank that waits does not occupy its processor."""

    rank: int
    size: int
    pace: float  # seconds of the ranks' clock per second of computing
    overlaps: bool  # whether messages travel while the ranks compute

    def step(
        self, sample: tuple[Any, ...], sends: Sends, into: Memory | None = None, /
    ) -> tuple[tuple[Any, ...], Sends]:
        """Merge the contributions of all ranks, and exchange buffers; into: memory for these."""
        ...

    def transfer(self, sends: Sends, into: Memory, /) -> AnyTransfer:
        """Begin to exchange buffers; `into` has as many of the same sizes as the ranks send."""
        ...

    def bcast(self, array: Any, root: int, /) -> None: ...
    def allgather(self, data: Any, /) -> list[bytes]: ...
    def reduction(self, depth: int, /) -> Any:
        """Return a capsule with the reduction for `_core.AtSync` and `_core.Steps`.

        Returns None on one rank.  depth: how many can be under way.  Collective the first time.
        """
        ...

    def exchanger(self) -> AnyExchanger | None:
        """Return the exchanger of rows; None: use collective steps.  Collective the first time."""
        ...

    def network(self) -> Network:
        """Return the cost of messages between the ranks, measured if necessary.  Collective."""
        ...

    def price(self, nbytes: int) -> float:
        """Return the seconds of communication of an LB step that sends `nbytes`.  Collective."""
        ...

    def cores(self) -> Cores:
        """Return which ranks share cores.  Collective."""
        ...


class Remote(Transport, Protocol):
    """A transport that takes a step by two calls, `begin` and `wait`; `wait` has a time limit."""

    @property
    def pending(self) -> bool:
        """Whether a step has begun and is not complete."""
        ...

    def begin(self, sample: tuple[Any, ...], sends: Sends, /) -> None: ...
    def wait(self, seconds: float, /) -> tuple[tuple[Any, ...], Sends] | None: ...
    def died(self) -> list[int]:
        """Return the ranks that have died, if this MPI can tell; otherwise []."""
        ...

    def free(self) -> None:
        """Free the MPI objects.  Collective."""
        ...


class Serial:
    """The transport of a single rank, without MPI."""

    rank, size, pace, overlaps = 0, 1, 1.0, False

    def step(
        self, sample: tuple[Any, ...], sends: Sends, into: Memory | None = None, /
    ) -> tuple[tuple[Any, ...], Sends]:
        return _core.stats([sample]), []

    def transfer(self, sends: Sends, into: Memory, /) -> AnyTransfer:
        raise AssertionError("a single rank sends nothing")

    def bcast(self, array: Any, root: int, /) -> None:
        """Do nothing: there is one rank."""

    def allgather(self, data: Any, /) -> list[bytes]:
        return [bytes(data)]

    def reduction(self, depth: int, /) -> None:
        """Return None: a single rank needs no reduction."""

    def exchanger(self) -> None:
        """Return None: use collective steps."""

    def network(self) -> Network:
        return Network(0.0, 0.0)

    def price(self, nbytes: int) -> float:
        return 0.0

    def cores(self) -> Cores:
        return Cores.of([_core.cores()], 0)


class Together(Serial):
    """The transport of p ranks, all of which one process tells: rank 0 speaks for all.

    Attributes
    ----------
    loads : (p,) float64 or None
        The load of each rank, for steps with loads.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.loads: NDArray[np.float64] | None = None

    def step(
        self, sample: tuple[Any, ...], sends: Sends, into: Memory | None = None, /
    ) -> tuple[tuple[Any, ...], Sends]:
        each = [sample] * self.size
        if self.loads is not None and len(sample[LOADS]):
            each = [
                (*sample[:LOADS], self.loads[r : r + 1], *sample[LOADS + 1 :])
                for r in range(self.size)
            ]
        return _core.stats(each), []

    def allgather(self, data: Any, /) -> list[bytes]:
        return [bytes(data)] * self.size

    def cores(self) -> Cores:
        """Return that no ranks share cores, as nothing is known of them."""
        return Cores()
