"""Bytes that a rank sends, receives and keeps, for growing numbers of ranks.

    python benchmarks/growth.py [--ranks 2,4,8,16,64,256,1024] [--objects 16]

The real runtime runs on virtual ranks, with a fixed number of objects per rank.  The objects form a
ring, and each sends to the next two.  On one rank in eight, objects take three times as long.
There are two LB steps, with the central BestFitLB and with each distributed strategy.  The results
are the bytes of the rank that sends, receives or keeps the most, for one LB step and the iterations
around it:

statistics   records that all ranks merge: log2(p) messages of 232 bytes
directory    addresses of objects: new ones, moved ones, requests
placement    the load database, the messages of agents, the new ranks
migration    the objects that move, and the announcements of their sizes
messages     of the program's own objects
collectives  what a rank receives by collective calls, whose result is the same on all ranks
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from common.figures import save

import pylb
from pylb import _core
from pylb.comm.agreement import Step
from pylb.comm.connect import Virtual
from pylb.console import show

STRATEGIES = ("BestFitLB", "GossipLB", "HierarchicalLB", "DiffusionLB")
PARTS = {
    "directory": (Step.CHANGES, Step.MOVED, Step.DIRECTORY),
    "placement": (Step.GATHER, Step.PLACE),
    "migration": (Step.PACK, Step.ALLOCATE, Step.MIGRATE, Step.COMMIT),
    "messages": (Step.SYNC, Step.FORWARD, Step.MESSAGES, Step.FIRST_MESSAGES),
}
PART_OF = {kind: part for part, kinds in PARTS.items() for kind in kinds}
EVERY, ITERATIONS = 3, 8  # two LB steps


class Traffic:
    """Counts the bytes that each rank sends and receives, by part, and its collective steps.

    Attributes
    ----------
    sent, received : dict of (p,) int64
    steps : int
        Collective steps of each rank.
    """

    def __init__(self, p: int) -> None:
        self.sent = defaultdict(lambda: np.zeros(p, np.int64))
        self.received = defaultdict(lambda: np.zeros(p, np.int64))
        self.steps = 0

    def add(self, part: str, rank: int, sends: Any) -> None:
        """Add the bytes that a rank sends in a step."""
        for to, parts in sends:
            nbytes = sum(memoryview(piece).nbytes for piece in parts)
            self.sent[part][rank] += nbytes
            self.received[part][to] += nbytes

    def most(self) -> dict[str, tuple[int, int]]:
        """The largest number of bytes that a rank has sent, and received, by part."""
        return {
            part: (int(self.sent[part].max()), int(self.received[part].max())) for part in PARTS
        }


@contextmanager
def counted(p: int) -> Iterator[Traffic]:
    """Count what the virtual ranks send."""
    out, step, allgather, bcast = Traffic(p), Virtual.step, Virtual.allgather, Virtual.bcast

    def counting_step(self: Virtual, sample: Any, sends: Any, into: Any = None) -> Any:
        out.steps += self.rank == 0
        out.add(PART_OF.get(sample[0], "rest"), self.rank, sends)
        return step(self, sample, sends, into)

    def counting_allgather(self: Virtual, data: Any) -> list[bytes]:
        found = allgather(self, data)
        out.received["collectives"][self.rank] += sum(map(len, found))
        return found

    def counting_bcast(self: Virtual, array: Any, root: int) -> None:
        out.received["collectives"][self.rank] += array.nbytes
        bcast(self, array, root)

    Virtual.step, Virtual.allgather = counting_step, counting_allgather  # type: ignore[method-assign]
    Virtual.bcast = counting_bcast  # type: ignore[method-assign]
    try:
        yield out
    finally:
        Virtual.step, Virtual.allgather = step, allgather  # type: ignore[method-assign]
        Virtual.bcast = bcast  # type: ignore[method-assign]


def kept(lb: pylb.Balancer) -> tuple[int, int]:
    """Return the bytes that a rank keeps to know where objects are, and for its own objects."""
    objects = lb._objects
    places = objects.addresses
    columns = [objects.keys, objects.seconds, objects.window, objects.estimates]
    own = sum(x.nbytes for x in [*columns, *objects.table.columns.values()])
    return places.nbytes, own


def run(p: int, strategy: str, n: int, **facts: Any) -> dict[str, Any]:
    """Run a program on p virtual ranks with n objects each; facts: arguments of `Balancer`."""

    def main(comm: Any) -> Any:
        every = n * comm.size
        lb = pylb.Balancer(
            comm, strategy=strategy, every=EVERY, record=False, pause_if_useless=False, **facts
        )
        for key in range(n * comm.rank, n * (comm.rank + 1)):
            lb.add(key, key)
        for _ in lb.iterate(ITERATIONS):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (3 if key // n % 8 == 0 else 1) * (1 + key % 3))
                for step in (1, 2):
                    lb.send((key + step) % every, key, 1.0)
        last = lb.history.lb_steps[-1] if comm.rank == 0 else None
        return last, kept(lb), (lb.metrics.max[-1], lb.metrics.mean[-1])

    start = time.perf_counter()
    with counted(p) as traffic:
        done = pylb.VirtualCluster(p, clock="none").run(main)
    places, own = np.array([each[1] for each in done]).max(axis=0)
    last, _, row = done[0]
    return {
        "ranks": p,
        "strategy": strategy,
        "max/mean": row[0] / row[1],
        "moved": last.migrations,
        "steps": traffic.steps,
        "statistics": traffic.steps * _core.STATS_BYTES * max(1, (p - 1).bit_length()),
        **traffic.most(),
        "collectives": int(traffic.received["collectives"].max()),
        "kept, places": int(places),
        "kept, own": int(own),
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    """Run, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="2,4,8,16,64,256,1024")
    parser.add_argument("--objects", type=int, default=16, help="objects per rank")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--json", default="out/growth.json")
    args = parser.parse_args()
    rows = [
        run(int(p), strategy, args.objects)
        for p in args.ranks.split(",")
        for strategy in args.strategies.split(",")
    ]
    cells = [
        [f"{x[0]:,} / {x[1]:,}" if isinstance(x, tuple) else x for x in row.values()]
        for row in rows
    ]
    show(list(rows[0]), cells)
    print("bytes: the most that a rank sent / the most that a rank received")
    save(args.json, {"objects a rank": args.objects, "rows": rows})


if __name__ == "__main__":
    main()
