"""The decider: calls in a wrong order, impossible figures.

The golden receipts (tests/place/golden.py) show every change of its decisions.
"""

import math

import numpy as np
import pytest

import pylb
from pylb import _core
from pylb.decide.decider import BALANCE, BEGIN, FIGURES, JUDGE, NOTHING, PREVIEW, settings
from pylb.errors import DomainError, StateError

NAN, INF = math.nan, math.inf


# ---- calls out of order ------------------------------------------------------------------------

SOME = (2.0, 2.0, 1.5, 1.0, 3.0, 0.5, 7, 70)  # time, max, mean, min, total, utilization, ...
PLACED = [1.5, 1.0, 1.5, 1.0, *[NAN] * 3, 0.5, 0.9, 0.0, 0.0, *[NAN] * 4, 0.0, *[NAN] * 9]
PLACED += [0.1, 0.2, *[NAN] * 3]


def fresh(strategy="GreedyLB", trigger=None, **options):
    trigger = trigger or pylb.trigger("periodic", every=1)
    return settings(strategy, trigger=trigger, **options).decider(2).core


def observed(core, iteration=0):
    core.observe(iteration, *SOME)
    return core


def refused(core, match, call, *args, error=StateError):
    """Check that a call raises an error, and changes nothing."""

    def state():
        facts = core.ledger, core.n_lb_steps, core.can_judge, core.foresees
        return repr(core.receipts()), *facts

    before = state()
    with pytest.raises(error, match=match or None):
        call(*args)
    assert state() == before


def finish(core):
    """Finish an LB step that has begun, as if there had been no error."""
    core.placed(np.array(PLACED), np.zeros(2))
    core.balanced(3, 1500, 0.3, 0.7, True)
    assert [r["kind"] for r in core.receipts()] == ["balance"]
    return core.receipts()[0]


def test_calls_at_the_wrong_place_in_an_lb_step_are_refused():
    core = observed(fresh())
    assert core.next(True, True) == BALANCE
    refused(core, "", core.placed, np.array(PLACED), np.zeros(2))
    refused(core, "", core.balanced, 0, 0, 0.0, 0.0, True)
    room = np.zeros(_core.PLACING), np.zeros(2), np.zeros(1, np.int32)
    snapshot = pylb.Snapshot([1.0], [0], n_ranks=2, key=[1])
    refused(core, "", core.place, snapshot, None, None, *room)
    core.choose()
    refused(core, "iteration 1 was observed while", observed, core, 1)
    refused(core, "begins while", core.choose)
    refused(core, "waits for an answer", core.next, True, True)
    refused(core, "expected an earlier call", core.network, 1.0, 1.0)
    refused(core, "with a placement is under way", core.balanced, 0, 0, 0.0, 0.0, True)
    expected = finish(core)
    assert (expected["predicted"], expected["cost"], expected["seconds"]) == (1.0, 0.7, 0.7)
    refused(core, "with a placement is under way", core.balanced, 0, 0, 0.0, 0.0, True)
    refused(core, "", core.placed, np.array(PLACED), np.zeros(2))
    observed(core, 1)


def test_a_second_placement_and_nothing_to_judge_or_preview():
    core = observed(fresh())
    core.choose()
    core.placed(np.array(PLACED), np.array([1.0, 2.0]))
    refused(core, "", core.placed, np.array(PLACED), np.array([3.0, 2.0]))
    core.balanced(0, 0, 0.0, 0.0, True)
    assert core.receipts()[0]["speed"] == (1.0, 2.0)
    core = observed(fresh())
    snapshot = pylb.Snapshot([1.0], [0], n_ranks=2, key=[1])
    refused(core, "no LB step whose gain", core.judge, 1.0)
    refused(core, "not asked for", core.preview, snapshot, None, None)
    refused(core, "no preview is due", core.previewed, 1.0)


def test_the_decider_waits_for_a_gain_that_it_asked_for():
    core = observed(fresh(gives_up=True))
    core.choose()
    finish(core)
    observed(core, 1)
    assert core.next(True, True) == JUDGE
    refused(core, "waits for an answer", observed, core, 2)
    refused(core, "", core.choose)
    refused(core, "", core.next, True, True)
    refused(core, "gain is nan", core.judge, NAN, error=DomainError)
    core.judge(5.0)
    assert core.next(True, True) == BALANCE


@pytest.mark.parametrize(("seconds", "waits"), [(2.0, 0), (0.08, 2)])
def test_a_slow_function_begins_iterations_before_its_lb_step(seconds, waits):
    core = observed(fresh(lambda s: s.rank, beside=True))
    snapshot = pylb.Snapshot([1.0], [0], n_ranks=2, key=[1])
    refused(core, "not asked for", core.begin, snapshot, None, None)
    assert core.next(True, True) == BALANCE  # nobody knows how long it takes
    core.choose()
    finish(core)  # it has taken 0.2 s
    assert observed(core, 1).next(True, False) == BALANCE
    assert core.next(True, True) == BEGIN
    core.begin(snapshot, None, None)
    for i in range(waits + 1):
        core.observe(2 + i, *(seconds * np.array([1, 1, 0.75, 0.5, 1.5])), 0.5, 0, 0)
        assert core.next(False, True) == (BALANCE if i == waits else NOTHING)
    core.choose()
    rank = np.ones(1, np.int32)
    core.place(snapshot, None, None, np.zeros(_core.PLACING), np.zeros(2), rank)
    assert rank[0] == 0


