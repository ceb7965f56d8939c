"""The interface of row exchanges: sides, lanes, exchangers."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from pylb.model.snapshot import I32, I64


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
