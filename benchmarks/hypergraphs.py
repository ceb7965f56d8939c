"""pylb's hypergraph partitions compared with Mt-KaHyPar's default.

    python benchmarks/hypergraphs.py [--json out/hypergraphs.json]

The benchmark needs the package mtkahypar.  Method "hypergraph" runs twice: as if this package were
not installed, and with it.  A result is the sum of connectivity - 1 over all nets, in parts whose
imbalance is at most 1.03; numbers in brackets are seconds of processor time.  Targets: at most 1.12
times Mt-KaHyPar's result without the package, and at most 1.02 times with it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from common.figures import check, save

import pylb
from pylb.console import show
from pylb.partitioning import libraries

WITHOUT, WITH = 1.12, 1.02


def random_nets(n: int, m: int, pins: int, seed: int) -> sp.csr_matrix:
    """Return m nets of `pins` random vertices each, (m, n)."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, m * pins), np.repeat(np.arange(m), pins)
    return sp.csr_matrix((np.ones(m * pins), ends[::-1]), (m, n))


def power_nets(n: int, m: int, seed: int) -> sp.csr_matrix:
    """Return m nets, (m, n): most have few pins, and the vertices of a net are near each other."""
    rng = np.random.default_rng(seed)
    size = np.minimum(2 + rng.pareto(1.5, m), 200).astype(int)
    net = np.repeat(np.arange(m), size)
    near = rng.integers(0, n, m)[net] + rng.normal(0.0, 3.0 * size[net]).astype(int)
    return sp.csr_matrix((np.ones(len(net)), (net, near % n)), (m, n))


def stencil(side: int) -> sp.csr_matrix:
    """Return the nets of a 7-point stencil: each point with its neighbours."""
    line = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    plane = sp.kronsum(line, line)
    return sp.csr_matrix(sp.kronsum(plane, line) + sp.eye_array(side**3))


INSTANCES = {
    "7-point stencil, 24^3": lambda: stencil(24),
    "power law, 10,000 vertices": lambda: power_nets(10_000, 12_000, 7),
    "8,000 random nets of 4 pins": lambda: random_nets(5_000, 8_000, 4, 11),
}


def cut(nets: Any, parts: int, method: str, without: bool) -> tuple[float, float]:
    """Return connectivity - 1 and the seconds of a partition."""
    real = libraries.available

    def available(name: str) -> bool:
        return not (without and name == "mtkahypar") and real(name)

    start = time.process_time()
    with patch.object(libraries, "available", available):
        made = pylb.partition(nets=nets, parts=parts, method=method, imbalance=1.03)
    seconds = time.process_time() - start
    return float(made.evaluation.connectivity), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", default="out/hypergraphs.json")
    args = parser.parse_args()
    rows, verdicts = [], []
    for (name, make), parts in itertools.product(INSTANCES.items(), (8, 32)):
        nets = make()
        ways = (("mtkahypar", False), ("hypergraph", True), ("hypergraph", False))
        default, without, with_it = (cut(nets, parts, *way) for way in ways)
        cells = [f"{cost:,.0f} ({seconds:.1f} s)" for cost, seconds in (default, without, with_it)]
        show(["nets", "parts", "Mt-KaHyPar", "without", "with"], [[name, str(parts), *cells]])
        rows.append({"nets": name, "parts": parts, "costs": [default, without, with_it]})
        for what, found, limit in (("without", without, WITHOUT), ("with", with_it, WITH)):
            ratio = found[0] / default[0]
            text = f"{name}, {parts} parts, {what}: {ratio:.3f} of Mt-KaHyPar, at most {limit:g}"
            check(text, ratio <= limit, verdicts)
    save(args.json, {"verdicts": verdicts, "rows": rows})


if __name__ == "__main__":
    main()
