"""Strategies that read positions: RCBLB and HSFCLB."""

import dataclasses
import itertools

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError
from pylb.virtual import VirtualCluster

NAMES = ["RCBLB", "HSFCLB"]


def cloud(n, p, seed=0, dims=3, spot=0.4):
    rng = np.random.default_rng(seed)
    coords = rng.random((n, 3)) * (np.arange(3) < dims)
    load = 1.0 + 5.0 * np.exp(-30.0 * ((coords - spot * (np.arange(3) < dims)) ** 2).sum(axis=1))
    return pylb.Snapshot(load, rng.integers(0, p, n), n_ranks=p, coords=coords)


def hilbert(side):
    """Return the cells of a square grid along Hilbert's curve, by the rule that draws it."""
    path = [(0, 0)]
    size = 1
    while size < side:
        last = size - 1
        path = (
            [(y, x) for x, y in path]
            + [(x, y + size) for x, y in path]
            + [(x + size, y + size) for x, y in path]
            + [(2 * size - 1 - y, last - x) for x, y in path]
        )
        size *= 2
    return path


@pytest.mark.parametrize("side", [2, 8, 16])
def test_the_curve_is_hilberts(side):
    """Objects on a grid, in row order on ranks in the order of the curve, stay where they are."""
    path = hilbert(side)
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in itertools.pairwise(path))
    coords = np.array([(x, y, 0.0) for x, y in path])
    ways = [coords, coords[:, [1, 0, 2]]]  # the curve, or its mirror image
    order = np.random.default_rng(1).permutation(len(path))
    rank = np.arange(len(path)) // 2
    moves = [
        pylb.place(
            pylb.Snapshot(np.ones(len(path)), rank[order], coords=way[order]), "HSFCLB"
        ).migrations
        for way in ways
    ]
    assert min(moves) == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_balance_and_few_migrations_afterwards(name, dims):
    s = cloud(20_000, 64, dims=dims)
    plan = pylb.place(s, name)
    assert plan.after.max_over_mean < 1.05
    again = pylb.place(s.with_rank(plan.rank), name)
    assert again.migrations == 0
    later = dataclasses.replace(cloud(20_000, 64, dims=dims, spot=0.405), rank=plan.rank)
    plan = pylb.place(later, name)
    assert plan.after.max_over_mean < 1.05
    assert plan.migrations < 6_000


@pytest.mark.parametrize("name", NAMES)
def test_parts_are_compact_and_points_are_needed(name):
    s = cloud(20_000, 64, dims=2)
    rank = pylb.place(s, name).rank
    spread = [np.ptp(s.coords[rank == r, :2], axis=0).prod() for r in range(64)]
    assert np.mean(spread) < 4.0 / 64
    with pytest.raises(DomainError, match=f"coords are missing: {name} needs the position"):
        pylb.place(pylb.Snapshot([1.0], [0]), name)
    assert pylb.place(pylb.Snapshot([], [], n_ranks=2), name).migrations == 0
    assert not pylb.strategies()[name].selectable
    same = pylb.Snapshot(np.ones(8), np.zeros(8, int), n_ranks=4, coords=np.ones((8, 3)))
    assert pylb.place(same, name).after.max_over_mean == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_speeds_background_memory_and_fixed_objects(name):
    rng = np.random.default_rng(3)
    s = cloud(3_000, 16)
    memory = rng.integers(1, 50, 3_000)
    s = dataclasses.replace(
        s, speed=rng.uniform(1, 3, 16), background=rng.uniform(0, 20, 16), memory=memory,
        migratable=rng.random(3_000) > 0.1, memory_limit=np.full(16, int(memory.sum() / 16 * 1.6)),
    )  # fmt: skip
    plan = pylb.place(s, name)
    assert np.all(np.bincount(plan.rank, memory, 16) <= s.memory_limit)
    assert np.array_equal(plan.rank[~s.migratable], s.rank[~s.migratable])
    free = pylb.place(dataclasses.replace(s, memory_limit=None), name)
    assert free.after.max_over_mean < 1.06


@pytest.mark.parametrize("name", NAMES)
def test_in_a_running_program(name):
    def main(comm):
        lb = pylb.Balancer(comm, strategy=name, every=2, load=lambda key, _: 1.0 + key // 32)
        for key in range(64):
            if (key * key // 7) % comm.size == lb.rank:
                lb.add(key, key, coords=(key, 0.0))
        for it in lb.iterate(6):
            for key, _ in lb.local():
                if it == 2:
                    lb.update(key, coords=(63 - key, 5.0))
        return [key for key, _ in lb.local()], lb.history[-1].predicted

    found = VirtualCluster(4).run(main)
    assert all(keys == list(range(keys[0], keys[-1] + 1)) for keys, _ in found)
    assert found[0][1] < 1.1


def test_positions_are_for_all_objects_or_for_none():
    lb = pylb.Balancer(strategy="RCBLB", every=1)
    lb.add(1, 0, coords=[1.0])
    lb.add(2, 0)
    with pytest.raises(DomainError, match="object 2 has no coords: expected"):
        list(lb.iterate(2))
    for bad in ("here", [], [1, 2, 3, 4], [np.nan], [[1.0]]):
        with pytest.raises(DomainError, match="expected one to three finite numbers"):
            lb.add(3, 0, coords=bad)
    bare = pylb.Balancer(strategy="RCBLB", every=1)
    bare.add(1, 0)
    with pytest.raises(DomainError, match="coords are missing: RCBLB needs the position"):
        list(bare.iterate(2))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("factor", [1.05, 2.0])
@pytest.mark.parametrize("p", [16, 64])
def test_boxes_without_load_do_not_keep_the_loaded_ones_together(name, factor, p):
    coords = np.array(list(itertools.product(range(16), range(12), range(8))), float)
    n = len(coords)
    load = np.where((coords[:, 0] >= 4) & (coords[:, 0] < 9), 2.0, 0.0)
    limit = np.full(p, int(factor * 100 * n / p))
    s = pylb.Snapshot(load, np.arange(n) * p // n, coords=coords, n_ranks=p)
    s = dataclasses.replace(s, memory=np.full(n, 100), memory_limit=limit)
    out = pylb.place(s, name)
    assert (np.bincount(out.rank, minlength=p) * 100 <= limit).all()
    assert out.after.max <= load.sum() / p + 2.0  # at most one box above the mean
