"""Properties of the ranks that a user gives: speeds, other work, memory limits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.parcel import gather_objects
from pylb.console import clip
from pylb.errors import DomainError
from pylb.model.machine import Machine
from pylb.model.snapshot import I32
from pylb.place.registry import Strategy
from pylb.run import memory_share
from pylb.run.partners import own_node, ranks_with

Own = dict[str, float | int]
Answers = tuple[int, dict[str, list[float]]]  # see `run_record.RunFacts.answers`
DTYPES: dict[str, Any] = {"speed": np.float64, "background": np.float64, "memory_limit": np.int64}
EXPECTED = {
    "speed": "a number above 0 (1e-30 to 1e30), one for each rank, a pylb.Machine or a function",
    "background": "seconds, zero or more (at most 1e30), one number for each rank or a function",
    "memory_limit": "bytes, zero or more, one number for each rank, a function or 'auto'",
}


class RankFacts:
    """The properties of this rank that the user has given.

    Attributes
    ----------
    words : dict of str
        "given" or "auto" for each property that is given; the same on all ranks.
    background : float
        Seconds per iteration of this rank's other work; if a function gives them, its most recent
        answer.
    """

    def __init__(self, agreement: Agreement, **given: Any) -> None:
        self._agreement = agreement
        self._given = {
            name: self._resolved(name, value) for name, value in given.items() if value is not None
        }
        self.words = {
            name: "auto" if value == "auto" else "given" for name, value in self._given.items()
        }
        fixed = self._given.get("background", 0.0)
        self.background = 0.0 if callable(fixed) else fixed
        self._before = memory_share.resident() if "auto" in self.words.values() else 0
        # Whether some properties are found only when needed: by a function, or from "auto".
        self._later = any(callable(value) or value == "auto" for value in self._given.values())
        self._now: Own | None = None  # the most recent values
        self._asked_after = 0  # number of iterations after which `_now` was found
        # Values that rank 0 does not have yet, each with its moment (see `run_record.RunFacts`).
        self._answers: list[tuple[int, Own]] = []
        self._last: dict[int, Own] = {}  # on rank 0: the most recent values of each rank
        self._is_said = False  # whether `is_news` has returned True
        self._near: I32 | None = None

    def _resolved(self, name: str, value: Any) -> Any:
        """Return the value for this rank; a function or "auto" is returned as it is, for `_ask`."""
        transport = self._agreement.transport
        if callable(value) or (name == "memory_limit" and isinstance(value, str)):
            if value == "auto" or not isinstance(value, str):
                return value
            raise _refused(name, value)
        if isinstance(value, Machine) and name == "speed":
            value = value.speed
        if np.ndim(value) == 0:
            return _checked(name, value)
        if np.shape(value) != (transport.size,):
            raise DomainError(
                f"{name} has shape {np.shape(value)}: expected ({transport.size},), one for each "
                "rank"
            )
        return _checked(name, value[transport.rank])

    def own(self, done: int) -> Own:
        """Return the properties of this rank after `done` iterations, by name.

        Collective if a property is given by a function or "auto".  All properties are then found
        again for each new value of `done`.  If the function of a rank fails, all ranks raise an
        error (see `Agreement.step`).
        """
        if self._now is None or (self._later and self._asked_after != done):
            self._ask(done)
        assert self._now is not None
        return self._now

    def known(self, name: str) -> float | None:
        """Return the most recent value of a property of this rank; None: it is not given."""
        return (self._now or {}).get(name)

    def start(self, done: int) -> None:
        """When a loop starts: if `background` is a function, call all functions.  Collective."""
        if callable(self._given.get("background")):
            self._ask(done, starts=True)

    def _ask(self, done: int, starts: bool = False) -> None:
        out: Own = {}
        with Attempt() as tried:
            out = {
                name: self._number(name, value)
                for name, value in self._given.items()
                if value != "auto"
            }
        if self._later:
            self._agreement.step(Step.GATHER, done, error=tried.error)
        if "auto" in self.words.values():
            out["memory_limit"] = memory_share.share(self._agreement, done, self._before)
        self.background = out.get("background", self.background)
        if out != self._now:
            self._answers.append((2 * done + starts, out))
        self._now, self._asked_after = out, done

    def near(self, iteration: int, strategy: Strategy) -> I32:
        """Return the ranks of this node; empty: all ranks, or nodes do not matter.  Collective."""
        if "nodes" not in strategy.looks_at:
            return np.zeros(0, np.int32)
        if self._near is None:
            self._near = ranks_with(self._agreement, iteration, own_node())
        return self._near

    def limit_of_root(self, done: int) -> int | None:
        """Return the memory limit of rank 0, on all ranks; None: there is none.  Collective."""
        if "memory_limit" not in self.words:
            return None
        own = int(self.own(done)["memory_limit"])
        of_root = own if self._agreement.transport.rank == 0 else 0
        # A sum over the ranks, because a rank that has failed would not come to a broadcast.
        return self._agreement.step(Step.FORESEE, done, message_bytes=of_root)[0].message_bytes

    def _number(self, name: str, value: float | Callable[[], Any]) -> float | int:
        return _checked(name, value()) if callable(value) else value

    def of_all(self, done: int) -> list[Answers]:
        """On rank 0, return the properties of all ranks at each change since the previous call.

        The other ranks return [].  Collective.
        """
        self.own(done)
        new, self._answers = self._answers, []
        every = gather_objects(self._agreement, Step.GATHER, done, new)
        asked = sorted({moment for part in every.values() for moment, _ in part})
        return [(moment, self._joined(every, moment)) for moment in asked]

    def _joined(self, every: dict[int, list[tuple[int, Own]]], moment: int) -> Any:
        for rank, part in every.items():
            self._last[rank] = dict(part).get(moment, self._last.get(rank, {}))
        last = [self._last[rank] for rank in sorted(self._last)]
        return {name: array.tolist() for name, array in joined(last).items()}

    def is_news(self, full: float) -> bool:
        """Say whether a rank exceeds its memory limit for the first time; full: memory / limit."""
        news = full > 1.0 and not self._is_said
        self._is_said |= news
        return news


def joined(every: list[Own]) -> dict[str, NDArray[Any]]:
    """Join the numbers of the ranks into one array for each name."""
    return {
        name: np.array([own[name] for own in every], dtype)
        for name, dtype in DTYPES.items()
        if every and name in every[0]
    }


def _checked(name: str, value: Any) -> float | int:
    try:
        if name == "memory_limit":
            whole = operator.index(value)
            if 0 <= whole < 2**63:
                return whole
            raise ValueError
        out = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _refused(name, value) from None
    if not (1e-30 if name == "speed" else 0.0) <= out <= 1e30:
        raise _refused(name, value)
    return out


def _refused(name: str, value: Any) -> DomainError:
    return DomainError(f"{name} is {clip(repr(value), 60)}: expected {EXPECTED[name]}")
