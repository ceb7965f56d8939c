"""The runtime on one rank without MPI, and its parts."""

import math
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from chance import examples
from each_case import dealt, in_blocks, loop
from hypothesis import given, settings
from hypothesis import strategies as st

import pylb
from pylb import VirtualCluster, _core, errors
from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Stats, Step
from pylb.comm.connect import Virtual
from pylb.comm.transport import Transport
from pylb.errors import (
    DomainError,
    RemoteError,
    SerializationError,
    StateError,
    StrategyError,
    UnknownKeyError,
)
from pylb.placing import registry
from pylb.run.local_objects import SAMPLE
from pylb.run.loops import AtSyncProtocol
from pylb.run.options import ranks_with


def spend(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_the_record_has_the_fields_of_the_table():
    header = (Path(__file__).parents[2] / "csrc/measure/measure.h").read_text()
    names = re.findall(r"^ *X\((\w+), \w+, [A-Z_]+,", header, re.M)
    assert len(names) == 22
    assert Stats._fields == (*names, "mixed", "phases")


def test_a_clock_that_was_set_back_counts_as_nothing(monkeypatch):
    clock = _core.clock
    monkeypatch.setattr("pylb._core.clock", lambda: -clock())
    for when in ({"trigger": "metabalancer"}, {"every": 4}, {}):
        lb = pylb.Balancer(**when)
        lb.add(1, None)
        assert list(lb.iterate(30)) == list(range(30))
        assert not lb.metrics.time.any()
        assert not lb.metrics.idle.any()


def test_metrics_are_a_table_with_a_row_for_each_iteration():
    pytest.importorskip("pandas")
    lb = pylb.Balancer(load=lambda key, block: 1.0 + key)
    loop(dealt(lb, range(2)), 4)
    table = lb.metrics.to_pandas()
    assert table.index.tolist() == [0, 1, 2, 3]
    assert table["max"].tolist() == [3.0] * 4
    assert {*table.columns} == {*lb.metrics._fields} - {"first"}


def test_loads_are_the_time_of_the_bodies():
    lb = dealt(pylb.Balancer(mode="off", clock="wall"), range(4), lambda key: key)
    for _ in lb.iterate(3):
        for key, _ in lb.local():
            spend(1e-3 * key)
        spend(5e-3)  # outside of the loop, so this time counts for no object
    assert np.all(lb.metrics.max >= 6e-3)
    assert np.all(lb.metrics.time >= 11e-3)
    assert np.all(lb.metrics.max <= lb.metrics.time - 5e-3)
    assert np.array_equal(lb.metrics.max_over_mean, np.ones(3))


def test_a_loop_that_is_left_stops_the_clock():
    seconds = np.zeros(3)
    recorder = _core.Recorder(np.array([5, 6, 7]), ["a", "b", "c"], seconds, "wall")
    for _, item in recorder:
        spend(1e-3)
        if item == "b":
            break
    after = seconds.copy()
    spend(1e-3)
    assert after[0] >= 1e-3
    assert after[1] >= 1e-3
    assert after[2] == 0.0

    def fail():
        for _ in recorder:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seconds[0] >= after[0]
    assert seconds[1] == after[1]
    assert list(recorder) == [(5, "a"), (6, "b"), (7, "c")]


def test_large_arrays_are_not_copied():
    a = np.arange(10**5)
    parts = parcel.pack({"a": a})
    assert len(parts) == 2
    assert np.shares_memory(np.frombuffer(parts[1], a.dtype), a)


def mail(*keys):
    out = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)
    out.bind(_core.Keys(np.array(sorted(keys), np.int64)))
    return out


def delivered(sent, copy=True):
    """Return what object 0 reads after object 1 has sent it each of these data."""
    box = mail(0, 1)
    for data in sent:
        box.post(0, 1, data, copy)
    box.open()
    assert box.pack(np.zeros(len(sent), np.int32), 0) == []
    box.part()
    box.restore()
    box.deliver(False)
    return [data for _, data in box.inbox(0)]


