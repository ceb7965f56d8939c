"""MetisLB, ScotchLB, ScotchRefineLB, ZoltanLB and HypergraphLB: properties of their placements."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb.errors import MissingPartError

NAMES = ("MetisLB", "ScotchLB", "ScotchRefineLB")
NAMES += ("ZoltanLB", "MtKaHyParLB", "HypergraphLB")


@pytest.fixture(params=NAMES)
def name(request):
    if not here(request.param):
        pytest.skip(f"pylb was built without {pylb.strategies()[request.param].library}")
    return request.param


def here(name):
    library = pylb.strategies()[name].library
    return library is None or pylb.partitioning.libraries.available(library)


def torus_edges(side, nbytes):
    """Return the edges of a torus, one direction each."""
    ids = np.arange(side * side).reshape(side, side)
    dst = np.concatenate([np.roll(ids, -1, axis).ravel() for axis in (0, 1)])
    return np.tile(ids.ravel(), 2), dst, np.full(len(dst), nbytes)


def torus(side, p, **more):
    """Objects of a torus, at random on the ranks; edges of 100 bytes."""
    rng, n = np.random.default_rng(0), side * side
    rank = rng.integers(0, p, n)
    edges = torus_edges(side, 100.0)
    return pylb.Snapshot(1.0 + rng.random(n), rank, n_ranks=p, edges=edges, **more)


def cut(s, rank):
    return pylb.evaluate(s, rank).cut


def reach(s, rank):
    return pylb.evaluate(s, rank).connectivity


# ---- properties of every placement -----------------------------------------------------------


def test_a_torus_is_balanced_and_cut_well(name):
    s = torus(32, 8)
    plan = pylb.place(s, name)
    assert plan.after.max_over_mean <= 1.031
    assert cut(s, plan.rank) <= 1.5 * 100 * 8 * 32  # eight stripes cut 2 x 32 edges each
    assert cut(s, plan.rank) < 0.25 * cut(s, s.rank)


def test_speeds_background_and_fixed_objects_are_in_the_balance(name):
    p = 6
    fixed = np.zeros(32 * 32, bool)
    fixed[:40] = True
    s = torus(
        32,
        p,
        speed=np.array([1.0, 2.0, 1.0, 4.0, 1.0, 1.0]),
        background=np.array([0.0, 5.0, 0.0, 0.0, 300.0, 3.0]),
        migratable=~fixed,
    )
    plan = pylb.place(s, name)
    assert np.array_equal(plan.rank[fixed], s.rank[fixed])
    rest = np.arange(p) != 4  # rank 4 takes longest, with its background load alone
    assert not np.any((plan.rank == 4) & ~fixed)
    times = pylb._core.rank_times(s, plan.rank)[rest]
    assert times.max() <= 1.05 * times.mean()


def test_a_rank_that_is_far_slower_gets_nothing(name, capfd):
    """Its share is 0 in single precision, which METIS refused as "Incorrect tpwgts"."""
    s = torus(12, 4, speed=[1e-30, 1.0, 1e20, 1e20])
    loads = np.bincount(pylb.place(s, name).rank, s.load, minlength=4)
    assert loads[0] == loads[1] == 0.0
    assert max(loads[2:]) <= 1.1 * min(loads[2:])
    said = capfd.readouterr()
    assert all("***" in line for line in said.out.splitlines())  # METIS bisects an empty half
    assert said.err == ""


def test_the_neighbours_of_fixed_objects_come_to_them(name):
    """Two halves without edges between them; a fixed object in each determines its rank."""
    n = 60
    half = np.arange(n) % (n // 2)
    src = np.flatnonzero(half > 0)
    edges = (src, src - 1, np.full(len(src), 10.0))
    migratable = half > 0
    rank = np.where(np.arange(n) < n // 2, 1, 0)
    rank[migratable] = np.arange(len(src)) % 2
    s = pylb.Snapshot(np.ones(n), rank, n_ranks=2, edges=edges, migratable=migratable)
    plan = pylb.place(s, name)
    assert plan.after.max_over_mean <= 1.07
    if name != "MetisLB":  # METIS has no fixed vertices
        assert cut(s, plan.rank) <= 20.0


def test_labels_are_named_so_that_few_objects_move(name):
    """A good placement is computed again with another seed: only details may change."""
    s = torus(32, 16)
    s = s.with_rank(pylb.place(s, name).rank)
    plan = pylb.place(s, name, seed=1)
    assert plan.migrations <= 0.75 * s.n_objects  # random parts would move 15 of 16 objects


def test_repartitioning_moves_little_where_it_costs_much():
    moved = {}
    for name in [n for n in ("ScotchRefineLB", "ZoltanLB", "HypergraphLB") if here(n)]:
        s = torus(32, 8, nbytes=np.full(1024, 1000))
        s = s.with_rank(pylb.place(s, "HypergraphLB").rank)
        heavy = pylb.Snapshot(
            np.where(s.rank == 0, 1.5, 1.0) * s.load, s.rank, 8, edges=s.edges, nbytes=s.nbytes
        )
        moved[name] = [
            pylb.place(heavy, pylb.strategy(name, iterations=i)).migrations
            for i in (1e-3, 10.0, 1e6)
        ]
        assert moved[name][0] <= moved[name][2]
        assert 0 < moved[name][0] <= 300
    assert moved["HypergraphLB"][0] <= 100


@pytest.mark.skipif(not here("ScotchRefineLB"), reason="needs Scotch")
@pytest.mark.parametrize("p", [8, 16, 32])
def test_scotch_refine_migrates_less_than_strategies_that_start_from_scratch(p):
    """Menon 2012, figure 2.2: zones of very unequal size, rows of them on the ranks."""
    side = 16
    width = 4.5 ** (np.arange(side) / (side - 1))
    load = np.outer(width, width).ravel()
    s = pylb.Snapshot(
        load,
        np.arange(side**2) * p // side**2,
        n_ranks=p,
        edges=torus_edges(side, 4e4),
        nbytes=(2e5 * load).astype(int),
    )
    plan = pylb.place(s, "ScotchRefineLB")
    others = [pylb.place(s, name) for name in ("GreedyLB", "ScotchLB")]
    assert plan.migrations <= 0.5 * min(other.migrations for other in others)
    assert plan.after.max_over_mean <= 1.05
    counted = pylb.place(
        s, pylb.strategy("ScotchRefineLB", iterations=1e6)
    )  # only the messages count
    assert cut(s, counted.rank) <= cut(s, plan.rank)


# ---- multicasts ------------------------------------------------------------------------------


def multicasts(n=400, p=8, seed=3):
    """Return objects on a ring, each of which multicasts to 12 others nearby."""
    rng = np.random.default_rng(seed)
    to = (np.arange(n)[:, None] + rng.integers(-20, 21, (n, 12))) % n
    shuffled = rng.permutation(n)
    return pylb.Snapshot(
        np.ones(n),
        rng.integers(0, p, n),
        n_ranks=p,
        multicasts=(shuffled, np.arange(n + 1) * 12, shuffled[to].ravel(), np.full(n, 64.0)),
    )


@pytest.mark.skipif(not here("ZoltanLB") or not here("MetisLB"), reason="needs Zoltan and METIS")
def test_hypergraphs_reach_fewer_ranks_than_graphs():
    s = multicasts()
    reached = {name: reach(s, pylb.place(s, name).rank) for name in NAMES if here(name)}
    assert reached["ZoltanLB"] < reached["MetisLB"]
    assert reached["HypergraphLB"] < reached["MetisLB"]
    assert max(reached.values()) < 0.5 * reach(s, s.rank)


def test_cycles_refine():
    s = multicasts()
    reached = [
        reach(s, pylb.place(s, pylb.strategy("HypergraphLB", cycles=c)).rank) for c in (0, 3, 12)
    ]
    assert reached == sorted(reached, reverse=True)


# ---- missing libraries, and sizes ------------------------------------------------------------


def test_a_missing_library_is_named_when_its_strategy_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "pylb._metis", None)
    s = torus(4, 2)
    with pytest.raises(MissingPartError, match="libmetis-dev"):
        pylb.place(s, "MetisLB")


def test_sums_of_bytes_beyond_32_bits(name):
    s = torus(16, 4)
    heavy = pylb.Snapshot(
        s.load * 1e20,
        s.rank,
        4,
        edges=(s.edge_src, s.edge_dst, s.edge_bytes * 1e15),
        nbytes=np.full(256, 2**50),
    )
    plan = pylb.place(heavy, name)
    assert plan.after.max_over_mean <= 1.031
    assert cut(heavy, plan.rank) < 0.5 * cut(heavy, heavy.rank)


def test_placement_is_the_same_inside_a_replay(name):
    s = torus(8, 4)
    n, m = s.n_objects, len(s.edge_src)
    phases = {"task_entity": np.arange(n, dtype=np.int32), "task_rank": s.rank, "task_load": s.load}
    edges = {"src": s.edge_src, "dst": s.edge_dst, "bytes": s.edge_bytes, "messages": np.ones(m)}
    phases |= {f"edge_{name}": array for name, array in edges.items()}
    trace = pylb.Trace(
        4,
        phase_id=np.arange(2),
        entity_key=np.arange(n),
        entity_migratable=np.ones(n, bool),
        entity_home=np.zeros(n, np.int32),
        entity_collection=np.full(n, -1),
        task_ptr=[0, n, 2 * n],
        edge_ptr=[0, m, 2 * m],
        task_bytes=None,
        task_memory=None,
        **{name: np.tile(array, 2) for name, array in phases.items()},
    )
    run = trace.replay(name, every=1)
    assert [receipt.strategy for receipt in run.decisions] == [name]
    assert np.array_equal(run.rank[n:], pylb.place(trace[0], name).rank)


# ---- the papers' tables ----------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch):
    """Load benchmarks/partition.py as a module."""
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2] / "benchmarks")
    pytest.importorskip("scipy")
    return pytest.importorskip("partition")


@pytest.mark.skipif(not here("ZoltanLB") or not here("MetisLB"), reason="needs Zoltan and METIS")
@pytest.mark.parametrize("two_away", [False, True])
def test_table_2_1(tables, two_away):
    """In Menon 2012, a multicast reaches 5.5 and 7 ranks (ZoltanLB), 8.5 and 10.15 (MetisLB)."""
    s = tables.leanmd(two_away)
    s = dataclasses.replace(s, rank=np.zeros_like(s.rank))  # else MetisLB keeps the present blocks
    assert np.all(np.diff(s.multicast_start) == (45 if two_away else 27))
    plans = {name: pylb.place(s, name) for name in ("MetisLB", "ZoltanLB")}
    ranks = {name: tables.reached(s, plan.rank) for name, plan in plans.items()}
    assert ranks["ZoltanLB"] <= 0.60 * ranks["MetisLB"]
    assert ranks["ZoltanLB"] <= (7.0 if two_away else 5.5)
    assert plans["ZoltanLB"].after.max_over_mean <= 1.05


@pytest.mark.skipif(not here("ZoltanLB"), reason="needs Zoltan")
def test_table_3_of_devine(tables):
    """Zoltan's best in 2005 had a volume of 5,270; fewer starts than the benchmark has."""
    out = pylb.partition(tables.hexfem(), 5, starts=3, cycles=0)
    assert out.volume <= 5270
    assert out.max_over_mean <= 1.03


