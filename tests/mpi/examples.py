"""The examples on any number of ranks: ``mpiexec -n 3 python tests/mpi/examples.py``.

Rank 0 prints, as JSON, the fingerprints of small runs, which must not depend on the number of
ranks, and what kneighbor did about its imbalance.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import jacobi2d
import kneighbor
import lbtest
import leanmd
import multizone
from heat import Plate
from lennardjones import Fluid

WORLD = MPI.COMM_WORLD
START = "pylb"  # method that places the objects first; the default is blocks
UNBALANCED = {"mode": "off", "start": START}
BALANCED = {"every": 2, "strategy": "GreedyLB"}  # this strategy moves the most objects


def jacobi(way):
    return jacobi2d.solve(WORLD, Plate(blocks=4, size=8), 12, **way)


def molecules(away, way):
    fluid = Fluid(3, away, cutoff=2.5, every=3)
    return leanmd.solve(WORLD, fluid, fluid.drop(), 4, **way)


def zones(way):
    return multizone.solve(WORLD, multizone.CLASSES["S"], 6, **way)


def graph(way):
    program = lbtest.Program.draw("random", 20, (1, 60), (8, 4000), ordered=True)
    return lbtest.solve(WORLD, program, 8, **way)


RING = kneighbor.Ring(objects=24, k=3, nbytes=4000, work=2, start=20, share=0.25, factor=4)


def ring(way):
    """Run kneighbor with loads in computed steps: decisions do not depend on the machine."""
    return kneighbor.solve(WORLD, RING, 40, load=lambda key, node: 0.01 * node.steps, **way)


runs = [
    *(jacobi(way) for way in (UNBALANCED, BALANCED)),
    *(molecules(away, way) for away in (1, 2) for way in (UNBALANCED, BALANCED)),
    *(zones(way) for way in (UNBALANCED, BALANCED)),
    *(graph(way) for way in (UNBALANCED, BALANCED)),
    *(ring(way) for way in (UNBALANCED, {"trigger": "metabalancer"})),
]
moved = [run.report.migrations for run in runs]
assert moved[0::2] == [0] * 6
assert WORLD.size == 1 or all(moved[1::2]), moved
if WORLD.rank == 0:
    reaction = kneighbor.Reaction.of(runs[-1], RING.start)
    print(json.dumps([[run.fingerprint for run in runs], asdict(reaction)]))
