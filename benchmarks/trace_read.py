"""How long it takes to read a recorded run, compared with json.load on the same files.

    python benchmarks/trace_read.py [--ranks 256] [--tasks 466000] [--json out.json]

A run like the recorded ones (keys as vt writes them, communications, subphases) is written to a
temporary folder, plain and compressed by Brotli.  Then it is read by pylb.Trace.load, by json.load
alone, by json.load with plain loops into arrays, and by orjson if that is installed.  Each time is
the shortest of several; the readers take turns.  Ratios are to json.load in the same run.
"""

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path

import brotli
import numpy as np

import pylb

SUBPHASES = 2
COMMS_PER_TASK = 0.34


def entity(i, home):
    return {
        "collection_id": 3,
        "home": home,
        "id": (i << 18) + (home << 2) + 3,
        "index": [home, i],
        "migratable": True,
        "type": "object",
    }


def task(draw, i, rank):
    seconds = draw.lognormvariate(-6, 1)
    return {
        "entity": entity(i, rank),
        "node": rank,
        "resource": "cpu",
        "subphases": [{"id": s, "time": seconds / SUBPHASES} for s in range(SUBPHASES)],
        "time": seconds,
    }


def communication(draw, i, n, rank, ranks):
    return {
        "bytes": float(draw.randrange(64, 1 << 16)),
        "from": entity(i, rank),
        "messages": draw.randrange(1, 30),
        "to": entity(draw.randrange(n), (rank + 1) % ranks),
        "type": "SendRecv",
    }


def text(rank, args):
    """Return the text of a rank's file: tasks, and messages to a neighbour, as vt writes them."""
    draw = random.Random(rank)
    n = args.tasks // (args.ranks * args.phases)
    phases = [
        {
            "communications": [
                communication(draw, i, n, rank, args.ranks) for i in range(int(n * COMMS_PER_TASK))
            ],
            "id": phase,
            "tasks": [task(draw, i, rank) for i in range(n)],
        }
        for phase in range(args.phases)
    ]
    file = {"metadata": {"rank": rank, "type": "LBDatafile"}, "phases": phases}
    return json.dumps({**file, "type": "LBDatafile"}, separators=(",", ":")).encode()


def generate(plain, packed, args):
    size = 0
    for rank in range(args.ranks):
        data = text(rank, args)
        size += len(data)
        (plain / f"data.{rank}.json").write_bytes(data)
        (packed / f"data.{rank}.json").write_bytes(brotli.compress(data, quality=5))
    return size


def files(folder):
    return [Path(folder, f"data.{r}.json") for r in range(len(os.listdir(folder)))]


def json_load(folder):
    out = []
    for path in files(folder):
        with open(path) as file:
            out.append(json.load(file))
    return out


def loops(folder):
    """Read a run as a plain loader does: into dicts, then by loops into arrays."""
    load, rank, key, size = [], [], [], []
    for file in json_load(folder):
        for phase in file["phases"]:
            for task in phase["tasks"]:
                load.append(task["time"])
                rank.append(task["node"])
                key.append(task["entity"]["id"])
            size.extend(c["bytes"] for c in phase["communications"])
    return np.array(load), np.array(rank), np.array(key), np.array(size)


def brotli_json(folder):
    return [json.loads(brotli.decompress(path.read_bytes())) for path in files(folder)]


def orjson_loads(folder):
    import orjson

    return [orjson.loads(path.read_bytes()) for path in files(folder)]


def readers(plain, packed, args):
    out = {
        "json.load": lambda: json_load(plain),
        "json.load and loops": lambda: loops(plain),
        "pylb": lambda: pylb.Trace.load(plain),
        "pylb, one thread": lambda: pylb.Trace.load(plain, threads=1),
        "json and Brotli": lambda: brotli_json(packed),
        "pylb, Brotli": lambda: pylb.Trace.load(packed),
    }
    try:
        import orjson  # noqa: F401
    except ImportError:
        return out
    return {**out, "orjson.loads": lambda: orjson_loads(plain)}


def measure(calls, repeats):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            result = call()
            best[name] = min(best[name], time.perf_counter() - start)
            del result
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--tasks", type=int, default=466_000)
    parser.add_argument("--phases", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder, "plain"), Path(folder, "brotli")
        plain.mkdir()
        packed.mkdir()
        size = generate(plain, packed, args)
        trace = pylb.Trace.load(plain)
        print(f"{trace}\n{size / 1e6:.0f} MB, {size / len(trace.task_load):.0f} bytes per task")
        best = measure(readers(plain, packed, args), args.repeats)
    base = best["json.load"]
    print(f"{'reader':22}{'seconds':>9}{'of json.load':>14}{'MB/s':>8}")
    for name, seconds in best.items():
        print(f"{name:22}{seconds:9.3f}{seconds / base:14.3f}{size / seconds / 1e6:8.0f}")
    if args.json:
        figures = {
            "ranks": args.ranks,
            "tasks": len(trace.task_load),
            "bytes": size,
            "seconds": best,
            "of_json_load": {name: s / base for name, s in best.items()},
        }
        Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
