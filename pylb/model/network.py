"""What messages cost: alpha and beta of Menon eq. 3.6, given, fitted or measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core, optional
from pylb.errors import DomainError
from pylb.model.snapshot import F64, Snapshot

SIZES = (8, 1 << 10, 1 << 15, 1 << 20)
REPEATS = 3, 20  # of a size: at least, and at most, until they took `ENOUGH`
ENOUGH = 1e-2  # seconds: where ranks share cores a message may take a time slice


class Network(NamedTuple):
    """Cost of messages between ranks; ``pylb.Selector(*network)`` takes it.

    Attributes
    ----------
    alpha : float
        Seconds per message.
    beta : float
        Seconds per byte.
    """

    alpha: float
    beta: float

    def seconds(self, messages: int, bytes: int) -> float:
        """alpha m_n + beta m_v (Menon eq. 3.6)."""
        return self.alpha * messages + self.beta * bytes

    def rank_times(self, snapshot: Snapshot) -> F64:
        """Seconds of each rank in one iteration, with what it sends to other ranks, (p,)."""
        out: F64 = _core.phase_times(snapshot, self.alpha, self.beta)
        return out

    @classmethod
    def fit(cls, bytes: ArrayLike, seconds: ArrayLike) -> Network:
        """Fit alpha and beta, both zero or more, to measured messages.

        The squares of the relative errors are minimized: sizes span decades, and with absolute
        errors the noise of the largest messages would hide alpha.

        Parameters
        ----------
        bytes, seconds : array_like, (n,)
            Size and time of each message; n >= 2, sizes not all the same, seconds > 0.

        Raises
        ------
        DomainError
        """
        x, y = np.asarray(bytes, dtype=np.float64), np.asarray(seconds, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape:
            raise DomainError(
                f"bytes and seconds have shapes {x.shape} and {y.shape}: expected (n,) of both"
            )
        if not (np.isfinite(x) & (x >= 0) & np.isfinite(y) & (y > 0)).all():
            raise DomainError("bytes or seconds has a value that is no size or no time above zero")
        if len(np.unique(x)) < 2:
            raise DomainError(f"bytes has {len(np.unique(x))} different sizes: expected 2 or more")
        design, ones = np.stack([1 / y, x / y], 1), np.ones_like(y)
        alpha, beta = np.linalg.lstsq(design, ones)[0]
        if alpha < 0:
            alpha, beta = 0.0, design[:, 1].sum() / (design[:, 1] ** 2).sum()
        elif beta < 0:
            alpha, beta = design[:, 0].sum() / (design[:, 0] ** 2).sum(), 0.0
        return cls(float(alpha), float(beta))


def measure_network(comm: Any) -> Network:
    """Measure alpha and beta between the ranks of an mpi4py communicator; the same on all ranks.

    Each rank of the lower half plays ping-pong with one of the upper half, all pairs at once, so
    that messages cross nodes where there are several, and contend as a program's own do.  Of each
    size and pair the fastest of some repeats counts, since only delays disturb it; the mean over
    the pairs is fitted.  Some milliseconds.  Collective; may block.

    On one rank no message costs anything; a virtual cluster knows what its own do.

    Raises
    ------
    DomainError
        `comm` is no intracommunicator of mpi4py.
    MissingPartError
        mpi4py is missing.
    """
    known = getattr(comm, "network", None)
    if isinstance(known, Network):  # of a virtual cluster
        return known
    optional.require("mpi4py")
    from mpi4py import MPI

    if not isinstance(comm, MPI.Intracomm):
        raise DomainError(f"comm is {comm!r}: expected an intracommunicator of mpi4py")
    if comm.size == 1:
        return Network(0.0, 0.0)
    own = comm.Dup()
    try:
        pairs = own.gather(_halves(own, MPI.Wtime))
        fitted = None
        if pairs is not None:
            seconds = np.mean([row for row in pairs if row is not None], axis=0)
            fitted = Network.fit(SIZES, seconds)
        return Network(*own.bcast(fitted))
    finally:
        own.Free()


def _halves(comm: Any, clock: Any) -> list[float] | None:
    """Seconds of one message of each size, on the ranks of the lower half; None on the others."""
    half = comm.size // 2
    below = comm.rank < half
    if comm.rank >= 2 * half:  # of an odd number the last one looks on
        return None
    times = ping_pong(comm, comm.rank + half if below else comm.rank - half, below, clock)
    return times if below else None


def ping_pong(comm: Any, partner: int, is_first: bool, clock: Any) -> list[float]:
    """Seconds of one message of each of `SIZES`: half of the fastest round trip of several.

    The partner calls this function too; one of both is the first.
    """
    out = []
    for size in SIZES:
        data, times = np.zeros(size, dtype=np.uint8), list[float]()
        begin = clock()
        while not data[0]:  # the last one says that it is
            start = clock()
            if is_first:
                n = len(times) + 1
                data[0] = n == REPEATS[1] or (n >= REPEATS[0] and start - begin > ENOUGH)
                comm.Send(data, partner)
                comm.Recv(data, partner)
            else:
                comm.Recv(data, partner)
                comm.Send(data, partner)
            times.append((clock() - start) / 2)
        out.append(max(min(times), 1e-9))  # a clock may be coarser than a message is long
    return out
