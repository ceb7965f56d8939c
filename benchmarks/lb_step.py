"""A whole LB step on 1,000 to a million simulated ranks: seconds and bytes of each part.

    python benchmarks/lb_step.py [--most 100000] [--objects 100] [--json out/lb_step.json]

The objects lie on a square; each has 10 kB and sends to two neighbours.  In a hot spot, they take
nine times as long.  The strategies really run; the times of messages are those of a LogGP network
(`pylb.replay.simulate_step`, whose docstring says what is sent).  *share* is the fraction of the
run time that the LB step takes if there are 100 iterations of 100 ms between LB steps.  Strategy
"auto" is the default of `Balancer`.  Bytes are those of the rank that sends, receives or keeps the
most.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common.figures import save

import pylb
from pylb.console import show
from pylb.replay import LogGP, SimulatedStep, simulate_step

STRATEGIES = ("auto", "BestFitLB", "GossipLB", "HierarchicalLB", "DiffusionLB")
SIZES = (1000, 10_000, 100_000, 1_000_000)
BETWEEN = 100 * 0.1  # seconds from one LB step to the next
NODE = 64  # ranks on a node
SHARE = 0.01  # largest share that meets the target, for the default "auto"


def snapshot_of(n: int, p: int) -> pylb.Snapshot:
    """Return a snapshot with a hot spot on a square."""
    rng, key = np.random.default_rng(1), np.arange(n)
    spot = np.exp(-0.5 * ((key / n - 0.5) / 0.05) ** 2)
    load = 1e-3 * (1.0 + 8.0 * spot) * rng.lognormal(0.0, 0.1, n)
    side = int(np.sqrt(n))
    src, dst = np.tile(key, 2), np.concatenate([(key + 1) % n, (key + side) % n])
    return pylb.Snapshot(
        load,
        key * p // n,
        n_ranks=p,
        edges=(src, dst, np.full(2 * n, 8.0)),
        bytes=np.full(n, 10_000),
        node=np.arange(p) // NODE,
    )


def row_of(run: SimulatedStep, given: str) -> dict[str, Any]:
    """Return a row of the table, as JSON."""
    return {
        "ranks": run.n_ranks,
        "objects": run.n_objects,
        "given": given,
        "strategy": run.strategy,
        "before": run.before,
        "after": run.after,
        "migrations": run.migrations,
        "seconds": run.seconds,
        "share": run.seconds / (run.seconds + BETWEEN),
        "parts": [part._asdict() for part in run.parts],
    }


def cells_of(row: dict[str, Any]) -> list[Any]:
    """Return the cells of the printed row."""
    ms = {part["name"]: f"{1e3 * part['seconds']:.3g}" for part in row["parts"]}
    most = [max(part[what] for part in row["parts"]) for what in ("sent", "received", "kept")]
    names = ("statistics", "database", "strategy", "answer", "migration", "directory")
    return [
        f"{row['ranks']:,}", row["given"], row["strategy"],
        f"{row['before']:.2f}", f"{row['after']:.4f}", f"{row['migrations']:,}",
        *(ms.get(name, "") for name in names),
        f"{1e3 * row['seconds']:.3g}", f"{100 * row['share']:.2f} %",
        *(f"{x / 1e6:.3g}" for x in most),
    ]  # fmt: skip


def main() -> None:
    """Simulate, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=100_000, help="largest number of ranks")
    parser.add_argument("--objects", type=int, default=100, help="objects per rank")
    parser.add_argument("--json", default="out/lb_step.json")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for p in (size for size in SIZES if size <= args.most):
        snapshot = snapshot_of(args.objects * p, p)
        rows += [row_of(simulate_step(snapshot, name), name) for name in STRATEGIES]
    columns = [
        "ranks", "given", "strategy", "before", "max/mean", "moved", "statistics, ms", "database",
        "strategy", "answer", "migration", "directory", "all", "share", "sent, MB", "received",
        "kept",
    ]  # fmt: skip
    show(columns, [cells_of(row) for row in rows])
    print(f"network: {LogGP()}")
    for p in sorted({row["ranks"] for row in rows}):
        row = next(row for row in rows if row["ranks"] == p and row["given"] == "auto")
        word = "met   " if row["share"] <= SHARE else "MISSED"
        said = f"the default ({row['strategy']}) takes {100 * row['share']:.2f} % (1 %)"
        print(f"{word} {p:,} ranks: {said}")
    save(args.json, {"network": LogGP()._asdict(), "rows": rows})


if __name__ == "__main__":
    main()
