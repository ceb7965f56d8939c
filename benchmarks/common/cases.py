"""Snapshots to place: generated ones of any size, the programs of examples/, recorded runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pylb

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("PYLB_DATA", ROOT.parent / "shared" / "data"))
sys.path.insert(0, str(ROOT / "examples"))

import lbtest  # noqa: E402
from lennardjones import Fluid  # noqa: E402

LOADS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda rng, n: rng.random(n),
    "log-normal": lambda rng, n: rng.lognormal(0.0, 1.0, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
}


@dataclass(frozen=True)
class Case:
    """A snapshot and its name; cases of one family differ only in size, small ones first."""

    family: str
    name: str
    make: Callable[[], pylb.Snapshot]


def blocks(n: int, p: int) -> np.ndarray:
    """Return the rank of each of n objects that lie in blocks on p ranks."""
    return np.arange(n) * p // n


def loads(kind: str, n: int, p: int) -> Case:
    """Return a case of objects without messages, with random loads."""

    def make() -> pylb.Snapshot:
        load = LOADS[kind](np.random.default_rng(n + p), n)
        return pylb.Snapshot(load, blocks(n, p), n_ranks=p)

    return Case(f"loads, {kind}", f"{n:,} / {p:,}", make)


def few_ranks(n: int, p: int) -> pylb.Snapshot:
    """Return objects with random loads, nine tenths of them on a tenth of the ranks."""
    rng = np.random.default_rng(n)
    rank = np.where(
        rng.random(n) < 0.9, rng.integers(max(1, p // 10), size=n), rng.integers(p, size=n)
    )
    return pylb.Snapshot(rng.random(n), rank, n_ranks=p)


def four_decades(n: int, p: int) -> pylb.Snapshot:
    """Return objects whose loads are spread evenly over four decades."""
    rng = np.random.default_rng(n)
    return pylb.Snapshot(10.0 ** rng.uniform(-4, 0, n), blocks(n, p), n_ranks=p)


def one_giant(n: int, p: int) -> pylb.Snapshot:
    """Return objects of which one has twice the average load of a rank."""
    load = np.random.default_rng(n).random(n)
    load[n // 2] = 2.0 * load.sum() / p
    return pylb.Snapshot(load, blocks(n, p), n_ranks=p)


def graph(kind: str, n: int, p: int) -> Case:
    """Return a case: the objects of examples/lbtest.py on a torus or a random graph of degree 6."""

    def make() -> pylb.Snapshot:
        program = lbtest.Program.draw(kind, n, (0.2, 1.8), (1024, 8192), degree=6, seed=n)
        return program.snapshot(p)

    return Case(f"graph, {kind}", f"{n:,} / {p:,}", make)


def mesh_file(name: str, p: int) -> Case:
    """Return a case: the vertices of a mesh in METIS' format, with random loads, in blocks."""

    def make() -> pylb.Snapshot:
        lines = (DATA / "graphs" / name).read_text().splitlines()
        rows = [np.array(line.split(), dtype=np.int64) - 1 for line in lines[1:]]
        n = int(lines[0].split()[0])
        src = np.repeat(np.arange(n), [len(row) for row in rows[:n]])
        dst = np.concatenate(rows[:n])
        load = np.random.default_rng(n).uniform(0.5, 1.5, n)
        edges = (src, dst, np.full(len(src), 1024.0))
        return pylb.Snapshot(load, blocks(n, p), n_ranks=p, edges=edges, nbytes=np.full(n, 8192))

    return Case(f"mesh, {name}", f"{p:,} ranks", make)


def multicasts(away: int, p: int = 64, cells: int = 8) -> Case:
    """Return a case of examples/leanmd.py, in which cells multicast positions to the computes.

    The atoms are a drop in its vapour; the load of a compute is its number of pairs of atoms.
    """

    def make() -> pylb.Snapshot:
        fluid = Fluid(cells, away)
        atoms = fluid.drop()
        count = np.bincount(fluid.cell_of(atoms[1:4]), minlength=fluid.n_cells)
        keys = np.arange(fluid.n_cells, fluid.n_objects)
        a, b = np.array([fluid.pair(key) for key in keys]).T
        load = np.concatenate([0.05 * count, count[a] * count[b]]) + 1.0
        receivers = [np.array(fluid.computes(cell)) for cell in range(fluid.n_cells)]
        return pylb.Snapshot(
            load,
            fluid_ranks(fluid, p),
            n_ranks=p,
            multicasts=(
                np.arange(fluid.n_cells),
                np.concatenate([[0], np.cumsum([len(r) for r in receivers])]),
                np.concatenate(receivers),
                24.0 * count + 8.0,
            ),
            edges=(
                np.concatenate([keys, keys]),
                np.concatenate([a, b]),
                np.concatenate([24.0 * count[a], 24.0 * count[b]]) + 8.0,
            ),
            nbytes=np.full(fluid.n_objects, 4096),
        )

    return Case("multicasts", f"leanmd {cells}^3, {away}-away / {p}", make)


def fluid_ranks(fluid: Fluid, p: int) -> np.ndarray:
    """Place a slab of the box on each rank, and each compute with the cell that owns it."""
    cell = blocks(fluid.n_cells, p)
    return np.concatenate([cell, np.repeat(cell, len(fluid.forward))])


def recorded() -> Iterator[Case]:
    """Return one phase of each recorded run that is available."""
    for name, phase in (("nolb-8color-16nodes-data", 1), ("nolb-8color-16nodes-11firstphases", 9)):
        if (DATA / name).is_dir():
            yield Case(
                "recorded",
                f"{name[5:]}, phase {phase}",
                lambda name=name, phase=phase: pylb.Trace.load(DATA / name)[phase],
            )
