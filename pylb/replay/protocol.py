"""The consensus protocol on up to millions of simulated ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError

_params = {name: (default, unit, text) for name, default, unit, text in _core.protocol_params()}


class ProtocolDecision(NamedTuple):
    """One decision about the iteration of an LB step.

    Attributes
    ----------
    asked, tentative, final : int
        The iteration whose statistics asked for an LB step; the tentative period; the agreed
        iteration, 0 if the program ended earlier.
    root, known, balanced : float
        Times in seconds: the root reads these statistics; the last rank learns the final iteration;
        all ranks are known to have stopped there.  0 if that did not happen.

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
    """The result of a simulation; times are seconds, and means over the ranks unless stated
    otherwise.

    Attributes
    ----------
    seconds : float
        Time until the last rank ended.
    pause, pause_max, lagged, gathered, received : float
        Time in the pause state, its largest value on a rank, and times of waiting for older
        statistics, at the final iteration, and for neighbours' data.
    bytes_sent, bytes_sent_max, messages_sent : float
        Bytes and messages that the protocol sent in the whole run.
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
        """Mean number of iterations from the statistics that asked to the LB step; nan without LB
        steps.
        """
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

    The simulated program asks for an LB step as soon as possible, ``every`` iterations after the
    last. ``csrc/replay/protocol.h`` describes the model.

    Parameters
    ----------
    **params
        `protocol_params` lists them: ``n_ranks``, ``iterations``, ``lag``, ``serves`` (how often
        per iteration a working rank looks at the network), ``work``, ``noise``, ``L``, ``o``,
        ``g``, ``G``.

    Raises
    ------
    DomainError
        No such parameter, or a value out of its domain.
    StateError
        Deadlock: no rank can continue.  Possible without a lag if ranks block in receives
        (``blocked=1``).

    Examples
    --------
    >>> run = pylb.replay.simulate_protocol(n_ranks=1000, lag=8)
    >>> run.iterations_to_consensus
    8.0
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
