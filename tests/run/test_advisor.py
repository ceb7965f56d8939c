"""The advisor of a code that owns its data, on one rank and on virtual ranks."""

import contextlib
import json
import logging
import math
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pylb
from pylb.errors import (
    DomainError,
    DuplicateKeyError,
    PylbError,
    RemoteError,
    StateError,
    StrategyError,
    UnknownKeyError,
    UnknownStrategyError,
    UnknownTriggerError,
)


def on(ranks, program, **kwargs):
    """Run a program on virtual ranks; return the result of each."""
    return pylb.VirtualCluster(ranks, clock="none", **kwargs).run(program)


def drifting(comm, steps=120, cost=1.0, own=False, **given):
    """Ask only when to rebalance: the work of higher ranks grows faster until an LB step."""
    lb = pylb.Advisor(comm, **given)
    mine = 1.0
    for _ in range(steps) if own else lb.iterate(steps):
        mine *= 1.0 + 0.02 * comm.rank
        if lb.advise(seconds=mine):
            mine = 1.0
            lb.rebalanced(cost)
    if own:
        lb.finish()
    return lb


def test_one_process_may_tell_the_seconds_of_all_ranks():
    def own(told):
        def program(comm):
            given = {"ranks": 5} if told else {"comm": comm}
            lb, work = pylb.Advisor(**given), np.ones(5)
            for _ in range(120):
                work *= 1.0 + 0.02 * np.arange(5)
                if lb.advise(seconds=work if told else work[comm.rank]):
                    lb.rebalanced(1.0)
                    work = np.ones(5)
            lb.finish()
            return [vars(receipt) for receipt in lb.history], lb.metrics.max.tolist()

        return program

    told = own(True)(None)
    assert repr(told) == repr(on(5, own(False))[0])
    assert len(told[0]) > 2
    lb = pylb.Advisor(ranks=3)
    for call, message in [
        (lambda: pylb.Advisor(ranks=0), "ranks is 0: expected a number of ranks, 1"),
        (lambda: pylb.Advisor(cost=0.2), "cost is 0.2: expected cost only together with ranks="),
        (lambda: pylb.Advisor(ranks=3, cost=-1), "cost is -1"),
        (lambda: pylb.Advisor(ranks=3, lag=2), "lag is 2: expected 0 with ranks="),
        (lambda: pylb.Advisor(pylb.virtual, ranks=3), "comm"),
        (lambda: lb.advise(), "seconds is None: expected one number for each of 3 ranks"),
        (lambda: lb.advise(seconds=1.0), r"seconds has shape \(\): expected \(3,\)"),
        (lambda: lb.advise(seconds=[1, -1, 1]), r"seconds\[1\] is -1: expected 0"),
        (lambda: lb.advise(loads=[1.0]), "cells are given with ranks="),
        (lambda: lb.rank_loads(), r"rank_loads\(\) needs the other ranks"),
        (lambda: lb.share(np.sin, [1.0]), r"share\(\) needs the other ranks"),
    ]:
        with pytest.raises(PylbError, match=message):
            call()


def test_a_redistribution_between_neighbours_is_repeated_while_it_pays():
    """An LB step of this program moves a third of the difference to each neighbour."""

    def seconds(partial, steps=300):
        lb, spent, noise = pylb.Advisor(ranks=8), 0.0, np.random.default_rng(0)
        work = np.array([4.0, *[1.0] * 7])
        for _ in lb.iterate(steps):
            now = work * (1.0 + 0.02 * noise.standard_normal(8))
            spent += now.max()
            if lb.advise(seconds=now, partial=partial):
                lb.rebalanced(0.5)
                spent += 0.5
                flow = np.diff(work, prepend=work[0], append=work[-1]) / 3
                work = work + np.diff(flow)
        return spent / (work.mean() * steps)

    assert seconds(True) < 1.4
    assert seconds(True) < 0.75 * seconds(False)
    with pytest.raises(PylbError, match="partial is True, and cells are given"):
        pylb.Advisor().advise(loads=[1.0], partial=True)


def hot(keys, step, n):
    """Return loads with a hot spot that moves."""
    return 1.0 + 9.0 * np.exp(-((((keys - 0.25 * step) % n) - n / 2) ** 2) / 40.0)


class Cells:
    """The cells of a rank, with their data and properties."""

    def __init__(self, comm, n=64):
        self.comm, self.n = comm, n
        self.keys = np.array_split(np.arange(n), comm.size)[comm.rank]
        self.fill()

    def fill(self):
        self.x = 10.0 * self.keys
        self.rows = np.repeat(self.keys, self.keys % 3)
        self.start = np.concatenate([[0], np.cumsum(self.keys % 3)])
        self.words = [f"cell {key}" for key in self.keys]

    def check(self):
        assert np.array_equal(self.x, 10.0 * self.keys)
        assert np.array_equal(self.rows, np.repeat(self.keys, np.diff(self.start)))
        assert self.words == [f"cell {key}" for key in self.keys]

    def advise(self, lb, at, **more):
        loads = hot(self.keys, at, self.n)
        edges = self.keys, (self.keys + 1) % self.n, np.full(len(self.keys), 8.0)
        return lb.advise(
            loads=loads, keys=self.keys, nbytes=np.full(len(loads), 80), edges=edges, **more
        )

    def move(self, plan):
        stay = self.keys[plan.rank == self.comm.rank]
        expected = np.sort(np.concatenate([stay, *plan.imports.values()]))
        for rank, index in plan.exports.items():
            assert (plan.rank[index] == rank).all()
            assert rank != self.comm.rank
        self.x, self.keys = plan.migrate(self.x, self.keys)
        self.rows, self.start = plan.migrate(self.rows, offset=self.start)
        self.words = plan.migrate(self.words)
        assert np.array_equal(np.sort(self.keys), expected)
        self.check()


