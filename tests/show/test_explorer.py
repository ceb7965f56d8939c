"""The widget, with messages like those of a browser."""

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError

pytest.importorskip("anywidget")


@pytest.fixture
def explorer():
    trace = pylb.replaying.hotspot(n_ranks=6, n_objects=60, n_phases=40, seed=3)
    out = pylb.explore(trace, strategy="GreedyLB", every=8, cost=0.01)
    out.said = []
    out.send = out.said.append
    return out


def heard(explorer, **message):
    explorer._answer_message(explorer, message, [])
    return explorer.said


def test_it_begins_with_a_replay(explorer):
    run = explorer.trace.replay("GreedyLB", every=8, cost=0.01)
    assert explorer.replay.time == run.time
    assert explorer.answer["figures"]["seconds"] == pytest.approx(run.time)
    faster = run.speedup_over(explorer.trace.replay("none"))
    assert explorer.answer["figures"]["speedup"] == pytest.approx(faster)
    cells = np.frombuffer(explorer.answer["picture"]["cells"], "<u2")
    assert cells.size == 6 * 40
    assert explorer.recorded.time == explorer.trace.replay("none").time


def test_an_answer_has_the_number_of_the_question(explorer):
    heard(explorer, kind="replay", number=7, settings={"strategy": "none", "n_ranks": 3})
    assert explorer.answer["number"] == 7
    assert explorer.replay.trace.n_ranks == 3
    assert explorer.recorded.trace.n_ranks == 3
    assert heard(explorer, kind="hello") == [{"kind": "hello"}]


def test_it_tells_a_receipt(explorer):
    ((told,),) = ([m["told"] for m in heard(explorer, kind="receipt", index=1)],)
    assert told["said"] == explorer.replay.decisions[1].explain()
    assert told["iteration"] == 15


@pytest.mark.parametrize(
    "message",
    [
        {"kind": "replay", "number": 1, "settings": {"strategy": "<script>"}},
        {"kind": "replay", "number": 1, "settings": {"n_ranks": 10**9}},
        {"kind": "replay", "number": 1, "settings": {"n_ranks": float("inf")}},
        {"kind": "replay", "number": float("inf"), "settings": {}},
        {"kind": "objects", "iteration": float("inf")},
        {"kind": "replay", "number": 1, "settings": 5},
        {"kind": "replay"},
        {"kind": "receipt", "index": 99},
        {"kind": "receipt", "index": "x"},
    ],
)
def test_a_wrong_message_gives_an_error_and_changes_nothing(explorer, message):
    before = explorer.answer
    (said,) = heard(explorer, **message)
    assert said["kind"] == "error"
    assert explorer.answer is before


def test_unknown_messages_are_ignored(explorer):
    explorer._answer_message(explorer, "hello", [])
    explorer._answer_message(explorer, {"kind": "other"}, [])
    assert explorer.said == []


def test_a_viewer_without_widgets_shows_the_last_picture(explorer):
    bundle = explorer._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "data:image/png;base64" in data["text/html"]
    assert "without a kernel it cannot replay" in data["text/html"]
    assert "<script" not in data["text/html"]


def test_a_record_brings_the_cost_of_its_lb_steps(tmp_path):
    pytest.importorskip("h5py")
    pylb.demo.run(2, 8, 12, save=tmp_path / "run.h5", every=4)
    costs = [r.cost for r in pylb.RunRecord.load(tmp_path / "run.h5").history.lb_steps]
    assert pylb.explore(tmp_path / "run.h5").settings["cost"] == pytest.approx(np.mean(costs))


def test_an_argument_that_is_not_a_run_is_an_error():
    with pytest.raises(DomainError, match="run is int"):
        pylb.explore(5)
    with pytest.raises(DomainError, match="no setting colour: expected one of"):
        pylb.explore(pylb.replaying.hotspot(2, 4, 2), colour="red")
