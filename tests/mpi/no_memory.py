"""A rank has no memory for arriving objects: ``mpiexec -n 3 python ...``."""

import resource
from pathlib import Path

import numpy as np
from each_case import raised
from mpi4py import MPI

import pylb
from pylb import errors

SIZE = 50_000_000  # float64 values: 400 MB, which are never touched
SPARE = 200 << 20  # bytes that the rank may still allocate


def used():
    """Return the address space of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main():
    comm = MPI.COMM_WORLD
    lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + 1) % s.n_ranks, every=2)
    for key in range(comm.rank, 6, comm.size):
        lb.add(key, np.empty(SIZE) if key == 0 else key, nbytes=8)

    def run(n):
        for _ in lb.iterate(n):
            for _ in lb.local():
                pass

    run(1)
    before = [key for key, _ in lb.local()]
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if comm.rank == 1:
        resource.setrlimit(resource.RLIMIT_AS, (used() + SPARE, limits[1]))
    error = MemoryError if comm.rank == 1 else errors.RemoteError
    raised(error, ("bytes of arriving objects", "no object has moved"), lambda: run(2))
    resource.setrlimit(resource.RLIMIT_AS, limits)
    assert [key for key, _ in lb.local()] == before
    for _ in lb.iterate(4):  # the object moves in this loop
        moved = [key for key, _ in lb.local()] != before
    assert moved
    found = comm.allgather([key for key, _ in lb.local()])
    assert sorted(key for here in found for key in here) == list(range(6))
    print("done")


main()
