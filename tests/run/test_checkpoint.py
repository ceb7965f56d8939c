"""Checkpoints: a restart on any number of ranks gives the same bits; bad files, clear errors."""

import contextlib
import json
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from each_case import dealt, told_clock
from launch import HERE, launch

import pylb
from pylb.errors import (
    DomainError,
    FormatError,
    MissingFileError,
    PylbError,
    RemoteError,
    SerializationError,
    StateError,
)
from pylb.io import checkpoint as disk
from pylb.io.checkpoint import decode, encode
from pylb.run.records import IterationLog

pytest.importorskip("h5py")
OPTIONS = {"strategy": "GreedyLB", "every": 7}
N = 23


def fill(comm, **options):
    lb = pylb.Balancer(comm, **{**OPTIONS, **options})
    for key in range(lb.rank, N, lb.n_ranks):
        lb.add(key, np.arange(4.0) + key, memory=key + 1, coords=(key, 1.0))
    return lb


def passes(comm, lb, until, folder=None):
    """Run iterations in which an object's state depends on all its messages and their order."""
    for it in lb.iterate(until - lb.iteration):
        if folder is not None and it % 6 == 5:
            lb.checkpoint(folder)
        for key, block in lb.local():
            for source, data in lb.inbox(key):
                block *= 0.9
                block += np.sum(data) * 1e-2 + source + it
            lb.send((key * 7 + 1) % N, key, [it, block[2:].copy()[0]])
            lb.send((key + 1) % N, key, float(block[0]))
            comm.elapse(1e-3 * (1 + key % 5) * (1 + it % 3))
        yield it


def advance(comm, lb, until, folder=None):
    for _ in passes(comm, lb, until, folder):
        pass
    return lb


def values(lb):
    return {key: block.tobytes() for key, block in lb.local()}


def on(n, main):
    """Run a program on virtual ranks; return the objects of all ranks, and rank 0's balancer."""
    out, found = {}, pylb.VirtualCluster(n).run(lambda comm: main(comm))
    for lb in found:
        out |= values(lb)
    return out, found[0]


def steps(lb):
    return [r.iteration for r in lb.history.lb_steps]


@pytest.fixture(scope="module")
def straight():
    return {n: on(n, lambda comm: advance(comm, fill(comm), 40)) for n in (1, 2, 3, 5)}


def test_the_straight_run_does_not_depend_on_the_ranks(straight):
    assert all(found == straight[1][0] for found, _ in straight.values())


@pytest.mark.parametrize(
    "ranks", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 5))]
)
def test_restarts_on_other_numbers_of_ranks(straight, tmp_path, ranks):
    """Restart on other numbers of ranks, from checkpoints between two loops and within one."""
    folder = tmp_path / "c"

    def first(comm):
        lb = advance(comm, fill(comm), 20)
        lb.checkpoint(folder)
        return lb

    def again(comm):
        lb = pylb.Balancer.restore(comm, folder, **OPTIONS)
        assert lb.iteration == 20
        return advance(comm, lb, 40)

    on(ranks, first)
    for n in (1, 2, 3, 5, 10):
        found, lb = on(n, again)
        assert found == straight[1][0], n
        assert lb.iteration == len(lb.metrics.time) == 40
        assert steps(lb) == ([6, 13, 20, 27, 34] if n == ranks else [6, 13, 26, 33])


def test_in_a_loop_after_a_crash(straight, tmp_path):
    """A run ends at iteration 16; a second run continues from the checkpoint of iteration 11."""
    folder = tmp_path / "c"

    class OutOfTimeError(Exception):
        pass

    def first(comm):
        lb = fill(comm)
        with contextlib.suppress(OutOfTimeError):
            for it in passes(comm, lb, 40, folder):
                if it == 16:
                    raise OutOfTimeError
        return lb

    on(3, first)
    assert disk.head(folder).iteration == 11
    for n in (2, 3):
        found, lb = on(
            n,
            lambda comm: advance(
                comm, pylb.Balancer.restore(comm, folder, **OPTIONS), 40, tmp_path / "d"
            ),
        )
        assert found == straight[1][0]
        assert steps(lb) == ([6, 13, 20, 27, 34] if n == 3 else [6, 17, 24, 31, 38])


