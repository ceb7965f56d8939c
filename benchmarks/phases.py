"""Objects with a load for each phase: time of an iteration over its bound, by several methods.

    python benchmarks/phases.py [--json out/phases.json]

All ranks wait at the end of each phase.  The objects of the first half of the ranks (of two phases;
a third of three) are five times as heavy in one phase as in the others, so that the sums of all
ranks are equal at the start.  An iteration takes at least the sum over the phases of the largest of
the mean load of a rank and the heaviest object: the bound.  METIS balances a weight for each phase
on a ring of the objects, within 3 %.
"""

from __future__ import annotations

import argparse

import numpy as np
from common.figures import least_seconds, save

import pylb
from pylb.console import show

EACH = 24  # objects of a rank


def snapshot(p: int, d: int, seed: int) -> pylb.Snapshot:
    rng = np.random.default_rng(seed)
    rank = np.repeat(np.arange(p), EACH)
    heavy = rank[:, None] * d // p == np.arange(d)
    return pylb.Snapshot(np.where(heavy, 5.0, 1.0) * rng.uniform(0.5, 1.5, (len(rank), d)), rank)


def over_bound(s: pylb.Snapshot, rank: np.ndarray) -> float:
    times = np.zeros((s.n_ranks, s.n_components))
    np.add.at(times, rank, s.load)
    bound = np.maximum(s.load.sum(axis=0) / s.n_ranks, s.load.max(axis=0)).sum()
    return float(times.max(axis=0).sum() / bound)


def by_metis(s: pylb.Snapshot) -> np.ndarray:
    n = s.n_objects
    here = np.arange(n)
    to = np.sort(np.stack([(here - 1) % n, (here + 1) % n], axis=1))
    start = 2 * np.arange(n + 1)
    weight = np.rint(1000 * s.load).astype(int)
    given = {"weight": weight, "imbalance": 1.03}
    return pylb.partition((start, to.ravel()), s.n_ranks, method="metis", **given).part


def row(p: int, d: int) -> dict[str, float]:
    s = snapshot(p, d, seed=1)
    added = pylb.Snapshot(s.load.sum(axis=1), s.rank, n_ranks=p)
    return {
        "ranks": p,
        "phases": d,
        "present": over_bound(s, s.rank),
        "by the sum": over_bound(s, pylb.place(added, "BestFitLB").rank),
        "METIS": over_bound(s, by_metis(s)),
        "VectorLB": over_bound(s, pylb.place(s, "VectorLB").rank),
        "METIS, seconds": least_seconds(lambda: by_metis(s), 3),
        "VectorLB, seconds": least_seconds(lambda: pylb.place(s, "VectorLB"), 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", default="out/phases.json")
    args = parser.parse_args()
    rows = [row(p, d) for d in (2, 3) for p in (4, 8, 64)]
    show(list(rows[0]), [[f"{x:.4g}" for x in r.values()] for r in rows])
    save(args.json, rows)


if __name__ == "__main__":
    main()
