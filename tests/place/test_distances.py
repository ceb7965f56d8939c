"""Distances: messages between two ranks of one node cost less than messages between nodes."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, FormatError
from pylb.model import Edges, Multicasts, Network

SLOW = Network(1e-4, 4e-7)  # 20 Mbit/s between the nodes
NEAR = (0.01, 0.001)
CAN_RUN = [
    name
    for name, entry in pylb.strategies().items()
    if "coords" not in entry.looks_at
    and (entry.library is None or pylb.partitioning.libraries.available(entry.library))
]
PARTITION = [
    name for name in CAN_RUN if name in ("MetisLB", "ScotchLB", "ZoltanLB", "HypergraphLB")
]
READ_COSTS = ("RefineCommLB", "CommAwareRefineLB", "CCMLB")


def ring(n=128, k=2, p=8, nodes=2, nbytes=8192, start="random", seed=1):
    """The ring of kNeighbor: half of the objects have four times the load."""
    rng = np.random.default_rng(seed)
    src = np.repeat(np.arange(n), 2 * k)
    dst = (src + np.tile([d for i in range(1, k + 1) for d in (-i, i)], n)) % n
    rank = np.arange(n) * p // n if start == "blocks" else rng.permutation(np.arange(n) * p // n)
    return pylb.Snapshot(
        np.where(np.arange(n) < n // 2, 4e-2, 1e-2),
        rank,
        n_ranks=p,
        edges=Edges(src, dst, np.full(n * 2 * k, float(nbytes))),
        node=np.arange(p) * nodes // p,
        near=NEAR,
        nbytes=np.full(n, 8000),
    )


@st.composite
def snapshots(draw, most=9):
    """Objects with edges and perhaps multicasts, on 2 to 5 ranks of 1 to 3 nodes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, p = int(rng.integers(1, most + 1)), int(rng.integers(2, 6))
    m = int(rng.integers(0, 3 * n))
    casts = None
    if rng.random() < 0.5:
        start = np.cumsum([0, *rng.integers(1, 4, 3)])
        casts = Multicasts(
            rng.integers(n, size=3), start, rng.integers(n, size=start[-1]), rng.random(3)
        )
    return pylb.Snapshot(
        rng.integers(1, 9, n) / 8,
        rng.integers(p, size=n),
        n_ranks=p,
        edges=Edges(*rng.integers(n, size=(2, m)), rng.random(m)),
        multicasts=casts,
        node=rng.integers(1, 4, p) * 7,
        near=rng.random(2),
        speed=rng.choice([1.0, 2.0], p),
    )


@examples(200)
@given(snapshots(), st.floats(0, 1), st.floats(0, 1))
def test_the_time_of_an_iteration(snap, alpha, beta):
    twin = rank_times(snap, snap.rank, alpha, beta)
    assert np.allclose(Network(alpha, beta).rank_times(snap), twin, rtol=1e-12)


@examples(60)
@given(snapshots(), st.sampled_from(READ_COSTS))
def test_no_strategy_makes_an_iteration_longer(snap, name):
    alpha, beta = 0.05, 0.4
    new = pylb.place(snap, name, alpha=alpha, beta=beta).rank
    before, after = (max(rank_times(snap, rank, alpha, beta)) for rank in (snap.rank, new))
    # CCMLB counts an edge to each receiver of a multicast
    assert snap.multicasts is not None or after <= before * (1 + 1e-9)


def test_the_search_is_close_to_the_best_placement():
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        snap = pylb.Snapshot(
            rng.integers(1, 9, 6) / 8,
            rng.integers(4, size=6),
            n_ranks=4,
            edges=Edges(*rng.integers(6, size=(2, 12)), rng.random(12)),
            node=[0, 0, 1, 1],
            near=(0.2, 0.1),
        )
        net = Network(0.1, 0.4)
        best = min(
            net.rank_times(snap.with_rank(ranks)).max()
            for ranks in itertools.product(range(4), repeat=6)
        )
        plan = pylb.place(snap, "CCMLB", alpha=net.alpha, beta=net.beta)
        ratios.append(net.rank_times(snap.with_rank(plan.rank)).max() / best)
    assert np.mean(ratios) < 1.02
    assert max(ratios) < 1.15


