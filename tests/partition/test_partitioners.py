"""METIS, Scotch and Zoltan: arguments, answers and errors of the calls."""

import ctypes
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import dgraph_cases
import numpy as np
import pytest
from launch import HERE, launch

import pylb
from pylb import _core, optional
from pylb.errors import DomainError, MissingPartError, OutOfRangeError
from pylb.partitioning import libraries


@pytest.fixture(params=[*libraries.NAMES, "pylb"])
def library(request):
    if request.param == "pylb":
        return request.param
    if not libraries.available(request.param):
        pytest.skip(f"pylb was built without {request.param}")
    libraries.load(request.param)
    return request.param


def only(library, *names):
    if library not in names:
        pytest.skip(f"{library} does not take that")


def grid(*shape):
    """Return the edges of a grid, both directions, as CSR: start, to."""
    matrix = dgraph_cases.grid(*shape)
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)


def cut(start, to, part):
    return int(np.count_nonzero(np.repeat(part, np.diff(start)) != part[to])) // 2


@pytest.mark.parametrize(("side", "parts", "imbalance"), [(15, 8, 1.03), (25, 7, 1.001)])
@pytest.mark.parametrize("given", [{}, {"weight": 7}, {"share": 1}])
def test_a_grid_that_cannot_be_cut_as_evenly_as_asked(library, side, parts, imbalance, given):
    start, to = grid(side, side)
    n = side * side
    given = {
        name: np.full(n, value, np.int32) if name == "weight" else np.arange(2.0, parts + 2)
        for name, value in given.items()
    }
    part = _core.partition(library, n, parts, start=start, to=to, imbalance=imbalance, **given)
    assert cut(start, to, part) < 2.0 * np.sqrt(parts) * side
    ideal = n * given.get("share", np.ones(parts))
    ideal /= given.get("share", np.ones(parts)).sum()
    assert (np.bincount(part) <= np.ceil(1.01 * ideal) + 1).all()


def test_same_seed_same_answer_on_any_number_of_threads(library):
    start, to = grid(20, 20, 5)

    def ask(seed):
        return _core.partition(library, 2000, 7, start=start, to=to, seed=seed).tolist()

    once = [ask(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, [0, 1, 2, 3, 3, 2, 1, 0])) == once + once[::-1]
    assert any(answer != once[0] for answer in once[1:])


@pytest.mark.parametrize("share", [(1, 0), (1, 1, 0), (3, 1, 0, 0), (0, 0, 1)])
def test_a_part_without_a_share_keeps_its_fixed_vertices_only(library, share):
    only(library, "Scotch", "Zoltan", "pylb", "mtkahypar")
    start, to = grid(16, 16)
    fixed, weight = np.full(256, -1, np.int32), np.ones(256, np.int32)
    fixed[200], weight[200] = share.index(0), 20
    for question in ({}, {"old": (np.arange(256) % len(share)).astype(np.int32)}):
        if question and library == "mtkahypar":
            continue
        part = _core.partition(
            library, 256, len(share), start=start, to=to, fixed=fixed, weight=weight,
            share=np.array(share, float), **question,
        )  # fmt: skip
        load = np.bincount(part, weight, len(share))
        assert np.array_equal(load == 20, np.arange(len(share)) == share.index(0))
        mean = np.array(share) * 275 / sum(share)
        assert np.all(load[mean == 0] % 20 == 0)
        assert np.all(load[mean > 0] <= 1.06 * mean[mean > 0] + 1)


def test_all_vertices_are_fixed_in_parts_without_a_share(library):
    only(library, "Scotch", "Zoltan", "pylb", "mtkahypar")
    start, to = np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)
    fixed = np.array([1, 0], np.int32)
    share = np.array([0.0, 0.0, 1.0])
    part = _core.partition(library, 2, 3, start=start, to=to, fixed=fixed, share=share)
    assert part.tolist() == [1, 0]


