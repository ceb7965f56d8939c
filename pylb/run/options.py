"""The checked arguments of a `Balancer` or an `Advisor`."""

from __future__ import annotations

import hashlib
import math
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pylb.decide.decider import Settings
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.model.network import Network
from pylb.run.environment import CLOCKS, MODES
from pylb.run.rank_facts import RankFacts


@dataclass(frozen=True)
class Options:
    """The checked arguments of a Balancer or an Advisor.

    `settings` has the arguments that the decider needs, and `facts` those about the ranks (speed,
    background, memory_limit).  The other fields have the names of their arguments.
    """

    settings: Settings
    mode: str
    lag: float
    clock: str
    load: Callable[[int, Any], float] | None
    network: Network | None
    record: bool | str | os.PathLike[str]
    replay: str | os.PathLike[str] | None
    facts: RankFacts

    def __post_init__(self) -> None:
        check_one_of("mode", self.mode, MODES)
        check_one_of("clock", self.clock, CLOCKS)
        if self.lag and (self.replay is not None or not isinstance(self.record, bool)):
            source = self.settings.said_by("record")
            raise DomainError(
                f"lag is {self.lag}: expected 0, because record=path{source} or replay=path is "
                "given"
            )
        if self.replay is not None and self.mode != "on":
            source = self.settings.said_by("mode")
            raise DomainError(
                f"mode is {self.mode!r}{source}: expected 'on', because replay=path is given"
            )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The options by name, for reports and records."""
        given = self.settings
        return {
            "strategy": given.name,
            "strategy_params": given.strategy_params,
            "trigger": given.trigger.name,
            "trigger_params": given.trigger.params,
            "mode": self.mode,
            "clock": self.clock,
            "load": "given" if self.load else None,
            "seed": given.seed,
            "give_up": given.gives_up,
            "unlike": given.learns,
            "lag": self.lag,
            "record": self.record is not False,
            "replay": self.replay is not None,
            **self.facts.words,
            **({"environment": list(given.environment)} if given.environment else {}),
        }

    def arguments(self, loop: str) -> tuple[int, str]:
        """Return the arguments of a loop, as a number and as text; all ranks compare them."""
        listed = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        words = f"{loop}, {listed}"
        digest = hashlib.blake2b(words.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1, words


def checked_lag(lag: Any) -> float:
    """Check `lag`; return it as an integer or inf."""
    if lag == math.inf:
        return math.inf
    try:
        out = operator.index(lag)
    except TypeError:
        out = -1
    if not 0 <= out < 2**20:
        raise DomainError(
            f"lag is {lag!r}: expected a number of iterations, from 0 to {2**20 - 1}, or inf"
        )
    return out


def checked_count(n: Any, lag: float) -> int:
    """Check the number of iterations of `iterate`, and return it."""
    count = checks.whole("n", n, 0, "a number of iterations")
    if math.isinf(lag):
        raise DomainError(
            "iterate() with lag=inf: a rank that waits in a receive of the program might wait "
            "forever; expected a finite lag, or begin() and at_sync(key)"
        )
    return count


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DomainError(f"{name} is {value!r}: expected {' or '.join(map(repr, allowed))}")


def loop_is_open(how_to_end: str = "close() of what iterate() returned") -> StateError:
    """Return the error for a second loop within a loop."""
    return StateError(
        f"a loop is under way: expected its end; if an error has left it, {how_to_end} ends it"
    )


def no_messages(name: str, lag: float) -> StateError:
    """Return the error for a call that needs messages if the Balancer has a lag."""
    return StateError(
        f"{name}() with lag={lag}: expected lag=0; with a lag no messages are delivered"
    )
