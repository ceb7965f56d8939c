"""Runs that a test replays: mpiexec -n 3 python tests/mpi/same_bits.py folder"""

import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
from each_case import in_blocks
from mpi4py import MPI

import pylb

N_OBJECTS = 30
RUNS = [
    ({}, True),
    ({"trigger": "menon"}, True),
    ({"learn_speeds": True, "every": 5}, False),
    ({"lag": 2}, False),
    ({"lag": 1, "trigger": "metabalancer", "strategy": "GreedyLB"}, False),
    ({"lag": 4, "every": 7, "strategy": "RefineLB"}, False),
    ({"mode": "shadow"}, True),
    ({"mode": "shadow", "lag": 2, "trigger": "boulmier"}, False),
]


def spin(seconds):
    """Compute for this time."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        pass


def change(lb, seed, it):
    """Add objects, and remove some that were added before."""
    rng = np.random.default_rng((seed, it, lb.rank))
    mine = [key for key, _ in lb.local() if key >= 1000]
    if rng.random() < 0.2:
        lb.add(1000 * (lb.rank + 1) + it, np.zeros(3))
    if mine and rng.random() < 0.2:
        lb.remove(mine[0])


def run(comm, seed, path, words, changes):
    """Run two loops in which a hot spot moves over the objects; some ranks have other work, too."""
    other = 2e-4 * (seed % 2) * (comm.rank % 2)
    lb = pylb.Balancer(comm, **words, **({"background": lambda: other} if seed % 2 else {}))
    base = np.random.default_rng(seed).exponential(2e-5, N_OBJECTS)
    in_blocks(lb, N_OBJECTS, lambda key: np.zeros(100 + key))
    for n in (20, 10):
        for it in lb.iterate(n):
            for key, _ in lb.local():
                spin(base[key % N_OBJECTS] * (1 + 8 * (abs(key / N_OBJECTS - it / 30) < 0.1)))
                if not words.get("lag"):
                    lb.send(key if key >= 1000 else (key + 1) % N_OBJECTS, key, np.zeros(50))
            spin(other)
            if changes:
                change(lb, seed, it)
    lb.save(path)


if __name__ == "__main__":
    logging.disable()
    comm, folder = MPI.COMM_WORLD, Path(sys.argv[1])
    for seed, (words, changes) in enumerate(RUNS):
        run(comm, seed, folder / f"{seed}.h5", words, changes)
    if comm.rank == 0:
        print(json.dumps({f"{i}.h5": words for i, (words, _) in enumerate(RUNS)}))
