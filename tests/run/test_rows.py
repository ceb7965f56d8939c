"""Room run: performance models, and the rows of arrays on ranks of different speed."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import row_cases
from chance import examples
from each_case import cases_of
from hypothesis import example, given
from hypothesis import strategies as st
from launch import printed
from scipy import sparse

import pylb
from pylb import _core
from pylb.errors import DomainError, FormatError, StateError
from pylb.run.rows import Repeats, _columns, _perimeters

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, "mpi4py", None)  # one rank: this process does not start MPI
    import jacobi_rows

# ---- the solver against bisection ------------------------------------------------------------


def seconds_of(points, d):
    """Return the seconds of d rows, by the model."""
    points = sorted(points)
    if d <= points[0][0]:
        return d / points[0][1]
    if d >= points[-1][0]:
        return d / points[-1][1]
    for (x1, s1), (x2, s2) in itertools.pairwise(points):
        if x1 <= d <= x2:
            return d / (s1 + (d - x1) / (x2 - x1) * (s2 - s1))
    raise AssertionError


def rows_in(points, seconds):
    """Return the largest number of rows that take at most this time, by bisection."""
    low, high = 0, 10**9
    while low < high:
        middle = (low + high + 1) // 2
        if seconds_of(points, middle) <= seconds:
            low = middle
        else:
            high = middle - 1
    return low


def shortest(models, n):
    """Return the least time for n rows, by bisection to the last bit."""
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = 0.5 * (low + high)
        if sum(rows_in(m, middle) for m in models) >= n:
            high = middle
        else:
            low = middle
    return high


@st.composite
def some_models(draw):
    """Models whose times rise, of one to five ranks."""
    out = []
    for _ in range(draw(st.integers(1, 5))):
        m = draw(st.integers(1, 5))
        steps = st.lists(st.integers(1, 400), min_size=m, max_size=m)
        rows, times = np.cumsum(draw(steps)), np.cumsum(draw(steps)) / 64.0
        out.append([(float(d), float(d / t)) for d, t in zip(rows, times, strict=True)])
    return out


def built(models):
    return pylb.SpeedModels([tuple(np.array(m).T) for m in models])


@given(some_models(), st.integers(0, 5000))
def test_no_other_parts_end_sooner(models, n):
    part, exact = built(models).split(n), built(models)._line(n)[0] if n else 0.0
    assert part.sum() == n
    assert part.min() >= 0
    longest = max(seconds_of(m, d) for m, d in zip(models, part.tolist(), strict=True))
    np.testing.assert_allclose(
        built(models).times(part),
        [seconds_of(m, d) for m, d in zip(models, part.tolist(), strict=True)],
        rtol=1e-12,
    )
    if n:
        assert longest <= shortest(models, n) * (1 + 1e-9)
        assert exact <= longest * (1 + 1.0 / n)  # `exact` is right to a quarter of a row


def test_ties_go_to_the_lowest_rank():
    assert _core.apportion([1, 1, 1, 1], 6).tolist() == [2, 2, 1, 1]
    assert _core.apportion([1, 0, 1, 1], 5).tolist() == [2, 0, 2, 1]
    for wrong in ([0.0, 0.0], [1.0, -1.0]):
        with pytest.raises(DomainError):
            _core.apportion(wrong, 5)
    assert pylb.SpeedModels([([1], [1.0])] * 4).split(6).tolist() == [2, 2, 1, 1]


# ---- rectangles ------------------------------------------------------------------------------


def ways(items):
    """All partitions of a set into columns."""
    if not items:
        yield []
        return
    first, *rest = items
    for way in ways(rest):
        yield [[first], *way]
        for i in range(len(way)):
            yield [*way[:i], [first, *way[i]], *way[i + 1 :]]


def half_perimeters(share, columns, rows, cols):
    """Return the sum of half perimeters of exact rectangles."""
    total = sum(share)
    return sum(rows + len(c) * cols * sum(share[i] for i in c) / total for c in columns)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 40))
def test_no_other_columns_have_shorter_borders(share, rows, cols):
    column, perimeter = _columns(np.array(share, float), rows, cols)
    best = min(half_perimeters(share, way, rows, cols) for way in ways(list(range(len(share)))))
    mine = [[i for i in range(len(share)) if column[i] == c] for c in range(max(column) + 1)]
    assert np.isclose(half_perimeters(share, mine, rows, cols), perimeter)
    assert np.isclose(perimeter, best)
    assert np.isclose(_perimeters(np.array(share), column, rows, cols), best)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=9), st.integers(0, 40), st.integers(0, 40))
def test_rectangles_tile_the_grid(share, rows, cols):
    if not any(share):
        with pytest.raises(DomainError, match="add up to 0"):
            pylb.run.rectangles(share, (rows, cols))
        return
    covered = np.zeros((rows, cols), int)
    boxes = pylb.run.rectangles(share, (rows, cols))
    for i, (first, end, left, right) in enumerate(boxes):
        covered[first:end, left:right] += 1
        assert share[i] or first == end
    assert (covered == 1).all()


def test_rectangles_are_as_large_as_their_shares():
    share = np.array([5.0, 1.0, 3.0, 2.0, 2.0, 4.0, 1.0])
    boxes = pylb.run.rectangles(share, (1000, 1000))
    sizes = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    np.testing.assert_allclose(sizes, 1e6 * share / share.sum(), rtol=0.01)
    for wrong in (3, (1, -1), (1, 2, 3), ("a", 1)):
        with pytest.raises(DomainError, match="shape is"):
            pylb.run.rectangles(share, wrong)
    with pytest.raises(DomainError, match=r"share\[1\] is -1"):
        pylb.run.rectangles([1.0, -1.0], (3, 3))
    with pytest.raises(pylb.errors.OutOfRangeError, match=r"column\[1\] is 2"):
        pylb.run.rectangles([1.0, 1.0], (3, 3), [0, 2])


# ---- models built from points ----------------------------------------------------------------


def test_a_model_has_at_most_64_points():
    models = pylb.SpeedModels([((), ())])
    rows = np.arange(1, 200)
    seconds = rows + np.where(rows > 100, 9.0 * (rows - 100), 0.0)
    for d, t in zip(rows, seconds, strict=True):
        models.update([d], [t])
    assert len(models.rows) == 64
    np.testing.assert_allclose([models.times([d])[0] for d in rows], seconds, rtol=0.05)


def test_a_rank_without_points_counts_as_the_mean():
    models = pylb.SpeedModels([([10], [3.0]), ((), ()), ([10], [1.0])])
    assert models.split(60).tolist() == [30, 20, 10]
    with pytest.raises(StateError, match="measured"):
        pylb.SpeedModels([((), ())]).split(5)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([([1, 2], [1.0, 2.0])], "rank 0, point 1.*times that rise"),
        ([([1], [1.0]), ([2, 1], [1.0, 1.0])], "rank 1, point 1.*more rows"),
        ([([1], [0.0])], "expected 1e-30 ... 1e30 for both"),
        ([([1], [np.nan])], "expected 1e-30 ... 1e30 for both"),
        ([([1, 2], [1.0])], "two arrays of the same length"),
        ([], "points is empty"),
    ],
)
def test_bad_models(points, says):
    with pytest.raises(DomainError, match=says):
        pylb.SpeedModels(points)


def test_a_call_that_failed_while_it_decided_ends_the_partition():
    """On several ranks, some may have learned the times and others not."""
    part = pylb.RowPartition(None, 10, trigger=lambda c: c.no_such_figure)
    for error, says in ((AttributeError, "no_such_figure"), (StateError, "new partition")):
        with part.timed():
            pass
        with pytest.raises(error, match=says):
            part.redistribute(np.zeros(10))


def test_files(tmp_path):
    models = pylb.SpeedModels([([10, 20], [3.1, 2.0]), ([7], [1 / 3])])
    models.save(tmp_path / "a.json")
    again = pylb.SpeedModels.load(tmp_path / "a.json")
    assert all(np.array_equal(again.points(r), models.points(r)) for r in range(2))
    merged = models.merge(pylb.SpeedModels([([10, 40], [9.0, 1.0]), ((), ())]))
    assert merged.points(0)[0].tolist() == [10, 20, 40]
    np.testing.assert_allclose(merged.points(0)[1], [3.1, 2.0, 3.1 / 9.0])
    good = json.loads((tmp_path / "a.json").read_text())
    for bad in (
        "{",
        "[]",
        "{}",
        json.dumps({**good, "version": 2}),
        json.dumps({**good, "models": [{"rows": [1], "speed": [-1]}]}),
        json.dumps({**good, "models": [{"rows": ["x"], "speed": [1]}]}),
    ):
        (tmp_path / "b.json").write_text(bad)
        with pytest.raises(FormatError, match=r"b\.json:? not (JSON|a file of speed models)"):
            pylb.SpeedModels.load(tmp_path / "b.json")


# ---- Clarke's two cases, in virtual time -----------------------------------------------------

MEMORY = (1024, 1024, 2048, 4096)  # rows that fit; the paper's nodes have 256, 256, 512, 1024 MB
SPEED = (1.2, 1.0, 1.1, 1.15)


def seconds_paging(rank, d):
    """Return the seconds of d rows; rows that do not fit into memory take ten times longer."""
    over = max(0, d - MEMORY[rank])
    pain = 0.3 * MEMORY[rank] * min(1.0, over / (0.08 * MEMORY[rank]))
    return 1e-3 * (d + 9.0 * over + pain) / SPEED[rank]


def shortest_paging(n, factors):
    """Return the least time for n rows, by plain search."""
    low, high = 0.0, 1e3
    for _ in range(60):
        middle = 0.5 * (low + high)
        fit = [
            max(d for d in range(0, 8192, 4) if f * seconds_paging(r, d) <= middle)
            for r, f in enumerate(factors)
        ]
        low, high = (low, middle) if sum(fit) >= n else (middle, high)
    return high


def clarke(model, n, iterations=14, change=lambda rank, k: 1.0):
    """Run a Jacobi iteration that pages if its rows do not fit."""

    def main(comm):
        part = pylb.RowPartition(comm, n, model)
        for k in range(iterations):
            with part.timed():
                d = int(part.counts[comm.rank])
                comm.elapse(seconds_paging(comm.rank, d) * change(comm.rank, k))
            part.redistribute()
        return part.history

    return pylb.VirtualCluster(4, clock="none").run(main)[0]


@pytest.mark.parametrize("model", row_cases.module.MODELS)
def test_what_fits_is_balanced_by_all_models(model):
    history = clarke(model, 3600)
    assert [d.moved > 0 for d in history[:3]] == [True, False, False]
    assert history[-1].spread < 0.05


def test_paging_defeats_the_constant_model_and_not_the_functional_one():
    constant, functional = clarke("cpm", 7000), clarke("fpm", 7000)
    assert all(d.moved and d.spread > 1.0 for d in constant)
    assert functional[5].moved == 0
    assert functional[5].spread < 0.05
    assert max(d.moved for d in functional[5:]) == 0


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_processor_that_changes_is_followed(factor):
    history = clarke("fpm", 7000, 24, lambda rank, k: factor if rank == 3 and k >= 10 else 1.0)
    assert history[9].moved == 0
    assert history[10].moved == 0  # a slow or fast step may be an outlier
    assert history[11].moved > 0
    assert max(d.moved for d in history[16:]) == 0
    best = shortest_paging(7000, [1.0, 1.0, 1.0, factor])
    assert history[-1].seconds.max() < 1.1 * best


# ---- the same with an abrupt limit of memory, and noisy clocks ---------------------------------

EDGE, RATE = (1260, 1260, 2600, 5200), (24e3, 20e3, 22.7e3, 22.7e3)  # rows, rows per second


def seconds_steep(rank, d):
    """Return the seconds of five sweeps; a sweep that reads the rows from disk takes a second."""
    over = max(0, d - EDGE[rank])
    page = 0.15 + 0.85 * min(1.0, over / 150) if over else 0.0
    return d / RATE[rank] + 5.0 * page * d / 1585


def noisy(model, n, seed, noise, spikes=0.0, seconds=seconds_steep):
    def main(comm):
        rng = np.random.default_rng([seed, comm.rank])
        part = pylb.RowPartition(comm, n, model, tol=0.12)
        for _ in range(12):
            with part.timed():
                off = np.exp(noise * rng.standard_normal()) * (
                    3.0 if rng.random() < spikes else 1.0
                )
                comm.elapse(off * seconds(comm.rank, int(part.counts[comm.rank])))
            part.redistribute()
        return part.history

    return pylb.VirtualCluster(4, clock="none").run(main)[0]


def steps(history):
    """Count redistributions before the first that moved no rows, and up to the last that did."""
    moved = [d.moved > 0 for d in history]
    return [*moved, False].index(False), max([k + 1 for k, m in enumerate(moved) if m], default=0)


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 0), *((0.03, seed) for seed in range(6))])
def test_balanced_in_five_steps_and_for_good(noise, seed):
    history = noisy("fpm", 6340, seed, noise)
    assert max(steps(history)) <= 5
    best = 84e-3  # seconds, with 1260, 1260, 1910 and 1910 rows
    at_the_end = [seconds_steep(r, d) for r, d in enumerate(history[-1].counts.tolist())]
    assert max(at_the_end) < 1.2 * best
    constant = noisy("cpm", 6340, seed, noise)
    assert all(d.moved for d in constant)
    assert min(d.seconds.max() for d in constant) > 5 * best


def test_noise_moves_nothing_for_long():
    """With 10 % noise and a tolerance of 0.12, the constant model moves rows in most steps."""

    def fits(rank, d):
        return d / RATE[rank]

    moves = {
        model: [
            sum(d.moved > 0 for d in noisy(model, 2600, seed, 0.1, seconds=fits)[6:])
            for seed in range(8)
        ]
        for model in ("cpm", "fpm")
    }
    assert sum(moves["fpm"]) < 0.25 * sum(moves["cpm"])


def test_a_spike_is_waited_for_and_a_change_is_followed():
    for lasts, doubts, mean in ((1, [5], 1.0), (20, [5], 3.0), (0, [], 1.0)):
        repeats = Repeats(2)
        doubted = [
            k
            for k in range(20)
            if not repeats.observe(
                np.array([3.0 if 5 <= k < 5 + lasts else 1.0, 1.0]), np.ones(2, bool)
            )
        ]
        assert doubted == doubts
        np.testing.assert_allclose(repeats.mean, [mean, 1.0])


def wanders(comm, shape, model, seed, tol):
    """Arrays keep their contents for all kinds of times: zero, noisy, paging, or contradictory."""
    rows = len(shape) == 1
    kind, size = (pylb.RowPartition, shape[0]) if rows else (pylb.TilePartition, shape)
    part = kind(comm, size, model, tol=tol)
    rng = np.random.default_rng([seed, comm.rank])
    whole = np.arange(np.prod(shape)).reshape(shape)
    band = sparse.random_array(
        (shape[0], 5), density=0.3, format="csr", rng=np.random.default_rng(1)
    )
    a, more = whole[part.local], [band[part.local].tocsc()] if rows else []
    for _ in range(6):
        d = int(part.counts[comm.rank])
        odd = [0.0, 1e-9 * d, float(d), 1.0 / (1 + d), 50.0 * d, rng.lognormal(0.0, 2.0)]
        with part.timed():
            comm.elapse(float(rng.choice(odd)))
        before = part.counts
        a, *more = got if isinstance(got := part.redistribute(a, *more), tuple) else (got,)
        assert np.array_equal(a, whole[part.local])
        if rows:
            assert more[0].format == "csc"
            assert np.array_equal(more[0].toarray(), band[part.local].toarray())
        assert part.counts.sum() == whole.size
        assert part.history[-1].counts.tolist() == before.tolist()
    again = kind(comm, size, model, models=part.models) if whole.size else part
    assert again.counts.sum() == whole.size
    return part.models


@examples(60)
@example(5, (1, 5), "cpm", 33, 0.0)  # this once failed: an empty tile moved, without any cell
@given(
    st.integers(1, 6),
    st.one_of(st.tuples(st.integers(0, 40)), st.tuples(st.integers(0, 9), st.integers(0, 9))),
    st.sampled_from(row_cases.module.MODELS),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_nothing_is_lost_whatever_the_clock_says(p, shape, model, seed, tol):
    models = pylb.VirtualCluster(p, clock="none").run(wanders, shape, model, seed, tol)
    for other in models[1:]:
        assert np.array_equal(other.rows, models[0].rows)
        assert np.array_equal(other.speed, models[0].speed)
    if len(models[0].rows) and model == "fpm":
        merged = models[0].merge(pylb.SpeedModels([([7], [3.0])] * p))
        assert merged.split(100).sum() == 100


# ---- everywhere ------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("case", [c for c in cases_of(row_cases) if c is not row_cases.timed])
def test_cases_on_virtual_ranks(case, p):
    pylb.VirtualCluster(p, clock="none").run(case)


def test_without_mpi():
    part = pylb.RowPartition(None, 10)
    with part.timed():
        x = np.arange(10)[part.local]
    assert part.redistribute(x) is x
    assert part.balanced


@pytest.mark.parametrize("model", ["cpm", "fpm", "power", "none"])
def test_jacobi(model):
    """The solution is NumPy's, wherever the rows are."""
    n = 90
    A, b = jacobi_rows.rows_of(n, range(n))
    cluster = pylb.VirtualCluster(3, speed=[1.0, 2.0, 4.0])
    for solved in cluster.run(jacobi_rows.solve, n, 12, model):
        assert solved.residual < 1e-9
        np.testing.assert_allclose(solved.x, np.linalg.solve(A, b), rtol=1e-9)
        assert (model == "none") == (sum(d.moved for d in solved.history) == 0)


def test_jacobi_under_mpi(mpiexec):
    out = printed(mpiexec, 3, jacobi_rows.__file__, "--n", "60", "--iterations", "8")
    assert float(out.split("residual")[1]) < 1e-6
