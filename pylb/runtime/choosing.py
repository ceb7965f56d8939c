"""Which strategy a balancing takes: always the same one, or what the selection says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from pylb.machine import Network
from pylb.runtime.transport import Stats
from pylb.selection import Choice, Selector
from pylb.strategies import Strategy, find


class Chosen(NamedTuple):
    """A strategy with its parameters, and why this one; empty where there was no choice.

    instead: takes its place if it leaves no more than `tolerance` times as much and moves less.
    """

    strategy: Strategy
    params: dict[str, Any]
    why: str
    instead: Strategy | None = None
    tolerance: float = 1.0


def chooser(
    strategy: str | Strategy | Callable[..., Any],
    params: Mapping[str, Any],
    network: tuple[float, float] | None,
) -> Chooser:
    """For the arguments of a `Balancer`."""
    if strategy != "auto":
        return Fixed(strategy, params)
    return Selected(None if network is None else Network(*network), params)


class Chooser(Protocol):
    """Tells the strategy of the next balancing."""

    name: str
    strategies: tuple[Strategy, ...]
    network: Network | None

    def learn(self, network: Network) -> None:
        """What messages cost; asked for before the first iteration, where `network` is None."""
        ...

    def observe(self, stats: Stats) -> None:
        """An iteration is over."""
        ...

    def choose(self) -> Chosen:
        """What to balance with now."""
        ...

    def balanced(
        self, name: str, before: float, after: float, cost: float, migrations: int
    ) -> None:
        """A balancing took place."""
        ...


class Fixed:
    """One strategy, as the user said."""

    def __init__(
        self, strategy: str | Strategy | Callable[..., Any], params: Mapping[str, Any]
    ) -> None:
        entry = find(strategy)
        if entry.call is None:
            entry.values(params)
        self.name = entry.name
        self.strategies: tuple[Strategy, ...] = (entry,)
        self.network: Network | None = Network(0.0, 0.0)
        self._chosen = Chosen(entry, dict(params), "")

    def learn(self, network: Network) -> None:
        """Nothing to learn."""

    def observe(self, stats: Stats) -> None:
        """Nothing to learn."""

    def choose(self) -> Chosen:
        """That one."""
        return self._chosen

    def balanced(
        self, name: str, before: float, after: float, cost: float, migrations: int
    ) -> None:
        """Nothing to learn."""


class Selected:
    """The selection of Menon 3.7 among the registered strategies."""

    name = "auto"

    def __init__(self, network: Network | None, params: Mapping[str, Any]) -> None:
        self.network = network
        self._params = dict(params)
        self.selector = Selector(*(network or (0.0, 0.0)), **self._params)
        self.strategies = tuple(self.selector.strategies.values())
        self._seen: Stats | None = None  # of the last iteration, not told to the selector yet

    def learn(self, network: Network) -> None:
        """What messages cost (eq. 3.6)."""
        self.network = network
        self.selector = Selector(*network, strategies=self.strategies, **self._params)

    def observe(self, stats: Stats) -> None:
        """What it asks for is of no interest before a balancing is due."""
        self._seen = stats

    def choose(self) -> Chosen:
        """What the last iteration asks for."""
        if self._seen is not None:
            self._tell(self._seen)
        choice = self.selector.choice
        strategy = self.selector.strategies[choice.strategy]
        instead, tolerance = self._instead(choice), self.selector.params["tolerance"]
        return Chosen(strategy, {}, choice.reason, instead, tolerance)

    def _instead(self, choice: Choice) -> Strategy | None:
        """The first refinement of a kind, where no comprehensive one was looked at yet."""
        if choice.family != "comprehensive" or self.selector.history()[choice.strategy].n:
            return None
        talks = choice.used == "communication"
        return next(
            (
                s
                for s in self.strategies
                if s.family == "refinement" and ("communication" in s.looks_at) == talks
            ),
            None,
        )

    def balanced(
        self, name: str, before: float, after: float, cost: float, migrations: int
    ) -> None:
        """The selection learns from its history."""
        self.selector.balanced(
            name, before=max(before, 1.0), after=max(after, 1.0), cost=cost, migrations=migrations
        )

    def _tell(self, stats: Stats) -> None:
        mean = stats.load_sum / stats.n_ranks
        self.selector.observe(
            max(stats.load_max, mean),  # of one rank the mean may be rounded up
            mean,
            total=stats.load_sum,
            utilization=stats.utilization_min,
            messages=stats.messages,
            bytes=stats.message_bytes,
        )
        self._seen = None
