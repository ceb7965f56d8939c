"""How many objects LB steps should move: five kinds of loads, objects of several sizes.

    python benchmarks/cycles.py [--quick] [--sizes 1e3 1e5 1e6 1e7] [--json out/cycles.json]

128 objects run 120 iterations on 8 virtual ranks.  The clocks of these ranks count only loads and
messages, so every result is the same in every run.  A byte costs 1 ns, an object takes 1 ms and, in
the heavy region, up to 9 ms.

A result is the time of the run divided by that of the same loop with perfect balance in every
iteration, at no cost.  It is the mean over six places of the heavy region.  `auto`
(nothing set) is compared with the best of all strategies, periods and tolerances, which is known
only after all of them were tried.

To save memory, objects really have a tenth of the stated size, and a byte costs ten times as much.
A larger factor would make pylb's own small messages too expensive: if a record of 232 bytes costs a
thousand times as much, it adds 0.2 ms to each hop of a reduction.
"""

import argparse
import itertools

import numpy as np
from common.figures import check, save

import pylb
from pylb.console import show

RANKS, OBJECTS, ITERATIONS = 8, 128, 120
SECONDS_PER_BYTE = 1e-9
SMALLER = 10
LIMITS = {"wandering": 1.15, "growing": 1.07, "ramp": 1.04}  # largest results, for 1 MB
ABOVE_BEST = 1.02
PERIODS = (1, 2, 3, 5, 8, 12, 20, 40)
TRIED = [("GreedyLB", {})]
TRIED += [("BestFitLB", {"tolerance": t}) for t in (0.0, 0.02, 0.05, 0.1)]
TRIED += [("RefineLB", {"overload": 1.003 + t}) for t in (0.0, 0.02, 0.05, 0.1)]


STARTS = np.arange(6) / 6 + 0.013 * np.arange(6)  # where the heavy region starts, for six runs


def region(where, width=0.08):
    """Return how much each object belongs to the region around `where` of the ring, from 0 to 1."""
    apart = np.abs((np.arange(OBJECTS) / OBJECTS - where + 0.5) % 1.0 - 0.5)
    return np.exp(-0.5 * (apart / width) ** 2)


def wandering(t, start):
    return 1.0 + 8.0 * region(start + t / ITERATIONS)


def growing(t, start):
    return 1.0 + 8.0 * t / ITERATIONS * region(start)


def ramp(t, start):
    return 1.0 + 8.0 * ((np.arange(OBJECTS) / OBJECTS + start) % 1.0)


def stepping(t, start):
    return 1.0 + 8.0 * region(start + 0.3 * (t // 30))


def breathing(t, start):
    return 1.0 + 4.0 * (1.0 + np.sin(2.0 * np.pi * t / 30)) * region(start)


KINDS = {f.__name__: f for f in (wandering, growing, ramp, stepping, breathing)}


def loads_of(kind, start):
    """Return the seconds of the objects in each iteration, (120, 128)."""
    return 1e-3 * np.array([KINDS[kind](t, start) for t in range(ITERATIONS)])


def program(comm, load, size, options):
    """Run the loop of one rank; return the receipts of its LB steps."""
    lb = pylb.Balancer(comm, **options)
    for key in range(lb.rank * OBJECTS // lb.n_ranks, (lb.rank + 1) * OBJECTS // lb.n_ranks):
        lb.add(key, np.zeros(int(size / SMALLER), np.uint8))
    for t in lb.iterate(ITERATIONS):
        for key, _ in lb.local():
            comm.elapse(load[t, key])
    return lb.history.lb_steps, lb.metrics.time


def run(kind, size, start, **options):
    """Return time / time with perfect balance; numbers of LB steps, migrations, longest iteration.

    The longest iteration is that after an LB step, relative to the one before.
    """
    load = loads_of(kind, start)
    network = (1e-6, SECONDS_PER_BYTE * SMALLER)
    cluster = pylb.VirtualCluster(RANKS, clock="none", network=network)
    steps, times = cluster.run(program, load, size, options)[0]
    ratio = float(cluster.seconds.max() / (load.sum() / RANKS))
    pairs = [times[s.iteration : s.iteration + 2] for s in steps]
    longest = max((p[1] / p[0] for p in pairs if len(p) == 2), default=0.0)
    return ratio, len(steps), sum(s.migrations for s in steps), longest


def mean_of(kind, size, starts, **options):
    """Return the means of the results of `run` over several positions of the heavy region."""
    rows = [run(kind, size, start, **options) for start in starts]
    names = ("ratio", "steps", "migrations", "longest")
    return dict(zip(names, np.mean(rows, axis=0).tolist(), strict=True))


def cells(row):
    return f"{row['ratio']:.3f}", f"{row['steps']:.1f}", f"{row['migrations']:.0f}"


def best_tried(kind, size, starts, quick):
    """Try all strategies, periods and tolerances, and return the best."""
    tried = itertools.product(TRIED[1:3] if quick else TRIED, PERIODS[1::3] if quick else PERIODS)
    found = {
        f"{name} {params} every {every}": mean_of(
            kind, size, starts, strategy=pylb.strategy(name, **params), every=every
        )
        for (name, params), every in tried
    }
    return min(found.items(), key=lambda item: item[1]["ratio"])


def slices(sizes, starts):
    """Show what `move_at_most` costs if objects move in the next iteration."""
    for kind, size in itertools.product(KINDS, sizes):
        for most in (1e9, 0.05):
            own = mean_of(kind, size, starts, overlap=True, move_at_most=most)
            head = ["loads", "bytes", "move_at_most", "time", "LB steps", "moved", "longest"]
            show(head, [[kind, f"{size:,.0f}", most, *cells(own), f"{own['longest']:.2f}"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer trials")
    parser.add_argument("--slices", action="store_true", help="only `auto`, with overlap=True")
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e3, 1e5, 1e6, 1e7])
    parser.add_argument("--json", metavar="FILE", default="out/cycles.json")
    args = parser.parse_args()
    rows, verdicts = [], []
    if args.slices:
        return slices(args.sizes, STARTS[:2] if args.quick else STARTS)
    for kind, size in itertools.product(KINDS, args.sizes):
        starts = STARTS[:2] if args.quick else STARTS
        own = mean_of(kind, size, starts)
        name, best = best_tried(kind, size, starts, args.quick)
        rows.append({"loads": kind, "bytes": size, "auto": own, "best": best, "name": name})
        show(
            ["loads", "bytes", "auto", "LB steps", "moved", "best tried", "LB steps", "moved", ""],
            [[kind, f"{size:,.0f}", *cells(own), *cells(best), name]],
        )
    for row in rows:
        limit = LIMITS.get(row["loads"]) if row["bytes"] == 1e6 else None
        ratio, best = row["auto"]["ratio"], row["best"]["ratio"]
        what = f"{row['loads']}, {row['bytes']:,.0f} bytes: {ratio:.3f}"
        if limit is not None:
            check(f"{what}, at most {limit:g}", ratio <= limit, verdicts)
        check(f"{what}, best tried {best:.3f} (2 %)", ratio <= ABOVE_BEST * best, verdicts)
    save(args.json, {"verdicts": verdicts, "rows": rows})


if __name__ == "__main__":
    main()
