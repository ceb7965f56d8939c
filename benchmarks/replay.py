"""Speed of a replay, compared with the same replay in NumPy, and with LBAF.

    python benchmarks/replay.py [--objects 10000] [--phases 1000] [--ranks 60] [--json out.json]
    python benchmarks/replay.py --lbaf /path/to/python [--run folder]

pylb and NumPy replay a generated run (a hot spot that travels through a ring of objects) with
GreedyLB at a fixed period.  They estimate the loads in the same way, call the same strategy, and
must place every object on the same rank; pylb's sums are exact, NumPy's are not.  "bare" is the
replay without LB steps.  A second table has the strategies that users of the explorer are likely to
choose, with the trigger auto.  Each time is the shortest of several; the variants take turns.

LBAF runs if --lbaf names a Python that has it (it needs an environment of its own, because its
requirements pin old versions).  Its PhaseStepper goes through the phases of a recorded run and
computes the statistics of each, like a replay without LB steps.  The time to read files and
the time to create LBAF's objects are not counted.  The run is a recorded one (--run), or the
generated one with fewer objects.
"""

import argparse
import dataclasses
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import pylb


class Estimates:
    """Estimate the loads of the next phase from all earlier ones (csrc/measure/measure.h)."""

    def __init__(self, n):
        self.mean, self.error, self.spread, self.n = np.zeros(n), np.zeros(n), np.zeros(n), 0

    def follow(self, load):
        self.n += 1
        if self.n <= 2:
            self.mean = load.copy()
            return
        e = load - self.mean
        signal = np.divide(
            np.abs(self.error), self.spread, out=np.zeros_like(e), where=self.spread > 0
        )
        self.mean += np.maximum(np.maximum(signal, 0.1), 1.0 / (self.n - 1)) * e
        if self.n == 3:
            self.spread = np.abs(e)
        self.error += 0.2 * (e - self.error)
        self.spread += 0.2 * (np.abs(e) - self.spread)


def with_numpy(trace, every):
    """Replay with NumPy's bincount and maximum; return iteration times and the final placement."""
    rank = trace.task_rank[: trace.task_ptr[1]].copy()
    known = Estimates(trace.n_entities)
    out = np.empty(trace.n_phases)
    for i in range(trace.n_phases):
        tasks = slice(trace.task_ptr[i], trace.task_ptr[i + 1])
        load = trace.task_load[tasks]
        out[i] = np.bincount(rank, load, trace.n_ranks).max()
        if every:
            known.follow(load)
        if every and (i + 1) % every == 0 and i + 1 < trace.n_phases:
            snapshot = dataclasses.replace(trace[i], load=known.mean, rank=rank)
            rank = pylb.place(snapshot, "GreedyLB").rank
    return out, rank


def with_pylb(trace, every):
    run = trace.replay("GreedyLB", every=every, cost=0.0) if every else trace.replay("unbalanced")
    return run.iteration_time, run.rank[trace.task_ptr[-2] :]


def least(repeats, **calls):
    """Return the shortest time of each call (calls take turns), and its most recent result."""
    best, results = dict.fromkeys(calls, float("inf")), {}
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            results[name] = call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best, results


def measure(trace, every, repeats):
    best, results = least(
        repeats, pylb=lambda: with_pylb(trace, every), numpy=lambda: with_numpy(trace, every)
    )
    np.testing.assert_allclose(results["pylb"][0], results["numpy"][0], rtol=1e-12)
    np.testing.assert_array_equal(results["pylb"][1], results["numpy"][1])
    tasks = len(trace.task_load)
    return {
        "every": every,
        "pylb_seconds": best["pylb"],
        "numpy_seconds": best["numpy"],
        "pylb_tasks_per_second": tasks / best["pylb"],
        "ratio": best["numpy"] / best["pylb"],
    }


CHOICES = (
    "unbalanced",
    "auto",
    "RefineLB",
    "BestFitLB",
    "GreedyLB",
    "RefineSwapLB",
    "CommAwareRefineLB",
)


