"""The clock "mpi": its error against bodies of known length, and what it costs per call of MPI.

    python benchmarks/mpi_clock.py [--ranks 2 4 8] [--ms 2] [--steps 50] [--json out/mpi_clock.json]

``benchmarks/mpi_clock.c`` runs under `pylb run`.  The bodies of its ranks take 2, 4, 6, ... ms of
processor time, so all ranks but the last one wait: in blocking, nonblocking, collective and
one-sided calls, and in loops that poll.  A result is the work that the clock shows, divided by the
time of the bodies: the smallest and the largest of all ranks.  The cost is the difference between
the shortest times of MPI_Iprobe and of MPI_Test with and without `pylb run`, in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from common.figures import save
from common.mpi import ask_mpi

from pylb import console

SOURCE = Path(__file__).with_suffix(".c")
ERROR, COST = 0.02, 100.0  # targets: relative error; ns of a call
RUN = [sys.executable, "-m", "pylb", "run", "--"]


def build(folder: str) -> str:
    """Compile the C program, and return its path."""
    program = f"{folder}/mpi_clock"
    subprocess.run(["mpicc", "-std=gnu11", "-O2", str(SOURCE), "-o", program], check=True)
    return program


def said(words: list[str]) -> dict[str, list[float]]:
    """Run a command; return the numbers of each line that it prints."""
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {name: [*map(float, rest)] for name, *rest in map(str.split, out.splitlines())}


def main() -> None:
    """Measure, print the tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--ms", type=float, default=2.0, help="length of the body of rank 0")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--json", default="out/mpi_clock.json")
    args = parser.parse_args()
    ask_mpi()
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        work = {}
        for n in args.ranks:
            words = [*RUN, "mpiexec", "-n", str(n), program, str(args.ms), str(args.steps)]
            for way, ends in said(words).items():
                work[f"{way}, {n} ranks"] = ends[:2]
        plain, seen = zip(
            *((said([program, "cost"]), said([*RUN, program, "cost"])) for _ in range(5)),
            strict=True,
        )
    least = [
        {name: min(run[name][0] for run in runs) for name in runs[0]} for runs in (plain, seen)
    ]
    console.show(["way to wait", "least", "most"], [(way, *ends) for way, ends in work.items()])
    rows = [(name, least[0][name], least[1][name]) for name in least[0]]
    console.show(["call", "ns", "ns under pylb run"], rows)
    error = max(abs(x - 1) for ends in work.values() for x in ends)
    cost = max(after - before for _, before, after in rows)
    print(
        f"largest error {error:.1%} (target {ERROR:.0%}); cost {cost:.0f} ns (target {COST:g} ns)"
    )
    save(args.json, {"work": work, "ns": least, "error": error, "cost": cost})


if __name__ == "__main__":
    main()
