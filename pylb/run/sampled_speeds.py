"""The speeds of the ranks for a distributed strategy, learned from a sample of the objects."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Step
from pylb.comm.parcel import gather_objects
from pylb.decide.decider import Decider
from pylb.model.snapshot import F64
from pylb.run.local_objects import LocalObjects
from pylb.run.object_store import HERE


def learn(
    agreement: Agreement, iteration: int, objects: LocalObjects, decider: Decider
) -> F64 | None:
    """Return the speed of each rank, (p,); None: they count as equal.  Collective.

    Rank 0 learns from about 32 objects of each rank, always the same ones.  With more than 8,192
    ranks it takes fewer of each, so that it never has more than about 262,144 objects.
    """
    size = agreement.transport.size
    if not decider.settings.learns:
        return None
    unlike, speed = np.zeros(1, np.uint8), np.zeros(0)
    whole = list(gather_objects(agreement, Step.GATHER, iteration, _sample(objects, size)).values())

    def observe() -> None:
        nonlocal speed
        speed = np.zeros(size)
        keys, here, work = (np.concatenate(part) for part in zip(*whole, strict=True))
        rank = np.repeat(np.arange(size, dtype=np.int32), [len(part[0]) for part in whole])
        order = np.argsort(keys)
        given = work[order] if work.any() else None
        decider.core.learn(keys[order], rank[order], here[order], given, speed)
        unlike[0] = speed[0] > 0

    agreement.on_root(Step.PLACE, iteration, observe)
    agreement.transport.bcast(unlike, 0)
    if not unlike[0]:
        return None
    speed = speed if len(speed) else np.zeros(size)
    agreement.transport.bcast(speed.view(np.uint8), 0)
    return speed


def _sample(objects: LocalObjects, size: int) -> tuple[Any, ...]:
    """Return the keys of some objects, their mean seconds on this rank, and their given work."""
    store = objects.store
    at = _core.sampled(store.keys, objects.n_objects, size)
    return store.keys[at], store.estimates[HERE][at], store.properties["work"][at]
