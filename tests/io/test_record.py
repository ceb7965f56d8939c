"""Run records: read as written, to the bit; incomplete, damaged or of a newer version; replayed."""

import json
import math
import os
import resource
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest
from each_case import dealt

import pylb
from pylb.errors import DomainError, FormatError, MissingFileError, StateError
from pylb.io.run_record import FIGURES, RunFacts, Stretch
from pylb.prediction.recorder.recording import Recording
from pylb.run.records import Records

h5py = pytest.importorskip("h5py")
from pylb.io import hdf5  # noqa: E402
from pylb.io.record_file import FORMAT, Writer  # noqa: E402
from pylb.io.record_file import write as write_run  # noqa: E402


def stretch(rng, first, k, n, ranks=3, casts=False):
    m = 2 * n
    return Stretch(
        first,
        np.sort(rng.choice(10**6, n, replace=False)),
        rng.integers(0, ranks, n).astype(np.int32),
        rng.integers(0, 100, n),
        rng.integers(-1, 100, n),
        rng.random(n) < 0.9,
        rng.random((k, n)),
        rng.integers(0, n, m).astype(np.int32),
        rng.integers(0, n, m).astype(np.int32),
        rng.random(m),
        rng.random(m),
        rng.integers(-1, ranks, n).astype(np.int32),
        np.sort(rng.integers(0, 4, m)).astype(np.int32) if casts and n else None,
        rng.normal(size=(n, 3)) if first % 3 and n else None,
    )


def receipt(iteration, **fields):
    return pylb.decide.Receipt(iteration, "balance", "why", "auto", strategy="GreedyLB", **fields)


def write(path, seed=0, stretches=6, most=40):
    """Write a record of three ranks piece by piece; return what was written."""
    rng = np.random.default_rng(seed)
    writer = Writer(path, 3, {"seed": seed})
    out, rows, history, first = [], [], pylb.decide.History(), 0
    for _ in range(stretches):
        k = int(rng.integers(1, most))
        casts = seed % 2 == 1 and first % 2 == 0
        out.append(stretch(rng, first, k, int(rng.integers(0, 50)), casts=casts))
        rows += rng.random((k, len(FIGURES))).tolist()
        first += k
        history.append(receipt(first - 1, gain=float("nan"), figures={"tau": float("inf")}))
        writer.extend(out[-1:], np.array(rows[-k:]), RunFacts(history=history))
        history[-1].gain = rng.random()
    writer.extend([], np.zeros((0, len(FIGURES))), RunFacts(history=history))
    writer.close()
    return out, np.array(rows), history


def same(a, b):
    assert len(a) == len(b)
    for mine, theirs in zip(a, b, strict=True):
        for name, x, y in zip(Stretch._fields, mine, theirs, strict=True):
            assert np.array_equal(x, y), name


@pytest.mark.parametrize("seed", range(4))
def test_what_is_written_is_read(tmp_path, seed):
    stretches, rows, history = write(tmp_path / "run.h5", seed)
    run = pylb.RunRecord.load(tmp_path / "run.h5")
    same(run.stretches, stretches)
    assert np.array_equal(np.stack([getattr(run, name) for name in FIGURES], 1), rows)
    assert repr(run.history) == repr(history)
    assert run.parameters["seed"] == seed
    assert run.n_iterations == len(rows)
    last = run.at(len(rows) - 1)
    assert last.first + last.iterations == len(rows)


def test_the_trace_has_every_iteration(tmp_path):
    stretches, rows, _ = write(tmp_path / "run.hdf5")
    trace = pylb.Trace.load(tmp_path / "run.hdf5")
    assert (len(trace), trace.n_ranks) == (len(rows), 3)
    for s in stretches:
        for i in range(s.iterations):
            snap = trace[s.first + i]
            order = np.argsort(snap.key)
            for got, given in (
                (snap.key, s.key),
                (snap.rank, s.rank),
                (snap.load, s.load[i]),
                (snap.nbytes, s.nbytes),
                (snap.memory, np.maximum(s.memory, 0)),
            ):
                assert np.array_equal(got[order], given)
            edges = zip(snap.key[snap.edges.src], snap.key[snap.edges.dst], strict=True)
            assert list(edges) == list(zip(s.key[s.src], s.key[s.dst], strict=True))
            assert np.array_equal(snap.edges.nbytes, s.edge_bytes)
    trace.replay("GreedyLB", trigger="auto", cost=0.1).regret(trace.optimum(cost=0.1))
    trace.save(tmp_path / "vt")
    again = pylb.Trace.load(tmp_path / "vt")
    for here, there in zip(again, trace, strict=True):  # vt's tasks are sorted by rank
        order = np.argsort(here.key)
        assert np.array_equal(here.load[order], there.load)


