"""Read and check the frames (messages) of the recorder: csrc/whatif/recorder/internal.h."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEAD = struct.Struct("=IIq")  # kind, length in bytes, number of the first operation
COMM = struct.Struct("=qqq")  # a communicator's number, name and number of members
LIMIT = 1 << 26  # largest length of a frame in bytes
MOST_RANKS = 1 << 20
MOST_NAMES = 1 << 16  # largest number of procedures, and of kinds of calls that are not simulated

TOKEN = "OMPI_PYLB_TOKEN"
"""Environment variable with the token.  Open MPI passes variables that begin with OMPI_ to the
ranks on all machines; other launchers pass all variables."""

HELLO = {
    **dict.fromkeys(("rank", "size", "now", "cores", "core"), int),
    **dict.fromkeys(("host", "library"), str),
    "delays": bool,
}
END = {
    **dict.fromkeys(("ops", "ns", "start", "now", "beyond", "foreign"), int),
    "finalized": bool,
    "asked": dict.fromkeys(("wall", "square", "napped"), float),
}
COSTS = dict.fromkeys(("overhead", "alpha", "beta"), float)
LACK = {"what": str, "times": int}


class ProtocolError(Exception):
    """Raised if a connection does not follow the protocol of the recorder."""


def decoded(body: bytes, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read a frame that contains a JSON object, and check that it has these fields and types."""
    found = json.loads(body)
    _check(found, fields)
    return dict(found)


def _check(found: Any, fields: Mapping[str, Any]) -> None:
    if not isinstance(found, dict):
        raise ProtocolError("a frame that is not a JSON object")
    for name, kind in fields.items():
        value: Any = found.get(name)
        if isinstance(kind, dict):
            _check(value if name in found else dict.fromkeys(kind, 0), kind)
        elif kind is float and type(value) in (int, float):
            found[name] = value = float(value)
            if not math.isfinite(value):
                raise ProtocolError(f"{name} is {value}: expected a finite number")
        elif type(value) is not kind or (kind is int and not -(2**63) <= value < 2**63):
            raise ProtocolError(f"{name} is {value!r}: expected {kind.__name__}")


def hello(body: bytes) -> dict[str, Any]:
    """Read the first frame of a rank."""
    found = decoded(body, HELLO)
    if not 1 <= found["size"] <= MOST_RANKS:
        raise ProtocolError(f"a world of {found['size']} ranks: expected 1 ... {MOST_RANKS}")
    if not 0 <= found["rank"] < found["size"]:
        raise ProtocolError(f"rank is {found['rank']}: expected 0 ... {found['size'] - 1}")
    return found


def communicator(body: bytes, n_ranks: int) -> tuple[int, int, NDArray[np.int32]]:
    if len(body) < COMM.size:
        raise ProtocolError(f"a frame of {len(body)} bytes is too short for a communicator")
    number, name, size = COMM.unpack_from(body)
    if size < 0 or len(body) != COMM.size + 4 * size:
        raise ProtocolError(f"a communicator of {size} ranks in {len(body)} bytes")
    members = np.frombuffer(body, np.int32, size, COMM.size).copy()
    if size and not 0 <= members.min() <= members.max() < n_ranks:
        raise ProtocolError("a communicator with a member that is not a rank")
    return number, name, members


def renumbered(values: NDArray[Any], numbers: list[int], what: str) -> NDArray[np.int32]:
    """Replace a rank's number i of a communicator or procedure by the monitor's, ``numbers[i]``."""
    if values.size and not 0 <= values.min() <= values.max() < len(numbers):
        raise ProtocolError(f"an operation with an unknown {what}")
    out: NDArray[np.int32] = np.array(numbers, np.int32)[values]
    return out
