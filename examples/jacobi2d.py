"""A heated plate that balances itself: five-point Jacobi with a moving source.

    mpiexec -n 2 python examples/jacobi2d.py --compare
    pylb lab --share 0.25 -- mpiexec -n 8 python examples/jacobi2d.py --compare

The plate is cut into many more blocks than there are ranks (heat.py has their physics).  Blocks
near the source work longer, the source moves, and so the ranks' loads drift apart; pylb measures
the blocks and moves them.  The printed fingerprint of the solution is the same for every number of
ranks, balanced or not.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from heat import Block, Plate

import pylb
from pylb.cli.table import show

try:
    from mpi4py import MPI

    WORLD = MPI.COMM_WORLD
except ImportError:  # one rank, without MPI
    WORLD = None


FIXED = 5  # iterations, the fixed period of --compare
WARM_UP = 3  # iterations before the first run is timed


@dataclass
class Run:
    """What one run of the solver gave; the same on every rank."""

    report: pylb.Report
    iterations: pylb.Iterations
    rank_loads: np.ndarray  # (iterations, ranks) seconds
    fingerprint: str

    @property
    def bound(self) -> float:
        """Seconds that no placement can beat: the mean load, and what the balancing cost."""
        return float(self.iterations.mean.sum()) + self.report.balancing_seconds

    @property
    def balanced_after(self) -> list[int]:
        """Iterations at whose end the objects were balanced."""
        return [receipt.iteration for receipt in self.report.history]

    @property
    def periods(self) -> list[int]:
        """Iterations from the beginning to the first balancing, from there to the second, ..."""
        return np.diff([-1, *self.balanced_after]).tolist()


def solve(comm: Any, plate: Plate, iterations: int, **balancing: Any) -> Run:
    """Run the solver under the balancing that the keywords of `pylb.Balancer` ask for."""
    lb = pylb.Balancer(comm, **balancing)
    for key in initial_blocks(plate, lb.rank, lb.n_ranks):
        lb.add(key, Block(plate, key))
    for _ in lb.iterate(iterations):
        for key, block in lb.local():
            for source, border in lb.inbox(key):
                block.receive(source, border)
            block.advance()
            for side, neighbour in plate.neighbours(key).items():
                lb.send(neighbour, key, block.border(side))
    return Run(lb.report(), lb.iterations, lb.rank_loads(), fingerprint(comm, lb))


def initial_blocks(plate: Plate, rank: int, n_ranks: int) -> range:
    """Keys of the blocks that start on a rank: rows of blocks, one behind the other."""
    n = plate.blocks**2
    return range(n * rank // n_ranks, n * (rank + 1) // n_ranks)


def fingerprint(comm: Any, lb: pylb.Balancer) -> str:
    """SHA-256 of all temperatures in order of the blocks: equal only if every bit is."""
    mine = {key: block.t[1:-1, 1:-1].tobytes() for key, block in lb.local()}
    parts = comm.allgather(mine) if comm is not None else [mine]
    everything = {key: data for part in parts for key, data in part.items()}
    digest = hashlib.sha256()
    for key in sorted(everything):
        digest.update(everything[key])
    return digest.hexdigest()[:16]


def compare(comm: Any, plate: Plate, iterations: int, strategy: str) -> dict[str, Run]:
    """The same plate unbalanced, with a fixed period, and with the period that pylb chooses."""
    ways: dict[str, dict[str, Any]] = {
        "unbalanced": {"mode": "off"},
        f"every {FIXED}": {"every": FIXED},
        "metabalancer": {"trigger": "metabalancer"},
    }
    solve(comm, plate, min(WARM_UP, iterations), mode="off")
    runs = {}
    for name, way in ways.items():
        say(f"{name}: {iterations} iterations ...")
        runs[name] = solve(comm, plate, iterations, strategy=strategy, **way)
    if len({run.fingerprint for run in runs.values()}) != 1:
        raise SystemExit("the solutions differ: " + ", ".join(r.fingerprint for r in runs.values()))
    return runs


def print_runs(runs: dict[str, Run]) -> None:
    """One row a run: time, speed-up, imbalance, migrations, the periods."""
    first = next(iter(runs.values())).report.seconds
    rows = [
        [
            name,
            run.report.seconds,
            first / run.report.seconds,
            run.report.mean_max_over_mean,
            len(run.report.history),
            run.report.migrations,
            run.report.balancing_seconds,
            run.bound,
            run.report.seconds / run.bound,
        ]
        for name, run in runs.items()
    ]
    columns = ["run", "time s", "speed-up", "max/mean", "LBs", "moves", "LB s"]
    report = next(iter(runs.values())).report
    title = f"{report.n_objects} blocks on {report.n_ranks} ranks, {report.iterations} iterations"
    show([*columns, "bound s", "/bound"], rows, title=title)
    print("bound: mean load of the ranks and the measured cost of the balancings")
    for name, run in runs.items():
        if run.periods:
            print(f"periods of {name}: {', '.join(map(str, run.periods))}")
    print(f"fingerprint of the solution, the same in all runs: {run.fingerprint}")


def plot(runs: dict[str, Run], path: str) -> None:
    """Loads of the ranks over the iterations of each run, balancings marked."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from pylb import plots

    figure, axes = plt.subplots(
        len(runs), 2, figsize=(11, 2.6 * len(runs)), squeeze=False, layout="constrained"
    )
    top = max(run.rank_loads.max() for run in runs.values())
    for (left, right), (name, run) in zip(axes, runs.items(), strict=True):
        plots.rank_loads(run.rank_loads, run.balanced_after, ax=left)
        left.images[0].set_clim(0.0, top)
        left.set_title(f"{name}: {run.report.seconds:.1f} s", loc="left")
        plots.imbalance(run.iterations.max, run.iterations.mean, run.balanced_after, ax=right)
        right.set_ylim(0.0, 1.05 * top)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def say(text: str) -> None:
    """Progress, on rank 0, beside the output."""
    if WORLD is None or WORLD.rank == 0:
        print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=16, help="along a side (%(default)s)")
    parser.add_argument("--size", type=int, default=24, help="cells a block side (%(default)s)")
    parser.add_argument("--iterations", type=int, default=200, help="time steps (%(default)s)")
    parser.add_argument("--strategy", default="GreedyLB", help="(%(default)s)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--every", type=int, help="balance after every so many iterations")
    how.add_argument("--trigger", help="when to balance (metabalancer)")
    how.add_argument("--compare", action="store_true", help="unbalanced, fixed and chosen period")
    parser.add_argument("--plot", metavar="FILE", help="draw the loads of the ranks")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    plate = Plate(args.blocks, args.size)
    if args.compare:
        runs = compare(WORLD, plate, args.iterations, args.strategy)
    else:
        way = {"every": args.every, "trigger": args.trigger}
        run = solve(WORLD, plate, args.iterations, strategy=args.strategy, **way)
        runs = {f"every {args.every}" if args.every else args.trigger or "metabalancer": run}
    if WORLD is None or WORLD.rank == 0:
        print_runs(runs)
        if args.plot:
            plot(runs, args.plot)
            print(f"picture: {args.plot}")


if __name__ == "__main__":
    main()
