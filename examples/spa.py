"""One server, three clients, two services: what if a service ran on the clients?

    mpiexec -n 4 python examples/spa.py
    pylb record -o out/spa -- mpiexec -n 4 python examples/spa.py
    pylb procedures out/spa
    mpiexec -n 4 python examples/spa.py --move servBusy2

The synthetic application of Eom and Hollingsworth (1998, section 3.2), with its proportions: the
server is the bottleneck; it runs servBusy1 for the first client and servBusy2 for the others.
`pylb procedures` predicts what moving one of them saves; --move checks the prediction.
"""

from __future__ import annotations

import argparse
import time

import mpi4py
import numpy as np

mpi4py.rc.initialize = False  # main() starts MPI, so that a recording does not include the imports
from mpi4py import MPI  # noqa: E402

import pylb  # noqa: E402

SERVICES = ("servBusy1", "servBusy2")
# Time units of a service.  A round has 30.7 units: 25.4 without servBusy1, 16.1 without servBusy2
# (figure 4), and 23.0 if the clients do servBusy2 (figure 3).
SERVICE = {"servBusy1": 5.3, "servBusy2": 7.3}
SERVER, CLIENT = {1: 10.2, 2: 0.3, 3: 0.3}, {1: 1.0, 2: 15.7, 3: 15.7}
ALL = 30.7


def work(steps: float) -> None:
    """Compute; a step takes some 10 µs of processor time on any rank.

    Each product depends on the previous one, so that other work on the core hardly slows it down.
    """
    ones = np.ones(2800)
    for _ in range(round(steps)):
        np.multiply.accumulate(ones, out=ones)


@pylb.procedure
def servBusy1(steps: float) -> None:
    """Do the work that the first client asks for."""
    work(steps)


@pylb.procedure
def servBusy2(steps: float) -> None:
    """Do the work that the other clients ask for."""
    work(steps)


DO = {"servBusy1": servBusy1, "servBusy2": servBusy2}


def wanted(client: int) -> str:
    """Return the service that a client asks for."""
    return SERVICES[0] if client == 1 else SERVICES[1]


def serve(comm: MPI.Comm, rounds: int, steps: float, moved: str | None) -> None:
    """Answer every client's requests, one round after the other."""
    request, reply = np.zeros(1), np.zeros(1)
    for _ in range(rounds):
        for client in range(1, comm.size):
            comm.Recv(request, source=client)
            work(SERVER[client] * steps)
            if wanted(client) != moved:
                DO[wanted(client)](SERVICE[wanted(client)] * steps)
            comm.Send(reply, dest=client)


def ask(comm: MPI.Comm, rounds: int, steps: float, moved: str | None) -> None:
    """Compute, ask the server, run the service if it was moved to the clients, get the answer."""
    request, reply = np.zeros(1), np.zeros(1)
    for _ in range(rounds):
        work(CLIENT[comm.rank] * steps)
        comm.Send(request, dest=0)
        if wanted(comm.rank) == moved:
            DO[moved](SERVICE[moved] * steps)
        comm.Recv(reply, source=0)


def main() -> None:
    """Run the program and print its time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="rounds of requests (%(default)s)")
    parser.add_argument(
        "--steps", type=float, default=2e5, help="the server's work, in steps (%(default)s)"
    )
    parser.add_argument("--move", choices=SERVICES, help="run this service on the clients")
    args = parser.parse_args()
    MPI.Init()
    comm = MPI.COMM_WORLD
    if comm.size != 4:
        raise SystemExit(f"{comm.size} ranks: spa.py expects 4 ranks, a server and three clients")
    steps = args.steps / ALL / args.rounds
    comm.Barrier()
    begin = time.perf_counter()
    (serve if comm.rank == 0 else ask)(comm, args.rounds, steps, args.move)
    comm.Barrier()
    if comm.rank == 0:
        where = f"{args.move} at the clients" if args.move else "both services at the server"
        print(f"{time.perf_counter() - begin:.4f} s, {where}")
    MPI.Finalize()


if __name__ == "__main__":
    main()
