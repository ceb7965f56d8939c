"""A rank dies: ``mpiexec -n 3 python tests/mpi/dying.py WAY AT HOW FOLDER``.

WAY is how objects are balanced (BALANCED), or names a service, a function of this file.  The last
rank dies at AT: with objects, the name of a `Step` of the LB step, or BODY, while objects come and
go; in a service, its AT-th collective step (0: the first; "count": no rank dies, and rank 0 prints
the names of the steps).  HOW is kill, exit, raise, interrupt, late, memory (the next allocation of
pylb fails; no_malloc.c is preloaded) or call (the next call of MPI fails; faulty_mpi.c is
preloaded).  If the
rank raises, every rank prints how it ended; otherwise mpiexec reports the end.
"""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import preloaded  # noqa: F401 before MPI
from each_case import dealt, rotate
from mpi4py import MPI

import pylb
from pylb.comm.agreement import Agreement, Step

comm = MPI.COMM_WORLD
way, at, how, folder = *sys.argv[1:4], Path(sys.argv[4])
odd = comm.rank == comm.size - 1
armed = False
names = []


def rotate_slowly(snapshot):
    time.sleep(0.3)
    return rotate(snapshot)


BALANCED = {
    "central": {"strategy": rotate, "overlap": False},
    "overlap": {"strategy": rotate, "overlap": True},
    "beside": {"strategy": rotate_slowly, "overlap": True},
    "distributed": {"strategy": "GossipLB", "overlap": False},
    "shadow": {"strategy": "GreedyLB", "mode": "shadow"},
    "lagged": {"strategy": rotate, "lag": 1, "overlap": False},
}


def die(place):
    print(f"rank {comm.rank} comes to {place} at {time.time()}", flush=True)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif how == "interrupt":
        signal.raise_signal(signal.SIGINT)
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
    names.append(Step(sample[0]).name)
    if way not in BALANCED:
        if odd and at == str(len(names) - 1):
            die(names[-1])
    elif armed and names[-1] == at:
        armed = False
        die(at)
    return take(self, sample, *args, **words)


take, Agreement.take = Agreement.take, faulty


def objects():
    """Two LB steps, a checkpoint, and a report of the record."""
    global armed
    record, n = False if way == "lagged" else folder / "run.h5", 4 * comm.size
    then = 5 if way == "beside" else 2  # "beside": the second call of the strategy is in a thread
    lb = pylb.Balancer(comm, every=3, record=record, **BALANCED[way])
    dealt(lb, range(n), lambda key: [key, bytes(1 << 21)])
    for it in lb.iterate(then + 4):
        armed = armed or (odd and it == then and at != "BODY")
        for key, _ in lb.local():
            if odd and it == then + 1 and at == "BODY" and not armed:
                armed = True
                die(at)
            if way == "distributed":
                time.sleep(1e-3 * (1 + 4 * odd))  # an imbalance, so that objects migrate
            if way != "lagged":
                lb.send((key + 1) % n, key, it)
    armed = armed or (odd and at in ("CHECKPOINT", "RECORD", "RECORDS"))
    lb.checkpoint(folder / "c")
    if record:
        lb.report(folder / "run.json")


def advisor(lag=0, **words):
    """Cells that migrate as the plan says."""
    lb = pylb.Advisor(comm, every=2, lag=lag, strategy="GreedyLB", **words)
    keys = np.arange(4) + 4 * comm.rank
    load = np.ones(4) * (1 + 4 * odd)
    for _ in lb.iterate(6):
        if advice := lb.advise(loads=load, keys=keys):
            keys, load = advice.migrate(keys, load)


def lag():
    advisor(lag=1)


def ahead(lag=0):
    """Cells that migrate while the next step computes."""
    lb, plan = pylb.Advisor(comm, every=2, lag=lag, strategy="GreedyLB"), None
    keys, load = np.arange(4) + 4 * comm.rank, np.ones(4) * (1 + 4 * odd)
    for _ in lb.iterate(7):
        pending = plan.migrate_begin(keys, load) if plan else None
        plan = lb.advise(loads=load, keys=keys, ahead=True)
        if pending:
            keys, load = pending.wait()


def ahead_lag():
    ahead(lag=1)


def asked():
    """A trigger of the user, whose answers the ranks compare."""
    lb = pylb.Advisor(comm, trigger=lambda cycle: cycle.n >= 2)
    for _ in lb.iterate(6):
        if lb.advise(seconds=1.0 + odd):
            lb.rebalanced(0.1)


def partition():
    n = 40
    start = np.arange(n + 1) * 2
    here = np.arange(n) + n * comm.rank
    total = n * comm.size
    to = np.stack([(here + 1) % total, (here - 1) % total], 1).reshape(-1)
    made = pylb.partition((start, to), comm.size, comm=comm)
    coords = np.stack([here / total, (here * 7 % 13) / 13.0], 1)
    pylb.partition(coords=coords, parts=comm.size, comm=comm, method="rib")
    assert len(made.part) == n


def directory():
    d = pylb.Directory(comm, "f8")
    ids = np.arange(5) * comm.size + comm.rank
    d.update(ids, data=ids * 1.0)
    assert (d.find(np.arange(5 * comm.size)).data == np.arange(5 * comm.size)).all()
    d.remove(ids[:2])


def plan():
    made = pylb.Plan(comm, (np.arange(8) + comm.rank) % comm.size)
    x = made.forward(np.arange(8.0))
    made.reverse(x)
    made.begin(np.arange(8.0)).wait()
    pylb.comm.plan_between(comm, np.arange(3) + 3 * comm.rank, np.arange(3) + 3 * comm.rank)


def migrate():
    to = (np.arange(8) + comm.rank) % comm.size
    pylb.migrate(comm, np.arange(8.0), to=to)
    pylb.migrate(comm, [{"a": comm.rank}] * 8, to=to)


def rows():
    part = pylb.RowPartition(comm, 40)
    mine = np.arange(40.0)[part.local]
    for _ in range(4):
        with part.timed():
            time.sleep(1e-3 * (1 + 5 * odd))
        mine = part.redistribute(mine)


def tiles():
    part = pylb.TilePartition(comm, (20, 20))
    mine = np.zeros((20, 20))[part.local]
    for _ in range(3):
        with part.timed():
            time.sleep(1e-3 * (1 + 5 * odd))
        mine = part.redistribute(mine)


objects() if way in BALANCED else globals()[way]()
if at == "count" and comm.rank == 0:
    print("steps", *names, flush=True)
print(f"rank {comm.rank} is through", flush=True)
