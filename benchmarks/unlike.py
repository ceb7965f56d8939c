"""Ranks of different speed: tables I and II of Dasgupta 2013 reproduced, and more.

    python benchmarks/unlike.py [--only tables|sizes|change] [--rounds 3] [--quick] [--out out]

Four ranks really run under the lab's power caps, on the available cores; times are wall-clock
times.

--only tables: the paper's Jacobi2D with equal blocks under 27 ... 23 W.  It runs unbalanced,
balanced every ten iterations by RefineLB, GreedyLB and PowerAwareLB, and by pylb's own choice
("auto").  S is the time divided by that of PowerAwareLB, R the reduction of idle time by
PowerAwareLB (eq. 5).

--only sizes: the same plate with blocks whose work differs by a factor of ten and drifts; the
paper's eq. 3 alone is wrong for them.  The bound of an iteration is the total work, in sweeps,
divided by the sum of the ranks' speeds, in sweeps per second of that run.

--only change: the cap and the share of the fastest rank fall in the middle of the run.

Other programs on the machine, and its other tenants, change the ranks' speeds from one iteration to
the next, and the rank that is late determines the time.  "unsteady" shows this effect alone: the
time divided by the bound, for parts that fit the mean speeds of the whole run exactly.  If it comes
near the limit, the run says nothing about the load balancing.  `auto` runs `--rounds` times, and
the run closest to the bound counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import cases  # noqa: F401  finds the examples
from common.figures import check, save
from common.mpi import ask_mpi

import pylb
from pylb import lab
from pylb.console import show
from pylb.model.metrics import reduction

from heat import Block, Plate  # isort: skip

RANKS, SHARE = 4, 0.48  # number of ranks; cores of each without a cap (together less than two)
CAPS = (27, 26, 25, 24, 23)
PLATE = Plate(8, 48)
# Sweeps of a block in an iteration: SWEEPS take some milliseconds, LONG several quota periods.
SWEEPS, LONG = 120, 360
EVERY = 10
CHANGE = "the cap falls"  # name of the moment at which the lab changes the cap


class Way(NamedTuple):
    """A variant: the keywords of `pylb.Balancer`."""

    name: str
    keywords: dict[str, Any]


LEFT = Way("without", {"mode": "off"})
POWER = Way("PowerAwareLB", {"strategy": "PowerAwareLB", "every": EVERY, "learn_speeds": False})
ALIKE = Way("auto, speeds assumed equal", {"learn_speeds": False})
AUTO = Way("auto", {"learn_speeds": True})
TABLES = (
    LEFT,
    Way("RefineLB", {"strategy": "RefineLB", "every": EVERY, "learn_speeds": False}),
    Way("GreedyLB", {"strategy": "GreedyLB", "every": EVERY, "learn_speeds": False}),
    POWER,
    AUTO,
)
SIZES = (LEFT, POWER, ALIKE, AUTO)


class Even(Block):
    """A block of the paper's Jacobi2D, X' = (X + L + R + T + B) / 5, with its number of sweeps."""

    def sweep(self, times: int) -> None:
        """Do some sweeps with the neighbours' values of the previous iteration."""
        t = self.t
        for _ in range(times):
            t[1:-1, 1:-1] = (
                t[1:-1, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:] + t[:-2, 1:-1] + t[2:, 1:-1]
            ) / 5.0
        self.sweeps += times


def work(spread: float, iteration: int) -> np.ndarray:
    """Return the sweeps of each block.

    If `spread` is 1, all are equal; otherwise the sizes of the blocks differ by up to this factor,
    and the sweeps of each block drift.
    """
    n = PLATE.blocks**2
    if spread == 1.0:
        return np.full(n, SWEEPS)
    size = np.random.default_rng(1).permutation(np.geomspace(1.0, spread, n))
    drift = 1.0 + 0.5 * np.sin(2.0 * np.pi * (np.arange(n) / n - iteration / 80.0))
    return np.maximum(np.round(LONG * drift * size / size.mean()), 1).astype(int)


# ---- the ranks ---------------------------------------------------------------------------------


