"""Random snapshots in search of needless migrations and of calls that take unusually long.

    python benchmarks/needless.py [--snapshots 1000] [--first 0] [--json out/needless.json]

Each strategy places each snapshot.  "must leave" is the number of objects that every placement with
the same time of the slowest rank has to move: each rank gives away its heaviest objects until it
ends in time.  A placement is listed if it moves more than twice of that, or more than twice of what
another strategy moves for a time that is at most 0.1 % longer; 8 objects more are never listed.
"slow" are calls that take more than 3 times the median of their strategy and size (a factor of 2 in
objects + ranks), and more than 3 ms, also when they are repeated.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

import numpy as np
from common.figures import save

import pylb
from pylb.console import show

STRATEGIES = (
    "BestFitLB RefineLB RefineSwapLB CommAwareRefineLB RefineCommLB GossipLB HierarchicalLB"
).split()
FEW, NEAR, SLOW, SECONDS = 8, 1.001, 3.0, 0.003
LOADS = {
    "equal": lambda rng, n: np.ones(n),
    "nearly equal": lambda rng, n: rng.normal(1.0, 10.0 ** -rng.integers(1, 5), n),
    "uniform": lambda rng, n: rng.random(n),
    "log-normal": lambda rng, n: rng.lognormal(0.0, rng.uniform(0.2, 2.0), n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "two sizes": lambda rng, n: np.where(
        rng.random(n) < rng.random() / 2, rng.integers(2, 20), 1.0
    ),
    "integers": lambda rng, n: rng.integers(1, rng.integers(3, 20), n).astype(float),
    "Pareto": lambda rng, n: rng.pareto(rng.uniform(1.0, 3.0), n),
}


def present(rng: np.random.Generator, load: np.ndarray, p: int) -> tuple[str, np.ndarray]:
    """Return the name of a placement, and the rank of each object."""
    n = len(load)
    blocks = (np.arange(n) * p // n).astype(np.int32)
    kind = rng.choice(["blocks", "sorted blocks", "random", "one rank", "balanced once", "crowd"])
    if kind == "sorted blocks":
        load.sort()
    elif kind == "random":
        return kind, rng.integers(0, p, n).astype(np.int32)
    elif kind == "one rank":
        return kind, np.where(rng.random(n) < rng.random(), 0, blocks).astype(np.int32)
    elif kind == "crowd":  # some ranks have several objects too many
        rank = blocks.copy()
        rank[rng.integers(0, n, 1 + n // 50)] = rng.integers(0, p, 1 + p // 50)[0]
        return kind, rank
    elif kind == "balanced once":  # since then, some loads have changed
        rank = pylb.place(pylb.Snapshot(load, blocks, n_ranks=p), "GreedyLB").rank
        changed = rng.random(n) < rng.random()
        load[changed] *= rng.lognormal(0.0, rng.uniform(0.01, 1.0), int(changed.sum()))
        return kind, rank
    return kind, blocks


def snapshot_of(seed: int) -> tuple[str, pylb.Snapshot]:
    """Return a description of the random snapshot with this seed, and the snapshot."""
    rng = np.random.default_rng(seed)
    p = int(2.0 ** rng.uniform(1.0, 9.0 if seed % 50 else 12.0))
    n = max(int(p * 2.0 ** rng.uniform(0.0, 6.0 if p < 600 else 4.0)), 2)
    name = str(rng.choice(list(LOADS)))
    load = np.abs(LOADS[name](rng, n)) + 1e-9
    if rng.random() < 0.2:  # a region is hot
        begin = rng.integers(0, n)
        load[begin : begin + max(n // 8, 1)] *= rng.uniform(1.5, 20.0)
    where, rank = present(rng, load, p)
    facts = {}
    if rng.random() < 0.2:
        facts["speed"] = rng.uniform(0.5, 2.0, p)
    if rng.random() < 0.1:
        facts["background"] = rng.uniform(0.0, load.sum() / p, p)
    if rng.random() < 0.1:
        facts["migratable"] = rng.random(n) < 0.9
    text = f"{n} {name} on {p}, {where}{''.join(', ' + fact for fact in facts)}"
    return text, pylb.Snapshot(load, rank, n_ranks=p, **facts)


def must_leave(s: pylb.Snapshot, limit: float) -> int:
    """Return how many objects must leave their rank so that no rank takes longer than `limit`."""
    speed = np.ones(s.n_ranks) if s.speed is None else s.speed
    other = np.zeros(s.n_ranks) if s.background is None else s.background
    over = other + np.bincount(s.rank, s.load, s.n_ranks) / speed - limit * (1 + 1e-12)
    order = np.lexsort((-s.load, s.rank))
    load, rank = s.load[order] / speed[s.rank[order]], s.rank[order]
    first = np.searchsorted(rank, np.arange(s.n_ranks))
    before = np.cumsum(load) - load
    gone = before - before[np.minimum(first, len(load) - 1)][rank]  # by heavier ones of its rank
    return int((gone < over[rank] - 1e-12 * limit).sum())


def seconds_of(s: pylb.Snapshot, strategy: str) -> tuple[float, pylb.placing.Placement]:
    """Return the time of a placement, and the placement."""
    begin = time.perf_counter()
    plan = pylb.place(s, strategy)
    return time.perf_counter() - begin, plan


def compare(seed: int, found: list[dict[str, object]]) -> list[tuple[str, int, int, float]]:
    """Place one snapshot; add what is needless to `found`; return strategies, sizes and times."""
    text, s = snapshot_of(seed)
    times, plans = [], {}
    for strategy in STRATEGIES:
        seconds, plans[strategy] = seconds_of(s, strategy)
        if plans[strategy].migrations:
            size = int(np.log2(len(s.load) + s.n_ranks))
            times.append((strategy, size, seed, seconds))
    for strategy, plan in plans.items():
        near = {o: q.migrations for o, q in plans.items() if q.after.max <= plan.after.max * NEAR}
        best = min(near, key=near.get)
        least = must_leave(s, plan.after.max)
        for why, bound in (("must leave", least), (best, near[best])):
            if plan.migrations > 2 * bound + FEW:
                found.append(
                    {
                        **{"seed": seed, "snapshot": text, "strategy": strategy, "why": why},
                        **{"enough": bound, "migrations": plan.migrations},
                        "max_over_mean": plan.after.max_over_mean,
                    }
                )
    return times


def slow_calls(times: list[tuple[str, int, int, float]]) -> list[dict[str, object]]:
    """Return the calls that take much more than the median of their strategy and size, twice."""
    alike = defaultdict(list)
    for strategy, size, _, seconds in times:
        alike[strategy, size].append(seconds)
    median = {key: float(np.median(values)) for key, values in alike.items()}
    out = []
    for strategy, size, seed, seconds in times:
        usual = median[strategy, size]
        if seconds > max(SLOW * usual, SECONDS):
            text, s = snapshot_of(seed)
            again = min(seconds_of(s, strategy)[0] for _ in range(2))
            if again > max(SLOW * usual, SECONDS):
                what = {"seed": seed, "snapshot": text, "strategy": strategy}
                out.append(what | {"seconds": again, "usual": usual})
    return out


def row(strategy, times, found, slow) -> list[str]:
    """Return a row of the table."""
    why = [f["why"] for f in found if f["strategy"] == strategy]
    longest = [f["seconds"] / f["usual"] for f in slow if f["strategy"] == strategy]
    return [
        strategy,
        str(sum(t[0] == strategy for t in times)),
        str(why.count("must leave")),
        str(len(why) - why.count("must leave")),
        str(len(longest)),
        f"{max(longest, default=0.0):.0f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--snapshots", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--json", metavar="FILE", default="out/needless.json")
    args = parser.parse_args()
    found: list[dict[str, object]] = []
    times = []
    for seed in range(args.first, args.first + args.snapshots):
        times += compare(seed, found)
    slow = slow_calls(times)
    save(args.json, {"snapshots": args.snapshots, "needless": found, "slow": slow})
    show(
        ["strategy", "calls", "> 2 x must leave", "> 2 x another", "slow", "longest / median"],
        [row(strategy, times, found, slow) for strategy in STRATEGIES],
    )


if __name__ == "__main__":
    main()
