"""LAMMPS' own input scripts, unchanged, under ``pylb run``, beside ten fixed intervals.

    python benchmarks/lammps_inputs.py [--ranks 2 4] [--rounds 2] [--inputs crack peri]

The inputs are the first script of each folder of LAMMPS' examples whose runs take 1.5 to 8 s on two
ranks and have at least 800 atoms.  They were not chosen by what balancing gains.  Each round runs
every way once, in turn: without LB steps, with ``fix balance`` at each interval (one line more in a
copy of the script), and the script as it is under ``pylb run``.  A result is the shortest time of
all rounds, as LAMMPS prints them ("Loop time", all runs of the script added up).

Debian: ``apt-get install lammps lammps-examples``.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common.figures import save
from common.mpi import ask_mpi
from lammps_runs import INTERVALS, TARGET

from pylb import console

EXAMPLES = Path("/usr/share/lammps/examples")
INPUTS = {
    "atm": "in.atm",
    "colloid": "in.colloid",
    "crack": "in.crack",
    "eim": "in.eim",
    "friction": "in.friction",
    "granular": "in.pour.drum",
    "hugoniostat": "in.hugoniostat",
    "msst": "in.msst",
    "nb3b": "in.nb3b",
    "peptide": "in.peptide",
    "peri": "in.peri-pmb",
    "shear": "in.shear",
}


def with_balance(script: str, every: int) -> str:
    """Return the script with LAMMPS' own `fix balance` before its first run."""
    axes = "xy" if re.search(r"^dimension\s+2", script, re.M) else "xyz"
    line = f"fix lb all balance {every} 1.02 shift {axes} 20 1.02\n"
    return re.sub(r"^run\b", line + "run", script, count=1, flags=re.M)


def seconds(folder: Path, name: str, n_ranks: int, pylb: bool) -> tuple[float, int]:
    """Run a script; return its time and the number of LB steps, if pylb decides."""
    record = folder / "decisions.json"
    record.unlink(missing_ok=True)
    words = ["mpiexec", "-n", str(n_ranks), "lmp", "-in", name, "-log", "none"]
    if pylb:
        words = [sys.executable, "-m", "pylb", "run", "--", *words]
    out = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PYLB_RECORD": str(record)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    took = math.fsum(map(float, re.findall(r"^Loop time of (\S+)", out, re.M)))
    return took, record.read_text().count('"moved": true') if record.exists() else 0


def measure(name: str, n_ranks: int, rounds: int) -> dict[str, tuple[float, int]]:
    """Return the shortest time of each way of one input."""
    least: dict[str, tuple[float, int]] = {}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(shutil.copytree(EXAMPLES / name, f"{work}/{name}"))
        script = (folder / INPUTS[name]).read_text()
        for every in INTERVALS:
            (folder / f"in.every{every}").write_text(with_balance(script, every))
        for _ in range(rounds):
            for way in ("never", *map(str, INTERVALS), "pylb"):
                file = f"in.every{way}" if way.isdigit() else INPUTS[name]
                both = seconds(folder, file, n_ranks, way == "pylb")
                least[way] = min(least.get(way, (math.inf, 0)), both)
    return least


def main() -> None:
    """Measure, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--inputs", nargs="+", default=list(INPUTS), choices=INPUTS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", default="out/lammps_inputs.json")
    args = parser.parse_args()
    ask_mpi()
    rows, results = [], {}
    for n in args.ranks:
        for name in args.inputs:
            least = results[f"{name}, {n} ranks"] = measure(name, n, args.rounds)
            best = min(INTERVALS, key=lambda every: least[str(every)])
            (never, _), (interval, _), (pylb, n_steps) = (
                least[way] for way in ("never", str(best), "pylb")
            )
            rows.append((name, n, never, best, interval, pylb, n_steps, pylb / interval))
            print(*rows[-1], flush=True)
    console.show(
        [
            *("input", "ranks", "never, s", "best interval", "its time, s", "pylb, s"),
            *("LB steps of pylb", "pylb / best"),
        ],
        rows,
    )
    print(f"target: at most {TARGET}")
    save(args.json, {"seconds": results})


if __name__ == "__main__":
    main()
