"""One rank catches its own error: ``mpiexec -n 3 python caught.py``.

All ranks must raise it, although no rank ends; then a barrier and another loop must work.
"""

from itertools import product

from mpi4py import MPI

import pylb

comm = MPI.COMM_WORLD


def run(lag, where):
    failing = comm.size - 1  # the rank that fails; None: no rank

    def fail(here):
        if here == where:
            raise ArithmeticError(where)

    def load(key, block):
        if comm.rank == failing and lb.iteration > 2:
            fail("load")
        return 1.0

    def strategy(snapshot):
        if failing is not None:
            fail("strategy")
        return snapshot.rank

    def trigger(cycle):
        if comm.rank == failing:
            fail("trigger")
        return cycle.iteration % 3 == 2

    lb = pylb.Balancer(comm, lag=lag, load=load, strategy=strategy, trigger=trigger)
    for key in range(4):
        lb.add(10 * comm.rank + key, None)
    said = []
    try:
        list(lb.iterate(20))
    except (ArithmeticError, pylb.errors.PylbError) as why:
        said.append(str(why))
        failing = 0
        try:  # an error of another rank is raised while this one is handled
            list(lb.iterate(20))
        except (ArithmeticError, pylb.errors.PylbError) as again:
            said.append(str(again))
    assert [where in text for text in said] == [True, True], said
    failing = None
    comm.Barrier()
    assert len(list(lb.iterate(5))) == 5
    assert len(set(comm.allgather(lb.iteration))) == 1


for case in product((0, 2), ("load", "strategy", "trigger")):
    run(*case)
print("done")
