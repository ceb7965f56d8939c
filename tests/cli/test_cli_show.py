"""``pylb demo``, ``report``, ``triggers``, ``optimum``, ``convert``, ``watch``, ``completion``."""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb.cli import main as cli
from pylb.errors import DomainError
from pylb.partitioning import libraries
from pylb.show import course

pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    pylb.demo.run(4, 32, 40, save=out / "run.h5", every=10)
    return out


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Change to a temporary folder, where results without a path are then written."""
    monkeypatch.chdir(tmp_path)


def printed(capsys, *words):
    assert cli.main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def answer(capsys, *words):
    return json.loads(printed(capsys, *words, "--json"))


def test_demo_says_what_rebalancing_saved(capsys, tmp_path):
    words = ("demo", "--ranks", 4, "--objects", 32, "--iterations", 20, "--every", 5)
    found = answer(capsys, *words, "--save", tmp_path / "run.h5", "--html", tmp_path / "run.html")
    assert (found["n_ranks"], found["n_objects"], found["iterations"]) == (4, 32, 20)
    assert found["unbalanced_seconds"] > found["iteration_seconds"] + found["lb_seconds"]
    assert pylb.RunRecord.load(tmp_path / "run.h5").n_iterations == 20
    assert "<main" in (tmp_path / "run.html").read_text()
    shown = printed(capsys, *words)
    assert re.match(r"\d.* (times as fast|faster), .* saved: .* without LB steps, ", shown)
    # The best strategy depends on the time that the strategies took.
    assert re.search(r"The LB step that gained the most time:\nAfter iteration \d+ ", shown)


def test_report_writes_a_page_beside_us_by_default(folder, capsys, tmp_path):
    shown = printed(capsys, "report", folder / "run.h5")
    assert (tmp_path / "run.html").stat().st_size > 10_000
    lines = shown.splitlines()
    assert " ".join(lines).startswith(f"{course.of(folder / 'run.h5').verdict}.")
    assert any(line.startswith("LB (load-balancing) step") for line in lines)
    at = next(i for i, line in enumerate(lines) if line.startswith("region  "))
    assert [line.split()[0] for line in lines[at + 2 : at + 6]] == ["Global"] + 3 * ["iterations"]
    assert lines[at + 6].startswith("region: ")
    printed(capsys, "report", folder / "run.h5", "-o", "other.html")
    assert (tmp_path / "other.html").exists()


def test_strategies_say_what_is_not_installed(capsys, monkeypatch):
    monkeypatch.setattr(libraries, "available", lambda name: name != "Scotch")
    monkeypatch.setenv("COLUMNS", "200")  # else the words that are looked for may be divided
    found = {s["name"]: s["installed"] for s in answer(capsys, "strategies")["strategies"]}
    assert next(iter(found)) == "auto"
    missing = {name for name, installed in found.items() if not installed}
    assert missing == {"ScotchLB", "ScotchRefineLB"}
    assert "(not installed)" in printed(capsys, "strategies").replace("\n", " ")


@pytest.mark.parametrize("command", ["report", "replay", "optimum"])
def test_a_recording_instead_of_a_run_is_named(command, capsys, tmp_path):
    path = tmp_path / "rec"
    shutil.copy(Path(__file__).parents[2] / "notebooks" / "spa.h5", path)
    assert cli.main([command, str(path)]) != 0
    assert f"pylb whatif {path}" in capsys.readouterr().err.replace("\n", " ")


def test_report_json_is_talps_and_the_rest_goes_into_files(folder, capsys, tmp_path):
    words = ("--csv", tmp_path / "tables", "--chrome", tmp_path / "run.json")
    found = answer(capsys, "report", folder / "run.h5", *words)
    whole = found["Application"]["Global"]
    product = whole["mpiLoadBalance"] * whole["mpiCommunicationEfficiency"]
    assert whole["parallelEfficiency"] == pytest.approx(product)
    assert len(list((tmp_path / "tables").iterdir())) == 4
    assert json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert not (tmp_path / "run.html").exists()


def test_a_page_has_the_objects_at_their_coordinates(folder, capsys, tmp_path):
    coords = tmp_path / "coords.json"
    coords.write_text(json.dumps({str(key): [key, 0.5] for key in range(32)}))
    printed(capsys, "report", folder / "run.h5", "--html", "run.html", "--coords", coords)
    assert '"how":"coordinates"' in (tmp_path / "run.html").read_text()
    coords.write_text('{"0": [1, 2]}')
    words = ["report", folder / "run.h5", "--html", "bad.html", "--coords", coords]
    assert cli.main([str(word) for word in words]) == 2
    assert "coords has no object 1: expected coordinates of each object" in capsys.readouterr().err
    assert not (tmp_path / "bad.html").exists()


def test_watch_serves_a_page_until_ctrl_c(folder):
    words = [sys.executable, "-m", "pylb", "watch", folder / "run.h5", "--serve"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as served:
        address = served.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{address}run.json") as answer:
            found = json.load(answer)
        served.send_signal(signal.SIGINT)
        assert served.wait(400) == 0
    assert found["said"].startswith("40 iterations of 32 objects on 4 ranks")
    assert len(found["timeline"]["runs"][1]["iteration"]) == 40


def test_report_of_a_replay(folder, capsys):
    recorded = answer(capsys, "report", folder / "run.h5")["Application"]["Global"]
    left = answer(capsys, "report", folder / "run.h5", "--strategy", "GreedyLB", "--every", "5")
    assert left["Application"]["Global"]["mpiLoadBalance"] != recorded["mpiLoadBalance"]


def test_triggers_are_listed_and_compared(folder, capsys):
    found = answer(capsys, "triggers")["triggers"]
    assert {kind["name"] for kind in found} == set(pylb.triggers())
    run = answer(capsys, "triggers", folder / "run.h5", "--cost", "0.001")
    trace = pylb.Trace.load(folder / "run.h5")
    best = trace.optimum("GreedyLB", cost=0.001)
    assert run["optimum_seconds"] == best.time
    assert {row["trigger"] for row in run["rows"]} == set(pylb.triggers())
    for row in run["rows"]:
        replay = trace.replay("GreedyLB", trigger=row["trigger"], cost=0.001)
        assert row["seconds"] == replay.time
        assert row["regret"] == pytest.approx(replay.regret(best))
    assert "regret" in printed(capsys, "triggers", folder / "run.h5")  # LB steps cost as measured


def test_optimum_prints_the_result_of_the_library(folder, capsys, tmp_path):
    best = pylb.Trace.load(folder / "run.h5").optimum("GreedyLB", cost=0.002)
    found = answer(capsys, "optimum", folder / "run.h5", "--cost", "0.002")
    assert (found["seconds"], found["lb_step_iterations"]) == (best.time, best.iterations.tolist())
    pylb.replaying.hotspot(4, 16, 8).save(tmp_path / "vt")
    assert cli.main(["optimum", str(tmp_path / "vt")]) == 2
    assert "--cost is not given" in capsys.readouterr().err


def test_convert_to_another_format_and_back(folder, capsys, tmp_path):
    run = pylb.Trace.load(folder / "run.h5")
    printed(capsys, "convert", folder / "run.h5", tmp_path / "vt", "--to", "vt")
    printed(capsys, "convert", tmp_path / "vt", tmp_path / "back.h5")
    back = pylb.Trace.load(tmp_path / "back.h5")
    np.testing.assert_array_equal(back.task_load, run.task_load)
    np.testing.assert_array_equal(back.task_rank, run.task_rank)
    found = answer(capsys, "convert", folder / "run.h5", tmp_path / "again.h5")
    assert (found["format"], found["written"]) == ("h5", [str(tmp_path / "again.h5")])
    again = pylb.RunRecord.load(tmp_path / "again.h5")
    assert again.history[0].explain() == pylb.RunRecord.load(folder / "run.h5").history[0].explain()


def test_watch_once(folder, capsys):
    now = answer(capsys, "watch", folder / "run.h5", "--once")
    assert (now["iterations"], now["n_ranks"], now["n_lb_steps"]) == (40, 4, 3)
    shown = printed(capsys, "watch", folder / "run.h5", "--once")
    assert "40 iterations of 32 objects on 4 ranks" in shown


PROGRAM = """
import os, sys, time, pylb
lb = pylb.Balancer(record=sys.argv[1], every=5)
for key in range(4):
    lb.add(key, key)
