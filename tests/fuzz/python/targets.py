"""What is fuzzed: the readers and the monitor, with changed copies of small valid files."""

import contextlib
import json
import shutil
import socket
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import pylb
from pylb.lab.plan import LabPlan
from pylb.model.speed_models import SpeedModels
from pylb.partitioning import files
from pylb.prediction.prediction import whatif
from pylb.prediction.recorder.launch import HEAD, RecordMonitor
from pylb.prediction.recorder.recording import OP, Recording
from pylb.show import course, efficiency, page


class Target(NamedTuple):
    """A fuzzed reader: the name of its file, valid contents, and the function that reads it."""

    name: str
    seeds: list[bytes]
    call: Callable[[Path], object]


def record() -> pylb.Balancer:
    """Return a run of 12 iterations with receipts, messages, and objects that come and go."""
    lb = pylb.Balancer(every=4, strategy="GreedyLB", load=lambda key, block: 1.0 + key % 3)
    for key in range(6):
        lb.add(key, key)
    for it in lb.iterate(12):
        for key, _ in lb.local():
            lb.send((key + 1) % 6, key, it)
        if it == 5:
            lb.add(9, 9)
    return lb


ADVISOR = {
    **{"format": "pylb advisor", "version": 1, "n_ranks": 2, "pylb": "1", "strategy": "GreedyLB"},
    **{"strategy_params": {}, "trigger": "auto", "trigger_params": {}, "mode": "on", "lag": 0},
    **{
        "seed": 0,
        "clock": "cpu",
        "pause_if_useless": True,
        "receipts": [],
        "strategies": ["GreedyLB"],
    },
    **{"figures": [[1.0] * 8] * 3, "loads": [0.5, 0.25, 1.0, 1.0, 1.5, 2.0]},
}


def vt_file(rank: int) -> dict[str, object]:
    """Return an LBDatafile of two phases."""
    tasks = [
        {
            "entity": {"home": rank, "id": 2 * rank + i, "migratable": True, "type": "object"},
            **{"node": rank, "resource": "cpu", "time": 0.5 + i},
            "user_defined": {"task_serialized_bytes": 100.0},
        }
        for i in range(2)
    ]
    comm = {"type": "SendRecv", "bytes": 10.0, "messages": 1}
    comm |= {"from": tasks[0]["entity"], "to": tasks[1]["entity"]}
    phases = [{"id": i, "tasks": tasks, "communications": [comm]} for i in range(2)]
    head = {"type": "LBDatafile", "rank": rank, "phases": {"identical_to_previous": {"list": [2]}}}
    return {"type": "LBDatafile", "metadata": head, "phases": phases}


def recording() -> Recording:
    """Return a recording of two ranks: a message, a collective, a nonblocking pair."""
    ranks = []
    for r in range(2):
        first = {"kind": "SEND" if r == 0 else "RECV", "peer": 1 - r, "bytes": 100}
        pair = {"kind": "IRECV" if r == 0 else "ISEND", "peer": 1 - r, "bytes": 9, "request": 1}
        meet = {"kind": "COLL", "what": 5, "tag": r, "compute": 10**6}
        ranks.append([first, meet, pair, {"kind": "WAIT", "request": 1}, {"kind": "END"}])
    return Recording.of(ranks, alpha=1e-6, beta=1e-9, response=1e-4)


def frames() -> bytes:
    """Return what a rank sends to the monitor, after the token."""
    hello = {"rank": 0, "size": 1, "host": "here", "now": 1, "cores": 1, "core": 0}
    hello |= {"delays": True, "library": "Open MPI"}
    end = {"ops": 2, "ns": 10, "start": 1, "now": 2, "beyond": 0, "foreign": 0, "finalized": True}
    end["asked"] = {"wall": 1.0, "square": 0.1, "napped": 0.9}
    ops = np.zeros(2, OP)
    ops["kind"] = [10, 0]
    sent = [
        ("H", json.dumps(hello).encode()),
        ("N", b'{"overhead": 1e-7, "alpha": 1e-6, "beta": 1e-9}'),
        ("C", np.array([0, 7, 1], np.int64).tobytes() + bytes(4)),
        ("P", bytes(4) + b"serve"),
        ("O", ops.tobytes()),
        ("L", b'{"what": "MPI_Comm_spawn", "times": 2}'),
        ("E", json.dumps(end).encode()),
    ]
    return b"".join(HEAD.pack(ord(kind), len(body), 0) + body for kind, body in sent)


# ---- the fuzzed functions ----------------------------------------------------------------------


def read_run(path: Path) -> None:
    """Read a run in any format, replay it, and make its page."""
    found = course.read(path, None)
    trace = found.trace if isinstance(found, pylb.RunRecord) else found
    if len(trace):
        trace.replay("GreedyLB", every=2)
        shown = course.of(found)
        page.html(shown)
        efficiency.talp(shown)


def read_vt(path: Path) -> None:
    """Read a folder with the files of two ranks, one of them changed, and write it again."""
    trace = pylb.Trace.load(path.parent)
    trace.save(path.parent / "out")


