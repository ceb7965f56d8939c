"""Columns of an atmosphere: clouds make some expensive, and the clouds move.

    mpiexec -n 4 python examples/columns.py [--lend no]

The state of a column stays on its rank; `share` lends the work where that saves time.
"""

import argparse

import numpy as np
from mpi4py import MPI

import pylb


def microphysics(cloud, temperature):
    """Advance columns: a cloud needs many small steps, clear air few."""
    out = temperature.copy()
    for k in range(len(out)):
        for _ in range(int(2 + 60 * cloud[k])):
            out[k] += 1e-3 * (np.roll(out[k], 1) - 2 * out[k] + np.roll(out[k], -1))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, default=400, help="columns of a rank")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lend", choices=["yes", "no"], default="yes")
    args = parser.parse_args()
    comm = MPI.COMM_WORLD
    sharer = pylb.Sharer(comm, mode="on" if args.lend == "yes" else "shadow")
    place = np.linspace(comm.rank, comm.rank + 1, args.columns, endpoint=False) / comm.size
    temperature = np.sin(np.outer(place + 1, np.arange(64.0)))
    begin = MPI.Wtime()
    for step in range(args.steps):
        front = (step / args.steps - place) % 1.0
        cloud = np.where(front < 0.15, 1.0, 0.0)  # a front that covers 15 % of the columns
        temperature = sharer.share(microphysics, cloud, temperature)
    seconds = MPI.Wtime() - begin
    total = comm.allreduce(float(temperature.sum()))
    saved = np.sum(sharer.metrics.get("saved", [0.0]))
    if comm.rank == 0:
        what = "saved" if args.lend == "yes" else "could be saved by lending"
        print(f"checksum {total:.9f}; {seconds:.2f} s, {saved:.2f} s {what}")


if __name__ == "__main__":
    main()
