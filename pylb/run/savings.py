"""Measure what the last LB step has saved, by the loads since then on the old placement."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends
from pylb.model.snapshot import F64, I32, I64
from pylb.run.local_objects import LocalObjects


class Savings:
    """Compares the placement before the last LB step with the present one."""

    def __init__(self, agreement: Agreement, objects: LocalObjects) -> None:
        self._agreement, self._objects = agreement, objects
        self._keys: I64 = np.zeros(0, np.int64)
        self._rank: I32 = np.zeros(0, np.int32)
        self._speed: F64 = np.ones(agreement.transport.size)

    def remember(self) -> None:
        """Remember the present placement, before an LB step."""
        locations = self._objects.locations
        self._keys, self._rank = locations.keys, locations.rank

    def learn(self, speed: F64) -> None:
        """Set the speeds that the LB step assumed, as an object that left a slow rank would have
        taken longer there.
        """
        self._speed = np.where(speed > 0, speed, 1.0)

    def gain(self, iteration: int) -> float:
        """Return the seconds saved since the last LB step, the same on every rank.  Collective.

        The loads of all iterations since then are added up for each object, and the slowest ranks
        of both placements are compared by these sums, so that noise evens out.  A rank sends only
        the sums of objects that have moved, to the rank where they were.
        """
        sums = self._objects.store.window
        was = self._was()
        me = self._agreement.transport.rank
        guests = was != me
        there = sums * (self._speed[me] / self._speed[was])
        sends: Sends = [
            (int(r), [np.ascontiguousarray(there[was == r])]) for r in np.unique(was[guests])
        ]
        now, received = self._agreement.step(
            Step.WORTH, iteration, sends=sends, loads=sums, n_objects=len(sums)
        )
        loads: Any = [sums[~guests], *(np.frombuffer(parts[0]) for _, parts in received)]
        then, _ = self._agreement.step(Step.WORTH, iteration, loads=np.concatenate(loads))
        return then.load_max - now.load_max

    def _was(self) -> I32:
        """The former ranks of this rank's objects, in order of key; new objects were here."""
        items = self._objects.store.items
        keys = np.fromiter(items, np.int64, len(items))
        out: I32 = np.full(len(keys), self._agreement.transport.rank, np.int32)
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            known = self._keys[at] == keys
            out[known] = self._rank[at[known]]
        return out