@pytest.mark.parametrize("trigger", ["boulmier", "zhai", "menon", "metabalancer", "auto"])
@pytest.mark.parametrize("pause_if_useless", [True, False])
def test_decisions_go_on(tmp_path, trigger, pause_if_useless):
    """After a restart, the trigger and the receipts are as in a run without a stop."""
    options = {"strategy": "GreedyLB", "trigger": trigger, "pause_if_useless": pause_if_useless}

    def program(comm, lb, until):
        for it in lb.iterate(until - lb.iteration):
            for key, _ in lb.local():
                comm.elapse(1e-2 * (1 + (key + it // 9) % 7))
        return lb

    def first(comm):
        lb = dealt(pylb.Balancer(comm, **options), range(N), lambda key: np.zeros(1000))
        program(comm, lb, 40).checkpoint(tmp_path / "c")
        return lb

    def again(comm):
        return pylb.Balancer.restore(comm, tmp_path / "c", **options)

    before = pylb.VirtualCluster(4).run(first)[0]
    after = pylb.VirtualCluster(4).run(again)[0]
    assert len(steps(before)) > 0
    assert steps(after) == steps(before)
    assert np.array_equal(after.metrics, before.metrics)
    known, now = (lb._state.decider.settings.trigger.state() for lb in (before, after))
    assert now["cost"] == pytest.approx(known["cost"], rel=1e-12)
    assert (now["last"], now["iteration"]) == (known["last"], known["iteration"])
    if not pause_if_useless:
        assert {k: repr(v) for k, v in now.items()} == {k: repr(v) for k, v in known.items()}
    on(4, lambda comm: program(comm, again(comm), 50))
    _, other = on(2, lambda comm: program(comm, again(comm), 50))
    assert other.iteration == 50


def test_properties_and_estimates_go_on(tmp_path):
    def first(comm):
        lb = fill(comm)
        lb.add(
            100 + comm.rank, np.zeros(3), nbytes=77, migratable=False, work=2.5, coords=(1, 2, 3)
        )
        advance(comm, lb, 9)
        lb.checkpoint(tmp_path / "c")
        return lb

    def again(comm):
        return pylb.Balancer.restore(comm, tmp_path / "c", **OPTIONS)

    before = pylb.VirtualCluster(2).run(first)
    after = pylb.VirtualCluster(2).run(again)
    for a, b in zip(before, after, strict=True):
        a, b = a._objects, b._objects
        assert np.array_equal(a.keys, b.keys)
        assert np.array_equal(a.estimates, b.estimates)
        assert np.array_equal(a.window, b.window)
        for name in ("nbytes", "memory", "migratable", "work", "home", "coords"):
            assert repr(a.table[name]) == repr(b.table[name]), name
        assert "coords" in b.table.columns


class Block:
    def __init__(self, x):
        self.x = x


def test_the_users_own_format_and_pickle(tmp_path):
    lb = pylb.Balancer()
    lb.add(1, Block(5))
    with pytest.raises(SerializationError, match=r"object 1 .*Block is not plain.*pack="):
        lb.checkpoint(tmp_path / "c")
    with pytest.raises(MissingFileError, match="no complete checkpoint"):
        pylb.Balancer.restore(None, tmp_path / "c")
    lb.checkpoint(tmp_path / "c", pack=lambda key, block: {"x": block.x, "key": key})
    with pytest.raises(DomainError, match="unpack is missing"):
        pylb.Balancer.restore(None, tmp_path / "c")
    again = pylb.Balancer.restore(None, tmp_path / "c", unpack=lambda key, said: Block(said["x"]))
    ((key, block),) = again.local()
    assert (key, block.x) == (1, 5)
    with pytest.raises(SerializationError, match="object 1 cannot be restored: KeyError: 'y'"):
        pylb.Balancer.restore(None, tmp_path / "c", unpack=lambda key, said: said["y"])

    lb.checkpoint(tmp_path / "c", pickled=True)
    with pytest.raises(DomainError, match="expected pickled=True, which runs code"):
        pylb.Balancer.restore(None, tmp_path / "c")
    again = pylb.Balancer.restore(None, tmp_path / "c", pickled=True)
    assert [block.x for _, block in again.local()] == [5]


def test_nothing_is_unpickled_without_request(tmp_path, monkeypatch):
    lb = pylb.Balancer()
    lb.add(1, Block(5))
    lb.checkpoint(tmp_path / "c", pickled=True)
    path = tmp_path / "c" / disk.LIST
    path.write_text(path.read_text().replace('"pickled": true', '"pickled": false'))
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    with pytest.raises(FormatError, match="not a plain value"):
        pylb.Balancer.restore(None, tmp_path / "c")


def test_when_a_checkpoint_is_possible(tmp_path):
    lb = pylb.Balancer()
    lb.add(1, np.zeros(3))
    lb.send(1, 1, b"x")
    with pytest.raises(StateError, match="after send"):
        lb.checkpoint(tmp_path / "c")
    for it in lb.iterate(3):
        if it:
            lb.checkpoint(tmp_path / "c")
        for _ in lb.local():
            sum(range(1000))
        with pytest.raises(StateError, match="in the middle of iteration"):
            lb.checkpoint(tmp_path / "c")
    lb.checkpoint(tmp_path / "c")
    for words in ({"mode": "shadow"}, {"record": True}):
        with pytest.raises(StateError, match="expected mode="):
            pylb.Balancer.restore(None, tmp_path / "c", **words)
    (tmp_path / "file").touch()
    with pytest.raises(DomainError, match="expected a folder"):
        lb.checkpoint(tmp_path / "file")
    lb = pylb.Balancer.restore(None, tmp_path / "c")
    with pytest.raises(DomainError, match="no page"):
        lb.report(tmp_path / "run.html")
    assert np.isnan(lb.rank_loads()).all()
    assert lb.report().iterations == lb.iteration == 3


def test_an_error_on_one_rank(tmp_path, monkeypatch):
    """All ranks raise the error, and the previous checkpoint still exists."""
    write = disk.write

    def main(comm):
        lb = advance(comm, fill(comm), 5)
        lb.checkpoint(tmp_path / "c")
        advance(comm, lb, 8)

        def full(path, arrays):
            if path.name.endswith(".1.h5"):
                raise OSError(28, "No space left on device")
            return write(path, arrays)

        monkeypatch.setattr(disk, "write", full)
        with pytest.raises((OSError, RemoteError), match="No space left"):
            lb.checkpoint(tmp_path / "c")
        return lb

    on(3, main)
    assert disk.head(tmp_path / "c").iteration == 5
    assert len(list((tmp_path / "c").iterdir())) == 4
    monkeypatch.undo()
    on(2, lambda comm: pylb.Balancer.restore(comm, tmp_path / "c"))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX only")
@pytest.mark.parametrize("at", ["write", "finish", "clean"])
def test_a_killed_run(tmp_path, at):
    """The last complete checkpoint can be read; the next one removes incomplete files."""
    said = f"""
import os, signal, numpy as np, pylb
from pylb.io import checkpoint as disk
lb = pylb.Balancer()
lb.add(1, np.zeros(3))
lb.checkpoint({str(tmp_path / "c")!r})
for _ in lb.iterate(3): pass
call = disk.{at}
def killed(*args, **words):
    if {at!r} == "finish":
        disk.files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    elif {at!r} == "write":
        call(*args, **words)
    os.kill(os.getpid(), signal.SIGKILL) if {at!r} != "finish" else call(*args, **words)
disk.{at} = killed
lb.checkpoint({str(tmp_path / "c")!r})
"""
    run = subprocess.run([sys.executable, "-c", said], capture_output=True, check=False)
    assert run.returncode == -signal.SIGKILL, run.stderr
    lb = pylb.Balancer.restore(None, tmp_path / "c")
    assert lb.iteration == (3 if at == "clean" else 0)
    assert len(list((tmp_path / "c").glob("*.h5"))) == 2
    lb.checkpoint(tmp_path / "c")
    assert len(list((tmp_path / "c").glob("*.h5"))) == 1


# ---- bad files ---------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    lb = fill(None)
    for it in lb.iterate(4):
        for key, _ in lb.local():
            lb.send((key + 1) % N, key, [it, 1.5])
    lb.checkpoint(tmp_path / "c")
    return tmp_path / "c"


def change(saved, **words):
    path = saved / disk.LIST
    path.write_text(json.dumps({**json.loads(path.read_text()), **words}))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"version": 1}, "version 1"),
        ({"format": "pylb graph"}, "format is 'pylb graph'"),
        ({"id": "../../../etc/passwd"}, "out of range"),
        ({"n_ranks": 2}, "out of range"),
        ({"n_ranks": 0, "sizes": []}, "n_ranks is 0"),
        ({"iteration": 5}, "iterations are damaged"),
        ({"iteration": -1}, "iteration is -1"),
        ({"iteration": "4"}, "iteration is '4'"),
        ({"sizes": [5]}, "expected 5"),
        ({"sizes": None}, "not a checkpoint"),
    ],
)
def test_a_bad_list(saved, words, says):
    change(saved, **words)
    with pytest.raises(FormatError, match=says):
        pylb.Balancer.restore(None, saved)


