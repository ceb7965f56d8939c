"""The experience file: a run begins with what earlier runs of the program have learned."""

import contextlib
import gc
import json
import math
import multiprocessing
import re
from pathlib import Path

import pytest
from each_case import in_blocks, loop

import pylb
from pylb.cli.main import main as cli
from pylb.errors import DomainError, FormatError, MissingFileError
from pylb.run import experience

COST = 2.0  # seconds of an LB step


def steps(comm, path, n=60, scale=1.0, ends=True, **words):
    """Run a program with its own loop, whose first LB step removes all imbalance."""
    lb = pylb.Advisor(comm, experience=path, **words)
    load = 1.2 if comm.rank == 0 else 0.9
    for _ in range(n):
        if lb.advise(seconds=scale * load):
            load = 1.0
            lb.rebalanced(COST)
    if ends:
        lb.finish()
    return [(r.iteration, r.reason) for r in lb.history.lb_steps]


def run(path, n_ranks=2, **how):
    return pylb.VirtualCluster(n_ranks).run(steps, path, **how)[0]


def entry_of(path, n_ranks=2):
    return next(e for name, e in experience.read(path).items() if f"{n_ranks} ranks" in name)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "app.pylb")


def test_the_second_run_rebalances_within_three_steps(path, caplog):
    (first, reason), *_ = run(path)
    assert first > 5
    assert "app.pylb" not in reason
    entry = entry_of(path)
    assert entry["runs"] == 1
    assert entry["iterations"] == 60
    assert entry["cost"] == COST
    assert entry["residual"] == pytest.approx(1.0)
    assert entry["rate"] == pytest.approx((COST + 0.15 * (first + 1)) / 60)
    (second, reason), *rest = run(path)
    assert second == 2
    assert not rest
    assert f"expected to cost 2 s ({path}, 1 earlier run)" in reason
    assert entry_of(path)["runs"] == 2
    assert not caplog.records


def test_the_known_end_prevents_an_lb_step_that_would_not_pay(path):
    run(path, n=60)
    assert run(path, n=8)[0][0] == 2  # 60 iterations were expected
    assert entry_of(path)["iterations"] == 8
    assert run(path, n=8) == []
    assert len(run(path, n=60)) == 1  # a longer run goes on as if its end were not known


def test_a_balancer_learns_and_is_not_asked_for_the_cost_again(path):
    def objects(comm):
        lb = pylb.Balancer(comm, experience=path, load=lambda key, _: 1.0 + key % 3)
        in_blocks(lb, 16, lambda key: key)
        loop(lb, 30)
        return lb.iteration

    pylb.VirtualCluster(2).run(objects)
    entry = entry_of(path)
    assert (entry["iterations"], entry["mean"]) == (30, pytest.approx(15.5))
    pylb.VirtualCluster(2).run(objects)
    assert entry_of(path)["runs"] == 2


def test_other_numbers_of_ranks_have_entries_of_their_own(path, caplog):
    run(path)
    first = run(path, n_ranks=3)[0][0]
    assert first > 2
    assert "no entry for (" in caplog.text
    assert [entry["runs"] for entry in experience.read(path).values()] == [1, 1]


@pytest.mark.parametrize("trigger", sorted(pylb.triggers()))
def test_a_run_with_other_loads_forgets(path, caplog, trigger):
    first, second = (run(path, scale=scale, trigger=trigger)[:1] for scale in (1.0, 5.0))
    assert [i for i, _ in second] <= [i for i, _ in first]  # decides by itself
    assert "more than a factor of 2" in caplog.text
    assert entry_of(path)["runs"] == 1
    assert entry_of(path)["mean"] > 4.0


def test_a_loop_that_was_left_early_does_not_tell_the_end(path):
    def left(comm):
        lb = pylb.Advisor(comm, experience=path)
        for step in lb.iterate(50):
            lb.advise(seconds=1.0)
            if step == 9:
                break
        lb.finish()

    pylb.VirtualCluster(2).run(left)
    assert entry_of(path)["iterations"] is None


