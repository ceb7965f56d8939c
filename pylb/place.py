"""One call of one strategy on one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pylb import _core
from pylb.decider import FIGURES, settings
from pylb.evaluation import evaluate
from pylb.metrics import Metrics
from pylb.snapshot import I32, Snapshot
from pylb.strategies import Strategy, find


@dataclass(frozen=True, eq=False, repr=False)
class Placement:
    """What a strategy decided, and what it is worth.

    Attributes
    ----------
    rank : (n,) int32
        The new rank of each object.
    before, after : Metrics
        Of the snapshot's own placement and of the new one.
    migrations : int
        Objects that change their rank.
    bytes : int
        What those migrations send, in bytes; 0 where the snapshot has no sizes.
    seconds : float
        Time that the strategy took.
    strategy : str
        That was taken.
    seed : int
        With the same snapshot, parameters and seed the strategy gives the same placement.
    why : str
        Why this strategy, where it was chosen among several.
    """

    rank: I32
    before: Metrics
    after: Metrics
    migrations: int
    bytes: int
    seconds: float
    strategy: str
    seed: int
    why: str = ""

    def __repr__(self) -> str:
        return (
            f"<Placement by {self.strategy}: max/mean {self.before.max_over_mean:.4g} -> "
            f"{self.after.max_over_mean:.4g}, {self.migrations} migrations "
            f"({self.bytes} bytes), {self.seconds * 1e3:.3g} ms>"
        )

    def _repr_html_(self) -> str:
        from pylb.show import thumbnail

        return thumbnail.of_placement(self)


def place(
    snapshot: Snapshot,
    strategy: str | Strategy | Callable[..., Any] = "BestFitLB",
    *,
    seed: int = 0,
    **params: Any,
) -> Placement:
    """Place the objects of a snapshot anew.

    Parameters
    ----------
    snapshot : Snapshot
    strategy : str or callable
        A name of `pylb.strategies()`, or a function ``f(snapshot, **params)`` that returns a rank
        for each object.  The default has GreedyLB's balance with few migrations.  "auto": chosen
        by the snapshot alone, as a `Balancer` chooses for its first balancing (Menon 3.7).
    seed : int
        For strategies that draw random numbers.
    **params
        The strategy's own; ``pylb.strategies()[name].params`` lists them.  For "auto" those of
        `pylb.selection.PARAMS`, and alpha and beta: seconds per message and per byte, by which the
        choice counts communication (default: 2 µs and 0.1 ns).

    Returns
    -------
    Placement

    Raises
    ------
    UnknownStrategyError, DomainError
        No such strategy or parameter, or a parameter out of range.
    InfeasibleError
        Memory limits that no placement found keeps to; the message says by how much.
    StrategyError
        A Python strategy raised, or returned no placement.

    Examples
    --------
    >>> plan = pylb.place(snap, "GreedyLB")
    >>> plan.after.max_over_mean, plan.migrations
    """
    if strategy == "auto":
        return _chosen(snapshot, seed, **params)
    entry = find(strategy)
    values = [] if entry.call else entry.values(params)
    rank, before, after, migrations, nbytes, seconds = _core.place(
        snapshot, entry.bound(params), values, seed
    )
    return Placement(
        rank=rank,
        before=Metrics(**before),
        after=Metrics(**after),
        migrations=migrations,
        bytes=nbytes,
        seconds=seconds,
        strategy=entry.name,
        seed=seed,
    )


def _chosen(
    snapshot: Snapshot, seed: int, *, alpha: float = 2e-6, beta: float = 1e-10, **params: Any
) -> Placement:
    """By the strategy that the decider of a run takes on seeing these loads for the first time."""
    given = settings(every=1, seed=seed, unlike=False, strategy_params=params)
    decider = given.decider(snapshot.n_ranks, (alpha, beta))
    before = snapshot.metrics
    crossing = _crossing(snapshot)
    utilization = before.min / before.max if before.max > 0 else 1.0
    loads = before.max, before.max, before.mean, before.min, before.mean * snapshot.n_ranks
    decider.core.observe(0, *loads, utilization, *crossing)
    decider.choose()
    figures = np.zeros(len(FIGURES))
    speed = np.zeros(snapshot.n_ranks)
    rank = np.zeros(snapshot.n_objects, np.int32)
    decider.place(snapshot, None, None, (figures, speed, rank))
    rank.flags.writeable = False
    moved = rank != snapshot.rank
    nbytes = 0 if snapshot.bytes is None else int(snapshot.bytes[moved].sum())
    seconds = float(figures[FIGURES.index("seconds_strategy")])
    decider.core.placed(figures, speed)
    decider.core.balanced(int(moved.sum()), nbytes, 0.0, seconds, True)
    receipt = decider.history[-1]
    return Placement(
        rank=rank,
        before=before,
        after=snapshot.with_rank(rank).metrics,
        migrations=receipt.migrations,
        bytes=nbytes,
        seconds=seconds,
        strategy=receipt.strategy,
        seed=seed,
        why=receipt.why,
    )


def _crossing(snapshot: Snapshot) -> tuple[int, int]:
    """Messages between ranks and their bytes, in an iteration."""
    out = evaluate(snapshot)
    messages = out.messages_node + out.messages_network
    return round(messages), round(out.bytes_node + out.bytes_network)
