"""Work lent within a step: time over the bound, for fronts, random costs and unlike ranks.

    python benchmarks/share.py [--ranks 2 4 8] [--calls 30] [--quick] [--json out.json]

A row takes its cost in sleeping, which needs no core, so that 8 ranks run on two cores as on eight.
A sleep that ends late shortens the next one, so that all sleeps of a rank take its work together.
The bound of a call is all work divided by the sum of the speeds.

front: a tenth of the rows, which moves, is 20 times as heavy; persistent: log-normal costs that
stay; jumping: log-normal costs that are new in each call; speeds: the ranks are 1, 2, 4 and 8 times
as fast; even: nothing to gain.  "at home" is the time without lending, by the same costs.
"overhead" is a call with nothing to lend, less the time of its function, over an Iallreduce of the
same bytes.

``--cases chemistry`` needs Cantera: the flame front of examples/chemistry.py at home, with `share`,
with pylb's migration of the cells, with mpi4py.futures, whose rank 0 only hands out tasks, and with
dask.distributed (if it is there), as many workers as ranks.  The bound is the mean processor time
of the ranks at home.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import answer_of

import pylb
from pylb.console import show

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))

LIMITS = {"front": 1.05, "persistent": 1.03, "jumping": 1.10, "speeds": 1.06, "even": 1.01}


def costs(case: str, n: int, calls: int, p: int) -> np.ndarray:
    """Return the cost of each row in each call, (calls, n); the rows of a rank are contiguous."""
    rng = np.random.default_rng(1)
    if case == "front":
        out = np.ones((calls, n))
        for k in range(calls):
            at = (np.arange(n // 10) + k * n // 100) % n
            out[k, at] = 20.0
        return out
    if case == "jumping":
        return rng.lognormal(0.0, 1.0, (calls, n))
    if case == "persistent":
        return np.tile(rng.lognormal(np.repeat(rng.normal(0, 0.5, p), n // p), 1.0), (calls, 1))
    return np.ones((calls, n))


def rank_program(case: str, calls: int, seconds: float, rows: int) -> None:
    """Run the calls under MPI; rank 0 prints the results."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    n, p, r = rows * comm.size, comm.size, comm.rank
    cost = costs(case, n, calls, p)
    speed = 2.0 ** (np.arange(p) % 4) if case == "speeds" else np.ones(p)
    cost *= seconds * p / cost.sum(axis=1, keepdims=True)  # mean time of a rank at speed 1
    mine = slice(r * rows, (r + 1) * rows)

    owed = 0.0
    ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK: sleeps end within a microsecond

    def compute(work: np.ndarray, x: np.ndarray) -> np.ndarray:
        nonlocal owed
        owed += float(work.sum()) / speed[r]
        begin = time.perf_counter()
        if owed > 0.0:
            time.sleep(owed)
        owed -= time.perf_counter() - begin
        return x * 2.0

    sharer = pylb.Sharer(comm)
    x = np.arange(float(n))[mine]
    took = np.zeros(calls)
    for k in range(calls):
        comm.Barrier()
        begin = time.perf_counter()
        y = sharer.share(compute, cost[k, mine], x)
        comm.Barrier()
        took[k] = time.perf_counter() - begin
        assert np.array_equal(y, 2.0 * x)
    comm.Allreduce(MPI.IN_PLACE, took, MPI.MAX)
    if r == 0:
        bound = cost.sum(axis=1) / speed.sum()
        home = (cost.reshape(calls, p, rows).sum(axis=2) / speed).max(axis=1)
        half = slice(calls // 3, None)  # the first calls learn
        print(
            json.dumps(
                {
                    "over": float(took[half].sum() / bound[half].sum()),
                    "median": float(np.median(took[half] / bound[half])),
                    "home": float(home[half].sum() / bound[half].sum()),
                    "rows": float(np.mean(sharer.metrics["rows"][half])),
                    "each": [round(v, 3) for v in (took / bound).tolist()],
                }
            )
        )


def overhead_program() -> None:
    """Print the time of a call with nothing to lend, and that of an Iallreduce."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    sharer, x = pylb.Sharer(comm), np.zeros(4)
    send, receive = np.zeros(9), np.zeros(9)

    def call() -> None:
        sharer.share(np.negative, x)

    def bare() -> None:
        comm.Iallreduce(send, receive).Wait()

    least = [np.inf] * 3
    for _ in range(20):
        for k, one in enumerate((bare, call, lambda: np.negative(x))):
            comm.Barrier()
            begin = time.perf_counter()
            for _ in range(200):
                one()
            least[k] = min(least[k], (time.perf_counter() - begin) / 200)
    if comm.rank == 0:
        print(json.dumps({"bare": least[0], "call": least[1] - least[2]}))


def burn_here(T: np.ndarray, Y: np.ndarray) -> Any:
    """Burn cells: a task of mpi4py.futures."""
    global _chemistry
    if _chemistry is None:
        from chemistry import chemistry

        _chemistry = chemistry()
    return _chemistry[0](T, Y)


_chemistry: Any = None


def chemistry_program(cells: int, steps: int) -> None:
    """Run the flame front in several ways; print the seconds of each, and the bound."""
    from mpi4py import MPI
    from mpi4py.futures import MPICommExecutor

    comm = MPI.COMM_WORLD
    n, out = cells // comm.size, {}
    burn_here(np.zeros(0), np.zeros((0, 1)))
    fresh = _chemistry[1]
    for way in ("at home", "share", "migration", "mpi4py.futures"):
        place = (n * comm.rank + np.arange(n)) / (n * comm.size)
        T, Y = np.full(n, 300.0), np.tile(fresh, (n, 1))
        sharer, lb, seconds, busy = pylb.Sharer(comm), pylb.Advisor(comm), 0.0, 0.0
        for step in range(steps):
            front = np.abs(place - (step + 0.5) / steps) < 0.05
            T[front], Y[front] = 1800.0, fresh
            comm.Barrier()
            begin, cpu = MPI.Wtime(), time.process_time()
            if way == "at home":
                T, Y = burn_here(T, Y)
                cpu = time.process_time() - cpu
            elif way == "share":
                T, Y = sharer.share(burn_here, T, Y)
            elif way == "migration":
                loads = np.zeros(len(T))
                for k in range(len(T)):
                    start = lb.seconds()
                    T[k : k + 1], Y[k : k + 1] = burn_here(T[k : k + 1], Y[k : k + 1])
                    loads[k] = lb.seconds() - start
                if plan := lb.advise(
                    loads=loads, nbytes=np.full(len(T), 8 + Y.itemsize * Y.shape[1])
                ):
                    with lb.rebalancing():
                        T, Y, place = (plan.migrate(a) for a in (T, Y, place))
            else:
                parts = comm.gather((T, Y))
                with MPICommExecutor(comm, root=0) as pool:
                    if pool is not None:
                        T, Y = (np.concatenate(a) for a in zip(*parts, strict=True))
                        chunks = [np.array_split(a, len(T) // 20) for a in (T, Y)]
                        done = list(pool.map(burn_here, *chunks))
                        whole = [np.concatenate(a) for a in zip(*done, strict=True)]
                        parts = list(zip(*(np.split(a, comm.size) for a in whole), strict=True))
                T, Y = comm.scatter(parts)
            comm.Barrier()
            if step:  # the first step loads and learns
                seconds += MPI.Wtime() - begin
                busy += cpu
            front = np.abs(place - (step + 0.5) / steps) < 0.05
            T[~front], Y[~front] = 300.0, fresh
        out[way] = seconds
        if way == "at home":
            out["bound"] = comm.allreduce(busy) / comm.size
        total = comm.allreduce(float(T.sum()))
        assert abs(total / out.setdefault("sum", total) - 1.0) < 1e-12
    if comm.rank == 0:
        print(json.dumps(out))


def dask_seconds(workers: int, cells: int, steps: int) -> float:
    """Return the seconds of the flame front with dask.distributed; this process owns the rows."""
    sys.path.append(sys.path.pop(0))  # a benchmark in this folder is named distributed.py, too
    from chemistry import chemistry
    from dask.distributed import Client, LocalCluster
    from share import burn_here as task  # of a module, which workers import; not of __main__

    fresh, seconds, place = chemistry()[1], 0.0, np.arange(cells) / cells
    T, Y = np.full(cells, 300.0), np.tile(fresh, (cells, 1))
    cluster = LocalCluster(workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.run(sys.path.extend, sys.path)
        for step in range(steps):
            front = np.abs(place - (step + 0.5) / steps) < 0.05
            T[front], Y[front] = 1800.0, fresh
            begin = time.perf_counter()
            chunks = [np.array_split(a, cells // 20) for a in (T, Y)]
            done = client.gather(client.map(task, *chunks, pure=False))
            T, Y = (np.concatenate(a) for a in zip(*done, strict=True))
            seconds += (time.perf_counter() - begin) * (step > 0)
            T[~front], Y[~front] = 300.0, fresh
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0.1, help="mean time of a rank in a call")
    parser.add_argument("--cases", nargs="*", default=list(LIMITS))
    parser.add_argument("--cells", type=int, default=2000, help="of the chemistry")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", default="")
    parser.add_argument("--program", nargs="*")
    args = parser.parse_args()
    if args.program:
        if args.program[0] == "overhead":
            return overhead_program()
        if args.program[0] == "chemistry":
            return chemistry_program(*map(int, args.program[1:]))
        case, calls, seconds, rows = args.program
        return rank_program(case, int(calls), float(seconds), int(rows))
    if args.cases == ["chemistry"]:
        for ranks in args.ranks:
            cells = args.cells // ranks * ranks
            found = answer_of(ranks, "chemistry", cells, args.calls)
            if find_spec("dask"):
                found["dask.distributed"] = dask_seconds(ranks, cells, args.calls)
            bound = found.pop("bound")
            found.pop("sum")
            ratios = [[way, seconds, seconds / bound] for way, seconds in found.items()]
            show(["way", "s", "/bound"], ratios, title=f"A flame front on {ranks} ranks")
        return None
    calls = 9 if args.quick else args.calls
    rows = []
    for ranks in args.ranks:
        for case in args.cases:
            found = answer_of(ranks, case, calls, args.seconds, args.rows)
            rows.append([ranks, case, found["home"], found["over"], found["median"], LIMITS[case]])
            rows[-1].append(found["rows"])
            print(case, ranks, found["each"], file=sys.stderr)
    head = ["ranks", "costs", "at home", "/bound", "median", "limit", "rows lent by rank 0"]
    show(head, rows, title="Time of the call over its bound")
    found = answer_of(2, "overhead")
    ratio = found["call"] / found["bare"]
    show(
        ["Iallreduce s", "share s", "ratio", "limit"], [[found["bare"], found["call"], ratio, 1.5]]
    )
    if args.json:
        save(args.json, {"rows": rows, "overhead": found})


if __name__ == "__main__":
    main()
