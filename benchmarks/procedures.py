"""Procedure LBF against reality: spa recorded, each of its services predicted at the clients, and
really moved there (figures 3 and 4 of Eom and Hollingsworth 1998).

    python benchmarks/procedures.py [--steps 2e5] [--repeats 3] [--json out/procedures.json]

Each of the four ranks has the same share of a core (pylb lab), so that it has a processor of its
own, as the metric supposes; recorded are processor seconds, which need no such share.  Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pylb
from pylb.cli.table import show
from pylb.events.layout import OP, Kind

ROOT = Path(__file__).resolve().parents[1]
SHARE = 0.4
PAPER = {"servBusy1": (25.3, 25.4), "servBusy2": (23.0, 16.1)}


def run(steps: float, *words: str, record: Path | None = None) -> float:
    """Seconds of one run of spa."""
    spa = ["mpiexec", "-n", "4", sys.executable, str(ROOT / "examples" / "spa.py")]
    pylb_ = [sys.executable, "-m", "pylb"]
    lab = [*pylb_, "lab", "--quiet", "--share", str(SHARE), "--"]
    recorder = [*pylb_, "record", "-o", str(record), "--"]
    made = subprocess.run(
        [*(recorder if record else lab), *spa, "--steps", str(steps), *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found = re.search(r"([\d.]+) s, ", made.stdout)
    if made.returncode or not found:
        raise SystemExit(f"spa failed:\n{made.stdout}{made.stderr}")
    return float(found[1])


def median(steps: float, repeats: int, *words: str) -> float:
    """Seconds of the middle one of some runs."""
    return statistics.median(run(steps, *words) for _ in range(repeats))


def speed(events: int = 3_000_000, ranks: int = 8) -> dict[str, float]:
    """Operations a second of one pass."""
    n = events // ranks // 4
    ops = np.zeros((ranks, 4 * n), OP)
    ops["kind"] = np.tile([Kind.SEND, Kind.ENTER, Kind.LEAVE, Kind.RECV], n)
    rank = np.arange(ranks)[:, None]
    ops["peer"] = np.where(ops["kind"] == Kind.SEND, (rank + 1) % ranks, (rank - 1) % ranks)
    ops["compute"] = 1000
    run = pylb.Recording.of(list(ops))
    run.procedures = ["f"]
    ops["tag"] = 0
    begin = time.perf_counter()
    pylb.critical_path(run)
    return {"operations": ops.size, "critical path s": time.perf_counter() - begin}


def main() -> None:
    """Predict, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=float, default=2e5, help="of the server (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each run (%(default)s)")
    parser.add_argument("--json", type=Path, default=Path("out/procedures.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spa"
        run(args.steps, record=file)
        told = pylb.procedures(file)
    before = median(args.steps, args.repeats)
    rows = []
    for one in told:
        after = median(args.steps, args.repeats, "--move", one.name)
        predicted = one.moved / SHARE
        lbf, zeroed = PAPER[one.name]
        rows.append(
            {
                "procedure": one.name,
                "LBF s": predicted,
                "measured s": after,
                "error %": 100 * (predicted / after - 1),
                "saves %": 100 * one.gain,
                "paper %": 100 * (1 - lbf / 30.7),
                "zeroing s": one.zeroed / SHARE,
                "would save %": 100 * one.most,
                "its paper %": 100 * (1 - zeroed / 30.7),
            }
        )
    rows.sort(key=lambda row: row["procedure"])
    show(list(rows[0]), [list(row.values()) for row in rows])
    path = told[0].time / SHARE
    show(
        ["run as it is", "s"],
        [["critical path", path], ["measured", before]],
    )
    passed = speed()
    show(list(passed), [list(passed.values())])
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(
        json.dumps({"rows": rows, "path": path, "measured": before, "speed": passed}, indent=1)
    )


if __name__ == "__main__":
    main()
