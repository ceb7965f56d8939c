"""The consensus protocol on 100 to a million ranks: duration, pauses, bytes.

    python benchmarks/protocol.py [--most 100000]

A simulation with the real state machines of csrc/decide on a LogGP network
(pylb.replay.simulate_protocol).  A rank can pass messages on in three ways: only at AtSync, like
MPI without a progress thread; ten times per iteration, e.g. between the objects of an
overdecomposed program; or at once.  The results for each way are: iterations from the statistics
that request an LB step to the LB step, seconds until every rank knows the iteration of the LB step,
time in the pause state, and bytes that a rank sends.  Straight lines over log2 of the number of
ranks are fitted: where they fit, growth is logarithmic.

Up to a million ranks, this takes six minutes of one processor and 1.2 GB; up to 100,000, a minute.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from common.figures import save

from pylb import console
from pylb.replay.protocol import ProtocolRun, protocol_params, simulate_protocol

EVERY = 20  # iterations after an LB step until the next one is requested
WAYS: dict[str, dict[str, int]] = {
    "at AtSync": {"serves": 1},
    "ten times an iteration": {"serves": 10},
    "at once": {"serves": 0},
    "at AtSync, D = 8": {"serves": 1, "lag": 8, "blocked": 1},
    "at once, D = 2": {"serves": 0, "lag": 2, "blocked": 1},
}
GROWS = {  # the result to which a line is fitted
    "at AtSync": "iterations_to_consensus",
    "ten times an iteration": "iterations_to_consensus",
    "at once": "pause_per_lb_step",
    "at AtSync, D = 8": "lag_per_iteration",
}
MOST_SERVED = 1_000_000  # ranks * checks per iteration: larger simulations take minutes
SIZES = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def row_of(way: str, p: int) -> dict[str, Any]:
    """Simulate a run with several decisions, fewer if it is large; return a row of the table."""
    iterations = 200 if p < 100_000 else 60
    begin = time.process_time()
    run = simulate_protocol(n_ranks=p, iterations=iterations, every=EVERY, **WAYS[way])
    work = float(protocol_params()["work"][0])
    return {
        "way": way,
        "ranks": p,
        "decisions": sum(d.balanced > 0 for d in run.decisions),
        "iterations_to_consensus": run.iterations_to_consensus,
        "seconds_to_consensus": mean([d.known - d.root for d in run.decisions if d.balanced > 0]),
        "pause_per_lb_step": lost(run, run.pause) / work,
        "lag_per_iteration": run.lagged / iterations / work,
        "bytes_per_iteration": run.bytes_sent / iterations,
        "bytes_per_iteration_max": run.bytes_sent_max / iterations,
        "events": run.events,
        "cpu_seconds": time.process_time() - begin,
    }


def fits(way: str, p: int) -> bool:
    """Say whether the simulation takes seconds rather than minutes."""
    return p * max(1, WAYS[way]["serves"]) <= MOST_SERVED


def mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def lost(run: ProtocolRun, seconds: float) -> float:
    """Return the seconds per decision, including decisions that the end of the run cut off."""
    return seconds / max(1, len(run.decisions))


def line(rows: list[dict[str, Any]], of: str) -> dict[str, float]:
    """Fit a line over log2 of the ranks; return it, and the part of the variance explained."""
    x, y = np.log2([r["ranks"] for r in rows]), np.array([r[of] for r in rows])
    slope, at_1 = np.polyfit(x, y, 1)
    rest = y - (slope * x + at_1)
    total = float(((y - y.mean()) ** 2).sum())
    return {
        "slope": float(slope),
        "at_1": float(at_1),
        "explained": 1.0 - float((rest**2).sum()) / total if total > 0 else 1.0,
    }


def plot(rows: list[dict[str, Any]], path: str) -> None:
    """Draw the iterations to the consensus, and the pause, over the number of ranks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    colours = ("#0072B2", "#E69F00", "#D55E00", "#666666", "#56B4E9")
    panels = (
        ("iterations_to_consensus", "iterations from statistics to LB step", 1.0),
        ("pause_per_lb_step", "pause for each LB step, iterations", 1.0),
        ("seconds_to_consensus", "ms until every rank knows", 1e3),
    )
    for ax, (name, label, scale) in zip(axes, panels, strict=True):
        for (way, colour), marker in zip(zip(WAYS, colours, strict=True), "osD^v", strict=True):
            mine = [r for r in rows if r["way"] == way]
            ax.plot(
                [r["ranks"] for r in mine],
                [scale * r[name] for r in mine],
                marker=marker,
                color=colour,
                label=way,
            )
        ax.set_xscale("log")
        ax.set_xlabel("ranks")
        ax.set_title(label, loc="left", fontsize=10)
        ax.set_ylim(bottom=0)
    axes[0].legend(title="a working rank serves", fontsize=8)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=1_000_000, help="most ranks (%(default)s)")
    parser.add_argument("--json", metavar="FILE", default="out/protocol.json")
    parser.add_argument("--plot", metavar="FILE", default="out/protocol.png")
    args = parser.parse_args()
    rows = [row_of(way, p) for way in WAYS for p in SIZES if p <= args.most and fits(way, p)]
    head = [
        "served",
        "ranks",
        "LBs",
        "iterations",
        "ms",
        "pause",
        "lag",
        "B/iter.",
        "max",
        "CPU s",
    ]
    shown = [
        [
            r["way"],
            r["ranks"],
            r["decisions"],
            r["iterations_to_consensus"],
            1e3 * r["seconds_to_consensus"],
            r["pause_per_lb_step"],
            r["lag_per_iteration"],
            r["bytes_per_iteration"],
            r["bytes_per_iteration_max"],
            r["cpu_seconds"],
        ]
        for r in rows
    ]
    console.show(head, shown, title="from the statistics to the consensus")
    print(
        "ms: until the last rank knows; pause: iterations of work that a rank loses for each\n"
        "LB step; lag: iterations of work that a rank waits for statistics, per iteration;\n"
        "B/iter.: bytes that a rank sends per iteration, mean and maximum"
    )
    lines = {
        way: {"of": of, **line([r for r in rows if r["way"] == way], of)}
        for way, of in GROWS.items()
    }
    fitted = [[way, f["of"], f["slope"], f["at_1"], f["explained"]] for way, f in lines.items()]
    console.show(
        ["served", "", "per log2 p", "at 1", "explained"], fitted, title="lines over log2 p"
    )
    save(args.json, {"rows": rows, "lines": lines})
    plot(rows, args.plot)


if __name__ == "__main__":
    main()