def rank_program(spread: float, iterations: int, change: int, ways: list[Way]) -> list[Any]:
    """Run all variants in succession, under MPI; return their measurements."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    solve(comm, spread, 3, 0, LEFT)
    return [solve(comm, spread, iterations, change, Way(*way)) for way in ways]


def solve(comm: Any, spread: float, iterations: int, change: int, way: Way) -> dict[str, Any]:
    """Solve the plate once."""
    lb = pylb.Balancer(comm, **way.keywords)
    n = PLATE.blocks**2
    for key in range(n * lb.rank // RANKS, n * (lb.rank + 1) // RANKS):
        lb.add(key, Even(PLATE, key))
    sweeps = np.zeros(iterations)
    for it in lb.iterate(iterations):
        if change and it == change and lb.rank == 0:
            lab.announce(CHANGE)
        times = work(spread, it)
        for key, block in lb.local():
            for source, border in lb.inbox(key):
                block.receive(source, border)
            block.sweep(times[key])
            for side, other in PLATE.neighbours(key).items():
                lb.send(other, key, block.border(side))
            sweeps[it] += times[key]
    report, it = lb.report(), lb.metrics
    return {
        "seconds": report.seconds,
        "idle_mean": report.idle_mean,
        "idle_max": report.idle_max,
        "time": it.time.tolist(),
        "max": it.max.tolist(),
        "loads": lb.rank_loads().tolist(),
        "sweeps": np.transpose(comm.allgather(sweeps)).tolist(),
        "lb_step_iterations": [r.iteration for r in lb.history.lb_steps],
        "strategies": [r.strategy for r in lb.history.lb_steps],
        "speed": next((r.speed for r in reversed(lb.history.lb_steps) if r.speed), ()),
        "migrations": report.migrations,
    }


# ---- the lab -----------------------------------------------------------------------------------


def measure(plan: lab.LabPlan, *what: Any) -> list[dict[str, Any]]:
    """Run the ranks' program in a lab, and return its measurements."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file, lab.Lab(plan) as room:
        words = [sys.executable, __file__, "--ranks", file.name, json.dumps(what)]
        code = room.run(["mpiexec", "-n", str(RANKS), *words])
        failed = [done.failed for done in room.done if done.failed]
        if code or failed:
            raise SystemExit(f"the ranks ended with exit code {code}; failed: {failed}")
        return list(json.loads(Path(file.name).read_text()))


def capped(watts: float) -> lab.LabPlan:
    return lab.LabPlan((lab.Profile(share=SHARE, cap=watts),))


def bound(run: dict[str, Any], begin: int, end: int) -> np.ndarray:
    """Return the bound of each iteration in seconds, by the ranks' speeds in that run."""
    sweeps, loads = np.array(run["sweeps"])[begin:end], np.array(run["loads"])[begin:end]
    speed = sweeps.sum(axis=0) / loads.sum(axis=0)
    return np.asarray(sweeps.sum(axis=1) / speed.sum())


def over_bound(run: dict[str, Any], begin: int, end: int | None = None) -> float:
    """Return the time of the slowest ranks divided by the bound."""
    end = len(run["max"]) if end is None else end
    return float(np.sum(run["max"][begin:end]) / bound(run, begin, end).sum())


def unsteady(run: dict[str, Any], begin: int, end: int | None = None) -> float:
    """Return time / bound if the parts fitted the mean speeds exactly; no placement is better.

    It is above 1 because the speeds of the ranks change from one iteration to the next.
    """
    end = len(run["max"]) if end is None else end
    sweeps, loads = np.array(run["sweeps"])[begin:end], np.array(run["loads"])[begin:end]
    mean = sweeps.sum(axis=0) / loads.sum(axis=0)
    least = bound(run, begin, end)
    return float(np.sum(least * (mean * loads / sweeps).max(axis=1)) / least.sum())


def least_over(runs: list[dict[str, Any]], begin: int) -> tuple[float, str]:
    """Return the smallest time / bound of several runs, and a text with this ratio of each run."""
    ratios = sorted(over_bound(run, begin) for run in runs)
    return ratios[0], ", ".join(f"{x:.3f}" for x in ratios)


# ---- tables I and II ---------------------------------------------------------------------------


