"""Short programs, each a function: ``mpiexec -n 3 python short.py NAME [WORDS]``."""

import contextlib
import json
import logging
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from each_case import dealt, in_blocks, loop, raised, rotate
from mpi4py import MPI

import pylb
from pylb import errors
from pylb.model.network import measure_network

comm = MPI.COMM_WORLD


def network():
    """Rank 0 prints alpha and beta of every rank as JSON."""
    lines = comm.gather(json.dumps(measure_network(comm)))
    print(*(lines or []), sep="\n", end="\n" if lines else "")


def shared_cores():
    """Ranks may use one core only; rank 0 prints what the log, the report and the record say."""
    os.sched_setaffinity(0, {comm.bcast(min(os.sched_getaffinity(0)))})
    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    for one in (comm, comm, comm.Dup()):  # the log tells only once that cores are shared
        lb = pylb.Balancer(one, mode="off")
        lb.add(lb.rank, None)
        for _ in lb.iterate(2):
            for _ in lb.local():
                sum(range(1000))

    def compute(x):
        for value in x:  # takes longer where x is 1
            sum(range(2000 if value else 20))
        return x

    for mode in ("shadow", "off"):  # on one core, lending cannot save time
        os.environ["PYLB_MODE"] = mode
        sharer = pylb.Sharer(comm)
        for _ in range(4):
            sharer.share(compute, np.full(100, comm.rank == 0))
        lent = sharer.metrics["rows"].sum() + abs(sharer.metrics["saved"]).sum()
        total = comm.allreduce(lent)
        if comm.rank == 0:
            print(f"{mode}: {total:g} lent or saved")
    path = comm.bcast(tempfile.mkdtemp()) + "/run.h5"
    report = lb.report()
    lb.save(path)
    if lb.rank == 0:
        print(report.cores)
        print(pylb.RunRecord.load(path).parameters["cores"])
        Path(path).unlink()
        Path(path).parent.rmdir()


def partition_alone():
    """Zoltan fails on some of the ranks only."""
    from pylb.partitioning import zoltan

    zoltan.with_an_end = lambda problem: problem  # HSFC fails on the rank of the last object
    warnings.simplefilter("ignore")
    for seed in range(1000):
        rng = np.random.default_rng((seed, comm.rank))
        given = {"coords": rng.random((60, 2)), "weight": (rng.random(60) < 0.1) * 1.0}
        with contextlib.suppress(errors.PartitionerError):  # all ranks raise it
            pylb.partition(parts=31, method="hsfc", comm=comm, **given)
    print("none was alone")


def share_misses(what):
    """The last rank does not come to `share`: it ends its program, or calls `advise`."""
    lb = pylb.Advisor(comm)  # is gone when the program ends: that must not matter
    x = np.ones(4)

    def compute(x):
        time.sleep(0.01 * len(x))  # so long that each call is a collective one
        return x

    for _ in range(2):
        lb.share(compute, x)
        lb.advise()
    if comm.rank == comm.size - 1:
        if what == "ends":
            sys.exit(0)
        lb.advise(seconds=1.0)
    lb.share(compute, x)
    print("went on")


def killed(lag="0"):
    """The last rank is killed in its loop; started with ``mpiexec --with-ft ulfm``."""
    lb = pylb.Balancer(comm, every=1000, lag=int(lag))
    in_blocks(lb, 8 * lb.n_ranks, lambda key: key)
    for it in lb.iterate(2000):
        for _ in lb.local():
            pass
        if it == 40 and lb.rank == lb.n_ranks - 1:
            os.kill(os.getpid(), signal.SIGKILL)


def no_memory():
    """Rank 1 has no memory for arriving objects; all ranks raise, and can continue."""
    size, spare = 50_000_000, 200 << 20  # 400 MB, never touched; bytes that may be allocated
    lb = pylb.Balancer(comm, strategy=rotate, every=2)
    dealt(lb, range(6), lambda key: np.empty(size) if key == 0 else key, nbytes=8)

    loop(lb, 1)
    before = [key for key, _ in lb.local()]
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if comm.rank == 1:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + spare, limits[1]))
    error = MemoryError if comm.rank == 1 else errors.RemoteError
    raised(error, ("bytes of arriving objects", "no object has moved"), lambda: loop(lb, 2))
    resource.setrlimit(resource.RLIMIT_AS, limits)
    assert [key for key, _ in lb.local()] == before
    for _ in lb.iterate(4):  # the object moves in this loop
        moved = [key for key, _ in lb.local()] != before
    assert moved
    found = comm.allgather([key for key, _ in lb.local()])
    assert sorted(key for here in found for key in here) == list(range(6))
    print("done")


def two_threads(lag="0"):
    """On rank 0 a second thread makes a collective call while the first one waits for rank 1.

    The second call raises an error that names both calls; the first one goes on as if nothing had
    happened.
    """
    lag = int(lag)
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

    def waits():
        """Return whether the first thread is in a call that waits for rank 1."""
        agreement = lb._state.agreement
        left = agreement.running is not None and agreement.running.left
        return left if lag else agreement.transport.pending

    served = "AtSync.serve() while another thread is in AtSync.serve()"
    second = [  # calls, and the words of both calls in their errors
        (served, lb.finish),
        (served, lb.rank_loads),
        (served, lambda: lb.save("never.h5")),
        (served, lambda: list(lb.iterate(1))),
    ]
    if not lag:
        second = [
            ("at the start of iterate()", lambda: list(other.iterate(2))),
            ("gathering records of 0 iterations", other.rank_loads),
            ("building a communication plan", lambda: pylb.Plan(comm, [0, 1])),
            ("using a directory", lambda: pylb.Directory(comm).update([comm.rank])),
        ]
    if comm.rank == 0:
        thread = threading.Thread(target=loop)
        thread.start()
        is_in_body.wait()
        while not waits():
            time.sleep(1e-3)
        time.sleep(0.1)
        for words, call in second:
            raised(errors.StateError, (words, "" if lag else "at the end of iteration 0"), call)
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


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