def wandering(comm, steps=120, own=False, **given):
    """Ask when and where, for cells with a hot spot that moves."""
    lb, cells = pylb.Advisor(comm, **given), Cells(comm)
    for step in range(steps) if own else lb.iterate(steps):
        if plan := cells.advise(lb, step, **({"step": 10 * step} if own else {})):
            with lb.rebalancing():
                cells.move(plan)
    if own:
        lb.finish()
    return lb


# ---- what works ---------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_when_only(ranks, own):
    every = on(ranks, lambda comm: drifting(comm, own=own))
    first = every[0]
    assert first.n_lb_steps >= 3
    assert all(lb.history == first.history for lb in every)
    assert first.report().mean_max_over_mean < (1.5 if own else 1.3)
    assert first.report().strategy == "own"
    assert [r.seconds for r in first.history.lb_steps] == [1.0] * first.n_lb_steps
    assert all(r.predicted < r.before for r in first.history.lb_steps)
    assert "own" in first.explain()
    assert len(first.metrics.time) == 120


def test_a_single_rank_gets_no_advice():
    lb = pylb.Advisor(clock="wall")  # the clock "auto" might count such short times as waits
    for _ in lb.iterate(30):
        with lb.timed():
            pass
        with lb.timed():
            pass
        assert lb.advise() is None
    assert lb.n_lb_steps == 0
    assert (lb.metrics.max > 0).all()
    assert (lb.metrics.time >= lb.metrics.max).all()
    assert (lb.rank, lb.n_ranks, lb.iteration) == (0, 1, 30)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"strategy": "GreedyLB", "every": 10},
        {"strategy": "rcb", "every": 20},
        {"strategy": "graph", "every": 20},
        {"strategy": pylb.strategy("metis", imbalance=1.1), "every": 20},
        {"strategy": lambda s: (s.rank + 1) % s.n_ranks, "every": 7},
    ],
)
def test_when_and_where(ranks, given):
    if given.get("strategy") in ("rcb", "graph") and not pylb.partitioning.libraries.available(
        "Zoltan"
    ):
        pytest.skip("needs Zoltan")

    def program(comm):
        lb, cells = pylb.Advisor(comm, **given), Cells(comm)
        for step in lb.iterate(60):
            coords = np.stack([cells.keys, cells.keys % 8], axis=1)
            if plan := cells.advise(lb, step, coords=coords):
                with lb.rebalancing():
                    cells.move(plan)
        return lb

    every = on(ranks, program)
    assert all(lb.history == every[0].history for lb in every)
    if ranks > 1 and given:
        assert every[0].n_lb_steps >= 60 // given["every"] - 1
        assert every[0].report().migrations > 0


def test_a_strategy_does_what_pylb_place_does():
    def program(comm):
        lb, cells = pylb.Advisor(comm, strategy="GreedyLB", every=1), Cells(comm)
        plan = cells.advise(lb, 0)
        return dict(zip(cells.keys.tolist(), plan.rank.tolist(), strict=True)), plan

    found, plans = zip(*on(3, program), strict=True)
    found = {key: rank for part in found for key, rank in part.items()}
    owner = np.repeat(np.arange(3), [len(p) for p in np.array_split(np.arange(64), 3)])
    snapshot = pylb.Snapshot(load=hot(np.arange(64), 0, 64), rank=owner, n_ranks=3)
    placed = pylb.place(snapshot, "GreedyLB")
    assert [found[key] for key in range(64)] == placed.rank.tolist()
    assert {plan.migrations for plan in plans} == {placed.migrations}
    assert {plan.nbytes for plan in plans} == {80 * placed.migrations}


def test_fixed_cells_stay_and_keys_may_be_left_out():
    def program(comm):
        lb = pylb.Advisor(comm, strategy="GreedyLB", every=1)
        n = 10 if comm.rank == 0 else 0
        migratable = np.arange(n) >= 6
        plan = lb.advise(loads=np.ones(n), migratable=migratable)
        assert plan
        came = plan.migrate(np.arange(n))
        return plan.rank[:6].tolist(), came.tolist(), plan.imports, repr(plan)

    one, two = on(2, program)
    assert one[0] == [0] * 6
    assert sorted(one[1] + two[1]) == list(range(10))
    assert two[1] == two[2][0].tolist()  # keys from rank and index
    assert "cells move" in one[3]


# ---- loads that are not measured one by one -----------------------------------------------------


def test_weights_have_any_unit():
    def program(comm, scale):
        lb, cells = pylb.Advisor(comm, strategy="GreedyLB", every=5), Cells(comm)
        out = []
        for step in lb.iterate(20):
            loads = hot(cells.keys, step, cells.n)
            plan = lb.advise(weights=scale * loads, seconds=loads.sum(), keys=cells.keys)
            if plan:
                cells.move(plan)
            out.append(loads.sum())
        assert lb.rank_loads()[:, comm.rank].tolist() == out
        return [r.predicted for r in lb.history.lb_steps], lb.coefficients

    for scale in (1.0, 1e6):
        for predicted, coefficients in on(3, lambda comm, scale=scale: program(comm, scale)):
            assert len(predicted) == 3
            assert max(predicted) < 1.1
            assert coefficients == pytest.approx([1 / scale])


def test_features_are_fitted():
    def program(comm):
        lb, cells = pylb.Advisor(comm, strategy="GreedyLB", every=10), Cells(comm)
        for step in lb.iterate(31):
            particles = np.round(hot(cells.keys, step, cells.n) * 10)
            features = np.stack([particles, np.ones_like(particles)], axis=1)
            seconds = (3e-3 * particles + 5e-2).sum()
            plan = lb.advise(features=features, seconds=seconds, keys=cells.keys)
            if plan:
                cells.move(plan)
        return lb.coefficients

    for found in on(3, program):
        assert found == pytest.approx([3e-3, 5e-2])


# ---- a mesh that changes ------------------------------------------------------------------------


