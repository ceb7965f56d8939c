"""``pylb replay``."""

import json

import numpy as np
import pytest

import pylb
from pylb.cli import main as cli


@pytest.fixture(scope="module")
def folder(data):
    return str(data / "nolb-8color-16nodes-data")


@pytest.fixture(scope="module")
def one_phase(data):
    return str(data / "synthetic-blocks")


def rows_of(capsys, *words):
    assert cli.main(["replay", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_one_row_for_each_strategy_and_trigger_none_once(folder, capsys):
    words = "--strategy GreedyLB,RefineLB,none --every 1,5 --trigger metabalancer --cost 0.001"
    found = rows_of(capsys, folder, *words.split())
    assert [(r["strategy"], r["trigger"]) for r in found["rows"]] == [
        ("GreedyLB", "every 1"),
        ("GreedyLB", "every 5"),
        ("GreedyLB", "metabalancer"),
        ("RefineLB", "every 1"),
        ("RefineLB", "every 5"),
        ("RefineLB", "metabalancer"),
        ("none", None),
    ]
    assert (found["iterations"], found["n_ranks"], found["n_objects"]) == (10, 32, 480)


def test_figures_agree_with_the_library(folder, capsys):
    words = ["--every", "5", "--cost", "0.01", "--alpha", "1e-5", "--beta", "1e-9"]
    found = rows_of(capsys, folder, "--strategy", "GreedyLB", *words)
    trace = pylb.Trace.load(folder)
    options = {"cost": 0.01, "alpha": 1e-5, "beta": 1e-9}
    run = trace.replay("GreedyLB", every=5, **options)
    assert len(run.lb_steps) == 1  # no LB step after the last phase
    assert found["rows"] == [
        {
            "strategy": "GreedyLB",
            "trigger": "every 5",
            "seconds": run.time,
            "iteration_seconds": run.iteration_seconds,
            "lb_seconds": 0.01,
            "speedup": trace.replay("unbalanced", **options).time / run.time,
            "max_over_mean": pytest.approx(run.metrics["max"].sum() / run.metrics["mean"].sum()),
            "lending_saved": run.lending_saved,
            "max_over_mean_predicted": pytest.approx(np.mean([d.predicted for d in run.decisions])),
            "n_lb_steps": 1,
            "migrations": run.decisions[0].migrations,
            "nbytes": None,  # these files of vt contain no sizes of objects
        }
    ]
    assert found["options"] == {**options, "foresight": False, "seed": 0}


def test_strategies_and_triggers_with_parameters(folder, capsys):
    strategies = "RefineLB,RefineLB overload=1.5"
    triggers = "periodic every=3,threshold threshold=1.1"
    words = ["--strategy", strategies, "--trigger", triggers, "--cost", "0.01"]
    rows = rows_of(capsys, folder, *words)["rows"]
    trace = pylb.Trace.load(folder)
    runs = [
        trace.replay(strategy, trigger=trigger, cost=0.01)
        for strategy in ("RefineLB", pylb.strategy("RefineLB", overload=1.5))
        for trigger in (pylb.trigger("periodic", every=3), pylb.trigger("threshold", threshold=1.1))
    ]
    assert [(r["strategy"], r["trigger"]) for r in rows] == [
        (s, t) for s in strategies.split(",") for t in triggers.split(",")
    ]
    assert [r["seconds"] for r in rows] == [run.time for run in runs]
    assert len({r["migrations"] for r in rows}) > 1
    for word, text, says in [
        ("--strategy", "RefineLB overlod=2", "expected overload; did you mean overload?"),
        ("--strategy", "RefineLB overload", "expected a name, and NAME=VALUE"),
        ("--trigger", "periodic every=x", "every is 'x': expected 1 ..."),
        ("--strategy", "none overload=2", "none has no parameter 'overload'"),
    ]:
        assert cli.main(["replay", folder, word, text]) == 2
        assert says in capsys.readouterr().err


def test_the_table_has_the_same_rows(folder, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert cli.main(["replay", folder, "--strategy", "GreedyLB,none", "--every", "5"]) == 0
    title, head, rule, greedy, none, *notes = capsys.readouterr().out.splitlines()
    assert title == f"{folder}: 10 iterations on 32 ranks"
    assert head.split()[:2] == ["strategy", "balance"]
    assert set(rule) == {"-", " "}
    assert greedy.split()[:3] == ["GreedyLB", "every", "5"]
    assert none.startswith("as recorded ")
    assert head.split()[-1] == "migrations"
    monkeypatch.setenv("COLUMNS", "80")  # then the table leaves out columns
    assert cli.main(["replay", folder, "--strategy", "GreedyLB,none", "--every", "5"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[1:])) <= 80
    for note in ("LBs: number of LB steps", "migrations: how often an object changed its rank"):
        assert note in " ".join(notes)


def test_default_is_every_phase_and_a_trigger_replaces_it(folder, capsys):
    rows = rows_of(capsys, folder)["rows"]
    assert [(r["strategy"], r["trigger"]) for r in rows] == [
        ("unbalanced", None),
        ("auto", "auto"),
        ("GreedyLB", "every 1"),
        ("RefineLB", "every 1"),
    ]
    assert rows[0]["speedup"] == 1.0
    rows = rows_of(capsys, folder, "--strategy", "none,auto", "--every", "4")["rows"]
    assert [(r["strategy"], r["trigger"]) for r in rows] == [("none", None), ("auto", "every 4")]
    rows = rows_of(capsys, folder, "--strategy", "GreedyLB", "--trigger", "metabalancer")["rows"]
    assert [r["trigger"] for r in rows] == ["metabalancer"]


def test_a_run_of_one_phase_has_no_lb_step_and_a_note_says_so(one_phase, capsys):
    words = "--stem synthetic-dataset-blocks --strategy GreedyLB --json".split()
    assert cli.main(["replay", one_phase, *words]) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)["rows"]
    assert "--foresight" in err
    assert (row["n_lb_steps"], row["speedup"], row["max_over_mean_predicted"]) == (0, 1.0, None)
    assert cli.main(["replay", one_phase, *words, "--foresight", "--cost", "0"]) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)["rows"]
    assert err == ""
    assert (row["n_lb_steps"], row["speedup"], row["max_over_mean"]) == (1, 2.0, 1.0)


def test_several_runs_in_a_folder_are_listed_on_stderr(one_phase, capsys):
    assert cli.main(["replay", one_phase, "--json", "--foresight"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["iterations"] == 1
    assert err.startswith("pylb: ")
    assert "synthetic-dataset-blocks-alpha0" in err


def test_unbalanced_shows_what_rebalancing_has_saved(folder, capsys):
    rows = rows_of(capsys, folder, "--unbalanced")["rows"]
    assert [row["strategy"] for row in rows] == ["none", "unbalanced"]
    rows = rows_of(capsys, folder, "--unbalanced", "--strategy", "GreedyLB,none")["rows"]
    assert [row["strategy"] for row in rows] == ["none", "unbalanced", "GreedyLB"]
    assert cli.main(["replay", folder, "--unbalanced"]) == 0
    shown = capsys.readouterr().out
    assert "as recorded" in shown
    assert "none" not in shown
