"""A small program with a `Balancer` on virtual ranks: an example run, which takes seconds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pylb.model import checks
from pylb.run.balancer import Balancer
from pylb.run.report import Report
from pylb.virtual import VirtualCluster

SLOW = (5e-6, 4e-9)  # seconds per message and per byte of a slow network, where LB steps cost time
GHOST = np.zeros(1024)  # 8 KiB, the message to each neighbour in each iteration


class Cell:
    """An object: a piece of a ring, with its data.  A hot spot travels through the ring."""

    def __init__(self, place: float) -> None:
        self.place = place
        self.data = np.zeros(8192)

    def seconds(self, iteration: int, iterations: int) -> float:
        """Return the seconds of this cell in one iteration of a run of `iterations`."""
        apart = abs((self.place - 1.5 * iteration / iterations + 0.5) % 1.0 - 0.5)
        return float(1e-3 * (1.0 + 8.0 * np.exp(-0.5 * (apart / 0.06) ** 2)))


def program(
    comm: Any,
    n_objects: int,
    iterations: int,
    save: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    **balancing: Any,
) -> Report:
    """Run the program on one rank: an ordinary loop with a `Balancer`."""
    lb = Balancer(comm, **balancing)
    for key in range(n_objects):
        if key * lb.n_ranks // n_objects == lb.rank:
            lb.add(key, Cell(key / n_objects))
    for it in lb.iterate(iterations):
        for key, cell in lb.local():
            comm.elapse(cell.seconds(it, iterations))
            lb.send((key + 1) % n_objects, key, GHOST)
            lb.send((key - 1) % n_objects, key, GHOST)
    if save is not None:
        lb.save(save)
    return lb.report(report)


def run(
    n_ranks: int = 8,
    n_objects: int = 128,
    iterations: int = 200,
    *,
    save: str | os.PathLike[str] | None = None,
    report: str | os.PathLike[str] | None = None,
    **balancing: Any,
) -> Report:
    """Run the program on `n_ranks` virtual ranks.

    Virtual time passes only when the program declares it, or when a message is sent.  So the loads
    are the same in every run, and strategies take no time.  `save` and `report` are files for
    `Balancer.save` and `Balancer.report`; `balancing` are arguments of `Balancer`.

    Examples
    --------
    >>> report = pylb.demo.run(n_ranks=4, save="small.h5", report="small.html")
    >>> report.n_objects
    128
    """
    n_objects = checks.whole("n_objects", n_objects, 1, "a number of objects")
    iterations = checks.whole("iterations", iterations, 1, "a number of iterations")
    cluster = VirtualCluster(n_ranks, clock="none", network=SLOW)
    reports: list[Report] = cluster.run(program, n_objects, iterations, save, report, **balancing)
    return reports[0]