def refined(cells, first):
    """Divide the cells `first` ... first + 5 into 4 parts each; return cells and their parents."""
    hot = (first <= cells) & (cells < first + 6)
    parents = np.repeat(np.arange(len(cells)), np.where(hot, 4, 1))
    part = np.arange(len(parents)) - np.searchsorted(parents, parents)
    return np.where(hot[parents], 1000 * cells[parents] + part, cells[parents]), parents


def adaptive(comm, **given):
    """Rebalance in each step in which the mesh changes, before the new cells were computed.

    The cells are 1 ... 24, the parts of cell c are 1000 c ...; each part costs as much as the cell.
    """
    lb = pylb.Advisor(comm, strategy="GreedyLB", every=4, **given)
    cells = 1 + np.array_split(np.arange(24), comm.size)[comm.rank]
    for step in lb.iterate(16):
        loads = 1.0 + np.where(cells < 1000, cells, cells // 1000) % 5
        if step % 4 == 3:
            cells, parents = refined(cells, 1 + 3 * (step // 2))
            loads = lb.inherit(loads, parents, np.arange(len(cells)), split=False)
        if plan := lb.advise(loads=loads, keys=cells):
            cells = plan.migrate(cells)
    return lb


def test_new_cells_have_the_loads_of_their_parents():
    inherit = pylb.Advisor.inherit
    loads, parents, children = [1.0, 4.0, 2.0, 4.0], [0, 1, 1, 2, 3], [3, 0, 1, 2, 2]
    assert inherit(loads, parents, children).tolist() == [2.0, 2.0, 6.0, 1.0]
    assert inherit(loads, parents, children, split=False).tolist() == [4.0, 4.0, 3.0, 1.0]
    phases = np.stack([loads, np.zeros(4)], axis=1)
    assert inherit(phases, parents, children).tolist() == [[2, 0], [2, 0], [6, 0], [1, 0]]
    assert inherit([], [], []).shape == (0,)
    assert inherit(np.zeros((0, 3)), [], []).shape == (0, 3)
    for wrong, says in (
        (([1.0], [0, 1], [0, 1]), "indices 0 ... 1 and 0 ... 1: expected pairs of 0 ... 0"),
        (([1.0], [0], [-1]), "number of new cells"),
        (([1.0], [0], [1]), "new cell 0 has no parent"),
        (([1.0], [0, 0], [1]), r"shapes \(2,\) and \(1,\)"),
        ((1.0, [0], [0]), "loads"),
        (([1.0], [0.5], [0]), "parents has dtype float64"),
    ):
        with pytest.raises(DomainError, match=says):
            inherit(*wrong)


def test_a_changed_mesh_is_balanced_before_it_is_computed(tmp_path):
    """As the loads of the new cells are right, the predicted max/mean is that of the next step."""

    def program(comm):
        lb = adaptive(comm)
        lb.save(tmp_path / "run.h5")
        return lb

    lb = on(3, program)[0]
    ratio = lb.metrics.max / lb.metrics.mean
    steps = lb.history.lb_steps
    assert [r.iteration for r in steps] == [3, 7, 11]
    assert [r.predicted for r in steps] == pytest.approx([ratio[r.iteration + 1] for r in steps])
    assert max(r.predicted for r in steps) < 1.05 < 1.5 < steps[0].before
    trace = pylb.Trace.load(tmp_path / "run.h5")
    again = trace.replay("GreedyLB", every=4)
    assert [r.predicted for r in again.lb_steps[:1]] == pytest.approx([steps[0].predicted])
    shadow = on(3, lambda comm: adaptive(comm, mode="shadow"))[0]
    assert [r.iteration for r in shadow.history.lb_steps] == [3, 7, 11]
    assert shadow.shadow.max.sum() < shadow.metrics.max.sum()


# ---- modes, records -----------------------------------------------------------------------------


def test_off_measures_only_and_shadow_tells_what_would_have_been_saved():
    for lb in on(3, lambda comm: drifting(comm, mode="off")):
        assert lb.n_lb_steps == 0
        assert not lb.history
        assert len(lb.metrics.max) == 120
    for lb in on(3, lambda comm: wandering(comm, mode="shadow")):
        assert lb.n_lb_steps > 0
        assert lb.report().saved > 0
        assert lb.shadow.max.sum() < lb.metrics.max.sum()


@pytest.mark.parametrize("own", [False, True])
def test_a_record_is_replayed_with_other_strategies(tmp_path, own):
    path = tmp_path / "run.h5"

    def program(comm):
        record = {"record": path} if own else {}
        lb = wandering(comm, every=15, strategy="RefineLB", own=own, **record)
        if not own:
            lb.save(path)
        lb.report(tmp_path / "run.json")
        lb.report(tmp_path / "run.html")
        return lb

    first = on(3, program)[0]
    run = pylb.RunRecord.load(path)
    assert run.n_iterations == 120
    assert np.array_equal(run.max, first.metrics.max)
    assert run.history == first.history
    assert run.parameters["strategy"] == "RefineLB"
    trace = pylb.Trace.load(path)
    assert trace.n_entities == 64
    plain, better = trace.replay("none"), trace.replay("GreedyLB", every=5)
    assert better.metrics["max"].sum() < plain.metrics["max"].sum()
    said = json.loads((tmp_path / "run.json").read_text())
    assert said["migrations"] == first.report().migrations
    assert "<html" in (tmp_path / "run.html").read_text()


def test_a_record_of_when_only_has_an_object_a_rank(tmp_path):
    def program(comm):
        lb = drifting(comm, steps=60, record=tmp_path / "run.h5")
        return lb.rank_loads()

    loads = on(3, program)[0]
    run = pylb.RunRecord.load(tmp_path / "run.h5")
    assert run.n_iterations == 60
    assert np.array_equal(np.concatenate([s.load for s in run.stretches]), loads)
    assert run.parameters["strategy"] == "own"


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_an_lb_step_that_is_advised_in_the_last_step_of_a_loop(cells, leaves):
    def program(comm):
        lb, mine = pylb.Advisor(comm, every=2), Cells(comm)
        for _ in range(3):
            for step in lb.iterate(2 + leaves):
                plan = mine.advise(lb, step) if cells else lb.advise(seconds=1.0 + comm.rank)
                if plan:
                    with lb.rebalancing():
                        if cells:
                            mine.move(plan)
                    if leaves:
                        break
        lb.finish()
        return [receipt.iteration for receipt in lb.history if receipt.cost > 0]

    assert on(2, program) == [[1, 3]] * 2


# ---- costs that must not be learned -------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("empty block", {"the plan of step 4 was not carried out": 2, "cost is not learned": 1}),
        ("cells", {"its cost is not learned": 1}),
        ("seconds", {"its cost is not learned": 1}),
        ("not timed", {"not timed": 2}),
    ],
)
def test_an_advice_that_is_ignored_or_not_timed(caplog, how, said):
    def program(comm):
        strategy = "auto" if how in ("cells", "seconds") else "GreedyLB"
        lb, mine = pylb.Advisor(comm, every=5, strategy=strategy), Cells(comm)
        for step in lb.iterate(20):
            if how == "seconds":
                lb.advise(seconds=1.0 + comm.rank)
            elif (plan := mine.advise(lb, step)) and how == "empty block":
                with lb.rebalancing():
                    pass
            elif plan and how == "not timed":
                mine.keys = pylb.migrate(comm, mine.keys, to=plan.rank)
        return lb

    with caplog.at_level(logging.WARNING, "pylb"):
        assert on(2, program)[0].n_lb_steps == 0
    told = [record.getMessage() for record in caplog.records]
    assert {text: sum(text in one for one in told) for text in said} == said


# ---- errors -------------------------------------------------------------------------------------


def raised(program, ranks=3):
    """Return the errors of the ranks, by rank."""

    def caught(comm):
        try:
            program(comm)
        except PylbError as why:
            return why
        return None

    return on(ranks, caught)


def by_one(call, normal):
    """Return a program in which rank 1 calls `call` in step 2; all other calls are `normal`."""

    def program(comm):
        lb = pylb.Advisor(comm, strategy="GreedyLB", every=3)
        for step in lb.iterate(4):
            (call if step == 2 and comm.rank == 1 else normal)(lb)

    return program


def with_cells(**change):
    def call(lb):
        keys = 4 * lb.rank + np.arange(4)
        lb.advise(**{"loads": np.ones(4), "keys": keys} | change)

    return call


def with_edges(to=None, nbytes=8.0, messages=1.0):
    def call(lb):
        keys = 4 * lb.rank + np.arange(4)
        edges = keys, keys if to is None else to, nbytes * np.ones(4), messages * np.ones(4)
        lb.advise(loads=np.ones(4), keys=keys, edges=edges)

    return call


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (with_cells(keys=np.arange(3)), DomainError, r"keys has shape \(3,\): expected \(4,\)"),
        (with_cells(keys=np.zeros(4, int)), DuplicateKeyError, "key 0 is given "),
        (with_cells(keys=np.arange(4)), DuplicateKeyError, "key 0 is given on ranks 0 and 1"),
        (with_cells(loads=[1, 2, -1, 1]), DomainError, r"loads\[2\] is -1"),
        (with_cells(loads=[1, math.nan, 1, 1]), DomainError, r"loads\[1\] is -?nan"),
        (with_cells(loads=[1, math.inf, 1, 1]), DomainError, r"loads\[1\] is inf"),
        (with_cells(loads=np.ones((2, 2, 2))), DomainError, r"loads has shape \(2, 2, 2\)"),
        (with_cells(loads=np.ones((4, 2))), DomainError, "rank 1 ran other phases in step 2"),
        (with_cells(loads="many"), DomainError, "loads: expected an array"),
        (with_cells(nbytes=[1, 2]), DomainError, "nbytes has shape"),
        (with_cells(coords=np.zeros((4, 4))), DomainError, "coords has shape"),
        (with_cells(coords=np.zeros((4, 2))), DomainError, "arguments differ between ranks"),
        (with_cells(keys=None), DomainError, "arguments differ between ranks"),
        (with_cells(weights=np.ones(4)), DomainError, "expected only one of them"),
        (with_cells(seconds=1.0), DomainError, "seconds and loads"),
        (with_cells(loads=None), DomainError, "without cells, after steps with cells"),
        (with_cells(loads=None, keys=None, seconds=1.0), DomainError, "after steps with cells"),
        (with_cells(step=7), StateError, "different places"),
        (
            with_edges(messages=np.array([1, 1.5, 1, 1])),
            DomainError,
            r"messages\[1\] is 1.5: expected",
        ),
        (
            with_edges(nbytes=np.array([1, math.nan, 1, 1])),
            DomainError,
            "expected bytes and messages from 0 to",
        ),
        (with_edges(to=np.arange(4) + 99), UnknownKeyError, "no rank has a cell 99"),
        (lambda lb: None, StateError, r"rank 1: advise\(\) was not called in step 2"),
    ],
)
def test_an_error_of_one_rank_is_raised_on_all(call, error, says):
    normal = with_edges() if "with_edges" in call.__qualname__ else with_cells()
    for rank, why in enumerate(raised(by_one(call, normal))):
        assert type(why) is error, (rank, why)
        assert re.search(says.removeprefix("rank 1: ") if rank == 1 else says, str(why))


