"""Colouring and ordering on one process; tests/mpi/dgraph_cases.py has the cases for several."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import pylb
from pylb import _core
from pylb.errors import DomainError

sys.path.insert(0, str(Path(__file__).parents[1] / "mpi"))
import dgraph_cases

built = pytest.mark.skipif(find_spec("pylb._dgraph") is None, reason="no Zoltan with PT-Scotch")


@built
def test_on_one_process():
    matrix = dgraph_cases.grid(30, 30)
    assert pylb.partitioning.color(matrix).n_colors <= 5
    found = pylb.partitioning.color(matrix, 2)
    assert 5 <= found.n_colors <= 13
    assert repr(found).startswith(
        f"<Coloring: {found.n_colors} colours for 900 vertices, distance 2"
    )
    order = pylb.partitioning.order(matrix)
    assert order.fill < 0.7 * order.fill_before
    assert 15 <= order.separators[0] <= 45
    assert repr(order).startswith(f"<Ordering: 900 vertices, fill {order.fill} of ")


@pytest.mark.parametrize("seed", range(5))
def test_fill_is_that_of_an_elimination(seed):
    rng = np.random.default_rng(seed)
    n = 30
    dense = np.triu(rng.random((n, n)) < 0.08, 1)
    dense |= dense.T
    to = np.nonzero(dense)[1].astype(np.int32)
    start = np.concatenate([[0], np.cumsum(dense.sum(axis=1))])
    place = rng.permutation(n).astype(np.int32)
    at = np.argsort(place)
    column = _core.fill(start, to, place)
    from scipy import sparse

    assert column.sum() == dgraph_cases.fill_twin(sparse.csr_array(dense[at][:, at].astype(float)))


def test_fill_refuses_what_is_no_order():
    with pytest.raises(DomainError, match=r"perm\[1\] is 0: expected each of 0 ... 1 once"):
        _core.fill([0, 1, 2], np.array([1, 0], np.int32), np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="rows of a graph"):
        _core.fill([0, 1, 2], np.array([1, 2], np.int32), np.arange(2, dtype=np.int32))