def test_what_is_sent_is_the_value_at_that_moment():
    for data in (np.ones(3), [1, 2], {"a": np.ones(2)}):
        box = mail(0)
        box.post(0, 0, data, True)
        before = repr(data)
        data.clear() if not isinstance(data, np.ndarray) else data.fill(7)
        box.open()
        box.pack([0], 0)
        box.restore()
        box.deliver(False)
        assert repr(box.inbox(0)[0][1]) == before
    a = np.random.default_rng(1).random((3, 4, 5)).transpose(2, 0, 1)
    (here,) = delivered([a])
    (there,) = parcel.unpack(parcel.pack([here]))
    assert here.strides == there.strides  # so that sums have the same bits on every rank


def test_messages_reach_the_next_pass_in_order():
    lb = pylb.Balancer(every=2)
    for key in (5, 1, 3):
        lb.add(key, None)
    lb.send(1, 5, "first")
    lb.send(1, 3, "a")
    lb.send(1, 3, "b")
    seen = []
    for it in lb.iterate(3):
        for key, _ in lb.local():
            seen.append((it, key, lb.inbox(key)))
            if it == 1:
                lb.send(key, key, it)
    assert seen[0] == (0, 1, [(3, "a"), (3, "b"), (5, "first")])
    assert [s[1] for s in seen[:3]] == [1, 3, 5]
    assert all(s[2] == [] for s in seen[1:6])
    assert [s[2] for s in seen[6:]] == [[(1, 1)], [(3, 1)], [(5, 1)]]


def test_a_strategy_that_raised_once_is_asked_again():
    calls = []

    def now_and_then(snapshot):
        calls.append(snapshot)
        if len(calls) % 2:
            raise OSError("no")
        return snapshot.rank

    for lag in (0, 2):
        lb = pylb.Balancer(strategy=now_and_then, every=4, lag=lag)
        lb.add(1, "x")
        with pytest.raises(StrategyError, match="raised OSError: no"):
            list(lb.iterate(7))
        list(lb.iterate(7))
        assert len(lb.history.lb_steps) == 1
    lb = pylb.AsyncBalancer(strategy=now_and_then, every=4)
    lb.add(1, "x")
    lb.begin(7)
    raised = 0
    while (answer := lb.at_sync()) is not pylb.run.AtSync.END:
        if answer is pylb.run.AtSync.BALANCE:
            try:
                lb.lb_step()
            except StrategyError:
                raised += 1  # the error is raised again
        elif lb.at_sync(1) is pylb.run.AtSync.GO:
            list(lb.local())
    assert raised == 1
    assert [r.choice for r in lb.history] == ["balance"]


def test_the_default_trigger_decides():
    lb = pylb.Balancer(load=lambda key, block: 1.0)
    lb.add(1, "x")
    list(lb.iterate(20))
    report = lb.report()
    assert report.trigger == "auto"
    assert [r for r in report.history if r.choice == "balance"] == []
    assert report.iterations == 20
    assert "max/mean over all iterations" in str(report)


def test_reports_are_written_by_suffix(tmp_path):
    lb = pylb.Balancer(every=1)
    lb.add(1, "x")
    list(lb.iterate(3))
    assert lb.rank_loads().shape == (3, 1)
    lb.report(tmp_path / "run.json")
    lb.report(tmp_path / "run.txt")
    assert '"migrations": 0' in (tmp_path / "run.json").read_text()
    with pytest.raises(DomainError, match=r"expected one of the suffixes \.html, \.json, \.txt"):
        lb.report(tmp_path / "run.pdf")
    assert [r.iteration for r in lb.history] == [0, 1]


def test_an_ended_agreement_says_why():
    agreement = Agreement(Transport())
    agreement.ended = "rank 3 failed"
    with pytest.raises(StateError, match="rank 3 failed"):
        agreement.step(Step.SYNC, 0)


