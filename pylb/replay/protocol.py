"""Simulate, on up to millions of ranks, the protocol by which ranks agree when to rebalance."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError

_params = {name: (default, unit, text) for name, default, unit, text in _core.protocol_params()}


class ProtocolDecision(NamedTuple):
    """One agreement about the iteration of an LB step.

    Attributes
    ----------
    asked : int
        The iteration whose statistics caused the LB step.
    tentative : int
        The tentative iteration of the LB step, before the ranks have agreed.
    final : int
        The agreed iteration; 0 if the program ended earlier.
    root : float
        Time in seconds when the root reads the statistics of iteration `asked`.
    known : float
        Time when the last rank learns the agreed iteration; 0: never.
    balanced : float
        Time when all ranks are known to have stopped at the agreed iteration; 0: never.

    Examples
    --------
    >>> first = pylb.replay.simulate_protocol(n_ranks=64, lag=4).decisions[0]
    >>> first.final - first.asked  # iterations
    4
    """

    asked: int
    tentative: int
    final: int
    root: float
    known: float
    balanced: float


@dataclass(frozen=True)
class ProtocolRun:
    """The result of a simulation.  Times are in seconds.

    Attributes
    ----------
    seconds : float
        Time until the last rank ended.
    pause, pause_max : float
        Time for which a rank waits until ranks have agreed: mean over the ranks, and maximum.
    lagged, gathered, received : float
        Waiting time, mean over the ranks: for the statistics of `lag` iterations ago, for other
        ranks at the agreed iteration, and for data of neighbours.
    bytes_sent, bytes_sent_max, messages_sent : float
        What the protocol sent in the whole run: bytes per rank (mean and maximum), and messages per
        rank (mean).
    events : int
        Number of events of the simulation.
    decisions : tuple of ProtocolDecision

    Examples
    --------
    >>> run = pylb.replay.simulate_protocol(n_ranks=64, lag=4)
    >>> len(run.decisions) > 0
    True
    """

    seconds: float
    pause: float
    pause_max: float
    lagged: float
    gathered: float
    received: float
    bytes_sent: float
    bytes_sent_max: float
    messages_sent: float
    events: int
    decisions: tuple[ProtocolDecision, ...]

    @property
    def iterations_to_consensus(self) -> float:
        """Mean number of iterations from `asked` to the LB step; nan if there was no LB step."""
        waits = [d.final - d.asked for d in self.decisions if d.balanced > 0]
        return float(np.mean(waits)) if waits else float("nan")


def protocol_params() -> dict[str, tuple[Any, str, str]]:
    """Return every parameter of `simulate_protocol`: (default, unit, help).

    Examples
    --------
    >>> default, unit, text = pylb.replay.protocol_params()["n_ranks"]
    >>> default
    1000
    """
    return dict(_params)


def simulate_protocol(**params: Any) -> ProtocolRun:
    """Simulate the consensus protocol: the state machines of ``csrc/decide`` on a LogGP network.

    The simulated program asks for an LB step ``every`` iterations after the previous one.
    ``csrc/replay/protocol.h`` describes the model.

    Parameters
    ----------
    **params
        `protocol_params` lists and explains them, e.g. ``n_ranks``, ``lag``, and ``serves``, the
        number of times per iteration that a working rank checks for messages.

    Raises
    ------
    DomainError
        There is no such parameter, or its value is out of its domain.
    StateError
        Deadlock, which is possible if ``lag`` is 0 and ranks block in receives (``blocked=1``).

    Examples
    --------
    >>> run = pylb.replay.simulate_protocol(n_ranks=1000, lag=8)
    >>> run.iterations_to_consensus
    8.0
    """
    for name in params:
        if name not in _params:
            raise DomainError(f"no parameter {name!r}: there are {', '.join(_params)}")
    values = tuple(
        _checked(name, params.get(name, default), default)
        for name, (default, _, _) in _params.items()
    )
    figures, rows = _core.protocol(values)
    return ProtocolRun(**figures, decisions=tuple(ProtocolDecision(*row) for row in rows))


def _checked(name: str, value: Any, default: Any) -> float:
    whole = isinstance(default, int)
    fits = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not (fits and abs(value) < 1 << 63):
        raise DomainError(f"{name} is {value!r}: expected a number, {type(default).__name__}")
    return int(value) if whole else float(value)
