"""Zoltan's services, called through pylb and directly from C: parts of benchmarks/partition.py.

`driver` is benchmarks/zoltan_driver.c, compiled here.  A case is a file that both the driver and
the worker (this module as a program, under mpiexec) read.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import pylb
from common.figures import least_seconds
from pylb.console import show
from pylb.partitioning.libraries import METHODS

if __name__ != "__main__":  # the worker needs none of these modules
    from common.still import Stillness

HERE = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("PYLB_DATA", HERE.parent.parent / "shared" / "data"))
PARTS = 16
MOST, SECONDS = 400, 0.4  # a method is called MOST times in a row, or until SECONDS have passed
TURNS, AGAIN = 3, 12  # number of starts of each program; AGAIN if a ratio is above LIMIT
LIMIT, SLOW = 1.1, 1.0  # largest ratio; if a call takes more than SLOW seconds, fewer starts
STILL, PATIENCE = 2.0, 180.0  # seconds to wait for quiet cores, at most: for one start, for all
Answer = tuple[list[Any], bool]


# ---- cases -------------------------------------------------------------------------------------


def cube(side: int) -> tuple[np.ndarray, sp.csr_array]:
    """Return the points of a cube and its seven-point mesh."""
    line = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    one = sp.eye_array(side)
    mesh = sp.kron(sp.kron(line, one), one) + sp.kron(sp.kron(one, line), one)
    mesh = sp.csr_array(mesh + sp.kron(sp.kron(one, one), line))
    xyz = np.stack(np.unravel_index(np.arange(side**3), (side,) * 3), axis=1) + 0.5
    return xyz / side, mesh


def metis_graph(path: Path) -> sp.csr_array:
    """Read a graph without weights in METIS' format."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("%")]
    rows = [np.array(line.split(), np.int64) - 1 for line in lines[1:]]
    start = np.cumsum([0, *map(len, rows)])
    return sp.csr_array((np.ones(start[-1]), np.concatenate(rows), start))


def write_case(path: Path, xyz: np.ndarray | None, mesh: sp.csr_array) -> None:
    n = mesh.shape[0]
    dims = 0 if xyz is None else xyz.shape[1]
    with path.open("wb") as file:
        np.array([n, dims, mesh.nnz], np.int64).tofile(file)
        if xyz is not None:
            np.ascontiguousarray(xyz).tofile(file)
        mesh.indptr.astype(np.int64).tofile(file)
        mesh.indices.astype(np.int64).tofile(file)


def read_case(path: Path, rank: int, ranks: int) -> dict[str, Any]:
    """Read the block of a rank, as arguments of pylb.partition."""
    raw = np.memmap(path, np.int64, "r")
    n, dims, _ = (int(x) for x in raw[:3])
    a, b = n * rank // ranks, n * (rank + 1) // ranks
    coords = raw[3 : 3 + n * dims].view(float).reshape(n, dims)[a:b] if dims else None
    start = raw[3 + n * dims :][: n + 1]
    to = raw[3 + n * dims + n + 1 :][start[a] : start[b]]
    graph = (np.array(start[a : b + 1] - start[a]), np.array(to))
    return {"coords": None if coords is None else np.array(coords), "graph": graph}


# ---- the driver and the worker -----------------------------------------------------------------


def driver(folder: Path) -> Path | None:
    """Return the compiled driver, or None if there is no MPI compiler or no Zoltan to link with."""
    out = folder / "zoltan_driver"
    command = [os.environ.get("MPICC", "mpicc"), "-O3", str(HERE / "zoltan_driver.c"), "-o", out]
    command += ["-I/usr/include/trilinos", "-ltrilinos_zoltan"]
    if shutil.which(str(command[0])) is None:
        return None
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True)
    return out if done.returncode == 0 else None


