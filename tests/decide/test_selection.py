"""Room decide: the selection of strategies (Menon 3.7)."""

import math
from types import SimpleNamespace

import pytest

import pylb
from pylb import _core
from pylb.decide.selection import PARAMS, registered
from pylb.errors import DomainError
from pylb.placing.registry import LOOKS_AT, Strategy, _registry, values_of

ALPHA, BETA = 1e-3, 1e-6


def named(name, family, *looks_at):
    """Return a strategy with a name and properties, without an algorithm."""
    return Strategy(name, family, looks_at, "", "")


FULL = [
    named("Stay", "refinement"),
    named("Greedy", "comprehensive", "load", "speed"),
    named("Refine", "refinement", "load"),
    named("RefineSwap", "refinement", "load"),
    named("Metis", "comprehensive", "load", "communication"),
    named("Scotch", "comprehensive", "communication"),
    named("ScotchRefine", "refinement", "load", "communication"),
]
BALANCED = {"max": 1.05, "mean": 1.0, "total": 8.0, "utilization": 0.9, "messages": 0, "nbytes": 0}
IMBALANCED = {**BALANCED, "max": 1.5, "utilization": 0.6}
CHATTY = {"messages": 500, "nbytes": 400_000}  # messages cost 0.9 s of the 8 s of load


class Selection:
    """The selection in C, after all events so far: `_core.select` gets all of them each time."""

    def __init__(self, strategies=FULL, alpha=ALPHA, beta=BETA, **params):
        self.strategies, self.events = {s.name: s for s in strategies}, []
        self.rows = [
            (s.family == "refinement", sum(LOOKS_AT[word] for word in s.looks_at))
            for s in strategies
        ]
        values = values_of("selection", PARAMS, params)
        self.params = dict(zip((p.name for p in PARAMS), values, strict=True))
        self.network = alpha, beta
        self.choice = self.told()

    def told(self, *event):
        values = list(self.params.values())
        answer = _core.select(self.rows, *self.network, values, [*self.events, *event])
        self.events += event
        names = list(self.strategies)
        self.choice = SimpleNamespace(strategy=names[answer.pop("candidate")], **answer)
        return self.choice

    def observe(self, *, max, mean, total, utilization, messages, nbytes):
        return self.told((max, mean, total, utilization, messages, nbytes))


def selector(strategies=FULL, **params):
    return Selection(strategies, **params)


def done(selector, strategy, after, cost=1.0):
    candidate = list(selector.strategies).index(strategy)
    return selector.told((candidate, after, cost))


@pytest.mark.parametrize(
    ("load", "need", "strategy"),
    [
        ({}, "balanced and no rank is idle", "Greedy"),
        (CHATTY, "balanced and no rank is idle", "Metis"),
        ({"utilization": 0.6}, "neither imbalance nor communication", "Greedy"),
        ({"utilization": 0.6, **CHATTY}, "idle and communication is intensive", "Metis"),
        ({"max": 1.5}, "imbalanced and communication is not", "Greedy"),
        ({"max": 1.5, "utilization": 0.5}, "imbalanced and communication is not", "Greedy"),
        ({"max": 1.5, **CHATTY}, "imbalanced and communication is intensive", "Metis"),
        ({"max": 0.0, "mean": 0.0, "total": 0.0, "utilization": 1.0}, "balanced", "Greedy"),
    ],
)
def test_each_path_of_figure_3_8(load, need, strategy):
    choice = selector().observe(**{**BALANCED, **load})
    assert need in choice.need
    assert (choice.strategy, choice.family) == (strategy, "comprehensive")


def test_figures_3_6_and_3_7():
    """Menon 2012: GreedyLB for leanmd (few messages); MetisLB for kNeighbor (large messages)."""
    leanmd = selector().observe(
        max=1.8, mean=1.0, total=64.0, utilization=0.5, messages=2000, nbytes=10**6
    )
    assert (leanmd.strategy, leanmd.kind) == ("Greedy", "computation")
    kneighbor = selector().observe(
        max=1.0, mean=1.0, total=4.0, utilization=0.4, messages=64, nbytes=2**22
    )
    assert (kneighbor.strategy, kneighbor.kind) == ("Metis", "communication")


def test_on_the_thresholds_themselves():
    s = selector(alpha=0.25, beta=0.0, imbalance=1.25, utilization=0.5)
    edge = {**BALANCED, "max": 1.25, "utilization": 0.5}
    assert "balanced and no rank" in s.observe(**edge).need
    assert "imbalanced" in s.observe(**{**edge, "max": math.nextafter(1.25, 2)}).need
    assert s.observe(**{**edge, "utilization": 0.49}).need.startswith("ranks are idle")
    ten = {**edge, "total": 5.0, "utilization": 0.4}  # the messages cost 0.5 s, 10 % of the load
    assert s.observe(**{**ten, "messages": 2}).kind == "communication"
    assert s.observe(**{**ten, "messages": 2, "total": 5.001}).kind == "computation"


def test_comprehensive_first_of_each_kind_then_refinement():
    s = selector()
    assert s.choice.need == "nothing was observed yet"
    assert s.observe(**IMBALANCED).strategy == "Greedy"
    assert done(s, "Greedy", 1.02).strategy == "Refine"
    assert "after the first one move few" in s.choice.lead
    assert done(s, "Refine", 1.03).strategy == "Refine"
    assert "about as well" in s.choice.lead
    talks = s.observe(**{**IMBALANCED, **CHATTY})
    assert (talks.strategy, talks.lead) == ("Metis", selector().choice.lead)
    assert done(s, "Metis", 1.0).strategy == "ScotchRefine"
    assert s.observe(**IMBALANCED).strategy == "Refine"


