"""What the example scripts share: the result of a run; a table or picture that compares runs.

Each script has a function ``solve(comm, ..., iterations, start=None, **balancing)`` that runs its
program once and returns a `Run`.  The keywords go to `pylb.Balancer`; objects start in blocks, or
where `pylb.partition` places them.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pylb
from pylb.console import show

try:
    from mpi4py import MPI

    WORLD = MPI.COMM_WORLD
except ImportError:  # one rank, without MPI
    WORLD = None

FIXED = 5  # the fixed period of --compare, in iterations
WARM_UP = 3  # iterations of a run whose times are not used, before the others


@dataclass(repr=False)
class Run:
    """The result of one run of a program; the same on every rank."""

    report: pylb.run.Report
    metrics: pylb.run.IterationMetrics
    rank_loads: np.ndarray  # (iterations, ranks) seconds
    fingerprint: str

    @classmethod
    def of(cls, lb: pylb.Balancer, state: Iterable[bytes]) -> Run:
        """Return the result of the run that `lb` balanced; `state`: final state of the objects."""
        return cls(lb.report(), lb.metrics, lb.rank_loads(), fingerprint(state))

    def __repr__(self) -> str:
        return f"<Run: {self.report.verdict}>"

    @property
    def bound(self) -> float:
        """Seconds that no placement can beat: the mean load plus the time of the LB steps."""
        return float(self.metrics.mean.sum()) + self.report.lb_seconds

    @property
    def lb_step_iterations(self) -> list[int]:
        """The iterations at whose end an LB step took place."""
        return [receipt.iteration for receipt in self.report.history.lb_steps]

    @property
    def periods(self) -> list[int]:
        """The iterations from the beginning to the first LB step, from there to the second, ..."""
        return np.diff([-1, *self.lb_step_iterations]).tolist()


def starts(
    lb: pylb.Balancer,
    n: int,
    method: str | None,
    neighbours: Callable[[int], Iterable[int]],
    weight: Any = None,
) -> list[int]:
    """Return the keys of those of n objects that start on this rank.

    They start in blocks, or, with a `method`, where `pylb.partition` places them: with few messages
    between ranks, and balanced by their `weight`, if that is known in advance.
    """
    if method is None:
        return list(range(n * lb.rank // lb.n_ranks, n * (lb.rank + 1) // lb.n_ranks))
    rows = [sorted({*neighbours(key)} - {key}) for key in range(n)]
    graph = np.cumsum([0, *map(len, rows)]), np.array([to for row in rows for to in row], int)
    part = pylb.partition(graph, lb.n_ranks, weight=weight, method=method).part
    return [int(key) for key in np.flatnonzero(part == lb.rank)]


def gather(comm: Any, mine: dict[int, Any]) -> dict[int, Any]:
    """Gather on every rank the values of all ranks, in the order of the keys."""
    parts = comm.allgather(mine) if comm is not None else [mine]
    return dict(sorted((key, value) for part in parts for key, value in part.items()))


def fingerprint(state: Iterable[bytes]) -> str:
    """Return the shortened SHA-256 of a state, which is equal only if all bits are equal."""
    digest = hashlib.sha256()
    for part in state:
        digest.update(part)
    return digest.hexdigest()[:16]


def arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Make the command line, with the options that all drivers share."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--strategy", default="GreedyLB", help="where objects go (%(default)s)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--every", type=int, help="iterations from one LB step to the next")
    how.add_argument("--trigger", help="the trigger that says when to rebalance (auto)")
    how.add_argument(
        "--compare", action="store_true", help="compare: unbalanced, fixed period, pylb's triggers"
    )
    parser.add_argument(
        "--partition", metavar="METHOD", help="how to place new objects, e.g. graph or metis"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the loads of the ranks into this file")
    parser.add_argument("--virtual", metavar="P", type=int, help="run on this many virtual ranks")
    args = parser.parse_args()
    if args.virtual is not None and n_ranks() > 1:
        raise SystemExit("--virtual: expected one process, without mpiexec")
    return args


def n_ranks(args: argparse.Namespace | None = None) -> int:
    """Return the number of ranks."""
    if args is not None and args.virtual is not None:
        return int(args.virtual)
    return 1 if WORLD is None else int(WORLD.size)


def make(
    args: argparse.Namespace, iterations: int, program: Callable[..., Run], *what: Any
) -> dict[str, Run]:
    """Make the runs that the command line asks for, by name: one, or several to compare.

    ``program(comm, *what, iterations, start=..., **balancing)`` makes one of them.
    """

    def solve(n: int, **balancing: Any) -> Run:
        balancing["start"] = args.partition
        if args.virtual is None:
            return program(WORLD, *what, n, **balancing)
        return pylb.VirtualCluster(args.virtual).run(program, *what, n, **balancing)[0]

    if args.compare:
        return compare(iterations, solve, strategy=args.strategy)
    name = f"every {args.every}" if args.every else args.trigger or "auto"
    way = {"every": args.every, "trigger": args.trigger}
    return {name: solve(iterations, strategy=args.strategy, **way)}


def compare(iterations: int, solve: Callable[..., Run], **balancing: Any) -> dict[str, Run]:
    """Run the program unbalanced, with a fixed period, and with two of pylb's triggers."""
    ways: dict[str, dict[str, Any]] = {
        "unbalanced": {"mode": "off"},
        f"every {FIXED}": {"every": FIXED},
        "metabalancer": {"trigger": "metabalancer"},
        "auto": {"trigger": "auto"},
    }
    solve(min(WARM_UP, iterations), mode="off")
    runs = {}
    for name, way in ways.items():
        say(f"{name}: {iterations} iterations ...")
        runs[name] = solve(iterations, **balancing, **way)
    if len({run.fingerprint for run in runs.values()}) != 1:
        raise SystemExit("the solutions differ: " + ", ".join(r.fingerprint for r in runs.values()))
    return runs


