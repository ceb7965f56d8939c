"""Room place: GreedyLB against its twin, searches against all placements, limits, bad input."""

import json

import golden
import numpy as np
import pytest
import twin_place as twins
from chance import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_few import least_moves

import pylb
from pylb.errors import (
    DomainError,
    InfeasibleError,
    MissingPartError,
    OutOfRangeError,
    StrategyError,
    UnknownStrategyError,
)
from pylb.partitioning.libraries import METHODS

NAMES = [
    "BestFitLB", "GreedyLB", "RefineLB", "RefineSwapLB", "RefineCommLB", "CommAwareRefineLB",
]  # fmt: skip

SETTINGS = examples(75)

LOADS = st.one_of(
    st.integers(0, 5).map(float),
    st.just(0.0) | st.floats(1e-99, 100),
    st.sampled_from([0.0, 1.0, 1.0 + 2**-52, 1e-9]),
)


@st.composite
def snapshots(draw, memory=False, most=40, ranks=6):
    """Small problems with any of speeds, background, fixed objects and memory limits."""
    p = draw(st.integers(1, ranks))
    n = draw(st.integers(0, most))
    some = {}
    if draw(st.booleans()):
        some["speed"] = draw(arrays(np.float64, p, elements=st.sampled_from([0.5, 1.0, 3.0])))
    if draw(st.booleans()):
        some["background"] = draw(arrays(np.float64, p, elements=st.floats(0, 50)))
    if draw(st.booleans()):
        some["migratable"] = draw(arrays(np.bool_, n))
    if draw(st.booleans()):
        some["nbytes"] = draw(arrays(np.int64, n, elements=st.integers(0, 99)))
    if memory:
        some["memory"] = draw(arrays(np.int64, n, elements=st.integers(0, 9)))
        some["memory_limit"] = draw(arrays(np.int64, p, elements=st.integers(0, 30)))
    load = draw(arrays(np.float64, n, elements=LOADS))
    rank = draw(arrays(np.int32, n, elements=st.integers(0, p - 1)))
    if memory and draw(st.booleans()):  # limits that the present placement just keeps
        some["memory_limit"] = np.bincount(rank, some["memory"], p) + some["memory_limit"] // 4
    return pylb.Snapshot(load, rank, n_ranks=p, **some)


def keeps_its_word(s, plan):
    """Check a placement: fixed objects, limits, and its figures."""
    q = twins.Plain(s)
    assert all(q.movable[i] or plan.rank[i] == q.rank[i] for i in range(q.n))
    assert min(q.room(plan.rank.tolist())) >= 0
    assert plan.migrations == int(np.count_nonzero(plan.rank != s.rank))
    assert plan.before == s.metrics
    assert plan.after == pylb.model.Metrics.of(q.times(plan.rank.tolist()))
    assert not plan.rank.flags.writeable
    sizes = np.zeros(q.n, int) if s.nbytes is None else s.nbytes
    assert plan.nbytes == int(sizes[plan.rank != s.rank].sum())


# ---- GreedyLB ------------------------------------------------------------------------------


def test_the_default_is_the_one_with_few_migrations():
    s = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], [0, 0, 0, 1], n_ranks=2)
    assert pylb.place(s).strategy == "BestFitLB"


@SETTINGS
@given(snapshots())
def test_greedy_agrees_with_the_twin(s):
    plan = pylb.place(s, "GreedyLB")
    assert plan.rank.tolist() == twins.greedy(s)
    keeps_its_word(s, plan)


@SETTINGS
@given(snapshots(memory=True, most=7, ranks=3), st.sampled_from(NAMES))
def test_infeasible_is_said_exactly_where_nothing_is_feasible(s, name):
    if twins.Plain(s).feasible():
        keeps_its_word(s, pylb.place(s, name))
    else:
        with pytest.raises(InfeasibleError, match=r"\d"):
            pylb.place(s, name)


