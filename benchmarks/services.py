"""Data services: communication plans compared with Alltoallv, the directory with a Python dict.

    python benchmarks/services.py [--quick] [--ranks 2,3,4] [--json out/services.json]

The program starts itself under mpiexec for each number of ranks.  A time is that of the slowest
rank, the shortest of several repeats; pylb and the other variant take turns.

- dense: each rank sends the same amount to every rank.  The items are sorted by rank, so that
  `Alltoallv` needs no packing.  Target: at least 0.9 times the bandwidth of `Alltoallv` with the
  same buffers.
- unsorted: the same with items in any order; packing by the plan is compared with numpy.take.
- sparse: each rank sends only to the next one.  Target: faster than `Alltoallv`.
- directory: lookups of random ids, compared with a dict on each rank (ids modulo the number of
  ranks, grouped with NumPy, arrays through alltoall).  Target: faster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common.figures import save
from common.mpi import ask_mpi

import pylb
from pylb import console

Row = dict[str, Any]
SPARSE_KIB = (0.008, 1, 64, 4096)  # sizes of what a rank sends to the next rank
DENSE_KIB = (0.008, 1, 64, 1024, 4096)  # sizes of what a rank sends to each rank
# A call is repeated at least twice; LEAST times, if this takes less than LONGEST seconds; and up to
# MOST times, if all repeats take less than SECONDS.
LEAST, MOST = 7, 400
LONGEST, SECONDS = 15.0, 1.0


def in_turn(comm: Any, *calls: Callable[[], Any]) -> list[float]:
    """Return the shortest time of each call; a time is that of the slowest rank."""
    times: list[list[float]] = [[] for _ in calls]
    begin = time.perf_counter()
    more = True
    while more:
        for call, row in zip(calls, times, strict=True):
            comm.Barrier()
            start = time.perf_counter()
            call()
            row.append(time.perf_counter() - start)
        n, took = len(times[0]), time.perf_counter() - begin
        again = n < 2 or took < (LONGEST if n < LEAST else SECONDS if n < MOST else 0.0)
        more = comm.bcast(again)
    return [float(x) for x in np.min(comm.allreduce(np.array(times), op=_longest), axis=1)]


def _longest(a: Any, b: Any) -> Any:
    return np.maximum(a, b)


def alltoallv(comm: Any, to: Any) -> tuple[Callable[[], Any], Any, Any]:
    """Return a call of Alltoallv for items sorted by rank, its send buffer, its receive buffer."""
    counts = np.bincount(to, minlength=comm.size)
    come = np.array(comm.alltoall(counts.tolist()))
    send, receive = np.random.default_rng(comm.rank).random(len(to)), np.empty(come.sum())
    starts, places = (np.cumsum(c) - c for c in (counts, come))
    words = [send, counts, starts, None], [receive, come, places, None]
    from mpi4py import MPI

    words[0][3] = words[1][3] = MPI.DOUBLE
    return lambda: comm.Alltoallv(*words), send, receive


def patterns(comm: Any, quick: bool) -> list[Row]:
    out = []
    everyone, following = np.arange(comm.size), np.array([(comm.rank + 1) % comm.size])
    todo = [("dense", everyone, k) for k in DENSE_KIB] + [
        ("sparse", following, k) for k in SPARSE_KIB
    ]
    for name, ranks, kib in todo[:: 2 if quick else 1]:
        n = int(kib * 1024 / 8)
        to = np.repeat(ranks, n)
        theirs, send, receive = alltoallv(comm, to)
        theirs()
        want, mine = receive.copy(), np.empty_like(receive)
        plan = pylb.Plan(comm, to)
        assert np.array_equal(plan.forward(send, out=mine), want)
        seconds = in_turn(comm, partial(plan.forward, send, out=mine), theirs)
        least = 0.9 if name == "dense" else 1.0
        out.append(row(f"{name}, {kib:g} KiB", comm, seconds, 8 * len(to), least))
    return [*out, *unsorted(comm), *building(comm)]


def unsorted(comm: Any) -> list[Row]:
    """Time items in any order, which must be packed."""
    to = np.random.default_rng(comm.rank).permutation(np.repeat(np.arange(comm.size), 10**5))
    order = np.argsort(to, kind="stable")
    theirs, send, receive = alltoallv(comm, to)
    x = np.random.default_rng(comm.rank).random(len(to))
    plan, mine = pylb.Plan(comm, to), np.empty_like(receive)

    def packed() -> None:
        np.take(x, order, out=send, mode="clip")
        theirs()

    packed()
    assert np.array_equal(plan.forward(x, out=mine), receive)
    return [
        row(
            "unsorted, 781 KiB",
            comm,
            in_turn(comm, lambda: plan.forward(x, out=mine), packed),
            8 * len(to),
            1.0,
        )
    ]


def building(comm: Any) -> list[Row]:
    """Time making a plan, compared with Alltoall of the counts and a sort by NumPy."""
    to = np.random.default_rng(comm.rank).integers(0, comm.size, 10**6).astype(np.int32)

    def by_hand() -> None:
        counts, come = np.bincount(to, minlength=comm.size), np.empty(comm.size, np.int64)
        np.argsort(to, kind="stable")
        comm.Alltoall(counts, come)

    return [
        row(
            "plan for 10⁶ items", comm, in_turn(comm, lambda: pylb.Plan(comm, to), by_hand), 0, None
        )
    ]


def row(what: str, comm: Any, seconds: list[float], nbytes: int, least: float | None) -> Row:
    ours, theirs = seconds
    return {
        "what": what,
        "ranks": comm.size,
        "seconds": ours,
        "against_seconds": theirs,
        "bandwidth": comm.size * nbytes / ours / 1e9,
        "ratio": theirs / ours,
        "least": least,
    }


# ---- the directory -------------------------------------------------------------------------------


class DictDirectory:
    """A directory written in the obvious way: a dict on each rank, and alltoall of arrays."""

    def __init__(self, comm: Any, ids: Any) -> None:
        self.comm, self.of = comm, {}
        where = np.stack([ids, np.full(len(ids), comm.rank), np.arange(len(ids))], 1)
        for part in comm.alltoall(self._split(where, ids)[0]):
            for key, owner, local in part.tolist():
                self.of[key] = owner, local

    def _split(self, values: Any, ids: Any) -> tuple[list[Any], Any]:
        home = ids % self.comm.size
        order = np.argsort(home, kind="stable")
        ends = np.cumsum(np.bincount(home, minlength=self.comm.size))
        return np.split(values[order], ends[:-1]), order

    def find(self, ids: Any) -> Any:
        asked, order = self._split(ids, ids)
        of = self.of
        answers = [
            np.array([of[key] for key in part.tolist()], np.int64).reshape(-1, 2)
            for part in self.comm.alltoall(asked)
        ]
        out = np.empty((len(ids), 2), np.int64)
        out[order] = np.concatenate(self.comm.alltoall(answers))
        return out


def directory(comm: Any, quick: bool) -> list[Row]:
    n_ids, lookups = (10**5, 10**6) if quick else (2 * 10**6, 10**7)
    rng = np.random.default_rng(comm.rank)
    ids = np.arange(comm.rank, n_ids, comm.size)
    ask = rng.integers(0, n_ids, lookups // comm.size)
    ours, theirs = pylb.Directory(comm), DictDirectory(comm, ids)
    ours.update(ids)
    found, want = ours.find(ask), theirs.find(ask)
    assert np.array_equal(np.stack([found.owner, found.local], 1), want)
    seconds = in_turn(comm, lambda: ours.find(ask), lambda: theirs.find(ask))
    out = row(f"directory, {lookups:,} lookups", comm, seconds, 0, 1.0)
    held = comm.allgather(ours.nbytes)
    out["bytes_per_id"] = max(held) * comm.size / n_ids
    again = in_turn(comm, lambda: ours.update(ids), lambda: DictDirectory(comm, ids))
    return [out, row(f"directory, {n_ids:,} updates", comm, again, 0, 1.0)]


# ---- the program ---------------------------------------------------------------------------------


def measure(quick: bool) -> None:
    """Measure all services, on each of the ranks; rank 0 prints the rows."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rows = [*patterns(comm, quick), *directory(comm, quick)]
    if comm.rank == 0:
        print(json.dumps(rows))


