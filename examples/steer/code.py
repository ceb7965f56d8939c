"""A code that knows nothing of pylb: it redistributes its cells on a file, a signal, or at restart.

    cd examples/steer
    pylb steer file.yaml -- mpiexec -n 4 python code.py
    pylb steer signal.yaml -- mpiexec -n 4 python code.py
    pylb steer restart.yaml -- mpiexec -n 4 python code.py

Each rank has a range of cells; those in the first quarter take ten times as long as the others.
After each step, the code looks for the files BALANCE (redistribute, then delete the file) and STOP
(write the state, and end), and for the signal SIGUSR1 (redistribute).  With "--restart", it goes on
from the state, with cells redistributed.
"""

import argparse
import os
import signal
import time

import numpy as np
from mpi4py import MPI

CELLS, STATE = 128, "state.npz"


class Code:
    def __init__(self, comm, step, first, seconds):
        self.comm, self.step = comm, step
        self.first = first  # the first cell of each rank, then CELLS
        self.seconds = seconds  # (CELLS,) what each cell took in the last step

    def compute(self):
        """Compute a step of this rank's cells, and tell all ranks what each cell took."""
        seconds = np.zeros(CELLS)
        for cell in range(*self.first[self.comm.rank : self.comm.rank + 2]):
            began = time.thread_time()
            for _ in range(200 if cell < CELLS / 4 else 20):
                np.sqrt(np.arange(500.0))
            seconds[cell] = time.thread_time() - began
        self.comm.Allreduce(seconds, self.seconds)
        self.step += 1

    def redistribute(self):
        """Cut the cells into ranges of equal time."""
        middle = np.cumsum(self.seconds) - 0.5 * self.seconds
        cuts = self.seconds.sum() * np.arange(1, self.comm.size) / self.comm.size
        self.first = np.array([0, *np.searchsorted(middle, cuts), CELLS])
        if self.comm.rank == 0:
            print(f"step {self.step}: ranges begin at {self.first[:-1]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--restart", action="store_true")
    args = parser.parse_args()
    signals = []
    signal.signal(signal.SIGUSR1, lambda number, frame: signals.append(number))
    comm = MPI.COMM_WORLD
    code = Code(comm, 0, np.arange(comm.size + 1) * CELLS // comm.size, np.zeros(CELLS))
    if args.restart:
        state = np.load(STATE)
        code.step, code.seconds = int(state["step"]), state["seconds"]
        code.redistribute()
    while code.step < args.steps:
        code.compute()
        asked = comm.bcast((os.path.exists("BALANCE"), os.path.exists("STOP"), bool(signals)))
        if asked[0] or asked[2]:
            code.redistribute()
            signals.clear()
            if comm.rank == 0 and asked[0]:
                os.remove("BALANCE")
        if asked[1]:
            if comm.rank == 0:
                np.savez(STATE, step=code.step, seconds=code.seconds)
                os.remove("STOP")
            return
    if comm.rank == 0:
        print(f"{code.step} steps", flush=True)


main()
