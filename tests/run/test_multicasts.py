"""Multicasts: on virtual ranks, under mpiexec, and the functions behind them."""

import dataclasses

import multicast_cases  # these cases also run under mpiexec
import numpy as np
import pytest
from each_case import cases_of, in_blocks

import pylb
from pylb import _core
from pylb.comm import parcel
from pylb.errors import StateError
from pylb.io import record_file as records
from pylb.model.snapshot import Rows


@pytest.mark.parametrize("case", cases_of(multicast_cases))
def test_cases(case):
    answers = [pylb.VirtualCluster(p, clock="none").run(case) for p in (1, 2, 3, 5)]
    assert all(answer == answers[0][0] for ranks in answers for answer in ranks)


def test_without_messages():
    lb = pylb.Balancer(lag=2)
    lb.add(0, None)
    with pytest.raises(StateError, match=r"multicast\(\) with lag=2"):
        lb.multicast([0], 0, 1.0)


def mail(*keys):
    out = _core.Mail(parcel.freeze, parcel.thaw, parcel.Pickled)
    out.bind(_core.Keys(np.array(keys, np.int64)))
    return out


def test_the_graph_has_no_senders_that_have_left():
    """An LB step at the start of a loop moves objects after they have sent messages."""
    one = mail(3, 9)
    one.post(7, 9, 1.0, True)
    one.multicast([3, 7], 3, 1.0, True)
    one.bind(_core.Keys(np.array([3])))
    one.open()
    one.pack(np.full(3, 1, np.int32), 0)
    one.deliver(False)
    assert one.edges()[:, :2].tolist() == [[3, 3], [3, 7]]


def test_rows_and_back():
    snapshot = pylb.Snapshot(
        np.ones(5),
        rank=[0, 0, 1, 1, 2],
        edges=([0, 1], [1, 2], [5, 6]),
        multicasts=([3, 3, 0], [0, 2, 4, 5], [0, 1, 0, 1, 4], [7, 8, 9], [1, 2, 0.5]),
    )
    rows = Rows.of(snapshot)
    assert rows.multicast.tolist() == [0, 0, 1, 1, 2, 2, 3]
    edges, multicasts = rows.split()
    for column, expected in zip(edges[:3], snapshot.edges[:3], strict=True):
        assert column.tolist() == expected.tolist()
    for column, expected in zip(multicasts, snapshot.multicasts, strict=True):
        assert column.tolist() == expected.tolist()
    assert Rows.of(pylb.Snapshot(np.ones(2), rank=[0, 0])).split()[1] is None


# ---- records -----------------------------------------------------------------------------------