@pytest.mark.parametrize("length", [0, 5, 100, 200])
def test_a_line_that_was_cut_off_does_not_count(path, length, caplog):
    run(path)
    file = Path(path)
    file.write_text(file.read_text()[:length])
    run(path)
    assert ("was cut off" in caplog.text) == (length > 0)
    assert len(caplog.records) == (length > 0)
    assert json.loads(file.read_text().splitlines()[-1])["runs"] == 1
    run(path)
    assert json.loads(file.read_text().splitlines()[-1])["runs"] == 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("cost", "much", ""), ("hoped", [1.0], ""), ("runs", 0, ""), ("cost", -1.0, "out of range")],
)
def test_a_damaged_entry_is_refused(path, name, value, words, caplog):
    run(path)
    file, before = Path(path), Path(path).read_text()
    file.write_text(re.sub(rf'"{name}": (\[.*?\]|[^,]*)', f'"{name}": {json.dumps(value)}', before))
    assert json.loads(file.read_text())[name] == value
    with pytest.raises(DomainError, match=words) if words else contextlib.nullcontext():
        run(path)
    assert ("cut off, damaged" in caplog.text) == (not words)
    assert words or entry_of(path)["runs"] == 1


def test_another_version_is_neither_read_nor_replaced(path, caplog):
    file = Path(path)
    file.write_text('{"pylb experience": 3, "program": "app"}\n')
    run(path)
    assert "of another version" in caplog.text
    assert '"pylb experience": 3' in file.read_text()
    assert entry_of(path)["runs"] == 1


def test_hopeless_paths_are_errors_at_construction(tmp_path):
    with pytest.raises(MissingFileError, match="there is no folder"):
        pylb.Advisor(experience=tmp_path / "nowhere" / "app.pylb")
    with pytest.raises(FormatError, match="Is a directory"):
        pylb.Advisor(experience=tmp_path)
    with pytest.raises(MissingFileError, match="there is no folder"):
        run(str(tmp_path / "nowhere" / "app.pylb"))  # of rank 0; the other rank does not hang
    other = tmp_path / "data.csv"
    other.write_text("1, 2\n")
    with pytest.raises(FormatError, match="another kind of file"):
        pylb.Balancer(experience=other)
    assert other.read_text() == "1, 2\n"


def test_a_file_that_cannot_be_written_stops_no_run(tmp_path, caplog):
    folder = tmp_path / "gone"
    folder.mkdir()
    lb = pylb.Advisor(experience=folder / "app.pylb")
    folder.rmdir()
    for _ in lb.iterate(5):
        lb.advise(seconds=1.0)
    (said,) = caplog.messages
    assert "what this run has learned is not stored" in said


def test_runs_that_end_at_once_keep_each_others_entries(path):
    sizes = [1, 2, 3, 4]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=run, args=(path,), kwargs={"n_ranks": p}) for p in sizes]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    assert [p.exitcode for p in processes] == [0] * 4
    assert len(experience.read(path)) == 4


def test_a_loop_without_an_end_is_kept_when_its_ranks_are_freed(path):
    run(path, ends=False)
    gc.collect()
    assert entry_of(path)["iterations"] == 60


def test_the_environment_names_the_file(path, monkeypatch):
    monkeypatch.setenv("PYLB_EXPERIENCE", path)
    run(None)
    assert entry_of(path)["runs"] == 1
    monkeypatch.setenv("PYLB_EXPERIENCE", "0")
    run(path)
    assert entry_of(path)["runs"] == 1


def test_the_command_shows_the_file(path, capsys):
    run(path)
    assert cli(["experience", path]) == 0
    assert "2 ranks" in capsys.readouterr().out
    assert cli(["experience", path + "x"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_generated_program_runs_again():
    program = pylb.replaying.Imbalance(1.0, drift=[0.0] * 200, start=0.2)
    nothing = (None, math.nan)
    first = program.run("auto", cost=20.0, expect=nothing)
    second = program.run("auto", cost=20.0, expect=nothing, experience=first.learned)
    assert first.iterations[0] > second.iterations[0] == 2


def test_advise_says_once_why_it_does_not_rebalance(caplog):
    lb = pylb.Advisor(ranks=2, cost=500.0)
    for _ in range(500):
        assert not lb.advise(seconds=[1.1, 0.9])
    (said,) = caplog.messages
    assert "no LB step in 128 steps, although the slowest rank takes 10.0 % longer" in said
    assert "an LB step is expected to cost 500 s and to save 40 s" in said
    assert "every=100" in said


def test_advise_says_once_that_no_better_placement_is_found(caplog):
    def program(comm):
        lb = pylb.Advisor(comm, every=10, strategy=lambda snapshot: snapshot.rank)
        for _ in lb.iterate(400):
            lb.advise(loads=[1.0 + comm.rank], keys=[comm.rank])

    pylb.VirtualCluster(2, clock="none").run(program)
    (said,) = caplog.messages
    assert "12 LB steps moved nothing, although the slowest rank takes 33.3 % longer" in said
