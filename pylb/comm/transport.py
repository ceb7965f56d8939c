"""The transport interface, what travels through it, and the transport of one rank."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from pylb import _core
from pylb.model.network import Network
from pylb.model.snapshot import I32, I64

Sends = list[tuple[int, list[Any]]]  # (rank, buffers), at most one entry for each rank


class Side(NamedTuple):
    """What a rank sends in an exchange, or what it receives.

    Attributes
    ----------
    rank : (k,) int32
        The partners, ascending; this rank may be one.
    start : (k + 1,) int64
        Rows ``start[i]`` to ``start[i + 1]`` as they travel are those of ``rank[i]``.
    order : (n,) int32 or None
        Which item travels at each place; None: they travel as they are.
    offset : (m + 1,) int64 or None
        Rows of each of the m items of a rank; None: one each.
    """

    rank: I32
    start: I64
    order: I32 | None = None
    offset: I64 | None = None

    @property
    def n_rows(self) -> int:
        """Rows that travel."""
        return int(self.start[-1])

    def n_own(self, n_items: int) -> int:
        """Rows of the array with so many items."""
        return n_items if self.offset is None else int(self.offset[-1])


class Sides(NamedTuple):
    """One direction of a plan: what this rank sends and receives, each with its number of items."""

    out: Side
    n_out: int
    into: Side
    n_into: int


class Lane(Protocol):
    """One direction of a plan for rows of one kind, for repeated use."""

    def begin(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> bool:
        """Send rows; False, without effect, if they do not fit or the lane is in use."""
        ...

    def wait(self) -> NDArray[Any]:
        """The rows that have come: `out`, or a new array."""
        ...

    def move(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> NDArray[Any] | None:
        """Send and wait; None if the rows do not fit."""
        ...


class Exchanger(Protocol):
    """Exchanges between the ranks of one communicator."""

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> Lane:
        """A lane for rows like those of `like`, by dtype and shape."""
        ...

    def fail(self, sides: Sides, error: Exception) -> None:
        """Tell the partners of an error instead of exchanging rows, and raise it."""
        ...


class Transport(Protocol):
    """Collective operations over all ranks; while they wait they leave the processor to others."""

    rank: int
    size: int
    pace: float  # seconds of the ranks' clock that pass in a second of computing

    def step(self, sample: tuple[Any, ...], sends: Sends, /) -> tuple[tuple[Any, ...], Sends]: ...
    def bcast(self, array: Any, root: int, /) -> None: ...
    def allgather(self, data: Any, /) -> list[bytes]: ...
    def reduction(self, depth: int, /) -> Any:
        """For `_core.AtSync`: a capsule, or None on one rank.  Collective the first time."""
        ...

    def exchanger(self) -> Exchanger | None:
        """Exchanges of rows; None: by collective steps.  Collective the first time."""
        ...

    def network(self) -> Network:
        """What messages between the ranks cost, measured if need be.  Collective."""
        ...


class Remote(Transport, Protocol):
    """A transport with steps in two halves, for a rank that waits for others only for a while."""

    @property
    def pending(self) -> bool:
        """Whether a step was begun and is not over."""
        ...

    def begin(self, sample: tuple[Any, ...], sends: Sends, /) -> None: ...
    def wait(self, seconds: float, /) -> tuple[tuple[Any, ...], Sends] | None: ...
    def free(self) -> None:
        """Free what MPI holds.  Collective."""
        ...


class Serial:
    """One rank, no MPI."""

    rank, size, pace = 0, 1, 1.0

    def step(self, sample: tuple[Any, ...], sends: Sends, /) -> tuple[tuple[Any, ...], Sends]:
        """The rank's own record, and no messages."""
        return _core.stats([sample]), []

    def bcast(self, array: Any, root: int, /) -> None:
        """Nothing to do."""

    def allgather(self, data: Any, /) -> list[bytes]:
        """The rank's own."""
        return [bytes(data)]

    def reduction(self, depth: int, /) -> None:
        """None: what the rank contributes is the result."""

    def exchanger(self) -> None:
        """None: by steps."""

    def network(self) -> Network:
        """No message costs anything."""
        return Network(0.0, 0.0)
