"""METIS, Scotch and Zoltan: arguments, answers and errors of the calls."""

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

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
    ids = np.arange(np.prod(shape)).reshape(shape)
    pairs = []
    for axis in range(len(shape)):
        low, high = (np.delete(ids, at, axis).ravel() for at in (-1, 0))
        pairs += [(low, high), (high, low)]
    src, dst = (np.concatenate(side) for side in zip(*pairs, strict=True))
    order = np.lexsort((dst, src))
    start = np.concatenate([[0], np.cumsum(np.bincount(src, minlength=ids.size))])
    return start.astype(np.int32), dst[order].astype(np.int32)


def closed(start, to):
    """Return the hypergraph of a graph: each vertex and its neighbours are a net."""
    n = len(start) - 1
    nets = [np.append(to[start[v] : start[v + 1]], v) for v in range(n)]
    return np.append(start[:1], np.cumsum([len(e) for e in nets])).astype(np.int32), np.concatenate(
        nets
    ).astype(np.int32)


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


def test_a_grid_is_cut_well_and_evenly(library):
    start, to = grid(24, 24)
    part = _core.partition(library, 576, 4, start=start, to=to)
    sizes = np.bincount(part, minlength=4)
    assert sizes.max() <= 1.03 * 144 + 1
    assert cut(start, to, part) <= 1.4 * 48


def test_shares_and_weights_are_kept(library):
    start, to = grid(24, 24)
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 9, 576, dtype=np.int32)
    share = np.array([4.0, 2.0, 1.0, 0.0, 1.0])
    part = _core.partition(library, 576, 5, start=start, to=to, weight=weight, share=share)
    load = np.bincount(part, weight, 5)
    assert load[3] == 0
    filled = share > 0
    most = (load[filled] / (weight.sum() * share[filled] / 8)).max()
    assert most <= 1.06


def test_same_seed_same_answer_on_any_number_of_threads(library):
    start, to = grid(20, 20, 5)

    def ask(seed):
        return _core.partition(library, 2000, 7, start=start, to=to, seed=seed).tolist()

    once = [ask(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, [0, 1, 2, 3, 3, 2, 1, 0])) == once + once[::-1]
    assert any(answer != once[0] for answer in once[1:])


def test_fixed_vertices_stay(library):
    start, to = grid(16, 16)
    fixed = np.full(256, -1, np.int32)
    fixed[[0, 255, 128]] = [2, 1, 2]
    if library == "METIS":
        with pytest.raises(DomainError, match=f"{library} does not take fixed vertices"):
            _core.partition(library, 256, 3, start=start, to=to, fixed=fixed)
        return
    part = _core.partition(library, 256, 3, start=start, to=to, fixed=fixed)
    assert part[[0, 255, 128]].tolist() == [2, 1, 2]
    assert np.bincount(part, minlength=3).max() <= 1.06 * 256 / 3


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


def test_repartitioning_moves_less_the_more_it_costs(library):
    only(library, "Scotch", "Zoltan", "pylb")
    start, to = grid(32, 32)
    old = (np.arange(1024) // 32 // 8).astype(np.int32)  # four slabs
    weight = np.where(np.arange(1024) < 256, 2, 1).astype(np.int32)  # the first slab is too heavy
    moved = []
    for cost in (0, 100):
        part = _core.partition(
            library,
            1024,
            4,
            start=start,
            to=to,
            weight=weight,
            old=old,
            old_cost=np.full(1024, cost, np.int32),
        )
        load = np.bincount(part, weight, 4)
        assert load.max() <= 1.06 * load.mean()
        moved.append(int(np.count_nonzero(part != old)))
    assert moved[1] <= moved[0]
    assert moved[1] < 512


def test_vertices_without_a_present_part(library):
    only(library, "Scotch", "Zoltan", "pylb")
    start, to = grid(12, 12)
    old = np.where(np.arange(144) % 5 == 0, -1, np.arange(144) // 72).astype(np.int32)
    part = _core.partition(library, 144, 3, start=start, to=to, old=old)
    assert np.bincount(part, minlength=3).max() <= 50


def test_hypergraph_and_points(library):
    start, pin = closed(*grid(16, 16))
    xy = np.stack(np.divmod(np.arange(256), 16), axis=1).astype(float)
    only_graphs = library in ("METIS", "Scotch")
    if only_graphs:
        with pytest.raises(DomainError, match="does not take hypergraphs"):
            _core.partition(library, 256, 4, net_start=start, pin=pin)
    if library != "Zoltan":
        with pytest.raises(DomainError, match="does not take coordinates"):
            _core.partition(library, 256, 4, n_dims=2, coords=xy)
    if only_graphs:
        return
    weight = np.ones(256, np.int32)
    part = _core.partition(
        library, 256, 4, net_start=start, pin=pin, net_weight=weight, weight=weight
    )
    assert np.bincount(part).max() <= 66
    if library != "Zoltan":
        return
    part = _core.partition(library, 256, 4, n_dims=2, coords=xy)
    assert np.bincount(part).tolist() == [64] * 4
    for k in range(4):  # boxes
        assert np.prod(np.ptp(xy[part == k], axis=0) + 1) == 64
    part = _core.partition(library, 256, 4, n_dims=2, coords=xy, options=["LB_METHOD", "HSFC"])
    assert np.bincount(part).tolist() == [64] * 4


# ---- inputs that the libraries handle badly -----------------------------------------------------


@pytest.mark.parametrize("parts_", [1, 2, 7, 12, 13, 50])
def test_few_vertices_many_parts(library, parts_):
    start, to = grid(3, 4)
    part = _core.partition(library, 12, parts_, start=start, to=to)
    assert part.min() >= 0
    assert len(np.unique(part)) == min(parts_, 12)


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


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"imbalance": 1.0}, DomainError, "imbalance is 1: expected a number above 1"),
        ({"imbalance": float("nan")}, DomainError, "imbalance is nan"),
        ({"seed": -1}, DomainError, "seed is -1"),
        ({"weight": np.array([1, -2, 1], np.int32)}, DomainError, r"weight\[1\] is -2"),
        ({"share": np.array([0.0, 0.0])}, DomainError, "share is 0 for all parts"),
        ({"share": np.array([1.0, np.nan])}, DomainError, r"share\[1\] is nan"),
        ({"to": np.array([1, 0, 3, 1], np.int32)}, OutOfRangeError, r"to\[2\], .* vertex 1, is 3"),
        ({"to": np.array([0, 0, 2, 1], np.int32)}, OutOfRangeError, r"to\[0\]"),
        ({"start": np.array([0, 3, 1, 4], np.int32)}, DomainError, r"start\[2\] is 1"),
        ({"edge_weight": np.zeros(4, np.int32)}, DomainError, r"edge_weight\[0\] is 0"),
        ({"options": ["NO_SUCH", "1"]}, DomainError, "NO_SUCH"),
    ],
)
def test_errors_name_the_wrong_argument(library, wrong, error, said):
    question = {"start": np.array([0, 1, 3, 4], np.int32), "to": np.array([1, 0, 2, 1], np.int32)}
    with pytest.raises(error, match=said):
        _core.partition(library, 3, 2, **{**question, **wrong})


