"""Compute what the most recent LB step has saved, compared with the placement before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.comm.agreement import Agreement, Step
from pylb.comm.transport import Sends
from pylb.run.object_store import Store
from pylb.run.partners import Speeds


def saved(agreement: Agreement, iteration: int, store: Store, speed: Speeds) -> float:
    """Return the seconds saved by the most recent LB step, the same on every rank.  Collective.

    For each object, the loads since the LB step are added up, so that noise evens out.  The gain is
    the sum on the slowest rank if all objects had stayed on their old ranks, minus the sum on the
    slowest rank now.  A rank sends only the sums of objects that have moved, to their old ranks.

    speed: speeds of the ranks, because an object that left a slow rank would have taken longer
    there; None: all ranks are equally fast.
    """
    sums, was = store.window, store.properties["was"]
    me = agreement.transport.rank
    was = np.where(was < 0, me, was)
    guests = was != me
    there = sums if speed is None else sums * (speed[me] / speed[was])
    sends: Sends = [
        (int(r), [np.ascontiguousarray(there[was == r])]) for r in np.unique(was[guests])
    ]
    now, received = agreement.step(
        Step.WORTH, iteration, sends=sends, loads=sums, background=store.other, n_objects=len(sums)
    )
    loads: Any = [sums[~guests], *(np.frombuffer(parts[0]) for _, parts in received)]
    then, _ = agreement.step(
        Step.WORTH, iteration, loads=np.concatenate(loads), background=store.other
    )
    return then.load_max - now.load_max
