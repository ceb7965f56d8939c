"""Several loads an object in running programs: phases of an iteration, each with a barrier."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import re
import sys

import numpy as np
import pytest
from each_case import dealt

import pylb
from pylb.errors import DomainError, FormatError, MissingPartError, StateError, UnknownKeyError
from pylb.run.clocks import cuda_clock
from pylb.run.report import Report

P, EACH = 4, 24  # ranks; objects of each rank
NAMES = ("push", "deposit", "fields")


def seconds_of(key: int, phase: int, d: int) -> float:
    """Loads of which some are large in one phase, others in another one; the sums are alike.

    Objects that are dealt out by their load, then by their key, come to the rank key % P.
    """
    heavy = key % P * d // P == phase
    return (5.0 if heavy else 1.0) * (1.0 + 0.1 * (key // (4 * P)))


def loads(d: int) -> np.ndarray:
    return np.array([[seconds_of(key, k, d) for k in range(d)] for key in range(P * EACH)])


def program(comm, d: int, n: int = 40, **options):
    """Run d phases, with virtual seconds; return the balancer."""
    lb = dealt(pylb.Balancer(comm, **options), range(P * EACH))
    for _ in lb.iterate(n):
        for k in range(d):
            with lb.phase(NAMES[k]):
                for key, _ in lb.local():
                    comm.elapse(seconds_of(key, k, d))
            comm.barrier()
    lb.finish()
    return lb


def late(lb) -> float:
    """The time of the last iterations, relative to the bound: perfect balance of each phase."""
    m = lb.metrics
    return float(m.max[-10:].sum() / m.mean[-10:].sum())


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("p", [4, 8])
def test_auto_balances_each_phase(d, p):
    def main(comm):
        lb = program(comm, d)
        return late(lb), lb.history.lb_steps, {k: v.max_over_mean for k, v in lb.phases.items()}

    global P
    before, P = P, p
    try:
        found = pylb.VirtualCluster(p).run(main)
    finally:
        P = before
    ratio, steps, phases = found[0]
    assert ratio <= 1.02
    assert list(phases) == list(NAMES[:d])
    assert steps
    assert steps[0].by_sum > 1.05
    assert "VectorLB then placed the phases" in steps[0].why
    assert steps[0].before == pytest.approx(steps[0].max_over_mean, rel=0.05)


def test_the_sum_of_the_phases_is_not_enough():
    """A strategy that looks at one number balances the sum, and leaves each phase imbalanced."""

    def main(comm):
        return late(program(comm, 2, strategy="RefineLB", every=5))

    assert pylb.VirtualCluster(P).run(main)[0] > 1.3


def test_named_strategies_get_all_phases_or_the_sum():
    def main(comm):
        seen = []

        def stay(snapshot):
            seen.append(snapshot.load.shape)
            return snapshot.rank

        program(comm, 3, n=6, strategy=stay, every=3)
        vector = program(comm, 3, strategy="VectorLB", every=5)
        return seen, late(vector)

    seen, ratio = pylb.VirtualCluster(P).run(main)[0]
    assert set(seen) == {(P * EACH, 3)}
    assert ratio <= 1.02


def test_statistics_are_those_of_a_calculation_by_hand():
    every = loads(2).reshape(EACH, P, 2).sum(axis=0)  # (ranks, phases)

    def main(comm):
        lb = program(comm, 2, n=3, mode="off")
        report = lb.report()
        return lb.metrics, lb.phases, report, lb.rank_loads()

    metrics, phases, report, rank_loads = pylb.VirtualCluster(P).run(main)[0]
    assert metrics.max == pytest.approx(every.max(axis=0).sum(), rel=1e-3)
    assert metrics.mean == pytest.approx(every.sum(axis=1).mean(), rel=1e-3)
    assert metrics.min == pytest.approx(every.sum(axis=1).min(), rel=1e-3)
    assert rank_loads[0] == pytest.approx(every.sum(axis=1), rel=1e-3)
    for k, phase in enumerate(phases.values()):
        assert phase.max == pytest.approx(every[:, k].max(), rel=1e-3)
        assert phase.mean == pytest.approx(every[:, k].mean(), rel=1e-3)
    assert isinstance(report, Report)
    assert report.phases == {n: p.max_over_mean for n, p in phases.items()}
    assert "... in phase push" in str(report)
    assert report.mean_max_over_mean == pytest.approx(
        every.max(axis=0).sum() / every.sum(axis=1).mean(), rel=1e-3
    )


def test_what_lb_steps_saved_counts_phases():
    def main(comm):
        lb = program(comm, 2)
        return lb.metrics, lb.report()

    metrics, report = pylb.VirtualCluster(P).run(main)[0]
    without = loads(2).reshape(EACH, P, 2).sum(axis=0).max(axis=0).sum() * len(metrics.max)
    expected = without - metrics.max.sum() - report.lb_seconds
    assert report.saved == pytest.approx(expected, rel=0.05)
    assert sum(r.gain for r in report.history.lb_steps) == pytest.approx(
        without - metrics.max.sum(), rel=0.2
    )


def test_one_phase_is_the_same_as_none():
    def main(comm, named):
        lb = dealt(pylb.Balancer(comm, strategy="GreedyLB", every=4), range(P * EACH))
        for _ in lb.iterate(12):
            with lb.phase("all") if named else contextlib.nullcontext():
                for key, _ in lb.local():
                    comm.elapse(seconds_of(key, 0, 2))
        return lb.metrics.max, [r.predicted for r in lb.history.lb_steps]

    cluster = pylb.VirtualCluster(P)
    one, none = cluster.run(main, True)[0], cluster.run(main, False)[0]
    assert one[0] == pytest.approx(none[0], rel=1e-3)
    assert one[1] == pytest.approx(none[1], rel=1e-3)


def test_shadow_mode_and_replay_decide_like_the_run(tmp_path):
    path = str(tmp_path / "run.h5")

    def main(comm):
        lb = program(comm, 3, strategy="VectorLB", every=6)
        shadow = program(comm, 3, strategy="VectorLB", every=6, mode="shadow")
        lb.save(path)
        shadow.save(str(tmp_path / "shadow.h5"))
        return lb.metrics.max, lb.history.lb_steps, shadow.shadow.max, shadow.history.lb_steps

    most, steps, would, would_steps = pylb.VirtualCluster(P).run(main)[0]
    trace = pylb.Trace.load(path)
    assert trace.n_subphases == 3
    assert trace.recorded.phases == NAMES
    assert trace[0].load.shape == (P * EACH, 3)
    again = trace.replay("VectorLB", every=6)
    assert again.metrics["max"].tolist() == most.tolist()
    for one, other in zip(again.decisions.lb_steps, steps, strict=True):
        assert (one.predicted, one.before, one.gain) == (other.predicted, other.before, other.gain)
        assert one.migrations == other.migrations
    shadow = pylb.Trace.load(tmp_path / "shadow.h5").replay("VectorLB", every=6)
    assert shadow.metrics["max"].tolist() == would.tolist()
    assert [r.predicted for r in would_steps] == [r.predicted for r in shadow.decisions.lb_steps]
    assert would[-1] < 0.7 * most[0]


def test_the_automatic_choice_is_replayed_bit_for_bit(tmp_path):
    path = str(tmp_path / "run.h5")

    def main(comm):
        lb = program(comm, 2, every=8)
        lb.save(path)
        return lb.metrics.max, [(r.by_sum, r.predicted, r.strategy) for r in lb.history.lb_steps]

    most, steps = pylb.VirtualCluster(P).run(main)[0]
    again = pylb.Trace.load(path).replay(every=8)
    found = [(r.by_sum, r.predicted, r.strategy) for r in again.decisions.lb_steps]
    assert str(found) == str(steps)
    assert again.metrics["max"].tolist() == most.tolist()


def test_a_checkpoint_keeps_what_was_learned_of_the_phases(tmp_path):
    def begin(comm):
        lb = program(comm, 2, n=10, every=4, record=False)
        lb.checkpoint(tmp_path / "saved")
        return lb._objects.estimates.tolist()

    def go_on(comm):
        lb = pylb.Balancer.restore(comm, tmp_path / "saved", every=4)
        known = lb._objects.estimates.tolist()
        for _ in lb.iterate(4):
            for k in range(2):
                with lb.phase(NAMES[k]):
                    for key, _ in lb.local():
                        comm.elapse(seconds_of(key, k, 2))
        return known, late(lb)

    before = pylb.VirtualCluster(P).run(begin)
    for kept, (known, ratio) in zip(before, pylb.VirtualCluster(P).run(go_on), strict=True):
        assert known == kept
        assert ratio < 1.1


def wrong(comm, case: str) -> None:
    lb = pylb.Balancer(comm, load=(lambda key, block: 1.0) if case == "load" else None)
    lb.add(lb.rank, None)
    if case == "outside":
        lb.phase("push")
    for it in lb.iterate(3):
        names = ["push", "deposit"]
        if case == "ranks" and comm.rank == 1:
            names = ["deposit", "push"]
        if case == "iterations" and it == 2 and comm.rank == 1:
            names = ["push"]
        if case == "other" and it == 1:
            names = ["push", "fields"]
        if case == "many":
            names = [str(i) for i in range(9)]
        if case == "name":
            names = [3]
        for name in names:
            with lb.phase(name):
                if case == "within":
                    lb.phase("again").__enter__()
                for _ in lb.local():
                    comm.elapse(1e-3)
        if case == "beside":
            for _ in lb.local():
                comm.elapse(1e-3)


@pytest.mark.parametrize(
    ("case", "error", "words"),
    [
        ("ranks", DomainError, "phases differ between ranks in iteration 0: rank 0: push, deposit"),
        ("iterations", DomainError, "rank 1 ran other phases in iteration 2 than before: push;"),
        ("other", DomainError, "rank 0 ran other phases in iteration 1 than before: push, fields;"),
        ("many", DomainError, "phase '8' is one phase too many: expected at most 8"),
        ("within", StateError, r"phase\('again'\) within phase\('push'\): expected it after"),
        ("beside", DomainError, "s outside the phases"),
        ("outside", StateError, r"phase\(\) outside iterate\(\)"),
        ("load", StateError, r"phase\(\) with load="),
        ("name", DomainError, "phase is 3: expected a name"),
    ],
)
def test_wrong_phases_end_all_ranks_with_an_error(case, error, words):
    def main(comm):
        try:
            wrong(comm, case)
        except pylb.errors.PylbError as why:
            return str(why), type(why)
        return "no error", None

    found = pylb.VirtualCluster(2).run(main)
    assert any(kind is error for _, kind in found)
    assert any(re.search(words, said) for said, _ in found), found


def test_an_exception_ends_a_phase_and_its_time_counts():
    def main(comm):
        lb = pylb.Balancer(comm)
        lb.add(0, None)
        for _ in lb.iterate(2):
            try:
                with lb.phase("push"):
                    for _ in lb.local():
                        comm.elapse(2.0)
                    raise KeyError("caught")
            except KeyError:
                pass
            with lb.phase("deposit"):
                for _ in lb.local():
                    comm.elapse(1.0)
        return {name: phase.max.tolist() for name, phase in lb.phases.items()}

    found = pylb.VirtualCluster(1).run(main)[0]
    assert found["push"] == pytest.approx([2.0, 2.0], rel=1e-3)
    assert found["deposit"] == pytest.approx([1.0, 1.0], rel=1e-3)


def test_a_component_that_is_always_zero():
    def main(comm):
        lb = program(comm, 2, n=2, mode="off")
        for _ in lb.iterate(30):
            for name in NAMES[:2]:
                with lb.phase(name):
                    for key, _ in lb.local():
                        comm.elapse(seconds_of(key, 0, 2) if name == "push" else 0.0)
        return lb.phases["deposit"].max[2:].max(), lb.phases["deposit"].max_over_mean

    found = pylb.VirtualCluster(P).run(main)[0]
    assert found[0] < 1e-2
    assert math.isfinite(found[1])


# ---- a code that owns its data -----------------------------------------------------------------


def advised(comm, form: str, n: int = 60):
    lb = pylb.Advisor(comm)
    ids = np.arange(comm.rank, P * EACH, P)
    every = loads(2)
    for _ in lb.iterate(n):
        mine = every[ids]
        if form == "cells":
            plan = lb.advise(loads=mine, keys=ids)
        elif form == "seconds":
            plan = lb.advise(seconds=mine.sum(axis=0))
        else:
            for k in range(2):
                with lb.phase(NAMES[k]), lb.timed():
                    comm.elapse(float(mine[:, k].sum()))
            plan = lb.advise(loads=mine, keys=ids) if form == "both" else lb.advise()
        if plan:
            with lb.rebalancing():
                if plan.rank is not None:
                    ids = plan.migrate(ids)
    return lb


@pytest.mark.parametrize("form", ["cells", "both"])
def test_an_advisor_places_cells_by_phases(form):
    def main(comm):
        lb = advised(comm, form)
        return late(lb), list(lb.phases), lb.history.lb_steps[0].by_sum

    ratio, names, by_sum = pylb.VirtualCluster(P).run(main)[0]
    assert ratio <= 1.03
    assert names == (["0", "1"] if form == "cells" else list(NAMES[:2]))
    assert by_sum > 1.2


@pytest.mark.parametrize("form", ["seconds", "timed"])
def test_an_advisor_without_cells_decides_by_phases(form):
    every = loads(2).reshape(EACH, P, 2).sum(axis=0)

    def main(comm):
        lb = advised(comm, form, n=5)
        return lb.metrics.max, lb.phases

    most, phases = pylb.VirtualCluster(P).run(main)[0]
    assert most == pytest.approx(every.max(axis=0).sum(), rel=1e-3)
    assert [p.max[0] for p in phases.values()] == pytest.approx(every.max(axis=0), rel=1e-3)


def test_wrong_phases_of_an_advisor():
    lb = pylb.Advisor()
    with pytest.raises(DomainError, match=r"loads\[1, 1\] is nan: expected 0 ... 1e30"):
        lb.advise(loads=[[1.0, 2.0], [1.0, math.nan]])
    with pytest.raises(DomainError, match=r"seconds\[1\] is nan: expected 0 ... 1e30"):
        lb.advise(seconds=[1.0, math.nan])
    with pytest.raises(DomainError, match="seconds has 9 numbers: expected one for each"):
        lb.advise(seconds=np.ones(9))
    with pytest.raises(DomainError, match=r"loads has shape \(2, 9\): expected"):
        lb.advise(loads=np.ones((2, 9)))
    lb.advise(loads=np.ones((2, 2)))
    with pytest.raises(DomainError, match="rank 0 ran other phases in step 1 than before: none"):
        lb.advise(loads=np.ones(2))
    lagged = pylb.Advisor(lag=2)
    for _ in range(3):
        lagged.advise(loads=np.ones((2, 2)))
    with pytest.raises(DomainError, match="rank 0 ran other phases in step 3 than before: none"):
        lagged.advise(loads=np.ones(2))
    with pytest.raises(DomainError, match=r"load\[1, 0\] is nan"):
        pylb.Snapshot([[1.0, 2.0], [math.nan, 1.0]], [0, 1])
    other = pylb.Advisor()
    with other.timed():
        np.ones(10).sum()
    with pytest.raises(DomainError, match="s were timed outside the phases"):
        other.phase("push").__enter__()


# ---- vt's subphases ----------------------------------------------------------------------------


def vt_file(rank: int, tasks: dict[int, list[float]]) -> dict:
    """Return an LBDatafile with two phases, whose tasks have subphases (and 0.5 s beside them)."""
    entity = {"collection_id": 7, "home": rank, "migratable": True, "type": "object"}
    rows = [
        {
            "entity": {**entity, "id": key},
            "node": rank,
            "resource": "cpu",
            "time": sum(times) + 0.5 * (key == 0),
            "subphases": [{"id": i, "time": x} for i, x in enumerate(times)],
        }
        for key, times in tasks.items()
    ]
    phases = [{"id": i, "tasks": rows} for i in range(2)]
    return {
        "type": "LBDatafile",
        "metadata": {"type": "LBDatafile", "rank": rank},
        "phases": phases,
    }


def test_subphases_of_vt_are_loads_by_phase(tmp_path):
    pytest.importorskip("msgspec")
    tasks = [{0: [3.5, 1.0], 1: [4.0, 1.0]}, {2: [1.0, 3.0], 3: [1.0, 5.0]}]
    for rank, some in enumerate(tasks):
        (tmp_path / f"data.{rank}.json").write_text(json.dumps(vt_file(rank, some)))
    trace = pylb.Trace.load(tmp_path)
    assert trace.n_subphases == 2
    assert trace[0].load.tolist() == [[4.0, 1.0], [4.0, 1.0], [1.0, 3.0], [1.0, 5.0]]
    # by hand: the slowest rank takes 8 s, then 8 s; exchanging 1 and 3 leaves 5 s and 6 s; neither
    # subphase can take less than (4 + 4 + 1 + 1) / 2 = (1 + 1 + 3 + 5) / 2 = 5 s
    assert trace.replay("none").metrics["max"].tolist() == [16.0, 16.0]
    best = trace.optimum("VectorLB", cost=0.0)
    assert best.bound == 16.0 + 10.0
    assert best.time == 16.0 + 11.0
    moved = trace.replay("VectorLB", every=1, cost=0.0)
    assert moved.metrics["max"].tolist() == [16.0, 11.0]
    assert trace.replay("GreedyLB", every=1, cost=0.0).metrics["max"].tolist()[0] == 16.0
    # written again, also from arrays alone
    pylb.Trace.from_snapshots(list(trace)).save(tmp_path / "again")
    again = pylb.Trace.load(tmp_path / "again")
    assert again.task_subphases.tolist() == trace.task_subphases.tolist()
    assert again.optimum("VectorLB", cost=0.0).bound == best.bound


def test_subphases_that_take_longer_than_their_task(tmp_path):
    pytest.importorskip("msgspec")
    wrong = vt_file(0, {1: [1.0, 1.0]})
    wrong["phases"][1]["tasks"][0] = {**wrong["phases"][1]["tasks"][0], "time": 1.5}
    (tmp_path / "data.0.json").write_text(json.dumps(wrong))
    with pytest.raises(FormatError, match="the subphases of object 1 take 2 s: expected at most"):
        pylb.Trace.load(tmp_path)


def test_more_than_8_subphases_are_left_out_with_a_warning(tmp_path, caplog):
    pytest.importorskip("msgspec")
    (tmp_path / "data.0.json").write_text(json.dumps(vt_file(0, {1: [1.0] * 9})))
    trace = pylb.Trace.load(tmp_path)
    assert (trace.n_subphases, trace[0].load.tolist()) == (0, [9.0])
    assert [r.message for r in caplog.records] == [
        f"pylb: {tmp_path / 'data.0.json'} and other ranks: tasks have 9 subphases, more than 8: "
        "only their whole times are used"
    ]


def test_the_page_and_the_record_show_each_phase(tmp_path):
    def main(comm):
        lb = program(comm, 2, n=6, mode="off")
        lb.report(tmp_path / "run.html")
        lb.save(tmp_path / "run.h5")
        return lb.phases

    phases = pylb.VirtualCluster(P).run(main)[0]
    record = pylb.RunRecord.load(tmp_path / "run.h5")
    for name, phase in record.phase_metrics.items():
        assert phase.max == pytest.approx(phases[name].max)
        assert phase.mean == pytest.approx(phases[name].mean)
    pylb.report(record, tmp_path / "again.html")
    for page in ("run.html", "again.html"):
        text = (tmp_path / page).read_text()
        assert f'"max/mean of phase push","{phases["push"].max_over_mean:.3f}"' in text
        assert f"{record.max.sum() / record.mean.sum():.3f}"[:4] in text


# ---- two kinds of processor: phases with clocks of their own, given seconds, speeds by phase ---


class Device:
    """A device that computes while the rank does other things, and counts its seconds."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed, self.seconds = speed, 0.0

    def compute(self, work: float) -> None:
        self.seconds += work / self.speed

    def clock(self) -> float:
        return self.seconds


