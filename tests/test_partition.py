"""pylb.partition: every method, what a partition is worth, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import pylb
from pylb import partitioners
from pylb.errors import DomainError
from pylb.partition import METHODS


def here(method):
    library = METHODS[method].library
    return library in ("", "pylb") or partitioners.available(library)


GRAPHS = [m for m in METHODS if here(m) and METHODS[m].takes != "coords"]
POINTS = [m for m in METHODS if here(m) and METHODS[m].takes == "coords"]


def stencil(*shape):
    """The matrix of a stencil of 3^d points."""
    out = sp.eye_array(1)
    for n in shape:
        ones = [np.ones(n - 1), np.ones(n), np.ones(n - 1)]
        out = sp.kron(out, sp.diags_array(ones, offsets=[-1, 0, 1]))
    return sp.csr_array(out)


def volume(A, part):
    """Words that y = A x sends when rows and x are divided alike, the slow way."""
    return sum(len({*part[A.indices[A.indptr[v] : A.indptr[v + 1]]]}) - 1 for v in range(len(part)))


@pytest.mark.parametrize("method", GRAPHS)
def test_a_stencil_is_divided_well_and_its_worth_is_true(method):
    A = stencil(20, 20)
    out = pylb.partition(A, 4, method=method, starts=2)
    assert np.bincount(out.part).max() <= 103
    assert out.max_over_mean == pytest.approx(np.bincount(out.part).max() / 100)
    assert out.volume == volume(A, out.part) <= 120  # four squares: 80 or so
    if out.cut is not None:
        i, j = A.nonzero()
        assert out.cut == np.count_nonzero(out.part[i] != out.part[j]) / 2
    again = pylb.partition(A, 4, method=method, starts=2)
    assert np.array_equal(out.part, again.part)
    assert method in repr(out)


@pytest.mark.parametrize("method", POINTS)
def test_points_are_divided(method):
    xy = np.random.default_rng(0).random((1000, 2))
    weight = np.linspace(1.0, 2.0, 1000)
    out = pylb.partition(coords=xy, weight=weight, parts=7, method=method)
    assert out.max_over_mean <= 1.03
    assert out.volume is None
    shares = np.array([1.0, 2.0, 1.0])
    out = pylb.partition(coords=xy, parts=3, shares=shares, method=method)
    assert out.max_over_mean <= 1.03
    assert out.weights[1] > 400


@pytest.mark.parametrize("method", [m for m in GRAPHS if m != "metis"])
def test_fixed_vertices_shares_and_weights(method):
    A = stencil(16, 16)
    fixed = np.full(256, -1)
    fixed[[0, 255]] = [1, 0]
    weight = 1.0 + np.arange(256) % 3 / 7
    out = pylb.partition(
        A, 3, method=method, fixed=fixed, shares=[1.0, 2.0, 0.0], weight=weight, starts=2
    )
    assert out.part[0] == 1
    assert out.part[255] == 0
    assert out.weights[2] == 0
    assert out.max_over_mean <= 1.05


@pytest.mark.parametrize("method", [m for m in GRAPHS if m != "metis"])
def test_repartitioning_weighs_migration(method):
    A = stencil(24, 24)
    old = (np.arange(576) // 144).astype(int)
    weight = np.where(np.arange(576) < 144, 1.6, 1.0)
    moved = [
        int(
            np.count_nonzero(
                old
                != pylb.partition(
                    A,
                    4,
                    method=method,
                    old=old,
                    weight=weight,
                    migration_ratio=ratio,
                    starts=2,
                ).part
            )
        )
        for ratio in (0.01, 1000.0)
    ]
    assert 0 < moved[0] <= max(moved[1], 300)


def test_the_best_of_several_is_at_least_as_good_as_one():
    A = stencil(12, 12, 12)
    one = pylb.partition(A, 5, starts=1, cycles=0)
    best = pylb.partition(A, 5, starts=3, cycles=4)
    assert best.volume <= one.volume
    assert best.max_over_mean <= 1.031


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 19), max_size=5), max_size=25),
    st.integers(1, 6),
    st.sampled_from([m for m in METHODS if here(m) and METHODS[m].takes == "nets"]),
)
def test_any_hypergraph(nets, parts, method):
    start = np.cumsum([0, *map(len, nets)])
    pin = np.array([v for e in nets for v in e], int)
    weight = 0.5 + np.arange(len(nets))
    coords = np.zeros((20, 1))  # says how many vertices there are
    out = pylb.partition(
        nets=(start, pin, weight), coords=coords, parts=parts, method=method, starts=2
    )
    assert np.bincount(out.part, minlength=parts).min() > 0
    expected = sum(
        w * max(0, len({int(out.part[v]) for v in e}) - 1)
        for e, w in zip(nets, weight, strict=True)
    )
    assert out.volume == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"method": "mettis"}, DomainError, r"no method 'mettis': .*metis"),
        ({"parts": 0}, DomainError, "parts is 0"),
        ({"imbalance": 0.9}, DomainError, "imbalance is 0.9"),
        ({"weight": [1.0, np.nan, 1.0]}, DomainError, r"weight\[1\] is nan"),
        ({"weight": [1.0, -1.0, 1.0]}, DomainError, r"weight\[1\] is -1"),
        ({"weight": [1.0]}, DomainError, r"weight has shape \(1,\): expected \(3,\)"),
        ({"fixed": [0, 5, 0]}, DomainError, r"fixed\[1\] is 5"),
        ({"fixed": [0.5, 1.0, 0.0]}, DomainError, "fixed has dtype float64"),
        ({"old": [0, 0, 0], "migration_ratio": 0.0}, DomainError, "migration_ratio is 0"),
        ({"starts": 0}, DomainError, "starts is 0"),
        ({"NITER": 3}, DomainError, "method 'hypergraph' has no parameter 'NITER'"),
        ({"graph": None}, DomainError, "graph is missing"),
        ({"graph": ([0, 1], [7])}, DomainError, r"pin\[0\] is 7"),
        ({"method": "rcb"}, DomainError, "coords are missing"),
    ],
)
def test_wrong_input_is_named(wrong, error, said):
    given = {"graph": ([0, 1, 3, 4], [1, 0, 2, 1]), "parts": 2, **wrong}
    if given.get("method") in METHODS and not here(given["method"]):
        pytest.skip("not here")
    with pytest.raises(error, match=said):
        pylb.partition(**given)


def test_an_asymmetric_matrix_is_refused_with_the_way_out():
    A = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]]))
    with pytest.raises(DomainError, match=r"not symmetric at \(0, 1\).*A \+ A\.T"):
        pylb.partition(A, 2)
    assert len(pylb.partition(A + A.T, 2).part) == 3