def launch(ranks: int, *words: Any) -> dict[str, Any]:
    """Run a program under mpiexec; return the JSON that it prints.

    The program gets the environment with which Python began: if MPI runs in this process, the
    variables of MPI would keep mpiexec from starting a program.  Scotch gets one thread, because
    the driver's MPI allows no calls from several threads at a time.
    """
    launcher = shlex.split(os.environ.get("PYLB_MPIEXEC", "mpiexec"))
    command = [*launcher, "-n", str(ranks), *map(str, words)]
    env = {**os.environ, "SCOTCH_PTHREAD_NUMBER": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=HERE)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def parameters(method: str, ranks: int) -> list[str]:
    """Return Zoltan's parameters for the driver: pylb's, except those that only save messages."""
    how = METHODS[method]
    given = dict(how.options) | {"IMBALANCE_TOL": "1.03", "SEED": "0", "LB_APPROACH": "PARTITION"}
    given["REMAP"] = str(int(ranks > 1))
    if how.takes == "coords":
        given["KEEP_CUTS"] = "1"
    return [f"{name}={value}" for name, value in given.items()]


def worker(path: str, names: str, parts: str) -> None:
    """Time whole calls of pylb like the driver does; print JSON by method on the first rank."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    given = read_case(Path(path), comm.rank, comm.size)
    made = {m: _measured(comm, given, m, int(parts)) for m in names.split(",")}
    if comm.rank == 0:
        print(json.dumps(made))


def _measured(comm: Any, given: dict[str, Any], method: str, parts: int) -> dict[str, Any]:
    """Return the shortest time of some calls, and the quality of the partition."""
    from mpi4py import MPI

    name = "coords" if METHODS[method].takes == "coords" else "graph"
    times: list[float] = []
    while not times or (len(times) < MOST and sum(times) < SECONDS):
        comm.Barrier()
        begin = time.perf_counter()  # with the time to free the previous result, as in the driver
        out = pylb.partition(method=method, parts=parts, comm=comm, **{name: given[name]})
        times.append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
    if name == "coords":  # not timed: this call only counts cut and volume
        out = pylb.partition(given["graph"], parts, method="keep", old=out.part, comm=comm)
    first = comm.exscan(len(out.part)) or 0
    ids = first + 1 + np.arange(len(out.part))
    sums = comm.allreduce(np.bincount(out.part, ids, parts))  # sums below 2^53 are exact
    total = sum(int(x) ** 2 for x in sums) % 2**64
    worth = {"max_over_mean": out.max_over_mean, "cut": out.cut, "volume": out.volume}
    return {"seconds": min(times), "calls": len(times), "sum": total, **worth}


# ---- each method on meshes and graphs ----------------------------------------------------------


def methods(quick: bool, full: bool, only: str | None = None) -> Answer:
    """Measure time, balance, cut and connectivity - 1, and the time of the bare driver.

    `only` names cases, with commas between.
    """
    rows: list[Any] = []
    good = True
    still = Stillness(PATIENCE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = driver(folder)
        for title, xyz, mesh in _cases(quick, full, only):
            path = folder / "case"
            write_case(path, xyz, mesh)
            for ranks in (1, 2) if quick else (1, 2, 3, 4):
                begin = time.perf_counter()
                names = _chosen(xyz, mesh.shape[0], ranks, full)
                if not names:
                    continue
                mine, alone, turns = _in_turn(path, program, names, ranks, still)
                made = [_row(title, m, ranks, mine[m], alone.get(m), turns[m]) for m in names]
                rows += made
                shares = [f"{row[1]} {min(row[5:7]):.2f}" for row in made if row[5] is not None]
                good = good and all(row[5] is None or min(row[5:7]) <= LIMIT for row in made)
                took = f"{time.perf_counter() - begin:.0f} s"
                print(f"{title}, {ranks} ranks: {', '.join(shares)} ({took})", file=sys.stderr)
    print(still, file=sys.stderr)
    show(
        [
            *("case", "method", "ranks", "ms", "Zoltan alone", "ratio", "in turn", "same"),
            *("max/mean", "cut", "volume"),
        ],
        rows,
        title=f"Each method in {PARTS} parts: a whole call, and a bare C driver of Zoltan",
    )
    return rows, good


def _cases(quick: bool, full: bool, only: str | None) -> list[tuple[str, Any, Any]]:
    """Return (title, points or None, graph) of each case; by default the smallest graph only."""
    found = sorted((DATA / "graphs").glob("*.graph"), key=lambda f: f.stat().st_size)
    found = found if full or only is not None else found[: 0 if quick else 1]
    files = {f.stem: f for f in found}
    sides = {f"cube{side}": side for side in ([22] if quick else [22, 46, 100])}
    chosen = [*sides, *files] if only is None else only.split(",")
    cubes = [(f"cube {sides[n]}^3", *cube(sides[n])) for n in chosen if n in sides]
    return cubes + [(n, None, metis_graph(files[n])) for n in chosen if n in files]


def _chosen(xyz: Any, n: int, ranks: int, full: bool) -> list[str]:
    """Return the methods of a case: only the fast ones, if it is large or has many ranks."""
    names = [] if xyz is None else ["rcb", "rib", "hsfc"]
    if ranks > len(os.sched_getaffinity(0)) and n >= 50_000 and not full:
        return names
    if n < 50_000 or full:
        names += ["graph", "zoltan", "ptscotch"]
    elif n < 500_000:
        names += ["graph"]
    if ranks == 1:
        names += ["metis", "scotch"] if n < 500_000 or full else ["metis"]
    if ranks == 1 and n < 50_000:
        names += ["pylb"]
    return names


def _in_turn(
    path: Path, program: Path | None, names: list[str], ranks: int, still: Stillness
) -> tuple[dict[str, Any], dict[str, Any], dict[str, list[float]]]:
    """Return the fastest results of pylb and of the driver for each method, and all ratios."""
    mine: dict[str, Any] = {}
    alone: dict[str, Any] = {}
    turns: dict[str, list[float]] = {method: [] for method in names}
    cores = sorted(os.sched_getaffinity(0))[:ranks]
    for turn in range(AGAIN):
        todo = [m for m in names if turn < _starts(mine.get(m), alone.get(m), turns[m])]
        if not todo:
            break
        still.wait(cores, STILL)
        found = launch(ranks, sys.executable, "-m", "common.toolkit", path, ",".join(todo), PARTS)
        for method in todo:
            _keep(mine, method, found[method])
            if program is not None and METHODS[method].library == "Zoltan":
                words = (program, path, PARTS, found[method]["calls"], "-")
                still.wait(cores, STILL)
                driven = launch(ranks, *words, *parameters(method, ranks))
                turns[method].append(found[method]["seconds"] / driven["seconds"])
                _keep(alone, method, driven)
    return mine, alone, turns


def _starts(mine: dict[str, Any] | None, alone: dict[str, Any] | None, turns: list[float]) -> int:
    """Return how many runs of a method are needed: more if it has not met the limit yet."""
    if mine is None:
        return 1
    over = alone is not None and min(_ratios(mine, alone, turns)) > LIMIT
    return (1, TURNS, AGAIN)[1 - (mine["seconds"] > SLOW) + over]


def _ratios(mine: dict[str, Any], alone: dict[str, Any], turns: list[float]) -> tuple[float, float]:
    """Return the ratio of the shortest times, and the median ratio of `turns` (pairs of starts).

    On a machine that is slow for minutes, a single quiet moment can decide the first ratio, but not
    the second one.
    """
    return mine["seconds"] / alone["seconds"], statistics.median(turns)


def _keep(found: dict[str, Any], method: str, now: dict[str, Any]) -> None:
    """Store the result of a run, unless a faster run of the method is stored."""
    if method not in found or now["seconds"] < found[method]["seconds"]:
        found[method] = now


def _row(
    title: str,
    method: str,
    ranks: int,
    mine: dict[str, Any],
    alone: dict[str, Any] | None,
    turns: list[float],
) -> list[Any]:
    row = [title, method, ranks, f"{mine['seconds'] * 1e3:.2f}"]
    if alone is None:
        row += [None, None, None, None]
    else:
        row += [f"{alone['seconds'] * 1e3:.2f}", *_ratios(mine, alone, turns)]
        row.append("yes" if alone["sum"] == mine["sum"] else "no")
    return [*row, f"{mine['max_over_mean']:.3f}", mine["cut"], mine["volume"]]


# ---- boxes -------------------------------------------------------------------------------------


def crash(quick: bool) -> Answer:
    """Assign 10,000 boxes of elements to 96 parts of two surfaces, as in Devine's slides."""
    sys.path.insert(0, str(HERE.parent / "examples"))
    import crash as example

    surface = example.surfaces(80 if quick else 200, 0.6)
    corners = surface.points[surface.elements]
    lower, upper = corners.min(axis=1), corners.max(axis=1)
    chosen = np.random.default_rng(0).choice(len(lower), 10_000)
    lo, hi = lower[chosen].copy(), upper[chosen].copy()
    paper = {"rcb": (10_931, 0.027), "hsfc": (10_983, 0.176)}
    rows, good = [], True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = driver(folder)
        n = len(surface.points)
        write_case(folder / "case", surface.points, sp.csr_array((n, n)))
        with (folder / "boxes").open("wb") as file:
            np.array([len(lo), 3], np.int64).tofile(file)
            lo.tofile(file)
            hi.tofile(file)
        for method in ("rcb", "rib", "hsfc"):
            out = pylb.partition(coords=surface.points, parts=96, method=method)
            seconds = least_seconds(lambda out=out: out.boxes(lo, hi), 20)
            hits = len(out.boxes(lo, hi).part)
            alone: dict[str, Any] = {}
            if program is not None:
                words = (program, folder / "case", 96, 20, folder / "boxes")
                alone = launch(1, *words, *parameters(method, 1))
                seconds = min(seconds, least_seconds(lambda out=out: out.boxes(lo, hi), 20))
                good = good and alone["met"] == hits and seconds <= 1.2 * alone["box_seconds"]
            ratio = seconds / alone["box_seconds"] if alone else None
            row = [method, *paper.get(method, (None, None)), hits, alone.get("met")]
            row += [f"{out.seconds * 1e3:.1f}", f"{seconds * 1e3:.2f}"]
            row += [f"{alone['box_seconds'] * 1e3:.2f}" if alone else None, ratio]
            rows.append(row)
    show(
        [
            "method",
            "paper",
            "paper, s",
            "parts met",
            "in C",
            "partition ms",
            "boxes ms",
            "in C",
            "ratio",
        ],
        rows,
        title=f"10,000 boxes on 96 parts of {n:,} points of two surfaces",
    )
    return rows, good