def test_a_load_function_that_raises_stop_iteration():
    loads = iter([5.0])
    lb = dealt(pylb.Balancer(load=lambda key, block: next(loads)), range(4))
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(lb.iterate(1))


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize(
    ("error", "raised"), [(ArithmeticError, StrategyError), (KeyboardInterrupt, KeyboardInterrupt)]
)
def test_shadow_mode_goes_on_after_a_strategy_that_failed(error, raised, lag):
    failing = False

    def strategy(snapshot):
        if failing:
            raise error
        return snapshot.rank

    lb = pylb.Balancer(mode="shadow", every=2, strategy=strategy, lag=lag, load=lambda *_: 1.0)
    lb.add(0, None)
    list(lb.iterate(3))
    known = len(lb.shadow.max)
    failing = True
    with pytest.raises(raised):
        list(lb.iterate(6))
    failing = False
    list(lb.iterate(6))
    assert lb.iteration == 15
    assert len(lb.metrics.max) == 15
    assert len(lb.shadow.max) == known  # later iterations are measured, but not replayed
    assert lb._mode.saved == 0.0


def test_a_lagged_loop_after_a_loop_that_could_not_begin(monkeypatch):
    def no_memory(*_):
        raise MemoryError

    lb = pylb.Balancer(lag=2)
    lb.add(0, None)
    with monkeypatch.context() as patch:
        patch.setattr(AtSyncProtocol, "bind", no_memory)
        with pytest.raises(MemoryError):
            next(lb.iterate(3))
    assert len(list(lb.iterate(3))) == 3


@pytest.mark.parametrize("call", ["send", "multicast"])
def test_a_message_that_cannot_be_pickled(call):
    lb = pylb.Balancer()
    lb.add(0, None)
    with pytest.raises(SerializationError, match=r"a message cannot be pickled: .*lambda"):
        lb.send(0, 0, lambda: 0) if call == "send" else lb.multicast([0, 0], 0, lambda: 0)
    list(lb.iterate(1))
    assert lb.inbox(0) == []


@pytest.mark.parametrize("moves", [False, True])
def test_a_message_without_a_copy_that_cannot_be_pickled(moves):
    def program(comm):
        lb = pylb.Balancer(comm, every=1, strategy=lambda s: 1 - s.rank)
        lb.add(lb.rank, None)

        def send():
            for _ in lb.iterate(2):
                lb.send(lb.rank if moves else 1 - lb.rank, lb.rank, lambda: 0, copy=False)

        with pytest.raises(SerializationError, match=r"a message cannot be pickled: .*lambda"):
            send()
        return True

    assert pylb.VirtualCluster(2).run(program) == [True, True]


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def test_an_error_without_a_text_reaches_the_other_ranks():
    def program(comm):
        def load(key, block):
            if comm.rank == 1:
                raise Unprintable
            return 1.0

        lb = pylb.Balancer(comm, load=load)
        lb.add(lb.rank, None)
        with pytest.raises(Unprintable if comm.rank == 1 else RemoteError) as caught:
            list(lb.iterate(1))
        return str(caught.value) if comm.rank == 0 else ""

    text = "rank 1: Unprintable: <exception str() failed>"
    assert pylb.VirtualCluster(2).run(program)[0] == text


@pytest.mark.parametrize("nbytes", [-5, 2**62, 2**70, "many"])
def test_an_impossible_size_of_a_message_is_not_used(nbytes):
    lb = pylb.Balancer(every=1, strategy=lambda s: s.rank)
    lb.add(0, None)
    lb.add(1, None)
    for _ in lb.iterate(2):
        for _ in range(2):
            lb.send(1, 0, SimpleNamespace(nbytes=nbytes), copy=False)
    assert len(lb.history) == 1


class OwnArray(np.ndarray):
    pass


MAIL = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.arange(12)[::2],
    np.full((), 3.0, np.float32),
    np.zeros((0, 3)),
    np.array([True, False]),
    np.array([1 + 2j]),
    np.arange(3, dtype=">i4"),
    np.array(["2026-11-21"], "M8[D]"),
    np.array([(1, 2.0)], "i4,f8"),
    np.array([{}, None]),
    np.ones(1000),
    np.ones(3).view(OwnArray),
    3.5,
    "text",
    {"a": np.ones(3)},
]


def packed(messages):
    """Return messages (target, source, data) packed as they travel from rank 0 to rank 1."""
    box = mail(*(source for _, source, _ in messages))
    for target, source, data in messages:
        box.post(target, source, data, False)
    box.open()
    ((rank, n, wire, others),) = box.pack(np.ones(len(messages), np.int32), 0)
    assert (rank, n) == (1, len(messages))
    return wire, others


