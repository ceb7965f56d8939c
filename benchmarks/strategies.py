"""Every strategy on the same snapshots: time, balance, messages between ranks, migrations.

    python benchmarks/strategies.py [--quick] [--only PATTERN] [--budget 20] [--json out/...]

The strategies are those of `pylb.strategies()`, so new ones are included automatically.  In the
same run, libraries are called directly (pymetis, pyscotch, LBAF) if they are installed.  The time
of a strategy is that of a whole call of `pylb.place`, with checks and metrics; the time of a
library is that of a call with the graph already in its form.  Calls are repeated, and the shortest
time counts.  Calls that would exceed the budget, judged by a smaller case of the same family, are
left out and listed.

The snapshots are: random loads of up to 10^6 objects on 16,384 ranks; difficult loads (all load on
few ranks, loads over four decades, one object above the average); tori, random graphs and meshes;
the multicasts of leanmd; recorded runs.  Column "cut" is the fraction of the edges' bytes that goes
between ranks; "reach" is the mean number of other ranks that a multicast goes to (connectivity - 1,
weighted by bytes).

Targets: no refinement makes a placement worse; at most a tenth of the time of `MetisLB` and
`ScotchLB` is pylb's own.  The rest is "METIS bare" and "Scotch bare": the same library with the
same weights.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import cases, peers, share
from common.cases import Case
from common.figures import save
from common.quality import quality

import pylb
from pylb.console import show

REPEAT_SECONDS = 0.3  # a call is repeated for this time
MOST_REPEATS = 9
MOST_OWN = 0.1  # largest part of a strategy's time that may be pylb's own


def all_cases(quick: bool) -> Iterator[Case]:
    """Return the cases of each family from small to large."""
    sizes = [(10**3, 16), (10**5, 1024), (10**6, 64), (10**6, 1024), (10**6, 16_384)]
    for kind in cases.LOADS:
        for n, p in sizes[:2] if quick else sizes:
            yield cases.loads(kind, n, p)
    for n, p in ((10**4, 256), *(() if quick else ((10**6, 1024),))):
        for name in ("few_ranks", "four_decades", "one_giant"):
            make = getattr(cases, name)
            yield Case(
                f"challenging, {name.replace('_', ' ')}",
                f"{n:,} / {p:,}",
                lambda make=make, n=n, p=p: make(n, p),
            )
    for kind in ("cube", "random"):
        for n, p in ((10**4, 64), *(() if quick else ((10**5, 1024), (10**6, 1024)))):
            yield cases.graph(kind, n, p)
    if (cases.DATA / "graphs").is_dir():
        for name in ("4elt.graph", "delaunay_n15.graph"):
            yield cases.mesh_file(name, 64)
    for away in (1, 2):
        yield cases.multicasts(away)
    yield from cases.recorded()


def measure(case: Case, budget: float, before: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each strategy and library; `before` has their rows of a smaller case."""
    snapshot = case.make()
    rows = []
    for name, call in candidates(snapshot).items():
        last = before.get(name)
        row: dict[str, Any] = {"name": name, "objects": snapshot.n_objects}
        if last is not None and expected(last, snapshot.n_objects) > budget:
            row.update(seconds=None, why=f"more than {budget:g} s expected")
            rows.append(row)
            continue
        try:
            row.update(outcome(snapshot, *repeat(call)))
        except pylb.errors.PylbError as why:
            row.update(seconds=None, why=str(why))
        rows.append(row)
        before[name] = row
    return rows


def candidates(snapshot: pylb.Snapshot) -> dict[str, Callable[[], peers.Answer]]:
    """Return what is run on a snapshot: functions that return seconds and a placement."""
    own = {name: functools.partial(placed, snapshot, name) for name in pylb.strategies()}
    return {**own, **peers.peers(snapshot)}


def placed(snapshot: pylb.Snapshot, name: str) -> peers.Answer:
    """Call pylb once; return the seconds and the placement."""
    begin = time.perf_counter()
    plan = pylb.place(snapshot, name)
    return time.perf_counter() - begin, plan.rank


def expected(last: dict[str, Any], n: int) -> float:
    """Return the seconds that a strategy may take, judged by what it took on a smaller case."""
    if last["seconds"] is None:
        return float("inf")
    return last["seconds"] * n / last["objects"]


def repeat(call: Callable[[], peers.Answer]) -> peers.Answer:
    """Return the shortest time of some calls, and the placement."""
    best, rank = call()
    spent, done = best, 1
    while spent + best < REPEAT_SECONDS and done < MOST_REPEATS:
        seconds, _ = call()
        best, spent, done = min(best, seconds), spent + seconds, done + 1
    return best, rank


