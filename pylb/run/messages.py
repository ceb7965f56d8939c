"""Messages between objects, on one rank: outgoing, incoming, and the communication graph."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from pylb.comm import parcel
from pylb.errors import UnknownKeyError

Message = tuple[int, int, Any]  # target, source, data


class Mailbox:
    """Outgoing and incoming messages of one rank.

    Attributes
    ----------
    outbox : list of (target, source, data)
        Sent in this pass.
    inbox : dict of list of (source, data)
        Messages of the previous pass by target, sorted by (source, order of sending).
    graph : dict of [bytes, messages]
        Sums for each (source, target) since the last clearing.
    """

    def __init__(self) -> None:
        self.outbox: list[Message] = []
        self.inbox: dict[int, list[tuple[int, Any]]] = {}
        self.graph: dict[tuple[int, int], list[int]] = {}

    def post(self, target: int, source: int, data: Any, copy: bool) -> None:
        """Add a message of this pass."""
        self.outbox.append((target, source, parcel.freeze(data) if copy else data))

    def collect(self, rank_of: Mapping[int, int]) -> dict[int, list[Message]]:
        """Return the messages of the pass by target rank; the outbox still holds them.

        Raises
        ------
        UnknownKeyError
            A target does not exist; that message is dropped.
        """
        out: dict[int, list[Message]] = {}
        for i, message in enumerate(self.outbox):
            rank = rank_of.get(message[0])
            if rank is None:
                del self.outbox[i]
                raise UnknownKeyError(
                    f"target {message[0]} of a message from object {message[1]}: no such object"
                )
            out.setdefault(rank, []).append(message)
        return out

    def deliver(self, arrived: list[list[Message]]) -> None:
        """Fill the inboxes of the next pass with the messages of all ranks."""
        for target, source, data in self.outbox:
            edge = self.graph.setdefault((source, target), [0, 0])
            edge[0] += parcel.weight(data)
            edge[1] += 1
        self.outbox = []
        self.inbox = {}
        for messages in arrived:
            for target, source, data in messages:
                self.inbox.setdefault(target, []).append((source, parcel.thaw(data)))
        for received in self.inbox.values():
            if len(received) > 1:
                # One source's messages came in one list, and sorting is stable.
                received.sort(key=itemgetter(0))

    def forget(self, keys: set[int]) -> None:
        """Drop the messages to objects that were removed, and their part of the graph."""
        if keys:
            self.inbox = {k: v for k, v in self.inbox.items() if k not in keys}
            self.graph = {
                (s, t): e for (s, t), e in self.graph.items() if not (s in keys or t in keys)
            }

    def edges(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """(m, 4) int64: source, target, bytes and messages since the last clearing."""
        rows = [(s, t, b, n) for (s, t), (b, n) in self.graph.items()]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)
