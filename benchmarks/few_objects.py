"""Three to ten objects on each of many ranks: balance, migrations and time of BestFitLB.

    python benchmarks/few_objects.py [--ranks 16384] [--json out/few_objects.json]

The objects lie in blocks, so before the placement the ranks are as unequal as their objects.
"max/bound" is the time of the slowest rank over a lower bound for every placement.  The bound is
the largest of three numbers: the average, the heaviest object, and the load that some rank has at
least by the pigeonhole principle.  "Times argsort" is the time of the placement over that of
NumPy's argsort of the loads.

Loads of two sizes can make every placement miss the bound: with 10 % of objects five times as
heavy as the others, a rank with a heavy object can take only a whole number of light ones.
"""

from __future__ import annotations

import argparse

import numpy as np
from common.figures import check, least_seconds, save

import pylb
from pylb.console import show

NEAR = 1.005
SECONDS = 0.030  # for 10^5 objects
KINDS = {
    "uniform": lambda rng, n: rng.random(n),
    "log-normal": lambda rng, n: rng.lognormal(0.0, 1.0, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "normal, 20 %": lambda rng, n: rng.normal(1.0, 0.2, n),
    "equal, 0.1 % noise": lambda rng, n: rng.normal(1.0, 0.001, n),
    "two sizes, 10 % noise": lambda rng, n: (
        np.where(rng.random(n) < 0.2, 5.0, 1.0) * rng.normal(1.0, 0.1, n)
    ),
    "two sizes, 5 % noise": lambda rng, n: (
        np.where(rng.random(n) < 0.1, 5.0, 1.0) * rng.uniform(1.0, 1.05, n)
    ),
}
UNREACHABLE = {"two sizes, 5 % noise"}


def lower_bound(load: np.ndarray, ranks: int) -> float:
    """Return a lower bound for the seconds of the slowest rank."""
    load = np.sort(load)[::-1]
    crowds = (
        load[k * ranks - k : k * ranks + 1].sum() for k in range(1, (len(load) - 1) // ranks + 1)
    )
    return max(load.sum() / ranks, load[0], *crowds, 0.0)


def row(kind: str, each: int, ranks: int) -> dict[str, float | str]:
    """Place one snapshot, and return its row of the table."""
    load = np.abs(KINDS[kind](np.random.default_rng(1), each * ranks)) + 1e-3
    s = pylb.Snapshot(load, np.arange(len(load)) // each, n_ranks=ranks)
    plan = pylb.place(s, "BestFitLB")
    seconds = least_seconds(lambda: pylb.place(s, "BestFitLB"), 5)
    return {
        "loads": kind,
        "objects per rank": each,
        "max/bound before": plan.before.max / lower_bound(load, ranks),
        "max/bound": plan.after.max / lower_bound(load, ranks),
        "migrations": plan.migrations,
        "objects": len(load),
        "seconds": seconds,
        "times argsort": seconds / least_seconds(lambda: np.argsort(load), 5),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=16_384)
    parser.add_argument("--json", metavar="FILE", default="out/few_objects.json")
    args = parser.parse_args()
    rows = [row(kind, each, args.ranks) for kind in KINDS for each in (3, 6, 10)]
    show(
        ["loads", "per rank", "before", "max/bound", "migrate, %", "ms", "x argsort"],
        [
            [
                r["loads"],
                r["objects per rank"],
                f"{r['max/bound before']:.3f}",
                f"{r['max/bound']:.4f}",
                f"{100 * r['migrations'] / r['objects']:.1f}",
                f"{1e3 * r['seconds']:.1f}",
                f"{r['times argsort']:.1f}",
            ]
            for r in rows
        ],
    )
    verdicts: list[dict[str, object]] = []
    for r in rows:
        what = f"{r['loads']}, {r['objects per rank']} per rank:"
        if r["loads"] not in UNREACHABLE:
            check(f"{what} max/bound at most {NEAR}", r["max/bound"] <= NEAR, verdicts)
        allowed = SECONDS * max(r["objects"] / 1e5, 1.0)
        check(f"{what} at most {1e3 * allowed:.0f} ms", r["seconds"] <= allowed, verdicts)
    save(args.json, {"verdicts": verdicts, "rows": rows})


if __name__ == "__main__":
    main()
