"""A ring of objects that send messages to their neighbours, and a sudden imbalance.

    mpiexec -n 2 python examples/kneighbor.py --compare
    mpiexec -n 2 python examples/kneighbor.py --compare --k 4 --bytes 1000000 --ms 0.2

The example follows kNeighbor, the micro-benchmark of Menon 2012 (figures 3.4 and 3.7).  In every
iteration each object computes, and sends a message to its k neighbours on both sides of the ring.
From a given iteration on, the objects on some of the ranks compute several times longer.  The table
shows how soon pylb rebalanced, and what that saved.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import runs

import pylb
from pylb.console import show


@dataclass(frozen=True)
class Ring:
    """The parameters.

    Attributes
    ----------
    objects : int
        Number of objects on the ring.
    k : int
        Neighbours on each side to which an object sends.
    nbytes : int
        Size of a message, a multiple of 8.
    work : int
        Steps that an object computes in an iteration (`Node.compute`).
    start : int
        Iteration at which the imbalance appears.
    share : float
        Part of the ring, from its beginning, that becomes heavy.
    factor : int
        Steps of a heavy object, as a multiple of `work`.
    """

    objects: int
    k: int
    nbytes: int
    work: int
    start: int
    share: float
    factor: int

    def __post_init__(self) -> None:
        if not 0 < 2 * self.k < self.objects:
            raise SystemExit(f"k is {self.k}: expected 1 or more, and 2k below {self.objects}")
        if self.nbytes < 8 or self.nbytes % 8:
            raise SystemExit(f"bytes is {self.nbytes}: expected a multiple of 8")

    def neighbours(self, key: int) -> list[int]:
        """Return the k objects on either side, the nearest first."""
        return [(key + d) % self.objects for i in range(1, self.k + 1) for d in (-i, i)]

    def steps(self, key: int, iteration: int) -> int:
        """Return the number of steps that an object computes in an iteration."""
        is_heavy = iteration >= self.start and key < self.share * self.objects
        return self.work * (self.factor if is_heavy else 1)


class Node:
    """One object: a vector under the logistic map, coupled to its neighbours' vectors.

    Attributes
    ----------
    x : (1000,) float64
    steps : int
        Number of steps in the most recent iteration.
    """

    LENGTH = 1000

    def __init__(self, key: int):
        self.steps = 0
        self.x = np.linspace(0.1, 0.9, self.LENGTH) / (1.0 + 0.01 * key)

    def receive(self, messages: list[tuple[int, np.ndarray]]) -> None:
        """Move a little towards the first value of each neighbour."""
        if messages:
            mean = sum(float(data[0]) for _, data in messages) / len(messages)
            self.x += 0.1 * (mean - self.x)

    def compute(self, steps: int) -> None:
        """Replace x by 3.9 x (1 - x), `steps` times; x stays between 0 and 1."""
        self.steps = steps
        for _ in range(steps):
            self.x *= 3.9 - 3.9 * self.x


def solve(
    comm: Any, ring: Ring, iterations: int, start: str | None = None, **balancing: Any
) -> runs.Run:
    """Run the ring; all other keywords are passed to `pylb.Balancer`."""
    lb = pylb.Balancer(comm, **balancing)
    for key in runs.starts(lb, ring.objects, start, ring.neighbours):
        lb.add(key, Node(key))
    for it in lb.iterate(iterations):
        for key, node in lb.local():
            node.receive(lb.inbox(key))
            node.compute(ring.steps(key, it))
            message = np.resize(node.x, ring.nbytes // 8)
            for neighbour in ring.neighbours(key):
                lb.send(neighbour, key, message, copy=False)
    state = runs.gather(comm, {key: node.x.tobytes() for key, node in lb.local()})
    return runs.Run.of(lb, state.values())


def calibrate(comm: Any, seconds: float) -> int:
    """Return how many steps an object computes in about `seconds`; the same on all ranks."""
    node, steps = Node(0), 1000
    elapsed = []
    for _ in range(5):
        begin = time.perf_counter()
        node.compute(steps)
        elapsed.append(time.perf_counter() - begin)
    work = max(1, round(steps * seconds / min(elapsed)))
    return comm.bcast(work) if comm is not None else work


@dataclass
class Reaction:
    """How a run reacted to the imbalance, with means over three periods: before, during, after.

    Attributes
    ----------
    after : int or None
        Iterations from the imbalance to the first LB step; None: there was none.
    ratio : list of float
        max/mean before the imbalance, until the LB step, and afterwards.
    seconds : list of float
        Time of an iteration in these periods.
    """

    after: int | None
    ratio: list[float | None]
    seconds: list[float | None]

    @classmethod
    def of(cls, run: runs.Run, start: int) -> Reaction:
        """Return the reaction to an imbalance that appeared at iteration `start`."""
        it = run.metrics
        first = next((i for i in run.lb_step_iterations if i >= start), None)
        end = len(it.time) if first is None else first + 1
        spells = [slice(0, start), slice(start, end), slice(end, None)]
        return cls(
            None if first is None else end - start,
            [_mean(it.max[s], it.mean[s].sum()) for s in spells],
            [_mean(it.time[s], len(it.time[s])) for s in spells],
        )


def _mean(values: np.ndarray, by: float) -> float | None:
    return float(values.sum() / by) if by > 0 else None


def print_reactions(made: dict[str, runs.Run], ring: Ring) -> None:
    """Print for each run how soon it reacted, and max/mean and iteration time in each period."""
    rows = []
    for name, run in made.items():
        r = Reaction.of(run, ring.start)
        milliseconds = [None if s is None else 1e3 * s for s in r.seconds]
        rows.append([name, r.after, *r.ratio, *milliseconds])
    title = (
        f"{100 * ring.share:.4g} % of the ring compute {ring.factor} times as long from iteration "
        f"{ring.start} on"
    )
    ratios = ["max/mean: before", "until LB", "after LB"]
    times = ["ms/iteration: before", "until LB", "after LB"]
    show(["run", "LB after iterations", *ratios, *times], rows, title=title)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--objects", type=int, default=16, help="objects on each rank (%(default)s)")
    add("--k", type=int, default=2, help="neighbours on each side (%(default)s)")
    add("--bytes", type=int, default=8192, help="size of a message, in bytes (%(default)s)")
    add("--ms", type=float, default=1.0, help="load of an object, in milliseconds (%(default)s)")
    add("--work", type=int, help="load of an object, in steps, instead of --ms")
    add("--start", type=int, default=50, help="first iteration with imbalance (%(default)s)")
    add(
        "--share", type=float, default=0.5, help="part of the ring that becomes heavy (%(default)s)"
    )
    add("--factor", type=int, default=4, help="factor on the work of heavy objects (%(default)s)")
    add("--iterations", type=int, default=100, help="iterations (%(default)s)")
    return runs.arguments(parser)


def main() -> None:
    args = arguments()
    work = args.work or calibrate(runs.WORLD, 1e-3 * args.ms)
    ring = Ring(
        args.objects * runs.n_ranks(args),
        args.k,
        args.bytes,
        work,
        args.start,
        args.share,
        args.factor,
    )
    made = runs.make(args, args.iterations, solve, ring)
    if runs.is_root():
        runs.print_runs(made, "objects")
        print(f"each computes {ring.work} steps and sends {2 * ring.k} messages of {ring.nbytes} B")
        print()
        print_reactions(made, ring)
        if args.plot:
            runs.plot(made, args.plot)


if __name__ == "__main__":
    main()
