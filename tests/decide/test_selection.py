"""Room decide: the strategies among which the selection chooses (see tests/c/test_select.c)."""

import pytest

import pylb
from pylb.decide.decider import registered
from pylb.errors import DomainError
from pylb.placing.registry import AUTO, _registry


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
        with pytest.raises(DomainError, match="looks_at has 'loads'"):
            pylb.register_strategy(says_nothing, looks_at="loads")
    finally:
        _registry.clear()
        _registry.update(known)


def test_the_table_names_parameters_with_range_help_and_source():
    assert {p.name: p.default for p in AUTO.params} == {
        "imbalance": 1.1,
        "utilization": 0.7,
        "communication": 0.1,
        "tolerance": 1.05,
        "dearer": 2.0,
        "again": 5.0,
    }
    for p in AUTO.params:
        assert p.least <= p.default <= p.most
        assert any(source in p.help for source in ("Menon", "Charm++", "pylb"))
    assert pylb.strategy("auto", again=7).values["again"] == 7.0


def test_bad_arguments():
    for call, match in [
        (lambda: pylb.strategy("auto", imbalance=0.9), r"imbalance is 0\.9: expected 1"),
        (lambda: pylb.strategy("auto", tolerence=1.1), "did you mean tolerance"),
    ]:
        with pytest.raises(DomainError, match=match):
            call()
