"""The layout of recorded operations (csrc/whatif/whatif.h) as NumPy types, and their names."""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

from pylb import _core

ONE_SIDED_CALLS = _core.ONE_SIDED

OP = np.dtype(
    [
        *((name, "i8") for name in ("compute", "begin", "bytes")),
        ("inside", "f4"),
        *((name, "i4") for name in ("peer", "tag", "request", "comm")),
        ("kind", "u1"),
        ("flags", "u1"),
        ("what", "u2"),
    ]
)
"""One operation of a rank; the fields are those of ``plb_op_t``."""

STEP = np.dtype(
    [
        ("begin", "f8"),
        ("end", "f8"),
        ("cause_op", "i8"),
        ("cause_rank", "i4"),
        ("pad", "i4"),
    ]
)
"""Begin and end of a simulated operation in seconds, and which operation of which rank it waited
for; -1 if none."""


class OpKind(IntEnum):
    """The kind of an operation; csrc/whatif/whatif.h explains the fields for each kind."""

    END = 0
    SEND = 1
    ISEND = 2
    RECV = 3
    IRECV = 4
    WAIT = 5
    PROBE = 6
    COLL = 7
    ICOLL = 8
    PAUSE = 9
    ENTER = 10
    LEAVE = 11
    ONE_SIDED = 12


class Collective(IntEnum):
    """The collective operation, in the field ``what``."""

    BARRIER = 0
    BCAST = 1
    GATHER = 2
    SCATTER = 3
    REDUCE = 4
    ALLREDUCE = 5
    ALLGATHER = 6
    ALLTOALL = 7
    REDUCE_SCATTER = 8
    SCAN = 9
    EXSCAN = 10


class Flag(IntFlag):
    """Bits of the field ``flags``."""

    SAME_CALL = 1
    ANY_SOURCE = 2
    ANY_TAG = 4
    SYNCHRONOUS = 8
    BUFFERED = 16
    CANCELLED = 32
