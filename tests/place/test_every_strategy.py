"""Properties of every strategy, on snapshots that are hard in different ways."""

import dataclasses

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, InfeasibleError, MissingPartError

NAMES = list(pylb.strategies())


def never_slower(name):
    """Say whether the strategy compares the times of the ranks without messages."""
    entry = pylb.strategies()[name]
    refines = entry.family == "refinement" and name != "RefineCommLB"
    return refines or not ("communication" in entry.looks_at or name == "PowerAwareLB")


def edges(rng, n, m, nbytes=None):
    """Random edges, with loops, repetitions and objects without edges."""
    ends = rng.integers(max(1, n // 2), size=(2, m))
    return (*ends, rng.integers(1, 10_000, size=m) if nbytes is None else nbytes)


def multicasts(rng, n, c):
    start = np.concatenate([[0], np.cumsum(rng.integers(0, 12, size=c))])
    return rng.integers(n, size=c), start, rng.integers(n, size=start[-1]), np.full(c, 512.0)


def common():
    """Return everything that a snapshot may have, except memory limits."""
    rng = np.random.default_rng(1)
    n, p = 300, 12
    return pylb.Snapshot(
        rng.exponential(1.0, n),
        rng.integers(p, size=n),
        n_ranks=p,
        edges=edges(rng, n, 900),
        multicasts=multicasts(rng, n, 40),
        nbytes=rng.integers(1, 10**6, size=n),
        migratable=rng.random(n) < 0.9,
        key=rng.permutation(10 * n)[:n],
        coords=rng.random((n, 3)),
        speed=rng.uniform(0.5, 2.0, p),
        background=rng.uniform(0.0, 5.0, p),
        node=np.arange(p) // 4,
    )


def limited():
    """Return a snapshot whose objects just fit into memory, with blocks that objects share."""
    rng = np.random.default_rng(2)
    n, p = 120, 6
    rank, memory = rng.integers(p, size=n), rng.integers(1, 100, size=n)
    limit = np.full(p, int(1.3 * np.bincount(rank, memory, p).max()))
    given = {"edges": edges(rng, n, 300), "memory": memory, "memory_limit": limit}
    return pylb.Snapshot(rng.random(n), rank, n_ranks=p, **given)


def few_ranks():
    """Return a snapshot with all load on a tenth of the ranks."""
    rng = np.random.default_rng(3)
    return pylb.Snapshot(
        rng.random(800), rng.integers(4, size=800), n_ranks=40, edges=edges(rng, 800, 2400)
    )


def four_decades():
    rng = np.random.default_rng(4)
    load = 10.0 ** rng.uniform(-4, 0, 400)
    return pylb.Snapshot(load, np.arange(400) // 20, n_ranks=20, edges=edges(rng, 400, 900))


def one_giant():
    """Return a snapshot in which one object is heavier than the average rank."""
    rng = np.random.default_rng(5)
    load = np.append(rng.random(200), 30.0)
    return pylb.Snapshot(load, np.arange(201) // 13, n_ranks=16, edges=edges(rng, 201, 500))


def nothing_runs():
    rng = np.random.default_rng(6)
    return pylb.Snapshot(np.zeros(30), np.arange(30) % 4, n_ranks=4, edges=edges(rng, 30, 60))


def few_objects():
    return pylb.Snapshot([3.0, 1.0, 2.0], [0, 0, 0], n_ranks=20, edges=([0, 1], [1, 2], [8.0, 8.0]))


def extreme_numbers():
    """Return a snapshot whose sums of weights would overflow every integer."""
    rng = np.random.default_rng(7)
    load = 1e-12 * rng.random(200)
    load[:5] *= 1e20
    nbytes = 10.0 ** rng.uniform(-3, 15, 600)
    nbytes[::7] = 0.0
    return pylb.Snapshot(
        load,
        np.arange(200) // 25,
        n_ranks=8,
        edges=edges(rng, 200, 600, nbytes),
        nbytes=rng.integers(0, 2**45, size=200),
    )


def one_rank():
    return pylb.Snapshot(np.ones(10), np.zeros(10, int), n_ranks=1, edges=([0], [1], [1.0]))


def nobody():
    return pylb.Snapshot([], [], n_ranks=5)


def all_fixed():
    rng = np.random.default_rng(8)
    return pylb.Snapshot(
        rng.random(50), rng.integers(5, size=50), n_ranks=5, migratable=np.zeros(50, bool)
    )


HARD = [
    common, limited, few_ranks, four_decades, one_giant, nothing_runs, few_objects,
    extreme_numbers, one_rank, nobody, all_fixed,
]  # fmt: skip


def positioned(snapshot, name):
    """Return the snapshot, where each object has a position if the strategy needs one."""
    if "coords" not in pylb.strategies()[name].looks_at or snapshot.coords is not None:
        return snapshot
    at = np.arange(snapshot.n_objects)
    coords = np.stack([at % 7, at // 7, np.zeros(len(at))], axis=1)
    return dataclasses.replace(snapshot, coords=coords)


def place(snapshot, name, **options):
    try:
        return pylb.place(positioned(snapshot, name), name, **options)
    except MissingPartError as why:
        pytest.skip(str(why))


def arrays(snapshot):
    """Return copies of all arrays of a snapshot."""
    values = [getattr(snapshot, field.name) for field in dataclasses.fields(snapshot)]
    flat = [part for v in values for part in (v if isinstance(v, tuple) else (v,))]
    return [part.copy() for part in flat if isinstance(part, np.ndarray)]


@pytest.mark.parametrize("name", NAMES)
def test_the_table_says_whether_bytes_change_the_placement(name):
    rng = np.random.default_rng(9)
    found = set()
    for _ in range(4):
        sizes = rng.integers(1, 10**6, size=800)
        snapshot = dataclasses.replace(few_ranks(), nbytes=sizes)
        found.add(tuple(place(snapshot, name, seed=5).rank.tolist()))
    assert (len(found) > 1) == ("bytes" in pylb.strategies()[name].looks_at)


@pytest.mark.parametrize("make", HARD, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_a_placement_is_valid_repeatable_and_leaves_the_snapshot_alone(name, make):
    snapshot = make()
    before = arrays(snapshot)
    try:
        plan = place(snapshot, name, seed=5)
    except InfeasibleError:
        assert make is limited
        return
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays(snapshot), strict=True))
    assert np.array_equal(plan.rank, place(make(), name, seed=5).rank)
    assert plan.rank.shape == snapshot.rank.shape
    keeps_the_rules(snapshot, plan.rank)
    assert plan.migrations == np.count_nonzero(plan.rank != snapshot.rank)
    if name == "RefineCommLB":  # it minimizes times that include messages
        before, after = (times_with_sending(snapshot, r) for r in (snapshot.rank, plan.rank))
        assert after.max() <= before.max() * (1 + 1e-12)
    elif pylb.strategies()[name].family == "refinement":
        assert plan.after.max <= plan.before.max * (1 + 1e-12)


def times_with_sending(snapshot, rank, alpha=2e-6, beta=1e-10):
    """Return the seconds of the ranks, including the time for sending."""
    out = snapshot.with_rank(rank).rank_times.copy()
    sends = []
    if snapshot.edges is not None:
        sends += zip(*snapshot.edges[:3], strict=True)
    if snapshot.multicasts is not None:
        src, start, dst, nbytes, _ = snapshot.multicasts
        rows = enumerate(zip(src, nbytes, strict=True))
        sends += [(a, b, w) for e, (a, w) in rows for b in dst[start[e] : start[e + 1]]]
    for a, b, w in sends:
        out[rank[a]] += alpha + beta * w if rank[a] != rank[b] else 0.0
    return out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_limits_that_the_present_placement_keeps_are_kept(name, seed):
    """Every rank is just within its limit, so hardly any other placement keeps all limits."""
    rng = np.random.default_rng(seed)
    n, p = 120, 40
    rank, memory = rng.integers(p, size=n), rng.integers(1, 2**20, size=n)
    limit = np.bincount(rank, memory, p).astype(np.int64)
    s = pylb.Snapshot(rng.random(n), rank, n_ranks=p, memory=memory, memory_limit=limit)
    keeps_the_rules(s, place(s, name).rank)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1e-322, 1e-310, 1e-300, 1e28])
def test_loads_of_any_size(name, size):
    rng = np.random.default_rng(0)
    s = pylb.Snapshot(size * rng.random(60), np.arange(60) % 3, 4, edges=edges(rng, 60, 90))
    keeps_the_rules(s, place(s, name).rank)


# ---- random snapshots --------------------------------------------------------------------------

SETTINGS = examples(30)
LOADS = {
    "even": lambda rng, n: np.ones(n),
    "by chance": lambda rng, n: rng.random(n),
    "four decades": lambda rng, n: 10.0 ** rng.uniform(-4, 0, n),
    "many zeros": lambda rng, n: rng.random(n) * (rng.random(n) < 0.3),
    "nothing": lambda rng, n: np.zeros(n),
    "one giant": lambda rng, n: np.append(rng.random(n - 1), n) if n else np.zeros(0),
}


@st.composite
def anything(draw, components=False, most=50):
    """Draw a snapshot with any optional parts; some ranks may be empty, at first or always."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, p = draw(st.integers(0, most)), draw(st.sampled_from([1, 2, 3, 7, 60]))
    used = draw(st.sampled_from([1, max(1, p // 3), p]))
    load = LOADS[draw(st.sampled_from(sorted(LOADS)))](rng, n)
    rank = rng.integers(used, size=n)
    some = {}
    if n:
        some["edges"] = edges(rng, n, draw(st.integers(0, 90)))
        some["multicasts"] = multicasts(rng, n, draw(st.integers(0, 9)))
    make = {
        "nbytes": lambda: rng.integers(0, 10**6, size=n),
        "migratable": lambda: rng.random(n) < 0.8,
        "speed": lambda: rng.choice([0.5, 1.0, 4.0], size=p),
        "background": lambda: rng.exponential(load.sum() / p, p),
        "node": lambda: np.arange(p) // 4,
        "memory": lambda: rng.integers(0, 50, size=n),
    }
    for name in draw(st.sets(st.sampled_from(sorted(make)))):
        some[name] = make[name]()
    if "memory" in some:  # limits a little above the memory in use
        most = np.bincount(rank, some["memory"], p).max() if n else 0
        some["memory_limit"] = np.full(p, int(1.2 * most) + 1)
    if components:
        if draw(st.booleans()):
            load = np.stack([load, LOADS["by chance"](rng, n)], axis=1)
        elif n and "memory" in some:
            some["block"] = rng.integers(-1, 5, size=n)
            some["block_bytes"] = rng.integers(0, 20, size=5)
            some["memory_limit"] += 100
    return pylb.Snapshot(load, rank, n_ranks=p, **some)


def memory_used(s, rank):
    """Return the bytes on each rank; a block of data once."""
    used = np.bincount(rank, s.memory, s.n_ranks)
    if s.block is not None:
        held = set(zip(rank.tolist(), s.block.tolist(), strict=True))
        for r, b in held:
            used[r] += s.block_bytes[b] if b >= 0 else 0
    return used


def keeps_the_rules(s, rank):
    assert np.all((rank >= 0) & (rank < s.n_ranks))
    if s.migratable is not None:
        assert np.array_equal(rank[~s.migratable], s.rank[~s.migratable])
    if s.memory_limit is not None:
        assert np.all(memory_used(s, rank) <= s.memory_limit)


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(s=anything(), seed=st.integers(0, 3))
def test_any_snapshot_is_placed_by_the_rules_and_alike_each_time(name, s, seed):
    plan = place(s, name, seed=seed)
    keeps_the_rules(s, plan.rank)
    assert np.array_equal(plan.rank, place(s, name, seed=seed).rank)
    if never_slower(name):
        assert plan.after.max <= plan.before.max * (1 + 1e-12)


@pytest.mark.parametrize("name", NAMES)
@SETTINGS
@given(s=anything(components=True))
def test_vectors_and_shared_blocks_are_placed_or_refused(name, s):
    """A strategy that ignores limits says so; all others keep them, or exceed them no further."""
    try:
        plan = place(s, name)
    except DomainError:
        assert name != "VectorLB"
        assert s.load.ndim == 2 or s.block is not None
        return
    keeps_the_rules(s, plan.rank)
    # ranks that place in rounds know the sums of loads only
    if never_slower(name) and (s.load.ndim == 1 or not pylb.strategies()[name].distributed):
        before, after = (pylb.evaluate(s, rank).seconds for rank in (s.rank, plan.rank))
        assert after <= before * (1 + 1e-12)