def outcome(snapshot: pylb.Snapshot, seconds: float, rank: np.ndarray) -> dict[str, Any]:
    """Return the metrics of a placement."""
    moved = rank != snapshot.rank
    fixed = snapshot.migratable is not None and bool(np.any(moved & ~snapshot.migratable))
    return {
        "seconds": seconds,
        "max_over_mean": snapshot.with_rank(rank).metrics.max_over_mean,
        **quality(snapshot, rank)._asdict(),
        "migrations": int(moved.sum()),
        "moves_fixed_objects": fixed,
    }


def print_case(case: Case, snapshot: pylb.Snapshot, rows: list[dict[str, Any]]) -> None:
    """Print one row for each strategy, the fastest first."""
    cells, left_out = [], []
    for row in sorted(rows, key=lambda row: row["seconds"] or np.inf):
        if row["seconds"] is None:
            left_out.append(f"{row['name']} ({row['why']})")
            continue
        cells.append([
            row["name"] + ("*" if row["moves_fixed_objects"] else ""),
            f"{1e3 * row['seconds']:.2f}",
            f"{row['max_over_mean']:.4f}",
            None if row["cut"] is None else f"{row['cut']:.4f}",
            None if row["connectivity"] is None else f"{row['connectivity']:.2f}",
            f"{row['migrations']:,}",
            f"{100.0 * row['migrations'] / row['objects']:.1f}",
        ])  # fmt: skip
    head = ["strategy", "ms", "max/mean", "cut", "reach", "migrations", "% moved"]
    show(head, cells, title=f"{case.family}: {case.name}; {snapshot.n_objects:,} objects")
    if any(row.get("moves_fixed_objects") for row in rows):
        print("* moves objects that may not migrate")
    for text in left_out:
        print(f"left out: {text}")


def worse(rows: list[dict[str, Any]], before: float) -> list[str]:
    """Return the refinements whose placement is worse than the one that they were given."""
    families = {name: entry.family for name, entry in pylb.strategies().items()}
    return [
        row["name"]
        for row in rows
        if families.get(row["name"]) == "refinement"
        and row["seconds"] is not None
        and row["max_over_mean"] > before * (1.0 + 1e-12)
    ]


def own_shares(snapshot: pylb.Snapshot, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Print the part of the time that is pylb's own, for strategies that call a library."""
    ran = {row["name"] for row in rows if row["seconds"] is not None}
    out = {}
    for name, library in share.LIBRARIES.items():
        if {name, f"{library} bare"} <= ran:
            times = share.beside(name, snapshot)
            out[name] = 1.0 - times[f"{library} bare"] / times[name]
            each = ", ".join(f"{of} {1e3 * seconds:.2f} ms" for of, seconds in times.items())
            print(f"pylb's own share {100 * out[name]:.1f} %: {each}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small cases only")
    parser.add_argument("--only", default="*", help="pattern of the families to run, e.g. 'mesh*'")
    parser.add_argument(
        "--budget", type=float, default=20.0, help="seconds of a call, at most (%(default)s)"
    )
    parser.add_argument("--json", metavar="FILE", default="out/strategies.json")
    args = parser.parse_args()
    results: list[dict[str, Any]] = []
    found: list[str] = []
    shares: dict[str, list[float]] = {}
    before: dict[str, dict[str, dict[str, Any]]] = {}
    for case in all_cases(args.quick):
        if not fnmatch.fnmatch(case.family, args.only):
            continue
        snapshot = case.make()
        rows = measure(case, args.budget, before.setdefault(case.family, {}))
        print_case(case, snapshot, rows)
        given = snapshot.metrics.max_over_mean
        found += [f"{name} on {case.family}: {case.name}" for name in worse(rows, given)]
        for name, part in own_shares(snapshot, rows).items():
            shares.setdefault(name, []).append(part)
        print()
        results.append({"family": case.family, "name": case.name, "before": given, "rows": rows})
    for text in found:
        print(f"MISSED: a refinement made the placement worse: {text}")
    if not found:
        print("met: no refinement returned a placement worse than the one that it was given")
    for name, values in shares.items():
        worst = max(values)
        verdict = "met" if worst <= MOST_OWN else "MISSED"
        print(
            f"{verdict}: {name} itself takes {100 * np.median(values):.1f} % of its time, the "
            f"median of {len(values)} cases, and at most {100 * worst:.1f} % (10 %)"
        )
    save(args.json, {"met": not found, "own_shares": shares, "cases": results})


if __name__ == "__main__":
    main()
