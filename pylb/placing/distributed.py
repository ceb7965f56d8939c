"""Count the messages of a distributed strategy, and the items that each rank holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.snapshot import I32, I64, Snapshot
from pylb.placing.registry import Strategy, find


class Traffic(NamedTuple):
    """A placement by a distributed strategy, and the traffic that it took.

    Attributes
    ----------
    rank : (n,) int32
        The new rank of each object, the same as from `place`.
    rounds : int
        Number of rounds; each has one sparse exchange and one reduction of six numbers.
    messages, bytes : (p,) int64
        Messages and bytes that each rank sent, in all rounds together.
    held : (p,) int64
        The largest number of items that each rank held at a time: objects, data about other ranks,
        and entries of received messages.

    Examples
    --------
    >>> seen = pylb.placing.traffic(trace[0], "DiffusionLB")
    >>> np.array_equal(seen.rank, pylb.place(trace[0], "DiffusionLB").rank)
    True
    """

    rank: I32
    rounds: int
    messages: I64
    nbytes: I64
    held: I64


def traffic(
    snapshot: Snapshot,
    strategy: str | Strategy | Callable[..., Any],
    *,
    seed: int = 0,
) -> Traffic:
    """Run a distributed strategy on virtual ranks and count its messages.

    Parameters
    ----------
    snapshot : Snapshot
    strategy : str or `pylb.strategy`
        A distributed strategy: ``pylb.strategies()[name].distributed`` is True.
    seed : int

    Raises
    ------
    UnknownStrategyError, DomainError
        As in `place`; also if the strategy is not distributed.

    Examples
    --------
    >>> seen = pylb.placing.traffic(trace[0], "GossipLB")
    >>> seen.messages.shape, bool(seen.held.max() < trace[0].n_objects)
    ((8,), True)
    """
    checks.instance("snapshot", snapshot, Snapshot)
    entry = find(strategy)
    if not entry.distributed:
        raise DomainError(f"strategy is {entry.name!r}: expected a distributed one")
    return Traffic(
        *_core.traffic(snapshot, entry.name, entry.numbers, checks.whole("seed", seed, 0))
    )
