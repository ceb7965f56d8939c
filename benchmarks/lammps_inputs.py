"""LAMMPS' own input scripts, unchanged, under ``pylb run``, beside ten fixed intervals: counts.

    python benchmarks/lammps_inputs.py [--ranks 2 4] [--inputs crack peri] [--steps 500]

The inputs are the first script of each folder of LAMMPS' examples whose runs take 1.5 to 8 s on two
ranks and have at least 800 atoms, a slab that expands (`examples/own_loop/in.slab`) and a droplet
that moves.  They were not chosen by what balancing gains.  Each input runs without LB steps, with
``fix balance`` at each interval, and as it is under ``pylb run``.  A longer `run` of a script ends
after ``--steps`` time steps.

Elapsed times vary too much where other programs use the cores.  So `lammps_inputs.c` counts the
pairs and atoms of each rank.  A run on one rank says how many processor seconds a pair, an atom and
a pair in a new neighbour list take.  Time is the sum over all time steps of the rank that has most
to do, plus what LB steps and pylb's decisions cost: the median of the least processor time of the
ranks.  Communication is left out: it is nearly the same in all ways.

pylb's clock is replaced by the same counts ("pylb"), so its decisions are the same in each run; in
another run, it measures as usual ("measuring").

Debian: ``apt-get install lammps lammps-examples``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import ask_mpi

from pylb import console

EXAMPLES = Path("/usr/share/lammps/examples")
SLAB = Path(__file__).parents[1] / "examples" / "own_loop" / "in.slab"
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
    "slab": "in.slab",
    "droplet": "in.droplet",
}
DROPLET = {  # what differs from the slab
    "boundary f p p": "boundary p p p",
    "processors * 1 1": "comm_style tiled",
    "block 0.1 10 INF INF INF INF": "sphere 10 4 4 3.6",
    "create 3.0 87287 loop geom": "create 0.7 87287 loop geom\nvelocity all set 2 0 0 sum yes",
    "fix walls all wall/reflect xlo EDGE xhi EDGE": "fix lb all balance 1000 1.0 rcb",
}
INTERVALS = [50, 100, 150, 200, 300, 400, 600, 800, 1200, 2000]
TARGET, SLOWER = 1.03, 1.01  # times the best fixed interval; times the time without LB steps
ROW = np.dtype("i8, i8, i8, i8, f8, f8")  # as in lammps_inputs.c
ROW.names = ("steps", "pairs", "atoms", "lb_steps", "cpu", "advice")


def folder_of(name: str, work: str) -> Path:
    """Make a folder with the script and what it reads."""
    folder = Path(work) / name
    if (EXAMPLES / name).is_dir():
        return Path(shutil.copytree(EXAMPLES / name, folder))
    text = SLAB.read_text()
    for old, new in DROPLET.items() if name == "droplet" else ():
        text = text.replace(old, new)
    folder.mkdir()
    (folder / INPUTS[name]).write_text(text)
    return folder


def with_balance(script: str, every: int) -> str:
    """Return the script with LAMMPS' own `fix balance` at this interval; 0: without."""
    fix = re.compile(r"^(fix\s+\S+\s+\S+\s+balance\s+)\d+(.*\n)", re.M)
    if not every:
        return fix.sub("", script)
    if fix.search(script):
        return fix.sub(rf"\g<1>{every}\2", script)
    axes = "xy" if re.search(r"^dimension\s+2", script, re.M) else "xyz"
    line = f"fix lb all balance {every} 1.02 shift {axes} 20 1.02\n"
    return re.sub(r"^run\b", line + "run", script, count=1, flags=re.M)


def run(folder: Path, file: str, n_ranks: int, pylb: bool = False, **env: str) -> tuple[Any, str]:
    """Run a script; return the rows of each rank, (n_ranks, n), and what LAMMPS prints."""
    words = ["mpiexec", "-n", str(n_ranks), "lmp", "-in", file, "-log", "none"]
    if pylb:
        words = [sys.executable, "-m", "pylb", "run", "--", *words]
    counts = folder / "pairs"
    env |= {"LD_PRELOAD": str(folder.parent / "count.so"), "PAIRS": str(counts)}
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    files = [counts.with_suffix(f".{rank}") for rank in range(n_ranks)]
    rows = np.stack([np.fromfile(path, ROW) for path in files])
    for path in files:
        path.unlink()
    return rows, done.stdout


