"""Python objects between ranks: the one exchange of pickled values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends


class Exchanged(NamedTuple):
    """What came, by its source, and the bytes that this rank sent."""

    values: dict[int, Any]
    nbytes: int


def exchange_objects(
    agreement: Agreement,
    kind: Step,
    iteration: int,
    pieces: Callable[[], dict[int, Any]],
    *,
    pack: Callable[[Any], parcel.Parts] = parcel.pack,
    unpack: Callable[[parcel.Parts], Any] = parcel.unpack,
    packed: Step | None = None,
    restored: Step | None = None,
    arguments: tuple[int, str] = (0, ""),
) -> Exchanged:
    """Send each rank its piece; this rank's own piece stays as it is.  Collective.

    Parameters
    ----------
    pieces : callable
        Returns the pieces by rank; what it or `pack` raises, all ranks raise.
    packed, restored : Step, optional
        Steps that agree that all ranks have packed, and restored, what they had to.  An object may
        well be pickled and yet not be restored.
    arguments : (fingerprint, words)
        What must be equal on all ranks.
    """
    me = agreement.transport.rank
    own: dict[int, Any] = {}
    sends: Sends = []
    error: Exception | None = None
    try:
        given = pieces()
        own = {me: given.pop(me)} if me in given else {}
        sends = [(to, pack(piece)) for to, piece in given.items()]
    except Exception as why:
        error = why
    if packed is not None:
        agreement.step(packed, iteration, error=error)
    _, received = agreement.step(kind, iteration, arguments, sends=sends, error=error)
    values: dict[int, Any] = {}
    try:
        values = {source: unpack(parts) for source, parts in received}
    except Exception as why:
        if restored is None:
            raise
        error = why
    if restored is not None:
        agreement.step(restored, iteration, error=error)
    return Exchanged(values | own, sum(parcel.size_of(parts) for _, parts in sends))


def gather_objects(agreement: Agreement, kind: Step, iteration: int, value: Any) -> dict[int, Any]:
    """The value of each rank, by rank, on rank 0; an empty dict on the others.  Collective."""
    came = exchange_objects(agreement, kind, iteration, lambda: {0: value}).values
    return dict(sorted(came.items()))
