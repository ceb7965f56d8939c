"""Multicasts as rows: a row for each receiver, with the index of the multicast."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pylb.model.snapshot import F64, I32, I64, Edges, Multicasts, Snapshot


class Rows(NamedTuple):
    """Communication per iteration, one row for each sender and receiver.

    Attributes
    ----------
    src, dst : (m,) int32
        Indices of the sending and the receiving object.
    nbytes, messages : (m,) float64
        Bytes and messages per iteration.
    multicast : (m,) int32
        Index of the multicast that the row is part of, from 1; 0: none.  The rows of a multicast
        have the same sender, bytes and messages, and follow each other.
    """

    src: I32
    dst: I32
    nbytes: F64
    messages: F64
    multicast: I32

    @classmethod
    def given(cls, src: Any, dst: Any, nbytes: Any, messages: Any, multicast: Any) -> Rows:
        """Make rows from columns; if `multicast` is None, no row is part of a multicast."""
        none = np.zeros(len(src), np.int32)
        return cls(src, dst, nbytes, messages, none if multicast is None else multicast)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Rows:
        none = np.zeros(0)
        e = snapshot.edges or Edges(none.astype(np.int32), none.astype(np.int32), none)
        out = cls(
            np.asarray(e.src),
            np.asarray(e.dst),
            np.asarray(e.nbytes),
            np.ones(np.size(e.src)) if e.messages is None else np.asarray(e.messages),
            np.zeros(np.size(e.src), np.int32),
        )
        return out if snapshot.multicasts is None else out.plus(snapshot.multicasts)

    def plus(self, m: Multicasts) -> Rows:
        """Append multicasts to these rows, none of which may be part of a multicast yet."""
        count = np.diff(np.asarray(m.start))
        c = len(count)
        messages = np.ones(c) if m.messages is None else np.asarray(m.messages)
        columns = (m.src, None, m.nbytes, messages, np.arange(1, c + 1, dtype=np.int32))
        more: list[Any] = [m.dst if x is None else np.repeat(x, count) for x in columns]
        return Rows(*(np.concatenate([a, b]) for a, b in zip(self, more, strict=True)))

    def split(self) -> tuple[Edges, Multicasts | None]:
        """Return the rows as edges and multicasts; None instead of multicasts if there are none."""
        rows = np.flatnonzero(self.multicast)
        if not len(rows):
            return Edges(*self[:4]), None
        plain = self.multicast == 0
        is_first = starts(self.multicast[rows])
        first = rows[is_first]
        start = np.append(np.flatnonzero(is_first), len(rows))
        return (
            Edges(*(column[plain] for column in self[:4])),
            Multicasts(self.src[first], start, self.dst[rows], *(x[first] for x in self[2:4])),
        )

    def take(self, index: Any) -> Rows:
        return Rows(*(column[index] for column in self))

    def placed(self, where: Any) -> Rows:
        """Return a copy with the senders `where[src]` and the receivers `where[dst]`."""
        return self._replace(src=where[self.src], dst=where[self.dst])


def starts(number: I32 | I64) -> Any:
    """Return for each number whether it differs from the number before it, (n,) bool."""
    out = np.ones(len(number), np.bool_)
    out[1:] = number[1:] != number[:-1]
    return out
