"""What a program tells pylb about its ranks: speeds, other work, memory limits."""

from __future__ import annotations

import logging
import math
import os

import numpy as np
import pytest
from each_case import dealt

import pylb
from pylb.errors import DomainError, InfeasibleError, UnknownKeyError
from pylb.model.machine import Machine
from pylb.run import options as memory_share
from pylb.virtual import VirtualCluster

STRATEGIES = ["BestFitLB", "GreedyLB", "RefineLB", "VectorLB", "GossipLB", "DiffusionLB"]


def run(p, strategy, loops=(3,), n=None, memory=None, first=None, work=1.0, **options):
    """Return (bytes on each rank, history) after a run whose objects live on their first ranks."""
    n = n or 24 * p

    def main(comm):
        told = {k: v(comm.rank) if callable(v) else v for k, v in options.items()}
        speed = told.pop("pace", np.ones(p))[comm.rank]
        lb = pylb.Balancer(
            comm, strategy=strategy, every=2, load=lambda key, _: work / speed, **told
        )
        for key in range(n):
            if (key % p if first is None else first(key)) == comm.rank:
                lb.add(key, key, memory=None if memory is None else memory(key))
        for count in loops:
            list(lb.iterate(count))
        mine = [0 if memory is None else memory(key) for key, _ in lb.local()]
        return sum(mine), len(mine), lb.history

    found = VirtualCluster(p).run(main)
    return [f[0] for f in found], [f[1] for f in found], found[0][2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_given_speeds_and_other_work_count(strategy):
    pace = np.array([1.0, 2.0, 4.0, 1.0])
    _, counts, history = run(4, strategy, n=160, speed=pace, pace=pace)
    assert np.allclose(counts, 20 * pace, atol=3)
    if pylb.strategies()[strategy].distributed:  # a rank need not know all speeds
        assert history[0].speed == ()
    else:
        assert np.allclose(history[0].speed, pace / 8**0.25)
    assert history[0].predicted < 1.1 < history[0].before
    _, counts, _ = run(2, strategy, n=90, background=[30.0, 0.0])
    assert np.allclose(counts, [30, 60], atol=2)


@pytest.mark.parametrize("own", [lambda rank: 1.0 + rank, lambda rank: lambda: 1.0 + rank])
@pytest.mark.parametrize("strategy", ["BestFitLB", "GossipLB"])
def test_a_rank_may_tell_its_own_speed(strategy, own):
    _, counts, _ = run(2, strategy, n=90, speed=own, pace=np.array([1.0, 2.0]))
    assert np.allclose(counts, [30, 60], atol=1)


def test_a_machine_tells_the_speeds():
    machine = Machine.parse("node:2 rank:1")
    _, counts, _ = run(2, "BestFitLB", n=90, speed=machine)
    assert counts == [45, 45]


@pytest.mark.parametrize("lag", [0, 2])
def test_other_work_is_part_of_the_load_of_a_rank(lag):
    """A function is asked at the start of a loop and before an LB step."""
    answers = [0.5, 0.25, 4.0]

    def ask():
        return answers.pop()

    lb = pylb.Balancer(lag=lag, every=4, load=lambda key, _: 1.0, background=ask, record=False)
    dealt(lb, range(3), lambda key: key)
    for n in (5, 1):
        list(lb.iterate(n))
    of_all = [7.0] * 4 + [3.25, 3.5]
    assert lb.metrics.max.tolist() == lb.metrics.min.tolist() == of_all
    assert lb.rank_loads().ravel().tolist() == of_all
    assert not answers


@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_an_lb_step_saves_what_the_slowest_rank_with_other_work_saves(mode):
    def main(comm):
        lb = pylb.Balancer(
            comm, strategy="BestFitLB", every=2, load=lambda *_: 1.0, background=[6.0, 0.0],
            mode=mode, pause_if_useless=False,
        )  # fmt: skip
        dealt(lb, range(10), lambda key: key)
        list(lb.iterate(5))
        return lb

    lb = VirtualCluster(2).run(main)[0]
    most = lb.shadow.max if mode == "shadow" else lb.metrics.max
    assert most.tolist() == [11.0, 11.0, 8.0, 8.0, 8.0]
    assert lb.history[0].realised == 1.0
    assert lb.history[0].gain == 6.0
    if mode == "shadow":
        assert lb.metrics.max.tolist() == [11.0] * 5
        assert lb.report().saved + lb.report().lb_cost == 9.0


def test_other_work_counts_in_the_steps_of_an_advisor():
    def main(comm):
        lb = pylb.Advisor(comm, background=[2.0, 0.0], every=2)
        for _ in lb.iterate(3):
            lb.advise(seconds=1.0 + comm.rank)
        return lb.metrics.max, lb.metrics.mean, lb.rank_loads()

    most, mean, loads = VirtualCluster(2).run(main)[0]
    assert most.tolist() == [3.0] * 3
    assert mean.tolist() == [2.5] * 3
    assert loads.tolist() == [[3.0, 2.0]] * 3


@pytest.mark.parametrize("strategy", ["GossipLB", "HierarchicalLB", "DiffusionLB"])
def test_speeds_are_learned_with_a_distributed_strategy(strategy):
    pace = np.array([1.0, 1.0, 3.0, 1.0])
    work = np.random.default_rng(0).lognormal(0.0, 0.5, 400)

    def main(comm):
        lb = pylb.Balancer(
            comm, strategy=strategy, every=4, learn_speeds=True, pause_if_useless=False,
            load=lambda key, _: work[key] / pace[comm.rank],
        )  # fmt: skip
        for key in range(400):
            if key * key % 7 % 4 == comm.rank:
                lb.add(key, key)
        list(lb.iterate(60))
        return lb.metrics.max[-1] / (work.sum() / pace.sum()), lb.history

    ratio, history = VirtualCluster(4).run(main)[2]
    assert ratio < 1.05
    learned = next(r.speed for r in reversed(history) if r.speed)
    assert np.allclose(np.array(learned) / learned[0], pace, rtol=0.05)


# ---- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_limits_are_kept(strategy):
    limit = [100, 200, 400, 400]
    held, _, history = run(4, strategy, n=60, memory=lambda key: 10, memory_limit=limit)
    assert np.all(np.array(held) <= limit)
    assert sum(held) == 600
    assert history[0].memory_full == max(np.array(held) / limit) <= 1.0
    assert "the fullest rank or node used" in history[0].explain()


def test_without_memory_the_bytes_of_a_migration_count():
    def main(comm):
        lb = pylb.Balancer(comm, strategy="BestFitLB", every=1, memory_limit=[250, 10_000])
        dealt(lb, range(20), lambda key: key, nbytes=50)
        for _ in lb.iterate(2):
            for _ in lb.local():
                comm.elapse(1e-3)
        return len(list(lb.local()))

    assert VirtualCluster(2, clock="none").run(main) == [5, 15]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_limits_that_nothing_can_keep(strategy, caplog):
    """A rank above its limit gets no more bytes than it has, and rank 0 logs this once."""
    with caplog.at_level(logging.WARNING, "pylb"):
        held, _, history = run(
            2, strategy, loops=(5,), n=40, memory=lambda key: 10,
            first=lambda key: key % 4 // 3, memory_limit=[50, 120],
        )  # fmt: skip
    assert held[0] <= 300
    assert held[1] <= 120
    assert history[-1].memory_full > 1.0
    assert sum("no placement respects memory limits" in r.message for r in caplog.records) == 1


def test_a_run_whose_limits_nothing_can_keep_goes_on_while_loads_change():
    """Placements for the loads expected some iterations ahead have the raised limits, too."""

    def main(comm):
        lb = pylb.Balancer(comm, every=3, learn_speeds=False, memory_limit=[40_000, 5_000])
        for key in range(comm.rank, 24, 2):
            lb.add(key, np.zeros(1), nbytes=2_000 + 100 * key)
        for it in lb.iterate(30):
            for key, _ in lb.local():
                comm.elapse(1e-3 * (1 + 0.05 * it * (key % 4 == 0)))
        return lb.history

    history = VirtualCluster(2, clock="none", network=(5e-6, 4e-9)).run(main)[0]
    assert len(history.lb_steps) == 9
    assert any(math.isfinite(r.loss_1) for r in history)  # such a placement was tried
    assert all(r.memory_full > 1.0 for r in history)


def test_a_distributed_strategy_lets_go_what_can_leave():
    held, _, _ = run(
        2, "GossipLB", n=40, memory=lambda key: 10,
        first=lambda key: key % 4 // 3, memory_limit=[50, 120],
    )  # fmt: skip
    assert held == [280, 120]


def test_a_distributed_strategy_ends_where_nothing_can_move():
    """More time for rounds does not help objects without load."""
    gossip = pylb.strategy("GossipLB", iterations=1e6)
    held, _, _ = run(
        3, gossip, n=4, memory=lambda key: 10, first=lambda key: [0, 0, 1, 2][key],
        memory_limit=[15] * 3, work=0.0,
    )  # fmt: skip
    assert held == [20, 10, 10]


def test_auto_is_a_share_of_the_available_memory():
    seen = []

    def look(snapshot):
        seen.append(snapshot)
        return snapshot.rank

    run(4, look, n=8, memory_limit="auto")
    limit = seen[0].memory_limit
    bound, _ = memory_share.tightest()
    assert np.all((limit > 0) & (limit <= bound // 4))
    assert np.all(limit >= bound // 4 - (1 << 30))  # minus the memory that this process uses
    assert np.all(seen[0].memory > 0)  # the memory of an object is measured by packing it


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_limits_of_control_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 250, "SC_PAGE_SIZE": 4096}.get)
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    assert memory_share.tightest(proc, groups)[0] == 1000 << 10
    put(proc / "self/cgroup", "0::/job/rank\n")
    put(groups / "job/memory.max", "700000\n")
    put(groups / "job/rank/memory.max", "max\n")
    assert memory_share.tightest(proc, groups)[0] == 700_000
    put(proc / "self/cgroup", "5:cpu:/\n4:hugetlb,memory:/job\n")
    put(groups / "memory/job/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    assert memory_share.tightest(proc, groups)[0] == 1000 << 10
    put(groups / "memory/memory.limit_in_bytes", "300000\n")
    assert memory_share.tightest(proc, groups)[0] == 300_000
    put(proc / "self/statm", "9 4 1\n")
    assert memory_share.resident(proc) == 4 * os.sysconf("SC_PAGE_SIZE")
    assert memory_share.resident(tmp_path) == 0


def test_an_update_counts():
    def main(comm):
        lb = pylb.Balancer(
            comm, strategy="BestFitLB", every=2, memory_limit=[100, 1000], load=lambda key, _: 1.0
        )
        for key in range(20):
            if key % 2 == comm.rank:
                lb.add(key, key, memory=1)
                lb.update(key, memory=2)  # the object does not take part yet
        counts = []
        for it in lb.iterate(5):
            for key, _ in lb.local():
                if it == 1:
                    lb.update(key, memory=20, migratable=key != 3)
            counts.append(len(list(lb.local())))
        with pytest.raises(UnknownKeyError, match="key 99: no such object on rank"):
            lb.update(99, memory=1)
        with pytest.raises(DomainError, match="memory is -1: expected bytes, 0 or more"):
            lb.update(next(iter(lb.local()))[0], memory=-1)
        return counts[0], counts[-1]

    assert VirtualCluster(2).run(main) == [(10, 5), (10, 15)]


# ---- replay ----------------------------------------------------------------------------------


def test_a_replay_may_have_other_limits():
    """replay/test_same_bits.py has the limits of a run."""
    load, rank = (1.0 + np.arange(60) % 5) / 2 ** (np.arange(60) % 2), np.arange(60) % 2
    given = {"memory": [30] * 60, "memory_limit": [2000, 902], "speed": [1.0, 2.0]}
    trace = pylb.Trace.from_snapshots([pylb.Snapshot(load, rank, 2, **given)] * 4)
    kept = trace.replay("BestFitLB", every=3, cost=0.0)
    assert (np.count_nonzero(kept.rank[180:]), kept.decisions[0].memory_full) == (30, 900 / 902)
    free = trace.replay("BestFitLB", every=3, cost=0.0, memory_limit=[10**6, 10**6])
    assert np.count_nonzero(free.rank[180:]) > 30
    with pytest.raises(DomainError, match=r"memory_limit\[1\] is -1: expected bytes"):
        trace.replay("BestFitLB", every=3, memory_limit=[1, -1])


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 0.0}, r"speed is 0\.0: expected a number above 0"),
        ({"speed": "fast"}, "speed is 'fast': expected a number above 0"),
        ({"speed": [1.0, 2.0]}, r"speed has shape \(2,\): expected \(1,\)"),
        ({"speed": float("nan")}, "speed is nan"),
        ({"background": -1.0}, r"background is -1\.0: expected seconds"),
        ({"memory_limit": -1}, "memory_limit is -1: expected bytes"),
        ({"memory_limit": 1.5}, r"memory_limit is 1\.5: expected bytes"),
        ({"memory_limit": "car"}, "memory_limit is 'car': expected bytes.* or 'auto'"),
        ({"memory_limit": 2**63}, "memory_limit is 9223372036854775808"),
        ({"speed": 1.0, "learn_speeds": True}, "learn_speeds is True and speed is given"),
    ],
)
@pytest.mark.parametrize("kind", [pylb.Balancer, pylb.Advisor])
def test_bad_facts_are_refused(kind, options, message):
    with pytest.raises(DomainError, match=message):
        kind(strategy="BestFitLB", **options)


