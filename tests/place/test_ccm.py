"""CCMLB against all placements of small snapshots, and the rules it keeps."""

import dataclasses
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, InfeasibleError, OutOfRangeError

COSTS = {"alpha": 0.0, "beta": 0.1, "gamma": 0.02, "delta": 0.05}


def work(snap, ranks, alpha, beta, gamma, delta):
    """Return the work of each rank, (m, p), and its bytes, in each of m placements, (m, n)."""
    ranks = np.atleast_2d(ranks)
    m, p = len(ranks), snap.n_ranks
    out, used = np.zeros((m, p)), np.zeros((m, p))
    src, dst, nbytes, _ = snap.edges
    for r in range(p):
        here = ranks == r
        speed = 1.0 if snap.speed is None else snap.speed[r]
        out[:, r] = here @ snap.load / speed
        out[:, r] += 0.0 if snap.background is None else snap.background[r]
        sends, stays = here[:, src], here[:, src] & here[:, dst]
        out[:, r] += (sends & ~stays) @ (alpha + beta * nbytes) + stays @ (gamma * nbytes)
        used[:, r] = here @ (0 * snap.load if snap.memory is None else snap.memory)
        for b, size in enumerate(() if snap.block is None else snap.block_bytes):
            has = here[:, snap.block == b].any(axis=1)
            used[:, r] += has * size
            if snap.home is not None and snap.home[b] != r:
                out[:, r] += has * (delta * size)
    return out, used


def best(snap, **costs):
    """Return the smallest possible work of the slowest rank; inf: the limits cannot be kept."""
    n, p = snap.n_objects, snap.n_ranks
    ranks = np.array(list(itertools.product(range(p), repeat=n)), np.int8)
    out, used = work(snap, ranks, **costs)
    fits = (used <= snap.memory_limit).all(axis=1)
    return np.where(fits, out.max(axis=1), np.inf).min()


def random_snapshot(seed, n=9):
    rng = np.random.default_rng(seed)
    p, m = int(rng.integers(3, 5)), 12
    memory, sizes = rng.integers(1, 4, n), rng.integers(4, 12, 3)
    most = rng.choice([1.05, 1.3, 3.0]) * (memory.sum() + sizes.sum()) / p
    edges = (*rng.integers(n, size=(2, m)), rng.integers(1, 20, m).astype(float))
    return pylb.Snapshot(
        rng.integers(1, 20, n) / 2, rng.integers(p, size=n), n_ranks=p, edges=edges, memory=memory,
        block=rng.integers(-1, 3, n), block_bytes=sizes, home=rng.integers(p, size=3),
        memory_limit=np.full(p, max(int(most), int(sizes.max()) + 3)),
    )  # fmt: skip


def ratio(seed):
    """Return the work of CCMLB's slowest rank over the smallest possible one; 1 if neither fits."""
    snap = random_snapshot(seed)
    least = best(snap, **COSTS)
    try:
        plan = pylb.place(snap, pylb.strategy("CCMLB", **COSTS))
    except InfeasibleError:
        return 1.0 if least == np.inf else np.inf
    out, used = work(snap, plan.rank, **COSTS)
    assert np.all(used <= snap.memory_limit)
    return out.max() / least


def test_small_snapshots_are_placed_nearly_as_well_as_possible():
    """Nine objects on three or four ranks, three blocks, tight and loose limits."""
    ratios = np.array([ratio(seed) for seed in range(5)])
    assert np.mean(ratios < 1 + 1e-9) >= 0.95
    assert ratios.max() <= 1.05


def test_the_limits_decide_over_the_present_placement():
    """Objects of a block go together where memory is short; the present placement exceeds it."""
    block = np.arange(20) % 2
    snap = pylb.Snapshot(
        np.ones(20), np.zeros(20, int), n_ranks=2, memory=np.ones(20, int), block=block,
        block_bytes=[100, 100], home=[1, 0], memory_limit=[112, 112],
    )  # fmt: skip
    plan = pylb.place(snap, pylb.strategy("CCMLB", delta=0.01))
    assert plan.rank.tolist() == (1 - block).tolist()  # each block at home
    tight = dataclasses.replace(snap, memory_limit=[109, 109])
    with pytest.raises(InfeasibleError, match="more than any rank has left"):
        pylb.place(tight, "CCMLB")


