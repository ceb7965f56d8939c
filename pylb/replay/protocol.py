"""The consensus protocol on up to millions of simulated ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError

_params = {name: (default, unit, text) for name, default, unit, text in _core.protocol_params()}


class ProtocolDecision(NamedTuple):
    """One decision on an iteration to balance at.

    Attributes
    ----------
    asked, tentative, final : int
        Iteration whose statistics asked for it; the tentative period; the one that was agreed on,
        0 where the program was over before.
    root, known, balanced : float
        Seconds: the root takes those statistics, the last rank knows the final iteration, all are
        known to stand there; 0 where it did not come to that.
    """

    asked: int
    tentative: int
    final: int
    root: float
    known: float
    balanced: float


@dataclass(frozen=True)
class ProtocolRun:
    """The result of a simulation: seconds, and means over the ranks if not said otherwise.

    Attributes
    ----------
    seconds : float
        Until the last rank had ended.
    pause, pause_max, lagged, gathered, received : float
        In the pause state, and of the rank that paused longest; waiting for older statistics;
        standing at the final iteration; waiting for neighbours' data.
    bytes_sent, bytes_sent_max, messages_sent : float
        For the protocol, in the whole run.
    events : int
        Of the simulation.
    decisions : tuple of ProtocolDecision
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
        """Mean iterations from the statistics that asked to the LB step; nan: there was none."""
        waits = [d.final - d.asked for d in self.decisions if d.balanced > 0]
        return float(np.mean(waits)) if waits else float("nan")


def protocol_params() -> dict[str, tuple[Any, str, str]]:
    """Every parameter of `simulate_protocol`: (default, unit, help)."""
    return dict(_params)


def simulate_protocol(**params: Any) -> ProtocolRun:
    """Run the consensus protocol on simulated ranks: the state machines of ``csrc/decide``
    themselves, in the time of a LogGP network.

    An LB step is wanted as soon as possible, ``every`` iterations after the last one.
    ``csrc/replay/protocol.h`` has the model.

    Parameters
    ----------
    **params
        `protocol_params` lists them: ``n_ranks``, ``iterations``, ``lag``, ``serves`` (how often
        a rank that works looks at the network), ``work``, ``noise``, ``L``, ``o``, ``g``, ``G``.

    Raises
    ------
    DomainError
        No such parameter, or a value out of its domain.
    StateError
        No rank can go on: what happens without a lag where ranks wait in receives of their own
        (``blocked=1``).

    Examples
    --------
    >>> run = simulate_protocol(n_ranks=100_000, lag=8)
    >>> run.iterations_to_consensus
    """
    for name, value in params.items():
        if name not in _params:
            raise DomainError(f"no parameter {name!r}: there are {', '.join(_params)}")
        kind = type(_params[name][0])
        if isinstance(value, bool) or not isinstance(value, (kind, int)):
            raise DomainError(f"{name} is {value!r}: expected a number, {kind.__name__}")
    values = tuple(params.get(name, default) for name, (default, _, _) in _params.items())
    figures, rows = _core.protocol(values)
    return ProtocolRun(**figures, decisions=tuple(ProtocolDecision(*row) for row in rows))
