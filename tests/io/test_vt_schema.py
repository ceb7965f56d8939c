"""pylb's files follow vt's LBDatafile schema (DARMA-tasking/vt, scripts/).

The table here is that schema: all keys, the required ones, and their types; integers and floats are
different types.
"""

import json

import numpy as np
import pytest

import pylb

IDS = {"id?": int, "seq_id?": int, "collection_id?": int, "index?": [int], "objgroup_id?": int}
ENTITY = {"type": str, "home": int, "migratable": bool, **IDS}
END = {"type": str, "home?": int, "migratable?": bool, **IDS}
LISTS = {"list": [int], "range": [[int]]}
FILE = {
    "type?": "LBDatafile",
    "metadata?": {
        "type?": "LBDatafile",
        "rank?": int,
        "shared_node?": {"id": int, "size": int, "rank": int, "num_nodes": int},
        "phases?": {"count?": int, "skipped": LISTS, "identical_to_previous": LISTS},
        "attributes?": dict,
    },
    "phases": [
        {
            "id": int,
            "tasks": [
                {
                    "entity": ENTITY,
                    "node": int,
                    "resource": str,
                    "time": float,
                    "subphases?": [{"id": int, "time": float}],
                    "user_defined?": dict,
                    "attributes?": dict,
                }
            ],
            "communications?": [
                {"type": str, "from": END, "to": END, "messages": int, "bytes": float}
            ],
            "user_defined?": dict,
        }
    ],
}


def check(value, schema, path="file"):
    if isinstance(schema, dict):
        assert type(value) is dict, path
        names = {name.rstrip("?"): part for name, part in schema.items()}
        needed = {name for name in schema if not name.endswith("?")}
        assert needed <= value.keys() <= names.keys(), (path, value.keys())
        for name, part in value.items():
            check(part, names[name], f"{path}.{name}")
        if "seq_id?" in schema:
            assert "id" in value or "seq_id" in value, path
            assert "collection_id" in value or not (value.get("migratable") and "seq_id" in value)
    elif isinstance(schema, list):
        assert type(value) is list, path
        for i, part in enumerate(value):
            check(part, schema[0], f"{path}[{i}]")
    elif isinstance(schema, str):
        assert value == schema, path
    else:
        assert type(value) is schema, (path, value)


def written(trace, folder, **options):
    return [json.loads(path.read_bytes()) for path in trace.save(folder, **options)]


def test_a_generated_run(tmp_path):
    trace = pylb.replaying.hotspot(4, 12, 5)
    for file in written(trace, tmp_path):
        check(file, FILE)


def test_a_run_of_the_runtime_with_means_of_messages(tmp_path):
    """A message in every third iteration is a third of a message on average."""
    pytest.importorskip("h5py")

    def main(comm):
        lb = pylb.Balancer(comm, every=4)
        for key in range(6):
            if key % 2 == lb.rank:
                lb.add(key, key, memory=100)
        for it in lb.iterate(10):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (1 + key))
                if it % 3 == 0:
                    lb.send((key + 1) % 6, key, b"hello")
        lb.save(tmp_path / "run.h5")

    pylb.VirtualCluster(2, clock="none").run(main)
    trace = pylb.Trace.load(tmp_path / "run.h5")
    assert np.any(trace.edge_messages != np.rint(trace.edge_messages))
    files = written(trace, tmp_path / "vt")
    for file in files:
        check(file, FILE)
    back = pylb.Trace.load(tmp_path / "vt")
    assert len(back.edge_src) == len(trace.edge_src)
    assert np.all(back.edge_messages >= 1)
    np.testing.assert_array_equal(back.edge_bytes.sum(), trace.edge_bytes.sum())


def test_a_recorded_run_under_another_placement(data, tmp_path):
    trace = pylb.Trace.load(data / "nolb-8color-16nodes-data")[:2]
    run = trace.replay("GreedyLB", every=1)
    for file in written(trace, tmp_path, rank=run.rank):
        check(file, FILE)


@pytest.mark.parametrize(
    ("where", "value"),
    [("time", 1), ("node", 0.0), ("entity", {"type": "object"}), ("extra", 1)],
)
def test_the_check_finds_what_is_wrong(where, value, tmp_path):
    (file,) = written(pylb.replaying.hotspot(1, 2, 1), tmp_path)
    file["phases"][0]["tasks"][0][where] = value
    with pytest.raises(AssertionError):
        check(file, FILE)
