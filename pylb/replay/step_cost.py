"""The cost of an LB step on many simulated ranks, part by part."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.decide.choosing import choose_for_ranks
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.multicasts import Rows
from pylb.model.snapshot import F64, I32, Snapshot
from pylb.place.distributed import traffic
from pylb.place.placement import place
from pylb.place.registry import find
from pylb.replay.protocol import protocol_params

RECORD = _core.STATS_BYTES  # bytes of the statistics of an iteration
FACTS, EDGE = 48, 40  # bytes that a rank sends to rank 0 for each object and for each edge
MOVE = 16  # bytes of the key of an object and its new rank
ENTRY = 24  # bytes, approximately, that a distributed strategy holds for an object or a rank


class LogGP(NamedTuple):
    """The LogGP model of a network (Culler et al. 1993, Alexandrov et al. 1995).

    Attributes
    ----------
    L : float
        Latency in seconds.
    o : float
        Seconds for which a processor is busy to send or to receive a message.
    g : float
        Shortest time between two messages of a rank, in seconds.
    G : float
        Seconds per byte.

    Examples
    --------
    >>> network = pylb.replay.LogGP()
    >>> network.message(8.0) < network.message(8e6)
    True
    """

    L: float = protocol_params()["L"][0]
    o: float = protocol_params()["o"][0]
    g: float = protocol_params()["g"][0]
    G: float = protocol_params()["G"][0]

    def message(self, nbytes: float) -> float:
        """Return the seconds that a message takes from the sender to the receiver."""
        return self.L + 2.0 * self.o + max(nbytes - 1.0, 0.0) * self.G

    def tree(self, n_ranks: int, nbytes: float) -> float:
        """Return the seconds to send `nbytes` up or down a binary tree, one message per level."""
        return float(np.ceil(np.log2(n_ranks))) * self.message(nbytes)

    def exchange(self, n_ranks: int, messages: F64, nbytes: F64) -> float:
        """Return the seconds of a sparse exchange, which ends with a reduction.

        messages, nbytes: (p,), sum of what each rank sends and receives.
        """
        busiest = float((messages * max(self.o, self.g) + nbytes * self.G).max())
        return busiest + self.L + 2.0 * self.tree(n_ranks, RECORD)


class StepPart(NamedTuple):
    """One part of an LB step.

    Attributes
    ----------
    name : str
    seconds : float
    sent, received, kept : int
        Largest numbers of bytes that a rank sends, receives and stores.

    Examples
    --------
    >>> first = pylb.replay.simulate_step(trace[0], "GreedyLB").parts[0]
    >>> first.name
    'statistics'
    """

    name: str
    seconds: float
    sent: int
    received: int
    kept: int


class SimulatedStep(NamedTuple):
    """A simulated LB step; made by `simulate_step`.

    Attributes
    ----------
    strategy : str
    n_ranks, n_objects, migrations : int
    before, after : float
        max/mean of the ranks' times before and after the LB step.
    parts : tuple of StepPart
        Statistics, database, strategy, answer, migration, directory, in this order; a distributed
        strategy has no database and no answer.

    Examples
    --------
    >>> step = pylb.replay.simulate_step(trace[0], "GreedyLB")
    >>> [part.name for part in step.parts]
    ['statistics', 'database', 'strategy', 'answer', 'migration', 'directory']
    """

    strategy: str
    n_ranks: int
    n_objects: int
    migrations: int
    before: float
    after: float
    parts: tuple[StepPart, ...]

    @property
    def seconds(self) -> float:
        """Seconds of all parts together."""
        return sum(part.seconds for part in self.parts)


def simulate_step(
    snapshot: Snapshot, strategy: str = "BestFitLB", *, network: LogGP | None = None, seed: int = 0
) -> SimulatedStep:
    """Simulate an LB step on all ranks of a snapshot, with the times of a LogGP network.

    The strategy runs in this process.  For a central strategy, its measured run time is the time of
    rank 0.  For a distributed one, this time is divided equally among the ranks, and the strategy's
    messages are counted.  All other messages are those of `Balancer`:

    - the statistics go up and down a tree;
    - for a central strategy, rank 0 gets 48 bytes per object and 40 bytes per edge by a tree, and
      sends back 16 bytes per migration;
    - objects move from their old rank to the new one in one message per pair of ranks;
    - the old rank of a moved object tells the object's home rank (see `Directory`) the new rank;
      the home rank tells the ranks whose objects send to the object; each notice has 16 bytes.

    Parameters
    ----------
    snapshot : Snapshot
    strategy : str
        "auto": the strategy that `Balancer` uses in its first LB step on such a network.
    network : LogGP, optional
        Default: the network of `simulate_protocol`.
    seed : int
        Seed of the strategy.

    Raises
    ------
    UnknownStrategyError, DomainError
        As in `place`; the snapshot has only one rank; or a time of the network is out of range.

    Examples
    --------
    >>> step = pylb.replay.simulate_step(trace[0], "GossipLB")
    >>> step.seconds < 1.0
    True
    """
    checks.instance("snapshot", snapshot, Snapshot)
    net = LogGP() if network is None else network
    checks.instance("network", net, LogGP, "replay.LogGP")
    for field, value in zip(net._fields, net, strict=True):
        checks.seconds(f"network.{field}", value)
    if snapshot.n_ranks < 2:
        raise DomainError(f"the snapshot has {snapshot.n_ranks} rank: expected 2 or more")
    handled = 3 * RECORD  # bytes: the records of a rank and its two children
    both_ways = 2 * net.tree(snapshot.n_ranks, RECORD)
    record = StepPart("statistics", both_ways, handled, handled, handled)
    chosen = strategy == "auto"
    entry = choose_for_ranks(snapshot, (net.message(1.0), net.G)) if chosen else find(strategy)
    if entry.distributed:
        name = entry.name
        rank, parts = _distributed(snapshot, name, net, seed)
    else:
        name, rank, parts = _central(snapshot, strategy, net, seed)
    moved = np.flatnonzero(rank != snapshot.rank)
    after = snapshot.with_rank(rank)
    return SimulatedStep(
        strategy=name,
        n_ranks=snapshot.n_ranks,
        n_objects=snapshot.n_objects,
        migrations=len(moved),
        before=snapshot.metrics.max_over_mean,
        after=after.metrics.max_over_mean,
        parts=(
            record,
            *parts,
            _migration(snapshot, rank, moved, net),
            _directory(snapshot, rank, moved, net),
        ),
    )


def _central(
    snapshot: Snapshot, name: str, net: LogGP, seed: int
) -> tuple[str, I32, list[StepPart]]:
    p = snapshot.n_ranks
    plan = place(snapshot, name, seed=seed)
    own = FACTS * np.bincount(snapshot.rank, minlength=p)
    own += EDGE * np.bincount(snapshot.rank[Rows.of(snapshot).src], minlength=p)
    facts, moves = int(own.sum()), MOVE * plan.migrations
    start = net.tree(p, 0)
    return (
        plan.strategy,
        plan.rank,
        [
            # Half of what goes up the tree passes through a child of rank 0.
            StepPart("database", start + facts * net.G, facts // 2, facts, facts),
            StepPart("strategy", plan.seconds, 0, 0, 0),
            StepPart("answer", start + moves * net.G, moves, moves // 2, moves),
        ],
    )


def _distributed(
    snapshot: Snapshot, name: str, net: LogGP, seed: int
) -> tuple[I32, list[StepPart]]:
    p = snapshot.n_ranks
    begin = time.process_time()
    seen = traffic(snapshot, name, seed=seed)
    computed = (time.process_time() - begin) / p
    # A rank is assumed to receive as much as it sends.
    rounds = seen.rounds * (net.L + 2.0 * net.tree(p, RECORD))
    busiest = float((2.0 * seen.messages * max(net.o, net.g) + 2.0 * seen.bytes * net.G).max())
    most = int(seen.bytes.max())
    return seen.rank, [
        StepPart("strategy", rounds + busiest + computed, most, most, ENTRY * int(seen.held.max()))
    ]


def _pairs(
    p: int, source: I32, target: I32, nbytes: NDArray[np.int64]
) -> tuple[F64, F64, F64, F64]:
    """Return for each rank: messages sent and received, bytes sent and received.

    All bytes from one rank to another are one message.
    """
    pair = np.unique(source.astype(np.int64) * p + target)
    out, into = np.divmod(pair[pair // p != pair % p], p)
    away = source != target
    counted = (
        np.bincount(out, minlength=p),
        np.bincount(into, minlength=p),
        np.bincount(source[away], nbytes[away], minlength=p),
        np.bincount(target[away], nbytes[away], minlength=p),
    )
    return tuple(np.asarray(c, np.float64) for c in counted)  # type: ignore[return-value]


def _exchange_cost(
    name: str, p: int, source: I32, target: I32, nbytes: NDArray[np.int64], kept: int, net: LogGP
) -> StepPart:
    sends, receives, out, into = _pairs(p, source, target, nbytes)
    seconds = net.exchange(p, sends + receives, out + into)
    return StepPart(name, seconds, int(out.max()), int(into.max()), kept)


def _migration(snapshot: Snapshot, rank: I32, moved: NDArray[np.intp], net: LogGP) -> StepPart:
    size = np.zeros(len(moved), np.int64) if snapshot.bytes is None else snapshot.bytes[moved]
    source, target = snapshot.rank[moved], rank[moved]
    kept = np.bincount(target, size, minlength=snapshot.n_ranks).max(initial=0)
    return _exchange_cost("migration", snapshot.n_ranks, source, target, size, int(kept), net)


def _directory(snapshot: Snapshot, rank: I32, moved: NDArray[np.intp], net: LogGP) -> StepPart:
    """Simulate the messages about the new rank of each moved object; see `simulate_step`."""
    p = snapshot.n_ranks
    key = np.arange(snapshot.n_objects) if snapshot.key is None else snapshot.key
    home = _core.home(key, p)
    told = _exchange_cost(
        "", p, snapshot.rank[moved], home[moved], np.full(len(moved), MOVE, np.int64), 0, net
    )
    sent = Rows.of(snapshot)
    of_moved = np.zeros(snapshot.n_objects, np.bool_)
    of_moved[moved] = True
    edge = np.flatnonzero(of_moved[sent.dst])
    once = np.unique(sent.dst[edge].astype(np.int64) * p + rank[sent.src[edge]])
    source, target = home[once // p], (once % p).astype(np.int32)
    tells = _exchange_cost("", p, source, target, np.full(len(source), MOVE, np.int64), 0, net)
    kept = MOVE * int(np.bincount(home, minlength=p).max())
    return StepPart(
        "directory",
        told.seconds + tells.seconds,
        told.sent + tells.sent,
        told.received + tells.received,
        kept,
    )
