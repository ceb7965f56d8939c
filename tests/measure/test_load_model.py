"""The linear model of loads against a search over all sets of features."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylb.errors import DomainError
from pylb.measure.load_model import KEEPS, LoadModel, features_of, non_negative


def twin(a, b):
    """Return the best of all sets of features, each by plain least squares."""
    best, least = np.zeros(len(b)), 0.0
    for size in range(1, len(b) + 1):
        for which in itertools.combinations(range(len(b)), size):
            some = np.array(which)
            x = np.zeros(len(b))
            x[some] = np.linalg.lstsq(a[np.ix_(some, some)], b[some], rcond=None)[0]
            value = 0.5 * x @ a @ x - b @ x
            if (x >= 0).all() and value < least:
                best, least = x, value
    return best, least


@given(seed=st.integers(0, 10**6), k=st.integers(1, 5), n=st.integers(1, 12))
def test_the_search_finds_the_best(seed, k, n):
    rng = np.random.default_rng(seed)
    rows = rng.random((n, k)) * 10.0 ** rng.integers(-3, 4, k)
    seconds = rows @ rng.normal(0.3, 1.0, k) + rng.normal(0, 0.1, n)
    a, b = rows.T @ rows, rows.T @ seconds
    x = non_negative(a, b)
    _, least = twin(a, b)
    assert (x >= 0).all()
    assert 0.5 * x @ a @ x - b @ x <= least + 1e-6 * (abs(least) + 1e-12)


def test_coefficients_are_found_and_older_steps_fade():
    rng = np.random.default_rng(1)
    model = LoadModel(2)
    for true in ([2.0, 0.5], [0.5, 3.0]):
        for _ in range(400):
            features = rng.random((30, 2))
            model = model.observe(features, float((features @ true).sum()))
        assert LoadModel.coefficients(model.sums) == pytest.approx(true, rel=1e-3)
    assert 0 < KEEPS < 1


def test_sums_of_ranks_add():
    steps = ([[4.0, 0.0]], 8.0), ([[0.0, 2.0]], 1.0)
    ranks = [LoadModel(2).observe(np.array(features), seconds) for features, seconds in steps]
    assert LoadModel.coefficients(ranks[0].sums + ranks[1].sums) == pytest.approx([2.0, 0.5])


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_nothing_is_known_of_a_rank_without_cells(seconds):
    model = LoadModel(2)
    model = model.observe(np.zeros((0, 2)), seconds)
    assert LoadModel.coefficients(model.sums).tolist() == [1.0, 1.0]


def test_features_that_are_always_alike():
    model = LoadModel(3)
    for n in (1, 2, 5):
        model = model.observe(np.ones((n, 3)), 6.0 * n)
    assert LoadModel.coefficients(model.sums).sum() == pytest.approx(6.0)


def test_features_are_checked():
    assert features_of([1, 2, 3]).shape == (3, 1)
    for wrong, says in (
        ([[1.0, -1.0]], r"features\[0\]"),
        ([[1.0], [np.nan]], r"features\[1\]"),
        (np.ones((2, 2, 2)), "has shape"),
        (np.ones((2, 0)), "has shape"),
        ("many", "expected an array"),
    ):
        with pytest.raises(DomainError, match=says):
            features_of(wrong)
