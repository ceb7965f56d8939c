"""Work lent within a step, on simulated ranks: time over the bound.

    python benchmarks/share_simulated.py [--ranks 2 4 8] [--seconds 0.3] [--check]

The engine is the real one (csrc/comm/share.c); time, messages (LogGP) and the rows are simulated
(benchmarks/simulated/share.c).  So the figures do not depend on the machine, and are the same in
every run.  The costs are those of benchmarks/share.py.  --check: fail if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from common.figures import save

from pylb.console import show

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {"front": 1.05, "persistent": 1.03, "jumping": 1.10, "speeds": 1.06, "even": 1.01}
LEARNS = 8  # the first calls, which are left out


def built(folder: str) -> Path:
    """Compile the simulation."""
    core, out = ROOT / "csrc", Path(folder) / "share"
    base = [core / "base" / f"{name}.c" for name in ("err", "interrupt", "mem", "rng", "sort")]
    here = ROOT / "benchmarks" / "simulated"
    subprocess.run(
        [
            *("cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-ffp-contract=off"),
            *(f"-I{here}", f"-I{core}", here / "share.c"),
            *(core / "comm" / "share.c", core / "comm" / "share_plan.c", *base, "-lm", "-o", out),
        ],
        check=True,
    )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--calls", type=int, default=24)
    parser.add_argument("--rows", type=int, default=500, help="of a rank")
    parser.add_argument("--seconds", type=float, default=0.3, help="mean time of a rank in a call")
    parser.add_argument("--cases", nargs="*", default=list(LIMITS))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    rows, above = [], []
    with tempfile.TemporaryDirectory() as folder:
        program = built(folder)
        for ranks in args.ranks:
            for case in args.cases:
                words = [program, case, *map(str, (ranks, args.rows, args.seconds, args.calls))]
                out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
                over, home = np.array([line.split() for line in out.splitlines()], float).T
                first, rest = over[0], over[LEARNS:].mean()
                rows.append([ranks, case, home[LEARNS:].mean(), first, rest, LIMITS[case]])
                above += [rows[-1]] if rest > LIMITS[case] else []
    head = ["ranks", "costs", "at home", "first call", "/bound", "limit"]
    show(head, rows, title="Time of the call over its bound")
    if args.json:
        save(args.json, {"rows": rows})
    if args.check and above:
        raise SystemExit(f"above the limit: {above}")


if __name__ == "__main__":
    main()
