"""Ranks that may use one core only: rank 0 prints what the log, the report and the record say."""

import logging
import os
import sys
import tempfile
from pathlib import Path

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
if lb.rank == 0:
    print(report.cores)
    print(pylb.RunRecord.load(path).parameters["cores"])
    Path(path).unlink()
    Path(path).parent.rmdir()