def test_mail_arrives_as_it_was_sent():
    wire, others = packed([(k, -k, data) for k, data in enumerate(MAIL)])
    assert len(others) == len(MAIL) - 7  # plain arrays and numbers are not pickled
    there = mail(*range(len(MAIL)))
    there.take(wire, parcel.unpack(parcel.pack(others)))
    there.deliver(False)
    for k, sent in enumerate(MAIL):
        ((source, data),) = there.inbox(k)
        assert source == -k
        assert type(data) is type(sent)
        if isinstance(sent, np.ndarray):
            assert data.dtype == sent.dtype
            assert data.flags.fnc == sent.flags.fnc
            np.testing.assert_array_equal(data, sent)
        elif not isinstance(sent, dict):
            assert data == sent
    there.inbox(0)[0][1][:] += 1.0  # the received array is a copy
    again = mail(*range(len(MAIL)))
    again.take(wire, others)
    again.deliver(False)
    assert again.inbox(0)[0][1][0, 0] == 0.0


def test_the_first_cost_is_foreseen_from_some_objects():
    costs = []
    for nbytes in (10**5, 10**7):
        lb = pylb.Balancer(network=(1e-6, 1e-9))
        for key in range(4):
            lb.add(key, np.ones(nbytes // 8))
        list(lb.iterate(1))
        sizes = lb._objects.table["nbytes"].tolist()
        assert nbytes <= min(sizes) <= max(sizes) < nbytes + 1000
        handling = lb._objects.sizes.handling
        costs.append(lb._state.records.loops[0].cost)
        assert costs[-1] == _core.first_cost(1e-6, 1e-9, handling, 4, sum(sizes), 1)
        assert costs[-1] == 2.0 * handling * 4 + 1e-9 * sum(sizes) + 1e-6 * 8 * 1
    assert costs[0] >= 4e-4 + 8e-6
    assert costs[1] >= 4e-2
    # 1,000 ranks need ten rounds
    assert _core.first_cost(1e-6, 0.0, 0.0, 0, 0, 1000) == 1e-6 * 8 * 10


class NoMemory:
    def __reduce__(self):
        raise MemoryError


class Counted:
    """Counts how often it is pickled."""

    packed: list[int]

    def __init__(self, n):
        self.n = n

    def __reduce__(self):
        Counted.packed.append(self.n)
        return Counted, (self.n,), {"more": "x" * self.n}


def test_sizes_that_nobody_gave_are_measured_by_a_sample(monkeypatch):
    packed = []
    monkeypatch.setattr(Counted, "packed", packed, raising=False)
    lb = dealt(pylb.Balancer(every=5), range(10 * SAMPLE), lambda key: Counted(1000 + key))
    lb.add(10**6, Counted(7), nbytes=123)
    lb.add(10**6 + 1, np.zeros(1000))
    lb.add(10**6 + 2, lambda: None)  # cannot be pickled, so it has no size
    lb.add(10**6 + 3, NoMemory())
    list(lb.iterate(1))
    store = lb._objects
    size = dict(zip(store.keys.tolist(), store.table["nbytes"].tolist(), strict=True))
    assert 0 < len(packed) <= SAMPLE
    assert max(packed) - min(packed) > 8 * SAMPLE  # the sample is spread evenly over the keys
    assert size[10**6] == 123
    assert 8000 <= size[10**6 + 1] < 9000
    assert size[10**6 + 2] == size[10**6 + 3] == 0
    assert lb._objects._pinned == {10**6 + 2}  # more memory may let the other one move
    others = {size[k] for k in range(10 * SAMPLE) if 1000 + k not in packed}
    assert len(others) == 1
    assert 1000 < others.pop() < 1000 + 20 * SAMPLE
    n = len(packed)
    lb.add(5000, Counted(5000))
    list(lb.iterate(1))
    assert len(packed) == n  # a known type is not pickled again
    assert lb._objects.table["nbytes"][store.places.find(5000)] > 0


def test_objects_that_cannot_be_pickled_are_counted(caplog, monkeypatch):
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    pylb.register_strategy(lambda snapshot: snapshot.rank, name="own", looks_at="load")
    for named in ("GreedyLB", "auto"):  # "auto" may choose "own", which may move all objects
        lb = dealt(pylb.Balancer(strategy=named, mode="off"), range(30), lambda key: lambda: key)
        list(lb.iterate(1))
        lb._objects.n_ranks = 2  # a single rank says nothing
        lb._objects.pin(np.arange(30))
        assert (lb._objects.table["migratable"] == (named == "auto")).all()
    assert caplog.text.count("it stays on rank 0, and so do 29 more, e.g. [1, 2,") == 2


VALUES = {"list": lambda: [1], "tuple": lambda: (2,), "array": lambda: np.zeros(3)}


@settings(max_examples=60, deadline=None)
@given(
    loops=st.lists(
        st.lists(st.tuples(st.sampled_from(sorted(VALUES)), st.sampled_from([0, 100])), max_size=3),
        max_size=5,
    )
)
def test_every_object_gets_a_size_whatever_comes_when(loops):
    """Objects of new and known types come, with and without a size."""
    lb, sizes = pylb.Balancer(trigger="auto", load=lambda key, block: 1.0), []
    for new in loops:
        for kind, nbytes in new:
            lb.add(len(sizes), VALUES[kind](), nbytes=nbytes)
            sizes.append(nbytes)
        list(lb.iterate(1))
        given = lb._objects.table["nbytes"]
        assert (given > 0).all()
        assert all(n in (0, got) for n, got in zip(sizes, given.tolist(), strict=True))


@pytest.mark.parametrize("load", [None, "x", [1.0], 10**400, 1j, math.nan], ids=type)
def test_a_load_that_is_no_number_is_named(load):
    lb = pylb.Balancer(load=lambda key, block: load)
    lb.add(7, "an object")
    with pytest.raises(DomainError, match=r"load of object 7 is .*: expected a finite"):
        for _ in lb.iterate(1):
            pass


@pytest.mark.parametrize("value", ["x", None.__class__, -1.5, 10**400, [10**400]], ids=type)
@pytest.mark.parametrize("name", ["nbytes", "memory", "work", "coords"])
def test_a_property_that_is_no_number_is_named(name, value):
    with pytest.raises(DomainError, match=f"{name} (is|are)"):
        pylb.Balancer().add(1, "an object", **{name: value})


@pytest.mark.parametrize("error", [KeyError("a name"), UnknownKeyError("a name")])
def test_a_key_error_of_a_load_function_reaches_the_program(error):
    def load(key, block):
        raise error

    lb = pylb.AsyncBalancer(lag=2, load=load)
    lb.add(7, None)
    lb.begin(1)
    with pytest.raises(type(error), match="a name"):
        lb.at_sync(7)
    with pytest.raises(UnknownKeyError, match="key 8: no such object on this rank"):
        lb.at_sync(8)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_message_between_two_loops_does_not_displace_those_of_the_last_iteration(ranks):
    def main(comm):
        lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + 1) % s.n_ranks, every=2)
        if lb.rank == 0:
            for key in range(4):
                lb.add(key, None)
        got = []
        for _ in range(2):
            for it in lb.iterate(2):
                for key, _ in lb.local():
                    if key == 1:
                        got.append((it, lb.inbox(key)))
                    lb.send(1, key, it)
            if any(key == 2 for key, _ in lb.local()):
                lb.send(1, 2, "between")
        return got

    of_ranks = pylb.VirtualCluster(ranks, clock="none").run(main)
    got = sorted(entry for got in of_ranks for entry in got)
    first, last = ([(key, it) for key in range(4)] for it in (0, 1))
    assert got[:2] == [(0, []), (1, first)]
    assert got[2] == (2, [*last[:3], (2, "between"), last[3]])
    assert got[3] == (3, [(key, 2) for key in range(4)])