def tables(args: argparse.Namespace, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    iterations = 20 if args.quick else 40
    made: dict[str, Any] = {}
    for watts in CAPS[::4] if args.quick else CAPS:
        runs = measure(capped(watts), 1.0, iterations, 0, TABLES)
        made[str(watts)] = dict(zip((way.name for way in TABLES), runs, strict=True))
    title = f"{PLATE.blocks**2} equal blocks on {RANKS} ranks, {iterations} iterations"
    names = [way.name for way in TABLES]
    rows = [
        [f"{cap} W", name, *figures(runs[name], runs["PowerAwareLB"])]
        for cap, runs in made.items()
        for name in names
    ]
    head = ["cap", "balanced by", "time s", "S", "I_av s", "I_m s", "R_av %", "R_m %", "/bound"]
    show([*head, "moves"], rows, title=f"Dasgupta tables I and II: {title}")
    lowest = made[str(CAPS[-1])]
    for name in ("PowerAwareLB", "auto"):
        best = [runs["without"]["seconds"] / runs[name]["seconds"] for runs in made.values()]
        text = f"{name}: speed-up over the unbalanced run {min(best):.2f} ... {max(best):.2f}"
        check(f"{text} (paper: 1.04 ... 1.28)", max(best) >= 1.28, verdicts)
    least = min(runs["without"]["seconds"] / runs["auto"]["seconds"] for runs in made.values())
    check(f"auto: smallest speed-up {least:.2f}, at least 0.97", least >= 0.97, verdicts)
    for other in ("RefineLB", "GreedyLB"):
        gain = lowest[other]["seconds"] / lowest["PowerAwareLB"]["seconds"]
        paper = {"RefineLB": 1.20, "GreedyLB": 1.30}[other]
        check(f"23 W: PowerAwareLB {gain:.2f} x {other} (paper {paper})", gain >= 1.0, verdicts)
    return made


def figures(run: dict[str, Any], power: dict[str, Any]) -> Iterator[Any]:
    yield run["seconds"]
    yield run["seconds"] / power["seconds"]
    yield from (run["idle_mean"], run["idle_max"])
    same = run is power
    yield from (
        None if same else reduction(power[name], run[name]) for name in ("idle_mean", "idle_max")
    )
    yield over_bound(run, EVERY)
    yield run["migrations"]


# ---- unequal work ------------------------------------------------------------------------------


def sizes(args: argparse.Namespace, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    iterations, first = (20, 10) if args.quick else (40, 12)
    again = [AUTO._replace(name=f"auto, run {i}") for i in range(2, args.rounds + 1)]
    ways = [*SIZES, *again]
    made: dict[str, Any] = {}
    for watts in (25, 23):
        runs = measure(capped(watts), 10.0, iterations, 0, ways)
        made[str(watts)] = dict(zip((way.name for way in ways), runs, strict=True))
    rows = [
        [
            f"{cap} W",
            name,
            run["seconds"],
            over_bound(run, 0),
            over_bound(run, first),
            unsteady(run, first),
            np.sum(run["time"][first:]) / bound(run, first, iterations).sum(),
            len(run["lb_step_iterations"]),
            run["migrations"],
        ]
        for cap, runs in made.items()
        for name, run in runs.items()
    ]
    head = ["cap", "balanced by", "time s", "/bound", f"from {first} on", "unsteady"]
    title = f"Work that differs 10 x and drifts, {iterations} iterations"
    show([*head, "with messages", "LBs", "moves"], rows, title=title)
    for cap, runs in made.items():
        least, all_ = least_over([runs[way.name] for way in (AUTO, *again)], first)
        check(f"{cap} W: auto {least:.3f} x the bound (1.10); all {all_}", least <= 1.10, verdicts)
    return made


# ---- a cap that changes ------------------------------------------------------------------------


def change(args: argparse.Namespace, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    at, iterations = (15, 30) if args.quick else (30, 60)
    falls = lab.Change(when=CHANGE, ranks=(0,), values={"cap": 23.0, "share": 0.4 * SHARE})
    plan = capped(27)._replace(changes=(falls,))
    made = {}
    rows = []
    for name, spread in (("equal", 1.0), ("10 x, drifting", 10.0)):
        runs = [measure(plan, spread, iterations, at, [AUTO])[0] for _ in range(args.rounds)]
        made[name] = runs
        for run in runs:
            since = np.array(run["max"][at : at + 5]) / bound(run, at, iterations)[:5]
            after = next((i - at for i in run["lb_step_iterations"] if i >= at), None)
            later = over_bound(run, at + 5), unsteady(run, at + 5)
            rows.append([name, over_bound(run, at // 2, at), since.max(), after, *later])
        least, all_ = least_over(runs, at + 5)
        check(
            f"{name}: {least:.3f} x the bound from 5 iterations on (1.15); all {all_}",
            least < 1.15,
            verdicts,
        )
    head = ["work", "/bound before", "at most after", "balanced after", "/bound 5 later"]
    title = f"The cap of rank 0 falls in iteration {at}: auto"
    show([*head, "unsteady"], rows, title=title)
    return made


PARTS = {"tables": tables, "sizes": sizes, "change": change}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="run only this part")
    parser.add_argument("--quick", action="store_true", help="fewer iterations and caps")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs with auto; the best counts (%(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder for results (%(default)s)"
    )
    parser.add_argument("--ranks", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ranks:
        answer = rank_program(*json.loads(args.ranks[1]))
        if int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0"))) == 0:
            Path(args.ranks[0]).write_text(json.dumps(answer))
        return
    ask_mpi()
    args.out.mkdir(parents=True, exist_ok=True)
    verdicts: list[dict[str, Any]] = []
    made = {name: run(args, verdicts) for name, run in PARTS.items() if args.only in (None, name)}
    path = args.out / "unlike.json"
    save(path, {"verdicts": verdicts, **made})
    print(path)


if __name__ == "__main__":
    main()