@pytest.mark.parametrize("strategy", ["BestFitLB", "GossipLB"])
def test_the_error_of_a_function_reaches_all_ranks(strategy):
    def main(comm):
        lb = pylb.Balancer(
            comm, strategy=strategy, every=1,
            memory_limit=(lambda: -5) if comm.rank == 1 else (lambda: 10),
        )  # fmt: skip
        lb.add(comm.rank, 0)
        with pytest.raises(DomainError, match="memory_limit is -5: expected bytes") as caught:
            list(lb.iterate(3))
        return str(caught.value)

    assert [said.startswith("rank 1: ") for said in VirtualCluster(3).run(main)] == [1, 0, 1]


def test_an_advisor_keeps_the_limits():
    def main(comm):
        lb = pylb.Advisor(comm, strategy="BestFitLB", every=1, memory_limit=[30, 500], speed=[1, 1])
        keys = np.arange(20)[comm.rank :: 2]
        for _ in lb.iterate(3):
            n = len(keys)
            if plan := lb.advise(loads=np.ones(n), keys=keys, memory=np.full(n, 10)):
                keys = plan.migrate(keys)
        return len(keys), lb.history[0].memory_full

    assert VirtualCluster(2).run(main) == [(3, 1.0), (17, 1.0)]


# ---- memory limits of nodes, beside those of ranks ---------------------------------------------


