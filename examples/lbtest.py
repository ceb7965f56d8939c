"""Objects with given loads on a regular or random communication graph, like Charm++'s lb_test.

    mpiexec -n 2 python examples/lbtest.py --compare
    mpiexec -n 4 python examples/lbtest.py --graph random --degree 6 --ms 0.1 5 --bytes 64 65536

The load of each object and the message size of each pair of neighbours are drawn at random from
given ranges and stay constant (Menon 2012, figure 2.3).  In each iteration an object computes as
long as its load says, and then sends to its neighbours.  Sorted loads are harder to balance: the
heaviest objects begin on the first rank.
"""

from __future__ import annotations

import argparse
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import runs
from kneighbor import Node, calibrate

import pylb

GRAPHS = ("ring", "mesh", "cube", "random")


@dataclass(frozen=True)
class Program:
    """The loads of the objects, and their messages.

    Attributes
    ----------
    pairs : (m, 2) int array
        Neighbours, each pair once, lower key first, sorted.
    nbytes : (m,) int array
        Size of the message in each direction and iteration.
    load : (n,) float array
        Load of each object, in steps of `kneighbor.Node.compute` or any other unit.
    """

    pairs: np.ndarray
    nbytes: np.ndarray
    load: np.ndarray

    @classmethod
    def draw(
        cls,
        graph: str,
        objects: int,
        load: tuple[float, float],
        nbytes: tuple[int, int],
        degree: int = 4,
        ordered: bool = False,
        seed: int = 0,
    ) -> Program:
        """Draw a random program; the same arguments give the same program.

        Parameters
        ----------
        graph : {"ring", "mesh", "cube", "random"}
            Ring; torus of two or three dimensions, as square as `objects` allows; random.
        objects : int
        load : (float, float)
            Range from which loads are drawn, uniform.
        nbytes : (int, int)
            Range of the messages' sizes.
        degree : int
            Mean number of neighbours in the random graph.
        ordered : bool
            The heaviest objects have the lowest keys.
        """
        for name, (low, high) in (("load", load), ("nbytes", nbytes)):
            if not 0 <= low <= high:
                raise SystemExit(f"{name} is {low:g} to {high:g}: expected a range from 0 upwards")
        rng = np.random.default_rng(seed)
        pairs = _random(rng, objects, degree) if graph == "random" else _torus(graph, objects)
        loads = rng.uniform(*load, objects)
        if ordered:
            loads = -np.sort(-loads)
        return cls(pairs, rng.integers(nbytes[0], nbytes[1], len(pairs), endpoint=True), loads)

    @functools.cached_property
    def sends(self) -> list[list[tuple[int, int]]]:
        """Return for each object its neighbours, and the bytes that it sends to each of them."""
        out: list[list[tuple[int, int]]] = [[] for _ in self.load]
        for (a, b), nbytes in zip(self.pairs.tolist(), self.nbytes.tolist(), strict=True):
            out[a].append((b, nbytes))
            out[b].append((a, nbytes))
        return out

    def neighbours(self, key: int) -> list[int]:
        """Return the neighbours of an object."""
        return [neighbour for neighbour, _ in self.sends[key]]

    def snapshot(self, n_ranks: int, object_bytes: int = 8 * Node.LENGTH) -> pylb.Snapshot:
        """Return the program as a snapshot, with its objects in blocks on the ranks."""
        n = len(self.load)
        a, b = self.pairs.T
        both = np.concatenate([a, b]), np.concatenate([b, a]), np.tile(self.nbytes, 2)
        rank = np.arange(n) * n_ranks // n
        return pylb.Snapshot(
            self.load, rank, n_ranks=n_ranks, edges=both, nbytes=np.full(n, object_bytes)
        )


