"""LAMMPS with pylb's adapter, beside LAMMPS' own ``fix balance`` with ten fixed intervals.

    python benchmarks/lammps_runs.py [--ranks 2 4] [--case slab] [--steps 3000] [--rounds 2]

The inputs are those of ``examples/own_loop/lammps_balance.py``.  Each round runs every way once,
in turn: without LB steps, with each interval (`fix balance`, in one `run`, without pylb), and with
pylb, which has nothing set.  A result is the shortest time of all rounds.  Needs Debian's
python3-lammps and liblammps-dev.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

from common.figures import save
from common.mpi import ask_mpi

from pylb import console

EXAMPLES = Path(__file__).parents[1] / "examples" / "own_loop"
INTERVALS = [50, 100, 150, 200, 300, 400, 600, 800, 1200, 2000]
TARGET = 1.03  # times the best fixed interval


def measure(case: str, steps: int, rounds: int) -> None:
    """Run every way, as one of the ranks; rank 0 prints the shortest times as JSON."""
    sys.path.append(str(EXAMPLES))
    import lammps_balance as example
    from mpi4py import MPI

    from pylb.adapters import lammps

    comm, command = MPI.COMM_WORLD, example.CASES[case]["balance"]
    how = command.removeprefix("balance 1.0 ")

    def plain(lmp, every):
        if every:
            lmp.command(f"fix lb all balance {every} 1.0 {how}")
        lmp.command(f"run {steps} post no")

    def run(way):
        lmp = example.start(case)
        comm.Barrier()
        began = time.perf_counter()
        lb = lammps.run(lmp, steps, command) if way == "pylb" else plain(lmp, way)
        comm.Barrier()
        seconds = time.perf_counter() - began
        lmp.close()
        return seconds, lb.n_lb_steps if lb else 0

    least = {}
    for _ in range(rounds):
        for way in (0, *INTERVALS, "pylb"):
            least[way] = min(least.get(way, (math.inf, 0)), run(way))
    if comm.rank == 0:
        print(json.dumps(least))


def main() -> None:
    """Measure, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--case", default="slab")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", default="out/lammps_runs.json")
    args = parser.parse_args()
    if os.environ.keys() & {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}:
        measure(args.case, args.steps, args.rounds)
        return
    ask_mpi()
    results = {}
    for n in args.ranks:
        mpi = ["mpiexec", "-n", str(n), sys.executable, *sys.argv]
        words = [sys.executable, "-m", "pylb", "run", "--", *mpi]
        out = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
        least = json.loads(out.splitlines()[-1])
        best = min(least[str(i)][0] for i in INTERVALS)
        rows = [(way, *both, both[0] / best) for way, both in least.items()]
        print(f"{args.case}, {n} ranks")
        console.show(["interval", "seconds", "LB steps of pylb", "times the best interval"], rows)
        results[str(n)] = least
    print(f"target: at most {TARGET} times the best interval")
    save(args.json, {"case": args.case, "steps": args.steps, "seconds": results})


if __name__ == "__main__":
    main()
