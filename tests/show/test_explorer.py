"""The widget, with messages like those of a browser."""

import base64
import dataclasses
import json
import shutil
import time

import numpy as np
import pytest

import pylb
from pylb.errors import DomainError, PylbError
from pylb.io import record_file
from pylb.partitioning import libraries
from pylb.show import course

pytest.importorskip("anywidget")
from pylb.show import widget
from pylb.show.widget import ExplorerSettings


@pytest.fixture
def explorer():
    trace = pylb.replaying.hotspot(n_ranks=6, n_objects=60, n_phases=40, seed=3)
    out = pylb.explore(trace, strategy="GreedyLB", every=8, cost=0.01)
    out.said = []
    out.send = out.said.append
    return out


def heard(explorer, **message):
    explorer._answer_message(explorer, message, [])
    # on a busy machine, any replay may take so long that the picture says so
    return [said for said in explorer.said if said["kind"] != "computing"]


def test_it_begins_with_a_replay(explorer):
    run = explorer.trace.replay("GreedyLB", every=8, cost=0.01)
    assert explorer.replay.time == run.time
    assert explorer.answer["figures"]["seconds"] == pytest.approx(run.time)
    for name, strategy in (("recorded", "none"), ("unbalanced", "unbalanced")):
        assert explorer.answer["figures"][name] == explorer.trace.replay(strategy).time
    cells = np.frombuffer(base64.b64decode(explorer.answer["picture"]["cells"]), "<u2")
    assert cells.size == 6 * 40
    assert explorer.recorded.time == explorer.trace.replay("none").time


def test_it_opens_as_recorded_beside_the_unbalanced_run(tmp_path):
    pytest.importorskip("h5py")
    pylb.demo.run(4, 32, 60, save=tmp_path / "run.h5", every=6)
    opened = pylb.explore(tmp_path / "run.h5", cost=0.005)
    run = pylb.Trace.load(tmp_path / "run.h5").replay("none")
    assert (opened.settings["strategy"], opened.settings["cost"]) == ("none", 0.005)
    assert opened.replay.time == run.time
    assert opened.answer["figures"]["unbalanced"] == run.unbalanced.time
    names = [one["name"] for one in opened.answer["timeline"]["runs"]]
    assert names == ["without LB steps", "with LB steps"]
    assert pylb.explore(run, every=5).settings["strategy"] == "auto"


def test_the_same_settings_give_the_same_answer(tmp_path):
    pytest.importorskip("h5py")
    pylb.demo.run(4, 32, 60, save=tmp_path / "run.h5")
    shown = pylb.explore(tmp_path / "run.h5", strategy="auto", trigger="auto")
    first, settings = shown.answer["figures"], dict(shown.settings)
    for number, strategy in enumerate(("GreedyLB", "none", "auto")):
        shown.ask(ExplorerSettings.of({**settings, "strategy": strategy}), number)
    assert shown.answer["figures"] == first
    assert shown.settings == settings


def test_a_long_replay_says_that_it_computes(monkeypatch):
    monkeypatch.setattr(widget, "HEARTBEAT", 0.05)

    def slow(snapshot):
        time.sleep(0.1)
        return snapshot.rank

    pylb.register_strategy(slow, name="slow")
    shown = pylb.explore(pylb.replaying.hotspot(2, 8, 6), every=2)
    said = []
    shown.send = said.append
    settings = {"strategy": "slow", "trigger": "", "every": 2}
    shown._answer_message(shown, {"kind": "replay", "number": 1, "settings": settings}, [])
    assert {"kind": "computing"} in said
    assert shown.answer["number"] == 1


def test_strategies_whose_library_is_missing_are_marked(monkeypatch):
    monkeypatch.setattr(libraries, "available", lambda name: name != "METIS")
    shown = pylb.explore(pylb.replaying.hotspot(2, 8, 6))
    listed = {name: (text, missing) for name, text, missing in shown.choices["strategies"]}
    assert list(listed)[:3] == ["none", "unbalanced", "auto"]
    assert listed["none"] == ("as recorded", False)
    assert {name for name, (_, missing) in listed.items() if missing} == {"MetisLB"}


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
    assert said["replay"] == (message["kind"] == "replay")
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


