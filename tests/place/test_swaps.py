"""The exchanges that end CommAwareRefineLB and RefineCommLB (csrc/place/improve.c)."""

import numpy as np
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb


def longest(snap, rank, alpha, beta):
    """Return the seconds of the slowest rank, including its messages."""
    times = snap.with_rank(rank).rank_times.copy()
    src, dst, nbytes, messages = snap.edges
    between = rank[src] != rank[dst]
    cost = alpha * (1.0 if messages is None else messages) + beta * nbytes
    np.add.at(times, rank[src][between], cost[between])
    return times.max()


@st.composite
def snapshots(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, p, m = draw(st.integers(2, 24)), draw(st.integers(2, 6)), draw(st.integers(0, 60))
    fields = {}
    if draw(st.booleans()):
        fields["migratable"] = rng.random(n) < 0.8
    if draw(st.booleans()):
        fields["speed"] = rng.choice([0.5, 1.0, 2.0], size=p)
    if draw(st.booleans()):
        fields["memory"] = rng.integers(1, 9, size=n)
        fields["memory_limit"] = np.full(p, 9 * n // 2)
    edges = (*rng.integers(n, size=(2, m)), rng.integers(0, 9, size=m), rng.integers(0, 3, size=m))
    load = rng.integers(1, 9, size=n).astype(float)
    return pylb.Snapshot(load, rng.integers(p, size=n), n_ranks=p, edges=edges, **fields)


@examples(120)
@given(snapshots(), st.sampled_from([(0.0, 0.0), (0.5, 0.125), (2.0, 0.25)]))
def test_exchanges_never_make_an_iteration_longer(snap, cost):
    """The costs that the search updates are compared with costs counted from scratch."""
    alpha, beta = cost
    how = {"alpha": alpha, "beta": beta, "overload": 1.0}
    for name in ("CommAwareRefineLB", "RefineCommLB"):
        moves = pylb.place(snap, pylb.strategy(name, exchanges=0, **how))
        both = pylb.place(snap, pylb.strategy(name, exchanges=1, **how))
        before, after = (longest(snap, plan.rank, alpha, beta) for plan in (moves, both))
        assert after <= before * (1 + 1e-9)
        if snap.memory is not None:
            used = np.bincount(both.rank, snap.memory, snap.n_ranks)
            assert np.all(used <= snap.memory_limit)


def test_an_exchange_where_nothing_can_be_moved():
    snap = pylb.Snapshot([4.0, 4.0, 3.0, 3.0], [0, 0, 1, 1], edges=([0, 2], [2, 0], [9.0, 9.0]))
    plan = pylb.place(snap, "CommAwareRefineLB")
    assert (plan.after.max, plan.migrations) == (7.0, 2)
    # 0 sends to 2, so an exchange is chosen that balances and keeps these two together.
    assert plan.rank[0] == plan.rank[2]
    assert pylb.place(snap, pylb.strategy("CommAwareRefineLB", exchanges=0)).migrations == 0


def test_a_rank_that_sends_all_messages_gives_load_away():
    """All loads are equal, but one rank sends all messages: if these count, it gives load away."""
    rng = np.random.default_rng(3)
    n = 64
    src, dst = np.repeat(np.arange(8), 6), rng.integers(8, n, size=48)
    snap = pylb.Snapshot(
        rng.uniform(0.5, 1.5, n), np.arange(n) // 8, edges=(src, dst, np.full(48, 1000.0))
    )
    told = {"alpha": 1e-2, "beta": 1e-4}
    plan = pylb.place(snap, pylb.strategy("CommAwareRefineLB", **told))
    whole = longest(snap, snap.rank, *told.values())
    assert longest(snap, plan.rank, *told.values()) < 0.8 * whole


def test_objects_that_communicate_with_few_are_balanced():
    rng = np.random.default_rng(3)
    load = np.where(rng.random(3000) < 0.1, 10.0, 1.0)
    edges = ([0, 1], [1, 0], [9.0, 9.0])
    snap = pylb.Snapshot(load, np.zeros(3000, int), n_ranks=100, edges=edges)
    for name in ("CommAwareRefineLB", "RefineCommLB"):
        assert pylb.place(snap, name).after.max_over_mean < 1.1