def test_messages_of_an_iteration_that_was_left_replace_those_that_it_has_read():
    lb = pylb.Balancer()
    lb.add(0, None)
    for it in lb.iterate(3):
        lb.send(0, 0, it)
        if it == 1:
            assert lb.inbox(0) == [(0, 0)]
            break
    for _ in lb.iterate(1):
        assert lb.inbox(0) == [(0, 1)]


@pytest.mark.parametrize("given", ["7", None.__class__, 2**70, [7]])
def test_at_sync_refuses_what_is_no_key(given):
    lb = pylb.AsyncBalancer(lag=2)
    lb.add(7, None)
    lb.begin(1)
    with pytest.raises(DomainError, match=r"key is .*: expected an integer"):
        lb.at_sync(given)
    assert lb.at_sync(np.int64(7)) is pylb.run.AtSync.END


def test_ranks_of_knows_the_new_objects_of_this_rank():
    def main(comm):
        lb = pylb.Balancer(comm)
        lb.add(comm.rank, None)
        assert lb.ranks_of([comm.rank]).tolist() == [comm.rank]
        for _ in lb.iterate(1):
            lb.add(10 + comm.rank, None)
            assert lb.ranks_of([10 + comm.rank, comm.rank]).tolist() == 2 * [comm.rank]
            with pytest.raises(UnknownKeyError, match=r"key 1[01]: no such object"):
                lb.ranks_of([11 - comm.rank])  # it is known only from the next iteration on
        return lb.ranks_of([0, 1, 10, 11]).tolist()

    assert pylb.VirtualCluster(2, clock="none").run(main) == 2 * [[0, 1, 0, 1]]


