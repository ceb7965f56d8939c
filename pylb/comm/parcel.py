"""Exchange Python objects between ranks: convert them to buffers, send them, restore them.

Uses pickle protocol 5; large arrays are sent without a copy.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.transport import Sends
from pylb.errors import SerializationError

Parts = list[Any]  # contiguous buffers: the pickle, then the large arrays
OUT_OF_BAND = 2048  # bytes; smaller arrays are copied into the pickle, because this is faster


def pack(value: Any) -> Parts:
    """Return `value` as buffers; the memory of a large array is a buffer, without a copy."""
    parts: Parts = [b""]
    parts[0] = pickle.dumps(value, protocol=5, buffer_callback=partial(_in_band, parts))
    return parts


def _in_band(parts: Parts, buffer: pickle.PickleBuffer) -> bool:
    """Tell a pickler whether to copy a buffer; if not, append the buffer to `parts`."""
    raw = buffer.raw()
    is_small = raw.nbytes < OUT_OF_BAND
    if not is_small:
        parts.append(raw)
    return is_small


def unpack(parts: Parts) -> Any:
    """Return the value that `pack` was given; its large arrays use the memory of the buffers."""
    return pickle.loads(parts[0], buffers=parts[1:])


def pack_each(values: list[Any]) -> Parts:
    """Return values as buffers.  One pickler packs all, so data that values share are sent once."""
    file = io.BytesIO()
    parts: Parts = [b""]
    pickler = pickle.Pickler(file, protocol=5, buffer_callback=partial(_in_band, parts))
    for value in values:
        pickler.dump(value)
    parts[0] = file.getvalue()
    return parts


def loader(parts: Parts) -> Callable[[], Any]:
    """Return a function whose calls return, one by one, the values that `pack_each` was given."""
    file = io.BufferedReader(io.BytesIO(parts[0]))
    return pickle.Unpickler(file, buffers=iter(parts[1:])).load


def size_of(parts: Parts) -> int:
    """Return the total size of the parts in bytes."""
    return sum(memoryview(part).nbytes for part in parts)


class Pickled(bytes):
    """A message that was pickled when it was sent."""


def freeze(data: Any) -> Pickled:
    """Return a pickled copy of `data`, which later changes of `data` do not affect."""
    return Pickled(tried("a message cannot be pickled", pickle.dumps, data, 5))


def pack_messages(data: list[Any]) -> Parts:
    """Return as buffers the data of messages that were sent without a copy."""
    parts: Parts = tried("a message cannot be pickled", pack, data)
    return parts


def tried(what: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that pickles; its errors begin with `what`, as SerializationError."""
    try:
        return call(*arguments)
    except MemoryError:
        raise
    except Exception as why:
        raise SerializationError(f"{what}: {type(why).__name__}: {why}") from why


thaw = pickle.loads  # returns a copy of the data that `freeze` was given


def exchange_objects(
    agreement: Agreement,
    kind: Step,
    iteration: int,
    pieces: Callable[[], dict[int, Any]],
    *,
    pack: Callable[[Any], Parts] = pack,
    unpack: Callable[[Parts], Any] = unpack,
    restored: Step | None = None,
    arguments: tuple[int, str] = (0, ""),
) -> dict[int, Any]:
    """Send each rank its piece; return the received pieces by the rank that sent them.  Collective.

    ``pieces()`` returns the pieces by rank; this rank's own piece stays as it is.  If this call or
    `pack` fails, all ranks raise the error.  In the step `restored`, all ranks agree that `unpack`
    has succeeded; without this step, only this rank raises an error of `unpack`.
    """
    me = agreement.transport.rank
    own: dict[int, Any] = {}
    sends: Sends = []
    with Attempt() as tried:
        given = pieces()
        own = {me: given.pop(me)} if me in given else {}
        sends = [(to, pack(piece)) for to, piece in given.items()]
    _, received = agreement.step(kind, iteration, arguments, sends=sends, error=tried.error)
    values: dict[int, Any] = {}
    with Attempt() as tried:
        values = {source: unpack(parts) for source, parts in received}
    if restored is not None:
        agreement.step(restored, iteration, error=tried.error)
    elif tried.error is not None:
        raise tried.error
    return values | own


def gather_objects(agreement: Agreement, kind: Step, iteration: int, value: Any) -> dict[int, Any]:
    """Return the values of all ranks, by rank, on rank 0; {} on the other ranks.  Collective."""
    return dict(sorted(exchange_objects(agreement, kind, iteration, lambda: {0: value}).items()))
