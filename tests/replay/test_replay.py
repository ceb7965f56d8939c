"""Replay: times of placements, semantics; test_same_bits.py compares it with runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from chance import examples
from hypothesis import given
from hypothesis import strategies as st

import pylb
from pylb import _core
from pylb.errors import (
    DomainError,
    OutOfRangeError,
    StrategyError,
    UnknownStrategyError,
    UnknownTriggerError,
)
from pylb.io.run_record import RunFacts
from pylb.replaying.generated import hotspot
from pylb.replaying.replayed import Prices


def lpt(snapshot):
    """Place the largest load first."""
    return pylb.place(snapshot, "GreedyLB").rank


def rotate(snapshot):
    """Move every object that may migrate to the next rank."""
    may = True if snapshot.migratable is None else snapshot.migratable
    return np.where(may, (snapshot.rank + 1) % snapshot.n_ranks, snapshot.rank)


def check_times(trace, run, **words):
    """Check that the times of all phases are those of the placement; return the replay.

    show/test_show.py has the times as plain sums.
    """
    alpha, beta = words.get("alpha", 0.0), words.get("beta", 0.0)
    for i, snapshot in enumerate(trace):
        there = snapshot.with_rank(run.rank[trace.task_ptr[i] : trace.task_ptr[i + 1]])
        m = pylb.model.Metrics.of(_core.phase_times(there, alpha, beta))._asdict()
        assert {name: run.metrics[name][i] for name in m} == pytest.approx(m, rel=1e-12, abs=1e-12)
    fixed = ~trace.entity_migratable[trace.task_entity]
    assert (run.rank[fixed] == trace.task_rank[fixed]).all()
    assert run.iteration_seconds == np.sum(run.metrics["max"])
    steps = [r.step_seconds for r in run.lb_steps]  # without the warm-up
    assert run.time == run.iteration_seconds + math.fsum(steps)
    return run


def check_plainly(trace, strategy, **words):
    """Check the two baselines, which need no decisions."""
    run = check_times(trace, pylb.replay(trace, strategy, **words), **words)
    began, entity = {}, trace.task_entity.tolist()
    for e, r in zip(entity, trace.task_rank.tolist(), strict=True):
        began.setdefault(e, r)
    fixed = ~trace.entity_migratable[trace.task_entity] | (strategy == "none")
    expected = np.where(fixed, trace.task_rank, [began[e] for e in entity])
    assert run.rank.tolist() == expected.tolist()
    assert run.decisions == []
    return run


def make_trace(n_ranks, task_entity, task_rank, task_load, task_ptr, n_entities, **more):
    """Return a trace of these tasks, without edges unless `more` has them."""
    m = len(task_ptr) - 1
    arrays = {
        "phase_id": np.arange(m),
        "entity_key": np.arange(n_entities) * 10,
        "entity_migratable": np.ones(n_entities, bool),
        "entity_home": np.zeros(n_entities, np.int32),
        "entity_collection": np.full(n_entities, -1),
        "task_ptr": np.array(task_ptr),
        "task_entity": np.array(task_entity, np.int32),
        "task_rank": np.array(task_rank, np.int32),
        "task_load": np.array(task_load, float),
        "task_bytes": None,
        "task_memory": None,
        "edge_ptr": np.zeros(m + 1, np.int64),
        "edge_src": np.zeros(0, np.int32),
        "edge_dst": np.zeros(0, np.int32),
        "edge_bytes": np.zeros(0),
        "edge_messages": np.zeros(0),
    }
    return pylb.Trace(n_ranks, **(arrays | more))


def random_trace(rng, n_ranks, n_entities, n_phases):
    """Entities come, go and return; some may not migrate; some move in the recording."""
    entity, rank, ptr, n_edges, ends = [], [], [0], [], np.zeros((2, 0), np.int32)
    for _ in range(n_phases):
        here = np.flatnonzero(rng.random(n_entities) < 0.7).astype(np.int32)
        entity += rng.permutation(here).tolist()
        rank += rng.integers(0, n_ranks, len(here)).tolist()
        ptr.append(len(entity))
        n_edges.append(rng.integers(3 * n_entities + 1) if len(here) else 0)
        ends = np.hstack([ends, rng.choice(here, (2, n_edges[-1])) if len(here) else ends[:, :0]])
    m = ends.shape[1]
    speed = rng.uniform(0.5, 2.0, n_ranks) if rng.random() < 0.5 else None
    seconds = rng.exponential(1.0, len(entity))
    timed = speed is not None and rng.random() < 0.5
    migratable = rng.random(n_entities) < 0.8
    some_stay = migratable[np.array(entity, int)] & (rng.random(len(entity)) < 0.7)
    return make_trace(
        n_ranks,
        entity,
        rank,
        seconds * speed[rank] if timed else seconds,
        ptr,
        n_entities,
        entity_migratable=migratable,
        task_migratable=some_stay if rng.random() < 0.5 else None,
        task_work=rng.uniform(0.0, 2.0, len(entity)) if rng.random() < 0.5 else None,
        task_bytes=rng.integers(0, 1000, len(entity)),
        edge_ptr=np.cumsum([0, *n_edges]),
        edge_src=ends[0].copy(),
        edge_dst=ends[1].copy(),
        edge_bytes=rng.exponential(100.0, m),
        edge_messages=rng.integers(1, 5, m).astype(float),
        speed=speed,
        task_seconds=seconds if timed else None,
        background=rng.uniform(0.0, 1.0, n_ranks) if rng.random() < 0.5 else None,
    )


@examples(80)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_ranks=st.integers(1, 6),
    n_entities=st.integers(0, 30),
    n_phases=st.integers(0, 20),
    strategy=st.sampled_from(["auto", lpt, rotate, "GreedyLB", "RefineLB", "VectorLB"]),
    when=st.sampled_from(
        [{}, {"every": 1}, {"every": 3}, {"trigger": "metabalancer"}, {"trigger": "menon"}]
    ),
    traffic=st.sampled_from([(0.0, 0.0), (0.1, 0.0), (0.0, 1e-3), (0.3, 1e-2)]),
    foresight=st.booleans(),
    more=st.fixed_dictionaries(
        {},
        optional={
            "learn_speeds": st.booleans(),
            "pause_if_useless": st.booleans(),
            "tell": st.booleans(),
            "cost": st.sampled_from([0.0, 1e-3, 5.0]),
        },
    ),
)
def test_times_are_those_of_the_placement(
    seed, n_ranks, n_entities, n_phases, strategy, when, traffic, foresight, more
):
    trace = random_trace(np.random.default_rng(seed), n_ranks, n_entities, n_phases)
    words = {"cost": 0.25, "foresight": foresight, **when, **more}
    words |= dict(zip(("alpha", "beta"), traffic, strict=True))
    if trace.speed is not None:
        words.pop("learn_speeds", None)  # speeds that are known are not learned
    check_times(trace, pylb.replay(trace, strategy, **words), **words)


# ---- the recorded runs ------------------------------------------------------------------------

RUNS = [
    "nolb-8color-16nodes-data",
    "nolb-8color-16nodes-11firstphases",
    "synthetic-blocks/synthetic-dataset-blocks",
    "synthetic-blocks/synthetic-dataset-blocks-alpha0",
]


@pytest.fixture(scope="module", params=RUNS)
def recorded(request, data):
    return pylb.Trace.load(data / request.param)


def test_recorded_runs_as_recorded(recorded):
    run = check_plainly(recorded, "none")
    check_plainly(recorded, "unbalanced")
    np.testing.assert_array_equal(run.rank, recorded.task_rank)


@pytest.mark.parametrize("strategy", [lpt, "GreedyLB", "RefineLB"])
def test_recorded_runs_with_traffic(recorded, strategy):
    words = {"alpha": 1e-5, "beta": 1e-9}
    check_times(recorded, recorded.replay(strategy, every=1, cost=0.25, **words), **words)


@pytest.mark.parametrize(
    ("run", "phases", "before", "after", "migrations"),
    [
        ("nolb-8color-16nodes-data", [0], 4.947, 4.2845, 251),
        ("nolb-8color-16nodes-data", range(1, 10), 1.023, 0.0124, 247),
        ("nolb-8color-16nodes-11firstphases", range(11), 0.725, 0.480, 249),
        ("synthetic-blocks", [0], 1.0, 0.0, 9),
    ],
)
def test_published_figures_of_lpt(data, run, phases, before, after, migrations):
    """From each phase's recorded placement, LPT gives the values in the folders' README."""
    stem = "synthetic-dataset-blocks" if run == "synthetic-blocks" else None
    trace = pylb.Trace.load(data / run, stem=stem)
    decisions = [
        pylb.replay(trace[i : i + 1], "GreedyLB", every=1, foresight=True).decisions[0]
        for i in phases
    ]
    assert np.mean([d.before - 1 for d in decisions]) == pytest.approx(before, abs=6e-4)
    assert np.mean([d.predicted - 1 for d in decisions]) == pytest.approx(after, abs=6e-4)
    assert np.mean([d.migrations for d in decisions]) == pytest.approx(migrations, abs=0.6)


# ---- semantics, one case each -----------------------------------------------------------------


def two_ranks(n_phases=3):
    """Return a trace on two ranks; in each phase, two objects of load 1 are on rank 0."""
    return make_trace(
        2,
        [0, 1] * n_phases,
        [0, 0] * n_phases,
        [1.0, 1.0] * n_phases,
        np.arange(n_phases + 1) * 2,
        2,
    )


def test_an_lb_step_takes_effect_in_the_next_phase():
    run = pylb.replay(two_ranks(), lpt, every=1, cost=0.5)
    assert run.iteration_time.tolist() == [2, 1, 1]
    assert run.rank.tolist() == [0, 0, 0, 1, 0, 1]
    assert [d.moved for d in run.decisions] == [True, True]
    assert [d.migrations for d in run.decisions] == [1, 0]
    assert [(d.before, d.predicted) for d in run.decisions] == [(2, 1), (1, 1)]
    assert run.lb_seconds == 1.0
    assert run.time == 5.0
    assert run.migrations == 1
    recorded = pylb.replay(two_ranks(), "none")
    assert recorded.time == 6.0
    assert recorded.decisions == []
    assert run.speedup_over(recorded) == 1.2


def test_foresight_holds_for_the_phase_itself():
    run = pylb.replay(two_ranks(1), lpt, every=1, cost=0.5, foresight=True)
    assert run.iteration_time.tolist() == [1]
    assert run.decisions[0].moved
    assert run.time == 1.5


def test_nothing_is_decided_after_the_last_phase():
    run = pylb.replay(two_ranks(1), lpt, every=1, cost=0.5)
    assert run.decisions == []
    assert run.time == 2.0
    assert run.migrations == 0


def test_new_entities_start_where_they_began_and_are_placed_at_once():
    trace = make_trace(3, [0, 0, 1, 0, 1], [0, 0, 2, 0, 1], np.ones(5), [0, 1, 3, 5], 2)
    run = pylb.replay(trace, rotate, every=10)
    assert run.rank.tolist() == [0, 0, 2, 0, 2]  # no LB steps: all on their first ranks
    assert pylb.replay(trace, "none").rank.tolist() == [0, 0, 2, 0, 1]
    run = pylb.replay(trace, rotate, every=1)
    assert run.rank.tolist() == [0, 1, 0, 2, 1]  # object 1 exists from the beginning of phase 1
    homes = replace(trace, task_home=np.array([0, 0, 1, 0, 1], np.int32))
    assert pylb.replay(homes, rotate, every=10).rank.tolist() == [0, 0, 1, 0, 1]
    once = pylb.replay(trace, lambda s: rotate(s) if s.n_objects == 1 else s.rank, every=1)
    assert once.rank.tolist() == [0, 0, 2, 0, 2]  # every LB step sees both objects


def test_entities_that_may_not_migrate_follow_the_recording():
    trace = make_trace(
        2,
        [0, 1] * 3,
        [0, 0, 1, 0, 0, 1],
        np.ones(6),
        [0, 2, 4, 6],
        2,
        entity_migratable=np.array([False, True]),
    )
    run = pylb.replay(trace, rotate, every=1)
    assert run.rank.tolist()[0::2] == [0, 1, 0]


def test_measured_cost_counts_strategy_migrations_and_bytes():
    trace = replace(two_ranks(), task_bytes=np.full(6, 100))
    run = pylb.replay(trace, lpt, every=2, migration_alpha=2.0, migration_beta=0.25)
    (decision,) = run.decisions
    assert decision.seconds_strategy > 0
    assert decision.seconds_migration == pytest.approx(27.0)  # moving 100 bytes adds little time
    assert decision.cost == decision.seconds_strategy + decision.seconds_migration
    assert run.nbytes == 100


def test_only_messages_to_other_ranks_cost_time():
    trace = make_trace(
        2,
        [0, 1],
        [0, 1],
        [1.0, 1.0],
        [0, 2],
        2,
        edge_ptr=np.array([0, 3]),
        edge_src=np.array([0, 0, 1], np.int32),
        edge_dst=np.array([1, 0, 0], np.int32),
        edge_bytes=np.array([10.0, 1000.0, 40.0]),
        edge_messages=np.array([2.0, 50.0, 1.0]),
    )
    run = pylb.replay(trace, "none", alpha=0.5, beta=0.01)
    assert run.iteration_time[0] == 1 + (0.5 * 2 + 0.01 * 10)
    assert run.metrics["min"][0] == 1 + (0.5 * 1 + 0.01 * 40)


def test_messages_count_once_where_the_time_was_measured():
    """The measured time includes messages.  Two ranks that swap their objects keep their times."""
    m = 3
    trace = make_trace(
        2,
        [0, 1] * m,
        [0, 1] * m,
        [1.0, 1.0] * m,
        np.arange(m + 1) * 2,
        2,
        edge_ptr=np.arange(m + 1),
        edge_src=np.zeros(m, np.int32),
        edge_dst=np.ones(m, np.int32),
        edge_bytes=np.full(m, 10.0),
        edge_messages=np.ones(m),
        figures=np.array([[3.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 10.0]] * m),
    )
    run = pylb.replay(trace, lambda s: 1 - s.rank, every=2, alpha=0.5, beta=0.01, cost=0.0)
    assert run.rank.tolist() == [0, 1, 0, 1, 1, 0]
    assert run.iteration_time.tolist() == [3.0] * m
    together = pylb.replay(trace, lambda s: 0 * s.rank, every=2, alpha=0.5, beta=0.01, cost=0.0)
    assert together.iteration_time[2] == pytest.approx(3.0 + 2.0 - 1.6)


def test_seconds_that_are_not_the_work():
    """A changed `task_load` is refused, because `task_seconds` would override it."""
    trace = replace(two_ranks(), speed=np.array([2.0, 1.0]))
    seconds = trace.task_load / trace.speed[trace.task_rank]
    timed = replace(trace, task_seconds=seconds)
    assert (
        timed.replay("none").metrics["max"].tolist() == trace.replay("none").metrics["max"].tolist()
    )
    with pytest.raises(DomainError, match=r"task_load\[0\] is 0: .*task_seconds times speed"):
        replace(timed, task_load=np.zeros_like(seconds)).replay("none")
    with pytest.raises(DomainError, match="task_seconds is given, but no speed"):
        replace(timed, speed=None).replay("none")


def test_speed_and_background_given():
    run = pylb.replay(two_ranks(1), "none", speed=[2.0, 1.0], background=[0.25, 0.0])
    assert run.iteration_time.tolist() == [1.25]


def test_rank_times_of_a_replay_are_those_of_its_snapshots(recorded):
    p = recorded.n_ranks
    run = recorded.replay("GreedyLB", every=2, speed=np.linspace(1, 2, p), background=np.arange(p))
    assert run.rank_times.shape == (recorded.n_phases, p)
    np.testing.assert_array_equal(run.rank_times.max(axis=1), run.iteration_time)
    plain = recorded.replay("none")
    np.testing.assert_array_equal(plain.rank_times, [s.rank_times for s in recorded])


def test_balanced_after_names_the_phase_before_the_new_placement():
    trace = two_ranks(4)
    assert pylb.replay(trace, lpt, every=2).lb_step_iterations == [1]
    assert pylb.replay(trace, lpt, every=2, foresight=True).lb_step_iterations == [0, 2]


def test_a_trigger_object_with_its_own_parameters():
    trigger = pylb.trigger("metabalancer", threshold=3.0)
    for _ in range(2):  # each replay has a trigger of its own
        assert pylb.replay(two_ranks(9), lpt, trigger=trigger, tell=False).decisions == []
    assert trigger.state()["reason"] == "nothing was observed yet"


def test_repr_says_what_it_was():
    text = repr(pylb.replay(two_ranks(), lpt, every=1, cost=0.5))
    assert text == (
        "<Replay with lpt, every 1: 3 iterations in 5 s, LB steps 1 s, max/mean "
        "1.333, 2 LB steps, 1 migration>"
    )
    assert "<Replay as recorded: 3 iterations" in repr(pylb.replay(two_ranks(), "none"))


# ---- generated runs ---------------------------------------------------------------------------


def test_hotspot_travels_round_the_ring():
    trace = hotspot(4, 40, 10, peak=8.0, width=0.1, turns=0.5, noise=0.0)
    loads = trace.task_load.reshape(10, 40)
    assert loads.argmax(axis=1).tolist() == [2 * i for i in range(10)]
    assert loads[0, 0] == pytest.approx(9e-3)
    assert loads[0, 4] == pytest.approx(1e-3 * (1 + 8 * math.exp(-0.5)))
    assert loads[0, 4] == pytest.approx(loads[0, 36])
    assert trace[0].rank.tolist() == [i // 10 for i in range(40)]
    neighbours = {(i, (i + d) % 40) for i in range(40) for d in (-1, 1)}
    assert set(zip(trace[3].edge_src.tolist(), trace[3].edge_dst.tolist(), strict=True)) == (
        neighbours
    )


def test_hotspot_depends_on_the_seed_and_lb_steps_pay():
    one, same, other = (hotspot(seed=s).task_load for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    trace = hotspot(8, 128, 40)
    run = check_times(trace, trace.replay("GreedyLB", every=2, cost=1e-3))
    assert run.speedup_over(trace.replay("none")) > 1.5


def test_bad_hotspots():
    for more, match in [
        ({"n_ranks": 0}, "n_ranks is 0"),
        ({"n_objects": -1}, "n_objects is -1"),
        ({"n_phases": 0}, "n_phases is 0"),
        ({"width": 0.0}, r"width is 0\.0"),
        ({"width": math.inf}, "width is inf"),
        ({"peak": -1.5}, r"peak is -1\.5: expected 0 or more"),
        ({"peak": math.nan}, "peak is nan"),
        ({"turns": math.inf}, "turns is inf"),
        ({"noise": -0.1}, r"noise is -0\.1: expected 0 or more"),
        ({"noise": "loud"}, "noise is 'loud'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": None}, "seed is None"),
    ]:
        with pytest.raises(DomainError, match=match):
            hotspot(**more)


# ---- bad input --------------------------------------------------------------------------------


def test_bad_arguments():
    trace = two_ranks()
    for more, match in [
        ({"every": 1, "trigger": "periodic"}, "exactly one"),
        ({"every": 0}, "every is 0"),
        ({"every": 1, "cost": -1.0}, "cost is -1.0: expected seconds"),
        ({"every": 1, "alpha": math.nan}, "alpha is nan"),
        ({"every": 1, "beta": "x"}, "beta is 'x'"),
        ({"every": 1, "speed": [1.0]}, r"speed has shape \(1,\): expected \(2,\)"),
        ({"every": 1, "speed": [1.0, 0.0]}, r"speed\[1\] is 0"),
        ({"every": 1, "background": [1.0, math.inf]}, r"background\[1\] is inf"),
        ({"every": 1, "background": [1.0]}, r"background has shape \(1,\): expected \(2,\)"),
        ({"every": 1.5}, "every is 1.5: expected a number of iterations, 1 or more"),
        ({"cost": math.nan}, "cost is nan: expected seconds"),
        ({"migration_alpha": -1.0}, "migration_alpha is -1.0: expected seconds"),
        ({"lag": -1}, "lag is -1: expected a number of iterations, 0 ... 1048575"),
        ({"lag": 1.5}, "lag is 1.5: expected a number of iterations, 0 ... 1048575"),
        ({"lag": math.inf}, "lag is inf: expected a number of iterations, 0 ... 1048575"),
        ({"seed": "x"}, "seed is 'x': expected an integer"),
    ]:
        with pytest.raises(DomainError, match=match):
            pylb.replay(trace, lpt, **more)
    for strategy, match in [
        ("GreedyLB", "GreedyLB has no parameter 'overlod': expected none"),
        ("RefineLB", "RefineLB has no parameter 'overlod': expected overload"),
        ("auto", "auto has no parameter 'overlod': expected imbalance"),
        (lpt, "lpt has no parameter 'overlod': expected none"),
    ]:
        with pytest.raises(DomainError, match=match):
            pylb.strategy(strategy, overlod=2.0)
    for trigger, match in [
        ("menon", "menon has no parameter 'x': expected none"),
        (pylb.trigger("zhai"), "zhai has no parameter 'x': expected reference"),
        (lambda cycle: True, "a function has no parameter 'x': expected none"),
    ]:
        with pytest.raises(DomainError, match=match):
            pylb.trigger(trigger, x=1)
    with pytest.raises(ValueError, match="task_load has 5 entries: expected 6"):
        pylb.replay(replace(trace, task_load=np.ones(5)), "none")
    with pytest.raises(UnknownStrategyError, match="no strategy 'unbalanced'"):
        pylb.strategy("unbalanced", overlod=2.0)
    with pytest.raises(UnknownStrategyError, match="did you mean"):
        pylb.replay(trace, "non", every=1)
    with pytest.raises(UnknownTriggerError, match="did you mean metabalancer"):
        pylb.replay(trace, "none", trigger="metabalance")


@pytest.mark.parametrize(
    ("name", "index", "value", "error", "match"),
    [
        ("task_load", 3, math.nan, DomainError, r"task_load\[3\] is nan"),
        ("task_load", 0, -1.0, DomainError, r"task_load\[0\] is -1"),
        ("task_rank", 2, 2, OutOfRangeError, r"task_rank\[2\] is 2: expected 0 \.\.\. 1"),
        ("task_rank", 2, -1, OutOfRangeError, r"task_rank\[2\] is -1"),
        ("task_entity", 5, 7, OutOfRangeError, r"task_entity\[5\] is 7"),
        ("task_entity", 5, 0, DomainError, r"phase 2 .*task_entity\[5\] is 0, which has another"),
        ("task_ptr", 0, 1, DomainError, r"task_ptr\[0\] is 1: expected 0"),
        ("task_ptr", 2, 1, DomainError, r"task_ptr\[2\] is 1: expected 2 or more"),
    ],
)
def test_bad_traces(name, index, value, error, match):
    trace = two_ranks()
    getattr(trace, name)[index] = value
    with pytest.raises(error, match=match):
        pylb.replay(trace, "none")


@pytest.mark.parametrize(
    ("name", "value"),
    [("edge_src", 99), ("edge_dst", -1), ("edge_bytes", -1.0), ("edge_messages", math.nan)],
)
def test_bad_edges(name, value):
    trace = hotspot(2, 4, 3)
    column = getattr(trace, name).copy()
    column[1] = value
    with pytest.raises((DomainError, OutOfRangeError), match=rf"{name}\[1\] is "):
        replace(trace, **{name: column}).replay("RefineCommLB", every=1, alpha=1e-6)


@pytest.mark.parametrize("strategy", ["auto", "GreedyLB", lpt, "none", "unbalanced"])
@pytest.mark.parametrize("words", [{}, {"every": 1}, {"foresight": True}, {"lag": 2}])
def test_little_to_replay(strategy, words):
    """Runs without phases, with one phase, or without objects are replayed."""
    nothing = pylb.replay(two_ranks(3)[:0], strategy, **words)
    assert (nothing.time, nothing.rank.tolist(), nothing.decisions) == (0.0, [], [])
    one = pylb.replay(two_ranks(1), strategy, **words)
    assert one.iteration_time.tolist() in ([2.0], [1.0] if "foresight" in words else [2.0])
    assert len(one.lb_steps) <= len(words.keys() & {"foresight"})
    empty = pylb.replay(make_trace(3, [], [], [], [0, 0, 0, 0], 0), strategy, **words)
    assert empty.iteration_time.tolist() == [0.0, 0.0, 0.0]
    assert empty.migrations == 0


def test_keys_that_occur_twice():
    """Two objects may have the same key, unless speeds are learned from them."""
    trace = hotspot(4, 20, 12)
    twice = replace(trace, entity_key=trace.entity_key // 2)
    run = twice.replay("GreedyLB", every=2)
    assert run.rank.tolist() == trace.replay("GreedyLB", every=2).rank.tolist()
    with pytest.raises(DomainError, match="key 0 is given twice: expected each object once"):
        twice.replay("GreedyLB", every=2, learn_speeds=True)


def test_speeds_that_are_known_are_not_learned():
    trace = replace(hotspot(4, 20, 12), speed=np.array([1.0, 2.0, 1.0, 1.0]))
    for known, words in ((trace, {}), (hotspot(4, 20, 12), {"speed": trace.speed})):
        with pytest.raises(DomainError, match="learn_speeds is True and speed is given"):
            known.replay("GreedyLB", every=2, learn_speeds=True, **words)


def test_a_trace_without_costs_has_those_of_the_model():
    trace = replace(hotspot(4, 40, 12), task_bytes=np.full(480, 10**7))
    for run in (trace.replay("GreedyLB", every=3), trace.replay(every=3)):
        assert len(run.lb_steps) == 3
        for r in run.lb_steps:
            assert r.seconds_strategy > 0
            assert (r.seconds_migration > 0) == (r.migrations > 0)
            assert r.cost == r.seconds_strategy + r.seconds_migration
    free = trace.replay("GreedyLB", every=3, cost=0.0)  # a cost of zero gives a warning
    assert [r.cost for r in free.lb_steps] == [0.0, 0.0, 0.0]


def test_a_trigger_that_is_not_told_the_cost_learns_it_and_lb_steps_that_do_not_pay_end():
    trace = hotspot(4, 40, 60)
    told, learns = (
        trace.replay("GreedyLB", trigger="menon", cost=0.5, tell=tell).lb_steps
        for tell in (True, False)
    )
    assert learns[0].iteration < (told[0].iteration if told else len(trace))
    assert math.isnan(learns[0].figures["cost"])
    run = trace.replay("GreedyLB", trigger="threshold", cost=1.0)
    assert {r.choice for r in run.decisions} >= {"balance", "off"}
    assert run.lb_steps == [r for r in run.decisions if r.choice == "balance"]
    never = trace.replay("GreedyLB", trigger="threshold", cost=1.0, pause_if_useless=False)
    assert "off" not in {r.choice for r in never.decisions}
    assert len(never.lb_steps) > len(run.lb_steps)


@pytest.mark.parametrize(("name", "column"), [("nbytes", "task_bytes"), ("memory", "task_memory")])
def test_sums_of_bytes_that_overflow(name, column):
    load, rank = np.array([9.0, 9.0, 9.0, 1.0]), np.zeros(4, int)
    phase = pylb.Snapshot(load, rank, n_ranks=3, **{name: np.full(4, 2**60)})
    run = replace(pylb.Trace.from_snapshots([phase] * 3), **{column: np.full(12, 2**62)})
    with pytest.raises(DomainError, match=f"{column}: the sum of all objects is 2\\^63"):
        run.replay("GreedyLB", every=1)


def test_strategies_that_fail():
    def raises(snapshot):
        raise RuntimeError("no idea")

    trace = two_ranks()
    with pytest.raises(StrategyError, match="'raises' raised RuntimeError: no idea"):
        pylb.replay(trace, raises, every=1)
    with pytest.raises(StrategyError, match="expected 2 ranks"):
        pylb.replay(trace, lambda snapshot: [0], every=1)
    trace = replace(trace, entity_migratable=np.array([True, False]))
    with pytest.raises(StrategyError, match="object 1, which may not migrate"):
        pylb.replay(trace, lambda snapshot: 1 - snapshot.rank, every=1)


# ---- receipts -------------------------------------------------------------------------------


@pytest.mark.parametrize("foresight", [False, True])
@pytest.mark.parametrize("network", [(0.0, 0.0), (1e-4, 1e-8)])
def test_what_an_lb_step_has_saved(foresight, network):
    trace = hotspot(n_ranks=5, n_objects=60, n_phases=23, seed=3)
    trace = replace(trace, speed=np.linspace(0.5, 1.5, 5), background=np.full(5, 1e-3))
    alpha, beta = network
    run = trace.replay("GreedyLB", every=5, alpha=alpha, beta=beta, foresight=foresight, cost=1e-3)
    ranks = run.rank.reshape(len(trace), -1)
    recorded = trace.task_rank.reshape(ranks.shape)[0]
    ends = [*run.lb_step_iterations[1:], len(trace) - 1]

    def longest(phases, rank):  # by the loads only, without messages
        return sum(trace[i].with_rank(rank).rank_times for i in phases).max()

    for d, end in zip(run.lb_steps, ends, strict=True):
        old = ranks[d.iteration] if d.iteration >= 0 else recorded
        phases = range(d.iteration + 1, end + 1)
        saved = longest(phases, old) - longest(phases, ranks[end])
        assert d.gain == pytest.approx(saved)
        assert d.iterations == len(phases)
        mean = run.metrics["mean"][phases].sum()
        assert d.realised == pytest.approx(run.metrics["max"][phases].sum() / mean)
    assert max(d.gain for d in run.lb_steps) > 0


def test_the_price_of_an_lb_step_is_that_of_the_steps_that_moved():
    def step(moved, statistics):
        return pylb.decide.Receipt(
            *(0, "balance", "", "auto"),
            moved=moved,
            seconds=4.0,
            seconds_statistics=statistics,
            seconds_strategy=1.0,
            seconds_migration=1.0,
        )

    trace = hotspot(n_ranks=2, n_objects=4, n_phases=2)
    history = pylb.decide.History([step(False, 50.0), step(True, 0.5)])
    facts = RunFacts(parameters={}, history=history, loops=[])
    prices = Prices(replace(trace, recorded=facts), None, True, (0.0, 1e-9), (0.0, 0.0))
    assert prices.model()[2] == 2.0


def test_what_lending_would_save():
    """6 and 2 seconds on two ranks; an object of 5 s, which is not divided; almost no imbalance."""
    entity, rank = [*range(8), 0, 1, 2, 0, 1], [0] * 6 + [1, 1, 0, 0, 1, 0, 1]
    load = [1.0] * 8 + [5.0, 1.0, 0.0, 1.0, 1.01]
    trace = make_trace(2, entity, rank, load, [0, 8, 11, 13], 8)
    assert trace.replay("none").lending_saved == pytest.approx((6 - 4) + (6 - 5))
    trace = replace(trace, speed=np.array([1.0, 3.0]))
    saved = (6 - 8 / 4) + (6 - 5 / 3) + (1.0 - 2.01 / 4)
    assert trace.replay("none").lending_saved == pytest.approx(saved)


def test_receipts_of_a_replay_are_those_of_a_run():
    trace = hotspot(n_ranks=4, n_objects=40, n_phases=30)
    run = trace.replay("GreedyLB", trigger="metabalancer", cost=1e-3)
    assert isinstance(run.decisions, pylb.decide.History)
    first, second = run.lb_steps[:2]
    assert first.left == 30 - first.iteration - 1
    assert second.figures["cost"] == 1e-3
    assert second.figures["residual"] >= 1.0
    assert "Trigger metabalancer found" in second.explain()
    assert "GreedyLB moved" in second.explain()
    assert [a.strategy for a in second.alternatives] == ["", "GreedyLB"]
    assert "GreedyLB" in str(run.decisions)