@pytest.mark.parametrize(
    ("edges", "keys", "says"),
    [
        ((np.array([99]), np.array([1]), [1.0]), True, "source 99 is not a cell of rank"),
        ((np.array([]), np.array([]), []), False, "edges without keys"),
        ((np.array([0]), np.array([1])), True, "expected \\(source keys"),
    ],
)
def test_edges_are_checked(edges, keys, says):
    lb = pylb.Advisor()
    with pytest.raises(PylbError, match=says):
        lb.advise(loads=np.ones(4), keys=np.arange(4) if keys else None, edges=edges)


def test_blocks_are_not_nested():
    lb = pylb.Advisor()
    with (
        lb.timed(),
        pytest.raises(StateError, match=r"timed\(\) inside a timed\(\) block"),
        lb.timed(),
    ):
        pass
    with (
        lb.timed(),
        pytest.raises(StateError, match=r"advise\(\) inside a timed\(\) block"),
    ):
        lb.advise()
    with pytest.raises(StateError, match="has not advised"), lb.rebalancing():
        pass
    with pytest.raises(StateError, match="has not advised"):
        lb.rebalanced(1.0)


def test_a_block_that_raises_does_not_count():
    """Neither as work nor as a redistribution; for `RowPartition.timed` see test_rows.py."""

    def work(comm):
        comm.elapse(5.0)
        raise ZeroDivisionError

    def fails(comm, block):
        with pytest.raises(ZeroDivisionError), block:
            work(comm)

    def main(comm):
        lb = pylb.Advisor(comm, every=1)
        for _ in lb.iterate(4):
            fails(comm, lb.timed())
            with lb.timed():
                comm.elapse(1.0)
            if lb.advise():
                fails(comm, lb.rebalancing())
        return lb.metrics.max.tolist(), lb.n_lb_steps

    for loads, n in pylb.VirtualCluster(2, clock="none").run(main):
        assert loads == [1.0] * 4
        assert n == 0