@pytest.mark.parametrize("seed", range(2))
def test_a_file_cut_short_is_read_up_to_its_last_complete_iteration(tmp_path, seed):
    path = tmp_path / "run.h5"
    write(path, seed, stretches=30)
    whole, n, known = path.read_bytes(), 0, 0
    readable, unreadable = [], []
    trace = pylb.Trace.load(path)
    for size in np.linspace(0, len(whole), 60).astype(int).tolist():
        path.write_bytes(whole[:size])
        try:
            run = pylb.RunRecord.load(path)
        except FormatError:
            unreadable.append(size)
            continue
        readable.append(size)
        assert run.n_iterations >= n
        n = run.n_iterations
        known += 0 < n < len(trace)
        part = run.trace
        for name in ("task_load", "task_rank", "task_entity", "edge_bytes"):
            mine = getattr(part, name)
            assert np.array_equal(mine, getattr(trace, name)[: len(mine)])
        assert np.array_equal(part.task_ptr, trace.task_ptr[: n + 1])
        assert all(r.iteration < n for r in run.history)
    assert n == len(trace)
    assert max(unreadable) < min(readable)  # a longer file has at least as many iterations
    assert known > 20  # after most cuts some iterations can be read


KILLED = """
import os, sys
import pylb
lb = pylb.Balancer(every=30, record=sys.argv[1], load=lambda key, block: 1.0 + key)
for key in range(10):
    lb.add(key, key)
for it in lb.iterate(1000):
    for key, block in lb.local():
        pass
    if it == 200:
        os._exit(9)
"""


def test_the_record_of_a_program_that_was_killed_is_there(tmp_path):
    path = tmp_path / "run.h5"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == 9
    run = pylb.RunRecord.load(path)
    assert run.n_iterations == 192  # written in steps of 64
    assert [r.iteration for r in run.history.lb_steps] == [29, 59, 89, 119, 149, 179]
    assert run.trace[100].load.tolist() == [1.0 + key for key in range(10)]


def test_other_files_are_named(tmp_path):
    path = tmp_path / "run.h5"
    with pytest.raises(MissingFileError, match=r"run\.h5"):
        pylb.Trace.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(FormatError, match="not an HDF5 file"):
        pylb.Trace.load(path)
    with h5py.File(path, "w") as file:
        file["x"] = [1]
    with pytest.raises(FormatError, match="not a run record of pylb"):
        pylb.RunRecord.load(path)
    write(path)
    for version in (1, 5, 9):
        with h5py.File(path, "a") as file:
            file.attrs["version"] = version
        with pytest.raises(FormatError, match=f"version {version}: expected .* of version 8"):
            pylb.RunRecord.load(path)
    for version, absent in ((7, ["shared"]), (6, ["phases", "phase_names", "changes"])):
        with h5py.File(path, "a") as file:
            file.attrs["version"], table = version, file["stretch"][:, :-1]
            for name in [*absent, "stretch"]:
                del file[name]
            file["stretch"] = table
        assert pylb.RunRecord.load(path).n_iterations > 0


def test_damage_is_seen(tmp_path):
    path = tmp_path / "run.h5"
    stretches, _, _ = write(path)
    with h5py.File(path, "a") as file:
        n = stretches[0].load.size + stretches[1].load.shape[1]
        file["load"][n] += 1e-9  # in the second row of the second stretch
    assert pylb.RunRecord.load(path).n_iterations == stretches[1].first + 1
    with h5py.File(path, "a") as file:
        file["rank"][0] = 7
    assert pylb.RunRecord.load(path).n_iterations == 0
    with h5py.File(path, "a") as file:
        del file["key"]
    with pytest.raises(FormatError, match="not a readable run record"):
        pylb.RunRecord.load(path)


