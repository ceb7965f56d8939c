"""A flame front that moves through cells with detailed chemistry (GRI-3.0), by Cantera.

    mpiexec -n 2 python examples/chemistry.py [--cells 20000] [--steps 20] [--lend no]

A cell in the front takes many times as long as the others.  The state of a cell stays on its rank;
`share` lends the work.  Two lines differ from the program without pylb: `sharer = ...`, and
`sharer.share(burn, T, Y)` instead of `burn(T, Y)`.
"""

import argparse

import numpy as np
from mpi4py import MPI

import pylb


def chemistry():
    """Return a function that burns cells for a time step, and the composition of the fresh gas."""
    try:
        import cantera
    except ImportError:
        raise SystemExit("this example needs Cantera: pip install cantera") from None
    gas = cantera.Solution("gri30.yaml")
    reactor = cantera.IdealGasConstPressureReactor(gas, clone=False)
    network = cantera.ReactorNet([reactor])

    def burn(T, Y):  # rows: temperature and mass fractions of a cell
        T, Y = T.copy(), Y.copy()
        for k in range(len(T)):
            gas.TPY = T[k], cantera.one_atm, Y[k]
            reactor.syncState()
            network.initial_time = 0.0
            network.reinitialize()
            network.advance(1e-5)
            T[k], Y[k] = gas.T, gas.Y
        return T, Y

    gas.set_equivalence_ratio(1.0, "CH4", "O2:1, N2:3.76")
    return burn, gas.Y


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=20_000, help="cells of all ranks")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lend", choices=["yes", "no"], default="yes")
    args = parser.parse_args()
    comm, (burn, fresh) = MPI.COMM_WORLD, chemistry()
    n = (args.cells * (comm.rank + 1)) // comm.size - (args.cells * comm.rank) // comm.size
    place = (args.cells * comm.rank // comm.size + np.arange(n)) / args.cells
    sharer = pylb.Sharer(comm, mode="on" if args.lend == "yes" else "shadow")
    seconds = 0.0
    T, Y = np.full(n, 300.0), np.tile(fresh, (n, 1))
    for step in range(args.steps):
        front = np.abs(place - (step + 0.5) / args.steps) < 0.05  # a tenth of the cells ignites
        T[front], Y[front] = 1800.0, fresh
        comm.Barrier()
        begin = MPI.Wtime()
        T, Y = sharer.share(burn, T, Y)
        comm.Barrier()
        if step:  # the first step loads and learns
            seconds += MPI.Wtime() - begin
        T[~front], Y[~front] = 300.0, fresh  # the gas behind the front flows away
    hot = comm.allreduce(float(T.sum()))
    figures = {name: np.sum(all[1:]) for name, all in sharer.metrics.items()}
    if comm.rank == 0:
        print(f"checksum {hot:.9e}; {seconds:.2f} s in the chemistry")
        if comm.size > 1:
            print(
                f"owner-computes: {figures['longest']:.2f} s, bound: {figures['bound']:.2f} s, "
                f"time over bound: {seconds / figures['bound']:.3f}"
            )


if __name__ == "__main__":
    main()