def test_seconds_are_timed_or_given():
    lb = pylb.Advisor()
    with pytest.raises(DomainError, match="the step has no seconds"):
        lb.advise()
    with pytest.raises(ZeroDivisionError), lb.timed():
        raise ZeroDivisionError  # closes the block, which does not count
    with pytest.raises(DomainError, match="the step has no seconds"):
        lb.advise()
    with lb.timed():
        pass
    with pytest.raises(DomainError, match="but the step was timed"):
        lb.advise(seconds=1.0)
    lb.advise()
    for wrong in (-1.0, math.nan, math.inf, "x"):
        with pytest.raises(DomainError, match="seconds is"):
            lb.advise(seconds=wrong)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"strategy": "GossipLB"}, DomainError, "a strategy that sees all cells"),
        ({"strategy": "reftree"}, DomainError, "divides from scratch"),
        ({"strategy": "Greedy"}, UnknownStrategyError, "GreedyLB"),
        ({"trigger": "nonsense"}, UnknownTriggerError, "nonsense"),
        ({"mode": "replay"}, DomainError, "mode is 'replay'"),
        ({"clock": "sun"}, DomainError, "clock is 'sun'"),
        ({"lag": -1}, DomainError, "lag is -1"),
        ({"learn_speeds": "no"}, DomainError, "learn_speeds is 'no': expected True, False or None"),
        (
            {"pause_if_useless": "no"},
            DomainError,
            "pause_if_useless is 'no': expected True, False or None",
        ),
        ({"lag": math.inf}, DomainError, "lag is inf"),
    ],
)
def test_arguments_are_checked(given, error, says):
    with pytest.raises(error, match=says):
        pylb.Advisor(**given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"strategy": "GreedyLB"}, "strategy is 'GreedyLB' without cells"),
        ({"mode": "shadow"}, "cannot be known"),
    ],
)
def test_arguments_that_need_cells(given, says):
    with pytest.raises(DomainError, match=says):
        pylb.Advisor(**given).advise(seconds=1.0)


def test_a_strategy_that_fails_does_so_on_all_ranks_and_the_next_one_may_work():
    def program(comm):
        failed = []

        def strategy(snapshot):
            if not failed:
                failed.append(1)
                raise ValueError("not now")
            return (snapshot.rank + 1) % snapshot.n_ranks

        lb, cells = pylb.Advisor(comm, strategy=strategy, every=4), Cells(comm)
        caught = 0
        for step in range(20):
            try:
                plan = cells.advise(lb, step)
            except StrategyError as why:
                assert "not now" in str(why)  # noqa: PT017
                caught += 1
                continue
            if plan:
                cells.move(plan)
        return caught, lb.n_lb_steps

    assert on(3, program) == [(1, 4)] * 3 or on(3, program) == [(1, 3)] * 3


def test_different_arguments():
    for why in raised(lambda comm: drifting(comm, every=2 + comm.rank)):
        assert type(why) is DomainError
        said = "; ".join(f"rank {r}: trigger_params={{'every': {2 + r}.0}}" for r in range(3))
        assert f"arguments differ between ranks: {said}\n" in f"{why}\n"
    for why in raised(lambda comm: drifting(comm, steps=2 + comm.rank)):
        assert type(why) in (DomainError, RemoteError)


def test_a_plan_ends_with_the_next_step():
    lb = pylb.Advisor(every=1, strategy=lambda s: s.rank)
    assert lb.advise(loads=np.ones(3)) is None  # nothing to move

    def program(comm):
        lb, cells = pylb.Advisor(comm, every=1, strategy="GreedyLB"), Cells(comm)
        plan = cells.advise(lb, 0)
        cells.move(plan)
        cells.advise(lb, 1)
        plan.migrate(cells.x)

    for why in raised(program):
        assert type(why) is StateError
        assert "a later step has ended" in str(why)


@pytest.mark.parametrize("sized", [False, True])
def test_a_wrong_number_of_rows_raises_on_every_rank(sized):
    """Rank 2 exchanges no cells."""

    def program(comm):
        lb = pylb.Advisor(comm, every=1, strategy=lambda s: np.maximum(s.rank, 1))
        plan = lb.advise(loads=np.ones(3))
        offset = np.arange(4) if sized else None
        plan.migrate(np.ones(3 + (comm.rank == 0)), offset=offset)

    for rank, why in enumerate(raised(program, 3)):
        assert type(why) is DomainError, rank
        assert "array 0 has 4 rows: expected 3" in str(why)