@pytest.mark.parametrize("size", [0, 3])
def test_chunks_without_room_for_a_checksum_are_not_read(tmp_path, size):
    """libhdf5 would crash."""
    path = tmp_path / "one.h5"
    out = hdf5.Output(path)
    out.array("a", np.arange(100.0))
    out.close()
    data = path.read_bytes()
    said = struct.pack("<II", 804, 0)  # size in bytes; no filter was skipped
    assert data.count(said) == 1
    with hdf5.reading(path, {}) as file:
        assert file.rows("a")[7] == 7.0
    path.write_bytes(data.replace(said, struct.pack("<II", size, 0)))
    with hdf5.reading(path, {}) as file:
        assert file.rows("a") is None


def test_a_number_that_is_not_a_rank_is_an_error(tmp_path):
    path = tmp_path / "run.h5"
    rng = np.random.default_rng(0)
    writer = Writer(path, 2, {})
    rows = rng.random((2, len(FIGURES)))
    writer.extend([stretch(rng, 0, 2, 10, ranks=9)], rows, RunFacts())
    writer.close()
    with pytest.raises(FormatError, match="rank is out of range from iteration 0 on"):
        pylb.RunRecord.load(path)


def run(path=None, n=40, keys=range(8), **options):
    lb = pylb.Balancer(load=lambda key, block: 1.0 + key, **options)
    for key in keys:
        lb.add(key, np.zeros(key))
    for it in lb.iterate(n):
        if it == 20:
            lb.add(100, "new")
            lb.remove(3)
        for key, _ in lb.local():
            lb.send(0, key, b"123")
    if path is not None:
        lb.save(path)
    return lb


def test_saving_a_run_and_repeating_its_lb_steps(tmp_path):
    path = tmp_path / "run.h5"
    lb = run(path, every=7)
    record = pylb.RunRecord.load(path)
    assert record.n_iterations == 40
    assert record.parameters["trigger"] == "periodic"
    assert repr(record.history) == repr(lb.history)
    assert np.array_equal(record.max, lb.metrics.max)
    assert [len(s.key) for s in record.stretches] == [8] * 6
    assert [s.first for s in record.stretches] == [0, 7, 14, 21, 28, 35]
    assert record.trace.n_entities == 9
    assert record.at(5).edge_messages.sum() == 8
    again = run(replay=path)
    assert [r.iteration for r in again.history] == [6, 13, 20, 27, 34]
    assert "the recorded run did an LB step here, because the given number" in again.explain(0)
    assert "recorded" in again.history[0].strategy


def test_a_record_of_another_program_is_refused(tmp_path):
    path = tmp_path / "run.h5"
    run(path, every=7)
    with pytest.raises(DomainError, match=r"iteration 0 .* only this program has object 8"):
        run(replay=path, keys=range(9))
    with pytest.raises(DomainError, match=r"it has 8 objects, but this program has 7"):
        run(replay=path, keys=range(7))
    with pytest.raises(DomainError, match=r"a run of 40 iterations: expected 41 or more"):
        run(replay=path, n=41)
    assert len(run(replay=path, n=30).metrics.time) == 30


def test_record_and_replay_need_mode_on_and_lag_0(tmp_path):
    for mode in ("off", "shadow"):
        with pytest.raises(DomainError, match="expected 'on', because replay=path is given"):
            pylb.Balancer(replay=tmp_path / "run.h5", mode=mode)
    for options in ({"record": tmp_path / "run.h5"}, {"replay": tmp_path / "run.h5"}):
        with pytest.raises(DomainError, match="lag is 1: expected 0"):
            pylb.Balancer(lag=1, **options)
    lb = pylb.Balancer(lag=math.inf)
    with pytest.raises(StateError, match="only the iterations of iterate"):
        lb.save(tmp_path / "run.h5")


