"""Rows on ranks with different memory sizes: Clarke's two cases, with real paging.

    python benchmarks/paging.py [--only fits|pages] [--unit MIB] [--iterations N]
                                [--json out/paging.json] [--plot DIR]

Four ranks run Jacobi's method (examples/jacobi_rows.py) in a lab with the paper's processors:
memory sizes 256 : 256 : 512 : 1024, speeds 3.6 : 3.0 : 3.4 : 3.4.  The first of two linear systems
fits on every rank; the second makes the two small ranks page if rows are divided evenly.  Each
system is solved with fixed parts, with the constant model and with the functional model.  Run this
benchmark as root: pages that do not fit go to a swap file.

Column "balanced after" is the number of redistributions before the first one that moved no rows.
"Moved later" is the number of later redistributions that moved rows, because times differed by more
than the tolerance for noise.  "Gain" is compared with fixed parts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from common.figures import check, save
from common.mpi import ask_mpi

from pylb.console import show
from pylb.lab import Lab, LabPlan, Profile

RATIOS = (1, 1, 2, 4)  # 256, 256, 512, 1024 MB
CLOCKS = (3.6, 3.0, 3.4, 3.4)  # GHz
BUSIEST = 0.3  # cores of the fastest rank; all ranks together do not fill two cores
EVEN = {"fits": 0.2, "pages": 1.2}  # size of an even part of the rows / smallest memory
# The tolerance of the models.  From one redistribution to the next, times change by some 10 %; the
# constant model does not know this.  If rows that fit are divided evenly, times differ by a third.
TOLERANCE = {"fits": 0.25, "pages": 0.12}
SWEEPS = {"fits": 200, "pages": 5}  # an iteration takes many periods of the shares
MOST_STEPS = 5  # the functional model must be balanced after this number of steps
SCRIPT = Path(__file__).parents[1] / "examples/jacobi_rows.py"
MODELS = ("none", "cpm", "fpm")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def unknowns(even: float, unit: int) -> int:
    """Return n of an n x n matrix whose quarter is `even` times the smallest memory."""
    return round((4 * even * unit * 2**20 / 8) ** 0.5 / 20) * 20


def plan(unit: int) -> LabPlan:
    """Return the four processors; the smallest memory is `unit` MiB."""
    profiles = tuple(
        Profile(round(BUSIEST * clock / max(CLOCKS), 3), memory=ratio * unit * 2**20)
        for ratio, clock in zip(RATIOS, CLOCKS, strict=True)
    )
    return LabPlan(profiles, swap=2**30)


def solve(
    lab: Lab, case: str, n: int, model: str, iterations: int, picture: Path | None
) -> dict[str, Any]:
    """Run the script once; return what it writes, and how many pages the ranks read from disk."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        words = [sys.executable, str(SCRIPT), "--n", n, "--model", model, "--json", out]
        words += ["--iterations", iterations, "--sweeps", SWEEPS[case], "--tol", TOLERANCE[case]]
        words += ["--plot", picture] if picture else []
        command = ["mpiexec", "-n", str(len(RATIOS)), *map(str, words)]
        code = lab.run(command)
        if code:
            raise SystemExit(f"paging: {' '.join(command)} ended with {code}")
        found: dict[str, Any] = json.loads(out.read_text())
    found["pages"] = [use.paged for use in lab.usage()]
    return found


def moved_later(run: dict[str, Any]) -> int | None:
    """Return the number of redistributions that moved rows after the parts were balanced."""
    after = run["iterations"][run["steps"] :] if run["steps"] is not None else []
    return None if run["steps"] is None else sum(i["moved"] > 0 for i in after)


def judge(case: str, model: str, run: dict[str, Any], verdicts: list[dict[str, Any]]) -> None:
    """Compare a run with what Clarke's slides show for this case and model."""
    steps = run["steps"]
    after = "is never balanced" if steps is None else f"is balanced after {steps}"
    text = f"{case}: {model} {after}"
    if (case, model) == ("pages", "cpm"):
        check(f"{text} (never)", steps is None, verdicts)
    elif model != "none":
        check(f"{text} ({MOST_STEPS})", steps is not None and steps <= MOST_STEPS, verdicts)


def row(case: str, n: int, model: str, run: dict[str, Any], alone: float) -> list[Any]:
    """Return a row of the table."""
    times = [max(i["seconds"]) for i in run["iterations"]]
    last = run["iterations"][-1]
    return [
        case,
        n,
        model,
        "never" if run["steps"] is None else str(run["steps"]),
        None if not run["steps"] else run["ended"][run["steps"] - 1],
        moved_later(run),
        sum(i["moved"] for i in run["iterations"]),
        1e3 * times[0],
        1e3 * times[-1],
        " ".join(map(str, last["counts"])),
        sum(run["pages"]),
        run["ended"][-1],
        alone / run["ended"][-1],
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=EVEN, help="run only this case")
    parser.add_argument("--unit", type=int, default=64, help="smallest memory, MiB (%(default)s)")
    parser.add_argument("--iterations", type=int, default=10, help="iterations (%(default)s)")
    parser.add_argument("--json", metavar="FILE", default="out/paging.json")
    parser.add_argument("--plot", metavar="DIR", help="draw each run into this folder")
    args = parser.parse_args()
    ask_mpi()
    os.environ.update(ONE_THREAD)
    runs: dict[str, dict[str, Any]] = {}
    rows = []
    verdicts: list[dict[str, Any]] = []
    for case, even in EVEN.items():
        if args.only not in (None, case):
            continue
        n = unknowns(even, args.unit)
        for model in MODELS:
            picture = Path(args.plot) / f"paging-{case}-{model}.png" if args.plot else None
            print(f"{case}, n = {n}, {model} ...", file=sys.stderr, flush=True)
            with Lab(plan(args.unit)) as lab:
                run = solve(lab, case, n, model, args.iterations, picture)
            runs[f"{case} {model}"] = {"n": n, **run}
            rows.append(row(case, n, model, run, runs[f"{case} none"]["ended"][-1]))
    columns = ["case", "n", "model", "balanced after", "in s", "moved later", "rows moved"]
    columns += ["first ms", "last ms", "rows at the end", "pages read", "time s", "gain"]
    show(columns, rows, title=f"Jacobi on {len(RATIOS)} ranks, {args.iterations} iterations")
    for name, run in runs.items():
        judge(*name.split(), run, verdicts)
    save(args.json, {"verdicts": verdicts, **runs})


if __name__ == "__main__":
    main()
