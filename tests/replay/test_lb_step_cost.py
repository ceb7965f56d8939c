"""A simulated LB step: what is counted, and that no part grows with the whole program."""

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError
from pylb.replay import LogGP, simulate_step

NET = LogGP(L=2e-6, o=1e-6, g=1e-6, G=1e-9)


def ring(n, p):
    """Return a ring of objects; the first eighth of the ranks has most of the load."""
    key = np.arange(n)
    load = np.where(key < n // 8, 9.0, 1.0) * np.random.default_rng(2).lognormal(0.0, 0.1, n)
    edges = (key, (key + 1) % n, np.full(n, 8.0))
    return pylb.Snapshot(load, key * p // n, n_ranks=p, edges=edges, bytes=np.full(n, 1000))


def part(run, name):
    return next(part for part in run.parts if part.name == name)


def test_a_central_step_by_hand():
    s = ring(24, 3)
    run, plan = simulate_step(s, "GreedyLB", network=NET), pylb.place(s, "GreedyLB")
    assert (run.strategy, run.n_ranks, run.n_objects) == ("GreedyLB", 3, 24)
    assert (run.before, run.after) == (plan.before.max_over_mean, plan.after.max_over_mean)
    assert run.migrations == plan.migrations
    names = ["statistics", "database", "strategy", "answer", "migration", "directory"]
    assert [p.name for p in run.parts] == names
    levels = 2  # levels of the tree of ranks
    empty = levels * (2e-6 + 2e-6)
    record = levels * (4e-6 + (pylb._core.STATS_BYTES - 1) * 1e-9)
    assert part(run, "statistics").seconds == pytest.approx(2 * record)
    facts = 24 * 48 + 24 * 40
    assert part(run, "database").seconds == pytest.approx(empty + facts * 1e-9)
    assert part(run, "database").kept == facts
    assert part(run, "answer").seconds == pytest.approx(empty + plan.migrations * 16e-9)
    # Count the messages and bytes of each rank, pair by pair.
    messages, sizes = np.zeros(3), np.zeros(3)
    for a in range(3):
        for b in range(3):
            n = np.count_nonzero((s.rank == a) & (plan.rank == b)) if a != b else 0
            for r in (a, b):
                messages[r] += n > 0
                sizes[r] += 1000 * n
    busiest = (messages * 1e-6 + sizes * 1e-9).max()
    assert part(run, "migration").seconds == pytest.approx(busiest + 2e-6 + 2 * record)
    assert run.seconds == sum(p.seconds for p in run.parts)


def test_the_directory_tells_homes_and_senders():
    s = pylb.Snapshot([5.0, 1.0, 1.0], [0, 0, 1], n_ranks=2, edges=([2], [1], [8.0]), key=[7, 8, 9])
    plan = pylb.place(s, "GreedyLB")
    moved = np.flatnonzero(plan.rank != s.rank).tolist()
    home = {7: 0, 8: 0, 9: 0} | {
        k: int(r) for k, r in zip((7, 8, 9), pylb._core.home([7, 8, 9], 2), strict=True)
    }
    sent = [0, 0]
    for i in moved:
        old = int(s.rank[i])
        sent[old] += 16 * (home[7 + i] != old)
    first = max(sent)
    asker = int(plan.rank[2])
    second = 16 if 1 in moved and home[8] != asker else 0
    assert part(simulate_step(s, "GreedyLB", network=NET), "directory").sent == first + second


@pytest.mark.parametrize("name", ["GossipLB", "HierarchicalLB", "DiffusionLB"])
def test_distributed_parts_do_not_grow_with_the_program(name):
    """With 4 times as many ranks and equally many objects on each, no distributed part grows."""
    small, large = (simulate_step(ring(40 * p, p), name, network=NET) for p in (64, 256))
    assert [p.name for p in small.parts] == ["statistics", "strategy", "migration", "directory"]
    for a, b in zip(small.parts, large.parts, strict=True):
        for what in ("sent", "received", "kept"):
            assert getattr(b, what) <= 2.5 * getattr(a, what) + 1000, (a.name, what)
    assert large.after < 1.05 < large.before


def test_parts_of_a_central_step_grow_with_the_program():
    small, large = (simulate_step(ring(40 * p, p), "BestFitLB", network=NET) for p in (64, 256))
    assert part(large, "database").kept == 4 * part(small, "database").kept


def test_auto_is_the_default_of_a_balancer():
    s = ring(24, 3)
    assert simulate_step(s, "auto").strategy == pylb.place(s, "auto").strategy == "BestFitLB"
    slow = NET._replace(G=1e-3)  # so that the bytes to rank 0 take long
    many = ring(4000, 4)
    assert simulate_step(many, "auto", network=slow).strategy == "GossipLB"
    assert simulate_step(many, "auto", network=NET).strategy == "BestFitLB"


def test_bad_arguments():
    with pytest.raises(DomainError, match="1 rank: expected 2 or more"):
        simulate_step(pylb.Snapshot([1.0], [0]))
    with pytest.raises(DomainError, match="snapshot"):
        simulate_step([1.0])


def test_bad_networks():
    for network, says in [
        (1e-6, "network is 1e-06: expected a pylb.replay.LogGP"),
        (LogGP(L=-1.0), r"network\.L is -1\.0: expected seconds"),
        (LogGP(G="1"), r"network\.G is '1'"),
    ]:
        with pytest.raises(DomainError, match=says):
            simulate_step(ring(8, 2), network=network)