KINDS = {
    "uniform": lambda n, rng: rng.random(n),
    "lognormal": lambda n, rng: rng.lognormal(0, 1, n),
    "exponential": lambda n, rng: rng.exponential(1.0, n),
    "pareto": lambda n, rng: rng.pareto(0.5, n),
    "integers": lambda n, rng: rng.integers(0, 4, n).astype(float),
    "equal": lambda n, rng: np.ones(n),
    "narrow": lambda n, rng: 1.0 + 1e-12 * rng.random(n),
    "one giant": lambda n, rng: np.where(np.arange(n) == n // 2, 1e20, rng.random(n)),
    "two kinds": lambda n, rng: np.where(rng.random(n) < 0.01, 1000.0, 1e-3 * rng.random(n)),
}


@pytest.mark.parametrize(("n", "p"), [(30_000, 3), (30_000, 100), (30_000, 4_000), (900, 1_000)])
def test_greedy_agrees_with_its_twin_to_the_last_bit_on_many_objects(n, p):
    for kind in KINDS:
        rng = np.random.default_rng(n + p)
        load = KINDS[kind](n, rng)
        other = np.where(rng.random(p) < 0.3, load.mean() * n / p * rng.random(p), 0.0)
        for background in (None, other):
            s = pylb.Snapshot(load, np.zeros(n, int), n_ranks=p, background=background)
            assert pylb.place(s, "GreedyLB").rank.tolist() == twins.greedy(s), kind


def test_with_more_speeds_than_classes_ranks_end_near_each_other():
    rng = np.random.default_rng(5)
    speed = rng.uniform(1, 4, 300)
    s = pylb.Snapshot(rng.random(30_000), rng.integers(0, 300, 30_000), n_ranks=300, speed=speed)
    plan = pylb.place(s, "GreedyLB")
    keeps_its_word(s, plan)
    best = s.load.sum() / speed.sum()
    # The limits of exactness: one object on one rank; speeds in a class differ by 1/64 of the
    # spread.
    assert plan.after.max <= 1.05 * best + 1.0 / speed.min() / 10


# ---- RefineLB ------------------------------------------------------------------------------


SEARCHES = ["BestFitLB", "RefineLB", "RefineSwapLB"]


def brute_force(s):
    """Return the times of the slowest rank of all placements that keep the memory limits."""
    p, n = s.n_ranks, s.n_objects
    rank = np.stack(np.unravel_index(np.arange(p**n), (p,) * n))
    speed = np.ones(p) if s.speed is None else s.speed
    longest, kept = np.zeros(p**n), np.ones(p**n, bool)
    for r in range(p):
        here = rank == r
        other = 0.0 if s.background is None else s.background[r]
        longest = np.maximum(longest, other + (s.load[:, None] * here).sum(0) / speed[r])
        kept &= s.memory is None or (s.memory[:, None] * here).sum(0) <= s.memory_limit[r]
    return longest[kept]


def small(seed):
    """Return 8 objects on 3 ranks; every second time of unequal speed, or with memory limits."""
    rng = np.random.default_rng(seed)
    load = rng.integers(1, 30, 8) if seed % 2 else rng.lognormal(0.0, 1.0, 8)
    facts = {}
    if seed // 2 % 2:
        facts["speed"] = rng.choice([0.5, 1.0, 2.0], 3)
        facts["background"] = rng.uniform(0.0, load.sum() / 6, 3)
    rank = rng.integers(0, 3, 8)
    if seed // 4 % 2:
        facts["memory"] = rng.integers(1, 9, 8)
        used = np.bincount(rank, facts["memory"], 3).astype(int)
        facts["memory_limit"] = np.maximum(used, facts["memory"].sum() // 3 + 4)
    return pylb.Snapshot(load.astype(float), rank, n_ranks=3, **facts)


@pytest.mark.parametrize("name", SEARCHES)
def test_of_few_objects_nearly_all_are_placed_as_well_as_possible(name):
    above = []
    for seed in range(300):
        s = small(seed)
        mean = s.metrics.mean if s.speed is None else 0.0
        best = max(brute_force(s).min(), 1.003 * mean)
        plan = pylb.place(s, name)
        keeps_its_word(s, plan)
        above.append(plan.after.max / best - 1.0)
    assert np.mean(np.array(above) > 0.003) <= 0.05
    assert max(above) <= 0.1


def test_refine_moves_few_where_the_imbalance_is_moderate():
    rng = np.random.default_rng(3)
    n, p = 20_000, 64
    s = pylb.Snapshot(rng.exponential(1.0, n), np.arange(n) * p // n, n_ranks=p)
    greedy, refined = pylb.place(s, "GreedyLB"), pylb.place(s, "RefineLB")
    assert refined.migrations < greedy.migrations / 3
    assert refined.after.max_over_mean <= 1.003


@pytest.mark.parametrize("name", ["RefineLB", "RefineSwapLB", "BestFitLB"])
def test_a_rank_with_most_of_the_load_and_a_heavy_object(name):
    """A rank with most of the load, and an object as heavy as several ranks."""
    rng = np.random.default_rng(138)
    load = rng.pareto(1.4, 1200)
    load[5] = 4.0 * load.sum() / 50
    rank = np.where(rng.random(1200) < 0.7, 0, np.arange(1200) // 24)
    s = pylb.Snapshot(load, rank, n_ranks=50)
    plan = pylb.place(s, name)
    assert plan.after.max == load[5]
    assert plan.migrations < 1.1 * (rank == 0).sum()


def test_refine_moves_only_what_ends_an_excess():
    plan = pylb.place(pylb.Snapshot([1.0, 1.0], [0, 1]), "RefineLB")
    assert plan.migrations == 0
    assert plan.rank.tolist() == [0, 1]
    s = pylb.Snapshot([4.0, 3.0, 2.0, 1.0, 2.0], [0, 0, 0, 0, 1], n_ranks=2)
    plan = pylb.place(s, "RefineLB")  # loads 10 and 2, threshold 6.018: moving 4 is enough
    assert plan.rank.tolist() == [1, 0, 0, 0, 1]


def test_a_rank_without_memory_swaps():
    """The rank that took the shorter object has no memory for another one, so it swaps."""
    s = pylb.Snapshot(
        [0.0, 0.0, 1.0, 2.0], [0, 0, 0, 0], 5, speed=[0.5, 3.0, 0.5, 0.5, 0.5],
        memory=[1, 1, 2, 2], memory_limit=[6, 2, 0, 0, 0],
    )  # fmt: skip
    assert pylb.place(s, "RefineSwapLB").rank.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("name", ["BestFitLB", "RefineLB", "RefineSwapLB"])
def test_exchanges_help_where_nothing_can_be_moved(name):
    s = pylb.Snapshot([4.0, 4.0, 3.0, 3.0], [0, 0, 1, 1])  # no move helps
    plan = pylb.place(s, name)
    assert (plan.after.max, plan.migrations) == (7.0, 2)
    # Three objects on each of three ranks; no other rank has room for any of them.
    load, rank = [0.9] * 9 + [0.6] * 7, [0, 0, 0, 1, 1, 1, 2, 2, 2, *range(3, 10)]
    s = pylb.Snapshot(load, rank, n_ranks=10)
    assert pylb.place(s, name).after.max == pytest.approx(1.5)


# ---- CommAwareRefineLB and RefineCommLB ----------------------------------------------------


@pytest.mark.parametrize("name", ["CommAwareRefineLB", "RefineCommLB"])
def test_without_messages_heavy_objects_go_first(name):
    rng = np.random.default_rng(98)
    n, p = 12_000, 370
    s = pylb.Snapshot(rng.exponential(1.0, n), np.arange(n) * p // n, n_ranks=p)
    plan, refined = pylb.place(s, name), pylb.place(s, "RefineLB")
    assert plan.after.max_over_mean <= 1.0031
    assert plan.migrations < 2 * refined.migrations


def grid(side, p, rng):
    """A grid of objects in blocks on the ranks; uneven loads, messages between neighbours."""
    at = np.arange(side * side).reshape(side, side)
    src = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    dst = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    both = np.concatenate([src, dst]), np.concatenate([dst, src])
    rank = np.arange(side * side) * p // side**2
    load = rng.random(side * side) * (1 + (rank % 4))
    return pylb.Snapshot(load, rank, n_ranks=p, edges=(*both, np.full(2 * len(src), 100.0)))


@pytest.mark.parametrize("name", ["CommAwareRefineLB", "RefineCommLB"])
def test_refinements_that_look_at_communication_cut_less(name):
    s = grid(64, 16, np.random.default_rng(2))
    blind, aware = pylb.place(s, "RefineLB"), pylb.place(s, name)
    assert aware.after.max_over_mean <= 1.003 * (1 + 1e-9)
    cut = [pylb.evaluate(s, plan.rank).cut for plan in (blind, aware)]
    assert cut[1] < 0.7 * cut[0]


def test_communication_is_a_load_for_refine_comm():
    """Two ranks of equal loads, one of which sends: the sender moves to its receiver."""
    s = pylb.Snapshot([1.0] * 8, [0, 0, 0, 0, 1, 1, 1, 1], edges=([1], [6], [2e10]))
    for name, cost in (("CommAwareRefineLB", {}), ("RefineCommLB", {"beta": 0.0})):
        assert pylb.place(s, pylb.strategy(name, **cost)).migrations == 0
    plan = pylb.place(s, "RefineCommLB")  # before: 4 + 2 and 4 seconds; after: 3 and 5 seconds
    assert np.flatnonzero(plan.rank != s.rank).tolist() == [1]


# ---- BestFitLB -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "lognormal", "exponential", "integers", "equal"])
@pytest.mark.parametrize("where", ["in blocks", "scattered", "on a tenth", "on one"])
def test_bestfit_has_the_balance_of_greedy_and_few_migrations(kind, where):
    rng = np.random.default_rng(4)
    n, p = 40_000, 160
    load = KINDS[kind](n, rng)
    rank = rng.integers(p, size=n) if where == "scattered" else np.arange(n) * p // n
    load = np.where(rank < p // 10, 20 * load, load) if where == "on a tenth" else load
    rank = np.zeros(n, int) if where == "on one" else rank
    s = pylb.Snapshot(load, rank, n_ranks=p)
    plan, greedy = pylb.place(s, "BestFitLB"), pylb.place(s, "GreedyLB")
    keeps_its_word(s, plan)
    assert plan.after.max <= 1.0005 * greedy.after.max
    assert plan.migrations < 1.35 * least_moves(s) + 2 * p


@pytest.mark.parametrize("unit", [1.0, 0.1, 3e-5])
def test_bestfit_meets_what_multiples_of_a_load_can_make(unit):
    rng = np.random.default_rng(5)
    load, p = unit * rng.integers(1, 11, 20_000), 150
    s = pylb.Snapshot(load, rng.integers(p, size=20_000), n_ranks=p)
    plan = pylb.place(s)
    assert plan.after.max == pytest.approx(unit * np.ceil(load.sum() / unit / p - 1e-9), rel=1e-9)
    assert plan.migrations < 1.2 * least_moves(s) + p


@pytest.mark.parametrize("name", ["BestFitLB", "RefineLB"])
def test_an_object_goes_where_it_is_too_heavy(name):
    s = pylb.Snapshot([3.0, 3.0, 3.0, 2.0, 2.0], [0, 0, 0, 1, 1], n_ranks=2)  # 9 and 4, mean 6.5
    plan = pylb.place(s, name)
    assert plan.after.max == 7.0
    assert plan.migrations == 1


def test_the_tolerance_of_bestfit_saves_migrations():
    rng = np.random.default_rng(6)
    n, p = 20_000, 100
    s = pylb.Snapshot(rng.random(n), np.arange(n) * p // n, n_ranks=p)
    exact, loose = (
        pylb.place(s, "BestFitLB"),
        pylb.place(s, pylb.strategy("BestFitLB", tolerance=0.01)),
    )
    assert loose.after.max_over_mean <= 1.01 * (1 + 1e-4)
    assert loose.migrations < exact.migrations
    assert pylb.place(s, pylb.strategy("BestFitLB", tolerance=1.0)).migrations == 0


# ---- all -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_memory_limits_are_kept_to_the_byte(name):
    kinds = [
        (
            {"memory": [5, 5], "memory_limit": [4, 5]},
            "needs 5 bytes, 1 more than any rank has left",
        ),
        ({"memory": [9, 1], "memory_limit": [4, 6]}, r"object 0 needs 9 bytes, 3 more than any"),
        (
            {"memory": [7, 1], "memory_limit": [4, 9], "migratable": [False, True]},
            "rank 0: the objects that may not migrate take 3 bytes more than its memory_limit of 4",
        ),
    ]
    for kind, message in kinds:
        with pytest.raises(InfeasibleError, match=message):
            pylb.place(pylb.Snapshot([1.0, 1.0], [0, 1], **kind), name)
    s = pylb.Snapshot([1.0] * 3, [0, 0, 1], memory=[4, 4, 4], memory_limit=[6, 7], key=[7, 8, 9])
    with pytest.raises(InfeasibleError, match=r"object 9 needs 4 bytes, 1 more than any rank"):
        pylb.place(s, name)
    s = pylb.Snapshot(
        [1.0, 1.0], [1, 0], migratable=[True, False], memory=[1, 0], memory_limit=[1, 0]
    )
    assert pylb.place(s, name).rank.tolist() == [0, 0]


def test_placements_within_memory_limits_by_hand():
    # greedy by load leaves no room for the last object, although a placement exists
    s = pylb.Snapshot([5.0, 4.0, 1.0], [0, 0, 1], memory=[3, 3, 6], memory_limit=[6, 6])
    rank = pylb.place(s, "GreedyLB").rank
    assert rank[0] == rank[1] != rank[2]
    # by load, then memory, the slowest rank would take 9 s instead of 6 s
    given = {"memory": [1, 4, 1, 4, 3], "memory_limit": [4, 5, 4]}
    s = pylb.Snapshot([1.0, 2.0, 4.0, 5.0, 5.0], [0, 1, 1, 2, 0], **given)
    assert pylb.place(s, "GreedyLB").after.max <= 6.0
    # the largest first: 4 + 4 and 3 + 3 + 3 leave no room for the last 3; 4 + 3 + 3 twice does
    given = {"memory": [4, 4, 3, 3, 3, 3], "memory_limit": [10, 10]}
    s = pylb.Snapshot(np.ones(6), np.zeros(6, int), 2, **given)
    assert np.bincount(pylb.place(s, "RefineLB").rank, s.memory).tolist() == [10, 10]
    # the object with the least load for its memory leaves a rank above its limit; only that one
    given = {"memory": [10] * 4, "memory_limit": [20, 20]}
    s = pylb.Snapshot([4.0, 1.0, 3.0, 8.0], [0, 0, 0, 1], **given)
    assert pylb.place(s, "RefineLB").rank.tolist() == [0, 1, 0, 1]


def test_memory_limits_have_no_effect_without_sizes():
    s = pylb.Snapshot([1.0, 1.0], [0, 0], n_ranks=2, memory_limit=[0, 0])
    assert pylb.place(s, "GreedyLB").after.max == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_of_several_loads_a_strategy_gets_the_sum(name):
    load, rank = [[4.0, 2.0], [2.0, 1.0], [6.0, 3.0], [2.0, 1.0]], [0, 0, 0, 1]
    plan = pylb.place(pylb.Snapshot(load, rank), name)
    one = pylb.place(pylb.Snapshot(np.sum(load, axis=1), rank), name)
    assert plan.rank.tolist() == one.rank.tolist()
    assert (plan.why, one.why) == ("placed by the sum of each object's loads", "")
    s = pylb.Snapshot([[4.0, 2.0], [1.0, 6.0], [3.0, 3.0], [2.0, 1.0]], [0, 0, 1, 1])
    assert pylb.place(s, name).rank.tolist() == [0, 0, 1, 1]


# ---- strategies and parameters ---------------------------------------------------------------


def test_names_and_parameters_are_checked():
    s = pylb.Snapshot([1.0], [0])
    with pytest.raises(UnknownStrategyError, match="did you mean GreedyLB"):
        pylb.place(s, "gredylb")
    with pytest.raises(UnknownStrategyError, match="expected a name or a callable"):
        pylb.place(s, 3)
    with pytest.raises(DomainError, match=r"overload is 0\.5: expected 1 \.\.\. 1e\+06 x average"):
        pylb.place(s, pylb.strategy("RefineLB", overload=0.5))
    with pytest.raises(DomainError, match="overload is nan"):
        pylb.place(s, pylb.strategy("RefineLB", overload=float("nan")))
    with pytest.raises(DomainError, match=r"no parameter 'overlod'.*did you mean overload"):
        pylb.place(s, pylb.strategy("RefineLB", overlod=1.1))
    with pytest.raises(DomainError, match="GreedyLB has no parameter 'overload': expected none"):
        pylb.place(s, pylb.strategy("GreedyLB", overload=1.1))


def test_the_table_says_what_strategies_are():
    table = pylb.strategies()
    assert table["GreedyLB"].family == "comprehensive"
    assert table["RefineLB"].family == "refinement"
    assert table["RefineLB"].params[0][:2] == ("overload", 1.003)
    assert "memory" in table["GreedyLB"].looks_at


def test_a_callable_is_a_strategy():
    s = pylb.Snapshot([1.0, 2.0, 3.0], [0, 0, 0], n_ranks=2)
    call = lambda snap, shift=0: (np.arange(snap.n_objects) + shift) % 2  # noqa: E731
    plan = pylb.place(s, pylb.strategy(call, shift=1))
    assert plan.rank.tolist() == [1, 0, 1]
    assert plan.migrations == 2
    assert plan.strategy == "<lambda>"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 1], r"expected 3 ranks.*its shape is \(2,\)"),
        ([0.0, 1.0, 1.0], "its dtype is float64"),
        (None, "returned NoneType"),
        ([0, 1, 2], "put object 2 on rank 2: expected 0 ... 1"),
        ([0, -1, 1], "put object 1 on rank -1"),
        ([1, 1, 1], "moved object 0, which may not migrate"),
    ],
)
def test_the_error_for_a_wrong_answer_names_the_callable(answer, message):
    s = pylb.Snapshot([1.0] * 3, [0, 0, 0], n_ranks=2, migratable=[False, True, True])
    with pytest.raises(StrategyError, match=message):
        pylb.place(s, lambda snap: answer)


def test_an_error_of_a_callable_is_chained():
    def broken(snap):
        raise RuntimeError("not today")

    with pytest.raises(StrategyError, match="'broken' raised RuntimeError: not today") as caught:
        pylb.place(pylb.Snapshot([1.0], [0]), broken)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_callable_cannot_be_changed_by_what_it_gets():
    s = pylb.Snapshot([1.0, 2.0], [0, 0], n_ranks=2)

    def greedy_hands(snap):
        snap.load[:] = 7.0
        return snap.rank

    pylb.place(s, greedy_hands)
    assert s.load.tolist() == [1.0, 2.0]


# ---- snapshots -------------------------------------------------------------------------------


OUT_OF_RANGE = [
    ({"rank": [0, 5]}, r"rank\[1\] is 5: expected 0 \.\.\. 1"),
    ({"rank": [0, -1]}, r"rank\[1\] is -1"),
    ({"edges": ([0], [2], [1.0])}, r"edge_dst\[0\] is 2"),
    ({"multicasts": ([2], [0, 1], [1], [9.0])}, r"multicast_src\[0\] is 2"),
    ({"multicasts": ([0], [0, 1], [-1], [9.0])}, r"multicast_dst\[0\] is -1"),
    ({"block": [0, 1], "block_bytes": [5]}, r"block\[1\] is 1: expected -1 \(no block\)"),
    ({"block": [0, -2], "block_bytes": [5]}, r"block\[1\] is -2"),
]
WRONG = [
    ({"load": [np.nan, 1.0]}, r"load\[0\] is nan"),
    ({"load": [1.0, np.inf]}, r"load\[1\] is inf"),
    ({"load": [1.0, -1.0]}, r"load\[1\] is -1"),
    ({"load": [1.0]}, r"rank has shape \(2,\): expected \(1,\)"),
    ({"load": "ab"}, "load: expected an array of float64"),
    ({"rank": [0, 0.5]}, "rank: expected an array of int32"),
    ({"rank": [0, 2**40]}, "does not fit into 32 bits"),
    ({"n_ranks": -1}, "n_ranks is -1"),
    ({"speed": [1.0, 0.0]}, r"speed\[1\] is 0"),
    ({"speed": [1.0]}, r"speed has shape \(1,\): expected \(2,\)"),
    ({"background": [0.0, np.nan]}, r"background\[1\] is nan"),
    ({"memory": [1, -1]}, r"memory\[1\] is -1"),
    ({"nbytes": [-3, 1]}, r"nbytes\[0\] is -3"),
    ({"memory_limit": [1, -1]}, r"memory_limit\[1\] is -1"),
    ({"edges": ([0], [1], [-1.0])}, r"edge_bytes\[0\] is -1"),
    ({"edges": ([0], [1])}, r"expected \(src, dst, nbytes\[, messages\]\)"),
    ({"multicasts": ([0], [0, 2], [1], [9.0])}, r"start\[1\] is 2: expected 0"),
    ({"multicasts": ([0], [0, 1], [1, 1], [9.0])}, "expected 2, the length of multicast_dst"),
    ({"multicasts": ([0], [1, 1], [1], [9.0])}, r"start\[0\] is 1: expected 0"),
    ({"multicasts": ([0], [0], [1], [9.0])}, r"start has shape \(1,\): expected"),
    ({"multicasts": ([0], [0, 1], [1], [-9])}, r"multicast_bytes\[0\] is -9"),
    ({"multicasts": ([0], [0, 1], [1], [9.0], [np.nan])}, r"multicast_messages\[0\] is nan"),
    ({"block": [0, -1], "block_bytes": [-5]}, r"block_bytes\[0\] is -5"),
    ({"block": [0, -1]}, "expected both or neither"),
]


@pytest.mark.parametrize(
    ("error", "change", "message"),
    [(OutOfRangeError, *row) for row in OUT_OF_RANGE] + [(DomainError, *row) for row in WRONG],
)
def test_errors_name_what_is_wrong_in_a_snapshot(error, change, message):
    fields = {"load": [1.0, 1.0], "rank": [0, 1], "n_ranks": 2} | change
    with pytest.raises(error, match=message):
        pylb.Snapshot(**fields)


def test_a_callable_sees_every_array():
    arrays = {
        "load": [[1.0, 2.0], [3.0, 4.0]],
        "rank": [0, 1],
        "n_ranks": 2,
        "edges": ([0], [1], [8.0], [2.0]),
        "multicasts": ([1, 0], [0, 2, 2], [0, 1], [16.0, 0.0], [3.0, 1.0]),
        "nbytes": [1, 2],
        "memory": [3, 4],
        "migratable": [True, False],
        "key": [5, 6],
        "coords": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        "speed": [1.0, 2.0],
        "background": [0.0, 0.5],
        "memory_limit": [70, 80],
        "node": [0, 0],
        "block": [0, -1],
        "block_bytes": [9],
    }
    seen = []
    s = pylb.Snapshot(**arrays)
    pylb.place(s, lambda snap: (seen.append(snap), snap.rank)[1])
    for name in arrays:
        given, got = getattr(s, name), getattr(seen[0], name)
        for a, b in zip(given, got, strict=True) if isinstance(given, tuple) else [(given, got)]:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("changed", ["rank", "edge_src", "edge_dst", "multicast_dst"])
@pytest.mark.parametrize(
    "name", sorted(n for n, s in pylb.strategies().items() if s.library is None)
)
def test_an_array_that_changed_after_the_snapshot_was_made(name, changed):
    """The snapshot keeps the caller's arrays, so the core checks them again."""
    arrays = {
        "rank": np.zeros(6, np.int32),
        "edge_src": np.array([0, 1], np.int32),
        "edge_dst": np.array([2, 3], np.int32),
        "multicast_dst": np.array([2, 3], np.int32),
    }
    snapshot = pylb.Snapshot(
        load=np.ones(6),
        rank=arrays["rank"],
        n_ranks=3,
        edges=pylb.model.Edges(arrays["edge_src"], arrays["edge_dst"], np.ones(2)),
        multicasts=pylb.model.Multicasts(
            np.array([0], np.int32), np.array([0, 2]), arrays["multicast_dst"], np.ones(1)
        ),
    )
    shared = getattr(snapshot, changed)
    assert np.shares_memory(shared, arrays[changed])
    arrays[changed][:] = 10**6
    with pytest.raises(pylb.errors.OutOfRangeError, match="1000000"):
        pylb.place(snapshot, name)


@pytest.mark.parametrize(
    "name", sorted(n for n, s in pylb.strategies().items() if s.library is None)
)
def test_a_slow_rank_with_fixed_objects(name):
    """Two objects that may not move, on a rank of speed 1e-8: the search for a lower limit ends."""
    rng = np.random.default_rng(0)
    rank = rng.integers(0, 4, 40).astype(np.int32)
    rank[:2] = 0
    speed = np.array([1e-8, 1.0, 1.0, 1.0])
    migratable = np.arange(40) >= 2
    snapshot = pylb.Snapshot(
        load=rng.random(40), rank=rank, n_ranks=4, migratable=migratable, speed=speed,
        coords=rng.random((40, 3)),
    )  # fmt: skip
    placed = pylb.place(snapshot, name)
    assert (placed.rank[:2] == 0).all()
    assert placed.after.max <= placed.before.max


@pytest.mark.parametrize("name", ["memory", "nbytes", "block_bytes"])
def test_sums_of_bytes_that_overflow_are_refused(name):
    """If the sum overflowed, it would be negative, and seem to be within the limit."""
    most = [2**62, 2**62, 0]
    given = {"memory": [0] * 3, "memory_limit": [2**63 - 1] * 2, name: most}
    if name == "block_bytes":
        given["block"] = [0, 1, 2]
    with pytest.raises(DomainError, match=r": the sum of all objects.* is 2\^63 or more"):
        pylb.place(pylb.Snapshot([1.0, 1.0, 1.0], [0, 0, 0], n_ranks=2, **given), "GreedyLB")


@pytest.mark.parametrize("method", ["metis", "pylb", "rcb", "block"])
def test_methods_of_partition_are_strategies(method):
    rng = np.random.default_rng(3)
    src = np.arange(99)
    s = pylb.Snapshot(
        *(rng.random(100), np.arange(100) // 25),
        edges=(src, src + 1, np.ones(99, np.int64)),
        coords=rng.random((100, 3)),
    )
    same = {"seed": 3} | ({} if method == "block" else {"imbalance": 1.1})
    try:
        plan = pylb.place(s, pylb.strategy(method, **same))
    except MissingPartError as why:
        pytest.skip(str(why))
    question = {"coords": s.coords} if method in ("rcb", "block") else {}
    if not question:
        start = np.concatenate([[0], np.cumsum([1, *[2] * 98, 1])])
        to = [x for i in range(100) for x in (i - 1, i + 1) if 0 <= x < 100]
        question = {"graph": (start, np.array(to), np.ones(len(to)))}
    part = pylb.partition(
        **question, parts=4, method=method, weight=s.load, old=s.rank, approach="partition", **same
    ).part
    assert plan.rank.tolist() == part.tolist()
    assert plan.migrations > 0
    for name in ("reftree", "keep"):
        with pytest.raises(DomainError, match="expected a method that divides from scratch"):
            pylb.place(s, name)


def test_the_network_is_for_auto_and_strategies_with_costs_of_messages():
    s = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], [0, 0, 0, 1])
    assert pylb.place(s, "auto", network=(1e-3, 0.0)).after.max_over_mean == 1.0
    with pytest.raises(DomainError, match="network is given with strategy 'GreedyLB': expected"):
        pylb.place(s, "GreedyLB", network=(1e-3, 0.0))


# ---- the strategy "auto" of `pylb.place`, for snapshots with and without keys ------------------


@pytest.mark.parametrize("keys", [None, np.arange(100, 160)])
@pytest.mark.parametrize("heavy", [1.0, 50.0])
def test_auto_needs_no_keys(keys, heavy):
    load = np.ones(60)
    load[7] = heavy
    placed = pylb.place(pylb.Snapshot(load, np.zeros(60, int), n_ranks=4, key=keys), "auto")
    assert placed.after.max == max(15.0, heavy)


# ---- the exchanges that end CommAwareRefineLB and RefineCommLB (csrc/place/improve.c) ----------


def longest(snap, rank, alpha, beta):
    """Return the seconds of the slowest rank, including its messages."""
    return pylb.model.Network(alpha, beta).rank_times(snap.with_rank(rank)).max()


@st.composite
def with_messages(draw):
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
@given(with_messages(), st.sampled_from([(0.0, 0.0), (0.5, 0.125), (2.0, 0.25)]))
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


# ---- strategies, partitioners and triggers give the stored answers of golden.json --------------


KEPT = json.loads(golden.FILE.read_text())


@pytest.mark.parametrize("room", golden.ROOMS)
def test_answers_are_those_of_the_golden_file(room):
    assert golden.ROOMS[room]() == KEPT[room]


def test_the_golden_file_has_everything_of_pylb():
    own = {row.name for row in pylb.strategies().values() if not (row.library or row.call)}
    assert {name.partition(",")[0] for name in KEPT["place"]} == own
    own = {name for name, method in METHODS.items() if method.library == "pylb"}
    assert {name.partition(",")[0] for name in KEPT["partition"]} == own
    assert set(pylb.triggers()) <= KEPT["decide"].keys()


def test_the_cases_tell_strategies_apart():
    """Otherwise one strategy could be mistaken for another."""
    answers = {}
    for name, answer in KEPT["place"].items():
        answers.setdefault(name.partition(",")[0], []).append(answer)
    assert len({tuple(each) for each in answers.values()}) == len(answers)
    assert all(KEPT["decide"].values())


def test_the_steered_programs_have_every_kind_of_decision():
    told = "\n".join(line for lines in KEPT["steer"].values() for line in lines)
    for kind in ("hold", "off", "balance"):
        assert told.count(f"choice {kind}") > 3
    assert "but better estimates of the ranks' speeds show" in told
