"""The transport interface, what travels through it, and the transport of one rank."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.lanes import Exchanger
from pylb.model.network import Network

Sends = list[tuple[int, list[Any]]]  # (rank, buffers), at most one entry for each rank
NOBODY = 2**63 - 1  # failed_rank where none has failed
NO_LOADS = np.zeros(0)


class Stats(NamedTuple):
    """The merged record of a step, field by field as in ``csrc/measure/stats.h``."""

    kind: int
    iteration: int
    arguments: int
    n_ranks: int
    n_objects: int
    n_changed: int
    n_ended: int
    load_sum: float
    idle_sum: float
    load_max: float
    load_min: float
    load_max_rank: int
    utilization_min: float
    messages: int
    message_bytes: int
    time_max: float
    cost_max: float
    failed_rank: int
    mixed: bool


class Contribution(NamedTuple):
    """What a rank contributes to a collective step.

    Attributes
    ----------
    loads : (n,) float64
        Seconds of each of its objects.
    idle, time, cost : float
        Seconds.
    """

    kind: int
    iteration: int
    arguments: int
    failed: bool = False
    n_objects: int = 0
    loads: NDArray[np.float64] = NO_LOADS
    idle: float = 0.0
    messages: int = 0
    message_bytes: int = 0
    time: float = 0.0
    cost: float = 0.0
    n_changed: int = 0


class Transport(Protocol):
    """Collective operations over all ranks; while they wait they leave the processor to others."""

    rank: int
    size: int
    pace: float  # seconds of the ranks' clock that pass in a second of computing

    def step(self, sample: Contribution, sends: Sends, /) -> tuple[tuple[Any, ...], Sends]: ...
    def bcast(self, array: Any, root: int, /) -> None: ...
    def allgather(self, data: Any, /) -> list[bytes]: ...
    def reduction(self, depth: int, /) -> Any:
        """For `_core.AtSync`: a capsule, or None on one rank.  Collective the first time."""
        ...

    def exchanger(self) -> Exchanger | None:
        """Exchanges of rows; None: by collective steps.  Collective the first time."""
        ...

    def network(self) -> Network:
        """What messages between the ranks cost, measured if need be.  Collective."""
        ...


class Remote(Transport, Protocol):
    """A transport with steps in two halves, for a rank that waits for others only for a while."""

    @property
    def pending(self) -> bool:
        """Whether a step was begun and is not over."""
        ...

    def begin(self, sample: Contribution, sends: Sends, /) -> None: ...
    def wait(self, seconds: float, /) -> tuple[tuple[Any, ...], Sends] | None: ...
    def free(self) -> None:
        """Free what MPI holds.  Collective."""
        ...


class Serial:
    """One rank, no MPI."""

    rank, size, pace = 0, 1, 1.0

    def step(self, sample: Contribution, sends: Sends, /) -> tuple[tuple[Any, ...], Sends]:
        """The rank's own record, and no messages."""
        return _core.stats([sample]), []

    def bcast(self, array: Any, root: int, /) -> None:
        """Nothing to do."""

    def allgather(self, data: Any, /) -> list[bytes]:
        """The rank's own."""
        return [bytes(data)]

    def reduction(self, depth: int, /) -> None:
        """None: what the rank contributes is the result."""

    def exchanger(self) -> None:
        """None: by steps."""

    def network(self) -> Network:
        """No message costs anything."""
        return Network(0.0, 0.0)
