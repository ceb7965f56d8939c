"""Compute what the last LB step has saved, compared with the placement before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends
from pylb.run.local_objects import LocalObjects
from pylb.run.partners import Speeds


class Savings:
    """Compares the placement before the last LB step with the present one."""

    def __init__(self, agreement: Agreement, objects: LocalObjects) -> None:
        self._agreement, self._objects = agreement, objects
        self._speed: Speeds = None

    def learn(self, speed: Speeds) -> None:
        """Set the speeds of the ranks that the LB step used; None: all ranks are equally fast.

        They are needed because an object that left a slow rank would have taken longer there.
        """
        self._speed = speed

    def gain(self, iteration: int) -> float:
        """Return the seconds saved since the last LB step, the same on every rank.  Collective.

        For each object, the loads since the LB step are added up, so that noise evens out.  The
        gain is the sum on the slowest rank if all objects had stayed on their old ranks, minus the
        sum on the slowest rank now.  A rank sends only the sums of objects that have moved, to
        their old ranks.
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
