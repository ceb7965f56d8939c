"""Room explore: generated programs, and the best schedule against exhaustive search."""

import itertools
import math

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb.errors import DomainError, StrategyError, UnknownStrategyError

# Boulmier 2021 (arXiv 2104.01688), synthetic model: 500 iterations of 0.52 s, 52 s a balancing.
# Optimum in seconds, its balancings, and what menon and boulmier give above it, in percent.
PUBLISHED = {
    "constant": (lambda k: 0.1, 1357.98, 10, 0.06, 0.06),
    "sublinear": (lambda k: 1 / (0.4 * k + 1), 2249.56, 10, 7.2, 0.02),
    "linear": (lambda k: 0.02 * k, 1726.40, 19, 9.6, 2.1),
    "autocorrelated": (lambda k: 0.8 - 0.1 * (k % 17), 882.18, 0, 64.3, 28.8),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_synthetic_model(name):
    rate, seconds, balancings, menon, boulmier = PUBLISHED[name]
    program = pylb.Imbalance.from_rates(0.52, rate, 500)
    best = program.optimum(cost=52.0)
    assert best.time == pytest.approx(seconds, abs=0.005)
    assert len(best.iterations) == balancings
    above = {t: 100 * program.run(t, cost=52.0).regret(best) for t in ("menon", "boulmier", "auto")}
    digits = 0.06 if menon > 1 else 0.005
    assert above["menon"] == pytest.approx(menon, abs=digits)
    assert above["boulmier"] == pytest.approx(boulmier, abs=0.06 if boulmier > 1 else 0.005)
    assert above["auto"] <= min(above["menon"], above["boulmier"]) + 0.5


def seconds_of(program, s, i):
    """Iteration i with the last balancing just before s, written plainly."""
    growth, drift, noise = (
        np.zeros(program.iterations) if x is None else x
        for x in (program.growth, program.drift, program.noise)
    )
    fits = program.start if s == 0 else drift[s - 1]
    away = 0.0 if program.drift is None else abs(drift[i] - fits)
    lost = program.residual + growth[i - s] + away + noise[i]
    return program.mean * (1 + max(0.0, lost))


def run_plainly(time, n, when, cost):
    """Seconds of iterations and balancings; `when`: at whose end it balances."""
    total, s = 0.0, 0
    for i in range(n):
        total += time(s, i)
        if i in when:
            total += cost
            s = i + 1
    return total


def exhaustive(time, n, cost):
    return min(
        run_plainly(time, n, set(when), cost)
        for k in range(n)
        for when in itertools.combinations(range(n - 1), k)
    )


@examples(60)
@given(
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_optimum_agrees_with_exhaustive_search(n, seed, cost, has):
    rng = np.random.default_rng(seed)
    parts = {
        name: rng.normal(0.3, 1.0, n)
        for name, there in zip(("growth", "drift", "noise"), has, strict=True)
        if there
    }
    program = pylb.Imbalance(0.5, iterations=n, residual=rng.random(), start=rng.normal(), **parts)
    best = program.optimum(cost)

    def time(s, i):
        return seconds_of(program, s, i)

    assert best.time == pytest.approx(exhaustive(time, n, cost), rel=1e-12)
    assert best.time == pytest.approx(run_plainly(time, n, set(best.iterations), cost), rel=1e-12)
    for trigger in pylb.triggers():
        run = program.run(trigger, cost=cost)
        when = set(run.iterations.tolist())
        assert run.time == pytest.approx(run_plainly(time, n, when, cost), rel=1e-12)
        assert run.regret(best) >= -1e-12
        assert n - 1 not in when


def test_a_fixed_period_of_the_published_model():
    program = pylb.Imbalance.from_rates(0.52, lambda k: 0.1, 500)
    run = program.run(every=45, cost=52.0)
    assert run.iterations.tolist() == list(range(44, 499, 45))
    assert run.regret(program.optimum(52.0)) < 0.04


def test_growth_is_asked_by_iterations_since_the_balancing():
    program = pylb.Imbalance(2.0, lambda k: 0.25 * k, iterations=4)
    assert program.run(every=2, cost=1.0).iteration_time.tolist() == [2.0, 2.5, 2.0, 2.5]
    assert program.run(every=9, cost=1.0).time == 2 + 2.5 + 3 + 3.5
    assert "4 iterations" in repr(program)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"mean": 0.0, "iterations": 3}, "mean is 0.0"),
        ({"mean": math.nan, "iterations": 3}, "mean is nan"),
        ({"mean": 1.0}, "iterations is None"),
        ({"mean": 1.0, "iterations": 0}, "iterations is 0"),
        ({"mean": 1.0, "iterations": 2, "growth": [1.0]}, r"growth has shape \(1,\)"),
        ({"mean": 1.0, "growth": [1.0, math.inf]}, r"growth\[1\] is not finite"),
        ({"mean": 1.0, "growth": [1.0], "drift": [1.0, 2.0]}, "drift has shape"),
        ({"mean": 1.0, "growth": ["a"]}, "growth: expected 1 numbers"),
        ({"mean": 1.0, "growth": [1.0], "residual": math.inf}, "residual is inf"),
    ],
)
def test_bad_programs(arguments, says):
    with pytest.raises(DomainError, match=says):
        pylb.Imbalance(**arguments)


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf, None, "1"])
def test_bad_costs(cost):
    program = pylb.Imbalance(1.0, [0.0, 1.0])
    trace = pylb.trace.hotspot(2, 4, 3)
    for call in (program.optimum, trace.optimum):
        with pytest.raises(DomainError, match="cost is"):
            call(cost=cost)
    with pytest.raises(DomainError, match="cost is"):
        program.run("menon", cost=cost)


