"""Variables of the environment that override what a program says."""

import os
import re

import pytest
from each_case import dealt, loop

import pylb
from pylb.cli.main import main
from pylb.errors import DomainError, StateError, UnknownStrategyError, UnknownTriggerError
from pylb.run import mpi_engines


def balancer(**given):
    lb = dealt(pylb.Balancer(**given), range(6), lambda key: key)
    loop(lb, 7)
    return lb


def advisor(**given):
    lb = pylb.Advisor(**given)
    for _ in lb.iterate(7):
        lb.advise(loads=[1.0, 2.0], keys=[1, 2])
    return lb


@pytest.mark.parametrize("program", [balancer, advisor])
def test_they_override_and_say_so(program, monkeypatch, tmp_path):
    path = tmp_path / "run.h5"
    monkeypatch.setenv("PYLB_STRATEGY", "RefineLB")
    monkeypatch.setenv("PYLB_TRIGGER", "3")
    monkeypatch.setenv("PYLB_RECORD", str(path))
    monkeypatch.setenv("PYLB_CLOCK", "cpu")
    lb = program(strategy="GreedyLB", trigger="menon", record=False)
    report = lb.report()
    assert report.strategy == "RefineLB (PYLB_STRATEGY)"
    assert report.trigger == "periodic (PYLB_TRIGGER)"
    assert "RefineLB (PYLB_STRATEGY)" in str(report)
    assert [r.iteration for r in lb.history.lb_steps] == [2, 5]
    assert {r.strategy for r in lb.history.lb_steps} == {"RefineLB"}
    assert "(PYLB_STRATEGY)" in lb.explain(0)
    run = pylb.RunRecord.load(path)
    assert run.parameters["clock"] == "cpu"
    assert run.parameters["environment"] == [
        "PYLB_STRATEGY=RefineLB",
        "PYLB_TRIGGER=3",
        f"PYLB_RECORD={path}",
        "PYLB_CLOCK=cpu",
    ]


@pytest.mark.parametrize("program", [balancer, advisor])
def test_the_mode(program, monkeypatch):
    monkeypatch.setenv("PYLB_MODE", "off")
    off = program(every=1)
    assert not off.history
    assert off.report().mode == "off (PYLB_MODE)"
    assert re.search(r"mode +off \(PYLB_MODE\)\n", str(off.report()))
    monkeypatch.setenv("PYLB_MODE", "shadow")
    assert program(every=1).report().mode == "shadow (PYLB_MODE)"
    monkeypatch.delenv("PYLB_MODE")
    on = program(every=1)
    assert on.history
    assert not re.search(r"^mode", str(on.report()), re.M)
    assert re.search(r"mode +off\n", str(program(every=1, mode="off").report()))


def test_without_variables_nothing_is_printed():
    lb = balancer(strategy="GreedyLB", every=3)
    assert lb.report().strategy == "GreedyLB"
    assert "PYLB" not in lb.explain(0)


def test_the_trigger_by_name(monkeypatch):
    monkeypatch.setenv("PYLB_TRIGGER", "menon")
    assert pylb.Advisor(every=3).report().trigger == "menon (PYLB_TRIGGER)"