def test_no_lag_on_virtual_ranks():
    def program(comm):
        for _ in pylb.Balancer(comm, lag=2).iterate(3):
            pass

    with pytest.raises(StateError, match="expected lag=0"):
        pylb.VirtualCluster(2).run(program)


# ---- objects that migrate while the program goes on; tests/mpi/overlap_cases.py has more -------


def test_objects_that_come_are_last_in_the_next_loop():
    def program(comm):
        lb = pylb.Balancer(comm, strategy=lambda s: (s.rank + s.key % 2) % 2, every=1, overlap=True)
        in_blocks(lb, 8, lambda key: np.full(10_000, float(key)))
        return [[key for key, block in lb.local() if block[-1] == key] for _ in lb.iterate(2)]

    first, second = pylb.VirtualCluster(2).run(program)
    assert first == [[0, 1, 2, 3], [0, 2, 5, 7]]
    assert second == [[4, 5, 6, 7], [4, 6, 1, 3]]


# ---- ranks learn about their node and their partners with few messages -------------------------


@examples(30)
@given(st.data())
def test_each_rank_learns_the_ranks_of_its_node(data):
    """Each rank learns the ranks of its node; the list is empty if there is only one node."""
    p = data.draw(st.integers(1, 12))
    names = data.draw(st.lists(st.sampled_from(["a", "b", "ü", "node17"]), min_size=p, max_size=p))

    def main(comm):
        return ranks_with(Agreement(Virtual(comm)), 0, names[comm.rank]).tolist()

    one = len(set(names)) == 1
    expected = [[] if one else [r for r in range(p) if names[r] == name] for name in names]
    assert VirtualCluster(p).run(main) == expected


@pytest.mark.parametrize(("p", "expected"), [(1, 32), (8192, 32), (65536, 4)])
def test_the_sample_for_speeds_is_limited_per_rank_and_in_all(p, expected):
    """Each rank has 1,000 objects; only the first million keys are counted."""
    among = min(1000 * p, 10**6)
    sampled = len(_core.sampled(np.arange(among), 1000 * p, p))
    assert sampled == pytest.approx(among * expected / 1000, rel=0.3)


# ---- addresses of objects: unusual keys, objects removed while messages come, ranks that forget --


LEAST, MOST = -(2**63), 2**63 - 1


def on_ranks(p, main):
    return pylb.VirtualCluster(p, clock="none").run(main)


def scattered(seed):
    """A strategy that places at random."""
    rng = np.random.default_rng(seed)
    return lambda snapshot: rng.integers(0, snapshot.n_ranks, snapshot.n_objects).astype(np.int32)


# ---- keys --------------------------------------------------------------------------------------