def test_each_part_of_the_model_has_its_effect():
    """Two pairs of objects that communicate, each with a block: only one part counts each time."""
    snap = pylb.Snapshot(
        np.ones(4), [0, 1, 0, 1], n_ranks=2, edges=([0, 2], [1, 3], [8.0, 8.0]),
        block=[0, 0, 1, 1], block_bytes=[4, 4], home=[1, 0],
    )  # fmt: skip
    together = pylb.place(snap, pylb.strategy("CCMLB", beta=1.0)).rank
    assert together[0] == together[1] != together[2] == together[3]
    at_home = pylb.place(snap, pylb.strategy("CCMLB", beta=0.0, delta=1.0)).rank
    assert at_home.tolist() == [1, 1, 0, 0]
    apart = pylb.place(snap, pylb.strategy("CCMLB", beta=0.0, gamma=1.0))
    assert apart.migrations == 0


def test_a_block_at_home_may_be_worth_a_longer_sum_of_loads():
    snap = pylb.Snapshot(
        np.ones(4), [0, 0, 1, 1], n_ranks=2, block=[-1, 0, 0, -1], block_bytes=[4], home=[1],
        migratable=[False, True, True, False],
    )  # fmt: skip
    plan = pylb.place(snap, pylb.strategy("CCMLB", beta=0.0, delta=1.0))
    assert plan.rank.tolist() == [0, 1, 1, 1]  # 1 and 3 s; before, 2 + 4 s and 2 s
    assert plan.after.max > plan.before.max


def test_a_home_needs_blocks_and_a_rank():
    with pytest.raises(DomainError, match="home is given without block"):
        pylb.Snapshot([1.0], [0], home=[0])
    with pytest.raises(OutOfRangeError, match=r"home\[0\] is 3"):
        pylb.Snapshot([1.0], [0], block=[0], block_bytes=[1], home=[3])


def test_the_synthetic_blocks_of_vt_are_placed_best():
    """Nine tasks on four ranks, with the blocks, homes and messages of the files."""
    files = Path(os.environ.get("PYLB_DATA", "../shared/data")) / "synthetic-blocks"
    if not files.is_dir():
        pytest.skip(f"{files} is missing")
    phases = [
        json.loads((files / f"synthetic-dataset-blocks.{r}.json").read_text())["phases"][0]
        for r in range(4)
    ]
    tasks = sorted((t for x in phases for t in x["tasks"]), key=lambda t: t["entity"]["seq_id"])
    told = [t["user_defined"] for t in tasks]
    sends = [c for x in phases for c in x.get("communications", ())]
    blocks = {t["shared_id"]: (t["shared_bytes"], t["home_rank"]) for t in told}
    numbers = sorted(blocks)
    sizes, home = zip(*(blocks[b] for b in numbers), strict=True)
    snap = pylb.Snapshot(
        [t["time"] for t in tasks], [t["node"] for t in tasks], n_ranks=4,
        edges=(
            [c["from"]["seq_id"] for c in sends], [c["to"]["seq_id"] for c in sends],
            [c["bytes"] for c in sends],
        ),
        block=[numbers.index(t["shared_id"]) for t in told], block_bytes=np.array(sizes, int),
        home=home, memory=np.zeros(len(tasks), int), memory_limit=[20] * 4,
    )  # fmt: skip
    for beta, gamma, delta in ((1.0, 0.0, 0.0), (0.2, 0.05, 0.01)):
        costs = {"alpha": 0.0, "beta": beta, "gamma": gamma, "delta": delta}
        plan = pylb.place(snap, pylb.strategy("CCMLB", **costs))
        assert work(snap, plan.rank, **costs)[0].max() == pytest.approx(best(snap, **costs))


@examples(60)
@given(st.integers(0, 2**32))
def test_a_placement_is_never_worse_than_the_present_one(seed):
    snap = random_snapshot(seed, n=20)
    before, used = work(snap, snap.rank, **COSTS)
    try:
        plan = pylb.place(snap, pylb.strategy("CCMLB", **COSTS))
    except InfeasibleError:
        assert np.any(used > snap.memory_limit)
        return
    after, used_after = work(snap, plan.rank, **COSTS)
    assert np.all(used_after <= snap.memory_limit)
    assert np.any(used > snap.memory_limit) or after.max() <= before.max() * (1 + 1e-9)
