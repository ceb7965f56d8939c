"""How well the replay of an unbalanced recording predicts the time of balanced runs.

    python benchmarks/whatif_replay.py [--json out/whatif_replay.json]
    mpiexec -n 2 python benchmarks/whatif_replay.py --real

A program runs once with mode="off" and is recorded.  Then it runs balanced, in five settings, and
each run is compared with the replay of the recording in the same setting: seconds of the iterations
and of the LB steps, measured and replayed.

The program on virtual ranks has two moving hot spots and noise.  Each run draws new noise, which
the replay cannot know; the mean of some runs counts, and the table shows how much they differ.
With --real the program is jacobi2d on real ranks.  Their cores are shared, so each setting runs
several times, the settings take turns, and the fastest run of each setting counts.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import on_ranks

import pylb
from pylb import console

if __name__ == "__main__" and "--real" in sys.argv:
    on_ranks(2)

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

SETTINGS: dict[str, dict[str, Any]] = {
    "nothing set": {},
    "BestFitLB every 5": {"strategy": "BestFitLB", "every": 5},
    "GreedyLB every 20": {"strategy": "GreedyLB", "every": 20},
    "BestFitLB, boulmier": {"strategy": "BestFitLB", "trigger": "boulmier"},
    "RefineSwapLB, menon": {"strategy": "RefineSwapLB", "trigger": "menon"},
}
VIRTUAL, REAL = 0.02, 0.10  # largest error that meets the target
NOISE = 0.05


class Cell:
    """An object of the virtual program."""

    def __init__(self, place: float, size: int) -> None:
        self.place = place
        self.data = np.zeros(size)


def virtual_program(comm: Any, seed: int, path: str | None, **balancing: Any) -> Any:
    """Run a ring of cells with two hot spots that move at different speeds, and noise by `seed`."""
    n, iterations = 16 * comm.size, 160
    lb = pylb.Balancer(comm, **balancing)
    for key in range(n):
        if key * comm.size // n == comm.rank:
            lb.add(key, Cell(key / n, 2000 + 500 * (key % 5)))
    for it in lb.iterate(iterations):
        for key, cell in lb.local():
            noise = np.random.default_rng((seed, key, it)).normal(1.0, NOISE)
            load = 1.0
            for speed in (1.0, -0.4):
                apart = abs((cell.place - speed * it / iterations + 0.5) % 1.0 - 0.5)
                load += 6.0 * math.exp(-0.5 * (apart / 0.08) ** 2)
            comm.elapse(1e-3 * load * max(noise, 0.1))
            lb.send((key + 1) % n, key, cell.place)
    if path:
        lb.save(path)
    return lb.metrics, lb.history


def seconds_of(run: Any) -> float:
    """Return the seconds of iterations and LB steps; the warm-up counts with the iterations."""
    iterations, history = run
    return float(iterations.time.sum()) + math.fsum(r.seconds for r in history.lb_steps)


def compare(
    name: str, off: float, real: float, spread: float, replayed: float, most: float
) -> dict[str, Any]:
    """Return a row of the table."""
    error = replayed / real - 1.0
    return {
        "setting": name,
        "unbalanced_seconds": off,
        "run_seconds": real,
        "spread": spread,
        "replay_seconds": replayed,
        "error": error,
        "most": most,
        "met": abs(error) <= most,
    }


def on_virtual_ranks(ranks: int, repeats: int) -> list[dict[str, Any]]:
    """Run every setting on virtual ranks."""
    cluster = pylb.VirtualCluster(ranks, clock="none", network=(5e-6, 1e-9))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "off.h5"))
        off = seconds_of(cluster.run(virtual_program, 1, path, mode="off")[0])
        trace = pylb.Trace.load(path)
    rows = []
    for i, (name, setting) in enumerate(SETTINGS.items()):
        seeds = range(2 + i * repeats, 2 + (i + 1) * repeats)
        real = [seconds_of(cluster.run(virtual_program, s, None, **setting)[0]) for s in seeds]
        mean, spread = float(np.mean(real)), float(np.ptp(real) / np.mean(real))
        replayed = trace.replay(**setting).time
        rows.append(compare(name, off, mean, spread, replayed, VIRTUAL))
    return rows


def on_real_ranks(comm: Any, repeats: int) -> list[dict[str, Any]]:
    """Run every setting with jacobi2d; return rows on rank 0, nothing on the other ranks."""
    import jacobi2d
    from heat import Plate

    iterations = 160
    plate = Plate(12, 16, period=2 * iterations, tolerance=1e-4)

    def run(path: str | None, **balancing: Any) -> float:
        lb = pylb.Balancer(comm, **balancing)
        for key in range(plate.blocks**2):
            if key * comm.size // plate.blocks**2 == comm.rank:
                lb.add(key, jacobi2d.Block(plate, key))
        for _ in lb.iterate(iterations):
            for key, block in lb.local():
                for source, border in lb.inbox(key):
                    block.receive(source, border)
                block.advance()
                for side, neighbour in plate.neighbours(key).items():
                    lb.send(neighbour, key, block.border(side))
        if path:
            lb.save(path)
        return seconds_of((lb.metrics, lb.history))

    with tempfile.TemporaryDirectory() as folder:
        best = math.inf
        took: dict[str, list[float]] = {name: [] for name in SETTINGS}
        for i in range(repeats):
            path = str(Path(folder, f"{i}.h5"))
            off = run(path, mode="off")
            if comm.rank == 0 and off < best:
                best, trace = off, pylb.Trace.load(path)
            for name, setting in SETTINGS.items():
                took[name].append(run(None, **setting))
        if comm.rank:
            return []
        replayed = {name: trace.replay(**setting).time for name, setting in SETTINGS.items()}
    return [
        compare(name, best, min(t), max(t) / min(t) - 1.0, replayed[name], REAL)
        for name, t in took.items()
    ]


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print a table of the comparisons."""
    console.show(
        ["setting", "unbalanced s", "run s", "runs differ", "replay s", "off by", "at most", "met"],
        [
            [
                r["setting"],
                r["unbalanced_seconds"],
                r["run_seconds"],
                f"{100 * r['spread']:.2f} %",
                r["replay_seconds"],
                f"{100 * r['error']:+.2f} %",
                f"{100 * r['most']:.0f} %",
                "yes" if r["met"] else "NO",
            ]
            for r in rows
        ],
        title=title,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8, help="virtual ranks (%(default)s)")
    parser.add_argument("--real", action="store_true", help="run jacobi2d on real ranks instead")
    parser.add_argument("--repeats", type=int, default=4, help="runs of each setting (%(default)s)")
    parser.add_argument("--json", help="also write the results to this file")
    args = parser.parse_args()
    if args.real:
        from mpi4py import MPI

        rows = on_real_ranks(MPI.COMM_WORLD, args.repeats)
        title = f"jacobi2d on {MPI.COMM_WORLD.size} ranks, fastest of {args.repeats}"
        if MPI.COMM_WORLD.rank:
            return
    else:
        rows = on_virtual_ranks(args.ranks, args.repeats)
        title = f"hot spots with noise on {args.ranks} virtual ranks, mean of {args.repeats}"
    show(title, rows)
    if args.json:
        save(args.json, rows)


if __name__ == "__main__":
    main()