# ---- recorded runs --------------------------------------------------------------------------


def rows_of(trace, strategy):
    """t(s, i) of a recorded run, each placement asked of pylb.place and kept plainly."""

    def held_from(s):
        if s == 0:
            return {}
        snapshot = trace[s - 1]
        plan = pylb.place(snapshot, strategy)
        entity = trace.task_entity[trace.task_ptr[s - 1] : trace.task_ptr[s]]
        return {
            int(e): int(r)
            for e, r in zip(entity, plan.rank, strict=True)
            if trace.entity_migratable[e]
        }

    out = np.full((trace.n_phases, trace.n_phases), np.nan)
    for s in range(trace.n_phases):
        held = held_from(s)
        for i in range(s, trace.n_phases):
            load = np.zeros(trace.n_ranks)
            for k in range(trace.task_ptr[i], trace.task_ptr[i + 1]):
                e, r = int(trace.task_entity[k]), int(trace.task_rank[k])
                if s > 0 and trace.entity_migratable[e]:
                    r = held.setdefault(e, r)
                load[r] += trace.task_load[k]
            if trace.speed is not None:
                load = load / trace.speed
            if trace.background is not None:
                load = trace.background + load
            out[s, i] = load.max()
    return out


def random_trace(rng, n_phases, changing):
    """Objects whose loads wander; where `changing`, not all of them are there in every phase."""
    n, p = int(rng.integers(3, 9)), int(rng.integers(2, 4))
    load = rng.exponential(1.0, n)
    movable = rng.random(n) < 0.8
    wander = rng.random() < 0.3
    snapshots = []
    for _ in range(n_phases):
        load = load * rng.lognormal(0.0, 0.4, n)
        here = np.flatnonzero(rng.random(n) < 0.7) if changing else np.arange(n)
        snapshots.append(
            pylb.Snapshot(
                load[here],
                (here + wander * rng.integers(p)) % p,
                p,
                key=here,
                migratable=movable[here],
                speed=np.linspace(1.0, 1.5, p),
                background=np.linspace(0.0, 0.3, p),
            )
        )
    return pylb.Trace.from_snapshots(snapshots)


@examples(25)
@given(
    st.integers(1, 8),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.3, 2.0]),
    st.booleans(),
    st.sampled_from(["GreedyLB", "RefineLB"]),
)
def test_optimum_of_a_run_agrees_with_exhaustive_search(m, seed, cost, changing, strategy):
    trace = random_trace(np.random.default_rng(seed), m, changing)
    rows = rows_of(trace, strategy)
    best = trace.optimum(strategy, cost=cost)
    assert best.time == pytest.approx(exhaustive(lambda s, i: rows[s, i], m, cost), rel=1e-12)
    assert best.time == pytest.approx(
        run_plainly(lambda s, i: rows[s, i], m, set(best.iterations), cost), rel=1e-12
    )


def test_no_trigger_beats_the_optimum_of_a_run():
    trace = pylb.trace.hotspot(8, 96, 200)
    best = trace.optimum("GreedyLB", cost=0.004)
    assert len(best.iterations) > 5
    regret = {
        t: trace.replay("GreedyLB", trigger=t, cost=0.004).regret(best) for t in pylb.triggers()
    }
    assert min(regret.values()) >= -1e-12
    assert regret["auto"] < 0.04


def test_a_run_that_is_never_balanced_costs_what_was_recorded():
    trace = pylb.trace.hotspot(4, 32, 30)
    best = trace.optimum("GreedyLB", cost=1e6)
    assert best.time == pytest.approx(trace.replay("none").time, rel=1e-12)
    assert len(best.iterations) == 0


def test_a_run_without_phases_and_one_with_a_single_one():
    trace = pylb.trace.hotspot(2, 4, 3)
    assert trace[0:0].optimum(cost=1.0).time == 0.0
    alone = trace[2:3].optimum(cost=0.0)
    assert alone.time == pytest.approx(trace[2:3].replay("none").time, rel=1e-12)
    assert len(alone.iterations) == 0


def test_a_callable_and_its_errors():
    trace = pylb.trace.hotspot(4, 32, 20)

    def fails(snapshot):
        raise RuntimeError("no")

    def greedy(snapshot):
        return pylb.place(snapshot, "GreedyLB").rank

    assert trace.optimum(greedy, cost=0.01).time == trace.optimum("GreedyLB", cost=0.01).time
    with pytest.raises(StrategyError):
        trace.optimum(fails, cost=0.01)
    with pytest.raises(UnknownStrategyError, match="GreedyLB"):
        trace.optimum("greedylb", cost=0.01)
    with pytest.raises(DomainError, match="no parameter"):
        trace.optimum("GreedyLB", cost=0.01, depth=3)


def test_optimum_of_the_recorded_runs(data):
    for folder in sorted(data.glob("*nolb*")):
        trace = pylb.Trace.read(folder)
        best = trace.optimum("GreedyLB", cost=0.05)
        for trigger in ("auto", "boulmier", "menon"):
            assert trace.replay("GreedyLB", trigger=trigger, cost=0.05).regret(best) >= -1e-9