NODE = [0, 0, 1, 1]


def snapshot(limit: int, **more) -> pylb.Snapshot:
    """Return 16 objects of 1 s and 10 bytes on node 0."""
    return pylb.Snapshot(
        np.ones(16),
        np.arange(16) % 2,
        n_ranks=4,
        memory=[10] * 16,
        node=NODE,
        node_memory_limit=[limit] * 4,
        **more,
    )


def held(plan) -> list[float]:
    """Return the bytes on each node."""
    return np.bincount(np.array(NODE)[plan.rank], weights=np.full(16, 10), minlength=2).tolist()


@pytest.mark.parametrize("name", "BestFitLB GreedyLB RefineLB VectorLB GossipLB auto".split())
@pytest.mark.parametrize(("limit", "most"), [(160, 80), (90, 90)])
def test_a_placement_keeps_the_limits_of_nodes(name, limit, most):
    plan = pylb.place(snapshot(limit), name)
    assert max(held(plan)) <= most


def test_the_limit_of_a_node_also_binds_where_balance_would_exceed_it():
    """Node 1 is four times as fast, but has room for 40 bytes only."""
    s = snapshot(160, speed=[1.0, 1.0, 4.0, 4.0])
    free = pylb.place(s, "BestFitLB")
    assert held(free)[1] > 100
    s = pylb.Snapshot(
        s.load, s.rank, 4, memory=s.memory, node=NODE, speed=s.speed,
        node_memory_limit=[160, 160, 40, 40],
    )  # fmt: skip
    assert held(pylb.place(s, "BestFitLB")) == [120, 40]


