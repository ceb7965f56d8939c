"""Loops with a lag that fail: ``mpiexec -n 3 python tests/mpi/at_sync_endings.py CASE``.

Every rank must end or continue.  A rank that finishes prints its iterations and LB steps.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time

from mpi4py import MPI

import pylb
from pylb.run import AtSync

comm = MPI.COMM_WORLD
case = sys.argv[1]
odd = comm.rank == comm.size - 1
N = 20


def load(key, block):
    return 1.0


def place(snapshot):
    return (snapshot.rank + 1) % snapshot.n_ranks


lb = pylb.Balancer(comm, lag=2, strategy=place, load=load, every=8)
for key in range(3 * comm.size):
    if key % comm.size == comm.rank:
        lb.add(key, threading.Lock() if case == "pickle" and odd and key > comm.size else [key])


def alarm(seconds):
    """Send this rank Ctrl-C after a while, wherever it waits."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def misbehave(it):
    """Fail on the last rank; the LB step of iteration 7 is announced from iteration 2 on."""
    if case == "raise" and it == 5:
        raise ValueError("block 7 is broken")
    if case == "all raise" and it == 5:
        raise ValueError("everybody")
    if case == "exit" and it == 5:
        sys.exit(0)
    if case == "blocked" and it == 5:
        raise ValueError("nobody hears me")
    if case == "stop" and it == 5:
        again = f"sleep 2; kill -CONT {os.getpid()}"
        with subprocess.Popen(["sh", "-c", again]):
            os.kill(os.getpid(), signal.SIGSTOP)
    if case == "pause" and it == 7:
        alarm(0.3)  # while the rank waits for the statistics of the final iteration


def ranks_as_a_whole():
    for it in lb.iterate(N):
        for _ in lb.local():
            pass
        if odd:
            misbehave(it)
            if case in ("break", "break alone") and it == 5:
                break
            if case == "caught" and it == 5:
                raise ValueError("I can cope")
        elif case == "blocked" and it == 5:
            comm.recv(source=comm.size - 1)
        elif case == "all raise" and it == 3 + comm.rank:
            raise ValueError("everybody")
        elif case == "pause" and it == 7:
            time.sleep(1)


def objects():
    global lb
    lag = math.inf if "inf" in case else 2
    lb = pylb.AsyncBalancer(comm, lag=lag, strategy=place, load=load, every=8)
    for key in range(comm.rank, 3 * comm.size, comm.size):
        lb.add(key, {"k": 0})
    lb.begin(N)
    runs = {key for key, _ in lb.local()}
    while (state := lb.at_sync()) is not AtSync.END:
        if state is AtSync.BALANCE:
            lb.lb_step()
            runs = {key for key, _ in lb.local()}
        for key, block in lb.local():
            if key in runs:
                block["k"] += 1
                if odd and block["k"] == 6:
                    if "raise" in case:
                        raise ValueError(f"object {key} is broken")
                    if "exit" in case:
                        sys.exit(0)
            runs.discard(key)
            if lb.at_sync(key) is AtSync.GO:
                runs.add(key)


if case.startswith("objects"):
    with contextlib.suppress(ValueError) if "caught" in case else contextlib.nullcontext():
        objects()
    if "caught" in case:
        lb.finish()
        for _ in lb.iterate(3):
            pass
elif "caught" in case:
    with contextlib.suppress(ValueError, KeyboardInterrupt):
        ranks_as_a_whole()
    time.sleep(0.2 * comm.rank)
    for _ in lb.iterate(3):
        pass
else:
    ranks_as_a_whole()
    if case == "break alone":
        lb.finish()
        comm.Barrier()  # the other ranks call it after their last iteration
done = [r.iteration for r in lb.history.lb_steps]
print(f"rank {comm.rank} is through: {len(lb.metrics.time)} {done}", flush=True)
