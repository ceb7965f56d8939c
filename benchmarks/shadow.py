"""The cost of shadow mode: jacobi2d with mode="shadow" compared with mode="off".

    python benchmarks/shadow.py [--json out/shadow.json]
    mpiexec -n 2 python benchmarks/shadow.py

Both modes run several times, in turn.  The time of a run is that of the loop on its slowest rank,
with everything that shadow mode does; the fastest run of each mode counts.  The first loop on a
communicator also measures the network, so there is an extra run before the measured ones.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.mpi import on_ranks

if __name__ == "__main__":
    on_ranks(2)

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import jacobi2d
from common.figures import save
from heat import Plate
from mpi4py import MPI

import pylb
from pylb import console

comm = MPI.COMM_WORLD
MOST = 1.01
MODES = ("off", "shadow")


def fastest(plate: Plate, iterations: int, repeats: int) -> dict[str, float]:
    """Return the seconds of the fastest run of each mode."""
    seconds = dict.fromkeys(MODES, float("inf"))
    jacobi2d.solve(comm, plate, 3, mode="shadow")
    for i in range(repeats):
        for mode in MODES if i % 2 else MODES[::-1]:
            comm.Barrier()
            run = jacobi2d.solve(comm, plate, iterations, mode=mode)
            took = comm.allreduce(run.report.seconds, op=MPI.MAX)
            seconds[mode] = min(seconds[mode], took)
            lb_steps = len(run.report.history.lb_steps)
    return {**seconds, "n_lb_steps": lb_steps}


def empty(mode: str, blocks: int, n: int = 512, repeats: int = 9) -> float:
    """Return the seconds of an iteration with blocks that do nothing, which is pylb's own time.

    On a busy machine, noise hides how the whole runs differ, but not how these times differ.
    """
    lb = pylb.Balancer(comm, mode=mode)
    for key in range(lb.rank, blocks, lb.n_ranks):
        lb.add(key, None)
    fastest = float("inf")
    for _ in range(repeats):
        comm.Barrier()
        start = MPI.Wtime()
        for _ in lb.iterate(n):
            for _ in lb.local():
                pass
        fastest = min(fastest, comm.allreduce(MPI.Wtime() - start, op=MPI.MAX) / n)
    return fastest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=8, help="blocks along a side (%(default)s)")
    parser.add_argument("--size", type=int, default=16, help="cells per block side (%(default)s)")
    parser.add_argument(
        "--iterations", type=int, default=60, help="iterations of a run (%(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=6, help="runs of each mode (%(default)s)")
    parser.add_argument("--json", help="also write the results to this file")
    args = parser.parse_args()
    found = fastest(Plate(args.blocks, args.size), args.iterations, args.repeats)
    ratio = found["shadow"] / found["off"]
    added = empty("shadow", args.blocks**2) - empty("off", args.blocks**2)
    share = added * args.iterations / found["off"]
    if comm.rank == 0:
        console.show(
            ["mode", "ms per iteration", "ratio", "at most", "met"],
            [
                ["off", 1e3 * found["off"] / args.iterations, 1.0, None, ""],
                [
                    "shadow",
                    1e3 * found["shadow"] / args.iterations,
                    f"{ratio:.4f}",
                    MOST,
                    "yes" if ratio < MOST else "NO",
                ],
            ],
            title=f"{args.blocks**2} blocks of {args.size}**2 cells on {comm.size} ranks, "
            f"{args.iterations} iterations, fastest of {args.repeats}",
        )
        print(
            f"empty iterations: shadow adds {1e6 * added:.1f} µs, {100 * share:.3f} % of an "
            "iteration with mode off"
        )
        if args.json:
            figures = {"ratio": ratio, "most": MOST, "added_seconds": added, "added_share": share}
            save(args.json, {**found, **figures})


if __name__ == "__main__":
    main()
