"""Zoltan fails on some of the ranks only: ``mpiexec -n 3 python tests/mpi/partition_alone.py``."""

import contextlib
import warnings

import numpy as np
from mpi4py import MPI

import pylb
from pylb.partitioning import zoltan

comm = MPI.COMM_WORLD
zoltan.with_an_end = lambda problem: problem  # HSFC fails on the rank of the last object
warnings.simplefilter("ignore")
for seed in range(1000):
    rng = np.random.default_rng((seed, comm.rank))
    given = {"coords": rng.random((60, 2)), "weight": (rng.random(60) < 0.1) * 1.0}
    with contextlib.suppress(pylb.errors.PartitionerError):  # all ranks raise it
        pylb.partition(parts=31, method="hsfc", comm=comm, **given)
print("none was alone")
