"""A rank dies in an LB step: ``mpiexec -n 3 python tests/mpi/dying.py STATE HOW FOLDER WAY``.

STATE is the name of a `Step`, or BODY: while objects come and go (WAY is overlap).  HOW is kill,
exit, raise, late, memory (the next allocation of pylb fails; no_malloc.c is preloaded) or call (the
next call of MPI fails; faulty_mpi.c is preloaded).  WAY is central (the default), overlap,
distributed, shadow or lag.  If the rank raises, every rank prints how it ended; otherwise mpiexec
reports the end.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

if "FAULTY_LIBRARY" in os.environ and "LD_PRELOAD" not in os.environ:
    os.environ["LD_PRELOAD"] = os.environ["FAULTY_LIBRARY"]
    os.execv(sys.executable, [sys.executable, "-W", "error", *sys.argv])

from mpi4py import MPI

import pylb
from pylb.comm.agreement import Agreement, Step

comm = MPI.COMM_WORLD
place, how = sys.argv[1:3]
state = Step.__members__.get(place)
odd = comm.rank == comm.size - 1
armed = False
folder = Path(sys.argv[3])
way = sys.argv[4] if len(sys.argv) > 4 else "central"


def die():
    print(f"rank {comm.rank} comes to {place} at {time.time()}", flush=True)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif how == "raise":
        raise ValueError(f"broken at {place}")
    elif how == "memory":
        ctypes.CDLL(None).no_malloc_at(ctypes.c_int64(0))
    elif how == "call":
        ctypes.CDLL(None).faulty_next()
    else:  # how == "late": this rank comes late, which must not cause an error
        time.sleep(1.0)


def faulty(self, sample, *args, **words):
    global armed
    if armed and sample[0] == state:
        armed = False
        die()
    return take(self, sample, *args, **words)


take, Agreement.take = Agreement.take, faulty
HOW_TO_BALANCE = {
    "central": {"strategy": lambda s: (s.rank + 1) % s.n_ranks},
    "overlap": {"strategy": lambda s: (s.rank + 1) % s.n_ranks, "overlap": True},
    "distributed": {"strategy": "GossipLB"},
    "shadow": {"strategy": "GreedyLB", "mode": "shadow"},
    "lag": {"strategy": lambda s: (s.rank + 1) % s.n_ranks, "lag": 1},
}
record = False if way == "lag" else folder / "run.h5"
lb = pylb.Balancer(comm, every=3, record=record, **HOW_TO_BALANCE[way])
for key in range(comm.rank, 4 * comm.size, comm.size):
    lb.add(key, [key, bytearray(1 << 21 if way == "overlap" else 0)])
for it in lb.iterate(6):
    armed = armed or (odd and it == 2 and state is not None)
    for key, _ in lb.local():
        if odd and it == 3 and place == "BODY" and not armed:
            armed = True
            die()
        if way == "distributed":
            time.sleep(1e-3 * (1 + 4 * odd))  # an imbalance, so that objects migrate
        if way != "lag":
            lb.send((key + 1) % (4 * comm.size), key, it)
armed = armed or (odd and state in (Step.CHECKPOINT, Step.RECORD, Step.RECORDS))
lb.checkpoint(folder / "c")
if record:
    lb.report(folder / "run.json")
print(f"rank {comm.rank} is through: {len(lb.history.lb_steps)} LB steps", flush=True)
