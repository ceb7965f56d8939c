"""Few objects per rank: as good as an exact method, or close to the lower bound."""

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

import pylb

LOADS = {
    "uniform": lambda rng, n: rng.random(n),
    "log-normal": lambda rng, n: rng.lognormal(0.0, 1.0, n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "bimodal": lambda rng, n: np.where(rng.random(n) < 0.2, 5.0, 1.0) * rng.normal(1.0, 0.1, n),
}
NEAR = 1.005


def snapshot(kind, n, p, rng):
    """Return the objects in blocks, or scattered."""
    rank = rng.integers(p, size=n) if rng.random() < 0.5 else np.arange(n) * p // n
    return pylb.Snapshot(np.abs(LOADS[kind](rng, n)) + 1e-3, rank, n_ranks=p)


def lower_bound(s):
    """Return the largest of three bounds: average, heaviest object, pigeonhole principle."""
    load, p = np.sort(s.load)[::-1], s.n_ranks
    crowds = (load[k * p - k : k * p + 1].sum() for k in range(1, (s.n_objects - 1) // p + 1))
    return max(s.load.sum() / p, load[0], *crowds, 0.0)


def optimum(s, most):
    """Return the least maximum, by an integer programme; None if that takes too many nodes."""
    n, p, load = s.n_objects, s.n_ranks, np.sort(s.load)[::-1]
    on = np.kron(np.eye(p), load)  # variable r n + i is 1 if object i is on rank r
    loads = LinearConstraint(np.column_stack([on, -np.ones(p)]), -np.inf, 0.0)
    once = LinearConstraint(np.column_stack([np.tile(np.eye(n), p), np.zeros(n)]), 1.0, 1.0)
    free = np.arange(p)[:, None] <= np.arange(n)  # the i-th heaviest is on one of the first i
    found = milp(
        np.r_[np.zeros(n * p), 1.0],
        constraints=[loads, once],
        integrality=np.r_[np.ones(n * p), 0.0],
        bounds=Bounds(np.r_[np.zeros(n * p), lower_bound(s)], np.r_[free.ravel(), most]),
        options={"node_limit": 10_000, "mip_rel_gap": 1e-4},
    )
    return found.fun if found.status == 0 else None


@pytest.mark.parametrize("kind", LOADS)
def test_few_objects_are_placed_as_well_as_they_can_be(kind):
    rng = np.random.default_rng(list(LOADS).index(kind))
    missed = unknown = 0
    for _ in range(250):
        p = int(rng.choice([2, 3, 4, 8, 32, 128]))
        s = snapshot(kind, max(int(rng.uniform(1.0, 10.0) * p), 1), p, rng)
        plan = pylb.place(s, "BestFitLB")
        if plan.after.max > NEAR * lower_bound(s):
            small = s.n_objects <= 12
            best = optimum(s, plan.after.max * (1 + 1e-9)) if small else None
            missed += best is not None and plan.after.max > NEAR * best
            unknown += best is None
    assert missed == 0
    # Counts of 250 cases; with one to three objects per rank, the bound may be too low.
    assert unknown <= 30


@pytest.mark.parametrize("name", ["BestFitLB", "RefineLB", "RefineSwapLB"])
def test_where_heavy_objects_leave_room_for_whole_numbers_of_light_ones(name):
    """No placement reaches the average, and the search knows this from the start."""
    rng = np.random.default_rng(1)
    load = np.where(rng.random(6000) < 0.1, 5.0, 1.0) * rng.uniform(1.0, 1.05, 6000)
    s = pylb.Snapshot(load, np.arange(6000) // 6, n_ranks=1000)
    plan = pylb.place(s, name)
    assert plan.after.max > 1.05 * lower_bound(s)
    assert plan.after.max <= NEAR * 9.1002  # the bound, if objects are cut into equal pieces
    assert plan.migrations < 0.55 * s.n_objects


@pytest.mark.parametrize("kind", LOADS)
@pytest.mark.parametrize("name", ["BestFitLB", "RefineLB", "RefineSwapLB"])
def test_many_ranks_with_few_objects(name, kind):
    rng = np.random.default_rng(1)
    for each in (3, 6, 10):
        s = snapshot(kind, each * 1000, 1000, rng)
        plan = pylb.place(s, name)
        assert plan.after.max <= NEAR * lower_bound(s)
        if plan.before.max > 1.1 * plan.after.max:
            assert plan.migrations < 0.8 * s.n_objects


def test_a_placement_from_scratch_must_be_worth_its_migrations():
    """The average is 12.05, and the next sum of loads is 13.  So no limit in between can be met."""
    load = np.random.default_rng(5).integers(1, 4, 6000) + 1e-3
    s = pylb.Snapshot(load, np.arange(6000) // 6, n_ranks=1000)
    plan = pylb.place(s, "BestFitLB")
    assert plan.after.max < 13.01
    assert plan.migrations < 500


REFINEMENTS = ["BestFitLB", "RefineLB", "RefineSwapLB", "CommAwareRefineLB", "RefineCommLB"]


@pytest.mark.parametrize("name", REFINEMENTS)
@pytest.mark.parametrize(("n", "p"), [(1000, 64), (2100, 64), (13_000, 1024)])
@pytest.mark.parametrize("noise", [1e-4, 1e-3])
def test_nearly_equal_objects_are_not_exchanged_for_nothing(name, n, p, noise):
    """Two ranks have three objects too many, and the average is no whole number of objects."""
    rank = np.arange(n) * p // n
    for r in (0, 2):
        rank[np.flatnonzero(rank == r + 1)[:3]] = r
    load = 1.0 + noise * np.random.default_rng(2).standard_normal(n)
    plan = pylb.place(pylb.Snapshot(load, rank, n_ranks=p), name)
    assert plan.after.max < np.ceil(n / p) * 1.002
    assert plan.migrations <= 12


@pytest.mark.parametrize("name", REFINEMENTS)
def test_swaps_do_not_aim_below_what_a_number_of_objects_allows(name):
    """With 32.8 objects per rank, some rank has 33: 0.4 % less would need hundreds of swaps."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        load = 1.0 + rng.uniform(2e-3, 6e-3) * rng.standard_normal(2100)
        rank = np.arange(2100) * 64 // 2100
        for r in (0, 2):
            rank[np.flatnonzero(rank == r + 1)[:3]] = r
        plan = pylb.place(pylb.Snapshot(load, rank, n_ranks=64), name)
        assert plan.after.max_over_mean < 1.01
        assert plan.migrations <= 60
    # Some rank has nine objects in every placement.  A search can only reduce their noise.
    for seed in range(10):
        load = 1.0 + 1e-5 * np.random.default_rng(seed).standard_normal(136)
        s = pylb.Snapshot(load, np.arange(136) * 16 // 136, n_ranks=16)
        assert pylb.place(s, name).migrations == 0


@pytest.mark.parametrize("name", ["BestFitLB", "RefineLB", "RefineSwapLB"])
def test_where_the_limit_is_missed_few_objects_move(name):
    """Loads of two sizes, 3 % of which were moved away from a placement that cannot be improved."""
    migrations = away = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        load = np.sort(np.where(rng.random(3000) < 0.2, 5.0, 1.0) * rng.normal(1.0, 1e-3, 3000))
        rank = pylb.place(pylb.Snapshot(load, np.arange(3000) * 256 // 3000), "GreedyLB").rank
        moved = rng.random(3000) < 0.03
        s = pylb.Snapshot(load, np.where(moved, rng.integers(256, size=3000), rank), n_ranks=256)
        plan = pylb.place(s, name)
        assert plan.after.max_over_mean < 1.05
        assert plan.migrations <= 1.25 * moved.sum()
        migrations += plan.migrations
        away += moved.sum()
    assert migrations < 0.75 * away


@pytest.mark.parametrize("name", ["RefineLB", "RefineSwapLB"])
def test_a_refinement_that_is_stuck_searches_from_other_placements(name):
    """Two or three objects per rank, with few different loads: pairwise exchanges do not help."""
    for seed in (1009, 1137, 1424, 2974, 2985):
        rng = np.random.default_rng(seed)
        p = int(rng.integers(3, 9))
        n = int(rng.integers(2, 6)) * p
        load = rng.choice([1.0, 2.0, 3.0, 5.0, 8.0], n)
        s = pylb.Snapshot(load, np.arange(n) * p // n, n_ranks=p)
        plan, best = pylb.place(s, name), pylb.place(s, "BestFitLB")
        assert plan.after.max <= best.after.max
        assert plan.migrations <= 0.7 * n


def test_every_refinement_balances_a_hot_region():
    """In a hot region, no object of a rank fits on another rank: exchanges must help."""
    rng = np.random.default_rng(2)
    n, p = 6000, 1000
    rank = np.arange(n) * p // n
    load = rng.random(n) * np.where(rank < p // 10, 20.0, 1.0)
    s = pylb.Snapshot(load, rank, n_ranks=p)
    for name in ("RefineLB", "RefineSwapLB", "BestFitLB"):
        assert pylb.place(s, name).after.max <= NEAR * lower_bound(s)


def test_loads_sorted_by_rank_are_not_all_moved():
    """Light objects on the first ranks, heavy ones on the last: few need to leave."""
    rng = np.random.default_rng(3)
    n, p = 100_000, 1024
    s = pylb.Snapshot(np.sort(rng.lognormal(0.0, 1.0, n)), np.arange(n) * p // n, n_ranks=p)
    plan = pylb.place(s, "BestFitLB")
    assert plan.after.max_over_mean <= 1.0005
    assert plan.migrations < 0.35 * n  # 12,800 objects must leave; GreedyLB moves all


@pytest.mark.parametrize("objects", [16, 30, 100])
def test_a_hot_spot_loses_only_what_must_leave(objects):
    """This once failed: pairwise exchanges did not help, and a placement from scratch moved nearly
    all objects.
    """
    n, p = 200 * objects, 200
    at = np.arange(n) / n
    load = 1.0 + 8.0 * np.exp(-0.5 * ((at - 0.5) / 0.05) ** 2)
    s = pylb.Snapshot(load * np.random.default_rng(1).lognormal(0.0, 0.1, n), np.arange(n) * p // n)
    plan = pylb.place(s, "BestFitLB")
    above = np.maximum(s.rank_times - load.sum() / p, 0.0).sum() / load.mean()
    assert plan.after.max_over_mean < NEAR
    assert plan.migrations < above


@pytest.mark.parametrize("p", [10, 32, 128])
def test_a_hot_tenth_of_the_ranks_is_refined(p):
    """With 15 objects a rank, the last thousandth is not worth a placement from scratch."""
    rng = np.random.default_rng(p)
    for _ in range(20):
        n, hot = 15 * p, max(p // 10, 1)
        rank = np.arange(n) // 15
        load = rng.random(n) * np.where(rank < hot, 10.0, 1.0)
        s = pylb.Snapshot(load, rank, n_ranks=p)
        plan = pylb.place(s, "BestFitLB")
        assert plan.after.max <= NEAR * lower_bound(s)
        assert plan.migrations <= 10 * least_moves(s)


def least_moves(s, limit=None):
    """Return how many objects must leave, if each rank above the limit gives its heaviest.

    limit: the average if it is None.
    """
    moves, limit = 0, s.load.sum() / s.n_ranks if limit is None else limit
    for r in np.unique(s.rank):
        given = np.cumsum(np.sort(s.load[s.rank == r])[::-1])
        excess = given[-1] - limit
        moves += int(np.searchsorted(given, excess * (1 - 1e-9))) + 1 if excess > 0 else 0
    return moves


def test_objects_do_not_leave_for_balance_that_a_heavy_object_rules_out():
    """One object, alone on its rank, takes 1.2 times the average: the others need no less."""
    rng = np.random.default_rng(4)
    load = rng.lognormal(0.0, 0.5, 12_000)
    rank = np.maximum(np.arange(12_000), 12) // 12
    rank[0] = 0
    load[0] = 1.2 * load.sum() / 1000
    s = pylb.Snapshot(load, rank, n_ranks=1000)
    least = least_moves(s, load[0])
    for name in REFINEMENTS:
        plan = pylb.place(s, name)
        assert plan.after.max <= 1.001 * load[0]
        assert plan.migrations <= 1.75 * least


def test_refinement_that_is_stuck_swaps_before_it_begins_from_scratch():
    """Memory and speeds leave few moves.  This once moved all objects, for a worse balance."""
    rng = np.random.default_rng(170)
    n, p = 6000, 200
    load = np.sort(rng.random(n))
    rank = pylb.place(pylb.Snapshot(load, np.arange(n) * p // n, n_ranks=p), "GreedyLB").rank
    rank = np.where(rng.random(n) < 0.05, rng.integers(p, size=n), rank)
    memory, speed = rng.integers(1, 9, size=n), rng.choice([0.5, 1.0, 2.0], p)
    used = np.bincount(rank, memory, p)
    limit = np.maximum(used, 1.3 * used.mean()).astype(int)
    s = pylb.Snapshot(load, rank, n_ranks=p, speed=speed, memory=memory, memory_limit=limit)
    plan = pylb.place(s, "RefineLB")
    assert plan.after.max_over_mean < 1.01
    assert plan.migrations < 0.4 * n


@pytest.mark.parametrize("name", ["RefineLB", "RefineSwapLB", "BestFitLB"])
def test_nothing_moves_for_a_gain_of_nothing(name):
    """The fullest ranks cannot give load, or would gain almost nothing by an exchange."""
    n, p = 4500, 300
    s = pylb.Snapshot(np.where(np.arange(n) % 2, 1.0, 1.3), np.arange(n) * p // n)
    plan = pylb.place(s, name)
    assert plan.migrations == 0 or plan.after.max < plan.before.max * (1 - 1e-6)
    n, p = 360, 300
    s = pylb.Snapshot(np.where(np.arange(n) % 2, 1.0, 1.0 + 1e-9), np.arange(n) * p // n)
    assert pylb.place(s, name).migrations == 0


@pytest.mark.parametrize(("seed", "heavy"), [(9, 16.0), (10, 16.0), (11, 11.0), (13, 11.0)])
def test_two_sizes_on_unequal_ranks_are_not_placed_from_scratch(seed, heavy):
    rng = np.random.default_rng(seed)
    load = np.where(rng.random(2330) < 0.4, heavy, 1.0)
    speed = rng.uniform(0.5, 2.0, 100)
    s = pylb.Snapshot(load, np.arange(2330) * 100 // 2330, n_ranks=100, speed=speed)
    plan = pylb.place(s, "BestFitLB")
    assert plan.after.max_over_mean < 1.05
    assert plan.migrations < 1100


@pytest.mark.parametrize(
    "name", ["BestFitLB", "RefineLB", "RefineSwapLB", "RefineCommLB", "VectorLB", "CCMLB"]
)
def test_exchanges_of_sets_keep_memory_limits(name):
    """The objects that leave are those for which the exchange was checked."""
    rng = np.random.default_rng(11)
    for p in [16, 24, 40] * 10:
        n = p * int(rng.choice([6, 8, 12]))
        memory = rng.integers(1, 100, n)
        limit = int(memory.sum() / p * rng.choice([1.1, 1.3, 1.6])) + 100
        snap = pylb.Snapshot(
            rng.lognormal(0.0, 1.5, n),
            rank=rng.integers(0, p, n),
            n_ranks=p,
            speed=10.0 ** rng.uniform(-0.5, 0.5, p),
            memory=memory,
            memory_limit=np.full(p, limit),
        )
        plan = pylb.place(snap, name)
        assert np.bincount(plan.rank, memory, p).max() <= limit