def _torus(graph: str, objects: int) -> np.ndarray:
    """Return the pairs of neighbours in a torus: an object and the next along each dimension."""
    shape = _shape(objects, {"ring": 1, "mesh": 2, "cube": 3}[graph])
    keys = np.arange(objects).reshape(shape)
    nexts = [np.roll(keys, -1, axis).ravel() for axis in range(len(shape))]
    return _distinct(np.tile(keys.ravel(), len(shape)), np.concatenate(nexts))


def _shape(n: int, dimensions: int) -> tuple[int, ...]:
    """Return factors of `n` that are as close to each other as possible."""
    if dimensions == 1:
        return (n,)
    first = round(n ** (1.0 / dimensions))
    while n % first:
        first -= 1
    return (first, *_shape(n // first, dimensions - 1))


def _random(rng: np.random.Generator, objects: int, degree: int) -> np.ndarray:
    """Return the pairs of a ring, and random ones up to about `degree` neighbours of an object."""
    ring = np.arange(objects)
    more = rng.integers(objects, size=(2, objects * max(0, degree - 2) // 2))
    return _distinct(
        np.concatenate([ring, more[0]]), np.concatenate([(ring + 1) % objects, more[1]])
    )


def _distinct(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the distinct pairs of different objects, sorted; (m, 2)."""
    pairs = np.stack([np.minimum(a, b), np.maximum(a, b)], axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)


def solve(
    comm: Any, program: Program, iterations: int, start: str | None = None, **balancing: Any
) -> runs.Run:
    """Run the program; all other keywords are passed to `pylb.Balancer`."""
    lb = pylb.Balancer(comm, **balancing)
    load = program.load
    for key in runs.starts(lb, len(load), start, program.neighbours, load):
        lb.add(key, Node(key))
    for _ in lb.iterate(iterations):
        for key, node in lb.local():
            node.receive(lb.inbox(key))
            node.compute(round(load[key]))
            for neighbour, nbytes in program.sends[key]:
                lb.send(neighbour, key, np.resize(node.x, max(1, nbytes // 8)), copy=False)
    state = runs.gather(comm, {key: node.x.tobytes() for key, node in lb.local()})
    return runs.Run.of(lb, state.values())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add(
        "--graph",
        choices=GRAPHS,
        default="mesh",
        help="ring; 2D torus (mesh, the default); 3D torus (cube); random",
    )
    add("--objects", type=int, default=16, help="objects on each rank (%(default)s)")
    add("--degree", type=int, default=4, help="mean number of neighbours if random (%(default)s)")
    add("--ms", type=float, nargs=2, default=(0.2, 4.0), help="range of loads in ms (0.2 4.0)")
    add("--steps", type=int, nargs=2, help="range of the loads in steps, instead of --ms")
    add(
        "--bytes",
        type=int,
        nargs=2,
        default=(1024, 8192),
        help="range of message sizes in bytes (1024 8192)",
    )
    add("--sorted", action="store_true", help="the heaviest objects start on the first ranks")
    add("--seed", type=int, default=0, help="seed of the random program (%(default)s)")
    add("--iterations", type=int, default=50, help="iterations (%(default)s)")
    return runs.arguments(parser)


def main() -> None:
    args = arguments()
    n_ranks = runs.n_ranks(args)
    low, high = args.steps or args.ms
    if args.steps is None:
        millisecond = calibrate(runs.WORLD, 1e-3)
        low, high = low * millisecond, high * millisecond
    program = Program.draw(
        args.graph,
        args.objects * n_ranks,
        (low, high),
        tuple(args.bytes),
        args.degree,
        args.sorted,
        args.seed,
    )
    made = runs.make(args, args.iterations, solve, program)
    if runs.is_root():
        runs.print_runs(made, "objects")
        steps, nbytes = program.load, program.nbytes
        print(
            f"graph: {args.graph}, {len(program.pairs)} pairs; loads {steps.min():.0f} to "
            f"{steps.max():.0f} steps, messages {nbytes.min()} to {nbytes.max()} B"
        )
        if args.plot:
            runs.plot(made, args.plot)


if __name__ == "__main__":
    main()
