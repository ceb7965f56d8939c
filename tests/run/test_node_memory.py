"""Memory limits of nodes, beside those of ranks."""

from __future__ import annotations

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError, InfeasibleError

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
