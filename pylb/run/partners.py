"""What a rank knows of other ranks: which are on its node, and the speeds of its partners.

The partners of a rank are the ranks with which it exchanges objects in an LB step.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends
from pylb.model.snapshot import F64, I32


def own_node() -> str:
    """Return the name of this rank's node: the variable ``PYLB_NODE``, else the host's name."""
    return os.environ.get("PYLB_NODE") or socket.gethostname()


def ranks_with(agreement: Agreement, iteration: int, text: str) -> I32:
    """Return the ranks that pass the same `text`, ascending; empty: all ranks do.  Collective.

    The hash of a text selects a rank, which collects the list of the ranks that pass this text, and
    sends the list to them.
    """
    me, size, name = agreement.transport.rank, agreement.transport.size, text.encode()
    code = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
    part = (code >> 11) / 2**53  # a fraction with 53 bits, so that 1 - part is exact
    ends, _ = agreement.step(Step.PLACE, iteration, time=part, cost=1.0 - part)
    if ends.time_max == 1.0 - ends.cost_max:  # largest = smallest: all texts are the same
        return np.zeros(0, np.int32)
    known: defaultdict[bytes, list[int]] = defaultdict(list)
    collector = code % size
    asks: Sends = [] if collector == me else [(collector, [name])]
    if collector == me:
        known[name].append(me)
    for rank, parts in agreement.step(Step.PLACE, iteration, sends=asks)[1]:
        known[bytes(parts[0])].append(rank)
    own = np.zeros(0, np.int32)
    tells: Sends = []
    for who in known.values():
        ranks = np.array(sorted(who), np.int32)
        if me in who:
            own = ranks
        tells += [(rank, [ranks]) for rank in who if rank != me]
    for _, parts in agreement.step(Step.PLACE, iteration, sends=tells)[1]:
        own = np.frombuffer(bytes(parts[0]), np.int32)
    return own


class PartnerSpeeds:
    """Speeds of this rank and of its partners, indexed by rank."""

    def __init__(self, known: dict[int, float]) -> None:
        self._rank = np.array(sorted(known))
        self._speed = np.array([known[rank] for rank in sorted(known)])

    def __getitem__(self, rank: int | NDArray[np.integer]) -> F64:
        out: F64 = self._speed[np.searchsorted(self._rank, rank)]
        return out


def exchange_speeds(agreement: Agreement, iteration: int, own: float, to: I32) -> PartnerSpeeds:
    """Exchange speeds with the partners of this rank in this LB step.  Collective.

    own: speed of this rank; to: new ranks of the objects that leave this rank.
    """
    me, speed = agreement.transport.rank, np.array([own])
    known, ranks = {me: own}, np.unique(to).tolist()
    for _ in ("tell", "answer"):
        sends: Sends = [(rank, [speed]) for rank in ranks]
        _, received = agreement.step(Step.PLACE, iteration, sends=sends)
        ranks = [rank for rank, _ in received]
        known.update((rank, float(np.frombuffer(parts[0])[0])) for rank, parts in received)
    return PartnerSpeeds(known)


Speeds = F64 | PartnerSpeeds | None  # speeds of ranks; None: all are equally fast
