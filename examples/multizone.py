"""A flow in zones of very unequal size that balances itself, modelled on NPB BT-MZ.

    mpiexec -n 2 python examples/multizone.py --compare
    mpiexec -n 4 python examples/multizone.py --size A --strategy GreedyLB --every 20

The zones are those of BT-MZ of the NAS Parallel Benchmarks (van der Wijngaart and Jin 2003; Menon
2012, figure 2.2): their widths grow from zone to zone in x and in y, so that the largest zone has
some 20 times more cells than the smallest (9 times in class S).  In each time step a zone solves
its flow implicitly (flow.py) and sends its borders to its four neighbours.  The printed fingerprint
of the solution is the same for every number of ranks, balanced or not.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Any

import runs
from flow import EAST, NORTH, OPPOSITE, SOUTH, WEST, Box, Zone

import pylb


@dataclass(frozen=True)
class Problem:
    """A class of BT-MZ: cells in x, y and z, zones along x and along y, ratio of their widths.

    Attributes
    ----------
    cells : (int, int, int)
    zones : int
        Number along x, and along y.
    ratio : float
        Width of the last zone divided by that of the first, in x and in y.
    """

    cells: tuple[int, int, int]
    zones: int
    ratio: float = 4.5

    @property
    def n_zones(self) -> int:
        """The number of all zones."""
        return self.zones**2

    @functools.cached_property
    def boxes(self) -> list[Box]:
        """Return the zones in the order of their keys, along x first."""
        nx, ny, nz = self.cells
        return [
            Box((x0, y0, 0), (x1 - x0, y1 - y0, nz), self.cells)
            for y0, y1 in widths(ny, self.zones, self.ratio)
            for x0, x1 in widths(nx, self.zones, self.ratio)
        ]

    def neighbours(self, key: int) -> dict[int, int]:
        """Return the key of the zone beyond each side; the flow is periodic in x and y."""
        row, column = divmod(key, self.zones)
        west, east = (column - 1) % self.zones, (column + 1) % self.zones
        south, north = (row - 1) % self.zones, (row + 1) % self.zones
        return {
            WEST: row * self.zones + west,
            EAST: row * self.zones + east,
            SOUTH: south * self.zones + column,
            NORTH: north * self.zones + column,
        }


def widths(cells: int, zones: int, ratio: float) -> list[tuple[int, int]]:
    """Return the first cell of each zone and the cell after its last one, by BT-MZ's rule.

    The widths are a geometric sequence, whose last one is `ratio` times the first one.  Ends are
    rounded down after adding 0.45, which keeps the widths growing.
    """
    factor = math.exp(math.log(ratio) / (zones - 1))
    smallest = cells * (factor - 1.0) / (factor**zones - 1.0)
    ends = [int(smallest * (factor**i - 1.0) / (factor - 1.0) + 0.45) for i in range(zones + 1)]
    return list(itertools.pairwise(ends))


CLASSES = {
    "S": Problem((24, 24, 6), 2, 3.0),
    "W": Problem((64, 64, 8), 4),
    "A": Problem((128, 128, 16), 4),
    "B": Problem((304, 208, 17), 8),
    "C": Problem((480, 320, 28), 16),
    "D": Problem((1632, 1216, 34), 32),
}


@dataclass(repr=False)
class Outcome(runs.Run):
    """The result of a run, and its error."""

    error: float


def solve(
    comm: Any, problem: Problem, steps: int, start: str | None = None, **balancing: Any
) -> Outcome:
    """Run the flow; all other keywords are passed to `pylb.Balancer`."""
    lb = pylb.Balancer(comm, **balancing)
    cells = [box.n_cells for box in problem.boxes]
    for key in runs.starts(
        lb, problem.n_zones, start, lambda key: problem.neighbours(key).values(), cells
    ):
        lb.add(key, Zone(problem.boxes[key]))
    for _ in lb.iterate(steps):
        for key, zone in lb.local():
            for _source, (side, values) in lb.inbox(key):
                zone.receive(side, values)
            zone.advance()
            for side, neighbour in problem.neighbours(key).items():
                lb.send(neighbour, key, (OPPOSITE[side], zone.border(side)))
    mine = {key: (_digest(zone), zone.error) for key, zone in lb.local()}
    digests, errors = zip(*runs.gather(comm, mine).values(), strict=True)
    return Outcome(**vars(runs.Run.of(lb, digests)), error=max(errors))


def _digest(zone: Zone) -> bytes:
    return hashlib.sha256(zone.inside.tobytes()).digest()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=CLASSES, default="W", help="class of BT-MZ (%(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="time steps (%(default)s)")
    return runs.arguments(parser)


def main() -> None:
    args = arguments()
    problem = CLASSES[args.size]
    made = runs.make(args, args.steps, solve, problem)
    if runs.is_root():
        runs.print_runs(made, "zones")
        cells = [box.n_cells for box in problem.boxes]
        print(f"cells of a zone: {min(cells)} to {max(cells)}, {sum(cells)} in all")
        print(f"error: at most {max(run.error for run in made.values()):.2e}; values are about 1")
        if args.plot:
            runs.plot(made, args.plot)


if __name__ == "__main__":
    main()