def watching():
    """Return a decider that has just asked for a preview."""
    core = settings("GreedyLB", trigger="auto", learn_speeds=True, gives_up=False).decider(2).core
    observed(core)
    core.choose()
    finish(core)
    for i in range(1, 100):
        asked = core.observe(i, 2.0, 2.0, 1.5, 1.0, 3.0, 0.5, 0, 0)
        if core.next(asked and False, True) == PREVIEW:
            return core, i
    raise AssertionError("it never asks for a preview")


def test_the_decider_waits_for_a_preview_that_it_asked_for():
    core, i = watching()
    refused(core, "waits for an answer", observed, core, i + 1)
    refused(core, "", core.choose)
    refused(core, "", core.next, True, True)
    for bad in (NAN, INF, -INF):
        refused(core, f"gain is {bad}", core.previewed, bad, error=DomainError)
    snapshot = pylb.Snapshot([1.0], [0], n_ranks=3, key=[1])
    refused(core, "3 ranks: expected 2", core.preview, snapshot, None, None, error=DomainError)
    assert core.previewed(1e3) == BALANCE
    core.choose()
    core.placed(np.array(PLACED), np.zeros(2))
    core.balanced(0, 0, 0.0, 0.0, True)
    last = core.receipts()[-1]
    assert (last["kind"], last["found"]) == ("speeds", 1e3)


def test_the_network_is_told_before_the_first_iteration():
    core = fresh("auto")
    core.network(1e-3, 1e-6)
    for bad in (NAN, INF, -1.0):
        refused(core, f"alpha is {bad:g}", core.network, bad, 0.0, error=DomainError)
        refused(core, f"beta is {bad:g}", core.network, 0.0, bad, error=DomainError)
    observed(core)
    refused(core, "expected an earlier call", core.network, 1e-3, 1e-6)
    core.choose()  # the selection uses the network that was given first
    finish(core)


def test_a_network_is_checked_even_if_it_has_no_effect():
    with pytest.raises(DomainError, match="alpha is nan"):
        settings("GreedyLB", every=1).decider(2, (NAN, 0.0))
    refused(core := fresh(), "beta is -1", core.network, 0.0, -1.0, error=DomainError)


@pytest.mark.parametrize("trigger", pylb.triggers())
def test_iteration_numbers_must_increase(trigger):
    core = fresh(trigger=pylb.trigger(trigger, **{"every": 1} if trigger == "periodic" else {}))
    observed(core, 5)
    for bad in (5, 4):
        refused(core, rf"iteration is {bad}: expected m", observed, core, bad)
    refused(core, "", observed, core, -1)
    observed(core, 6)


def test_what_failed_is_abandoned():
    core = observed(fresh())
    core.choose()
    core.abandon()
    observed(core, 1)
    core.choose()
    assert finish(core)["iteration"] == 1
    core, i = watching()
    core.abandon()
    observed(core, i + 1)


# ---- figures that cannot be --------------------------------------------------------------------


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -1e-9])
@pytest.mark.parametrize("strategy", ["GreedyLB", "auto"])
def test_figures_of_an_iteration(strategy, bad):
    core = fresh(strategy)
    for i, name in enumerate(("time", "max", "mean", "min", "total", "utilization")):
        row = [*SOME]
        row[i] = bad
        refused(core, f"{name} is {bad:g}", core.observe, 0, *row, error=DomainError)
    refused(core, "tion is 1.5", core.observe, 0, *SOME[:5], 1.5, 0, 0, error=DomainError)
    refused(core, "messages is -1", core.observe, 0, *SOME[:6], -1, 0, error=DomainError)
    refused(core, "bytes is -2", core.observe, 0, *SOME[:7], -2, error=DomainError)
    for number in (-1, 2**60):
        call = [number, *SOME]
        refused(core, f"n is {number}", core.observe, *call, error=DomainError)
    assert observed(core).next(True, True) == BALANCE


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -1e-9])
def test_figures_of_a_placement(bad):
    core = observed(fresh("auto"))
    core.choose()
    for name in ("before", "predicted"):
        row = np.array(PLACED)
        row[FIGURES.index(name)] = bad
        match = f"{name} is {bad:g}"
        refused(core, match, core.placed, row, np.zeros(2), error=DomainError)
    row = np.array(PLACED)
    row[1] = 0.5
    refused(core, "predicted is 0.5", core.placed, row, np.zeros(2), error=DomainError)
    refused(
        core,
        rf"speed\[1\] is {bad:g}",
        core.placed,
        np.array(PLACED),
        np.array([1.0, bad]),
        error=DomainError,
    )
    with pytest.raises(ValueError, match="figures"):
        core.placed(np.array(PLACED[1:]), np.zeros(2))
    finish(core)


