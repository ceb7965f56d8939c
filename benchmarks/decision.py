"""How long one decision takes: learning speeds, choosing the strategy, placing, estimating gains.

    python benchmarks/decision.py [--objects 100000] [--ranks 1000] [--json out/decision.json]

Ranks have speeds from 0.5 to 2, which the decider learns from successive LB steps.  The hot spot
moves, so that each LB step moves objects.  A decision is what the placing rank computes for an LB
step (``_core.Decider.place``), without gathering the loads and moving the objects.  The result is
the median over the LB steps after the speeds are known.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common.figures import save

import pylb
from pylb import console
from pylb.decide.decider import FIGURES, settings

MOST = 0.050  # seconds that a decision may take
STEPS = 12


def decisions(n: int, p: int, strategy: str) -> list[dict[str, Any]]:
    """Return a row of the table for each LB step."""
    rng = np.random.default_rng(1)
    speed = rng.uniform(0.5, 2.0, p)
    base = rng.lognormal(0.0, 0.5, n)
    rank = (np.arange(n) * p // n).astype(np.int32)
    key = np.arange(n)
    given = settings(strategy, every=1, learn_speeds=True)
    decider = given.decider(p)
    room = np.zeros(len(FIGURES)), np.zeros(p), np.zeros(n, np.int32)
    rows = []
    for i in range(STEPS):
        hot = 1.0 + np.exp(-0.5 * ((key / n - (0.1 + 0.05 * i)) / 0.05) ** 2)
        work = base * hot * rng.normal(1.0, 0.02, n)
        load = work / speed[rank]
        times = np.bincount(rank, load, p)
        most, mean, least = float(times.max()), float(times.mean()), float(times.min())
        decider.core.observe(i, most, most, mean, least, float(times.sum()), least / most, 0, 0)
        decider.core.next(True, False)
        decider.choose()
        snapshot = pylb.Snapshot(load=load, rank=rank, n_ranks=p, key=key)
        start = time.perf_counter()
        decider.core.place(snapshot, load, None, *room)
        seconds = time.perf_counter() - start
        moved = int((room[2] != rank).sum())
        decider.core.placed(room[0], room[1])
        decider.core.balanced(moved, 0, 0.0, seconds, True)
        rank = room[2].copy()
        rows.append(
            {
                "step": i,
                "strategy": strategy,
                "seconds": seconds,
                "of_the_strategy": float(room[0][FIGURES.index("seconds_strategy")]),
                "knows_speeds": bool(room[1][0] > 0),
                "moved": moved,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--json", help="also write the results to this file")
    args = parser.parse_args()
    rows = [r for s in ("BestFitLB", "auto") for r in decisions(args.objects, args.ranks, s)]
    console.show(
        ["strategy", "step", "ms", "strategy ms", "speeds known", "moved"],
        [
            [
                r["strategy"],
                r["step"],
                1e3 * r["seconds"],
                1e3 * r["of_the_strategy"],
                "yes" if r["knows_speeds"] else "no",
                r["moved"],
            ]
            for r in rows
        ],
        title=f"{args.objects} objects on {args.ranks} ranks",
    )
    for name in ("BestFitLB", "auto"):
        known = [r["seconds"] for r in rows if r["strategy"] == name and r["knows_speeds"]]
        middle = float(np.median(known)) if known else float("nan")
        met = "as it should be" if middle <= MOST else "NOT MET"
        print(f"{name}: decisions with speeds, median {1e3 * middle:.1f} ms, limit 50 ms: {met}")
    if args.json:
        save(args.json, rows)


if __name__ == "__main__":
    main()