def until(said, seconds=400.0):
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_widget_follows_a_run_until_its_end(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    monkeypatch.setattr(widget, "ENDED", 0.2)
    monkeypatch.setitem(widget.SHARE, False, 1.0)
    pylb.demo.run(3, 12, 40, every=5, save=tmp_path / "all.h5")
    run, path = pylb.RunRecord.load(tmp_path / "all.h5"), tmp_path / "run.h5"
    following = pylb.watch(path, interval=0.05)
    assert following.run == {"said": "run.h5: nothing yet", "seen": ""}
    assert "text/html" not in dict(following._repr_mimebundle_()[0])
    part = pylb.RunRecord.of(run.trace[:15])
    record_file.write(dataclasses.replace(part, loops=run.loops), tmp_path / "part.h5")
    shutil.move(tmp_path / "part.h5", path)
    until(lambda: "15 iterations of 12 objects on 3 ranks" in following.run["said"])
    assert not following.run["ended"]
    shutil.move(tmp_path / "all.h5", path)
    until(lambda: following.run.get("ended"))
    assert following.run["verdict"] == course.of(path).verdict
    until(lambda: following.ended)
    assert course.of(path).verdict in following._repr_mimebundle_()[0]["text/html"]


def test_a_widget_that_is_stopped_has_looked_once_more(tmp_path):
    pytest.importorskip("h5py")
    following = pylb.watch(tmp_path / "run.h5", interval=3600)
    pylb.demo.run(2, 8, 12, every=4, save=tmp_path / "run.h5")
    following.stop()
    assert following.ended
    assert following.run["said"].startswith("12 iterations of 8 objects on 2 ranks")
    json.dumps(following.run, allow_nan=False)  # else Jupyter warns
    with pytest.raises(DomainError, match="interval is 0"):
        pylb.watch("run.h5", interval=0)


def test_an_argument_that_is_not_a_run_is_an_error():
    with pytest.raises(DomainError, match="run is int"):
        pylb.explore(5)
    with pytest.raises(DomainError, match="no setting colour: expected one of"):
        pylb.explore(pylb.replaying.hotspot(2, 4, 2), colour="red")


# ---- settings ----


def test_settings_replay_as_asked(trace):
    asked = ExplorerSettings.of({"strategy": "GreedyLB", "trigger": "", "every": 5, "cost": 0.001})
    run, same = asked.replay(trace), trace.replay("GreedyLB", every=5, cost=0.001)
    assert run.time == same.time
    slow = ExplorerSettings.of({"strategy": "none", "rank": 2, "speed": 0.5}).replay(trace)
    times = [run.rank_times[:, 2] for run in (slow, trace.replay("none"))]
    np.testing.assert_allclose(times[0], 2 * times[1], rtol=1e-12)


@pytest.mark.parametrize("p", [1, 4, 6, 7, 60, 200])
def test_another_number_of_ranks_has_the_same_objects_evenly(trace, p):
    trace = dataclasses.replace(trace, memory_limit=np.full(6, 10**12))
    other = trace.on_ranks(p)
    assert (other.n_ranks, other.memory_limit) == (p, None)
    counts = np.bincount(other.task_rank[:60], minlength=p)
    assert counts.max() - counts.min() <= 1
    assert np.all(np.diff(other.task_rank[:60]) >= 0)  # neighbours on the ring stay together
    whole = 6 * trace.replay("none").metrics["mean"].sum()
    assert other.replay("none").metrics["mean"].sum() * p == pytest.approx(whole)
    ExplorerSettings.of({"n_ranks": p, "trigger": "", "every": 3}).replay(trace)


@pytest.mark.parametrize(
    "given",
    [
        {"no": 1},
        {"every": "x"},
        {"strategy": "NoLB"},
        {"strategy": "auto", "trigger": "never"},
        {"n_ranks": -1},
        {"speed": 0.5, "rank": 6},
        {"cost": -1.0},
        {"speed": float("nan")},
    ],
)
def test_settings_that_are_none_are_errors(trace, given):
    with pytest.raises(PylbError):
        ExplorerSettings.of(given).replay(trace)
