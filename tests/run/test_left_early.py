"""Loops that all ranks leave by break: their last iterations are in the file and in the results."""

import math

import pytest

import pylb
from pylb.errors import DomainError
from pylb.run.local_objects import NewObjects, Store
from pylb.run.records import Records
from pylb.show import course, page

ENDS = {
    "finish": lambda lb, path: lb.finish(),
    "report": lambda lb, path: lb.report(path / "report.json"),
    "rank_loads": lambda lb, path: lb.rank_loads(),
}


def objects(comm, **words):
    """Run 60 of 100 iterations of a Balancer."""
    lb = pylb.Balancer(comm, strategy="GreedyLB", every=7, **words)
    for key in range(8 * comm.rank, 8 * comm.rank + 8):
        lb.add(key, None)
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


@pytest.mark.parametrize(("owner", "name", "before"), [(Store, "set", True), (Store, "set", False)])
@pytest.mark.parametrize("lag", [0, 2])
def test_after_an_interrupt_no_object_is_lost_or_twice(monkeypatch, owner, name, before, lag):
    lb = pylb.Balancer(strategy="GreedyLB", every=2, lag=lag)
    for key in range(8):
        lb.add(key, None)
    lb.remove(3)
    ends_early(monkeypatch, owner, name, before)
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
    new = NewObjects(0)
    new.add(1, "one", {})
    new.update(2, {"nbytes": 7, "memory": 8})  # an addition that was interrupted
    new.add(2, "two", {"nbytes": 5})
    new.update(3, {"nbytes": 7})
    new.update(4, {"nbytes": 7})
    new.add(4, "four", {})
    items = new.items(1)
    assert items.objects.key.tolist() == [1, 2, 4]
    assert items.values == ["one", "two", "four"]
    assert items.objects["nbytes"].tolist() == [0, 5, 0]
    assert items.objects["memory"].tolist() == [-1, -1, -1]