def cpu_of(key: int) -> float:
    return 1.0 + (key % P < P // 2) * 4.0


def gpu_of(key: int) -> float:
    return 1.0 + (key % P >= P // 2) * 4.0


def devices(comm, n: int = 40, speeds=(1.0,) * P, gives=False, cpu=cpu_of, **options):
    lb, device = pylb.Balancer(comm, **options), Device(speeds[comm.rank])
    dealt(lb, range(P * EACH))
    for _ in lb.iterate(n):
        with lb.phase("cpu"):
            for key, _ in lb.local():
                comm.elapse(cpu(key))
        with lb.phase("gpu", clock=None if gives else device.clock):
            for key, _ in lb.local():
                before = device.clock()
                device.compute(gpu_of(key))
                if gives:
                    comm.elapse(9.0)  # waits for the device; does not count
                    lb.load(key, gpu=0.0)
                    lb.load(key, gpu=device.clock() - before)
    lb.finish()
    return lb


@pytest.mark.parametrize("gives", [False, True])
def test_the_seconds_of_a_device_are_balanced_beside_those_of_the_rank(gives):
    def main(comm):
        lb = devices(comm, gives=gives)
        return {name: (m.max, m.mean) for name, m in lb.phases.items()}

    found = pylb.VirtualCluster(P).run(main)[0]
    assert list(found) == ["cpu", "gpu"]
    for (most, mean), of in zip(found.values(), (cpu_of, gpu_of), strict=True):
        whole = [sum(of(key) for key in range(r, P * EACH, P)) for r in range(P)]
        assert most[0] == pytest.approx(max(whole), rel=1e-3)
        assert mean == pytest.approx(np.mean(whole), rel=1e-3)
        assert most[-1] <= 1.03 * np.mean(whole)


def test_speeds_are_learned_for_each_phase(tmp_path):
    """The device of rank 0 is four times as fast; its processor is like the others."""
    path = str(tmp_path / "run.h5")

    def main(comm, learns):
        slow = {"cpu": lambda key: 3.0, "speeds": (4.0, 1.0, 1.0, 1.0)}
        lb = devices(comm, every=10, learn_speeds=learns, **slow)
        if learns:
            lb.save(path)
        steps = [(r.predicted, r.realised, r.by_sum, r.migrations) for r in lb.history.lb_steps]
        return lb.metrics.max, steps

    most, steps = pylb.VirtualCluster(P).run(main, True)[0]
    # best: 24 objects on each rank; on rank 0 24 of the 48 that take 5 s on a usual device
    assert most[-1] <= 1.02 * (3.0 * EACH + (24 * 5.0 + 48 * 1.0) / 3)
    for predicted, realised, *_ in steps[1:]:
        assert predicted == pytest.approx(realised, rel=0.01)
    without = pylb.VirtualCluster(P).run(main, False)[0][0]
    assert without[11:].mean() > 1.02 * most[-1]
    again = pylb.Trace.load(path).replay(every=10, learn_speeds=True)
    found = [(r.predicted, r.realised, r.by_sum, r.migrations) for r in again.decisions.lb_steps]
    assert str(found) == str(steps)
    assert again.metrics["max"].tolist() == most.tolist()


def alone(call, clock=None, n_objects: int = 1) -> list[float]:
    """Run two iterations of one rank; return the seconds of its phase in each."""
    lb = dealt(pylb.Balancer(), range(n_objects))
    for _ in lb.iterate(2):
        with lb.phase("gpu", clock=clock):
            call(lb)
            for _ in lb.local():
                pass
    return lb.phases["gpu"].max.tolist()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda lb: lb.load(0, gpu=math.nan),
            DomainError,
            "load of object 0 in phase 'gpu' is nan",
        ),
        (lambda lb: lb.load(0, gpu="x"), DomainError, "in phase 'gpu' is 'x': expected a finite"),
        (lambda lb: lb.load(0, cpu=1.0), StateError, r"load\(0, cpu=...\): expected it within"),
        (lambda lb: lb.load(7, gpu=1.0), UnknownKeyError, "key 7: no such object on rank 0"),
    ],
)
def test_wrong_seconds(call, error, words):
    with pytest.raises(error, match=words):
        alone(call)


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (lambda: "late", "clock returned 'late': expected seconds"),
        (lambda: math.nan, "load of object 0 in phase 'gpu' is nan"),
        (iter([2.0, 1.0]).__next__, "load of object 0 in phase 'gpu' is -1.0"),
        (7, "clock is 7: expected a function that returns seconds, or 'cuda'"),
    ],
)
def test_wrong_clocks(clock, words):
    with pytest.raises(DomainError, match=re.escape(words)):
        alone(lambda _: None, clock)


