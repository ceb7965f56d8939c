"""On rank 0 a second thread makes a collective call while the first one waits for rank 1:
``mpiexec -n 2 python two_threads.py LAG``.

The second call raises an error that names both calls; the first one goes on as if nothing had
happened.
"""

import sys
import threading
import time

from each_case import raised
from mpi4py import MPI

import pylb
from pylb.errors import StateError

comm, lag = MPI.COMM_WORLD, int(sys.argv[1])
lb, other = (pylb.Balancer(comm, lag=lag) for _ in range(2))
lb.add(comm.rank, "an object")
is_in_body = threading.Event()  # from here on, the first thread waits only in the call to test


def loop():
    for it in lb.iterate(5):
        if it == 1 or not lag:
            is_in_body.set()
        if it == 1 and lag:
            break  # the call that waits is finish()
    lb.finish()


SECOND = {
    "at the start of iterate()": lambda: list(other.iterate(2)),
    "gathering records of 0 iterations": other.rank_loads,
    "building a communication plan": lambda: pylb.Plan(comm, [0, 1]),
    "using a directory": lambda: pylb.Directory(comm).update([comm.rank]),
}


def second_calls():
    """Call each while the first thread waits; the words of both calls are in the error."""
    for words, call in SECOND.items():
        raised(StateError, ("at the end of iteration 0", words), call)


def finish_twice():
    for call in (
        lb.finish,
        lb.rank_loads,
        lambda: lb.save("never.h5"),
        lambda: list(lb.iterate(1)),
    ):
        raised(StateError, ("AtSync.serve() while another thread is in AtSync.serve()",), call)


def waits():
    """Return whether the first thread is in a call that waits for rank 1."""
    agreement = lb._state.agreement
    left = agreement.running is not None and agreement.running.left
    return left if lag else agreement.transport.pending


if comm.rank == 0:
    thread = threading.Thread(target=loop)
    thread.start()
    is_in_body.wait()
    while not waits():
        time.sleep(1e-3)
    time.sleep(0.1)
    (finish_twice if lag else second_calls)()
    comm.send(None, 1)
    thread.join()
else:
    generator = lb.iterate(5)
    next(generator)
    comm.recv(source=0)
    for _ in generator:
        pass
    lb.finish()
assert lag or lb.iteration == 5
print("done")
