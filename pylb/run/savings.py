"""Measure what the last LB step has saved, by the loads since then on the old placement."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends
from pylb.model.snapshot import F64
from pylb.run.local_objects import LocalObjects


class Savings:
    """Compares the placement before the last LB step with the present one."""

    def __init__(self, agreement: Agreement, objects: LocalObjects) -> None:
        self._agreement, self._objects = agreement, objects
        self._speed: F64 | None = None

    def learn(self, speed: F64 | None) -> None:
        """Set the speeds that an LB step assumed, as an object that left a slow rank would have
        taken longer there; None: all ranks are equally fast.
        """
        self._speed = speed

    def gain(self, iteration: int) -> float:
        """Return the seconds saved since the last LB step, the same on every rank.  Collective.

        The loads of all iterations since then are added up for each object, and the slowest ranks
        of both placements are compared by these sums, so that noise evens out.  A rank sends only
        the sums of objects that have moved, to the rank where they were.
        """
        sums = self._objects.store.window
        me = self._agreement.transport.rank
        was = self._objects.store.properties["was"]
        was = np.where(was < 0, me, was)
        guests = was != me
        there = sums if self._speed is None else sums * (self._speed[me] / self._speed[was])
        sends: Sends = [
            (int(r), [np.ascontiguousarray(there[was == r])]) for r in np.unique(was[guests])
        ]
        now, received = self._agreement.step(
            Step.WORTH, iteration, sends=sends, loads=sums, n_objects=len(sums)
        )
        loads: Any = [sums[~guests], *(np.frombuffer(parts[0]) for _, parts in received)]
        then, _ = self._agreement.step(Step.WORTH, iteration, loads=np.concatenate(loads))
        return then.load_max - now.load_max