def costs_of(rows: Any, said: str) -> np.ndarray:
    """Return the processor seconds of a pair, an atom and a pair in a new list, on one rank."""
    parts = dict.fromkeys(("Pair", "Bond", "Kspace", "Neigh", "Modify", "Other"), 0.0)
    for text in said.split("\nLoop time of ")[1:]:
        share = float(re.search(r"^(\S+)% CPU use", text, re.M)[1]) / 100
        for part, seconds in re.findall(r"^(\w+) +\|[^|]*\| *(\S+) *\|", text, re.M):
            if part in parts:
                parts[part] += share * float(seconds)
    (one,) = rows
    pair, build, atom = (
        parts["Pair"] + parts["Bond"] + parts["Kspace"],
        parts["Neigh"],
        parts["Modify"] + parts["Other"],
    )
    done = [one["steps"] @ one["pairs"], one["steps"] @ one["atoms"], one["pairs"].sum()]
    return np.array([pair, atom, build]) / np.maximum(done, 1)


def least(rows: Any, field: str) -> np.ndarray:
    """Return the least value of the ranks for each row that has one."""
    out = rows[field].min(axis=0)
    return out[out > 0]


def seconds(rows: Any, costs: np.ndarray, lb_step: float) -> float:
    """Return the time of a run, of which only `lb_step` is measured."""
    work = rows["steps"] * (costs[0] * rows["pairs"] + costs[1] * rows["atoms"])
    work[:, 1:] += costs[2] * rows["pairs"][:, 1:] * (rows["pairs"][:, 1:] != rows["pairs"][:, :-1])
    advice = least(rows, "advice")
    decisions = len(advice) * np.median(advice) if len(advice) else 0.0
    return float(work.max(axis=0).sum() + rows["lb_steps"][0].sum() * lb_step + decisions)


def measure(name: str, n_ranks: int, work: str) -> dict[str, Any]:
    """Run every way of an input; return the time and the number of LB steps of each."""
    folder = folder_of(name, work)
    script = (folder / INPUTS[name]).read_text()
    (folder / "in.never").write_text(with_balance(script, 0))
    alone = run(folder, "in.never", 1)
    costs, n_steps = costs_of(*alone), int(os.environ["PAIRS_STEPS"])
    rows, longest = {}, next((n for n in INTERVALS if n >= n_steps), INTERVALS[-1])
    for every in INTERVALS[: INTERVALS.index(longest) + 1]:  # longer ones do the same as `longest`
        (folder / "in.every").write_text(with_balance(script, every))
        rows[f"{every}"] = run(folder, "in.every", n_ranks)[0]
    lb_steps = np.concatenate([least(each, "cpu") for each in rows.values()])
    lb_step = float(np.median(lb_steps)) if len(lb_steps) else 1e-4
    clock = " ".join(f"{x:.9g}" for x in [*costs, lb_step])
    rows["never"] = run(folder, "in.never", n_ranks)[0]
    told = {"PYLB_CLOCK": "none", "PAIRS_CLOCK": clock}
    rows["pylb"] = run(folder, INPUTS[name], n_ranks, True, **told)[0]
    rows["measuring"] = run(folder, INPUTS[name], n_ranks, True)[0]
    shutil.rmtree(folder)
    out = {
        way: (seconds(each, costs, lb_step), int(each["lb_steps"][0].sum()))
        for way, each in rows.items()
    }
    return {"costs": clock, "ways": out}


def main() -> None:
    """Count, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--inputs", nargs="+", default=list(INPUTS), choices=INPUTS)
    parser.add_argument("--steps", default="500", help="the longest `run`, in time steps")
    parser.add_argument("--json", default="out/lammps_inputs.json")
    args = parser.parse_args()
    ask_mpi()
    os.environ["PAIRS_STEPS"] = args.steps
    table, results = [], {}
    with tempfile.TemporaryDirectory() as work:
        library = ["-shared", "-fPIC", "-O2", Path(__file__).with_suffix(".c"), "-o"]
        subprocess.run(["cc", *library, f"{work}/count.so"], check=True)
        for name in args.inputs:
            for n in args.ranks:
                result = results[f"{name}, {n} ranks"] = measure(name, n, work)
                ways = result["ways"]
                best = min((way for way in ways if way.isdigit()), key=lambda way: ways[way][0])
                (never, _), (interval, _) = ways["never"], ways[best]
                row = [name, n, never, best, interval]
                for way in ("pylb", "measuring"):
                    row += [ways[way][1], ways[way][0] / interval]
                table.append((*row, ways["pylb"][0] / never))
                print(*table[-1], flush=True)
    console.show(
        [
            *("input", "ranks", "never, s", "best interval", "its time, s"),
            *("LB steps of pylb", "pylb / best", "LB steps, measuring", "measuring / best"),
            "pylb / never",
        ],
        table,
    )
    print(f"targets: at most {TARGET} times the best interval, {SLOWER} times without LB steps")
    save(args.json, results)


if __name__ == "__main__":
    main()
