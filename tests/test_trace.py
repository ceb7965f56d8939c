"""Recorded runs against a plain loader (json, dicts and loops)."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import pylb

brotli = pytest.importorskip("brotli")


def load(path):
    raw = Path(path).read_bytes()
    try:
        return json.loads(raw)
    except ValueError:
        return json.loads(brotli.decompress(raw))


class Twin:
    """A run as dicts and lists, straight from the description of the format."""

    def __init__(self, paths):
        self.ranks = [load(p) for p in paths]
        self.number = {}  # entity name to number
        self.phases = []
        for i in range(len(self.ranks[0]["phases"])):
            tasks, comms = [], []
            for rank in self.ranks:
                tasks += rank["phases"][i].get("tasks", [])
                comms += rank["phases"][i].get("communications", [])
            self.phases.append((tasks, comms))
        for tasks, _ in self.phases:
            for task in tasks:
                self.number.setdefault(self.name(task["entity"]), len(self.number))

    @staticmethod
    def name(entity):
        kind = next((k for k in ("id", "seq_id") if k in entity), None)
        return (entity["type"], kind, entity.get(kind))

    def edges(self, i):
        tasks, comms = self.phases[i]
        here = {self.name(t["entity"]) for t in tasks}
        for c in comms:
            ends = self.name(c["from"]), self.name(c["to"])
            if here.issuperset(ends):
                yield *(self.number[e] for e in ends), c["bytes"], c["messages"]


def sizes(tasks, *names):
    """Bytes of the tasks under the first name that each has."""
    defined = [t.get("user_defined", {}) for t in tasks]
    if not any(name in u for u in defined for name in names):
        return None
    return [next((u[name] for name in names if name in u), 0) for u in defined]


def agree(trace, twin):
    every = [t for tasks, _ in twin.phases for t in tasks]
    assert trace.n_ranks == len(twin.ranks)
    assert trace.phase_id.tolist() == [p["id"] for p in twin.ranks[0]["phases"]]
    assert trace.task_ptr.tolist() == np.cumsum([0] + [len(t) for t, _ in twin.phases]).tolist()
    assert trace.entity_key.tolist() == [n[2] for n in twin.number]
    assert trace.task_entity.tolist() == [twin.number[twin.name(t["entity"])] for t in every]
    assert trace.task_rank.tolist() == [t["node"] for t in every]
    assert trace.task_load.tolist() == [t["time"] for t in every]  # to the last bit
    for name, expected in [
        ("task_bytes", sizes(every, "task_serialized_bytes", "task_footprint_bytes")),
        ("task_memory", sizes(every, "task_footprint_bytes", "task_working_bytes")),
    ]:
        given = getattr(trace, name)
        assert (None if given is None else given.tolist()) == expected
    for t, e in zip(every, trace.task_entity, strict=True):
        assert trace.entity_migratable[e] == t["entity"]["migratable"]
        assert trace.entity_home[e] == t["entity"]["home"]
        assert trace.entity_collection[e] == t["entity"].get("collection_id", -1)
    for i in range(len(trace)):
        e = slice(trace.edge_ptr[i], trace.edge_ptr[i + 1])
        columns = trace.edge_src[e], trace.edge_dst[e], trace.edge_bytes[e], trace.edge_messages[e]
        assert list(zip(*(c.tolist() for c in columns), strict=True)) == list(twin.edges(i))
    n = sum(len(c) for _, c in twin.phases)
    assert trace.dangling_edges == n - len(trace.edge_src)


def paths_of(folder, stem):
    found = {}
    for p in Path(folder).glob("*.json"):
        match = re.fullmatch(re.escape(stem) + r"\.(\d+)\.json", p.name)
        if match:
            found[int(match[1])] = p
    return [found[r] for r in range(len(found))]


REAL = [
    ("nolb-8color-16nodes-data", "data"),
    ("nolb-8color-16nodes-11firstphases", "data"),
    ("synthetic-blocks", "synthetic-dataset-blocks"),
    ("synthetic-blocks", "synthetic-dataset-blocks-alpha0"),
]


@pytest.mark.parametrize(("folder", "stem"), REAL)
def test_real_runs_agree_with_the_plain_loader(data, folder, stem):
    trace = pylb.Trace.read(data / folder, stem=stem)
    agree(trace, Twin(paths_of(data / folder, stem)))


@pytest.mark.parametrize(("folder", "stem"), REAL)
def test_snapshots_of_real_runs(data, folder, stem):
    trace = pylb.Trace.read(data / folder / stem, threads=1)
    twin = Twin(paths_of(data / folder, stem))
    for i, snap in enumerate(trace):
        tasks = twin.phases[i][0]
        assert snap.key.tolist() == [twin.name(t["entity"])[2] for t in tasks]
        assert snap.n_ranks == trace.n_ranks
        time = [0.0] * trace.n_ranks
        for t in tasks:
            time[t["node"]] += t["time"]
        assert snap.rank_times.tolist() == time
        number = [twin.number[twin.name(t["entity"])] for t in tasks]
        src, dst, nbytes, messages = snap.edges
        given = [
            (number[a], number[b], x, y)
            for a, b, x, y in zip(src, dst, nbytes.tolist(), messages.tolist(), strict=True)
        ]
        assert given == list(twin.edges(i))