def is_root() -> bool:
    """Say whether this rank prints."""
    return WORLD is None or WORLD.rank == 0


def say(text: str) -> None:
    """Print progress on rank 0, on standard error."""
    if is_root():
        print(text, file=sys.stderr, flush=True)


def print_runs(runs: dict[str, Run], objects: str) -> None:
    """Print a row for each run: time, speed-up, imbalance, migrations; then the periods."""
    first = next(iter(runs.values())).report.seconds
    rows = [
        [
            name,
            run.report.seconds,
            first / run.report.seconds,
            run.report.mean_max_over_mean,
            len(run.report.history.lb_steps),
            run.report.migrations,
            run.report.lb_seconds,
            run.bound,
            run.report.seconds / run.bound,
        ]
        for name, run in runs.items()
    ]
    columns = ["run", "time s", "speed-up", "max/mean", "LBs", "migrations", "LB s"]
    report = next(iter(runs.values())).report
    title = (
        f"{report.n_objects} {objects} on {report.n_ranks} ranks, {report.iterations} iterations"
    )
    show([*columns, "bound s", "/bound"], rows, title=title)
    print("bound: mean load of the ranks plus time of the LB steps; no placement is faster")
    for name, run in runs.items():
        if run.periods:
            print(f"periods of {name}: {', '.join(map(str, run.periods))}")
    waited = sum(run.report.waited for run in runs.values())
    if waited > 0.2 * sum(run.report.seconds for run in runs.values()):
        print(f"rank 0 waited {waited:.3g} s for a core: other processes have changed the times")
    print(f"fingerprint of the solution, the same in all runs: {run.fingerprint}")


def plot(runs: dict[str, Run], path: str) -> None:
    """Draw the loads of the ranks over the iterations of each run, with its LB steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from pylb.show import plots

    figure, axes = plt.subplots(
        len(runs), 2, figsize=(11, 2.6 * len(runs)), squeeze=False, layout="constrained"
    )
    top = max(run.rank_loads.max() for run in runs.values())
    for (left, right), (name, run) in zip(axes, runs.items(), strict=True):
        plots.rank_loads(run.rank_loads, run.lb_step_iterations, relative=False, ax=left)
        left.images[0].set_clim(0.0, top)
        left.set_title(f"{name}: {run.report.seconds:.1f} s", loc="left")
        plots.imbalance(run.metrics.max, run.metrics.mean, run.lb_step_iterations, ax=right)
        right.set_ylim(0.0, 1.05 * top)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")