def test_missing_files(saved):
    with pytest.raises(MissingFileError, match="no complete checkpoint"):
        pylb.Balancer.restore(None, saved / "nothing")
    next(saved.glob("*.h5")).unlink()
    with pytest.raises(MissingFileError, match="no such file"):
        pylb.Balancer.restore(None, saved)


def test_cut_and_damaged_files(saved):
    """A file that is cut short or has a changed byte gives a PylbError, or the right values."""
    path = next(saved.glob("*.h5"))
    data, rng = path.read_bytes(), np.random.default_rng(1)
    path.write_bytes(data[:-100])
    with pytest.raises(FormatError, match=r"it has \d+ bytes"):
        pylb.Balancer.restore(None, saved)
    want = values(fill(None))
    for i in range(90):
        bad = bytearray(data)
        if i % 3 == 0:
            bad = bad[: rng.integers(len(bad))]
        else:
            bad[rng.integers(len(bad))] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        change(saved, sizes=[len(bad)])
        try:
            found = values(pylb.Balancer.restore(None, saved))
        except PylbError as why:
            assert len(str(why)) < 2000  # noqa: PT017
        else:
            assert found.keys() == want.keys()


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("key", lambda a: a[::-1]),
        ("value_at", lambda a: a + 1),
        ("value_at", lambda a: a[:-1]),
        ("estimates", lambda a: a * np.nan),
        ("estimates", lambda a: a[:-1]),
        ("estimates", lambda a: -a - 1),
        ("window", lambda a: a - 1),
        ("nbytes", lambda a: a[1:]),
        ("target", lambda a: a[1:]),
        ("rows", lambda a: a[8:]),
        ("spans", lambda a: a * 0),
        ("receipts", lambda a: a[1:]),
        ("value", None),
    ],
)
def test_arrays_that_do_not_belong_together(saved, name, new):
    h5py = pytest.importorskip("h5py")
    path = next(saved.glob("*.h5"))
    with h5py.File(path, "r+") as file:
        data = file[name][:]
        del file[name]
        if new is not None:
            file[name] = new(data)
    change(saved, sizes=[path.stat().st_size])
    with pytest.raises(FormatError):
        pylb.Balancer.restore(None, saved)


