"""Ranks that may use one core only: rank 0 prints what the log, the report and the record say."""

import logging
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from mpi4py import MPI

import pylb

os.sched_setaffinity(0, {MPI.COMM_WORLD.bcast(min(os.sched_getaffinity(0)))})
logging.basicConfig(stream=sys.stdout, format="%(message)s")
# the log tells only once that cores are shared
for comm in (MPI.COMM_WORLD, MPI.COMM_WORLD, MPI.COMM_WORLD.Dup()):
    lb = pylb.Balancer(comm, mode="off")
    lb.add(lb.rank, None)
    for _ in lb.iterate(2):
        for _ in lb.local():
            sum(range(1000))
path = MPI.COMM_WORLD.bcast(tempfile.mkdtemp()) + "/run.h5"
report = lb.report()
lb.save(path)


def compute(x):
    """Take longer where x is 1."""
    for value in x:
        sum(range(2000 if value else 20))
    return x


for mode in ("shadow", "off"):  # on one core, lending cannot save time
    os.environ["PYLB_MODE"] = mode
    sharer = pylb.Sharer(MPI.COMM_WORLD)
    for _ in range(4):
        sharer.share(compute, np.full(100, lb.rank == 0))
    figures = MPI.COMM_WORLD.allreduce(
        sharer.metrics["rows"].sum() + abs(sharer.metrics["saved"]).sum()
    )
    if lb.rank == 0:
        print(f"{mode}: {figures:g} lent or saved")
if lb.rank == 0:
    print(report.cores)
    print(pylb.RunRecord.load(path).parameters["cores"])
    Path(path).unlink()
    Path(path).parent.rmdir()
