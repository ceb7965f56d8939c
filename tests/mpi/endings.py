"""Programs that fail: ``mpiexec -n 3 python tests/mpi/endings.py CASE``.

All ranks must end soon, with a non-zero exit code and a message that says what happened.
"""

import os
import signal
import subprocess
import sys
import time

from mpi4py import MPI

import pylb

comm = MPI.COMM_WORLD
case = sys.argv[1]
odd_one = comm.size - 1
others = [pylb.Balancer(comm.Dup()) for _ in range(2)]  # no rank waits on these communicators
lb = pylb.Balancer(comm, strategy=(lambda s: s.rank), every=2)
for key in range(3 * comm.size):
    if key % comm.size == comm.rank:
        lb.add(key, [key])


def misbehave(it):
    if case == "raise" and it == 3:
        raise ValueError("block 7 is broken")
    if case == "exit" and it == 3:
        sys.exit(0)
    if case == "interrupt" and it == 3:
        raise KeyboardInterrupt
    if case == "blocked" and it == 3:
        raise ValueError("nobody hears me")
    if case == "signal" and it == 3:
        time.sleep(30)
    if case == "stop" and it == 3:
        with subprocess.Popen(["sh", "-c", f"sleep 2; kill -CONT {os.getpid()}"]):
            os.kill(os.getpid(), signal.SIGSTOP)


if case == "constructor" and comm.rank == odd_one:
    pylb.Balancer(comm, strategy="nonsense")
if case == "all raise":
    raise ValueError("everybody")
for it in lb.iterate(6):
    for key, _ in lb.local():
        lb.send((key + 1) % (3 * comm.size), key, b"x" * 100000)
    if comm.rank == odd_one:
        misbehave(it)
        if case == "break" and it == 3:
            break
    elif case == "blocked" and it == 3:
        comm.recv(source=odd_one)
    elif case == "signal" and it == 3 and comm.rank == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.alarm(1)  # Ctrl-C on a rank that waits for the others
if case == "afterwards" and comm.rank == odd_one:
    raise ValueError("after the loop")
if case == "one loop more" and comm.rank != odd_one:
    list(lb.iterate(2))
print(f"rank {comm.rank} is through", flush=True)
