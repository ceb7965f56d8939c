"""What the last balancing has saved: the loads since then, on the placement before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.comm.agreement import Agreement, Kind
from pylb.comm.transport import Sends
from pylb.model.snapshot import F64, I32, I64
from pylb.run.objects import Directory, Store


class Worth:
    """The placement before the last balancing, and how to compare it with the present one."""

    def __init__(self, agreement: Agreement, store: Store, directory: Directory) -> None:
        self._agreement = agreement
        self._store = store
        self._directory = directory
        self._keys: I64 = np.zeros(0, np.int64)
        self._rank: I32 = np.zeros(0, np.int32)
        self._speed: F64 = np.ones(agreement.transport.size)

    def remember(self) -> None:
        """The placement of this moment is the one before a balancing."""
        self._keys, self._rank = self._directory.keys, self._directory.rank

    def learn(self, speed: F64) -> None:
        """Each rank's speed, if that balancing knew that they are unlike: an object that has left a
        slow rank would have taken longer there.
        """
        self._speed = np.where(speed > 0, speed, 1.0)

    def gain(self, iteration: int) -> float:
        """Seconds saved since the last balancing, the same on every rank.  Collective.

        The loads of all iterations since are added up for each object.  So it is the longest rank
        of the sums that is compared, under both placements: noise that the mean of the iterations
        evens out counts for neither.  Only the objects that have moved are spoken of, by the rank
        where they are to the rank where they were.
        """
        sums = self._store.window
        was = self._was()
        me = self._agreement.transport.rank
        guests = was != me
        there = sums * (self._speed[me] / self._speed[was])
        sends: Sends = [
            (int(r), [np.ascontiguousarray(there[was == r])]) for r in np.unique(was[guests])
        ]
        now, received = self._agreement.step(
            Kind.WORTH, iteration, sends=sends, loads=sums, n_objects=len(sums)
        )
        loads: Any = [sums[~guests], *(np.frombuffer(parts[0]) for _, parts in received)]
        then, _ = self._agreement.step(Kind.WORTH, iteration, loads=np.concatenate(loads))
        return then.load_max - now.load_max

    def _was(self) -> I32:
        """Where this rank's objects were, in order of key; new ones were always here."""
        keys = np.fromiter(self._store.items, np.int64, len(self._store.items))
        out: I32 = np.full(len(keys), self._agreement.transport.rank, np.int32)
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            known = self._keys[at] == keys
            out[known] = self._rank[at[known]]
        return out