def test_poor_refinements_give_way_and_get_another_chance():
    s = selector(again=3)
    s.observe(**IMBALANCED)
    done(s, "Greedy", 1.0)
    assert done(s, "Refine", 1.05).family == "refinement"  # exactly the tolerance
    choice = done(s, "Refine", 1.06)
    assert (choice.strategy, choice.lead) == (
        "Greedy",
        "the last LB step that moved few objects left more imbalance than the last one from "
        "scratch",
    )
    done(s, "Greedy", 1.0)
    assert done(s, "Greedy", 1.0).strategy == "Greedy"
    again = done(s, "Greedy", 1.0)
    assert again.strategy == "Refine"
    assert "another chance" in again.lead
    assert done(s, "Refine", 1.2).strategy == "Greedy"
    for _ in range(3):
        choice = done(s, "Greedy", 1.0)
    assert choice.strategy == "RefineSwap"  # Refine leaves too much imbalance
    assert done(s, "RefineSwap", 1.0).strategy == "RefineSwap"


def test_expensive_refinements_give_way_unless_they_leave_less():
    s = selector()
    s.observe(**IMBALANCED)
    done(s, "Greedy", 1.02, cost=1.0)
    assert done(s, "Refine", 1.02, cost=2.0).family == "refinement"  # twice the cost is accepted
    done(s, "Refine", 1.02, cost=1.0)
    assert done(s, "Refine", 1.02, cost=2.4).family == "refinement"  # the mean of costs is 1.95
    choice = done(s, "Refine", 1.02, cost=2.5)  # the mean of costs is 2.225
    assert choice.family == "comprehensive"
    assert "cost more" in choice.lead
    assert done(s, "Refine", 1.01, cost=9.0).family == "refinement"


def test_if_nothing_helps_strategies_are_tried_again_now_and_then():
    """One object is too heavy: every strategy leaves max/mean 1.5. A comprehensive one is tried
    after every five refinements, since the loads may have changed.
    """
    s = selector()
    used = []
    for _ in range(20):
        choice = s.observe(**IMBALANCED)
        used.append(choice.strategy)
        done(s, choice.strategy, 1.5)
    assert used == [
        "Greedy",
        *["Refine", "RefineSwap", "Refine", "Refine", "Refine"],
        *["Greedy", *["Refine"] * 5] * 2,
        *["Greedy", "Refine"],
    ]


def test_a_strategy_that_goes_on_to_leave_little_ends_the_trials():
    s = selector()
    s.observe(**{**IMBALANCED, **CHATTY})
    done(s, "Metis", 1.3)
    assert done(s, "ScotchRefine", 1.5).strategy == "Scotch"
    choice = done(s, "Scotch", 1.3, cost=0.5)  # as good as MetisLB, and cheaper
    assert choice.strategy == "Scotch"
    assert done(s, "Metis", 1.3, cost=0.0).strategy == "Metis"  # all equal: first in the table


@pytest.mark.parametrize(
    ("names", "load", "picked", "kind", "used"),
    [
        (["Greedy", "Refine"], CHATTY, "Greedy", "communication", "computation"),
        (["Metis", "ScotchRefine"], {}, "Metis", "computation", "communication"),
        (["Refine", "Metis"], {}, "Refine", "computation", "computation"),
        (["Refine", "Metis"], CHATTY, "Metis", "communication", "communication"),
    ],
)
def test_another_strategy_replaces_one_that_is_not_registered(names, load, picked, kind, used):
    s = selector([x for x in FULL if x.name in names])
    choice = s.observe(**{**IMBALANCED, **load})
    assert (choice.strategy, choice.kind, choice.used) == (picked, kind, used)
    assert kind != used or "no strategy of another family" in choice.lead


def test_strategies_added_later_take_part():
    known = dict(_registry)
    assert {s.name for s in registered()} == {
        name
        for name, s in known.items()
        if s.call is None and s.selectable and {"load", "communication"} & set(s.looks_at)
    }
    try:

        @pylb.register_strategy(family="refinement", looks_at=("communication", "load"))
        def keep_neighbours(snapshot):
            return snapshot.rank

        @pylb.register_strategy
        def says_nothing(snapshot):
            return snapshot.rank

        assert pylb.strategies()["keep_neighbours"].looks_at == ("load", "communication")
        names = {s.name for s in registered()}
        assert "says_nothing" not in names
        assert "keep_neighbours" in names
        table = pylb.strategies()
        only = selector([table[name] for name in ("GreedyLB", "RefineLB", "keep_neighbours")])
        choice = only.observe(**{**IMBALANCED, **CHATTY})
        assert (choice.strategy, choice.used) == ("keep_neighbours", "communication")
        with pytest.raises(DomainError, match="looks_at has 'loads'"):
            pylb.register_strategy(says_nothing, looks_at="loads")
    finally:
        _registry.clear()
        _registry.update(known)


def test_the_table_names_parameters_with_range_help_and_source():
    assert {p.name: p.default for p in PARAMS} == {
        "imbalance": 1.1,
        "utilization": 0.7,
        "communication": 0.1,
        "tolerance": 1.05,
        "dearer": 2.0,
        "again": 5.0,
    }
    for p in PARAMS:
        assert p.least <= p.default <= p.most
        assert any(source in p.help for source in ("Menon", "Charm++", "pylb"))
    assert selector(again=7).params["again"] == 7.0


def test_bad_arguments():
    for call, match in [
        (lambda: pylb.strategy("auto", imbalance=0.9), r"imbalance is 0\.9: expected 1"),
        (lambda: pylb.strategy("auto", tolerence=1.1), "did you mean tolerance"),
        (lambda: selector([]), "none of 0 strategies looks at"),
        (lambda: selector(FULL[:1]), "none of 1 strategies looks at"),
    ]:
        with pytest.raises(DomainError, match=match):
            call()
