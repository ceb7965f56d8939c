"""Strategy "auto" of `pylb.place`: choose a strategy from one snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb.decide.decider import FIGURES, settings
from pylb.model.snapshot import Snapshot
from pylb.place.placement import CHOOSERS, Placement


def choose_and_place(
    snapshot: Snapshot, seed: int, *, alpha: float = 2e-6, beta: float = 1e-10, **params: Any
) -> Placement:
    """Place the objects by the strategy that `Balancer` would choose in its first LB step."""
    given = settings(every=1, seed=seed, unlike=False, strategy_params=params)
    decider = given.decider(snapshot.n_ranks, (alpha, beta))
    decider.core.see(snapshot)
    decider.choose()
    figures = np.zeros(len(FIGURES))
    speed = np.zeros(snapshot.n_ranks)
    rank = np.zeros(snapshot.n_objects, np.int32)
    decider.core.place(snapshot, None, None, figures, speed, rank)
    rank.flags.writeable = False
    moved = rank != snapshot.rank
    nbytes = 0 if snapshot.bytes is None else int(snapshot.bytes[moved].sum())
    seconds = float(figures[FIGURES.index("seconds_strategy")])
    decider.core.placed(figures, speed)
    decider.core.balanced(int(moved.sum()), nbytes, 0.0, seconds, True)
    receipt = decider.history[-1]
    return Placement(
        rank=rank,
        before=snapshot.metrics,
        after=snapshot.with_rank(rank).metrics,
        migrations=receipt.migrations,
        bytes=nbytes,
        seconds=seconds,
        strategy=receipt.strategy,
        seed=seed,
        why=receipt.why,
    )


CHOOSERS["auto"] = choose_and_place
