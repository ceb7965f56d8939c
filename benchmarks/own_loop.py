"""An advisor with default settings, compared with the best fixed period, found by trial.

    python benchmarks/own_loop.py [--ranks 8] [--steps 500] [--seeds 3] [--json out/own_loop.json]

The cells are on a ring.  Their loads drift in three ways: a hump goes round, a hot spot jumps, or
some loads grow slowly.  An LB step costs as much as 2, 10 or 50 balanced steps.  The program
redistributes in its own way (*when only*: it cuts the ring into parts of equal load) or as
`plan.rank` says (*when and where*).  All runs are on virtual ranks whose clocks show declared
seconds only, so that each result is the same in every run.

The advisor is not told what an LB step costs.  It knows the number of steps in the column
"iterate", but not in the column "own loop".  The fixed periods are tried one after the other on the
same loads; the best one is known only afterwards.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pylb

CELLS = 256
SECOND = 1e-3  # seconds of a balanced step
COSTS = (2, 10, 50)  # cost of an LB step, in balanced steps
PERIODS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150, 200, 300, 10**6)
LIMIT = 1.05
Loads = Callable[[int], np.ndarray]


def ramp(steps: int, rng: np.random.Generator) -> Loads:
    """Return loads with a hump that goes round the ring twice in the run."""
    x, speed, height = np.arange(CELLS) / CELLS, 2.0 / steps, rng.uniform(2.0, 8.0)

    def loads(step: int) -> np.ndarray:
        away = np.abs((x - speed * step + 0.5) % 1.0 - 0.5)
        return 1.0 + height * np.clip(1.0 - away / 0.15, 0.0, None)

    return loads


def jump(steps: int, rng: np.random.Generator) -> Loads:
    """Return loads with a hot spot that jumps to another position from time to time."""
    x, n = np.arange(CELLS) / CELLS, 5
    times = np.sort(rng.integers(steps // 20, steps, n))
    places, heights = rng.random(n + 1), rng.uniform(3.0, 10.0, n + 1)

    def loads(step: int) -> np.ndarray:
        k = int(np.searchsorted(times, step, side="right"))
        near = np.abs((x - places[k] + 0.5) % 1.0 - 0.5) < 0.08
        return 1.0 + heights[k] * near

    return loads


def growth(steps: int, rng: np.random.Generator) -> Loads:
    """Return loads of which some grow slowly."""
    x, most = np.arange(CELLS) / CELLS, rng.uniform(1.0, 5.0)
    near = np.exp(-(((x - rng.random() + 0.5) % 1.0 - 0.5) ** 2) / (2 * 0.12**2))
    return lambda step: 1.0 + most * near * step / steps


DRIFTS = {"ramp": ramp, "jump": jump, "growth": growth}


class Program:
    """A run of the program, which redistributes its cells in its own way or by a plan."""

    def __init__(self, loads: list[np.ndarray], cost: float, places: bool) -> None:
        self.loads, self.cost, self.places = loads, cost, places

    def cut(self, load: np.ndarray, n_ranks: int) -> np.ndarray:
        """Cut the ring into parts of equal load."""
        middle = np.cumsum(load) - 0.5 * load
        return np.minimum((middle * n_ranks / load.sum()).astype(int), n_ranks - 1)

    def main(self, comm: Any, told: bool, arguments: dict[str, Any]) -> tuple[float, int]:
        """Run the loop of one rank; return the seconds of the run, and the LB steps."""
        lb = pylb.Advisor(comm, network=(0.0, 0.0), record=False, **arguments)
        owner = np.arange(CELLS) * comm.size // CELLS
        steps = lb.iterate(len(self.loads)) if told else range(len(self.loads))
        n = 0
        for step in steps:
            load = self.loads[step]
            mine = np.flatnonzero(owner == comm.rank)
            comm.elapse(float(load[mine].sum()))
            if self.places:
                plan = lb.advise(loads=load[mine], keys=mine)
            else:
                plan = lb.advise(seconds=float(load[mine].sum()))
            if not plan:
                continue
            n += 1
            with lb.rebalancing():
                new = owner.copy()
                if self.places:
                    for cells, rank in comm.allgather((mine, plan.rank)):
                        new[cells] = rank
                else:
                    new = self.cut(load, comm.size)
                moved = np.count_nonzero(new != owner) / CELLS
                comm.elapse(self.cost * (0.5 + moved))
                owner = new
        comm.barrier()
        return comm.time, n


def run(program: Program, ranks: int, told: bool = False, **arguments: Any) -> tuple[float, int]:
    """Run on virtual ranks; return the seconds and the LB steps."""
    cluster = pylb.VirtualCluster(ranks, clock="none", network=(0.0, 0.0))
    seconds, n = cluster.run(program.main, told, arguments)[0]
    return float(seconds), int(n)


def case(name: str, cost: int, places: bool, seed: int, ranks: int, steps: int) -> dict[str, Any]:
    """Return the row of the table for a case."""
    rng = np.random.default_rng(seed)
    drift = DRIFTS[name](steps, rng)
    scale = SECOND * ranks / float(np.mean([drift(step).sum() for step in range(steps)]))
    loads = [scale * drift(step) * rng.normal(1.0, 0.03, CELLS).clip(0.5) for step in range(steps)]
    program = Program(loads, cost * SECOND, places)
    trials = {k: run(program, ranks, every=k) for k in PERIODS if k < steps or k == PERIODS[-1]}
    best = min(trials, key=lambda k: trials[k][0])
    row = {
        "drift": name,
        "cost": cost,
        "cells": "where" if places else "when",
        "seed": seed,
        "unbalanced": trials[PERIODS[-1]][0],
        "period": best if best < steps else 0,
        "best": trials[best][0],
    }
    for told, word in ((False, "own loop"), (True, "iterate")):
        seconds, n = run(program, ranks, told)
        row |= {word: seconds, f"{word} ratio": seconds / trials[best][0], f"{word} LB steps": n}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds for each case")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"{args.ranks} ranks, {args.steps} steps; seconds, and ratio to the best fixed period")
    print("drift  cells cost seed  unbalanced  best (period)   own loop  ratio    iterate  ratio")
    for name in DRIFTS:
        for places in (False, True):
            for cost in COSTS:
                for seed in range(args.first, args.first + args.seeds):
                    r = case(name, cost, places, seed, args.ranks, args.steps)
                    rows.append(r)
                    print(
                        f"{name:6} {r['cells']:5} {cost:4} {seed:4} {r['unbalanced']:11.4f} "
                        f"{r['best']:7.4f} ({r['period']:4}) {r['own loop']:10.4f} "
                        f"{r['own loop ratio']:6.3f} {r['iterate']:10.4f} "
                        f"{r['iterate ratio']:6.3f}"
                    )
    for word in ("own loop", "iterate"):
        ratios = np.array([r[f"{word} ratio"] for r in rows])
        print(
            f"{word}: ratio {ratios.mean():.3f} on average, {ratios.max():.3f} at most; at most "
            f"{LIMIT} in {np.count_nonzero(ratios <= LIMIT)} of {len(ratios)} cases"
        )
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
