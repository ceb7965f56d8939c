"""Moves that would make an iteration much longer are spread over several LB steps."""

import math
from itertools import pairwise

import numpy as np
import pytest
from each_case import in_blocks
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb import _core
from pylb.decide.decider import BALANCE, settings
from pylb.errors import DomainError

PER_BYTE = 1e-8  # seconds
FIGURES = list(_core.FIGURES)


def place(snapshot, move_at_most):
    """Place by a decider that expects PER_BYTE; return the placement and its figures by name."""
    d = settings("auto", learn_speeds=False, move_at_most=move_at_most).decider(snapshot.n_ranks)
    there = np.bincount(snapshot.rank, snapshot.nbytes, snapshot.n_ranks)
    d.core.expect(100, PER_BYTE * there.max(), PER_BYTE * there.max())
    d.core.see(snapshot)
    d.choose()
    figures, speed = np.zeros(len(FIGURES)), np.zeros(snapshot.n_ranks)
    rank = np.zeros(snapshot.n_objects, np.int32)
    d.core.place(snapshot, None, None, figures, speed, rank)
    return rank, dict(zip(FIGURES, figures, strict=True))


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.05, 0.3]), st.booleans())
def test_a_slice_is_a_part_of_the_placement_that_takes_not_too_long(seed, most, limited):
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    rank, nbytes = rng.integers(0, p, n), rng.integers(0, 3_000_000, n)
    held = np.bincount(rank, nbytes, p)
    snapshot = pylb.Snapshot(
        rng.random(n) ** 3 / 10,
        rank,
        p,
        key=np.arange(n),
        nbytes=nbytes,
        memory=nbytes if limited else None,
        memory_limit=(held + held.mean()).astype(int) if limited else None,
    )
    whole, _ = place(snapshot, 1e9)
    part, figures = place(snapshot, most)
    moves = part != snapshot.rank
    assert np.array_equal(part[moves], whole[moves])
    assert figures["moves_left"] == np.sum(part != whole)
    before, after = snapshot.metrics.max, snapshot.with_rank(part).metrics
    assert figures["predicted"] == pytest.approx(after.max / after.mean if after.mean else 1.0)
    if figures["moves_left"]:
        sent = np.bincount(snapshot.rank[moves], nbytes[moves], p).max()
        one = nbytes[whole != snapshot.rank].max()
        assert sent <= one or after.max + PER_BYTE * sent <= (1 + most) * before * (1 + 1e-9)
        if limited:
            assert np.all(np.bincount(part, nbytes, p) <= snapshot.memory_limit)


def test_the_most_useful_move_is_the_first():
    """Of eight objects on rank 0, the heavy one of two sizes leaves first."""
    load = np.array([1, 1, 1, 1, 1, 1, 1, 3.0])
    snapshot = pylb.Snapshot(load, np.zeros(8, int), 2, key=range(8), nbytes=np.full(8, 10**9))
    rank, figures = place(snapshot, 0.05)
    assert rank.tolist() == [0] * 7 + [1]
    assert figures["moves_left"] == 2
    assert figures["predicted"] == 1.4


def run(tmp_path=None, **options):
    def main(comm):
        lb = pylb.Balancer(comm, **options)
        in_blocks(lb, 8 * comm.size, lambda key: np.zeros(100_000, np.uint8))
        for t in lb.iterate(30):
            for key, _ in lb.local():
                comm.elapse(0.002 * (1 + (t >= 5) * (key < 8)) + 1e-5 * ((7 * key + t) % 5))
        if tmp_path:
            lb.save(tmp_path / "run.h5")
        return lb.history

    return pylb.VirtualCluster(4, clock="none", network=(1e-6, 4e-8)).run(main)[0]


def test_slices_follow_each_other_until_nothing_is_left(tmp_path):
    history = run(tmp_path, overlap=True)
    steps = history.lb_steps
    slices = [r for r in steps if r.slice > 0]
    assert [r.slice for r in slices] == list(range(1, len(slices) + 1)), slices
    assert len(slices) > 1
    assert slices[-1].moves_left == 0
    assert [r.iteration - slices[0].iteration for r in slices] == list(range(len(slices)))
    assert all(a.moves_left - b.moves_left == b.migrations for a, b in pairwise(slices))
    assert "moved only a part" in slices[1].reason
    assert "slice 1 of the moves" in slices[0].explain()
    assert "with 0 objects still to move" in slices[-1].explain()
    again = pylb.Trace.load(tmp_path / "run.h5").replay()
    assert again.decisions == history


