"""Jacobi's method for a linear system, its rows on ranks that are not alike.

    mpiexec -n 4 python examples/jacobi_rows.py --model fpm
    pylb lab --share 0.4,0.2,0.4,0.8 -- mpiexec -n 4 python examples/jacobi_rows.py --model cpm

The routine of Clarke 2010: x(k+1) = D^-1 (b - R x(k)) for a dense, diagonally dominant matrix.
Each rank has a part of the rows of A and b and computes its part of x, then all ranks get the
whole of x.  With --model the parts follow what each rank has shown it can do; printed is every
iteration at which they changed.  The solution is checked by its residual.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import runs

import pylb
from pylb.cli.table import show


@dataclass
class Solved:
    """A run: seconds of each iteration (the longest rank), history of the parts, x, residual."""

    seconds: np.ndarray
    history: list[pylb.Division]
    x: np.ndarray
    residual: float


def rows_of(n: int, rows: range) -> tuple[np.ndarray, np.ndarray]:
    """Those rows of A (off the diagonal in (-1, 1), the diagonal 2 n) and of b."""
    A = np.array([np.random.default_rng(i).uniform(-1.0, 1.0, n) for i in rows]).reshape(-1, n)
    A[np.arange(len(rows)), rows] = 2.0 * n
    return A, np.array([1.0 + i % 7 for i in rows])


def solve(
    comm: Any, n: int, iterations: int, model: str = "fpm", tol: float = 0.1, sweeps: int = 1
) -> Solved:
    """Iterate on all ranks; `sweeps` repeats the computation, for longer iterations."""
    kind, tol = ("fpm", float("inf")) if model == "none" else (model, tol)
    part = pylb.RowPartition(comm, n, kind, tol=tol)
    A, b = rows_of(n, range(n)[part.local])
    x = np.zeros(n)
    for _ in range(iterations):
        with part.timed():
            first = part.local.start
            diagonal = A[np.arange(len(A)), first + np.arange(len(A))]
            for _ in range(sweeps):
                mine = x[part.local] + (b - A @ x) / diagonal
        pieces = comm.allgather(mine) if comm is not None else [mine]
        x = np.concatenate(pieces)
        A, b = part.redistribute(A, b)
    left = np.abs(b - A @ x).max(initial=0.0)
    residual = max(comm.allgather(left)) if comm is not None else left
    seconds = np.array([division.seconds.max() for division in part.history])
    return Solved(seconds, part.history, x, float(residual))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=1200, help="unknowns (%(default)s)")
    parser.add_argument("--iterations", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--model", default="fpm", choices=["cpm", "fpm", "power", "none"])
    parser.add_argument("--tol", type=float, default=0.1, help="Clarke's epsilon (%(default)s)")
    parser.add_argument("--sweeps", type=int, default=100, help="repeat the work (%(default)s)")
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
        show(["iteration", "rows of each rank", "ms", "spread", "moved"], rows, title=title)
        print(f"{solved.seconds.sum():.3f} s of computation, residual {solved.residual:.2e}")


if __name__ == "__main__":
    main()