@pytest.mark.parametrize("make", [pylb.Balancer, pylb.Advisor])
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("PYLB_STRATEGY", "GreadyLB", UnknownStrategyError),
        ("PYLB_TRIGGER", "menno", UnknownTriggerError),
        ("PYLB_TRIGGER", "0", DomainError),
        ("PYLB_MODE", "replay", DomainError),
        ("PYLB_CLOCK", "sun", DomainError),
        ("PYLB_RECORD", "run.txt", DomainError),
    ],
)
def test_a_wrong_value_is_an_error_with_its_name(make, name, value, error, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(error, match=f"{name} is '{value}'"):
        make()


def test_a_method_of_partition_is_a_strategy_everywhere(monkeypatch):
    monkeypatch.setenv("PYLB_STRATEGY", "pylb")
    for make in (pylb.Advisor, pylb.Balancer):
        assert make().report().strategy == "pylb (PYLB_STRATEGY)"

    def program(comm):
        lb = pylb.Balancer(comm, every=3)
        for key in range(12) if comm.rank == 0 else ():
            lb.add(key, None)
        for _ in lb.iterate(9):
            here = []
            for key, _ in lb.local():
                here.append(key)
                comm.elapse(1.0)
                lb.send((key + 1) % 12, key, b"x")
        return [r.strategy for r in lb.history.lb_steps], len(here)

    done = pylb.VirtualCluster(3).run(program)
    assert done[0][0]
    assert set(done[0][0]) == {"pylb"}
    assert [n for _, n in done] == [4, 4, 4]
    monkeypatch.setenv("PYLB_STRATEGY", "metiss")
    with pytest.raises(UnknownStrategyError, match="PYLB_STRATEGY is 'metiss'"):
        pylb.Balancer()


def test_a_strategy_needs_cells(monkeypatch):
    monkeypatch.setenv("PYLB_STRATEGY", "GreedyLB")
    with pytest.raises(DomainError, match=r"\(PYLB_STRATEGY\) without cells"):
        pylb.Advisor().advise(seconds=1.0)


@pytest.mark.parametrize("program", [balancer, advisor])
@pytest.mark.parametrize("to", ["0", "asked.h5"])
def test_a_program_that_saves_its_run_goes_on(program, to, monkeypatch, tmp_path, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYLB_RECORD", to)
    program(every=3).save("run.h5")
    assert "(PYLB_RECORD), so run.h5 is not written" in caplog.text
    assert [p.name for p in tmp_path.iterdir()] == ([] if to == "0" else [to])


@pytest.mark.parametrize("to", ["1", "run.h5"])
def test_a_restored_run_goes_on_without_a_record(to, monkeypatch, tmp_path, caplog):
    monkeypatch.chdir(tmp_path)
    balancer().checkpoint("saved")
    monkeypatch.setenv("PYLB_RECORD", to)
    lb = pylb.Balancer.restore(None, "saved")
    loop(lb, 3)
    assert lb.iteration == 10
    assert "PYLB_RECORD has no effect" in caplog.text
    assert not (tmp_path / "run.h5").exists()
    monkeypatch.delenv("PYLB_RECORD")
    with pytest.raises(StateError, match="record=False"):
        pylb.Balancer.restore(None, "saved", record=True)


def test_two_balancers_do_not_mix_their_records(monkeypatch, tmp_path, caplog):
    path = tmp_path / "run.h5"
    monkeypatch.setenv("PYLB_RECORD", str(path))
    first, second = balancer(), balancer(every=2)
    for lb in (first, second, first):
        loop(lb, 5)
    first.report(tmp_path / "first.html")
    assert caplog.text.count("another record is written to this file now") == 1
    run = pylb.RunRecord.load(path)
    assert len(run.trace) == second.iteration == 12
    assert run.parameters["trigger"] == "periodic"


@pytest.mark.parametrize(
    ("name", "value", "program"),
    [
        ("PYLB_RECORD", "run.h5", lambda: pylb.Balancer(lag=2)),
        ("PYLB_MODE", "shadow", lambda: pylb.Balancer(replay="run.h5")),
        ("PYLB_MODE", "shadow", lambda: balancer().checkpoint("saved")),
        ("PYLB_MODE", "shadow", lambda: pylb.Balancer.restore(None, "saved")),
        ("PYLB_MODE", "shadow", lambda: pylb.AsyncBalancer(lag=2).begin(3)),
        ("PYLB_MODE", "shadow", lambda: pylb.Advisor().advise(seconds=1.0)),
    ],
)
def test_an_error_names_the_variable_that_the_program_does_not_suit(
    name, value, program, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    with pytest.raises((DomainError, StateError), match=rf"\({name}\)"):
        program()


def test_info_shows_them(monkeypatch, capsys, with_mpi):
    monkeypatch.setenv("PYLB_STRATEGY", "GreedyLB")
    assert main(["info"]) == 0
    assert "PYLB_STRATEGY overrides programs" in capsys.readouterr().out


def test_what_a_program_sets_on_a_cluster_stays(monkeypatch):
    monkeypatch.setenv("PYLB_RECORD", "0")
    with mpi_engines._environment({"PYLB_RECORD": "run.h5"}):
        monkeypatch.setenv("OF_THE_PROGRAM", os.environ["PYLB_RECORD"])
    assert (os.environ["PYLB_RECORD"], os.environ["OF_THE_PROGRAM"]) == ("0", "run.h5")