def explored(trace, repeats):
    """Measure how long a user of the explorer waits for a replay (trigger auto, modelled costs)."""
    calls = {name: lambda name=name: trace.replay(name) for name in CHOICES}
    best, results = least(repeats, **calls)
    return [
        {
            "strategy": name,
            "seconds": best[name],
            "n_lb_steps": len(results[name].lb_step_iterations),
        }
        for name in CHOICES
    ]


def with_lbaf(python, folder, trace, repeats):
    """Run pylb and LBAF on the same files; return a row of the table."""
    (stem, *_) = pylb.Trace.stems(folder)
    script = Path(__file__).with_name("common") / "lbaf_replay.py"
    words = [python, str(script), str(Path(folder).resolve() / stem)]
    words += [",".join(map(str, trace.phase_id.tolist())), str(repeats)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"LBAF failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    best, results = least(20, pylb=lambda: trace.replay("unbalanced"))
    tasks = len(trace.task_load)
    return {
        "run": repr(trace),
        "lbaf_seconds": found["stepping"],
        "lbaf_populating_seconds": found["populating"],
        "lbaf_reading_seconds": found["reading"],
        "pylb_seconds": best["pylb"],
        "pylb_tasks_per_second": tasks / best["pylb"],
        "lbaf_tasks_per_second": tasks / found["stepping"],
        "ratio": found["stepping"] / best["pylb"],
        "max_over_mean": float(results["pylb"].metrics["max_over_mean"].mean()),
    }


def show_lbaf(row):
    print(f"\n{row['run']}")
    print(f"{'':>10} {'ms':>9} {'10^6 tasks/s':>13}")
    for name in ("pylb", "lbaf"):
        seconds, rate = row[f"{name}_seconds"], row[f"{name}_tasks_per_second"]
        print(f"{name:>10} {1e3 * seconds:9.3f} {1e-6 * rate:13.4f}")
    print(
        f"ratio {row['ratio']:.0f}, without the {row['lbaf_populating_seconds']:.2f} s in which "
        "LBAF creates its objects"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--phases", type=int, default=1_000)
    parser.add_argument("--ranks", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lbaf", metavar="PYTHON", help="a Python that has LBAF")
    parser.add_argument("--run", metavar="FOLDER", help="folder of vt's files, for LBAF")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    args = parser.parse_args()
    trace = pylb.replaying.hotspot(args.ranks, args.objects, args.phases)
    rows = [measure(trace, every, args.repeats) for every in (0, 100, 10, 1)]
    print(trace)
    print(f"{'LB step':>10} {'pylb ms':>9} {'NumPy ms':>9} {'10^6 tasks/s':>13} {'ratio':>6}")
    for row in rows:
        print(
            f"{'every ' + str(row['every']) if row['every'] else 'bare':>10} "
            f"{1e3 * row['pylb_seconds']:9.1f} {1e3 * row['numpy_seconds']:9.1f} "
            f"{1e-6 * row['pylb_tasks_per_second']:13.1f} {row['ratio']:6.2f}"
        )
    answer = {"arguments": vars(args), "rows": rows, "explored": explored(trace, args.repeats)}
    print(f"\n{'trigger auto':>18} {'ms':>7} {'LB steps':>10}")
    for row in answer["explored"]:
        print(f"{row['strategy']:>18} {1e3 * row['seconds']:7.1f} {row['n_lb_steps']:10}")
    if args.lbaf:
        with tempfile.TemporaryDirectory() as folder:
            if args.run is None:
                pylb.replaying.hotspot(args.ranks, 1000, 50).save(folder)
            recorded = pylb.Trace.load(args.run or folder)
            answer["lbaf"] = with_lbaf(args.lbaf, args.run or folder, recorded, 3)
        show_lbaf(answer["lbaf"])
    if args.json:
        with open(args.json, "w") as file:
            json.dump(answer, file, indent=2)


if __name__ == "__main__":
    main()
