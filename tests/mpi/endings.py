"""Programs that fail: ``mpiexec -n 3 python tests/mpi/endings.py PROGRAM CASE [LAG]``.

All ranks must end soon, with a non-zero exit code and a message that says what happened; in some
cases of a program with a lag, the others go on.  A rank that comes to its end says so.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
from each_case import dealt, rotate
from mpi4py import MPI

import pylb
from pylb.run import AtSync

comm = MPI.COMM_WORLD
odd = comm.rank == comm.size - 1
N = 20  # iterations of a loop with a lag
KEPT = []  # what must not be freed before the end of the program


def misbehave(case):
    """Fail on the last rank."""
    errors = {
        "raise": ValueError("block 7 is broken"),
        "all raise": ValueError("everybody"),
        "blocked": ValueError("nobody hears me"),
        "caught": ValueError("I can cope"),
        "interrupt": KeyboardInterrupt(),
        "exit": SystemExit(0),
    }
    if case in errors:
        raise errors[case]
    if case == "signal":
        time.sleep(30)
    if case == "stop":
        with subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"]):
            os.kill(os.getpid(), signal.SIGSTOP)


def alarm(seconds):
    """Send this rank Ctrl-C after a while, wherever it waits."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def plain(case):
    """A loop without a lag."""
    KEPT.extend(pylb.Balancer(comm.Dup()) for _ in range(2))  # on these, no rank waits
    KEPT.append(lb := pylb.Balancer(comm, strategy=(lambda s: s.rank), every=2))
    dealt(lb, range(3 * comm.size), lambda key: [key])
    if case == "constructor" and odd:
        pylb.Balancer(comm, strategy="nonsense")
    if case == "all raise":
        misbehave(case)
    for it in lb.iterate(6):
        for key, _ in lb.local():
            lb.send((key + 1) % (3 * comm.size), key, b"x" * 100000)
        if it == 3 and odd:
            misbehave(case)
            if case == "break":
                break
        elif it == 3 and case == "blocked":
            comm.recv(source=comm.size - 1)
        elif it == 3 and case == "signal" and comm.rank == 0:
            alarm(1)  # while it waits for the others
    if case == "afterwards" and odd:
        raise ValueError("after the loop")
    if case == "one loop more" and not odd:
        list(lb.iterate(2))
    return ""


def with_lag(kind, lag, block):
    """Return a balancer whose objects all move in each LB step."""
    lb = kind(comm, lag=lag, strategy=rotate, load=lambda key, block: 1.0, every=8)
    KEPT.append(lb)
    return dealt(lb, range(3 * comm.size), block)


def lagged(case):
    """A loop with a lag; its LB step after iteration 7 is announced from iteration 2 on."""
    lb = with_lag(pylb.Balancer, 2, lambda key: [key])

    def loop():
        for it in lb.iterate(N):
            for _ in lb.local():
                pass
            if odd and it == 5:
                misbehave(case)
                if case in ("break", "break alone"):
                    break
            elif odd and it == 7 and case == "pause":
                alarm(0.3)  # while the rank waits for the statistics of the final iteration
            elif not odd and it == 5 and case == "blocked":
                comm.recv(source=comm.size - 1)
            elif not odd and it == 3 + comm.rank and case == "all raise":
                raise ValueError("everybody")
            elif not odd and it == 7 and case == "pause":
                time.sleep(1)

    with contextlib.suppress(*[ValueError] * (case == "caught")):
        loop()
    if case == "caught":
        time.sleep(0.2 * comm.rank)
        list(lb.iterate(3))
    if case == "break alone":
        lb.finish()
        comm.Barrier()  # the other ranks call it after their last iteration
    return progress(lb)


def objects(case):
    """Objects of which each goes on by itself."""
    lb = with_lag(pylb.AsyncBalancer, math.inf if "inf" in case else 2, lambda key: {"k": 0})

    def loop():
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

    with contextlib.suppress(*[ValueError] * ("caught" in case)):
        loop()
    if "caught" in case:
        lb.finish()
        list(lb.iterate(3))
    return progress(lb)


def progress(lb):
    """Return the number of iterations, and those of LB steps."""
    return f": {len(lb.metrics.time)} {[r.iteration for r in lb.history.lb_steps]}"


def advisor(case, lag):
    """A program with an advisor."""
    if case == "moving":  # the last rank fails while a megabyte of each cell is on its way
        lb = pylb.Advisor(comm, lag=lag, every=2, strategy=rotate)
        keys = 4 * comm.rank + np.arange(4)
        for _ in lb.iterate(9):
            if plan := lb.advise(loads=np.ones(4), keys=keys):
                pending = plan.migrate_begin(np.ones((4, 1 << 17)), keys)
                if odd:
                    raise ValueError("cell 7 is broken")
                _, keys = pending.wait()
    KEPT.append(lb := pylb.Advisor(comm, lag=lag))
    for step in range(9) if "own" in case else lb.iterate(9):
        if odd and step == 3:
            misbehave("raise" if case == "own loop" else case)
            if case == "skip":
                continue
        lb.advise(seconds=1.0)
    return ""


said = globals()[sys.argv[1]](*sys.argv[2:3], *map(int, sys.argv[3:]))
print(f"rank {comm.rank} is through{said}", flush=True)