def launch(ranks: int, quick: bool) -> list[Row]:
    ask_mpi()
    words = ["mpiexec", "-n", str(ranks), sys.executable, __file__, "--rank"]
    done = subprocess.run([*words, *["--quick"] * quick], stdout=subprocess.PIPE, check=True)
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def verdict(r: Row) -> str:
    return "" if r["least"] is None else "yes" if r["ratio"] >= r["least"] else "NO"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="half of the sizes; 10⁶ lookups, not 10⁷"
    )
    parser.add_argument("--ranks", default="1,2,3,4", help="numbers of ranks, with commas")
    parser.add_argument("--json", metavar="FILE", default="out/services.json")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        measure(args.quick)
        return
    rows = [r for n in args.ranks.split(",") for r in launch(int(n), args.quick)]
    console.show(
        ["what", "ranks", "ms", "against ms", "GB/s", "times as fast", "at least", "met"],
        [
            [
                r["what"], r["ranks"], 1e3 * r["seconds"], 1e3 * r["against_seconds"],
                r["bandwidth"] or None, r["ratio"], r["least"], verdict(r),
            ]
            for r in rows
        ],
    )  # fmt: skip
    for r in rows:
        if "bytes_per_id" in r:
            print(f"{r['ranks']} ranks: {r['bytes_per_id']:.0f} bytes per id on its rank")
    save(args.json, rows)


if __name__ == "__main__":
    main()
