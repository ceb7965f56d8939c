"""VectorLB: several loads per object, memory with shared blocks; against plain sums and swaps."""

import dataclasses
import itertools

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, InfeasibleError


def times(snap, rank):
    """Return the seconds of each rank in each component, (d, p)."""
    load = snap.load.reshape(len(snap.load), snap.n_components)
    out = np.zeros((load.shape[1], snap.n_ranks))
    for i, r in enumerate(rank):
        out[:, r] += load[i] * (r >= 0)
    out /= 1.0 if snap.speed is None else np.transpose(snap.speed)
    out[0] += 0.0 if snap.background is None else snap.background
    return out


def cost(snap, rank, phases):
    """Return the value that VectorLB minimizes (csrc/place/strategies/vector.c)."""
    t = times(snap, rank)
    if phases:
        return t.max(axis=1).sum()
    load = snap.load.reshape(len(snap.load), snap.n_components)
    speed = np.ones(snap.n_ranks) if snap.speed is None else snap.speed
    average = load.sum(axis=0) / speed.sum()
    if snap.background is not None:
        average[0] += (snap.background * speed).sum() / speed.sum()
    free = np.ones(len(load), bool) if snap.migratable is None else snap.migratable
    fixed = times(snap, np.where(free, -1, rank))  # what stays on each rank
    heaviest = load[free].max(axis=0, initial=0.0)
    first = (fixed + heaviest[:, None] / speed).min(axis=1)
    goal = np.maximum(np.maximum(average, first), fixed.max(axis=1))
    return max((m / g for m, g in zip(t.max(axis=1), goal, strict=True) if g > 0), default=0.0)


def left(snap, rank):
    """Return the bytes of memory left on each rank, each shared block counted once."""
    out = snap.memory_limit.astype(int)
    if snap.memory is not None:
        np.subtract.at(out, rank, snap.memory)
    if snap.block is not None:
        for r, b in {(r, b) for r, b in zip(rank, snap.block.tolist(), strict=True) if b >= 0}:
            out[r] -= snap.block_bytes[b]
    return out