# A stand-in for CuPy on a machine without a device: its events are the numbers of calls.
CUPY = """
class Event:
    n = 0
    def record(self):
        Event.n += 1
        self.ms, self.done = 1000.0 * Event.n, False
    def synchronize(self):
        self.done = True

class cuda:
    Event = Event
    @staticmethod
    def get_elapsed_time(begin, end):
        assert end.done
        return end.ms - begin.ms
    class runtime:
        @staticmethod
        def getDeviceCount():
            {count}
"""


@pytest.fixture
def with_cupy(tmp_path, monkeypatch):
    """Return a function that installs the stand-in; PyTorch and Numba are as if absent."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("torch", "numba") else real(name)
    )

    def install(count: str) -> None:
        (tmp_path / "cupy.py").write_text(CUPY.format(count=count))
        monkeypatch.syspath_prepend(tmp_path)

    yield install
    sys.modules.pop("cupy", None)
    cuda_clock.cache_clear()


def test_events_of_a_library(with_cupy):
    with_cupy("return 1")
    assert alone(lambda _: None, "cuda", 3) == [3.0, 3.0]


@pytest.mark.parametrize("count", ["return 0", "raise RuntimeError('no driver')"])
def test_a_library_without_a_device(with_cupy, count):
    with_cupy(count)
    with pytest.raises(StateError, match="clock is 'cuda', but CuPy found no CUDA device"):
        alone(lambda _: None, "cuda")


def test_no_library(with_cupy):
    with pytest.raises(MissingPartError, match="none of CuPy, PyTorch and Numba is installed"):
        alone(lambda _: None, "cuda")