def test_when_only_has_no_arrays():
    def program(comm):
        plan = pylb.Advisor(comm, every=1).advise(seconds=1.0 + comm.rank)
        assert plan
        assert plan.rank is None
        assert "in the program's own way" in repr(plan)
        plan.migrate(np.ones(3))

    for why in raised(program):
        assert type(why) is StateError
        assert "the plan has no cells" in str(why)


def test_twice_in_a_step():
    lb = pylb.Advisor()
    steps = lb.iterate(3)
    next(steps)
    lb.advise(seconds=1.0)
    with pytest.raises(StateError, match="twice in step 0"):
        lb.advise(seconds=1.0)


def test_two_advisors_do_not_disturb_each_other():
    def program(comm):
        one, two = pylb.Advisor(comm), pylb.Advisor(comm, every=2)
        for step in one.iterate(10):
            one.advise(seconds=1.0)
            if two.advise(seconds=1.0 + comm.rank):
                two.rebalanced(0.1)
            assert two.iteration == step + 1
        return one.n_lb_steps, two.n_lb_steps

    assert on(2, program) == [(0, 4)] * 2


def test_cells_that_come_and_go(tmp_path):
    """Cells are added and removed, as by refinement; the record has the cells of each step."""
    path = tmp_path / "run.h5"

    def program(comm):
        lb = pylb.Advisor(comm, every=10, strategy="GreedyLB")
        keys = 100 * comm.rank + np.arange(5)
        for step in lb.iterate(30):
            if step % 7 == 3 and comm.rank == step % comm.size:
                keys = np.append(keys[1:], 1000 * (comm.rank + 1) + step)
            if plan := lb.advise(loads=1.0 + keys % 3, keys=keys):
                keys = plan.migrate(keys)
        lb.save(path)
        return lb.rank_loads()

    loads = on(3, program)[0]
    run = pylb.RunRecord.load(path)
    assert run.n_iterations == 30
    sums = np.concatenate([s.load.sum(axis=1) for s in run.stretches])
    assert np.array_equal(sums, loads.sum(axis=1))
    assert len(run.trace.replay("none").metrics["max"]) == 30


def test_keys_that_are_no_longer_given_are_forgotten():
    """Without keys, a key is made of the rank and the index, also if an earlier step had others."""

    def program(comm):
        lb = pylb.Advisor(comm, every=2, strategy=lambda s: (s.rank + 1) % s.n_ranks)
        lb.advise(loads=np.ones(3), keys=7 * comm.rank + np.arange(3))
        return {r: k.tolist() for r, k in lb.advise(loads=np.ones(3)).imports.items()}

    first, second = on(2, program)
    assert first == {1: [1 << 32, (1 << 32) + 1, (1 << 32) + 2]}
    assert second == {0: [0, 1, 2]}


@given(seed=st.integers(0, 10**6), ranks=st.integers(1, 5), n=st.integers(0, 40))
@settings(max_examples=40)
def test_the_plans_of_all_ranks_agree(seed, ranks, n):
    """Each cell that leaves a rank by its plan arrives at another rank by that rank's plan."""
    rng = np.random.default_rng(seed)
    names = rng.choice(10**6, n, replace=False) - 5 * 10**5
    owner, new = rng.integers(0, ranks, (2, n))
    target = dict(zip(names.tolist(), new.tolist(), strict=True))

    def program(comm):
        lb = pylb.Advisor(
            comm, every=1, strategy=lambda s: np.array([target[k] for k in s.key.tolist()], int)
        )
        mine = names[owner == comm.rank]
        rows = rng.integers(0, 4, n)[owner == comm.rank]
        plan = lb.advise(loads=np.ones(len(mine)), keys=mine, nbytes=mine % 7)
        if plan is None:
            return mine.tolist(), {}, {}, 0, 0
        assert plan.rank.tolist() == [target[k] for k in mine.tolist()]
        data, start = plan.migrate(
            np.repeat(mine, rows), offset=np.concatenate([[0], np.cumsum(rows)])
        )
        came = plan.migrate(mine)
        assert np.array_equal(data, np.repeat(came, np.diff(start)))
        left = {to: mine[index].tolist() for to, index in plan.exports.items()}
        come = {source: keys.tolist() for source, keys in plan.imports.items()}
        return came.tolist(), left, come, plan.migrations, plan.nbytes

    found = on(ranks, program)
    moved = owner != new
    for rank, (here, left, come, migrations, nbytes) in enumerate(found):
        assert sorted(here) == sorted(names[new == rank].tolist())
        assert migrations == moved.sum()
        assert nbytes == (names[moved] % 7).sum()
        for to, keys in left.items():
            assert found[to][2][rank] == sorted(keys)
        assert all(rank in found[source][1] for source in come)


def test_a_loop_after_a_loop_that_could_not_begin():
    failing = False

    def trigger(cycle):
        if failing:
            raise ArithmeticError
        return False

    lb = pylb.Advisor(lag=3, trigger=trigger)
    for _ in range(6):
        lb.advise(seconds=1.0)
    failing = True  # in the steps that the next loop completes
    with pytest.raises(ArithmeticError):
        next(lb.iterate(2))
    failing = False
    assert [lb.advise(seconds=1.0) for _ in lb.iterate(2)] == [None, None]


# ---- waiting counted as work -------------------------------------------------------------------


