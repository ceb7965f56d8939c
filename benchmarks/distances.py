"""Two hosts with a slow network: placements that know distances, and placements that do not.

    python benchmarks/distances.py [--only kneighbor] [--by-node] [--mbit 20] [--out out]

Needs root: `pylb lab` makes two hosts, with two ranks each.  Each of the two programs measures its
machine, and runs with an LB step every 8 iterations: with one alpha and beta, those between hosts,
with the machine (`network=machine`), and with ScotchLB, which knows no costs.  With `--by-node`,
ranks 0 and 2 are on one host, and 1 and 3 on the other one, as by `mpiexec --map-by node`.

All figures are those of the last 16 iterations: bytes between hosts (median); max/mean; the median
time of an iteration, in which a rank computes and waits; and a time that is calculated for the mean
load of the variants, so that it shows only the effect of the placement: this load times max/mean,
and half of the bytes between hosts over the bandwidth, as both hosts send at the same time, after
they have computed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import cases  # noqa: F401  (the folder examples/ on the path)
from common.figures import save
from common.mpi import ask_mpi

import pylb
from pylb.console import show
from pylb.lab import Host, Lab, LabPlan, Link, Profile

import kneighbor  # isort: skip
import leanmd  # isort: skip
from lennardjones import Fluid  # isort: skip

ITERATIONS, EVERY, LAST, RANKS = 40, 8, 16, 4
STRATEGIES = ("auto", "RefineCommLB", "CCMLB")


def solve(name: str, comm: Any, **words: Any) -> Any:
    """Run one program."""
    if name == "kneighbor":
        ring = kneighbor.Ring(32 * comm.size, 4, 16384, kneighbor.calibrate(comm, 5e-4), 0, 0.5, 4)
        return kneighbor.solve(comm, ring, ITERATIONS, **words)
    fluid = Fluid(5, 1)
    return leanmd.solve(comm, fluid, fluid.drop(), ITERATIONS, **words)


def figures(record: Path, machine: pylb.Machine, run: Any) -> list[float]:
    """Return the bytes, max/mean, time and mean load of an iteration."""
    trace = pylb.Trace.load(record)
    node, tail = machine.node, slice(-LAST, None)
    between = []
    for snap in trace[tail]:
        moved = pylb.Snapshot(
            snap.load,
            snap.rank,
            n_ranks=snap.n_ranks,
            edges=snap.edges,
            node=node,
            multicasts=snap.multicasts,
        )
        between.append(pylb.evaluate(moved).bytes_network)
    it, nbytes = run.metrics, float(np.median(between))
    ratio = it.max[tail].sum() / it.mean[tail].sum()
    return [
        nbytes,
        *map(float, (ratio, np.median((it.mean + it.idle)[tail]), it.mean[tail].mean())),
    ]


def program(name: str, by_node: bool, out: Path) -> None:
    """Run all variants on the ranks of a lab, and write their figures."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if by_node:
        comm = comm.Split(0, comm.rank % 2 * comm.size + comm.rank)
    machine = pylb.Machine.measure(comm, seconds=0.05)
    variants: list[tuple[str, str, dict[str, Any]]] = [("ScotchLB", "-", {"strategy": "ScotchLB"})]
    for strategy in STRATEGIES:
        variants.append((strategy, "one", {"strategy": strategy, "network": machine.between}))
        variants.append((strategy, "by distance", {"strategy": strategy, "network": machine}))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for strategy, network, words in variants:
            record = Path(comm.bcast(folder), f"{strategy} {network}.h5")
            run = solve(name, comm, every=EVERY, record=record, **words)
            if comm.rank == 0:
                rows.append([strategy, network, *figures(record, machine, run)])
    if comm.rank == 0:
        near = None if machine.near is None else machine.near.tolist()
        save(out, {"rows": rows, "between": machine.between, "near": near})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("kneighbor", "leanmd"))
    parser.add_argument("--by-node", action="store_true", help="deal the ranks to the hosts")
    parser.add_argument(
        "--mbit", type=float, default=20.0, help="megabits per second (%(default)s)"
    )
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--program")
    args = parser.parse_args()
    if args.program:
        program(args.program, args.by_node, args.out)
        return
    ask_mpi()
    link = Link(bandwidth=1e6 * args.mbit)
    hosts = tuple(Host(name, RANKS // 2, Profile(share=1.8 / RANKS), link) for name in ("a", "b"))
    found: dict[str, Any] = {}
    with Lab(LabPlan(hosts=hosts)) as lab, tempfile.TemporaryDirectory() as folder:
        for name in [args.only] if args.only else ["kneighbor", "leanmd"]:
            file = Path(folder, name)
            words = ["mpiexec", "-n", str(RANKS), sys.executable, sys.argv[0]]
            more = ["--by-node"] if args.by_node else []
            code = lab.run([*words, "--program", name, "--out", str(file), *more])
            if code:
                raise SystemExit(code)
            found[name] = json.loads(file.read_text())
            rows, beta = [], found[name]["between"][1]
            mean = np.mean([row[5] for row in found[name]["rows"]])
            for strategy, network, nbytes, ratio, seconds, _ in found[name]["rows"]:
                calculated = mean * ratio + 0.5 * nbytes * beta
                rows.append(
                    [strategy, network, nbytes / 1e6, ratio, 1e3 * seconds, 1e3 * calculated]
                )
            heads = ["strategy", "network", "MB between hosts", "max/mean", "ms/iteration"]
            heads += ["calculated"]
            show(heads, rows, title=f"{name}, {args.mbit:g} Mbit/s between two hosts")
    save(args.out / "distances.json", found)


if __name__ == "__main__":
    main()
