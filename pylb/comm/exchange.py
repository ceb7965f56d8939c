"""Exchange the rows of a plan in collective steps, for virtual ranks or a single rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import AnyExchanger, AnyLane, Side, Sides

LOWEST_TAG, TAGS = 2, 32766  # lowest tag of an exchange, number of tags (csrc/comm/comm.h)


class StepExchanger:
    """An `AnyExchanger` that uses collective steps."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> AnyLane:
        return StepLane(self.agreement, sides, like, tag)

    def tell(self, sides: Sides, error: Exception) -> bool:
        self.agreement.step(Step.EXCHANGE, 0, error=error)
        return False

    def meet(self, sides: Sides, tag: int) -> AnyLane:
        # no message: all exchanges are collective steps, which tell their kinds
        return StepLane(self.agreement, sides, np.empty((0, 0), np.uint8), tag)


class StepLane:
    """An `AnyLane` that uses collective steps; `begin` already completes the exchange."""

    unlike = ()

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
        words = (self._tag, f"another plan, direction, dtype or shape (fingerprint {self._tag})")
        _, received = self._agreement.step(Step.EXCHANGE, 0, words, sends=sends)
        for source, (piece,) in received:
            places[source][:] = np.frombuffer(piece, np.uint8)

    def wait(self) -> NDArray[Any]:
        return self._answer

    def move(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> NDArray[Any] | None:
        return None  # so the caller uses begin() and wait()


def _raw(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.zeros(0, np.uint8)


def _cut(side: Side, data: NDArray[np.uint8], row_bytes: int) -> dict[int, NDArray[np.uint8]]:
    start = (side.start * row_bytes).tolist()
    ranks = side.rank.tolist()
    return {r: data[a:b] for r, a, b in zip(ranks, start, start[1:], strict=False)}


def exchanger_of(agreement: Agreement) -> AnyExchanger:
    """Return the exchanger of an agreement's ranks.  Collective the first time."""
    return agreement.transport.exchanger() or StepExchanger(agreement)