# ---- inputs that the libraries handle badly ----------------------------------------------------


def test_without_edges_without_weights_without_vertices(library):
    none = np.zeros(0, np.int32)
    part = _core.partition(library, 10, 5, start=np.zeros(11, np.int32), to=none)
    assert np.bincount(part).tolist() == [2] * 5
    assert len(_core.partition(library, 0, 5, start=np.zeros(1, np.int32), to=none)) == 0
    start, to = grid(8, 8)
    zeros = np.zeros(64, np.int32)
    part = _core.partition(library, 64, 4, start=start, to=to, weight=zeros)
    assert len(np.unique(part)) == 4


@pytest.mark.parametrize("weight", [[100, 1], [1, 100]])
def test_without_edges_each_of_several_weights_counts_relative_to_its_sum(weight):
    if not libraries.available("METIS"):
        pytest.skip("pylb was built without METIS")
    libraries.load("METIS")
    none, start = np.zeros(0, np.int32), np.zeros(11, np.int32)
    several = np.tile(np.array(weight, np.int32), 10)
    part = _core.partition("METIS", 10, 5, start=start, to=none, weight=several, n_weights=2)
    assert np.bincount(part).tolist() == [2] * 5


def test_disconnected_graphs_and_vertices_without_weight(library):
    start, to = grid(6, 6)
    m = len(to)
    start = np.concatenate([start, start[1:] + m, np.full(9, 2 * m)]).astype(np.int32)
    to = np.concatenate([to, to + 36]).astype(np.int32)
    weight = np.ones(81, np.int32)
    weight[36:40] = 0
    part = _core.partition(library, 81, 4, start=start, to=to, weight=weight)
    load = np.bincount(part, weight, 4)
    assert load.min() > 0
    assert load.max() <= 1.25 * load.mean()


def test_no_part_is_empty(library):
    rng = np.random.default_rng(1)
    for n, k in ((40, 33), (64, 63), (100, 64)):
        start, to = grid(n)
        weight = rng.integers(0, 3, n, dtype=np.int32)
        part = _core.partition(library, n, k, start=start, to=to, weight=weight)
        assert len(np.unique(part)) == k


