"""A program on virtual ranks in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.network import Network
from pylb.model.snapshot import F64
from pylb.virtual.comm import Scheduler, VirtualComm, World

CLUSTER = Network(alpha=1e-6, beta=1e-10)  # seconds per message and per byte of a typical cluster
CLOCKS = ("cpu", "wall", "none")
MOST_RANKS = 10_000


class VirtualCluster:
    """A parallel machine of `n_ranks` virtual ranks in this process.

    ``cluster.run(main)`` calls ``main(comm)`` on every rank, as ``mpiexec -n p`` would, and
    ``pylb.Balancer(comm)`` works there unchanged.  One rank runs at a time, in an order that is
    the same in every run.  Each rank has its own virtual time, which passes while the rank runs, so
    loads, waits and iteration times are those of p processors.

    Parameters
    ----------
    n_ranks : int
        Number of ranks, up to 10,000; each is a greenlet.
    speed : array_like, (n_ranks,), optional
        Speed of each rank; at speed 2 the same work takes half the time.  Default: all 1.
    network : (alpha, beta)
        Seconds per message and per byte.  A message occupies its sender for
        alpha + beta * bytes seconds, and then arrives.  A collective call begins when the last rank
        has called it (bcast and scatter: when the root has).  It takes the time of one message for
        each level of a binary tree of the ranks; but gather, reduce, allgather and scatter take
        alpha for each level, and beta for each byte of all ranks.
    clock : {"cpu", "wall", "none"}
        How virtual time passes.  "cpu": by the rank's processor time, which excludes other
        processes and sleep; "wall": by the wall clock; "none": only by messages and by
        ``comm.elapse(seconds)`` in the program, so that all times are the same in every run.

    Attributes
    ----------
    seconds : (n_ranks,) float64
        Virtual time at which each rank ended in the most recent run.

    Notes
    -----
    An error on one rank ends all ranks, and `run` raises it.  If no rank can continue, `run` raises
    `pylb.errors.DeadlockError`, which says what each rank waits for.

    Ranks share the global variables of the process, e.g. those of modules.  A rank runs without
    interruption until it waits.

    Examples
    --------
    >>> def main(comm):
    ...     lb = pylb.Balancer(comm, strategy="GreedyLB", every=5)
    ...     for key in range(lb.rank, 32, lb.n_ranks):
    ...         lb.add(key, key)
    ...     for it in lb.iterate(20):
    ...         for key, _ in lb.local():
    ...             comm.elapse(1e-3 * (1 + key % 4))
    ...     return lb.report()
    >>> report = pylb.VirtualCluster(4, clock="none").run(main)[0]
    >>> report.n_ranks, report.migrations > 0
    (4, True)
    """

    def __init__(
        self,
        n_ranks: int,
        *,
        speed: ArrayLike | None = None,
        network: tuple[float, float] = CLUSTER,
        clock: str = "cpu",
    ) -> None:
        below = MOST_RANKS + 1
        self.n_ranks = checks.whole("n_ranks", n_ranks, 1, "a number of ranks", below=below)
        self.speed: F64 = checks.vector(
            "speed", [1.0] * self.n_ranks if speed is None else speed, self.n_ranks
        )
        if not (np.isfinite(self.speed) & (self.speed > 0)).all():
            raise DomainError(
                "speed has a value that is not positive or not finite: expected finite numbers "
                "above 0"
            )
        self.network = Network.of(network)
        if max(self.network) >= 1e9:
            raise DomainError(
                f"network is {network}: expected seconds per message and per byte, below 1e9"
            )
        checks.one_of("clock", clock, CLOCKS)
        self.clock = clock
        self.seconds: F64 = np.zeros(self.n_ranks)

    def run(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Run ``main(comm, *args, **kwargs)`` on every rank; return the results by rank.

        Raises
        ------
        Exception
            The first error that a rank raised; from Python 3.11 on, a note names the rank.
        DeadlockError
            No rank could continue.
        """
        if not callable(main):
            raise DomainError(f"main is {main!r}: expected a function, main(comm)")
        scheduler = Scheduler((1.0 / self.speed).tolist(), self.clock)
        world = World(scheduler, self.network)
        try:
            return scheduler.run(lambda rank: main(VirtualComm(world, rank), *args, **kwargs))
        finally:
            self.seconds = np.array([rank.now for rank in scheduler.ranks])

    def __repr__(self) -> str:
        return f"<VirtualCluster: {self.n_ranks} ranks, clock {self.clock!r}, {self.network}>"
