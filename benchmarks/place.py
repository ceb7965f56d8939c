"""How fast GreedyLB and RefineLB place objects, and how well.

    python benchmarks/place.py [--quick] [--json out/place.json]

Objects start in blocks (the first n/p on rank 0, and so on) and have random loads.  A time is the
shortest of several whole calls of `pylb.place`, with checks and metrics.  In the same run
and for the same loads it is compared with two others: `numpy.argsort`, and the same placement by
`heapq` in Python, which must agree with GreedyLB to the last bit.

Targets for 10^6 objects: GreedyLB takes at most 1.25 x argsort on 1,024 ranks and 1.75 x on 16,384.
Targets for all sizes from 10^5: RefineLB takes at most GreedyLB's time and, if the imbalance is
moderate (max/mean below 1.5), less than a third of its migrations.
"""

import argparse
import heapq
import time

import numpy as np
from common.figures import save

import pylb
from pylb.console import show

LOADS = {
    "uniform": lambda rng, n: rng.random(n),
    "log-normal": lambda rng, n: rng.lognormal(0.0, 1.0, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
}
MOST_RATIO = {1_024: 1.25, 16_384: 1.75}
MODERATE = 1.5


def with_heapq(load, p):
    """Place the heaviest object first, where it would finish first, with a heap of (time, rank)."""
    heap = [(0.0, r) for r in range(p)]
    out = np.empty(len(load), np.int32)
    values = load.tolist()
    for i in np.argsort(-load, kind="stable").tolist():
        time_, r = heap[0]
        out[i] = r
        heapq.heapreplace(heap, (time_ + values[i], r))
    return out


def timed(call):
    start = time.perf_counter()
    out = call()
    return time.perf_counter() - start, out


def measure(kind, n, p, repeats, heap):
    """Measure one case; the calls take turns, so that noise disturbs all alike."""
    load = LOADS[kind](np.random.default_rng(n + p), n)
    snapshot = pylb.Snapshot(load, np.arange(n) * p // n, n_ranks=p)
    calls = {
        "argsort": lambda: np.argsort(load),
        "GreedyLB": lambda: pylb.place(snapshot, "GreedyLB"),
        "RefineLB": lambda: pylb.place(snapshot, "RefineLB"),
    }
    best, plan = dict.fromkeys(calls, float("inf")), {}
    for _ in range(repeats):
        for name, call in calls.items():
            seconds, plan[name] = timed(call)
            best[name] = min(best[name], seconds)
    row = {"loads": kind, "objects": n, "ranks": p, "argsort": best["argsort"], "heapq": None}
    if heap:
        row["heapq"], rank = timed(lambda: with_heapq(load, p))
        np.testing.assert_array_equal(plan["GreedyLB"].rank, rank)
    row["before"] = plan["GreedyLB"].before.max_over_mean
    for name in ("GreedyLB", "RefineLB"):
        row[name] = {
            "seconds": best[name],
            "max_over_mean": plan[name].after.max_over_mean,
            "migrations": plan[name].migrations,
        }
    return row


def targets(row):
    """Return (what, value, limit, met) of each target that this case has."""
    greedy, refine = row["GreedyLB"], row["RefineLB"]
    out = []
    if row["objects"] == 10**6 and row["ranks"] in MOST_RATIO:
        ratio, most = greedy["seconds"] / row["argsort"], MOST_RATIO[row["ranks"]]
        out.append(("GreedyLB / argsort", ratio, most, ratio <= most))
    if row["objects"] >= 10**5:
        ratio = refine["seconds"] / greedy["seconds"]
        out.append(("RefineLB / GreedyLB", ratio, 1.0, ratio <= 1.0))
        if row["before"] < MODERATE:
            ratio = refine["migrations"] / greedy["migrations"]
            out.append(("RefineLB / GreedyLB, migrations", ratio, 1 / 3, ratio < 1 / 3))
    return out


def table(rows):
    columns = [
        "loads",
        "objects",
        "ranks",
        "argsort ms",
        "heapq/Greedy",
        "Greedy ms",
        "/argsort",
        "Refine ms",
        "/Greedy",
        "max/mean",
        "Greedy",
        "Refine",
        "migrations",
        "Refine",
    ]
    cells = []
    for r in rows:
        g, f = r["GreedyLB"], r["RefineLB"]
        cells.append([
            r["loads"], f"{r['objects']:,}", f"{r['ranks']:,}", f"{1e3 * r['argsort']:.2f}",
            f"{r['heapq'] / g['seconds']:.0f}" if r["heapq"] else None,
            f"{1e3 * g['seconds']:.2f}", f"{g['seconds'] / r['argsort']:.2f}",
            f"{1e3 * f['seconds']:.2f}", f"{f['seconds'] / g['seconds']:.2f}",
            f"{r['before']:.3f}", f"{g['max_over_mean']:.4f}", f"{f['max_over_mean']:.4f}",
            f"{g['migrations']:,}", f"{f['migrations']:,}",
        ])  # fmt: skip
    show(columns, cells)


def verdicts(rows):
    """Print a line for each target; return whether all are met."""
    found = [(row, *target) for row in rows for target in targets(row)]
    for what in dict.fromkeys(t[1] for t in found):
        of = [t for t in found if t[1] == what]
        missed = [t for t in of if not t[4]]
        for row, _, value, limit, _ in missed:
            print(f"MISSED {what}: {value:.2f}, at most {limit:.2f} ({row['loads']}, "
                  f"{row['objects']:,} objects, {row['ranks']:,} ranks)")  # fmt: skip
        if not missed:
            worst = max(of, key=lambda t: t[2] / t[3])
            print(f"met    {what}: at most {worst[2]:.2f} of {worst[3]:.2f} in {len(of)} cases")
    return all(t[4] for t in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no heapq, few cases and repeats")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", metavar="FILE", default="out/place.json")
    args = parser.parse_args()
    objects = [10**4, 10**6] if args.quick else [10**4, 10**5, 10**6]
    ranks = [1_024, 16_384] if args.quick else [64, 1_024, 16_384]
    repeats = 3 if args.quick else args.repeats
    rows = [
        measure(kind, n, p, repeats * (1 if n == 10**6 else 3), heap=not args.quick)
        for n in objects for p in ranks for kind in LOADS
    ]  # fmt: skip
    table(rows)
    met = verdicts(rows)
    save(args.json, {"met": met, "rows": rows})


if __name__ == "__main__":
    main()