def test_sums_at_the_edge_of_32_bits(library):
    start, to = grid(50, 50)
    m = len(to)
    heavy = np.full(m, (2**31 - 1) // m, np.int32)
    weight = np.full(2500, (2**31 - 1) // 2500, np.int32)
    part = _core.partition(library, 2500, 4, start=start, to=to, edge_weight=heavy, weight=weight)
    assert np.bincount(part).max() <= 1.06 * 625
    with pytest.raises(DomainError, match=r"edge_weight: the sum is \d+: expected below 2\^31"):
        _core.partition(library, 2500, 4, start=start, to=to, edge_weight=heavy + 1)


# ---- what is refused ---------------------------------------------------------------------------


WRONG = [
    ({"imbalance": 1.0}, "imbalance is 1: expected a number above 1"),
    ({"imbalance": float("nan")}, "imbalance is nan"),
    ({"seed": -1}, "seed is -1"),
    ({"weight": [1, -2, 1]}, r"weight\[1\] is -2"),
    ({"share": [0.0, 0.0]}, "share is 0 for all parts"),
    ({"share": [1.0, np.nan]}, r"share\[1\] is nan"),
    ({"start": [0, 3, 1, 4]}, r"start\[2\] is 1"),
    ({"edge_weight": [0, 0, 0, 0]}, r"edge_weight\[0\] is 0"),
    ({"options": ["NO_SUCH", "1"]}, "NO_SUCH"),
    ({"to": [1, 0, 3, 1]}, r"to\[2\], .* vertex 1, is 3"),
    ({"to": [0, 0, 2, 1]}, r"to\[0\]"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG)
def test_errors_name_the_wrong_argument(library, wrong, said):
    question = {"start": [0, 1, 3, 4], "to": [1, 0, 2, 1], **wrong}
    with pytest.raises(OutOfRangeError if "to" in wrong else DomainError, match=said):
        _core.partition(library, 3, 2, **question)


ALL = """
import json, locale, sys
import numpy as np, pylb
from pylb import _core
from pylb.partitioning import libraries
locale.setlocale(locale.LC_ALL, "")
start, to = np.arange(0, 41, 2, np.int32), np.arange(40, dtype=np.int32)
to = ((to // 2 + to % 2 * 2 - 1) % 20).astype(np.int32)
found = {}
for name in sys.argv[1:]:
    name == "pylb" or libraries.load(name)
    try:
        lone = np.array([0, 1, 1], np.int32)  # an edge without its other direction
        _core.partition(name, 2, 2, start=lone, to=to[:1])
    except pylb.errors.PylbError:
        pass
    found[name] = _core.partition(name, 20, 3, start=start, to=to).tolist()
print(json.dumps(found))
"""


@pytest.mark.slow
def test_nothing_is_printed_and_a_locale_with_a_comma_changes_nothing(comma):
    """In processes of their own, to catch all output.  Scotch writes numbers, and reads them."""
    names = [name for name in libraries.NAMES if libraries.available(name)]
    said = []
    for more in ({"LC_ALL": "C"}, comma):
        words, env = [sys.executable, "-c", ALL, *names, "pylb"], {**os.environ, **more}
        done = subprocess.run(words, capture_output=True, text=True, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(json.loads(done.stdout))
    assert said[0] == said[1]
    assert len(said[0]) == len(names) + 1


def ring(n):
    """Return the edges of a ring, both directions, as CSR."""
    v = np.arange(n)
    to = np.stack([(v - 1) % n, (v + 1) % n], 1)
    return np.arange(0, 2 * n + 1, 2).astype(np.int32), np.sort(to).astype(np.int32).ravel()


LUMPS = {  # weights of vertices, parts
    "as many parts as vertices": (np.ones(61), 61),
    "few vertices": (np.ones(90), 60),
    "one giant": (np.append(np.ones(199), 10_000), 60),
    "most without weight": (np.arange(600) % 10 == 0, 60),
    "four decades": (10 ** (np.arange(300) % 5), 100),
}


@pytest.mark.parametrize("lump", LUMPS)
def test_only_metis_prints_for_uneven_weights(library, lump, capfd):
    """Only METIS prints: complaints about empty halves, although it makes them itself."""
    weight, parts = LUMPS[lump]
    start, to = ring(len(weight))
    for seed in range(5):
        part = _core.partition(
            library, len(weight), parts, start=start, to=to, weight=weight.astype(np.int32),
            seed=seed,
        )  # fmt: skip
        assert np.bincount(part, minlength=parts).min() > 0
    ctypes.CDLL(None).fflush(None)
    said = capfd.readouterr()
    lines = [x for x in said.out.splitlines() if library != "METIS" or "***" not in x]
    assert (lines, said.err) == ([], "")


def test_a_missing_library_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pylb._metis", None)
    with pytest.raises(MissingPartError, match="apt-get install -y libmetis-dev"):
        libraries.load("METIS")
    with pytest.raises(ModuleNotFoundError):
        optional.PARTS["METIS"].find()


# ---- a rank that fails alone; tests/mpi/partition_cases.py has the other cases -----------------


@pytest.mark.skipif(not libraries.available("Zoltan"), reason="Zoltan is not here")
def test_a_rank_that_fails_alone_ends_all(mpiexec):
    code, _, said = launch(mpiexec, 3, HERE / "short.py", "partition_alone", PYLB_ABORT_AFTER="1")
    assert code != 0
    assert "Zoltan ERROR" in said
    assert "the other ranks did not come within 1 s" in said


# ---- colouring and ordering on one process; tests/mpi/dgraph_cases.py has the cases for several


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