# ---- plain values ------------------------------------------------------------------------------

PLAIN = [
    *(
        None,
        True,
        False,
        0,
        -(2**70),
        1.5,
        -0.0,
        float("inf"),
        1e-320,
        2 - 3j,
        "",
        "a\ud800ä",
        b"\0x",
    ),
    *([], (), {}, [1, (2.5, {"a": [None], (1, 2): b"y", 3: {}})], np.float32(1.5), np.int8(-3)),
    *(
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3)),
    ),
    *(
        np.array("text"),
        np.zeros(3, "i4,f8"),
        np.array(["2026-01-01"], "M8[D]"),
        np.zeros((), bool),
    ),
]


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes("A") == b.tobytes("A")
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values(value):
    assert same(decode(encode(value)), value)
    assert same(decode(encode([value, value])), [value, value])


class Sub(np.ndarray):
    pass


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, range(3), Block(1), np.array([None]), np.zeros(2).view(Sub), [Block]],
)
def test_values_that_are_not_plain(value):
    with pytest.raises(SerializationError, match="expected numbers, texts"):
        encode(value)


def test_deeply_nested_values_are_refused():
    deep = []
    for _ in range(10**5):
        deep = [deep]
    with pytest.raises(SerializationError, match="cannot be written"):
        encode(deep)


@pytest.mark.parametrize(
    "text",
    [
        *('[["b", 0], []]', '[["x", 0], []]'),
        *("5", "", '[["f", "00"], []]', '[["a", 0], [0]]', "[" * 10000, "[1, [-5, 5]]"),
        '[["b", -1], [0]]',
        '[["d", [[["l", []], 1]]], []]',
    ],
)
def test_bytes_that_are_no_plain_value(text):
    with pytest.raises(FormatError):
        decode(len(text).to_bytes(8, "little") + text.encode())


# ---- long runs, MPI ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 5, 1023, 1024, 5000])
def test_a_log_goes_on(monkeypatch, n):
    monkeypatch.setattr("pylb.run.records.MOST_ROWS", 1024)
    rows = np.random.default_rng(n).random((3 * 5000, 8))
    one = IterationLog()
    one.extend(rows[:n].tolist())
    two = IterationLog.restored(one.table(), one.span, n)
    for log in (one, two):
        log.extend(rows[n:].tolist())
    assert len(one) == len(two) == len(rows)
    assert np.allclose(one.table(), two.table(), rtol=1e-12)