@st.composite
def snapshots(draw, limited=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, p, d = draw(st.integers(0, 14)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    load = rng.integers(0, 9, size=(n, d)).astype(float)
    fields = {}
    if draw(st.booleans()):
        fields["speed"] = rng.choice([0.5, 1.0, 2.0], size=p)
    if draw(st.booleans()):
        fields["background"] = rng.integers(0, 9, size=p).astype(float)
    if draw(st.booleans()):
        fields["migratable"] = rng.random(n) < 0.7
    if limited:
        fields["memory"] = rng.integers(0, 9, size=n)
        fields["block"] = rng.integers(-1, 3, size=n)
        fields["block_bytes"] = rng.integers(0, 20, size=3)
        fields["memory_limit"] = rng.integers(20, 60, size=p)
    rank = rng.integers(p, size=n)
    return pylb.Snapshot(load if d > 1 else load[:, 0], rank, n_ranks=p, **fields)


def neighbours(snap, rank):
    """All placements that are one move or one exchange away."""
    free = [i for i in range(len(rank)) if snap.migratable is None or snap.migratable[i]]
    for i, r in itertools.product(free, range(snap.n_ranks)):
        if rank[i] != r:
            out = rank.copy()
            out[i] = r
            yield out
    for i, j in itertools.combinations(free, 2):
        if rank[i] != rank[j]:
            out = rank.copy()
            out[i], out[j] = rank[j], rank[i]
            yield out


@examples(120)
@given(snapshots(), st.sampled_from([0, 1]))
def test_no_move_and_no_exchange_is_better(snap, phases):
    plan = pylb.place(snap, pylb.strategy("VectorLB", phases=phases, overload=1.0))
    after = cost(snap, plan.rank, phases)
    assert after <= cost(snap, snap.rank, phases) * (1 + 1e-12)
    best = min((cost(snap, rank, phases) for rank in neighbours(snap, plan.rank)), default=1e9)
    assert best >= after * (1 - 1e-9)


@examples(200)
@given(snapshots(limited=True), st.sampled_from([0, 1]))
def test_a_block_counts_once_on_a_rank(snap, phases):
    fits = bool(np.all(left(snap, snap.rank) >= 0))
    try:
        plan = pylb.place(snap, pylb.strategy("VectorLB", phases=phases))
    except InfeasibleError:
        assert not fits
        return
    assert np.all(left(snap, plan.rank) >= 0)
    assert not fits or cost(snap, plan.rank, phases) <= cost(snap, snap.rank, phases) + 1e-9


def test_objects_of_a_block_go_together_where_memory_is_short():
    """Blocks have 100 bytes, ranks 112: each rank gets one block with its ten objects."""
    block = np.arange(20) % 2
    snap = pylb.Snapshot(
        np.ones(20), np.zeros(20, int), n_ranks=2, memory=np.ones(20, int), block=block,
        block_bytes=[100, 100], memory_limit=[112, 112],
    )  # fmt: skip
    plan = pylb.place(snap, "VectorLB")
    on = [set(block[plan.rank == r].tolist()) for r in (0, 1)]
    assert on in ([{0}, {1}], [{1}, {0}])
    tight = dataclasses.replace(snap, memory_limit=[109, 109])
    with pytest.raises(InfeasibleError, match="more than any rank has left"):
        pylb.place(tight, "VectorLB")


def test_processors_and_graphics_are_both_balanced():
    """Half of the objects run on one kind of processor, half on another; summed loads hide this."""
    rng = np.random.default_rng(4)
    kind = np.arange(400) % 2
    load = np.zeros((400, 2))
    load[np.arange(400), kind] = rng.exponential(1.0, 400)
    rank = np.where(kind == 0, rng.integers(4, size=400), rng.integers(4, 8, size=400))
    snap = pylb.Snapshot(load, rank, n_ranks=8)
    before = pylb.evaluate(snap)
    plan = pylb.place(snap, pylb.strategy("VectorLB", phases=0, overload=1.0))
    after = pylb.evaluate(snap, plan.rank)
    assert min(c.max_over_mean for c in before.components) > 1.9
    assert max(c.max_over_mean for c in after.components) < 1.001
    assert after.seconds < 0.51 * before.seconds


def test_a_small_imbalance_needs_few_migrations():
    rng = np.random.default_rng(5)
    load = rng.random((1000, 3))
    rank = np.arange(1000) % 10
    load[rank == 3] *= 1.5
    plan = pylb.place(pylb.Snapshot(load, rank), "VectorLB")
    assert plan.migrations < 200
    assert plan.after.max_over_mean < 1.02


def test_what_is_balanced_stays():
    load = np.tile([[1.0, 2.0], [2.0, 1.0]], (20, 1))
    plan = pylb.place(pylb.Snapshot(load, np.arange(40) // 2 % 5), "VectorLB")
    assert plan.migrations == 0


def test_what_may_not_migrate_has_to_fit():
    snap = pylb.Snapshot(
        np.ones(2), [0, 1], migratable=[False, True], memory=[5, 1], block=[0, -1],
        block_bytes=[6], memory_limit=[10, 10],
    )  # fmt: skip
    with pytest.raises(InfeasibleError, match="rank 0: the objects that may not migrate take 1 by"):
        pylb.place(snap, "VectorLB")


@pytest.mark.parametrize("phases", [0, 1])
def test_many_nearly_equal_ranks_become_balanced(phases):
    """No step lowers the cost by much: many ranks are nearly as slow as the slowest one."""
    rng = np.random.default_rng(6)
    rank = np.arange(10_000) // 157
    load = rng.random((10_000, 3)) * (1 + (rank[:, None] % [3, 4, 5] == 0))
    snap = pylb.Snapshot(load, rank, n_ranks=64)
    plan = pylb.place(snap, pylb.strategy("VectorLB", phases=phases))
    bound = load.sum(axis=0).sum() / 64 if phases else 1.0
    assert cost(snap, plan.rank, phases) <= 1.00301 * bound
    assert plan.migrations < 4500


def with_blocks(n, p, slack):
    """Return a snapshot with a block for each 20 objects; some ranks exceed their limits."""
    rng = np.random.default_rng(n)
    block = np.arange(n) // 20
    memory, sizes = rng.integers(1, 100, n), rng.integers(100, 2000, block.max() + 1)
    return pylb.Snapshot(
        rng.lognormal(0, 1, (n, 2)), np.arange(n) * p // n, n_ranks=p, memory=memory,
        block=block, block_bytes=sizes,
        memory_limit=np.full(p, int(slack * (memory.sum() + sizes.sum()) / p) + 500),
    )  # fmt: skip


@pytest.mark.parametrize(("slack", "most"), [(1.1, 300), (1.05, 350), (1.0, 400)])
def test_ranks_above_their_limit_give_away_blocks(slack, most):
    """Single objects would take their blocks along to many ranks, until no memory is left."""
    snap = with_blocks(2000, 16, slack)
    assert np.any(left(snap, snap.rank) < 0)
    plan = pylb.place(snap, "VectorLB")
    assert np.all(left(snap, plan.rank) >= 0)
    assert plan.migrations < most


@examples(60)
@given(st.integers(0, 2**32))
def test_a_placement_is_found_where_blocks_fit_in_any_order(seed):
    """Each rank can hold all blocks of its share and the largest block besides."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    block = rng.integers(-1, 4, n)
    memory, sizes = rng.integers(0, 5, n), rng.integers(0, 30, 4)
    used = sizes[np.unique(block[block >= 0])].sum()
    unit = max([memory[block == b].sum() + sizes[b] for b in range(4)] + [*memory])
    limit = np.full(p, (memory.sum() + used) // p + 1 + unit)
    snap = pylb.Snapshot(
        rng.random((n, 2)), rng.integers(p, size=n), n_ranks=p, memory=memory, block=block,
        block_bytes=sizes, memory_limit=limit,
    )  # fmt: skip
    assert np.all(left(snap, pylb.place(snap, "VectorLB").rank) >= 0)


def test_a_rank_may_have_a_speed_for_each_load():
    """Against all placements."""
    load = np.array([[4.0, 2.0], [1.0, 6.0], [3.0, 3.0], [2.0, 1.0]])
    speed = [[2.0, 1.0], [1.0, 3.0]]
    snap = pylb.Snapshot(load, rank=[0, 0, 0, 0], n_ranks=2, speed=speed)
    plan = pylb.place(snap, "VectorLB")
    every = itertools.product(range(2), repeat=4)
    assert cost(snap, plan.rank, True) == min(cost(snap, rank, True) for rank in every)
    most = [m.max for m in pylb.evaluate(snap, plan.rank).components]
    assert most == times(snap, plan.rank).max(axis=1).tolist()
    with pytest.raises(DomainError, match="a rank has 2 speeds: expected 1 for a strategy"):
        pylb.place(snap, "GreedyLB")
    with pytest.raises(DomainError, match=r"speed has shape \(2, 3\): expected \(2, 2\)"):
        pylb.Snapshot(load, rank=[0, 0, 0, 0], n_ranks=2, speed=np.ones((2, 3)))