for it in lb.iterate(12):
    for key, _ in lb.local():
        time.sleep(0.05)
    while it == 10 and not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
"""


def test_watch_shows_a_run_while_it_is_written(tmp_path):
    paths = [tmp_path / "run.h5", tmp_path / "was seen"]
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, *paths])
    words = ["-m", "pylb", "watch", "run.h5", "--json", "--interval", "0.1"]
    watch = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, cwd=tmp_path, text=True
    )
    try:
        seen = [json.loads(watch.stdout.readline())["iterations"]]
        paths[1].touch()  # when all files exist, the command ends
        while seen[-1] < 12:
            seen.append(json.loads(watch.stdout.readline())["iterations"])
    finally:
        watch.kill()
        watch.communicate()
        paths[1].touch()
        assert program.wait(400) == 0
    assert seen[0] < 12  # the run was shown while it was still running
    assert seen == sorted(seen)


def test_progress_of_a_rank_that_breaks_out(capsys):
    lb = pylb.Balancer(every=2)
    lb.add(0, "x")
    threads = threading.active_count()
    for it in lb.iterate(10, progress=True):
        if it == 3:
            break
    assert threading.active_count() == threads  # nothing updates the bar any more
    with pytest.raises(DomainError):
        lb.iterate(-1, progress=True)


def test_compare_says_where_the_time_went(folder, capsys, tmp_path):
    pylb.demo.run(4, 32, 40, save=tmp_path / "other.h5", every=20)
    words = ("compare", folder / "run.h5", tmp_path / "other.h5")
    found = answer(capsys, *words)
    for name, run in zip((folder / "run.h5", tmp_path / "other.h5"), found["runs"], strict=True):
        parts = ("computing", "imbalance", "messages", "lb_seconds")
        assert sum(run[part] for part in parts) == pytest.approx(run["seconds"])
        history = pylb.RunRecord.load(name).history.lb_steps
        assert run["n_lb_steps"] == len(history)
        assert run["migrations"] == sum(r.migrations for r in history)
    first, second = found["runs"]
    assert found["speedup"] == pytest.approx(first["seconds"] / second["seconds"])
    assert sum(step["first"] is not None for step in found["steps"]) == first["n_lb_steps"]
    assert sum(step["second"] is not None for step in found["steps"]) == second["n_lb_steps"]
    at = [step["iteration"] for step in found["steps"]]
    assert at == sorted(at)
    shown = printed(capsys, *words)
    assert "waiting for the slowest rank" in shown
    assert re.search(r"^number of LB steps +\d", shown, re.M)


def test_every_command_prints_the_seconds_of_the_loops_as_the_time_of_a_run(folder, capsys):
    record = pylb.RunRecord.load(folder / "run.h5")
    whole = record.parameters["seconds"]
    assert whole >= record.time.sum()
    (run, _) = answer(capsys, "compare", folder / "run.h5", folder / "run.h5")["runs"]
    assert run["seconds"] == whole
    found = answer(capsys, "report", folder / "run.h5")["Application"]["Global"]
    assert found["elapsedTime"] == round(whole * 1e9)


def test_migrations_of_a_program_that_redistributes_itself_are_not_known(capsys, tmp_path):
    def main(comm):
        lb = pylb.Advisor(comm, every=5)
        for _ in lb.iterate(20):
            if lb.advise(seconds=1.0 + comm.rank):
                lb.rebalanced(0.1)
        lb.save(tmp_path / "own.h5")

    pylb.VirtualCluster(2).run(main)
    shown = printed(capsys, "compare", tmp_path / "own.h5", tmp_path / "own.h5")
    assert re.search(r"^number of LB steps +(\d) +\1 +0$", shown, re.M)
    assert "migrations" not in shown.split("LB steps\n")[0]
    assert cli.main(["replay", str(tmp_path / "own.h5"), "--unbalanced"]) == 0
    assert "no replay can undo this" in capsys.readouterr().err


def test_compare_doubts_runs_of_different_size(folder, capsys, tmp_path):
    pylb.demo.run(2, 32, 10, save=tmp_path / "small.h5", every=5)
    assert cli.main(["compare", str(folder / "run.h5"), str(tmp_path / "small.h5")]) == 0
    err = capsys.readouterr().err
    assert "4 ranks and 2" in err
    assert "40 iterations and 10" in err
