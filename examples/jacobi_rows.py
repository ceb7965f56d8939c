"""Jacobi's method for a linear system whose rows are divided among ranks of different speed.

    mpiexec -n 4 python examples/jacobi_rows.py --model fpm
    pylb lab --share 0.4,0.2,0.4,0.8 -- mpiexec -n 4 python examples/jacobi_rows.py --model cpm

The routine of Clarke 2010: x(k+1) = D^-1 (b - R x(k)) for a dense, diagonally dominant matrix.
Each rank has some rows of A and b and computes its part of x; then all ranks get the whole x.
Except with --model none, the number of rows follows the measured speed of each rank.  The table
shows rows and times of all iterations; --plot draws them.  The residual checks the solution.

benchmarks/paging.py runs this program on ranks whose memory is too small for equal parts.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import runs

import pylb
from pylb.console import show


@dataclass(repr=False)
class Solved:
    """The result of a run: history of the parts, the end of each iteration, x, residual."""

    history: list[pylb.run.Division]
    ended: list[float]  # when each iteration ended, in seconds after the start
    x: np.ndarray
    residual: float

    def __repr__(self) -> str:
        return f"<Solved: {len(self.history)} iterations, residual {self.residual:.2e}>"

    @property
    def seconds(self) -> np.ndarray:
        """The computing time of the slowest rank in each iteration."""
        return np.array([division.seconds.max() for division in self.history])

    @property
    def steps(self) -> int | None:
        """Redistributions before the first one that moved no rows; None: all have moved rows."""
        still = [k for k, division in enumerate(self.history) if division.moved == 0]
        return still[0] if still else None


def rows_of(n: int, rows: range) -> tuple[np.ndarray, np.ndarray]:
    """Return the given rows of A and of b: random values in (-1, 1), on the diagonal 2 n."""
    A = np.empty((len(rows), n))  # filled in place, as there may be no memory for a copy
    for mine, i in zip(A, rows, strict=True):
        mine[:] = np.random.default_rng(i).uniform(-1.0, 1.0, n)
    A[np.arange(len(rows)), rows] = 2.0 * n
    return A, np.array([1.0 + i % 7 for i in rows])


def next_x(A: np.ndarray, b: np.ndarray, x: np.ndarray, rows: slice) -> np.ndarray:
    """Return one step of Jacobi's method for some rows."""
    diagonal = A[np.arange(len(A)), np.arange(rows.start, rows.stop)]
    return x[rows] + (b - A @ x) / diagonal


def solve(
    comm: Any, n: int, iterations: int, model: str = "fpm", tol: float = 0.1, sweeps: int = 1
) -> Solved:
    """Iterate on all ranks; each computation is repeated `sweeps` times, for longer iterations."""
    kind, tol = ("fpm", float("inf")) if model == "none" else (model, tol)
    part = pylb.RowPartition(comm, n, kind, tol=tol)
    A, b = rows_of(n, range(n)[part.local])
    x = np.zeros(n)
    next_x(A, b, x, part.local)  # not timed, because the first call is slower
    start, ended = time.perf_counter(), []
    for _ in range(iterations):
        with part.timed():
            for _ in range(sweeps):
                mine = next_x(A, b, x, part.local)
        pieces = comm.allgather(mine) if comm is not None else [mine]
        x = np.concatenate(pieces)
        A, b = part.redistribute(A, b)
        if part.history[-1].moved:  # let pages come back from swap; not timed
            next_x(A, b, x, part.local)
        ended.append(time.perf_counter() - start)
    left = np.abs(b - A @ x).max(initial=0.0)
    residual = max(comm.allgather(left)) if comm is not None else left
    return Solved(part.history, ended, x, float(residual))


def plot(solved: Solved, title: str, path: str) -> None:
    """Draw the rows and times of the ranks over the iterations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    counts = np.array([division.counts for division in solved.history])
    seconds = np.array([division.seconds for division in solved.history])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    for rank in range(counts.shape[1]):
        style = {"marker": "osD^v"[rank % 5], "markersize": 4, "label": f"rank {rank}"}
        left.plot(counts[:, rank], **style)
        right.plot(1e3 * seconds[:, rank], **style)
    left.set(xlabel="iteration", ylabel="rows", ylim=(0, None), title=title)
    right.set(xlabel="iteration", ylabel="time of the computation [ms]")
    if seconds.max() > 10 * seconds[seconds > 0].min(initial=seconds.max()):
        right.set_yscale("log")
    else:
        right.set_ylim(0, None)
    left.legend()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def write(solved: Solved, path: str) -> None:
    """Write all results of the run as JSON."""
    divisions = [
        {"counts": d.counts.tolist(), "seconds": d.seconds.tolist(), "moved": d.moved}
        for d in solved.history
    ]
    found = {"steps": solved.steps, "ended": solved.ended, "residual": solved.residual}
    Path(path).write_text(json.dumps({**found, "iterations": divisions}, indent=1))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=1200, help="unknowns (%(default)s)")
    parser.add_argument("--iterations", type=int, default=20, help="iterations (%(default)s)")
    parser.add_argument("--model", default="fpm", choices=["cpm", "fpm", "power", "none"])
    parser.add_argument(
        "--tol",
        type=float,
        default=0.1,
        help="difference of times that is tolerated, as a fraction (%(default)s)",
    )
    parser.add_argument(
        "--sweeps", type=int, default=100, help="repeats of each computation (%(default)s)"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw rows and times")
    parser.add_argument("--json", metavar="FILE", help="write rows and times; print no table")
    args = parser.parse_args()
    solved = solve(runs.WORLD, args.n, args.iterations, args.model, args.tol, args.sweeps)
    if runs.is_root():
        rows = [
            (
                k,
                " ".join(map(str, d.counts)),
                f"{1e3 * d.seconds.max():.2f}",
                f"{d.spread:.3f}",
                d.moved,
            )
            for k, d in enumerate(solved.history)
        ]
        title = f"Jacobi, {args.n} unknowns, model {args.model}"
        if not args.json:
            show(["iteration", "rows of each rank", "ms", "spread", "moved"], rows, title=title)
        steps = "not balanced" if solved.steps is None else f"balanced after {solved.steps} steps"
        print(
            f"{solved.ended[-1]:.3f} s, {solved.seconds.sum():.3f} s of computation, {steps}, "
            f"residual {solved.residual:.2e}"
        )
        if args.plot:
            plot(solved, title, args.plot)
        if args.json:
            write(solved, args.json)


if __name__ == "__main__":
    main()
