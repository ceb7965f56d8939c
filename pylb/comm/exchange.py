"""Rows to the ranks that they are for: over MPI, or in steps of virtual ranks."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pylb import _core, optional
from pylb.comm.agreement import Agreement, Step
from pylb.model.snapshot import I32, I64

LOWEST_TAG, TAGS = 2, 32766  # csrc/comm/transfer.h


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
    """One direction of a plan: what goes, of how many items, and what comes."""

    out: Side
    n_out: int
    into: Side
    n_into: int


class Lane(Protocol):
    """One direction of a plan for rows of one kind; it is used again and again."""

    def begin(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> bool:
        """Send rows; False, and nothing else, where they do not fit or the lane is in use."""
        ...

    def wait(self) -> NDArray[Any]:
        """The rows that have come: `out`, or a new array."""
        ...

    def move(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> NDArray[Any] | None:
        """Both; None where the rows do not fit."""
        ...


class Exchanger(Protocol):
    """Exchanges between the ranks of one communicator."""

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> Lane:
        """For rows of the dtype and shape of those of `like`."""
        ...

    def fail(self, sides: Sides, error: Exception) -> None:
        """In place of an exchange: the partners learn of the error, which is raised."""
        ...

    def free(self) -> None: ...


class OverMPI:
    """On a duplicate of its own.  Collective."""

    def __init__(self, comm: Any) -> None:
        self._module = optional.require("MPI")
        self._native = self._module.Exchanger(comm)

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> Lane:
        lane: Lane = self._module.Lane(self._native, tuple(sides), like, tag)
        return lane

    def fail(self, sides: Sides, error: Exception) -> None:
        self._native.fail(*sides.out[:2], *sides.into[:2])
        raise error

    def free(self) -> None:
        self._native.free()


class InSteps:
    """In collective steps: of virtual ranks, or of one."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> Lane:
        return StepLane(self.agreement, sides, like, tag)

    def fail(self, sides: Sides, error: Exception) -> None:
        self.agreement.step(Step.EXCHANGE, 0, error=error)

    def free(self) -> None:
        """Nothing to free."""


class StepLane:
    """Rows as parcels of a step, which is over when `begin` returns."""

    def __init__(self, agreement: Agreement, sides: Sides, like: NDArray[Any], tag: int) -> None:
        self._agreement, self._sides, self._tag = agreement, sides, tag
        self._kind = like.dtype, like.shape[1:]
        self._bytes = like.dtype.itemsize * int(np.prod(like.shape[1:], dtype=np.int64))
        self._answer = like[:0]

    def begin(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> bool:
        here, _, there, m = self._sides
        if (rows.dtype, rows.shape[1:]) != self._kind:
            return False
        send = rows
        if here.order is not None and self._bytes:
            send = np.empty(here.n_rows * self._bytes, np.uint8)
            _core.gather(rows, here.order, send, self._bytes, here.offset)
        came = np.empty(there.n_rows * self._bytes, np.uint8)
        self._exchange(_raw(send), came)
        shape = (there.n_own(m), *rows.shape[1:])
        self._answer = np.zeros(shape, rows.dtype) if out is None else out
        if there.order is None:
            _raw(self._answer)[:] = came
        elif self._bytes:
            _core.scatter(came, there.order, self._answer, self._bytes, there.offset)
        return True

    def _exchange(self, send: NDArray[np.uint8], came: NDArray[np.uint8]) -> None:
        me = self._agreement.transport.rank
        pieces = _cut(self._sides.out, send, self._bytes)
        places = _cut(self._sides.into, came, self._bytes)
        if me in places:
            places[me][:] = pieces[me]
        sends = [(rank, [piece]) for rank, piece in pieces.items() if rank != me]
        words = (self._tag, "another plan, direction, dtype or shape")
        _, received = self._agreement.step(Step.EXCHANGE, 0, words, sends=sends)
        for source, (piece,) in received:
            places[source][:] = np.frombuffer(piece, np.uint8)

    def wait(self) -> NDArray[Any]:
        return self._answer

    def move(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> NDArray[Any] | None:
        return None  # a short cut that saves nothing here


def _raw(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.zeros(0, np.uint8)


def _cut(side: Side, data: NDArray[np.uint8], row_bytes: int) -> dict[int, NDArray[np.uint8]]:
    start = (side.start * row_bytes).tolist()
    ranks = side.rank.tolist()
    return {r: data[a:b] for r, a, b in zip(ranks, start, start[1:], strict=False)}


def exchanger_of(agreement: Agreement) -> Exchanger:
    """The one of these ranks.  Collective the first time."""
    known: Exchanger | None = agreement.exchanger
    if known is None:
        comm = getattr(agreement.transport, "comm", None)
        is_mpi = comm is not None and hasattr(comm, "Get_attr")
        known = OverMPI(comm) if is_mpi else InSteps(agreement)
        agreement.exchanger = known
    return known