def test_a_slice_is_not_larger_than_what_travels_while_the_ranks_compute():
    def main(comm):
        lb = pylb.Balancer(comm, overlap=True)
        in_blocks(lb, 16 * comm.size, lambda key: np.zeros(100_000, np.uint8))  # each takes 10 ms
        for _ in lb.iterate(30):
            [comm.elapse(0.001 + 0.008 * (key < 16)) for key, _ in lb.local()]
        return lb.metrics.time

    times = pylb.VirtualCluster(4, clock="none", network=(1e-6, 1e-7)).run(main)[0]
    assert np.all(np.diff(times) < 1e-3)  # no iteration waits for moves


def test_all_slices_count_as_one_lb_step():
    """Its cost is that of all slices, with what they make iterations longer; none is judged."""
    core = settings("auto", learn_speeds=False, move_at_most=0.05).decider(2).core
    known = {"before": 1.5, "predicted": 1.2, "idle_mean": 1, "idle_max": 1}
    known |= {"predicted_idle_mean": 1, "predicted_idle_max": 1, "felt": 0.2}
    for i, left in enumerate((5.0, 2.0, 0.0)):
        core.observe(i, 2.0, 2.0, 1.0, 0.5, 2.0, 0.5, 0, 0)
        assert i == 0 or (core.goes_on and core.next(False, True) == BALANCE)
        core.choose()
        made = known | {"moves_left": left}
        core.placed(np.array([made.get(name, math.nan) for name in FIGURES]), None)
        core.balanced(3, 1000, 0.05, 0.1, True)
    assert not core.goes_on
    core.observe(3, 2.0, 2.0, 1.0, 0.5, 2.0, 0.5, 0, 0)
    assert core.next(False, True) != BALANCE
    core.choose()
    core.placed(np.array([known.get(name, math.nan) for name in FIGURES]), None)
    core.balanced(0, 0, 0.0, 0.0, True)
    *slices, last = core.receipts()
    assert [r["slice"] for r in slices] == [1, 2, 3]
    assert math.isnan(last["slice"])
    assert [r["cost"] for r in slices] == pytest.approx([0.1] * 3)
    costs = [cost for _, cost in last["alternatives"] if not math.isnan(cost)]
    assert costs == pytest.approx([3 * (0.1 + 0.2 - 0.05)])


def test_moves_that_nobody_feels_do_not_make_an_lb_step_cost_less_than_nothing():
    """The first LB step was expected to make iterations longer; three follow, two of them soon."""
    core = settings("GreedyLB", trigger="auto").decider(2).core
    core.observe(0, 2.0, 2.0, 1.0, 0.5, 2.0, 0.5, 0, 0)
    i = 0
    for felt, n in ((1.0, 6), (0.0, 1), (0.0, 1), (0.0, 6)):
        core.choose()
        known = {"before": 1.5, "predicted": 1.2, "felt": felt}
        core.placed(np.array([known.get(name, math.nan) for name in FIGURES]), None)
        core.balanced(3, 1000, 0.05, 0.1, True)
        for i in range(i + 1, i + 1 + n):  # noqa: B020
            core.observe(i, 2.0, 2.0, 1.0, 0.5, 2.0, 0.5, 0, 0)
    assert i == 14


def test_without_overlap_or_limit_all_moves_at_once():
    for options in ({"overlap": False}, {"overlap": True, "move_at_most": 1e9}):
        assert all(math.isnan(r.slice) for r in run(**options).lb_steps)
    assert all(math.isnan(r.moves_left) for r in run().lb_steps)  # virtual ranks: overlap is off


def test_bad_values_are_refused():
    for bad, words in [
        ({"move_at_most": 0}, "above 0"),
        ({"move_at_most": "5 %"}, "finite number"),
        ({"move_at_most": math.inf}, "finite number"),
    ]:
        with pytest.raises(DomainError, match=words):
            pylb.Balancer(None, **bad)