@pytest.mark.slow
def test_nothing_is_printed(library):
    """Nothing is printed, even on bad input; in its own process, to catch all output."""
    script = (
        "import numpy as np, pylb\n"
        "from pylb import _core\n"
        "from pylb.partitioning import libraries\n"
        f"{library!r} == 'pylb' or libraries.load({library!r})\n"
        "start, to = np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)\n"
        f"_core.partition({library!r}, 2, 2, start=start, to=to)\n"
        "try:\n"
        "    lone = np.array([0, 1, 1], np.int32)  # an edge without its other direction\n"
        f"    _core.partition({library!r}, 2, 2, start=lone, to=to[:1])\n"
        "except pylb.errors.PylbError:\n"
        "    pass\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_locale_with_a_comma_changes_nothing(library, comma):
    """Scotch writes numbers to a text and reads them again."""
    script = (
        "import locale, sys, numpy as np, pylb\n"
        "from pylb import _core\n"
        "from pylb.partitioning import libraries\n"
        "locale.setlocale(locale.LC_ALL, '')\n"
        f"{library!r} == 'pylb' or libraries.load({library!r})\n"
        "start, to = np.arange(0, 41, 2, np.int32), np.arange(40, dtype=np.int32)\n"
        "to = ((to // 2 + to % 2 * 2 - 1) % 20).astype(np.int32)\n"
        f"print(_core.partition({library!r}, 20, 3, start=start, to=to).tolist())\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            env={**os.environ, **env},
        )
        for env in ({"LC_ALL": "C"}, comma)
    ]
    assert said[0].stdout == said[1].stdout != "", said


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
def test_libraries_print_nothing_for_uneven_weights(library, lump, capfd):
    """METIS prints complaints about empty halves, although it makes them itself."""
    weight, parts = LUMPS[lump]
    start, to = ring(len(weight))
    for seed in range(5):
        part = _core.partition(
            library, len(weight), parts, start=start, to=to, weight=weight.astype(np.int32),
            seed=seed,
        )  # fmt: skip
        assert np.bincount(part, minlength=parts).min() > 0
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")


def test_what_other_threads_print_meanwhile_is_not_lost(library, capfd):
    """METIS's lines on C's standard output are dropped, and those of other threads are kept."""
    c = ctypes.CDLL(None)
    start, to = ring(20_000)
    weight = np.append(np.ones(19_999), 10**6).astype(np.int32)
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(_core.partition, library, 20_000, 64, start=start, to=to, weight=weight)
        lines = 0
        while lines < 1000 or not task.done():
            c.printf(b"line %d\n", ctypes.c_int(lines))
            lines += 1
        task.result()
    c.fflush(None)
    assert capfd.readouterr().out.splitlines() == [f"line {i}" for i in range(lines)]


def test_a_missing_library_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pylb._metis", None)
    with pytest.raises(MissingPartError, match="apt-get install -y libmetis-dev"):
        libraries.load("METIS")
    with pytest.raises(ModuleNotFoundError):
        optional.PARTS["METIS"].find()
