"""What pylb says that LB steps have saved, compared with pairs of real runs.

    python benchmarks/saved.py [--ranks 2 4 8] [--pairs 5] [--busy] [--json out/saved.json]

Each program runs alternately with PYLB_MODE=off and on.  "off" and "on" are the medians of the
times of its loop, and "saved" is their difference.  "said" is what pylb says in the run that is the
median of the runs with LB steps.  "error" is (said - saved) / off.  With --busy, two endless loops
run beside the program: pylb then says that the number comes from the loads alone.

The programs: "blocks" is the first script of the README; "rows" is its second script, an Advisor
whose cells have keys; "seconds" is the same program, but it tells only the seconds of each rank and
cuts the rows itself; "particles" are particles in the cells of a ring, with a crowd of particles
that goes round.  On many machines a core becomes slower when another one is busy, or from minute
to minute; "fixed" shows how well the model does without this: its objects compute until they have
had a core for a fixed time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import ask_mpi

from pylb.console import show

PROGRAMS = ("blocks", "rows", "seconds", "particles", "fixed")
ITERATIONS = int(os.environ.get("ITERATIONS", "200"))  # see --iterations


# ---- the programs, under mpiexec ---------------------------------------------------------------


def blocks(comm: Any) -> Any:
    import pylb

    lb = pylb.Balancer(comm)
    for key in range(64 * lb.rank // lb.n_ranks, 64 * (lb.rank + 1) // lb.n_ranks):
        lb.add(key, np.random.default_rng(key).random(2000))
    for _ in lb.iterate(ITERATIONS):
        for key, cells in lb.local():
            for _, border in lb.inbox(key):
                cells[0] = border
            for _ in range(400 if key < 8 else 20):
                cells += 0.1 * (np.roll(cells, 1) - cells)
            lb.send((key + 1) % 64, key, cells[-1])
    return lb


def work(numbers: np.ndarray, out: np.ndarray) -> float:
    """Compute on arrays that exist, so that no memory is allocated."""
    np.sqrt(numbers, out=out)
    np.sin(out, out=out)
    return float(out[0])


def rows(comm: Any) -> Any:
    import time

    import pylb

    ids = np.arange(128 * comm.rank // comm.size, 128 * (comm.rank + 1) // comm.size)
    numbers, out = np.arange(20_000.0), np.empty(20_000)
    lb = pylb.Advisor(comm)
    for _ in lb.iterate(ITERATIONS):
        seconds = np.zeros(len(ids))
        for i, key in enumerate(ids):
            n = 20_000 if key < 24 else 1_000
            began = time.perf_counter()
            work(numbers[:n], out[:n])
            seconds[i] = time.perf_counter() - began
        comm.barrier()
        if plan := lb.advise(loads=seconds, keys=ids):
            with lb.rebalancing():
                ids = plan.migrate(ids)
    return lb


def seconds(comm: Any) -> Any:
    import time

    import pylb

    n = 128
    weight = np.where(np.arange(n) < 24, 20, 1)
    ends = np.arange(comm.size + 1) * n // comm.size
    numbers, out = np.arange(20_000.0), np.empty(20_000)
    lb = pylb.Advisor(comm)
    for _ in lb.iterate(ITERATIONS):
        began = time.perf_counter()
        for w in weight[ends[comm.rank] : ends[comm.rank + 1]]:
            work(numbers[: 1_000 * w], out[: 1_000 * w])
        spent = time.perf_counter() - began
        comm.barrier()
        if lb.advise(seconds=spent):
            with lb.rebalancing():
                share = np.cumsum(weight) / weight.sum() * comm.size
                ends = np.append(0, np.searchsorted(share, np.arange(1, comm.size + 1) - 1e-9) + 1)
                ends[-1] = n
    return lb


def particles(comm: Any) -> Any:
    import pylb

    n, rng = 96, np.random.default_rng(0)
    lb = pylb.Balancer(comm)
    for key in range(n * lb.rank // lb.n_ranks, n * (lb.rank + 1) // lb.n_ranks):
        lb.add(key, rng.random(300))
    for it in lb.iterate(ITERATIONS):
        for key, x in lb.local():
            away = abs((key / n - it / (2 * ITERATIONS) + 0.5) % 1.0 - 0.5)
            crowd = 1 + int(30 * max(0.0, 1.0 - away / 0.12))
            for _ in range(crowd):  # forces between the particles of a cell
                (x[:, None] - x[None, :30]).sum()
    return lb


def fixed(comm: Any) -> Any:
    import time

    import pylb

    lb = pylb.Balancer(comm)
    for key in range(64 * lb.rank // lb.n_ranks, 64 * (lb.rank + 1) // lb.n_ranks):
        lb.add(key, None)
    for _ in lb.iterate(ITERATIONS):
        for key, _ in lb.local():
            end = time.thread_time() + (4e-3 if key < 8 else 0.5e-3)
            while time.thread_time() < end:
                pass
            lb.send((key + 1) % 64, key, 0.0)
    return lb


def main_of(name: str) -> None:
    """Run a program on one rank; rank 0 prints its time and what pylb says."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    comm.barrier()
    began = MPI.Wtime()
    lb = globals()[name](comm)
    comm.barrier()
    time = MPI.Wtime() - began
    report = lb.report()
    if comm.rank == 0:
        said = {"time": time, "saved": report.saved, "others": report.others}
        print(json.dumps({**said, "lb_steps": report.n_lb_steps}))


# ---- the comparison ----------------------------------------------------------------------------


def run(name: str, ranks: int, mode: str) -> dict[str, Any]:
    environment = {**os.environ, "PYLB_MODE": mode, "OMP_NUM_THREADS": "1"}
    command = ["mpiexec", "-n", str(ranks), sys.executable, __file__, "--run", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(runs, key=lambda r: float(r["time"]))[(len(runs) - 1) // 2]


def pairs(name: str, ranks: int, n: int) -> dict[str, Any]:
    off, on = [], []
    for _ in range(n):
        off.append(run(name, ranks, "off"))
        on.append(run(name, ranks, "on"))
    without, using = median(off), median(on)
    saved = without["time"] - using["time"]
    return {
        "program": name,
        "ranks": ranks,
        "off": without["time"],
        "on": using["time"],
        "least off": min(r["time"] for r in off),
        "least on": min(r["time"] for r in on),
        "saved": saved,
        "said": using["saved"],
        "error": (using["saved"] - saved) / without["time"],
        "lb_steps": using["lb_steps"],
        "others": statistics.median(r["others"] for r in on),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", choices=PROGRAMS, help=argparse.SUPPRESS)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--ranks", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="two endless loops beside the runs")
    parser.add_argument("--json", metavar="FILE", default="out/saved.json")
    args = parser.parse_args()
    if args.run:
        return main_of(args.run)
    ask_mpi()
    os.environ["ITERATIONS"] = str(args.iterations)
    loop = [sys.executable, "-c", "while True: pass"]
    beside = [subprocess.Popen(loop) for _ in range(2 * args.busy)]
    try:
        found = [pairs(name, p, args.pairs) for name in args.programs for p in args.ranks]
    finally:
        for process in beside:
            process.kill()
    columns = ("program", "ranks", "off", "on", "saved", "said", "error", "lb_steps", "others")
    table = [
        [f"{x:.3g}" if isinstance(x, float) else x for x in map(row.get, columns)] for row in found
    ]
    show(list(columns), table, title="seconds that LB steps have saved")
    save(args.json, found)
    return None


if __name__ == "__main__":
    main()
