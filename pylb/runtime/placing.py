"""The placement of a balancing: the chosen strategy's, or a refinement's that does as well."""

from __future__ import annotations

import math
from typing import NamedTuple

from pylb.machine import Network
from pylb.place import Placement, place
from pylb.runtime.choosing import Chosen
from pylb.snapshot import Snapshot


class Placed(NamedTuple):
    """A placement, and what it rests on.

    Attributes
    ----------
    before, after : float
        Longest rank with its messages over the mean load.
    seconds : float
        That it took to find it.
    passed_over : float
        `after` of the chosen strategy, where a refinement stands in for it; else nan.
    """

    plan: Placement
    before: float
    after: float
    seconds: float
    passed_over: float = math.nan


def placed(snapshot: Snapshot, chosen: Chosen, seed: int, network: Network | None) -> Placed:
    """Where the objects go.

    A refinement stands in where it leaves no more than `tolerance` times as much and moves fewer
    objects: what it does not move keeps its neighbours.
    """
    plan = place(snapshot, chosen.strategy, seed=seed, **chosen.params)
    out = Placed(plan, *with_messages(snapshot, plan, network), plan.seconds)
    if chosen.instead is None:
        return out
    plan = place(snapshot, chosen.instead, seed=seed)
    seconds = out.seconds + plan.seconds
    other = Placed(plan, *with_messages(snapshot, plan, network), seconds, out.after)
    is_as_good = other.after <= chosen.tolerance * out.after
    fewer = plan.migrations < out.plan.migrations
    return other if is_as_good and fewer else out._replace(seconds=seconds)


def with_messages(
    snapshot: Snapshot, plan: Placement, network: Network | None
) -> tuple[float, float]:
    """Longest rank with its messages over the mean load, before and after."""
    ratios = plan.before.max_over_mean, plan.after.max_over_mean
    mean = plan.before.mean
    if network is None or not any(network) or not mean > 0:
        return ratios
    both = (network.rank_times(s) for s in (snapshot, snapshot.with_rank(plan.rank)))
    before, after = (float(times.max()) / mean for times in both)
    return before, after
