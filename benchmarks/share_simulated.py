"""Work lent within a step, on simulated ranks: time over the bound.

    python benchmarks/share_simulated.py [--ranks 2 4 8] [--seconds 0.3] [--check]
    python benchmarks/share_simulated.py --ranks 10000 --calls 12
    python benchmarks/share_simulated.py --cases chemistry --rows 250 --calls 24

The engine is the real one (csrc/comm/share.c); time, messages (LogGP) and the rows are simulated
(benchmarks/simulated/share.c).  So the figures do not depend on the machine, and are the same in
every run.  The costs are like those of benchmarks/share.py; a front moves on by a hundredth of all
rows in a call, but at most by 40 rows; the case "leaping front" is without this limit.  "chemistry"
needs Cantera: the costs are the processor times of the cells of examples/chemistry.py, where the
front moves on by a hundredth of the cells in a step.  --check: fail if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common.figures import save

from pylb.console import show

ROOT = Path(__file__).resolve().parents[1]
LIMITS = {"front": 1.05, "persistent": 1.03, "jumping": 1.10, "speeds": 1.06, "even": 1.01}
OTHERS = {"leaping front": 1.05, "chemistry": 1.05}  # cases that are not run by default
LEARNS = 8  # the first calls, which are left out


def built(folder: str) -> Path:
    """Compile the simulation."""
    core, out = ROOT / "csrc", Path(folder) / "share"
    base = [core / "base" / f"{name}.c" for name in ("err", "interrupt", "mem", "rng", "sort")]
    here = ROOT / "benchmarks" / "simulated"
    subprocess.run(
        [
            *("cc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-ffp-contract=off", "-U_FORTIFY_SOURCE"),
            *(f"-I{here}", f"-I{core}", here / "share.c"),
            *(core / "comm" / "share.c", core / "comm" / "share_plan.c", *base, "-lm", "-o", out),
        ],
        check=True,
    )
    return out


def chemistry_costs(cells: int, steps: int) -> np.ndarray:
    """Return the processor time of each cell in each step, (steps, cells)."""
    sys.path.append(str(ROOT / "examples"))
    from chemistry import chemistry

    burn, fresh = chemistry()
    out, place = np.zeros((steps, cells)), (np.arange(cells) + 0.5) / cells
    T, Y = np.full(cells, 300.0), np.tile(fresh, (cells, 1))
    for step in range(steps):
        front = np.abs(place - 0.25 - 0.01 * step) < 0.05
        T[front], Y[front] = 1800.0, fresh
        for k in range(cells):
            begin = time.process_time()
            T[k : k + 1], Y[k : k + 1] = burn(T[k : k + 1], Y[k : k + 1])
            out[step, k] = time.process_time() - begin
        T[~front], Y[~front] = 300.0, fresh
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
                if case == "chemistry":
                    words.append(Path(folder, "costs"))
                    chemistry_costs(ranks * args.rows, args.calls).tofile(words[-1])
                out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
                over, home = np.array([line.split() for line in out.splitlines()], float).T
                first, rest = over[0], over[LEARNS:].mean()
                limit = (LIMITS | OTHERS)[case]
                rows.append([ranks, case, home[LEARNS:].mean(), first, rest, limit])
                above += [rows[-1]] if rest > limit else []
    head = ["ranks", "costs", "at home", "first call", "/bound", "limit"]
    show(head, rows, title="Time of the call over its bound")
    if args.json:
        save(args.json, {"rows": rows})
    if args.check and above:
        raise SystemExit(f"above the limit: {above}")


if __name__ == "__main__":
    main()
