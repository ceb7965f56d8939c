"""What LB steps have saved is one number in all places; loops that all ranks leave by break."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from each_case import dealt, in_blocks, loop

import pylb
from pylb.comm.connect import Virtual
from pylb.comm.cores import Cores, Used
from pylb.console import seconds
from pylb.decide import decider
from pylb.errors import DomainError
from pylb.run.local_objects import LocalObjects
from pylb.run.records import Records
from pylb.show import course, live, page
from pylb.show.comparison import Comparison

pytest.importorskip("h5py")
N = 24


def loads_of(keys, it):
    """Loads that depend on key and iteration: the heavy ones are together, and move slowly."""
    return 0.5 + 5.0 * ((keys - it // 8) % N < 5) + 0.1 * ((7 * keys + it) % 3)


def balancer(comm, path, loops=(20, 13), churn=False, leave=None, **how):
    now = [0]
    lb = pylb.Balancer(comm, load=lambda key, value: loads_of(key, now[0]), **how)
    in_blocks(lb, N)
    for i, n in enumerate(loops):
        for it in lb.iterate(n):
            now[0] = it
            for key, _ in lb.local():
                if churn and it % 5 == 3 and key == it and key % 2 == 1:
                    lb.remove(key)
            if churn and it % 6 == 2:
                lb.add(1000 * (lb.rank + 1) + it, None)
            if it == leave:
                break
        if churn:
            lb.add(10 * N + 100 * i + lb.rank, None)
    return finish(lb, path)


def measured(comm, path, **how):
    """Objects whose loads are measured; `sharing` makes their ranks share two cores."""
    lb = pylb.Balancer(comm, **how)
    in_blocks(lb, N, lambda key: np.zeros(100))
    for _ in lb.iterate(20):
        for key, x in lb.local():
            for _ in range(60 if key < 8 else 3):
                x += 1.0
    return finish(lb, path)


def advisor(comm, path, keyed=True, seconds=False, change=False, **how):
    lb = pylb.Advisor(comm, **how)
    ids = np.arange(N * comm.rank // comm.size, N * (comm.rank + 1) // comm.size)
    share = np.where(np.arange(comm.size) < 1, 3.0, 1.0)
    for step in lb.iterate(30):
        if change and step % 7 == 6:
            ids = np.append(ids[1:], 1000 * (comm.rank + 1) + step)  # cells come and go
        if seconds:
            if lb.advise(seconds=share[comm.rank] * (1 + 0.01 * step)):
                with lb.rebalancing():
                    share[:] = share.mean()
        elif plan := lb.advise(loads=loads_of(ids, step), keys=ids if keyed else None):
            ids = plan.migrate(ids)
    return finish(lb, path)


def slowed(comm, path):
    """Rank 0 has half the speed of the others for a while, which pylb notices, and then not."""

    def load(key, _):
        return (1.0 + key % 3 + 0.1 * (key * lb.iteration % 7)) * (
            2.0 if comm.rank == 0 and lb.iteration < 30 else 1.0
        )

    lb = pylb.Balancer(comm, strategy="GreedyLB", every=3, learn_speeds=True, load=load)
    in_blocks(lb, 12 * comm.size)
    loop(lb, 80)
    speeds = [bool(r.speed) for r in lb.history.lb_steps]
    assert any(speeds)
    assert not speeds[-1]
    return finish(lb, path)


def finish(lb, path):
    report = lb.report(path.with_suffix(".html"))  # ends a loop that was left early
    drawn = lb._course("run", None)
    lb.save(path)
    return report, drawn


RUNS = {
    "balancer": (balancer, 3, {"strategy": "GreedyLB", "every": 5}),
    "auto": (balancer, 4, {"loops": (60,)}),
    "objects come and go": (balancer, 3, {"strategy": "RefineLB", "every": 4, "churn": True}),
    "left early": (balancer, 2, {"strategy": "GreedyLB", "every": 5, "leave": 25}),
    "speeds": (balancer, 3, {"every": 6, "strategy": "GreedyLB", "speed": [1.0, 2.0, 0.5]}),
    "speeds learned for a while": (slowed, 3, {}),
    "background": (balancer, 3, {"every": 6, "strategy": "GreedyLB", "background": [0, 9.0, 0]}),
    "many loops": (balancer, 3, {"every": 6, "strategy": "GreedyLB", "loops": (1,) * 20}),
    "measured": (measured, 4, {"every": 5, "strategy": "GreedyLB"}),
    "advisor": (advisor, 3, {"every": 5, "strategy": "GreedyLB"}),
    "cells come and go": (advisor, 3, {"every": 5, "strategy": "GreedyLB", "change": True}),
    "without keys": (advisor, 3, {"every": 5, "strategy": "GreedyLB", "keyed": False}),
    "seconds alone": (advisor, 4, {"every": 9, "seconds": True}),
}


@pytest.fixture(params=[False, True], ids=["own cores", "shared cores"])
def sharing(request, monkeypatch):
    """Let virtual ranks share cores, two for all."""
    if request.param:
        monkeypatch.setattr(
            Virtual,
            "cores",
            lambda self: Cores(self.size, 2.0, "", False, (0,) * self.size, (2.0,) * self.size),
        )
        monkeypatch.setattr(Cores, "others", lambda self, used: 0.0)
    return request.param


@pytest.mark.parametrize("name", RUNS)
def test_the_number_is_the_same_everywhere(name, sharing, tmp_path):
    program, p, how = RUNS[name]
    path = tmp_path / "run.h5"
    report, drawn = pylb.VirtualCluster(p).run(lambda comm: program(comm, path, **how))[0]
    assert report.n_lb_steps > 0
    saved = report.saved
    assert abs(saved) > 1e-9
    recorded = course.of(path)
    trace = pylb.Trace.load(path)
    run = trace.replay("none")
    assert run.saved == pytest.approx(trace.replay("unbalanced").time - run.time, abs=1e-12)
    numbers = {
        "page": drawn.saved[-1],
        "record": recorded.saved[-1],
        "live": live.state(recorded)["saved"],
        "compare": Comparison(recorded, recorded).figures[0]["saved"],
        "replay": run.saved,
        "explorer": course.of_replay(run, run).figures()["saved"],
        "curve of the explorer": course.of_replay(run, run).saved[-1],
    }
    assert numbers == pytest.approx(dict.fromkeys(numbers, saved), rel=1e-9, abs=1e-12)
    said = seconds(saved)
    assert dict(page.facts(recorded))["saved by LB steps"] == said
    verdicts = {
        report.verdict,
        recorded.verdict,
        drawn.verdict,
        page.data(recorded)["verdict"],
        live.state(recorded)["verdict"],
        *Comparison(recorded, recorded).to_dict()["verdicts"],
    }
    assert len(verdicts) == 1
    verdict = verdicts.pop()
    time = report.replayed_seconds + report.lb_seconds
    without, using = seconds(time + saved), seconds(time)
    assert f"{without} without LB steps, {using} with" in verdict
    assert str(report).replace("\n", " ").startswith(f"Run: {verdict}.")
    if "times as fast" in verdict:
        assert f", {said} saved: " in verdict
    assert path.with_suffix(".html").exists()


@pytest.mark.parametrize("p", [1, 4])
def test_nothing_is_saved_without_lb_steps(p, tmp_path):
    path = tmp_path / "run.h5"
    report, _ = pylb.VirtualCluster(p).run(lambda comm: balancer(comm, path, mode="off"))[0]
    assert (report.saved, course.of(path).saved[-1], report.shadow) == (0.0, 0.0, False)
    assert "saved" not in str(report)
    why = "there is only one rank" if p == 1 else "the mode is off"
    assert report.verdict.startswith(f"No LB step took place, because {why}: ")
    assert report.verdict == course.of(path).verdict


def test_shadow_mode_says_what_a_replay_says(tmp_path):
    path, how = tmp_path / "run.h5", {"strategy": "GreedyLB", "every": 5, "mode": "shadow"}
    report, _ = pylb.VirtualCluster(3).run(lambda comm: balancer(comm, path, **how))[0]
    trace = pylb.Trace.load(path)
    run = trace.replay("GreedyLB", every=5)
    none = trace.replay("none")
    assert report.shadow
    assert report.saved == pytest.approx(none.time - run.time, rel=1e-9)
    assert report.verdict.startswith("Would be ")
    assert f", {seconds(report.saved)} saved: " in report.verdict
    assert course.of(path).verdict == report.verdict


STEP = {"balanced": True, "before": 2.0, "predicted": 1.1, "realised": 1.1, "heaviest": 1.0}
RUN = {"replayed_seconds": 0.9, "lb_seconds": 0.1, "saved": -0.1, "n_lb_steps": 1, "n_ranks": 4}
RUN |= {"n_objects": 40, "mean_max_over_mean": 2.0}


@pytest.mark.parametrize(
    ("run", "step", "said"),
    [
        ({}, {}, "It did not help: 900 ms without LB steps, 1 s with; 1 LB step cost 100 ms"),
        ({}, {"before": 1.02}, "because there is little to gain (max/mean 1.02 without LB steps)"),
        ({"n_objects": 5}, {}, "because there are too few objects, 5 on 4 ranks; "),
        (
            {},
            {"heaviest": 1.8, "heaviest_key": 7.0, "predicted": 1.81},
            "because object 7 alone takes 1.8 times the mean load of a rank; ",
        ),
        ({"cores": "4 ranks share 2 cores"}, {}, "because 4 ranks share 2 cores, so that "),
        ({}, {"realised": 1.9}, "expected a max/mean of 1.1, and 1.9 was measured; "),
        ({"saved": 1.9}, {}, "2.9 times as fast, 1.9 s saved: 2.9 s without LB steps, 1 s with; "),
        ({"saved": 0.07}, {}, "7 % faster, 70 ms saved: "),
        ({"saved": math.nan}, {}, "Whether LB steps helped is not known"),
        (
            {"saved": 0.5, "others": 1.5},
            {},
            "Judged by the loads alone, 1.5 times as fast, 500 ms saved (other programs used 1.5 c",
        ),
        ({"others": 1.5}, {}, "is not known, because other programs used 1.5 cores"),
        ({"saved": 0.5, "mode": "shadow"}, {}, "Would be 2.2 times as fast, 500 ms saved: "),
        ({"mode": "shadow"}, {}, "It would not help: 900 ms without LB steps, 1 s with; "),
    ],
)
def test_the_verdict_says_why_lb_steps_did_not_help(run, step, said):
    receipt = SimpleNamespace(**STEP | step)
    assert said in pylb.decide.sentences.verdict(RUN | run, [receipt])


def test_other_programs_are_noticed():
    cores = Cores(2, 2.0, "", False, (0, 0, 2), (2.0, 2.0, 4.0))
    alone = [Used(19.0, 9.5, 10.0), Used(19.0, 9.5, 10.0), Used(9.0, 9.0, 10.0)]
    assert cores.others(alone) == 0.0
    assert cores.others([Used(20.0, 7.0, 10.0), *alone[1:]]) == pytest.approx(0.35)
    # three other processes on four cores disturb no rank that is alone
    assert cores.others([*alone[:2], Used(38.0, 9.0, 10.0)]) == 0.0
    assert cores.others([Used(0.0, 0.0, 0.0)] * 3) == 0.0


def test_the_printed_report_is_narrow_and_short(tmp_path):
    report = pylb.demo.run(4, 32, 60, every=2)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 50
    steps = report.history.lb_steps
    assert len(steps) > 10
    at = lines.index("Of these, the 10 with the largest cost or gain:")
    numbers = ", ".join(str(r.iteration) for r in steps)
    assert f"LB (load-balancing) steps after iterations {numbers}." in " ".join(lines)
    parts = [report.computing, report.imbalance, report.lb_seconds, report.messages]
    assert sum(parts) == pytest.approx(report.seconds)
    assert min(parts) >= 0.0
    shown = [int(line.split()[0]) for line in lines[at + 3 : at + 13]]
    most = sorted(steps, key=lambda r: -max(r.cost, abs(r.gain)))[:10]
    assert shown == sorted(r.iteration for r in most)
    r = most[0]
    said = f"After iteration {r.iteration}: moved {r.migrations} object"
    assert r.headline.startswith(said)
    assert r.headline.endswith(f"cost {seconds(r.cost)}, gained {seconds(r.gain)}")


def test_an_lb_step_reads_one_receipt(monkeypatch):
    """Its cost does not grow with the number of decisions before it."""
    read, convert = [], decider.receipt_of
    monkeypatch.setattr(decider, "receipt_of", lambda *row: read.append(row) or convert(*row))
    lb = dealt(pylb.Balancer(every=1), range(4), lambda key: key)
    loop(lb, 40)
    assert lb.n_lb_steps > 30
    assert len(read) <= 2 * 40


# ---- loops that all ranks leave by break: their last iterations are in the file ---------------


ENDS = {
    "finish": lambda lb, path: lb.finish(),
    "report": lambda lb, path: lb.report(path / "report.json"),
    "rank_loads": lambda lb, path: lb.rank_loads(),
}


def objects(comm, **words):
    """Run 60 of 100 iterations of a Balancer."""
    lb = pylb.Balancer(comm, strategy="GreedyLB", every=7, **words)
    in_blocks(lb, 8 * comm.size)
    for it in lb.iterate(100):
        if it == 60:
            break
        for key, _ in lb.local():
            comm.elapse(4e-3 if key < 8 else 1e-3)
    return lb


def cells(comm, **words):
    """Run 60 of 100 steps of an Advisor, which moves no cells."""
    lb = pylb.Advisor(comm, strategy="GreedyLB", every=7, **words)
    for it in lb.iterate(100):
        if it == 60:
            break
        keys = range(8 * comm.rank, 8 * comm.rank + 8)
        lb.advise(loads=[4e-3 if key < 8 else 1e-3 for key in keys], keys=list(keys))
    return lb


def results(main, path, end, **words):
    """Return what rank 0 knows after the break, and after the end of the loop."""

    def program(comm):
        lb = main(comm, **words)
        early = lb.report()
        ENDS[end](lb, path)
        return early, lb.report(), lb

    return pylb.VirtualCluster(2, clock="none").run(program)[0]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("main", [objects, cells])
def test_the_file_has_all_iterations(tmp_path, main, end):
    path = tmp_path / "run.h5"
    _, report, lb = results(main, tmp_path, end, mode="off", record=path)
    record = pylb.RunRecord.load(path)
    assert record.n_iterations == report.iterations == 60
    assert (record.max == lb.metrics.max).all()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("main", [objects, cells])
def test_shadow_mode_has_decided_for_all_iterations(tmp_path, main, end):
    early, report, lb = results(main, tmp_path, end, mode="shadow")
    assert (early.n_lb_steps, early.saved) == (0, 0.0)  # nothing is known before the end
    assert report.n_lb_steps == 8
    assert len(lb.shadow.max) == 60
    saved = (lb.metrics.max - lb.shadow.max).sum()
    assert report.saved == pytest.approx(saved - report.lb_cost)
    assert saved > 0


@pytest.mark.parametrize("make", [pylb.Balancer, pylb.Advisor])
def test_a_run_without_iterations_has_no_page(tmp_path, make):
    with pytest.raises(DomainError, match="no iteration for a page"):
        make().report(tmp_path / "run.html")
    make().report(tmp_path / "run.txt")


def test_shadow_mode_saves_nothing_in_a_loop_that_has_not_ended():
    """After 64 iterations, rank 0 has replayed some, but no results are known yet."""

    def program(comm):
        lb = pylb.Balancer(comm, mode="shadow", strategy="GreedyLB", every=7)
        lb.add(comm.rank, None)
        said = []
        for _ in lb.iterate(80):
            for key, _ in lb.local():
                comm.elapse(1.0 + key)
            said.append(lb.report().saved)
        return said

    assert pylb.VirtualCluster(2, clock="none").run(program) == [[0.0] * 80] * 2


@pytest.mark.parametrize("end", ENDS)
def test_the_gain_of_the_last_lb_step_is_known(tmp_path, end):
    """The 8th LB step is after iteration 55; its gain is that of the 4 iterations after it."""
    path = tmp_path / "run.h5"
    early, _, lb = results(objects, tmp_path, end, record=path)
    assert math.isnan(early.history[-1].gain)
    last = lb.history[-1]
    assert (last.iteration, last.iterations) == (55, 4)
    assert last.gain == pytest.approx(0.0)  # that LB step moves nothing
    record = pylb.RunRecord.load(path)
    assert record.history == lb.history
    assert (len(record.history.lb_steps), sum(s.iterations for s in record.stretches)) == (8, 60)
    assert record.trace.replay("GreedyLB", every=7).decisions == lb.history


def test_the_page_counts_objects_that_moved_after_the_last_iteration(tmp_path):
    def program(comm):
        lb = pylb.Balancer(comm, strategy="GreedyLB", every=1, record=True)
        for key in range(4):
            if comm.rank == 0:
                lb.add(key, None)
        for it in lb.iterate(5):
            if it == 1:
                break
            for _ in lb.local():
                comm.elapse(1.0)
        lb.save(tmp_path / "run.h5")
        return lb.report()

    report = pylb.VirtualCluster(2, clock="none").run(program)[0]
    assert report.migrations == 2
    shown = dict(page.facts(course.of(tmp_path / "run.h5")))
    assert shown["migrations"].startswith("2")


def ends_early(monkeypatch, owner, name, before):
    """Let the next call of a method raise KeyboardInterrupt: before or after its work."""
    usual = getattr(owner, name)

    def interrupted(*args):
        monkeypatch.setattr(owner, name, usual)
        if not before:
            usual(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("lag", [0, 2])
def test_after_an_interrupt_no_object_is_lost_or_twice(monkeypatch, before, lag):
    lb = dealt(pylb.Balancer(strategy="GreedyLB", every=2, lag=lag), range(8))
    lb.remove(3)
    ends_early(monkeypatch, LocalObjects, "set", before)
    with pytest.raises(KeyboardInterrupt):
        list(lb.local())
    for _ in lb.iterate(2):
        assert [key for key, _ in lb.local()] == [0, 1, 2, 4, 5, 6, 7]


def test_a_loop_that_was_interrupted_at_its_end_is_over(monkeypatch):
    lb = pylb.Balancer()
    loop = lb.iterate(2)
    next(loop)
    ends_early(monkeypatch, Records, "cut", before=True)
    with pytest.raises(KeyboardInterrupt):
        loop.close()
    assert len(list(lb.iterate(1))) == 1


def test_an_interrupted_addition_can_be_repeated():
    lb = pylb.Balancer()
    for key in (1, 2, 3):  # additions that were interrupted
        lb._objects._properties[key] = {"nbytes": 7, "memory": 8}
    lb.add(1, "one")
    lb.add(2, "two", nbytes=5)
    assert list(lb.local()) == [(1, "one"), (2, "two")]
    assert lb._objects.table["nbytes"].tolist() == [0, 5]
    assert lb._objects.table["memory"].tolist() == [-1, -1]
