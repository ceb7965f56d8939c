"""A heated plate that balances itself: five-point Jacobi with a moving source.

    mpiexec -n 2 python examples/jacobi2d.py --compare
    pylb lab --share 0.25 -- mpiexec -n 8 python examples/jacobi2d.py --compare
    python examples/jacobi2d.py --compare --virtual 64

The plate is divided into many more blocks than there are ranks (heat.py has their physics).
Blocks near the source take longer, and the source moves: the ranks' loads drift apart.  pylb
measures the blocks and moves them.  The printed fingerprint of the solution is the same for every
number of ranks, balanced or not.
"""

from __future__ import annotations

import argparse
from typing import Any

import runs
from heat import Block, Plate

import pylb


def solve(
    comm: Any, plate: Plate, iterations: int, start: str | None = None, **balancing: Any
) -> runs.Run:
    """Run the solver; all other keywords are passed to `pylb.Balancer`."""
    lb = pylb.Balancer(comm, **balancing)
    for key in runs.starts(lb, plate.blocks**2, start, lambda key: plate.neighbours(key).values()):
        lb.add(key, Block(plate, key))
    for _ in lb.iterate(iterations):
        for key, block in lb.local():
            for source, border in lb.inbox(key):
                block.receive(source, border)
            block.advance()
            for side, neighbour in plate.neighbours(key).items():
                lb.send(neighbour, key, block.border(side))
    temperatures = {key: block.t[1:-1, 1:-1].tobytes() for key, block in lb.local()}
    return runs.Run.of(lb, runs.gather(comm, temperatures).values())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=16, help="blocks along a side (%(default)s)")
    parser.add_argument(
        "--size", type=int, default=32, help="cells along a block's side (%(default)s)"
    )
    parser.add_argument("--iterations", type=int, default=200, help="time steps (%(default)s)")
    return runs.arguments(parser)


def main() -> None:
    args = arguments()
    plate = Plate(args.blocks, args.size)
    made = runs.make(args, args.iterations, solve, plate)
    if runs.is_root():
        runs.print_runs(made, "blocks")
        if args.plot:
            runs.plot(made, args.plot)


if __name__ == "__main__":
    main()
