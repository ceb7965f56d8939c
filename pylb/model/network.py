"""The cost of messages: alpha and beta of Menon 2012, eq. 3.6, given or measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.model import checks
from pylb.model.snapshot import F64, Snapshot

# Bytes of the measured messages.  None in between: a link with a rate limit sends these faster
# than its bandwidth allows.
SIZES = (8, 1 << 20)
REPEATS = 3, 20  # smallest and largest number of repeats for each size
# Seconds after which a size gets only the smallest number of repeats: if ranks share cores, a
# message can take a whole time slice.
ENOUGH = 1e-2


class Network(NamedTuple):
    """Cost of messages between ranks, e.g. for ``pylb.Balancer(network=...)``.

    Examples
    --------
    >>> network = pylb.model.Network(alpha=2e-6, beta=1e-10)
    >>> network.alpha + network.beta * 10_000  # seconds of a message of 10 kB
    3e-06
    """

    alpha: float  #: Seconds per message.
    beta: float  #: Seconds per byte.

    @classmethod
    def of(cls, given: Any) -> Network:
        """Convert an argument `network`; DomainError if it is not (alpha, beta) in seconds."""
        alpha, beta = checks.vector("network", given, 2).tolist()
        return cls(checks.seconds("network[0]", alpha), checks.seconds("network[1]", beta))

    def seconds(self, messages: int, nbytes: int) -> float:
        """Return alpha * messages + beta * bytes, in seconds (Menon 2012, eq. 3.6)."""
        return self.alpha * messages + self.beta * nbytes

    def rank_times(self, snapshot: Snapshot) -> F64:
        """Return the seconds of each rank in one iteration, including its messages, (p,)."""
        out: F64 = _core.phase_times(snapshot, self.alpha, self.beta)
        return out


def line(times: Sequence[float]) -> Network:
    """Return alpha and beta, 0 or more, from the seconds of a message of each of `SIZES`."""
    return Network(times[0], max(times[-1] - times[0], 0.0) / (SIZES[-1] - SIZES[0]))


def measure_network(comm: Any) -> Network:
    """Measure alpha and beta between the ranks of an mpi4py communicator; all get the same result.

    Each rank of the lower half plays ping-pong with one of the upper half, all pairs at the same
    time, so that they share the network as in a program.  For each size and pair the fastest of
    some repeats counts; then the mean over the pairs.  Collective; blocks for some milliseconds.

    With one rank, alpha and beta are 0.  On a virtual cluster they are known, and not measured.

    Examples
    --------
    >>> cluster = pylb.VirtualCluster(2, network=(2e-6, 1e-10))
    >>> cluster.run(pylb.model.measure_network)[0]
    Network(alpha=2e-06, beta=1e-10)
    """
    known = getattr(comm, "network", None)
    if isinstance(known, Network):  # `comm` belongs to a virtual cluster
        return known
    checks.intracommunicator(comm)
    own = comm.Dup()
    try:
        return network_between(own, own.allgather)
    finally:
        own.Free()


def network_between(comm: Any, allgather: Callable[[Any], list[Any]]) -> Network:
    """Measure like `measure_network`; only `rank`, `size`, `Send` and `Recv` of `comm` are used."""
    if comm.size == 1:
        return Network(0.0, 0.0)
    half, below = comm.size // 2, comm.rank < comm.size // 2
    times = None
    if comm.rank < 2 * half:  # if the number of ranks is odd, the last one pauses
        times = ping_pong(comm, comm.rank + half if below else comm.rank - half, below)
    pairs = [x for x in allgather(times if below else None) if x is not None]
    # different processors may round differently, so all ranks use the result of rank 0
    return Network(*allgather(tuple(line(np.mean(pairs, axis=0).tolist())))[0])


def ping_pong(comm: Any, partner: int, is_first: bool) -> list[float]:
    """Return half the seconds of the fastest round trip for each of `SIZES`.

    Both partners call this function, one of them with ``is_first=True``.
    """
    out = []
    for size in SIZES:
        data, times = np.zeros(size, dtype=np.uint8), list[float]()
        begin = perf_counter()
        while not data[0]:  # the last message begins with a byte 1
            start = perf_counter()
            if is_first:
                n = len(times) + 1
                data[0] = n == REPEATS[1] or (n >= REPEATS[0] and start - begin > ENOUGH)
                comm.Send(data, partner)
                comm.Recv(data, partner)
            else:
                comm.Recv(data, partner)
                comm.Send(data, partner)
            times.append((perf_counter() - start) / 2)
        out.append(max(min(times), 1e-9))  # the clock may not resolve a single message
    return out
