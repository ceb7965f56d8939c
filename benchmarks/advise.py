"""The cost of one step of an advisor in C, compared with a bare MPI_Iallreduce of the same bytes.

    python benchmarks/advise.py [--starts 3] [--cells 100000] [--json out/advise.json]

The program ``benchmarks/advise.c`` is built against the library of this installation
(`pylb.lib.get_library`) and runs on two ranks.  It measures in turn: a bare nonblocking reduction
of a record with MPI_Test until it is done; `pylb_advise` with only the rank's seconds; and
`pylb_advise_cells` with keys and loads of `--cells` cells per rank, without an LB step.  A result
is the shortest time of 40 rounds on the slower rank, in the best of several starts.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from common.figures import save
from common.mpi import ask_mpi

import pylb
from pylb import console

SOURCE = Path(__file__).with_suffix(".c")
RATIO, CELLS = 1.3, 1e-3  # targets: ratio to the bare reduction; seconds of a step with cells


def build(folder: str) -> str:
    """Compile the C program, and return its path."""
    program, library = f"{folder}/advise", pylb.lib.get_library()
    words = ["mpicc", "-O2", "-std=c11", f"-I{pylb.lib.get_include()}", str(SOURCE)]
    words.append(f"-DRECORD={pylb._core.STATS_BYTES}")
    links = [f"-L{library}", f"-Wl,-rpath,{library}", "-lpylb_mpi", "-lpylb"]
    subprocess.run([*words, *links, "-o", program], check=True)
    return program


def main() -> None:
    """Measure, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--json", default="out/advise.json")
    args = parser.parse_args()
    ask_mpi()
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        runs = []
        for _ in range(args.starts):
            words = ["mpiexec", "-n", "2", program, str(args.cells)]
            said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            runs.append([1e-6 * float(x) for x in said.split()])
    best = min(runs, key=lambda run: run[1] / run[0])
    columns = ["what", "seconds", "times the bare reduction"]
    names = [
        "bare MPI_Iallreduce",
        "pylb_advise",
        f"pylb_advise_cells, {args.cells:,} cells per rank",
    ]
    rows = [(name, seconds, seconds / best[0]) for name, seconds in zip(names, best, strict=True)]
    console.show(columns, rows)
    print(f"targets: {RATIO} times the bare reduction; {CELLS:g} s with cells")
    save(args.json, {"starts": runs, "ratio": best[1] / best[0], "cells_s": best[2]})


if __name__ == "__main__":
    main()
