"""DRUM's parts on two different nodes: part sizes, and the time of an iteration.

    python benchmarks/drum.py [--iterations 20] [--json out/drum.json]

The two nodes are network namespaces, which need root; the second node has half the CPU share and a
slow link.  Each rank has rows of a grid and applies a five-point stencil, with its neighbours'
rows as ghosts through `pylb.comm.plan_between`. The job measures the machine; the rows are divided
equally, and by DRUM with several weights of the communication. Target: DRUM's parts take less time
than equal parts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import ask_mpi

import pylb
from pylb import console

HOSTS = (("fast", 0.5, None), ("slow", 0.25, 20e6))  # name, cores of each rank, bits per second
RANKS_PER_HOST = 2
ROWS, COLUMNS, SWEEPS = 3000, 1000, 4
WEIGHTS = (0.0, 0.1, 0.25, 0.5)


def heat(comm: Any, counts: Any, iterations: int) -> tuple[float, Any]:
    """Return the median seconds of an iteration, and of the computation on each rank."""
    end = np.cumsum(counts)
    first, last = int(end[comm.rank] - counts[comm.rank]), int(end[comm.rank])
    mine = np.arange(first, last)
    ghosts = [r for r in (first - 1, last) if 0 <= r < ROWS] if len(mine) else []
    halo = pylb.comm.plan_between(comm, mine, ghosts)
    x = np.zeros((len(mine) + 2, COLUMNS))
    x[0] = x[-1] = 1.0
    took, computed = [], []
    for _ in range(iterations):
        comm.Barrier()
        start = time.perf_counter()
        for row, values in zip(ghosts, halo.forward(x[1:-1]), strict=True):
            x[0 if row < first else -1] = values
        begun = time.perf_counter()
        for _ in range(SWEEPS):
            inner = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
            x[1:-1, 1:-1] = 0.25 * inner
        computed.append(time.perf_counter() - begun)
        comm.Barrier()
        took.append(time.perf_counter() - start)
    return float(np.median(took)), comm.allgather(float(np.median(computed)))


def program(path: str, iterations: int) -> None:
    """Measure the machine on each rank, and run the stencil with each division into parts."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    machine = pylb.Machine.measure(comm, seconds=0.3)
    parts = {"equal": np.full(comm.size, ROWS // comm.size)}
    parts |= {f"DRUM, w_comm={w:g}": machine.counts(ROWS, w) for w in WEIGHTS}
    seconds: dict[str, list[Any]] = {name: [] for name in parts}
    for _ in range(2):  # twice, because other programs may disturb one round
        for name, counts in parts.items():
            seconds[name].append(heat(comm, counts, iterations))
    if comm.rank == 0:
        rows = [
            {
                "parts": name,
                "counts": np.asarray(counts).tolist(),
                "seconds": min(s for s, _ in seconds[name]),
                "computed": min(seconds[name])[1],
            }
            for name, counts in parts.items()
        ]
        found = {"machine": repr(machine), "beta": machine.beta.tolist(), "rows": rows}
        Path(path).write_text(json.dumps(found))


def measure(iterations: int) -> dict[str, Any]:
    """Run the program in a lab."""
    from pylb.lab import Host, Lab, LabPlan, Link, Profile

    hosts = tuple(
        Host(name, RANKS_PER_HOST, Profile(share=share), Link(bandwidth=bits))
        for name, share, bits in HOSTS
    )
    n = str(RANKS_PER_HOST * len(HOSTS))
    with tempfile.TemporaryDirectory() as folder, Lab(LabPlan(hosts=hosts)) as lab:
        path = str(Path(folder, "found.json"))
        words = [sys.executable, __file__, "--program", path, "--iterations", str(iterations)]
        code = lab.run(["mpiexec", "-n", n, *words])
        if code != 0:
            raise SystemExit(code)
        found: dict[str, Any] = json.loads(Path(path).read_text())
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--json", metavar="FILE", default="out/drum.json")
    parser.add_argument("--program", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        program(args.program, args.iterations)
        return
    ask_mpi()
    found = measure(args.iterations)
    print(found["machine"])
    equal = found["rows"][0]["seconds"]
    console.show(
        ["parts", "rows of each rank", "computed, ms", "iteration, ms", "speed-up over equal"],
        [
            [
                r["parts"],
                " ".join(map(str, r["counts"])),
                " ".join(f"{1e3 * s:.0f}" for s in r["computed"]),
                1e3 * r["seconds"],
                equal / r["seconds"],
            ]
            for r in found["rows"]
        ],
    )
    best = min(r["seconds"] for r in found["rows"][1:])
    met = best < equal
    print(f"{'met   ' if met else 'MISSED'} DRUM's parts are faster than equal ones")
    save(args.json, {**found, "met": met})


if __name__ == "__main__":
    main()
