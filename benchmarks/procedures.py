"""The procedure load balancing factor (LBF) compared with measurements.

This reproduces figures 3 and 4 of Eom and Hollingsworth 1998.  A recording of examples/spa.py
predicts the effect of moving each service to the clients; then the services are really moved.

    python benchmarks/procedures.py [--steps 2e5] [--rounds 3] [--json out/procedures.json]

Each of the four ranks has the same share of a core (pylb lab) and so, as the metric assumes, its
own processor: a critical path of processor seconds takes 1/share times longer.  In each round the
program is recorded, run unchanged, and run with each service moved; the fastest run of each kind
counts.  Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from common.figures import save
from common.mpi import ask_mpi
from common.pinned import Place, run

import pylb
from pylb.console import show
from pylb.prediction.recorder.recording import OP, OpKind

ROOT = Path(__file__).resolve().parents[1]
SHARE = 0.4
PLACE = Place((0, 1, 0, 1), (SHARE,) * 4)
ALL = 30.7
PAPER = {  # figures 3 and 4, seconds: LBF, measured, zeroing; the unchanged program takes ALL
    "servBusy1": (25.3, 25.4, 25.4),
    "servBusy2": (23.0, 23.1, 16.1),
}


def speed(events: int = 3_000_000, ranks: int = 8) -> dict[str, float]:
    """Measure how long `critical_path` takes for some millions of recorded operations."""
    n = events // ranks // 4
    ops = np.zeros((ranks, 4 * n), OP)
    ops["kind"] = np.tile([OpKind.SEND, OpKind.ENTER, OpKind.LEAVE, OpKind.RECV], n)
    rank = np.arange(ranks)[:, None]
    ops["peer"] = np.where(ops["kind"] == OpKind.SEND, (rank + 1) % ranks, (rank - 1) % ranks)
    ops["compute"] = 1000
    run = pylb.Recording.of(list(ops))
    run.procedures = ["f"]
    ops["tag"] = 0
    begin = time.perf_counter()
    pylb.prediction.critical_path(run)
    return {"operations": ops.size, "critical path s": time.perf_counter() - begin}


def measure(steps: float, rounds: int) -> tuple[pylb.prediction.Procedures, dict[str, float]]:
    """Return the predictions, and the shortest seconds by the moved service ("": none)."""
    words = [sys.executable, str(ROOT / "examples" / "spa.py"), "--steps", str(steps)]
    told = []
    times: dict[str, list[float]] = {name: [] for name in ("", *PAPER)}
    for _ in range(rounds):
        told.append(pylb.prediction.procedures(run(words, PLACE)))
        for name, all_times in times.items():
            moved = [*words, "--move", name] if name else words
            all_times.append(run(moved, PLACE, only_time=True).seconds or 0.0)
    fastest = min(told, key=lambda one: one[0].time)
    return fastest, {name: min(all_times) for name, all_times in times.items()}


def main() -> None:
    """Predict the times, run the programs, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--steps", type=float, default=2e5, help="the server's work, in steps (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of runs (%(default)s)")
    parser.add_argument("--json", type=Path, default=Path("out/procedures.json"))
    args = parser.parse_args()
    ask_mpi()
    told, measured = measure(args.steps, args.rounds)
    figure3, figure4 = [], []
    for name, (lbf, real, zeroed) in PAPER.items():
        one = told[name]
        predicted, error = one.moved / SHARE, 100 * (one.moved / SHARE / measured[name] - 1)
        figure3.append(
            {
                "procedure": name,
                "LBF s": predicted,
                "measured s": measured[name],
                "error %": error,
                "paper's %": 100 * (lbf / real - 1),
            }
        )
        figure4.append(
            {
                "procedure": name,
                "LBF s": predicted,
                "improvement %": 100 * one.gain,
                "paper's %": 100 * (1 - lbf / ALL),
                "zeroing s": one.zeroed / SHARE,
                "zeroing improvement %": 100 * one.most,
                "zeroing paper's %": 100 * (1 - zeroed / ALL),
            }
        )
    table("figure 3: predicted and really moved", figure3)
    table("figure 4: moved, or made to take no time", figure4)
    path = told[0].time / SHARE
    table("unchanged program", [{"critical path s": path, "measured s": measured[""]}])
    passed = speed()
    table("the time of pylb.prediction.critical_path", [passed])
    whole = {"figure 3": figure3, "figure 4": figure4, "path": path, "measured": measured[""]}
    save(args.json, {**whole, "speed": passed})


def table(title: str, rows: list[dict[str, object]]) -> None:
    """Print rows of the same keys as a table."""
    show(list(rows[0]), [list(row.values()) for row in rows], title=title)
    print()


if __name__ == "__main__":
    main()