@pytest.mark.parametrize("bad", [NAN, INF, -INF, -1e-9])
def test_figures_of_an_lb_step(bad):
    core = observed(fresh("auto"))
    core.choose()
    core.placed(np.array(PLACED), np.zeros(2))
    refused(core, f"cost is {bad:g}", core.balanced, 0, 0, 0.0, bad, True, error=DomainError)
    if not math.isnan(bad):  # nan means: not known
        call, match = (0, 0, bad, 1.0, True), f"seconds_migration is {bad:g}"
        refused(core, match, core.balanced, *call, error=DomainError)
    refused(core, "migrations is -1", core.balanced, -1, 0, 0.0, 1.0, True, error=DomainError)
    refused(core, "bytes is -1", core.balanced, 0, -1, 0.0, 1.0, True, error=DomainError)
    core.balanced(0, 0, NAN, 1.0, True)
    refused(core, "gain is", core.judge, bad if bad != -1e-9 else NAN, error=DomainError)


def test_expect_refuses_wrong_values():
    core = fresh()
    for bad in (INF, -1.0):
        refused(core, f"cost is {bad:g}", core.expect, 10, bad, error=DomainError)
    refused(core, "end is -1", core.expect, -1, 1.0, error=DomainError)
    refused(core, "moving is -1", core.expect, 10, 1.0, -1.0, error=DomainError)
    refused(core, "moving is 1.1: .* the cost", core.expect, 10, 1.0, 1.1, error=DomainError)
    core.expect(10, NAN)
    observed(core)
    core.choose()
    assert finish(core)["left"] == 9.0


def test_what_a_placement_is_written_to():
    core = observed(fresh())
    core.choose()
    snapshot = pylb.Snapshot([1.0, 2.0], [0, 0], n_ranks=2, key=[1, 2])
    room = [np.zeros(_core.PLACING), np.zeros(2), np.zeros(2, np.int32)]
    core.place(snapshot, None, None, *room)
    assert sorted(room[2]) == [0, 1]
    for i, name in enumerate(("figures", "speed", "rank")):
        short = [*room]
        short[i] = room[i][1:]
        with pytest.raises(ValueError, match=name):
            core.place(snapshot, None, None, *short)
    other = pylb.Snapshot([1.0, 2.0], [0, 0], n_ranks=3, key=[1, 2])
    refused(core, "3 ranks", core.place, other, None, None, *room, error=DomainError)
    with pytest.raises(ValueError, match="no keys"):
        core.place(pylb.Snapshot([1.0, 2.0], [0, 0], n_ranks=2), np.ones(2), None, *room)
    with pytest.raises(ValueError, match="here"):
        core.place(snapshot, np.zeros(3), None, *room)
    with pytest.raises(ValueError, match=r"reason is 99: expected -1 \.\.\. 20"):
        fresh().choose(99)


def test_every_reason_can_be_passed_on():
    seen = []
    for reason in range(20):
        core = observed(fresh())
        core.choose(reason)
        seen.append(finish(core)["reason"])
    assert len(set(seen)) == 20


def test_a_strategy_that_raises_leaves_the_lb_step_open():
    def bad(snapshot):
        raise OSError("no")

    core = observed(fresh(bad))
    core.choose()
    snapshot = pylb.Snapshot([1.0], [0], n_ranks=2, key=[1])
    room = np.zeros(_core.PLACING), np.zeros(2), np.zeros(1, np.int32)
    with pytest.raises(pylb.errors.StrategyError, match="'bad' raised OSError: no"):
        core.place(snapshot, None, None, *room)
    finish(core)


def test_what_a_decider_is_made_of():
    given = {
        "n_ranks": 2,
        "candidates": (("GreedyLB", "GreedyLB", False, 1, []),),
        "trigger": pylb.trigger("periodic", every=1),
        "selects": False,
        "selection": [p.default for p in pylb.placing.registry.AUTO.params],
        "ledger": [row[1] for row in _core.ledger()],
        "gives_up": False,
        "learns": False,
        "watches": False,
        "move_at_most": 0.0,
        "beside": False,
        "network": (0.0, 0.0),
        "seed": 0,
        "keep": 0,
    }
    _core.Decider(**given)
    for name, value, error, match in (
        ("n_ranks", 0, DomainError, "0 ranks"),
        ("candidates", (), DomainError, "0 strategies"),
        ("candidates", given["candidates"] * 2, DomainError, "2 strategies"),
        ("candidates", (("GreedyLB", "GreedyLB", False, 1, [1.0] * 9),), ValueError, "parameters"),
        ("trigger", "auto", TypeError, "trigger"),
        ("selection", [1.0], ValueError, "selection"),
        ("ledger", [0.0] * 5, DomainError, "tries is 0"),
        ("keep", 7, DomainError, "keep is 7"),
    ):
        with pytest.raises(error, match=match):
            _core.Decider(**given | {name: value})