def test_limits_that_cannot_be_kept():
    with pytest.raises(InfeasibleError, match="node_memory_limit, divided among the ranks of each"):
        pylb.place(snapshot(70), "BestFitLB")
    with pytest.raises(DomainError, match="block and node_memory_limit are given"):
        snapshot(70, block=[0] * 16, block_bytes=[5])
    with pytest.raises(DomainError, match=r"node_memory_limit is -1: expected bytes, zero or more"):
        pylb.Balancer(node_memory_limit=-1)


def machine() -> pylb.Machine:
    """Return a machine with two nodes of two ranks, between which messages cost more."""
    tree, cost = pylb.Machine.parse("node:2 rank:2"), np.array([[1e-7, 1e-6], [1e-6, 1e-7]])
    return pylb.Machine(tree.root, alpha=cost, beta=1e-3 * cost)


@pytest.mark.parametrize("strategy", ["auto", "GossipLB"])
def test_a_run_and_its_replay_keep_the_limits_of_nodes(strategy, tmp_path):
    path = str(tmp_path / "run.h5")

    def main(comm):
        node = comm.rank // 2
        speed = 4.0 if node else 1.0  # node 1 would get 64 of 80 objects, but has room for 20
        lb = pylb.Balancer(
            comm,
            strategy=strategy,
            every=3,
            speed=speed,
            node_memory_limit=20 if node else 80,
            network=machine(),
        )
        for key in range(comm.rank, 80, 4) if not node else ():
            lb.add(key, None, memory=1)
            lb.add(key + 2, None, memory=1)
        for _ in lb.iterate(12):
            n = sum(1 for _ in lb.local())
            comm.elapse(n / speed)
        lb.finish()
        lb.save(path)
        return n, [(r.memory_full, r.predicted, r.migrations) for r in lb.history.lb_steps]

    found = pylb.VirtualCluster(4).run(main)
    held = [n for n, _ in found]
    assert sum(held) == 80
    assert sum(held[2:]) <= 20
    assert sum(held[2:]) >= 16
    again = pylb.Trace.load(path).replay(strategy, every=3)
    steps = [(r.memory_full, r.predicted, r.migrations) for r in again.decisions.lb_steps]
    assert str(steps) == str(found[0][1])
