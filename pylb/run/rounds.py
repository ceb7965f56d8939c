"""Distributed placement: each rank runs an agent for its own objects, in rounds."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.transport import Sends, Transport
from pylb.model.snapshot import I32
from pylb.place.registry import Strategy
from pylb.run.central_placement import occupied
from pylb.run.local_objects import LocalObjects
from pylb.run.rank_facts import Own

# The agents' tally of six numbers (``plb_tally_t`` in csrc/place/kit/agent.h) is merged over all
# ranks.  The record of a collective step has no fields for the tally, so each number uses a field
# that is merged by the same rule: field of the `Contribution` -> field of the merged `Stats`.
TALLY = {
    "loads": "load_sum",
    "idle": "idle_sum",
    "time": "time_max",
    "cost": "cost_max",
    "n_objects": "n_objects",
    "messages": "messages",
}


class RankTimes(NamedTuple):
    """Metrics of the ranks' times with a placement; idle times are in seconds."""

    max_over_mean: float
    idle_mean: float
    idle_max: float


class PlacedInRounds(NamedTuple):
    """The result of a placement in rounds on one rank."""

    rank: I32  # (n,), new rank of each object of this rank
    before: RankTimes
    after: RankTimes
    memory_full: float  # the largest fraction of its memory limit that a rank holds; nan: no limits


def place_in_rounds(
    agreement: Agreement,
    iteration: int,
    strategy: Strategy,
    params: dict[str, Any],
    seed: int,
    objects: LocalObjects,
    own: Own,
    near: I32,
    speed: float,
) -> PlacedInRounds:
    """Place the objects of this rank.  Collective.

    own: the given properties of this rank; near: the ranks on its node, see `RankFacts.near`;
    speed: the speed of this rank.  An agent knows only its own objects, the messages of other
    agents, and the tally of all ranks.  If an agent fails, all ranks raise an error (see
    `Agreement.step`).
    """
    agent: Any = None
    received: Sends = []
    tally: tuple[Any, ...] = (0.0, 0.0, 0.0, 0.0, 0, 0)
    while True:
        sends: Sends = []
        mine = tally
        with Attempt() as tried:
            if agent is None:
                agent = _agent(
                    agreement.transport, strategy, params, seed, objects, near, own, speed
                )
            sends, mine = agent.round(received, tally)
        if tried.error is None and agent.done:
            break
        figures = dict(zip(TALLY, mine, strict=True)) | {"loads": np.array(mine[:1])}
        stats, received = agreement.step(
            Step.PLACE, iteration, sends=sends, error=tried.error, **figures
        )
        received.sort(key=itemgetter(0))
        tally = tuple(getattr(stats, name) for name in TALLY.values())
    before, after = (_balance(agreement, iteration, seconds) for seconds in agent.times)
    limit, full = own.get("memory_limit"), math.nan
    if limit is not None:
        mine_full = agent.memory / max(limit, 1)
        full = agreement.step(Step.PLACE, iteration, cost=mine_full)[0].cost_max
    return PlacedInRounds(agent.rank, before, after, full)


def _agent(
    transport: Transport,
    strategy: Strategy,
    params: dict[str, Any],
    seed: int,
    objects: LocalObjects,
    near: I32,
    own: Own,
    speed: float,
) -> Any:
    """Make the agent for this rank's part of the load database."""
    store = objects.store
    limit = own.get("memory_limit")
    given = store.properties
    edges = objects.edges()
    here = store.places.places(edges[:, 1])
    rank = np.full(len(edges), transport.rank, np.int32)
    rank[here < 0] = objects.addresses.find(edges[here < 0, 1])
    cast = edges[:, 4] > 0  # a multicast counts as an edge to each receiver
    order = np.lexsort((np.where(cast, 0, edges[:, 1]), edges[:, 0], cast))
    order = order[rank[order] >= 0]  # leave out receivers that were removed since the message
    edges, rank = edges[order], rank[order]
    return _core.Agent(
        strategy=strategy.name,
        params=strategy.values(params),
        seed=seed,
        rank=transport.rank,
        n_ranks=transport.size,
        neighbours=near,
        speed=speed,
        background=own.get("background", 0.0),
        memory_limit=-1 if limit is None else int(limit),
        lenient=True,
        id=store.keys,
        load=store.estimates[0] * speed,
        memory=None if limit is None else occupied(given["memory"], given["nbytes"]),
        migratable=given["migratable"],
        edge_object=store.places.places(edges[:, 0]),
        edge_peer_id=edges[:, 1],
        edge_peer_rank=rank,
        edge_bytes=edges[:, 2] / objects.passes,
    )


def _balance(agreement: Agreement, iteration: int, seconds: float) -> RankTimes:
    stats, _ = agreement.step(Step.PLACE, iteration, loads=np.array([seconds]))
    mean = stats.load_sum / agreement.transport.size
    ratio = stats.load_max / mean if mean > 0 else 1.0
    return RankTimes(ratio, stats.load_max - mean, stats.load_max - stats.load_min)