# ---- repartitioning ----------------------------------------------------------------------------


def drift(quick: bool) -> Answer:
    """Repartition a mesh whose weights drift; sum up communication * ratio + migration."""
    side, steps, parts = (32, 4, 8) if quick else (64, 10, 8)
    line = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    mesh = sp.csr_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))
    rows: list[Any] = []
    best = []
    for ratio in (1, 10, 100, 1000):
        totals = {}
        for approach in ("partition", "repartition", "refine"):
            talk, moved, balance = _drift(mesh, side, steps, parts, ratio, approach)
            totals[approach] = talk * ratio + moved
            rows.append([ratio, approach, talk, moved, talk * ratio + moved, f"{balance:.3f}"])
        best.append(totals["repartition"] / min(totals["partition"], totals["refine"]))
        for row in rows[-3:]:
            row.append(row[4] / min(totals.values()))
    show(
        ["ratio", "approach", "communication", "migration", "total", "max/mean", "of the least"],
        rows,
        title=f"Weights that drift over a {side} x {side} mesh in {parts} parts, {steps} steps",
    )
    return rows, max(best) <= 1.05


def _drift(
    mesh: sp.csr_array, side: int, steps: int, parts: int, ratio: float, approach: str
) -> tuple[float, int, float]:
    """Return the sum of communication, the sum of migrations, and the worst balance."""
    x, y = np.divmod(np.arange(side * side), side)
    first = pylb.partition(mesh, parts, weight=_spot(x, y, side, 0.0), method="zoltan")
    old, talk, moved, worst = first.part, 0.0, 0, 1.0
    for step in range(1, steps + 1):
        weight = _spot(x, y, side, step / steps)
        out = pylb.partition(
            mesh,
            parts,
            weight=weight,
            method="zoltan",
            old=old,
            approach=approach,
            migration_ratio=ratio,
            imbalance=1.05,
            seed=step,
        )
        talk, moved = talk + (out.volume or 0.0), moved + out.migrations
        worst, old = max(worst, out.max_over_mean), out.part
    return talk, moved, worst


def _spot(x: np.ndarray, y: np.ndarray, side: int, when: float) -> np.ndarray:
    """Return weights that are high near a moving point."""
    middle = side * (0.5 + 0.3 * np.array([np.cos(2 * np.pi * when), np.sin(2 * np.pi * when)]))
    return 1.0 + 4.0 * np.exp(-(((x - middle[0]) ** 2 + (y - middle[1]) ** 2) / (side / 8) ** 2))


if __name__ == "__main__":
    worker(*sys.argv[1:])