def test_iterations_beyond_two_to_the_31(tmp_path):
    """A run at iteration 2^31 balances, counts, writes a checkpoint and goes on."""
    start = 2**31 - 5
    for lag in (0, 2):
        lb = pylb.Balancer(every=3, strategy=lambda s: s.rank, lag=lag, record=False)
        lb.add(1, np.zeros(3))
        lb._state.records.restore(np.ones((2**15, 8)), 2**16, start)
        assert list(lb.iterate(12)) == list(range(start, start + 12))
        assert steps(lb)[0] == start + 2
        assert max(steps(lb)) > 2**31
        lb.checkpoint(tmp_path / "c")
        again = pylb.Balancer.restore(None, tmp_path / "c", every=3, lag=lag)
        assert list(again.iterate(3)) == list(range(start + 12, start + 15))
        assert again.metrics.first[-1] > 2**30


def test_the_example(mpiexec, tmp_path):
    """Killed at any time and restarted on other ranks, the example gives the same result."""
    example = HERE.parents[1] / "examples" / "restart.py"
    code, whole, said = launch(mpiexec, 2, example, tmp_path / "a", "--steps", 14)
    assert code == 0, said
    for ranks, upto in ((3, 6), (1, 14)):
        code, out, said = launch(mpiexec, ranks, example, tmp_path / "b", "--steps", upto)
        assert code == 0, said
    assert out.split("checksum")[1] == whole.split("checksum")[1]


# ---- the receipts of LB steps before a checkpoint are those of a run without a stop ------------


KEYS, ENDS, WORDS = 16, (7, 15), {"strategy": "GreedyLB", "every": 2, "record": False}


def loop(comm, lb, n):
    for it in lb.iterate(n):
        for key, _ in lb.local():
            comm.elapse(1e-3 * (1 + (key + it) % 5))


def receipts(lb):
    return [
        (r.iteration, r.migrations, r.gain, r.iterations, r.realised, r.cost)
        for r in lb.history.lb_steps
    ]


def without_stop(comm, folder):
    """Run two loops; between them, write a checkpoint."""
    lb = pylb.Balancer(comm, **WORDS)
    for key in range(comm.rank * KEYS // comm.size, (comm.rank + 1) * KEYS // comm.size):
        lb.add(key, None)
    loop(comm, lb, ENDS[0])
    lb.checkpoint(folder)
    first = receipts(lb)
    loop(comm, lb, ENDS[1] - ENDS[0])
    return first, receipts(lb)


def restored(comm, folder):
    """Run the second loop, from the checkpoint."""
    lb = pylb.Balancer.restore(comm, folder, **WORDS)
    first = receipts(lb)
    loop(comm, lb, ENDS[1] - ENDS[0])
    return first, receipts(lb)


@pytest.mark.parametrize("ranks", [2, 3])
def test_on_the_same_number_of_ranks(tmp_path, ranks):
    cluster = pylb.VirtualCluster(ranks, clock="none")
    one = cluster.run(without_stop, tmp_path / "folder")[0]
    other = cluster.run(restored, tmp_path / "folder")[0]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # on clocks of other ranges
    assert one[0][-1][3] < one[1][len(one[0]) - 1][3]  # its gain was computed again


def counts(comm, folder):
    """Return receipts and counts before and after the second loop, and write a checkpoint."""
    lb = pylb.Balancer.restore(comm, folder, **WORDS)
    first, report = receipts(lb), lb.report()
    loop(comm, lb, 6)
    lb.checkpoint(folder)
    return first, (report.n_lb_steps, report.migrations), receipts(lb), lb.n_lb_steps


def test_on_another_number_of_ranks(tmp_path):
    before = pylb.VirtualCluster(2, clock="none").run(without_stop, tmp_path)[0][0]
    for ranks in (3, 3, 1):
        known, said, after, n = pylb.VirtualCluster(ranks, clock="none").run(counts, tmp_path)[0]
        assert [r[:2] for r in known] == [r[:2] for r in before]
        assert said == (len(before), sum(r[1] for r in before))
        assert [r[:2] for r in after[: len(before)]] == [r[:2] for r in before]
        assert n == len(after) > len(before)
        before = after


def test_a_restart_knows_that_the_strategy_runs_beside_iterations(tmp_path):
    main = []

    def slow(snapshot):
        main.append(threading.current_thread() is threading.main_thread())
        time.sleep(0.06)
        return snapshot.rank

    options = {"strategy": slow, "every": 2, "overlap": True, "record": False}
    with told_clock():
        lb = dealt(pylb.Balancer(**options), range(3))
        for _ in range(3):
            for it in lb.iterate(9):
                time.sleep(0.4 * (it % 3 == 1))  # while the strategy runs in a thread
            lb.checkpoint(tmp_path)
            lb = pylb.Balancer.restore(None, tmp_path, **options)
    assert main == [True, *[False] * 8]
