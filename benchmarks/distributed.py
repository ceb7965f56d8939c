"""Quality of distributed strategies on 4,096 virtual ranks, and their cost on each rank.

    python benchmarks/distributed.py [--quick] [--json out/distributed.json]

Targets: max/mean within 5 % of GreedyLB's in every case and never worse than before; and no rank
holds more than O(n/p + fan-out x rounds) entries. An entry is an object, a known rank, an object
with known location, an edge between two of these, or a line of a received message. The column
`held` is the largest number of entries on any rank at any time. `of` is this number divided by
(most objects of a rank before or after + fan-out x rounds; with DiffusionLB also the most edges of
a rank, counted in both directions). All rounds of the placement count.

`off node` counts the objects that leave their node of 64 ranks. Messages and KiB are what a rank
sends in the whole placement: mean and maximum over the ranks. Times are those of all virtual ranks
together, in one process.
"""

import argparse
import time

import numpy as np
from common.figures import save

import pylb
from pylb.console import show

WITHIN = 1.05
CONSTANT = 4.0  # the factor in the O() of what a rank may hold
RANKS_PER_NODE = 64


def cases(n, p):
    """(name, load, rank) of each case."""
    rng = np.random.default_rng(1)
    block = np.arange(n) * p // n
    spot = np.exp(-0.5 * ((np.arange(n) / n - 0.5) / 0.05) ** 2)
    giant = rng.random(n)
    giant[n // 2] = 3.0 * n / p * giant.mean()
    yield "uniform", rng.random(n), block
    yield "log-normal", rng.lognormal(0.0, 1.0, n), block
    yield "hot spot", (1.0 + 8.0 * spot) * rng.lognormal(0.0, 0.1, n), block
    yield "4 of the ranks", rng.random(n), np.arange(n) * 4 // n
    yield "4 decades", 10.0 ** rng.uniform(-4.0, 0.0, n), block
    yield "1 above average", giant, block


def edges_of(n):
    """Each object sends to the next one and to that of the next row of a square."""
    side = int(np.sqrt(n))
    src = np.arange(n)
    return np.tile(src, 2), np.concatenate([(src + 1) % n, (src + side) % n]), np.full(2 * n, 8.0)


def measure(kind, snapshot, greedy):
    """A row for each distributed strategy."""
    p = snapshot.n_ranks
    sent = np.bincount(snapshot.rank[snapshot.edge_src], minlength=p).max()
    rows, node = [], snapshot.node
    for name in [s.name for s in pylb.strategies().values() if s.distributed]:
        start = time.perf_counter()
        seen = pylb.traffic(snapshot, name)
        seconds = time.perf_counter() - start
        after = pylb.evaluate(snapshot, seen.rank)
        params = {q.name: q.default for q in pylb.strategies()[name].params}
        objects = max(np.bincount(r, minlength=p).max() for r in (snapshot.rank, seen.rank))
        bound = objects + params["fan_out"] * seen.rounds + (name == "DiffusionLB") * 2 * sent
        rows.append(
            {
                "case": kind,
                "strategy": name,
                "before": snapshot.metrics.max_over_mean,
                "max_over_mean": after.components[0].max_over_mean,
                "greedy": greedy,
                "migrations": after.migrations,
                "between_nodes": int(np.count_nonzero(node[seen.rank] != node[snapshot.rank])),
                "rounds": seen.rounds,
                "messages": [float(seen.messages.mean()), int(seen.messages.max())],
                "bytes": [float(seen.bytes.mean()), int(seen.bytes.max())],
                "objects": int(objects),
                "held": int(seen.held.max()),
                "bound": float(bound),
                "seconds": seconds,
            }
        )
    return rows


def table(rows):
    columns = [
        "case", "strategy", "before", "max/mean", "/Greedy", "moved", "off node", "rounds",
        "messages", "most", "KiB", "most", "objects", "held", "of", "s",
    ]  # fmt: skip
    cells = [
        [
            r["case"], r["strategy"], f"{r['before']:.3f}", f"{r['max_over_mean']:.4f}",
            f"{r['max_over_mean'] / r['greedy']:.4f}", f"{r['migrations']:,}",
            f"{r['between_nodes']:,}", r["rounds"],
            f"{r['messages'][0]:.0f}", f"{r['messages'][1]:,}",
            f"{r['bytes'][0] / 1024:.1f}", f"{r['bytes'][1] / 1024:,.0f}",
            f"{r['objects']:,}", f"{r['held']:,}", f"{r['held'] / r['bound']:.2f}",
            f"{r['seconds']:.2f}",
        ]
        for r in rows
    ]  # fmt: skip
    show(columns, cells)


def verdicts(rows):
    """Print a line for each target; return whether all are met."""
    worst = {
        f"max/mean over GreedyLB's: at most {WITHIN}": (
            max(r["max_over_mean"] / r["greedy"] for r in rows), WITHIN,
        ),
        "max/mean over what was given: at most 1": (
            max(r["max_over_mean"] / r["before"] for r in rows), 1.0,
        ),
        f"entries held over their bound: at most {CONSTANT:g}": (
            max(r["held"] / r["bound"] for r in rows), CONSTANT,
        ),
    }  # fmt: skip
    for what, (value, limit) in worst.items():
        print(f"{'met   ' if value <= limit else 'MISSED'} {what}; the worst is {value:.4f}")
    return all(value <= limit for value, limit in worst.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="512 ranks, 125,000 objects")
    parser.add_argument("--json", metavar="FILE", default="out/distributed.json")
    args = parser.parse_args()
    n, p = (125_000, 512) if args.quick else (10**6, 4096)
    rows = []
    for kind, load, rank in cases(n, p):
        node = np.arange(p) // RANKS_PER_NODE
        snapshot = pylb.Snapshot(load, rank, n_ranks=p, edges=edges_of(n), node=node)
        greedy = pylb.place(snapshot, "GreedyLB").after.max_over_mean
        rows += measure(kind, snapshot, greedy)
    print(f"{n:,} objects on {p:,} ranks, {RANKS_PER_NODE} a node")
    table(rows)
    met = verdicts(rows)
    save(args.json, {"met": met, "rows": rows})


if __name__ == "__main__":
    main()