def test_the_least_and_the_greatest_keys_move_and_get_their_messages():
    keys = [LEAST, LEAST + 1, -1, 0, MOST - 1, MOST]

    def main(comm):
        lb = pylb.Balancer(comm, strategy=scattered(1), every=1)
        for key in keys[comm.rank :: comm.size]:
            lb.add(key, key)
        seen = []
        for _ in lb.iterate(6):
            for key, block in lb.local():
                assert key == block
                seen += [(key, source) for source, _ in lb.inbox(key)]
                for target in keys:
                    lb.send(target, key, None)
        return seen

    seen = [pair for mine in on_ranks(3, main) for pair in mine]
    assert sorted(seen) == sorted((a, b) for a in keys for b in keys for _ in range(5))


@pytest.mark.parametrize("key", [2**63, LEAST - 1, 10**30, 1.5, "a", None, np.float64(3), [1]])
def test_a_key_that_is_no_integer_of_64_bits_is_named(key):
    lb = pylb.Balancer()
    lb.add(0, None)
    list(lb.local())
    calls = {
        "key": [lambda: lb.add(key, 1), lambda: lb.remove(key), lambda: lb.rank_of(key)],
        "target": [lambda: lb.send(key, 0, 1)],
        "source": [lambda: lb.send(0, key, 1)],
        "keys": [lambda: lb.ranks_of([key])],
        "ids": [lambda: pylb.Directory(None).update([key])],
    }
    for name, some in calls.items():
        for call in some:
            with pytest.raises(errors.DomainError, match=name):
                call()
    with pytest.raises(errors.DomainError, match="key"):
        lb.inbox(key)


# ---- objects that go while messages come -------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_an_object_removed_while_a_message_to_it_is_under_way(known):
    """A message of the same iteration is dropped; a later one is an error on every rank."""

    def main(comm):
        lb = dealt(pylb.Balancer(comm, strategy=scattered(3), every=1), range(12), lambda key: key)
        told = []
        try:
            for it in lb.iterate(6):
                for key, _ in lb.local():
                    told += lb.inbox(key)
                    if key != 5 and (known or it >= 2) and it <= 3:
                        lb.send(5, key, it)
                    elif key == 5 and it == 2:
                        lb.remove(5)
        except errors.UnknownKeyError as why:
            return it, str(why), told
        return it, "", told

    for it, words, told in on_ranks(3, main):
        assert (it, "target 5" in words) == (3, True), words
        assert all(data < 2 for _, data in told)


# ---- ranks that forget -------------------------------------------------------------------------


def test_homes_forget_ranks_that_no_longer_need_an_address():
    """At the end each rank has sent to every object, but knows only those of recent iterations."""
    p, n, iterations = 6, 300, 80

    def main(comm):
        lb = dealt(pylb.Balancer(comm, strategy=scattered(4), every=1), range(n), lambda key: key)
        right = 0
        for it in lb.iterate(iterations):
            for key, _ in lb.local():
                for source, data in lb.inbox(key):
                    assert data == (source, it - 1)
                    right += 1
                if (key + it) % 10 == 0:
                    lb.send(key * 7 % n, key, (key, it))
        places = lb._objects.addresses
        return len(places._asked), len(places._asker), right

    asked, askers, right = zip(*on_ranks(p, main), strict=True)
    assert sum(right) == sum((k + it) % 10 == 0 for k in range(n) for it in range(iterations - 1))
    assert max(asked) <= 2 * 64
    assert sum(askers) <= p * 2 * 64 + n


def test_what_a_program_has_asked_for_is_never_forgotten():
    p, n = 4, 400

    def main(comm):
        lb = dealt(pylb.Balancer(comm, strategy=scattered(5), every=1), range(n), lambda key: key)
        for it in lb.iterate(6):
            if it == 0:
                lb.ranks_of(range(0, n, 3))
            for key, _ in lb.local():
                lb.send((key + it) % n, key, None)
        here = {key for key, _ in lb.local()}
        return {key: lb.rank_of(key) for key in range(0, n, 3)}, here

    done = on_ranks(p, main)
    for found, _ in done:
        assert all(key in done[rank][1] for key, rank in found.items())
