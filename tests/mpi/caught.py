"""One rank catches its own error: ``mpiexec -n 3 python caught.py LAG load|strategy|trigger``.

All ranks must raise it, although no rank ends; then a barrier and a second loop must work.
"""

import sys

from mpi4py import MPI

import pylb

comm, failing = MPI.COMM_WORLD, True
lag, where = int(sys.argv[1]), sys.argv[2]


def fail(here):
    if failing and here == where:
        raise ArithmeticError(where)


def load(key, block):
    if comm.rank == comm.size - 1 and lb.done > 2:
        fail("load")
    return 1.0


def strategy(snapshot):
    fail("strategy")
    return snapshot.rank


def trigger(cycle):
    if comm.rank == comm.size - 1:
        fail("trigger")
    return cycle.iteration % 3 == 2


lb = pylb.Balancer(comm, lag=lag, load=load, strategy=strategy, trigger=trigger)
for key in range(4):
    lb.add(10 * comm.rank + key, None)
said = "no error"
try:
    list(lb.iterate(20))
except (ArithmeticError, pylb.errors.PylbError) as why:
    said = str(why)
assert where in said, said
failing = False
comm.Barrier()
assert len(list(lb.iterate(5))) == 5
assert len(set(comm.allgather(lb.done))) == 1
print("done")