def told(caplog, program, ranks, timed=True):
    """Run a program with an Advisor; return what rank 0 was told about waiting.

    timed: the work is timed; otherwise the program tells its seconds.

    program: a generator of (seconds of work of a rank, seconds of its step) for a rank's number
    and a random generator that is the same on all ranks, and one of its own.
    """

    def main(comm):
        lb = pylb.Advisor(comm)
        alike, own = (np.random.default_rng([seed, 1]) for seed in (0, 1 + comm.rank))
        for it in lb.iterate(100):
            work, step = program(comm.rank, it, alike, own)
            if timed:
                with lb.timed():
                    comm.elapse(work)
                comm.elapse(step - work)
            else:
                comm.elapse(step)
            if lb.advise(seconds=None if timed else work):
                with lb.rebalancing():
                    comm.elapse(1e-3)

    caplog.clear()
    with caplog.at_level("WARNING", "pylb"):
        pylb.VirtualCluster(ranks, clock="none").run(main)
    return [m for m in caplog.messages if "calls MPI" in m]


@pytest.mark.parametrize(
    ("ranks", "noise", "skew"),
    [(2, 0.01, 1e-4), (2, 0.5, 5e-3), (3, 0.1, 5e-3), (8, 0.01, 1e-4), (8, 0.5, 5e-3)],
)
def test_waiting_that_is_counted_as_work_is_noticed(caplog, ranks, noise, skew):
    """The timed part ends with the slowest rank, up to a small `skew`."""

    def program(rank, it, alike, own):
        step = 1.3 * (1 + noise * alike.random())
        return step * (1 - skew * own.random()), step

    said = told(caplog, program, ranks)
    assert len(said) == 1  # once, on one rank
    assert "all ranks report nearly the same seconds" in said[0]
    assert "time only the computation" in said[0]


BALANCED = {
    "work varies on each rank": lambda rank, it, alike, own: [1 + 1e-3 * own.random()] * 2,
    "work varies, with communication": lambda rank, it, alike, own: (1 + 0.01 * own.random(), 1.1),
    "work grows alike": lambda rank, it, alike, own: [1 + 0.05 * it + 1e-3 * own.random()] * 2,
    "work alternates": lambda rank, it, alike, own: [1 + it % 2 + 1e-3 * own.random()] * 2,
    "every tenth step is longer": lambda rank, it, alike, own: (
        [1 + (it % 10 == 0) + 1e-3 * own.random()] * 2
    ),
    "work varies alike, much shorter than the step": lambda rank, it, alike, own: (
        1 + alike.random(),
        2.5,
    ),
    "one rank is slower": lambda rank, it, alike, own: [1 + 0.1 * (rank == 0) + alike.random()] * 2,
    "always the same": lambda rank, it, alike, own: (1.0, 1.0),
}


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("program", BALANCED.values(), ids=BALANCED)
def test_a_balanced_program_is_not_taken_for_one_that_waits(caplog, program, ranks):
    assert told(caplog, program, ranks) == []


def test_one_rank_does_not_wait(caplog):
    assert told(caplog, lambda rank, it, alike, own: [1 + alike.random()] * 2, 1) == []


@pytest.mark.parametrize("wrong", [False, True])
def test_only_told_seconds_that_contain_waiting_are_noticed(caplog, wrong):
    """Seconds that are no elapsed time are not compared with it."""

    def program(rank, it, alike, own):
        seconds = 1 + alike.random()
        return seconds, seconds if wrong else 0.1

    assert len(told(caplog, program, 2, timed=False)) == wrong


WRONG = {
    "seconds": -1.0,
    "features": [[-1.0, 1.0]],
    "loads": [[1.0], [2.0]],
    "weights": ["x"],
    "keys": [0.5],
    "nbytes": [1, 2, 3],
    "memory": ["x"],
    "migratable": [2.5],
    "coords": [1.0],
    "edges": ([99], [99], [1.0]),
    "step": -1,
}


def with_failures(comm, way, fails):
    """Run six steps; return what the advisor has learned and recorded.

    fails: before each step is ended, each argument is wrong on one rank, then on the other.
    """
    lb = pylb.Advisor(comm, every=2, strategy="GreedyLB")
    for step in range(6):
        rng = np.random.default_rng([step, comm.rank])
        mine = {"keys": np.arange(4) + 4 * comm.rank}
        mine[way] = rng.random((4, 2) if way == "features" else 4)
        mine.update({} if way == "loads" else {"seconds": 1.0 + step})
        for name, wrong in WRONG.items() if fails else ():
            for rank in range(comm.size):
                given = {**mine, **({name: wrong} if comm.rank == rank else {})}
                with pytest.raises(pylb.errors.PylbError):
                    lb.advise(**given)
        lb.advise(**mine)
    sums = None if lb._state.model is None else lb._state.model.sums.tolist()
    return sums, lb.rank_loads().tolist(), lb.n_lb_steps, [r.iteration for r in lb.history]


@pytest.mark.parametrize("way", ["loads", "weights", "features"])
def test_a_step_that_failed_by_an_argument_is_counted_once(way):
    plain, failing = (
        pylb.VirtualCluster(2, clock="none").run(with_failures, way, fails)
        for fails in (False, True)
    )
    assert failing == plain
    assert len(plain[0][1]) == 6


@pytest.mark.parametrize("load", [5e-324, 1e-300])
@pytest.mark.parametrize("ranks", [1, 3])
def test_loads_may_be_very_small(ranks, load):
    def main(comm, strategy):
        lb = pylb.Advisor(comm, every=2, strategy=strategy, network=(0.0, 0.0))
        for _ in range(6):
            keys = np.arange(8) + 8 * comm.rank
            loads, coords = np.full(8, load * (1 + comm.rank)), np.stack([keys] * 3, axis=1)
            lb.advise(loads=loads, keys=keys, coords=coords, edges=(keys, keys[::-1], np.ones(8)))
        return lb.report().iterations

    for strategy in ("auto", *pylb.strategies()):
        if strategy == "auto" or not pylb.strategies()[strategy].distributed:
            with contextlib.suppress(pylb.errors.MissingPartError):
                found = pylb.VirtualCluster(ranks, clock="none").run(main, strategy)
                assert found == [6] * ranks


