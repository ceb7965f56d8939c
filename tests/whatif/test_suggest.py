"""The search for placements: compared with all placements, on other machines, with procedures."""

from itertools import product

import numpy as np
import pytest
from whatif_programs import spa

import pylb
from pylb.errors import DomainError
from pylb.prediction import suggestion
from pylb.prediction.recorder.layout import Collective
from pylb.prediction.recorder.recording import Recording

MS = 1_000_000
FREE = {"network": (0.0, 0.0), "overhead": 0.0}


def steps(work, n=5, nbytes=0):
    """Return ranks that compute, pass a message around a ring, and meet in a barrier."""
    p = len(work)
    ops = [
        [
            one
            for _ in range(n)
            for one in (
                {"kind": "ISEND", "peer": (r + 1) % p, "bytes": nbytes, "compute": int(w * MS)},
                {"kind": "RECV", "peer": (r - 1) % p, "bytes": nbytes},
                {"kind": "WAIT"},
                {"kind": "COLL", "what": Collective.ALLREDUCE, "tag": r},
            )
        ]
        + [{"kind": "END"}]
        for r, w in enumerate(work)
    ]
    return Recording.of(ops)


@pytest.mark.parametrize("speed", [(1.0, 1.0, 1.0), (1.0, 0.5, 2.0)])
def test_as_good_as_the_best_there_is(speed):
    run = steps(np.random.default_rng(4).uniform(1, 30, 6))
    found = pylb.prediction.suggest(run, placement=[0] * 6, speed=speed, **FREE)
    every = [
        pylb.whatif(run, placement=at, speed=speed, **FREE).time
        for at in product(range(3), repeat=6)
    ]
    assert found[0].time == pytest.approx(min(every), rel=0.02)
    assert [one.time for one in found] == sorted(one.time for one in found)
    for one in found:
        assert pylb.whatif(run, placement=one.placement, speed=speed, **FREE).time == one.time
        assert "the busiest processor computes" in one.reason


def test_the_reason_says_how_the_placement_was_found(monkeypatch):
    run = steps([5, 5])
    for strategies, how in (["GreedyLB"], "GreedyLB"), ([], "step by step"):
        monkeypatch.setattr(suggestion, "STRATEGIES", strategies)
        found = pylb.prediction.suggest(run, placement=[0, 0], speed=[1.0, 1.0], best=1, **FREE)
        assert found[0].reason.startswith(f"1 rank moved ({how}): the busiest processor")


def test_nothing_to_save():
    assert pylb.prediction.suggest(steps([5, 5]), placement=[0, 1], speed=[1.0, 1.0], **FREE) == []


def test_messages_between_nodes_are_told():
    ops = [
        [
            {"kind": "ISEND", "peer": r ^ 1, "bytes": 1_000_000, "compute": 5 * MS},
            {"kind": "RECV", "peer": r ^ 1, "bytes": 1_000_000},
            {"kind": "WAIT"},
            {"kind": "END"},
        ]
        for r in range(4)
    ]
    run = Recording.of(ops)
    machine = {"node": [0, 0, 1, 1], "speed": [1.0] * 4}
    slow = {"network": ([[0, 1e-3], [1e-3, 0]], [[0, 1e-8], [1e-8, 0]])}
    found = pylb.prediction.suggest(run, placement=[0, 2, 1, 3], **machine, **slow)
    assert "0 bytes go between nodes instead of 4,000,000" in found[0].reason
    assert found[0].saves > 0


def test_a_procedure_that_should_move():
    run = spa(one=5.4, two=7.3, own=(1.0, 13.0, 13.0), server_work=3.4)
    found = pylb.prediction.suggest(run, placement=range(4), speed=[1.0] * 4, best=9, **FREE)
    assert found[0].procedure == "servBusy2"
    assert found[0].placement is None
    assert str(found[0]).startswith("20.")


def test_the_warnings_of_the_present_placement_are_shown_once():
    run = steps([5, 5])
    run.warnings.append("not simulated: MPI_Fetch")
    with pytest.warns(UserWarning, match="not simulated") as said:
        pylb.prediction.suggest(run, placement=[0, 0], speed=[1.0, 1.0], **FREE)
    assert [(one.filename, str(one.message)) for one in said] == [(__file__, run.warnings[0])]


def test_a_thousand_ranks():
    rng = np.random.default_rng(1)
    run = steps(rng.lognormal(0, 1, 1000), n=2, nbytes=100)
    start = np.arange(1000) // 16
    now = pylb.whatif(run, placement=start).time
    found = pylb.prediction.suggest(run, placement=start, tries=5)
    assert found[0].time < 0.7 * now


def test_bad_input():
    with pytest.raises(DomainError, match="best is 0"):
        pylb.prediction.suggest(steps([1, 1]), placement=[0, 0], best=0)
    with pytest.raises(DomainError, match="placement has 1 entries"):
        pylb.prediction.suggest(steps([1, 1]), placement=[0])