def predict(path: Path) -> None:
    """Read a recording, and predict its time on another machine."""
    found = Recording.load(path)
    whatif(found)
    whatif(found, placement=[0] * found.n_ranks)


def hear(path: Path) -> None:
    """Send the file to a monitor, and make a recording of what arrived."""
    with contextlib.closing(RecordMonitor()) as monitor:
        host, port = monitor.address.split(":")
        with socket.create_connection((host, int(port))) as sock:
            sock.sendall(monitor.token.encode() + b"\n" + path.read_bytes())
        monitor.serve(5.0)
        while monitor.connected:
            monitor.serve(5.0)
        found = monitor.recording([])
        if found.n_ranks:
            found.save(path.with_suffix(".run"))
            whatif(path.with_suffix(".run"))


OPTIONS: dict[str, Any] = {"every": 4, "strategy": "GreedyLB", "load": lambda key, block: 1.0}


def checkpoint(folder: Path) -> Path:
    """Write a checkpoint of a run whose objects are plain values, and return its folder."""
    lb = pylb.Balancer(record=False, **OPTIONS)
    for key in range(6):
        lb.add(key, [key, {"a": np.arange(4.0), (1, "b"): b"bytes"}, None, 2.5])
    for it in lb.iterate(9):
        for key, _ in lb.local():
            lb.send(key, (key + 1) % 6, [key, it])
    lb.checkpoint(folder)
    return folder


def go_on(folder: Path) -> None:
    """Restore a checkpoint, and run on.  Without `pickled=True`, nothing may be unpickled."""
    with mock.patch("pickle.loads", side_effect=AssertionError("unpickled")):
        lb = pylb.Balancer.restore(None, folder, record=False, **OPTIONS)
    if lb.iteration < 1000:
        for _ in lb.iterate(lb.iteration + 5):
            for key, _ in lb.local():
                lb.inbox(key)


def restore(folder: Path) -> Callable[[Path], None]:
    """Return a reader of a rank's file, whose new size is put into the checkpoint's list."""
    head = json.loads((folder / "checkpoint.json").read_text())

    def read(path: Path) -> None:
        shutil.copyfile(path, folder / f"{head['id']}.0.h5")
        listed = {**head, "sizes": [path.stat().st_size]}
        (folder / "checkpoint.json").write_text(json.dumps(listed))
        go_on(folder)

    return read


def restore_list(folder: Path) -> Callable[[Path], None]:
    """Return a reader of the list of files."""

    def read(path: Path) -> None:
        shutil.copyfile(path, folder / "checkpoint.json")
        go_on(folder)

    return read


def made(folder: Path) -> list[Target]:
    """Return all targets, with their seeds."""
    import brotli

    warnings.simplefilter("ignore")
    lb = record()
    lb.save(folder / "run.h5")
    recording().save(folder / "recording")
    vt = [json.dumps(vt_file(r)).encode() for r in range(2)]
    (folder / "data.0.json").write_bytes(vt[0])
    machine = pylb.Machine.parse("node:2 rank:2")
    machine.save(folder / "machine")
    SpeedModels([([1.0, 10.0], [5.0, 4.0]), ([1.0], [3.0])]).save(folder / "models")
    np.save(folder / "a.npy", np.random.default_rng(0).random((5, 3)))
    np.savez(folder / "a.npz", start=[0, 1, 2], to=[1, 0])
    lab = b"share: 0.5\nranks:\n- {share: 0.25, memory: 64MiB}\n- {cap: 25W}\nchanges:\n"
    lab += b"- {at: 1s, ranks: [0], share: 0.1}\n"

    def bytes_of(name: str) -> bytes:
        return (folder / name).read_bytes()

    market = b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1.0\n3 1 2\n"
    first, second = (checkpoint(folder / name) for name in ("saved", "listed"))
    saved = next(first.glob("*.h5")).read_bytes()
    lists = [(second / "checkpoint.json").read_bytes()]
    lists.append(lists[0].replace(b'"pickled": false', b'"pickled": true'))
    return [
        Target("checkpoint", [saved], restore(first)),
        Target("list", lists, restore_list(second)),
        Target("run.h5", [bytes_of("run.h5")], read_run),
        Target("run.json", [json.dumps(ADVISOR).encode()], read_run),
        Target("data.1.json", [vt[1], brotli.compress(vt[1])], read_vt),
        Target("recording", [bytes_of("recording")], predict),
        Target("frames", [frames()], hear),
        Target("a.graph", [b"3 2 11 1\n1 2 5\n1 1 5 3 2\n2 2 2\n"], files.read),
        Target("a.hgr", [b"2 4 11\n3 1 2\n1 2 3 4\n1\n2\n3\n4\n"], files.read),
        Target("a.mtx", [market], files.read),
        Target("a.npy", [bytes_of("a.npy")], files.read),
        Target("a.npz", [bytes_of("a.npz")], files.read),
        Target("machine", [bytes_of("machine")], pylb.Machine.load),
        Target("models", [bytes_of("models")], SpeedModels.load),
        Target("lab.yaml", [lab], LabPlan.load),
    ]