def test_ahead_an_lb_step_takes_effect_a_step_later():
    """The step after the advice has the old loads; the cost may be told in it or after it."""

    def program(comm, ahead, late):
        lb, mine, moves = pylb.Advisor(comm, every=6), 1.0 + comm.rank, -1
        for step in lb.iterate(40):
            if step == moves and not late:
                lb.rebalanced(2.0)
            if lb.advise(seconds=mine, ahead=ahead):
                moves = step + ahead
            elif step != moves:
                continue
            if moves == step:  # the next step has the new placement
                mine = 1.5 + 0.01 * comm.rank * (step - ahead)
                if late:
                    lb.rebalanced(2.0)
        return [(r.iteration, r.predicted, r.cost) for r in lb.history.lb_steps]

    plain, early, late = (
        on(3, lambda comm, a=a, b=b: program(comm, a, b))[0]
        for a, b in [(False, True), (True, False), (True, True)]
    )
    assert plain == early == late
    assert len(plain) > 4


def moving_cells(comm, path, ahead, steps=40, own=False, phases=0, changing=False, **given):
    """Cells with loads that wander and jump; with `changing`, some of them come and go."""
    lb = pylb.Advisor(comm, **given)
    n, keys, moving = 24, np.arange(8) + 8 * comm.rank, None
    for step in range(steps) if own else lb.iterate(steps):
        if changing and moving is None and step % 7 == 3:
            keys = keys[1:] if comm.rank == step % comm.size else keys
            keys = np.append(keys, 1000 * (step + 1) + comm.rank)
        loads = 1e-3 * (1 + 9 * np.exp(-(((keys - 0.7 * step) % n - n / 2) ** 2) / 9))
        loads *= np.where(keys % 5 == step // 9, 3.0, 1.0)
        if phases:
            loads = loads[:, None] * (1 + (keys[:, None] + np.arange(phases)) % 3)
        if moving:
            pending = moving.migrate_begin(keys)
        plan = lb.advise(loads=loads, keys=keys, nbytes=8 + keys % 3, ahead=ahead)
        if moving:
            keys, moving = pending.wait(), None
        elif plan and not ahead:
            keys, plan = plan.migrate(keys), None
        moving = plan
    lb.finish()
    lb.save(path)
    return lb


CHOICES = st.sampled_from(
    [
        {"strategy": "GreedyLB", "every": 5},
        {"strategy": "RefineLB"},
        {"strategy": "GreedyLB", "trigger": "menon"},
        {"every": 4, "pause_if_useless": True},
        {},
    ]
)


@settings(max_examples=12)
@example(1, {"strategy": "RefineLB"}, (False, True, True), 2)  # the phases' sum is rounded
@given(st.integers(1, 4), CHOICES, st.tuples(*[st.booleans()] * 3), st.sampled_from([0, 2]))
def test_a_replay_decides_as_the_advisor_did(tmp_path_factory, ranks, choice, how, phases):
    """To the bit, also if the data of an LB step move during the next step."""
    ahead, own, changing = how
    path = tmp_path_factory.mktemp("run") / "run.h5"
    words = {"own": own, "changing": changing, "phases": phases, **choice}
    lb = on(ranks, lambda comm: moving_cells(comm, path, ahead, **words))[0]
    again = pylb.Trace.load(path).replay(**choice)
    assert again.decisions == lb.history
    assert np.array_equal(again.metrics["max"], lb.metrics.max)


@settings(max_examples=8)
@given(st.integers(2, 4), CHOICES, st.booleans(), st.booleans())
def test_a_shadow_decides_as_the_replay_of_its_record(tmp_path_factory, ranks, choice, ahead, own):
    path = tmp_path_factory.mktemp("run") / "run.h5"
    words = {"own": own, "mode": "shadow", **choice}
    lb = on(ranks, lambda comm: moving_cells(comm, path, ahead, **words))[0]
    again = pylb.Trace.load(path).replay(**choice).decisions
    for receipt in again:
        receipt.moved = False
    assert again == lb.history


def test_a_shadow_says_what_the_advisor_would_do(tmp_path):
    """With `ahead`, an LB step has its effect one step later."""
    found = {}
    for ahead in (False, True):
        for mode in ("on", "shadow"):
            given = {"strategy": "GreedyLB", "every": 6, "mode": mode}
            path = tmp_path / f"{ahead}{mode}.h5"
            lb = on(3, lambda comm, p=path, a=ahead, g=given: moving_cells(comm, p, a, **g))[0]
            done = [(r.iteration, r.migrations, r.predicted) for r in lb.history.lb_steps]
            most = lb.metrics.max if mode == "on" else lb.shadow.max
            found[ahead, mode] = done, most.tolist()
        assert len(found[ahead, "on"][0]) > 4
        assert found[ahead, "on"] == found[ahead, "shadow"]
    assert found[True, "on"] != found[False, "on"]


def test_ahead_is_the_same_on_all_ranks():
    for why in raised(lambda comm: pylb.Advisor(comm).advise(seconds=1.0, ahead=comm.rank == 0)):
        assert type(why) is DomainError
        assert "arguments differ" in str(why)

    def changed(comm):
        lb = pylb.Advisor(comm)
        for ahead in (True, False):
            lb.advise(seconds=1.0, ahead=ahead)

    for why in raised(changed):
        assert "ahead is False, after steps with True" in str(why)


def test_cells_are_the_same_until_they_have_moved():
    def program(comm):
        lb, keys = pylb.Advisor(comm, every=1, strategy="GreedyLB"), np.arange(3) + 3 * comm.rank
        for _ in range(2):
            lb.advise(loads=1.0 + keys, keys=keys, ahead=True)
            keys = keys[comm.rank :]

    for why in raised(program):
        assert isinstance(why, DomainError | RemoteError)
        assert "the cells are not those of step 0" in str(why)