def program(comm, path, strategy):
    """Run objects that multicast, send, and move in space."""
    lb = pylb.Balancer(
        comm,
        strategy=strategy,
        every=3,
        load=lambda key, block: 1.0 + key % 5 + 0.1 * len(block),
        pause_if_useless=False,
        learn_speeds=False,
    )
    n = 24
    for key in range(n):
        if key * comm.size // n == comm.rank:
            lb.add(key, [], coords=(key % 5, key // 5 + 0.5), nbytes=100)
    for it in lb.iterate(10):
        for key, block in lb.local():
            block.append(0)
            lb.update(key, coords=(key % 5 + 0.1 * it, key // 5))
            lb.multicast([(key + j) % n for j in (1, 5, 9)], key, np.zeros(50))
            lb.send((key + 1) % n, key, 1.0)
    lb.save(path)
    return [r.predicted for r in lb.history.lb_steps]


@pytest.mark.parametrize("strategy", ["RCBLB", "HSFCLB", "HypergraphLB", "DiffusionLB"])
def test_a_record_is_replayed(tmp_path, strategy):
    """A replay with multicasts and positions gives the run's placements and predictions."""
    path = tmp_path / "run.h5"
    predicted = pylb.VirtualCluster(4, clock="none").run(program, path, strategy)[0]
    run = pylb.RunRecord.load(path)
    trace = run.trace
    replayed = trace.replay(strategy, every=3)
    assert np.array_equal(replayed.rank, trace.task_rank)
    assert [r.predicted for r in replayed.lb_steps] == predicted
    assert len(predicted) == 3
    for i in range(1, 10):  # in the first iteration, homes forward messages
        m = trace[i].multicasts
        assert np.asarray(m.nbytes).tolist() == [400.0] * 24
        assert np.diff(np.asarray(m.start)).tolist() == [3] * 24
        assert trace[i].edge_bytes.tolist() == [8.0] * 24
        assert pylb.evaluate(trace[i]).messages_network == run.messages[i]
    positions = [s.coords[1] for s in run.stretches]
    assert np.allclose([p[0] for p in positions], [1.2, 1.5, 1.8, 1.9])


def test_a_record_of_cells_has_their_positions(tmp_path):
    def main(comm, path):
        lb = pylb.Advisor(comm, mode="off")
        for _ in lb.iterate(4):
            keys = np.arange(8) + 8 * comm.rank
            where = np.stack([keys % 4, keys // 4], axis=1)
            lb.advise(loads=1.0 + keys, keys=keys, coords=where)
        lb.save(path)

    pylb.VirtualCluster(2, clock="none").run(main, tmp_path / "run.h5")
    trace = pylb.Trace.load(tmp_path / "run.h5")
    assert trace[3].coords.tolist() == [[key % 4, key // 4, 0] for key in range(16)]
    plan = pylb.place(trace[2], "RCBLB")
    assert trace.replay("RCBLB", every=3).rank[48:].tolist() == plan.rank.tolist()


def test_other_forms_of_a_record(tmp_path):
    path = tmp_path / "run.h5"
    pylb.VirtualCluster(4, clock="none").run(program, path, "GreedyLB")
    trace = pylb.Trace.load(path)
    again = pylb.Trace.from_snapshots(list(trace))
    assert np.array_equal(again.edge_multicast, trace.edge_multicast)
    assert np.array_equal(again.task_coords, trace.task_coords)
    assert np.array_equal(trace[2:5].edge_multicast, trace.edge_multicast[192:480])
    assert len(trace.communications(0)) == 96
    written = pylb.Trace.load(trace.save(tmp_path / "vt")[0])  # vt's messages have one receiver
    assert len(written.edge_src) == len(trace.edge_src)
    pylb.RunRecord.of(trace)
    other = tmp_path / "other.h5"
    records.write(pylb.RunRecord.load(path), other)
    copied = pylb.RunRecord.load(other)
    for a, b in zip(copied.stretches, pylb.RunRecord.load(path).stretches, strict=True):
        assert np.array_equal(a.edge_multicast, b.edge_multicast)
        assert np.array_equal(a.coords, b.coords)


@pytest.mark.parametrize("strategy", ["GreedyLB", "HypergraphLB", "unbalanced"])
def test_times_with_messages(tmp_path, strategy):
    """A replay counts a multicast once for each rank, like the cost of a snapshot."""
    path = tmp_path / "run.h5"
    pylb.VirtualCluster(4, clock="none").run(program, path, "GreedyLB")
    trace = dataclasses.replace(pylb.Trace.load(path), figures=None, recorded=None)
    alpha, beta = 0.3, 1e-3
    how = {} if strategy == "unbalanced" else {"every": 3}
    replayed = trace.replay(strategy, alpha=alpha, beta=beta, **how)
    for i, snapshot in enumerate(trace):
        there = snapshot.with_rank(replayed.rank[24 * i : 24 * i + 24])
        expected = _core.phase_times(there, alpha, beta).max()
        assert np.isclose(replayed.metrics["max"][i], expected, rtol=1e-12)


# ---- shadow mode, checkpoints ------------------------------------------------------------------


def ring(comm, n, **balancing):
    """Run a ring of objects that multicast, with unequal, constant loads."""
    lb = pylb.Balancer(comm, load=lambda key, block: 1.0 + key % 7, record=False, **balancing)
    return in_blocks(lb, n, lambda key: [0.0])


def passes(lb, n, iterations):
    for _ in lb.iterate(iterations):
        for key, block in lb.local():
            for source, data in lb.inbox(key):
                block[0] = 0.5 * block[0] + float(data.sum()) + source
                data += 1.0
            targets = [(key + j) % n for j in (1, 2, 2, 5)]
            lb.multicast(targets, key, np.array([block[0], key]))
    return {key: block[0] for key, block in lb.local()}


def test_shadow_mode_sees_multicasts():
    """Rank 0 replays the run in several parts."""

    def main(comm, mode):
        lb = ring(comm, 24, mode=mode, strategy="HypergraphLB", every=50, network=(1e-3, 1e-6))
        passes(lb, 24, 150)
        return [(r.iteration, r.before, r.predicted, r.migrations) for r in lb.history.lb_steps]

    on, shadow = (pylb.VirtualCluster(4, clock="none").run(main, m)[0] for m in ("on", "shadow"))
    assert len(on) == 2
    assert shadow == on


def test_a_checkpoint_has_the_messages_of_multicasts(tmp_path):
    def main(comm, path, restores):
        if restores:
            how = {"strategy": "GreedyLB", "every": 2, "record": False}
            lb = pylb.Balancer.restore(comm, path, load=lambda key, block: 1.0 + key, **how)
            return passes(lb, 12, 5)
        lb = ring(comm, 12, strategy="GreedyLB", every=2)
        passes(lb, 12, 4)
        lb.checkpoint(path)
        return passes(lb, 12, 5)

    def run(p, restores):
        parts = pylb.VirtualCluster(p, clock="none").run(main, tmp_path / "c", restores)
        return {key: value for part in parts for key, value in part.items()}

    expected = run(3, False)
    assert all(run(p, True) == expected for p in (1, 2, 5))
