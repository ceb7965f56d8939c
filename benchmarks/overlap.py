"""What a program feels of an LB step that moves large objects: pause, and longer iterations.

    python benchmarks/overlap.py [--megabytes 16] [--steps 8] [--json out.json]
    python benchmarks/overlap.py --steps 1 --picture docs/images/overlap.png

2 ranks, 64 objects, half a second of computing an iteration; each LB step moves 16 objects, 8 in
each direction.  The pause is the time from the last loop body of an iteration to the first of the
next one, on the slower rank, minus that without an LB step.  "bare": the same bytes by Isend and
Irecv into new memory, nothing else.  Each figure is the least of all LB steps; "cpu" counts only
processor time, so that other programs on the cores disturb it less.  The picture shows the ranks in
the iterations around an LB step.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from common.figures import save
from common.mpi import answer_of

import pylb
from pylb.console import show

N, MOVED, EVERY, SECONDS = 64, 8, 3, 0.5


def swapped(snapshot: pylb.Snapshot) -> np.ndarray:
    rank = snapshot.rank.copy()
    for r in (0, 1):
        rank[np.flatnonzero(snapshot.rank == r)[:MOVED]] = 1 - r
    return rank


def compute(seconds: float, numbers: np.ndarray) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        np.sqrt(numbers).sum()


def rank_program(way: str, megabytes: float, steps: int, record: str | bool) -> None:
    """Run the iterations under MPI; rank 0 prints the figures."""
    from mpi4py import MPI

    comm, numbers = MPI.COMM_WORLD, np.arange(2000.0)
    size = int(megabytes * 1e6)
    if way == "bare":
        seconds = []
        for _ in range(steps):
            out = [np.ones(size, np.uint8) for _ in range(MOVED)]
            comm.Barrier()
            begin = time.perf_counter(), time.thread_time()
            into = [np.empty(size, np.uint8) for _ in range(MOVED)]
            requests = [comm.Irecv(part, 1 - comm.rank) for part in into]
            requests += [comm.Isend(part, 1 - comm.rank) for part in out]
            MPI.Request.Waitall(requests)
            seconds.append((time.perf_counter() - begin[0], time.thread_time() - begin[1]))
        found = comm.gather(seconds)
        if comm.rank == 0:
            pause = np.max(found, axis=0).min(axis=0).tolist()
            print(json.dumps({"pause": pause, "longer": [0.0, 0.0]}))
        return
    lb = pylb.Balancer(comm, strategy=swapped, every=EVERY, overlap=way == "overlap", record=record)
    for key in range(lb.rank, N, lb.n_ranks):
        lb.add(key, np.full(size // 8, float(key)), nbytes=size)
    first, last = [], []
    for _ in lb.iterate(EVERY * (steps + 1)):
        for i, (key, block) in enumerate(lb.local()):
            now = time.perf_counter(), time.thread_time()
            if i == 0:
                first.append(now)
            compute(2 * SECONDS / N, numbers)
            assert block[0] == block[-1] == key
            end = time.perf_counter(), time.thread_time()
        last.append(end)
    mine = np.array(first[1:]) - np.array(last[:-1]), np.array(last) - np.array(first)
    pauses, lengths = (np.max(comm.gather(x) or [x], axis=0) for x in mine)
    if comm.rank == 0:
        step = np.arange(len(pauses)) % EVERY == EVERY - 1
        pause = pauses[step].min(axis=0) - pauses[~step].min(axis=0)
        after, other = lengths[1:][step].min(axis=0), lengths[1:][~step].min(axis=0)
        print(json.dumps({"pause": pause.tolist(), "longer": (after / other - 1).tolist()}))


def draw(megabytes: float, steps: int, path: str) -> None:
    """Draw the ranks around the first LB step, without and with overlap, from recorded runs."""
    import matplotlib.pyplot as plt

    from pylb.show import course
    from pylb.show.plots import BLUE, GREY, VERMILLION, finish

    figure, ax = plt.subplots(figsize=(7.5, 3.0), layout="constrained")
    ticks, wide = [], {"linewidth": 0}
    with tempfile.TemporaryDirectory() as folder:
        for low, way in ((3, "at once"), (0, "overlap")):
            record = Path(folder, f"{way[:2]}.h5")
            answer_of(2, way.replace(" ", "_"), megabytes, steps, record)
            run = course.of(record).lanes(EVERY - 1, EVERY + 1, 2)[2][-1]
            decides = run.iteration[0]
            moves = decides + run.deciding[0]
            begin = moves + run.moving[0]
            for r in (0, 1):
                y, last = low + r, float(run.computing[r][1])
                bars = [(0.0, float(run.computing[r][0])), (begin, last)]
                ax.broken_barh(bars, (y, 0.9), color=BLUE, **wide)
                ax.broken_barh([(decides, run.deciding[0])], (y, 0.9), color="black", **wide)
                ax.broken_barh([(moves, run.moving[0])], (y, 0.9), color=VERMILLION, **wide)
                ax.broken_barh([(begin, run.hidden[1])], (y, 0.2), color=VERMILLION, **wide)
                ticks.append((y + 0.45, f"{way}, rank {r}"))
    for name, colour in (("computes", BLUE), ("decides", "black"), ("moves objects", VERMILLION)):
        ax.plot([], [], "s", color=colour, label=name)
    finish(ax, "seconds", "", whole="")
    ax.grid(axis="x", color=GREY, alpha=0.3)
    ax.set_yticks(*zip(*ticks, strict=True))
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=16.0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--json", default="")
    parser.add_argument("--picture", default="")
    parser.add_argument("--program", nargs="*")
    args = parser.parse_args()
    if args.program:
        way, megabytes, steps, *record = args.program
        return rank_program(way, float(megabytes), int(steps), *record or [False])
    if args.picture:
        return draw(args.megabytes, args.steps, args.picture)
    rows = []
    for way in ("at once", "overlap", "bare"):
        found = answer_of(2, way.replace(" ", "_"), args.megabytes, args.steps)
        rows.append([way, *(1e3 * x for x in found["pause"]), *(100 * x for x in found["longer"])])
    head = ["objects move", "pause ms", "cpu ms", "iteration longer %", "cpu %"]
    show(head, rows, title=f"An LB step of {2 * MOVED} objects of {args.megabytes:g} MB")
    if args.json:
        save(args.json, {"head": head, "rows": rows})


if __name__ == "__main__":
    main()
