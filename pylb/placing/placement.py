"""Run one strategy on one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, overload

from numpy.typing import ArrayLike

from pylb import _core
from pylb.console import InNotebook
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.machine import Links, NetworkLike
from pylb.model.metrics import Metrics
from pylb.model.network import Network
from pylb.model.snapshot import I32, I64, Snapshot
from pylb.placing.copies import Copies, place_copies
from pylb.placing.registry import COPIES, Strategy, find, with_network
from pylb.placing.registry import strategy as strategy_of

NETWORK = (2e-6, 1e-10)  # assumed by "auto": seconds per message and per byte

BY_SUM = "placed by the sum of each object's loads"

CHOOSERS: dict[str, Callable[..., tuple[Any, ...]]] = {}
"""Functions, by name, that choose a strategy and place the objects.  `decide` adds "auto"."""


@dataclass(frozen=True, eq=False, repr=False)
class Placement(InNotebook):
    """The result of a strategy, and its metrics.

    Examples
    --------
    >>> snap = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1], nbytes=[100] * 4)
    >>> plan = pylb.place(snap, "RefineLB")
    >>> plan.rank, plan.migrations, plan.nbytes
    (array([0, 0, 1, 1], dtype=int32), 1, 100)
    """

    rank: I32  #: (n,) the new rank of each object.
    #: Metrics of the snapshot's own placement and of the new one.
    before: Metrics
    after: Metrics
    migrations: int  #: Number of objects that change their rank.
    nbytes: int  #: Bytes that these migrations send; 0 if the snapshot has no sizes.
    seconds: float  #: Run time of the strategy in seconds.
    strategy: str  #: The strategy that was used.
    seed: int  #: The same snapshot, parameters and seed give the same placement.
    #: With "auto": why this strategy was chosen.  Otherwise a note if each object's loads were
    #: added up, because the strategy uses only one.
    why: str = ""

    def _bars(self) -> dict[str, Any]:
        return {"max/mean before and after": [m.max_over_mean for m in (self.before, self.after)]}

    def __repr__(self) -> str:
        return (
            f"<Placement by {self.strategy}: max/mean {self.before.max_over_mean:.4g} -> "
            f"{self.after.max_over_mean:.4g}, {self.migrations} migrations "
            f"({self.nbytes} bytes), {self.seconds * 1e3:.3g} ms>"
        )


@overload
def place(
    snapshot: Snapshot | ArrayLike, strategy: Literal["CopiesLB"], *, seed: int = 0, **params: Any
) -> Copies: ...
@overload
def place(
    snapshot: Snapshot,
    strategy: str | Strategy | Callable[..., Any] = "BestFitLB",
    *,
    seed: int = 0,
    network: NetworkLike | None = None,
    **params: Any,
) -> Placement: ...
def place(
    snapshot: Any,
    strategy: str | Strategy | Callable[..., Any] = "BestFitLB",
    *,
    seed: int = 0,
    network: NetworkLike | None = None,
    **params: Any,
) -> Any:
    """Compute a new placement of the objects of a snapshot.

    Parameters
    ----------
    snapshot : Snapshot
        With "CopiesLB" also loads, ([layers,] objects).
    strategy : str, callable or `pylb.strategy`
        A name of `pylb.strategies()`, or a function of the snapshot that returns a rank for each
        object.  The default balances as well as GreedyLB, with fewer migrations.  "auto": choose a
        strategy as in the first LB step of a `Balancer`.  "CopiesLB": objects may have several
        copies, which share their load; see `pylb.placing.copies.place_copies`.
    seed : int
        Seed of strategies that draw random numbers.
    network : (alpha, beta), Machine or path, optional
        Seconds per message and per byte, for "auto" and strategies that read communication.  A
        `Machine`, or its file, has different values within and between nodes.  Default for "auto":
        2 µs and 0.1 ns.
    **params
        Parameters of the strategy, as for `pylb.strategy`.

    Returns
    -------
    Placement, or Copies with "CopiesLB"

    Raises
    ------
    InfeasibleError, StrategyError
        No placement within the memory limits was found; a Python strategy has failed.

    Examples
    --------
    >>> snap = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1])
    >>> plan = pylb.place(snap, "GreedyLB")
    >>> plan.before.max_over_mean, plan.after.max_over_mean, plan.migrations
    (1.5, 1.0, 1)
    """
    entry = find(strategy, auto=True, copies=True)
    if params:
        entry = strategy_of(entry, **params)
    seed = checks.integer("seed", seed)
    if entry.name == COPIES.name:
        return place_copies(snapshot, **entry.values)
    checks.instance("snapshot", snapshot, Snapshot)
    chooses = entry.name in CHOOSERS
    if network is not None:
        if not chooses and "communication" not in entry.looks_at:
            raise DomainError(
                f"network is given with strategy {entry.name!r}: expected 'auto' or a strategy "
                "that reads communication"
            )
        links = Links.of(network, snapshot.n_ranks)
        entry = with_network(entry, links.network)
        snapshot = replace(snapshot, **links.ranks)
    if chooses:
        known = NETWORK if network is None else links.network
        *found, name, why = CHOOSERS[entry.name](snapshot, entry, seed, Network.of(known))
    else:
        found = [*_core.place(snapshot, entry.bound(), entry.numbers, seed)]
        name = entry.name
        why = "" if snapshot.n_components == 1 or entry.takes_phases else BY_SUM
    rank, before, after, migrations, nbytes, seconds = found
    metrics = Metrics(**before), Metrics(**after)
    return Placement(rank, *metrics, migrations, nbytes, seconds, name, seed, why)


class Traffic(NamedTuple):
    """A placement by a distributed strategy, and the traffic that it took.

    Examples
    --------
    >>> seen = pylb.placing.traffic(trace[0], "DiffusionLB")
    >>> np.array_equal(seen.rank, pylb.place(trace[0], "DiffusionLB").rank)
    True
    """

    rank: I32  #: (n,) the new rank of each object, the same as from `place`.
    rounds: int  #: Number of rounds; each has one sparse exchange and one reduction of six numbers.
    #: (p,) messages and bytes that each rank sent, in all rounds together.
    messages: I64
    nbytes: I64
    #: (p,) the largest number of items that each rank stored at any time: objects, data about other
    #: ranks, and entries of received messages.
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

    Examples
    --------
    >>> seen = pylb.placing.traffic(trace[0], "GossipLB")
    >>> seen.messages.shape, bool(seen.held.max() < trace[0].n_objects)
    ((8,), True)
    """
    checks.instance("snapshot", snapshot, Snapshot)
    entry = find(strategy)
    if not entry.distributed:
        raise DomainError(f"strategy is {entry.name!r}: expected a distributed strategy")
    seed = checks.whole("seed", seed, 0)
    rank, rounds, counts = _core.traffic(snapshot, entry.name, entry.numbers, seed)
    return Traffic(rank, rounds, *counts)