# ---- the same graph in other forms -------------------------------------------------------------


def forms(rng, n, m):
    """The same graph as sorted rows, unsorted rows, duplicates in any order, and one direction."""
    a, b = rng.integers(n, size=(2, m))
    low, high = np.minimum(a, b)[a != b], np.maximum(a, b)[a != b]
    low, high = np.unique(np.stack([low, high]), axis=1)
    nbytes = rng.integers(1, 1000, len(low)) * 2.0
    src, dst = np.concatenate([low, high]), np.concatenate([high, low])
    both = np.tile(nbytes / 2, 2)
    rows = np.lexsort((dst, src))
    mixed = np.lexsort((rng.random(len(src)), src))
    yield src[rows], dst[rows], both[rows]
    yield src[mixed], dst[mixed], both[mixed]
    yield low, high, nbytes
    twice = rng.permutation(2 * len(src)) % len(src)
    yield src[twice], dst[twice], both[twice] / 2
    loops = np.insert(rows, 5, rows[3])  # out of order; below, an edge to itself
    loops_dst = dst[loops]
    loops_dst[5] = src[loops[5]]
    yield src[loops], loops_dst, both[loops]


GRAPHS = [n for n in NAMES if n not in ("ZoltanLB", "HypergraphLB") and here(n)]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("n", "m"), [(60, 200), (300, 900), (100, 4000)])
def test_the_form_of_the_edges_does_not_matter(name, n, m):
    rng = np.random.default_rng(n)
    load, rank = rng.random(n), rng.integers(5, size=n)
    plans = [
        pylb.place(pylb.Snapshot(load, rank, n_ranks=5, edges=edges), name)
        for edges in forms(rng, n, m)
    ]
    assert all(np.array_equal(plan.rank, plans[0].rank) for plan in plans)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("without", [0, 7, -1])
def test_an_edge_without_its_other_direction_counts(name, without):
    rng = np.random.default_rng(3)
    src, dst, nbytes = next(forms(rng, 80, 300))
    load, rank = rng.random(80), rng.integers(4, size=80)
    keep = np.arange(len(src)) != without % len(src)
    given = [(src[keep], dst[keep], nbytes[keep]), tuple(x[keep][::-1] for x in (src, dst, nbytes))]
    one, two = (pylb.place(pylb.Snapshot(load, rank, n_ranks=4, edges=e), name) for e in given)
    assert np.array_equal(one.rank, two.rank)
