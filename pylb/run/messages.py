"""Messages between the objects of all ranks: pack, send, forward and deliver them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb import _core
from pylb.comm import parcel
from pylb.comm.addresses import Addresses
from pylb.comm.agreement import Agreement, Stats, Step
from pylb.comm.transport import Sends
from pylb.errors import SerializationError, UnknownKeyError
from pylb.model.snapshot import I64


class Mailbox:
    """Outgoing and incoming messages of one rank.

    If this rank knows where the target of a message is, it sends the message there.  Otherwise it
    sends the message to the target's home rank (the rank whose part of the directory has the
    target's key).  The home rank forwards the message in a second step, and answers where the
    target is.
    """

    def __init__(self, agreement: Agreement, addresses: Addresses) -> None:
        self._agreement, self._addresses = agreement, addresses
        self._rank = agreement.transport.rank
        # The messages, their order in the inboxes, and the communication graph.
        self.mail = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)

    def rebind(self, places: _core.Keys, gone: I64) -> None:
        """Adapt to a change of this rank's objects; drop the messages to the objects `gone`."""
        if len(gone):
            self.mail.forget(_core.Keys(np.unique(gone)))
        self.mail.bind(places)

    def pack(self, places: _core.Keys) -> tuple[Sends, int, int]:
        """Pack the messages of this iteration for other ranks.

        Also returns the number of these messages, and the number of messages that need a second
        step: a home rank must forward them, or restoring them may fail.
        """
        self.mail.open()
        if not self.mail.n_sent:
            return [], 0, 0
        targets = self.mail.targets
        to = np.where(places.places(targets) >= 0, np.int32(self._rank), np.int32(-1))
        far = np.flatnonzero(to < 0)
        to[far], n_open = self._addresses.route(targets[far])
        if np.any(to < 0):
            sources = self.mail.sources
            self.mail.drop()
            raise _unknown(targets, sources, to)
        packed = self.mail.pack(to, self._rank)
        n_messages = sum(n for _, n, _, _ in packed)
        return _parcels(packed, {}), n_messages, n_open + self.mail.n_frozen

    def receive(self, stats: Stats, received: Sends, iteration: int, *, adds: bool = False) -> None:
        """Receive the messages of a step; make further steps until all messages are delivered.

        adds: whether the inboxes keep the messages that they have.  Collective.  After an error,
        all ranks drop the messages of the iteration.
        """
        try:
            self._receive(stats, received, iteration)
        except Exception:
            self.mail.drop()
            raise
        self.mail.deliver(adds)

    def _receive(self, stats: Stats, received: Sends, iteration: int) -> None:
        if not received and not self.mail.n_coming and not stats.messages_open:
            return
        asks = stats.messages_open > 0
        while True:
            error: Exception | None = None
            sends: Sends = []
            n_open = 0
            try:
                sends, n_open = self._sort(received, asks)
            except Exception as why:
                error = why
            if not stats.messages_open:
                break
            stats, received = self._agreement.step(
                Step.FORWARD, iteration, sends=sends, error=error, messages_open=n_open
            )
            asks = False
        if error is not None:
            raise error

    def _sort(self, received: Sends, asks: bool) -> tuple[Sends, int]:
        """Restore the messages for objects of this rank, and pack the others for their ranks.

        asks: whether this rank, as the home rank of targets, must answer where these are.
        """
        mail, ends = self.mail, [self.mail.n_coming]
        for _, (rows, *packed) in received:
            if len(rows):
                self._addresses.learn(np.frombuffer(rows, np.int64).reshape(-1, 2))
            if packed:
                mail.take(packed[0], parcel.unpack(packed[1:]) if packed[1:] else [])
            ends.append(mail.n_coming)
        told: dict[int, I64] = {}
        if asks:
            ranks = np.array([self._rank, *(rank for rank, _ in received)], np.int64)
            told = self._addresses.answer(mail.arrived, np.repeat(ranks, np.diff(ends, prepend=0)))
        targets, sources = mail.part()
        try:
            mail.restore()
        except Exception as why:
            raise SerializationError(
                f"a message cannot be restored: {type(why).__name__}: {why}"
            ) from why
        to = self._addresses.forward(targets)
        if np.any(to < 0):
            raise _unknown(targets, sources, to)
        packed = mail.forward(to, self._rank) if len(targets) else []
        return _parcels(packed, told), len(targets)


def _unknown(targets: I64, sources: I64, to: Any) -> UnknownKeyError:
    i = int(np.argmax(to < 0))
    return UnknownKeyError(
        f"target {targets[i]} of a message from object {sources[i]}: no such object"
    )


def _parcels(packed: list[tuple[int, int, bytes, list[Any]]], told: dict[int, I64]) -> Sends:
    """Make the parcel for each rank: addresses that answer its messages (`told`), and messages."""
    out: dict[int, list[Any]] = {rank: [rows] for rank, rows in told.items()}
    for rank, _, wire, others in packed:
        parts = out.setdefault(rank, [b""])
        parts += [wire, *parcel.pack_messages(others)] if others else [wire]
    return list(out.items())