@pytest.mark.parametrize("name", [name for name in CAN_RUN if name != "HierarchicalLB"])
def test_ranks_on_nodes_of_their_own_change_nothing(name):
    snap = ring()
    plain = pylb.place(replace(snap, near=None), name).rank
    assert np.array_equal(pylb.place(replace(snap, node=np.arange(8)), name).rank, plain)


@pytest.mark.parametrize("name", [*READ_COSTS, *PARTITION])
def test_objects_that_communicate_stay_on_one_node(name):
    snap = ring(start="blocks")
    costs = SLOW._asdict() if name in READ_COSTS else {}
    one = pylb.evaluate(snap, pylb.place(replace(snap, near=None), name, **costs).rank)
    plan = pylb.place(snap, name, **costs)
    two = pylb.evaluate(snap, plan.rank)
    assert two.bytes_network < 0.75 * one.bytes_network
    assert plan.after.max_over_mean < 1.1


@pytest.mark.parametrize("node", [np.arange(8) // 4, np.arange(8) % 2, np.arange(8) % 4])
@pytest.mark.parametrize("scale", [30.0, 3.0])  # 3: the rule asks for load alone
def test_auto_compares_strategies_in_the_cost_model(node, scale):
    snap, net = replace(ring(start="blocks"), node=node), Network(*(scale * x for x in SLOW))
    costs = net._asdict()
    plans = [pylb.place(snap, name) for name in PARTITION]
    plans += [pylb.place(snap, "RefineCommLB", **costs), pylb.place(snap, "auto", network=net)]
    plans += [pylb.place(replace(snap, near=None), "auto", network=net)]
    *others, auto, one = (net.rank_times(snap.with_rank(plan.rank)).max() for plan in plans)
    assert auto <= min(others) * (1 + 1e-9) < one
    assert f"; with distances, {plans[-2].strategy} is the fastest of" in plans[-2].why
    assert "fastest" not in plans[-1].why


def test_a_refinement_that_is_worse_than_the_first_one_is_not_used():
    trace = pylb.Trace.from_snapshots([replace(ring(), node=np.arange(8) % 2)] * 16)
    run = trace.replay("auto", every=2, network=Network(*(10 * x for x in SLOW)), cost=0.0)
    assert (np.diff(run.iteration_time) <= 1e-9 * run.iteration_time[:-1]).all()
    steps = [(r.strategy, r.compared) for r in run.decisions.lb_steps]
    assert steps[0][1] >= len(PARTITION)
    assert steps[1:5] == [
        ("RefineCommLB", 1.0),
        ("CommAwareRefineLB", 2.0),
        ("CCMLB", 2.0),
        ("RefineCommLB", 2.0),  # not ScotchRefineLB
    ]


@pytest.mark.parametrize("name", ["RefineCommLB", "auto", "HypergraphLB"])
def test_a_machine_stands_for_alpha_beta_and_near(name, tmp_path):
    snap, tree = ring(), pylb.Machine.parse("node:2 rank:4")
    diagonal, other = np.eye(2, dtype=bool), SLOW
    alpha, beta = (np.where(diagonal, near * x, x) for near, x in zip(NEAR, other, strict=True))
    machine = pylb.Machine(tree.root, alpha=alpha, beta=beta)
    assert np.allclose(machine.between, SLOW)
    assert np.allclose(machine.near, NEAR)
    file = tmp_path / "machine.json"
    machine.save(file)
    bare = replace(snap, near=None, node=None)
    given_ = dict(zip(("alpha", "beta"), machine.between, strict=True))
    same = replace(snap, near=machine.near)
    wanted = (
        pylb.place(same, name, network=machine.between)
        if name == "auto"
        else pylb.place(same, name, **(given_ if name == "RefineCommLB" else {}))
    ).rank
    for network in (machine, file, str(file)):
        assert np.array_equal(pylb.place(bare, name, network=network).rank, wanted)


def test_bad_input(tmp_path):
    snap = ring()
    for near, message in [
        ((0.5, 1.5), r"near\[1\] is 1.5: expected a fraction"),
        ((-0.5, 0.5), r"near\[0\] is -0.5"),
        ((np.nan, 0.5), r"near\[0\] is -?nan"),
        ((0.5,), r"near has shape \(1,\): expected \(2,\)"),
    ]:
        with pytest.raises(DomainError, match=message):
            replace(snap, near=near)
    with pytest.raises(DomainError, match="near is given without node"):
        replace(snap, node=None)
    with pytest.raises(DomainError, match="a machine with 6 ranks: expected one with 8"):
        pylb.place(snap, "auto", network=_known(pylb.Machine.parse("node:2 rank:3")))
    with pytest.raises(DomainError, match="alpha or beta of the machine is not known"):
        pylb.place(snap, "auto", network=pylb.Machine.parse("node:2 rank:4"))
    with pytest.raises(DomainError, match="expected 'auto' or a strategy that reads"):
        pylb.place(snap, "GreedyLB", network=SLOW)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(FormatError):
        pylb.place(snap, "auto", network=tmp_path / "bad.json")


def _known(machine):
    m = len(machine.nodes)
    return pylb.Machine(machine.root, alpha=np.full((m, m), 1e-6), beta=np.full((m, m), 1e-9))


# ---- recorded runs -----------------------------------------------------------------------------


def test_replay_counts_distances_and_places_by_them():
    snap = ring(start="blocks")
    trace = pylb.Trace.from_snapshots([snap] * 6)
    assert np.array_equal(trace[3].node, snap.node)
    assert np.array_equal(trace[3].near, snap.near)
    run = trace.replay("none", alpha=SLOW.alpha, beta=SLOW.beta)
    twin = max(rank_times(snap, snap.rank, *SLOW))
    assert np.allclose(run.iteration_time, twin)
    same = trace.replay("none", network=SLOW)
    assert np.array_equal(same.iteration_time, run.iteration_time)
    near = _known(pylb.Machine.parse("node:2 rank:4"))
    assert np.allclose(
        trace.replay("none", network=near).iteration_time,
        Network(1e-6, 1e-9).rank_times(replace(snap, near=None)).max(),
    )
    with pytest.raises(DomainError, match="network is given with alpha or beta"):
        trace.replay("none", network=SLOW, alpha=1e-6)
    trace = pylb.Trace.from_snapshots([snap] * 8)
    run = trace.replay("RefineCommLB", every=2, alpha=SLOW.alpha, beta=SLOW.beta, cost=0.0)
    plain = pylb.Trace.from_snapshots([replace(snap, near=None)] * 8)
    one = plain.replay("RefineCommLB", every=2, network=SLOW, cost=0.0)
    last = slice(int(trace.task_ptr[-2]), None)
    two, other = (pylb.evaluate(snap, r.rank[last]).bytes_network for r in (run, one))
    assert two < 0.75 * other


# ---- the time of an iteration with two alphas and betas, written plainly -----------------------


def rank_times(snapshot, rank, alpha, beta):
    """Return the seconds of each rank; `rank` is that of each object."""
    speed = [1.0] * snapshot.n_ranks if snapshot.speed is None else snapshot.speed
    time = [0.0] * snapshot.n_ranks
    for i, load in enumerate(snapshot.load):
        time[rank[i]] += load / speed[rank[i]]

    def send(a, b, nbytes):
        if a == b:
            return
        near = snapshot.near is not None and snapshot.node[a] == snapshot.node[b]
        of_alpha, of_beta = snapshot.near if near else (1.0, 1.0)
        time[a] += of_alpha * alpha + of_beta * beta * nbytes

    for src, dst, nbytes in zip(
        snapshot.edge_src, snapshot.edge_dst, snapshot.edge_bytes, strict=True
    ):
        send(rank[src], rank[dst], nbytes)
    if snapshot.multicasts is not None:
        many = snapshot.multicasts
        for e, src in enumerate(many.src):
            to = {rank[i] for i in many.dst[many.start[e] : many.start[e + 1]]}
            for r in sorted(to):
                send(rank[src], r, many.nbytes[e])
    return time