def test_a_record_written_during_the_run(tmp_path):
    path = tmp_path / "run.h5"
    lb = run(record=path, every=7, n=100)
    record = pylb.RunRecord.load(path)
    assert record.n_iterations == 100
    assert repr(record.history) == repr(lb.history)
    spent = lb.report().seconds  # with the last write to the file, however long it takes
    assert lb.metrics.time.sum() <= record.parameters["seconds"] <= spent
    with pytest.raises(StateError, match=r"is written to .*run\.h5 during the run"):
        lb.save(tmp_path / "other.h5")
    with pytest.raises(StateError, match="is not recorded"):
        run(tmp_path / "other.h5", record=False)
    with pytest.raises(DomainError, match=r"expected \.h5 or \.hdf5"):
        lb.save("run.json")
    with pytest.raises(OSError, match="nowhere"):
        run(record=tmp_path / "nowhere" / "run.h5")
    assert sorted(os.listdir(tmp_path)) == ["run.h5"]


def test_memory_is_bounded(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("pylb.run.records.KEPT_BYTES", 8 * 8 * 10)
    monkeypatch.setattr("pylb.run.records.BESIDE", 0)
    run(tmp_path / "run.h5")
    assert "has only the first 11 of 40 iterations" in caplog.text
    assert pylb.RunRecord.load(tmp_path / "run.h5").n_iterations == 11


@pytest.mark.parametrize("objects", ["stay", "change", "migrate"])
@pytest.mark.parametrize("of", ["Balancer", "Advisor"])
def test_a_file_gets_all_iterations_however_many_objects(tmp_path, monkeypatch, of, objects):
    """A recording in a file does not stop when memory for the loads is short: it writes earlier."""
    monkeypatch.setattr("pylb.run.records.KEPT_BYTES", 8 * 100 * 5)  # 5 iterations of 100 objects
    monkeypatch.setattr("pylb.run.records.WRITE_EVERY", 10**6)
    monkeypatch.setattr("pylb.run.records.LATEST", 1e9)
    path, written = tmp_path / "run.h5", []
    monkeypatch.setattr(
        "pylb.run.records.Records._extend",
        lambda self, *kept, extend=Records._extend: (
            written.append(self.done),
            extend(self, *kept),
        ),
    )
    every = 3 if objects == "migrate" else 10**6

    def balancer(comm):
        lb = pylb.Balancer(comm, every=every, record=path, strategy=lambda s: (s.rank + 1) % 2)
        dealt(lb, range(100), lambda key: [])
        for it in lb.iterate(40):
            if objects == "change":
                lb.add(100 + 2 * it + comm.rank, [])
        return lb.report()

    def advisor(comm):
        lb = pylb.Advisor(comm, every=every, record=path, strategy=lambda s: (s.rank + 1) % 2)
        ids = np.arange(50) + 50 * comm.rank
        for _ in lb.iterate(40):
            if objects == "change":
                ids = ids + 100
            if plan := lb.advise(loads=np.ones(len(ids)), keys=ids):
                ids = plan.migrate(ids)
        return lb.report()

    pylb.VirtualCluster(2, clock="none").run(balancer if of == "Balancer" else advisor)
    record = pylb.RunRecord.load(path)
    assert record.n_iterations == 40
    assert [s.iterations for s in record.stretches if s.iterations]
    assert sum(s.iterations for s in record.stretches) == 40
    # the first call is that at the start of the loop; an Advisor learns the number of cells late
    assert max(np.diff([*written, 40])) <= 7


def test_shadow_mode_replays_all_iterations_however_many_objects(monkeypatch):
    monkeypatch.setattr("pylb.run.records.KEPT_BYTES", 8 * 100 * 5)
    lb = pylb.Balancer(mode="shadow", every=7, record=False)
    dealt(lb, range(100), lambda key: [])
    list(lb.iterate(40))
    assert len(lb.shadow.time) == 40


def test_receipts_are_lines_of_json(tmp_path):
    run(tmp_path / "run.h5", every=7)
    with h5py.File(tmp_path / "run.h5") as file:
        lines = file["receipts"][:].tobytes().decode().splitlines()
    assert [json.loads(line)[0] for line in lines] == [0, 1, 2, 3, 4]


# ---- replayed ----------------------------------------------------------------------------------


def of_ranks(comm, path, **words):
    """Return a run on virtual ranks with LB steps; times are declared, not measured."""
    lb = pylb.Balancer(comm, **words)
    dealt(lb, range(12), lambda key: np.zeros(100 + key))
    for it in lb.iterate(30):
        for key, _ in lb.local():
            comm.elapse(1e-3 * (1 + key % 5) * (1 + (it + key) % 3))
            lb.send((key + 1) % 12, key, b"123")
    lb.save(path)
    return lb.history


def recorded(path, **words):
    return pylb.VirtualCluster(3, clock="none").run(of_ranks, str(path), **words)[0]


def test_the_record_of_a_trace_knows_its_ranks(tmp_path):
    rng = np.random.default_rng(1)
    facts = {
        "speed": np.array([1.0, 2.7]),
        "background": np.array([0.5, 0.0]),
        "memory_limit": np.array([40, 50]),
        "memory": np.full(8, 3),
    }
    steps = [pylb.Snapshot(rng.random(8), np.arange(8) // 4, n_ranks=2, **facts) for _ in range(4)]
    trace = pylb.Trace.from_snapshots(steps)
    write_run(pylb.RunRecord.of(trace), tmp_path / "run.h5")
    again = pylb.RunRecord.load(tmp_path / "run.h5").trace
    for name in ("speed", "background", "memory_limit"):
        assert np.array_equal(getattr(again, name), facts[name])
    for name, plan in (("unbalanced", {}), ("BestFitLB", {"every": 2, "cost": 0.01})):
        times = [t.replay(name, **plan).time for t in (trace, again)]
        assert times[0] == pytest.approx(times[1], rel=1e-12)


def test_a_record_without_some_parameters_or_with_unknown_ones(tmp_path):
    """A record without some parameters, or with unknown ones, can be read."""
    path = tmp_path / "run.h5"
    history = recorded(path, strategy="GreedyLB", every=4)
    with h5py.File(path, "a") as file:
        del file["parameters"]
        content = json.dumps({"pylb": "0.0", "something": [1]}).encode()
        file["parameters"] = np.frombuffer(content, np.uint8)
    assert repr(pylb.Trace.load(path).replay("GreedyLB", every=4).decisions) == repr(history)


def test_a_run_that_never_balanced_has_costs(tmp_path):
    path = tmp_path / "run.h5"
    recorded(path, mode="off")
    trace = pylb.Trace.load(path)
    run = trace.replay("GreedyLB", every=4)
    assert min(r.seconds_statistics for r in run.lb_steps) > 0
    assert min(r.seconds_migration for r in run.lb_steps if r.migrations) > 0
    assert trace.replay("none").lb_seconds == 0


def test_objects_that_were_left_are_kept_for_each_loop(tmp_path):
    path, again = tmp_path / "run.h5", tmp_path / "again.h5"
    lb = pylb.Balancer(load=lambda key, block: 1.0)
    for key in range(4):
        lb.add(key, key)
    for _ in range(2):
        for it in lb.iterate(5):
            if it % 5 == 4:
                lb.remove(it // 5)
    lb.save(path)
    run = pylb.RunRecord.load(path)
    assert run.remaining[5].key.tolist() == [1, 2, 3]
    assert run.remaining[10].key.tolist() == [2, 3]
    write_run(run, again)
    other = pylb.RunRecord.load(again)
    same(other.stretches, run.stretches)
    assert list(other.remaining) == list(run.remaining)
    same(list(other.remaining.values()), list(run.remaining.values()))


# ---- HDF5 files: a full disk does not end a run; files of another form are refused -------------


FULL = 300_000  # bytes; with a larger file, the disk counts as full

RUN = """
import logging, os, resource, sys
import numpy as np
import pylb
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
record = sys.argv[1] if sys.argv[3] == "record" else True
lb = pylb.Balancer(every=30, record=record, load=lambda key, block: 1.0 + key)
for key in range(500):
    lb.add(key, key)
for it in lb.iterate(400):
    for key, block in lb.local():
        pass
if sys.argv[3] == "save":
    try:
        lb.save(sys.argv[1])
    except OSError as why:
        print(type(why).__name__, why)
print("done", it)
"""


def limited(path, size, how):
    words = [sys.executable, "-c", RUN, str(path), str(size), how]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_a_full_disk_stops_the_recording_and_not_the_run(tmp_path):
    done = limited(tmp_path / "run.h5", FULL, "record")
    assert (done.returncode, done.stdout) == (0, "done 399\n"), done.stderr
    assert done.stderr.count("the recording stops, and the run goes on") == 1
    assert str(tmp_path / "run.h5") in done.stderr
    found = pylb.RunRecord.load(tmp_path / "run.h5")
    assert 0 < found.n_iterations < 400
    assert found.trace[0].load.tolist() == [1.0 + key for key in range(500)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, FULL])
def test_save_onto_a_full_disk_is_an_oserror(tmp_path, size):
    (tmp_path / "run.h5").write_text("as before")
    done = limited(tmp_path / "run.h5", size, "save")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"OSError [Errno 27] File too large: '{tmp_path / 'run.h5'}'\ndone 399\n"
    assert [p.name for p in tmp_path.iterdir()] == ["run.h5"]
    assert (tmp_path / "run.h5").read_text() == "as before"


@pytest.mark.parametrize("size", range(0, 40_000, 4_000))
def test_a_writer_may_meet_the_end_of_the_disk_anywhere(tmp_path, size):
    """Wherever the disk becomes full, the file can be closed, and it is then read or refused."""
    path = tmp_path / "run.h5"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = np.random.default_rng(0).random((200, 64))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        with pytest.raises(OSError, match="File too large") as caught:  # noqa: PT012
            out = hdf5.Output(path)
            out.text("format", "some")
            out.h5.create_dataset("x", (0, 64), "f8", maxshape=(None, 64), chunks=(4, 64))
            for i in range(200):
                out.h5["x"].resize(i + 1, axis=0)
                out.h5["x"][i] = rows[i]
                if i % 10 == 9:
                    out.flush()
        assert caught.value.filename == str(path)
        with pytest.raises(OSError, match="File too large"):
            out.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size <= size


# ---- files of another form --------------------------------------------------------------------


def with_old_head(path):
    """Return a file with texts of variable length, in a global heap, as old versions wrote them."""
    with h5py.File(path, "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["parameters"] = '{"seed": 1}'
        file.attrs.update(version=2, n_ranks=1)
    return path.read_bytes()


def test_an_old_file_cut_short_hangs_nobody(tmp_path):
    path = tmp_path / "run.h5"
    whole = with_old_head(path)
    with pytest.raises(FormatError, match="version 2: expected a run record of version 8"):
        pylb.RunRecord.load(path)
    heap = whole.index(b"GCOL")
    signal.alarm(60)
    for size in range(heap - 64, heap + 400, 3):
        path.write_bytes(whole[:size] + bytes(0 if size % 2 else len(whole) - size))
        with pytest.raises(FormatError, match=r"run\.h5: "):
            pylb.RunRecord.load(path)
    signal.alarm(0)


@pytest.mark.parametrize("name", ["run.h5", "run"])
def test_a_pipe_is_no_record(tmp_path, name):
    os.mkfifo(tmp_path / name)
    signal.alarm(20)
    with pytest.raises((FormatError, FileNotFoundError), match=name):
        pylb.Trace.load(tmp_path / name)
    signal.alarm(0)


def test_an_old_recording_is_refused(tmp_path):
    Recording.of([[{"kind": "END"}]]).save(tmp_path / "run")
    with h5py.File(tmp_path / "run", "a") as file:
        file.attrs["format"] = np.bytes_("pylb operations 1")
    with pytest.raises(FormatError, match="'pylb operations 1': expected 'pylb operations 3'"):
        Recording.load(tmp_path / "run")


@pytest.mark.parametrize(("name", "value"), [("eager", -1), ("overhead", "long")])
def test_numbers_of_a_recording_are_checked(tmp_path, name, value):
    Recording.of([[{"kind": "END"}]], **{name: value}).save(tmp_path / "run")
    with pytest.raises(FormatError, match=f"{name} is {value!r}: expected a number"):
        Recording.load(tmp_path / "run")
