"""Plots show the given values."""

import sys

import numpy as np
import pytest
from whatif_programs import spa

import pylb
from pylb.console import seconds
from pylb.errors import DomainError, MissingPartError
from pylb.prediction.recorder.recording import Recording
from pylb.show import plots

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402


@pytest.fixture(autouse=True)
def close():
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()  # warnings of matplotlib are errors
    plt.close("all")


def marks(ax):
    """Return the x values of the marks of LB steps."""
    (line,) = [line for line in ax.lines if line.get_marker() == "v"]
    return line.get_xdata().tolist()


def test_heat_map_shows_each_rank_and_iteration():
    times = np.random.default_rng(0).random((7, 10))
    ax = plots.rank_loads(times, [2, 4], relative=False)
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), times.T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "rank")
    assert ax.get_xlim() == (-0.5, 6.5)
    assert ax.get_ylim() == (-0.5, 9.5)
    assert marks(ax) == [2.5, 4.5]
    assert len(ax.lines) == 3
    assert image.get_cmap().name == "cividis"


def test_heat_map_relative_to_the_mean_of_the_iteration():
    times = np.array([[1.0, 3.0], [10.0, 30.0], [0.0, 0.0]])
    (image,) = plots.rank_loads(times, relative=True).images
    np.testing.assert_array_equal(image.get_array(), [[0.5, 0.5, 1.0], [1.5, 1.5, 1.0]])


def test_a_spike_leaves_the_other_colours_apart():
    times = 1.0 + np.random.default_rng(0).random((100, 8))
    times[40] = 50.0
    ax = plots.rank_loads(times, relative=False)
    (image,) = ax.images
    assert image.get_array().max() == 50.0
    even = image.norm(np.delete(image.get_array(), 40, axis=1))
    assert np.ptp(even) > 0.35
    assert image.norm(50.0) > 1.0
    assert ax.figure.axes[1].get_ylabel() == "time of the rank\n(brightest: up to 50 s)"


def test_relative_colours_are_logarithmic_around_the_mean():
    times = np.ones((100, 10))
    times[:, ::2] = 1.1
    times[7, 3] = 40.0  # an outlier leaves the scale as it is
    ax = plots.rank_loads(times)
    (image,) = ax.images
    low, even, high = image.norm([0.8, 1.0, 1.25])
    assert (low, even, high) == pytest.approx((0.0, 0.5, 1.0))
    assert ax.figure.axes[1].get_ylabel().startswith("time of rank / mean\n(up to ")
    times[:50, 0] = 0.4
    (image,) = plots.rank_loads(times).images
    assert image.norm.vmax == pytest.approx(1 / image.norm.vmin)
    assert 1.25 < image.norm.vmax <= 4.0


def test_heat_map_of_many_ranks_keeps_the_slowest():
    times = np.ones((2500, 1003))
    times[1234, 777] = 9.0
    ax = plots.rank_loads(times, np.arange(0, 2500, 50), relative=False)
    (image,) = ax.images
    cells = image.get_array()
    rows, columns = -(-1003 // plots.MOST_ROWS), -(-2500 // plots.MOST_COLUMNS)
    assert cells.shape == (-(-1003 // rows), -(-2500 // columns))
    assert cells[777 // rows, 1234 // columns] == 9.0
    assert np.count_nonzero(cells == 9.0) == 1
    assert ax.get_ylabel() == f"rank (largest of each {rows})"
    assert ax.get_ylim() == (-0.5, 1002.5)
    assert len(marks(ax)) == 50
    assert len(ax.lines) == 1  # if there are many LB steps, they are marked only above the picture


def test_imbalance_draws_both_lines_and_the_marks():
    high, low = np.array([2.0, 3.0, 1.5]), np.array([1.0, 1.5, 1.25])
    ax = plots.imbalance(high, low, [1])
    drawn = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    assert drawn["maximum"] == high.tolist()
    assert drawn["mean"] == low.tolist()
    assert marks(ax) == [1.5]
    assert ax.get_ylim() == (0.0, pytest.approx(3.15))
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["waiting", "maximum", "mean", "LB step"]


def test_few_ranks_are_bars_in_their_order():
    ax = plots.before_after([3.0, 1.0], [2.0, 2.0])
    heights = [[bar.get_height() for bar in group] for group in ax.containers]
    assert heights == [[3.0, 1.0], [2.0, 2.0]]
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert {"before, max/mean 1.5", "after, max/mean 1"} < set(shown)


def test_many_ranks_are_sorted_curves():
    before = np.random.default_rng(0).random(1000)
    ax = plots.before_after(before, np.full(1000, 0.5))
    assert len(ax.containers) == 0
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.sort(before)[::-1])


def test_the_colours_are_those_of_okabe_and_ito():
    ax = plots.imbalance([1.0], [1.0])
    assert [to_hex(line.get_color()).upper() for line in ax.lines] == ["#D55E00", "#0072B2"]


def test_axes_given_are_used():
    _, axes = plt.subplots(3)
    assert plots.rank_loads(np.ones((2, 2)), ax=axes[0]) is axes[0]
    assert plots.imbalance([1], [1], ax=axes[1]) is axes[1]
    assert plots.before_after([1], [1], ax=axes[2]) is axes[2]
    assert [len(ax.images) for ax in axes] == [1, 0, 0]
    assert [len(ax.lines) for ax in axes] == [0, 2, 1]
    assert [len(ax.containers) for ax in axes] == [0, 0, 2]


def test_plots_of_zero_loads():
    (image,) = plots.rank_loads(np.zeros((3, 2)), relative=False).images
    np.testing.assert_array_equal(image.get_array(), np.zeros((2, 3)))
    ax = plots.imbalance(np.zeros(3), np.zeros(3))
    assert [line.get_ydata().tolist() for line in ax.lines] == [[0.0] * 3] * 2
    ax = plots.before_after(np.zeros(3), np.zeros(3))
    assert [bar.get_height() for group in ax.containers for bar in group] == [0.0] * 6
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["mean after", "before, max/mean 1", "after, max/mean 1"]


def test_bad_input():
    with pytest.raises(DomainError, match=r"times has shape \(3,\): expected 2 axes"):
        plots.rank_loads([1, 2, 3])
    with pytest.raises(DomainError, match=r"times has shape \(0, 4\)"):
        plots.rank_loads(np.ones((0, 4)))
    with pytest.raises(DomainError, match="expected the same"):
        plots.imbalance([1, 2], [1])
    with pytest.raises(DomainError, match="expected the same"):
        plots.before_after([1, 2], [1])


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPartError, match=r"matplotlib is missing.*pip install "):
        plots.imbalance([1], [1])


# ---- of whole runs ----


@pytest.fixture(scope="module")
def run():
    trace = pylb.replaying.hotspot(n_ranks=10, n_objects=160, n_phases=60, turns=1.0, seed=2)
    return trace.replay("RefineLB", trigger="metabalancer", cost=0.01)


def lines_of(ax, label):
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_fits_are_the_triggers(run):
    ax = plots.fits(run)
    r = next(r for r in run.lb_steps if np.isfinite(r.figures["max_slope"]))
    last = max([q.iteration for q in run.lb_steps if q.iteration < r.iteration], default=-1)
    x, y = lines_of(ax, "fit of the max")
    assert x.tolist() == [last + 1, r.iteration]
    np.testing.assert_allclose(
        y, r.figures["max_offset"] + r.figures["max_slope"] * (x - last), rtol=1e-12
    )
    x, _ = lines_of(ax, "τ")
    first = next(r for r in run.lb_steps if np.isfinite(r.tau))
    assert x[1] - x[0] == pytest.approx(first.tau)


def test_the_optimum_is_drawn_as_it_is_replayed(run):
    best = run.trace.optimum("RefineLB", cost=0.01)
    ax = plots.optimum(run, best)
    _, y = lines_of(ax, f"metabalancer: {seconds(run.time)}")
    np.testing.assert_array_equal(y, run.iteration_time)
    assert f"best schedule found: {seconds(best.time)}" in [line.get_label() for line in ax.lines]
    with pytest.raises(DomainError, match="the run has 1"):
        plots.optimum(run.trace[:1].replay("none"), best)


def test_decisions_stand_at_their_iterations(run):
    ax = plots.decisions(run)
    x, y = lines_of(ax, "before")
    placed = [r for r in run.decisions if r.choice != "hold"]  # "hold": no LB step took place
    assert x.tolist() == [r.iteration for r in placed]
    assert y.tolist() == [r.before for r in placed]
    x, y = lines_of(plots.decisions(run.decisions[:3]), "before")
    assert (x.tolist(), y.tolist()) == (
        [r.iteration for r in run.decisions[:3]],
        [r.before for r in run.decisions[:3]],
    )
    x, _ = lines_of(plots.decisions(pylb.decide.History()), "before")
    assert len(x) == 0


def test_labels_of_decisions_never_overlap():
    trace = pylb.replaying.hotspot(n_ranks=6, n_objects=96, n_phases=40, seed=1)
    history = trace.replay("GreedyLB", every=2, cost=1e-3).decisions
    _, axes = plt.subplots(1, 2, figsize=(11, 3.2), layout="constrained")
    for ax in axes:
        plots.decisions(history, ax=ax)
        boxes = [text.get_window_extent() for text in ax.texts]
        assert 2 <= len(boxes) <= 12
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    best = max(history, key=lambda r: abs(r.net))
    assert f"{best.migrations} moved" in ax.texts[0].get_text()


def test_migrations_of_one_lb_step_and_of_all(run):
    r = next(r for r in run.lb_steps if r.migrations)
    ax = plots.migrations(run, r.iteration)
    assert ax.get_title() == f"{r.migrations:,} migrations after iteration {r.iteration}"
    t, (begin, end) = run.trace, run.trace.task_ptr[r.iteration + 1 : r.iteration + 3]
    before = run.rank[t.task_ptr[r.iteration] : begin]
    moved = before != run.rank[begin:end]
    (image,) = ax.images
    cells = np.ma.filled(image.get_array(), 0.0)
    assert cells.sum() == pytest.approx(t.task_load[begin:end][moved].sum())
    assert np.count_nonzero(cells) == len(
        set(zip(before[moved], run.rank[begin:end][moved], strict=True))
    )
    assert plots.migrations(run).get_title() == f"{run.migrations:,} migrations in the whole run"
    with pytest.raises(DomainError, match="expected one after which objects moved"):
        plots.migrations(run, 10**6)
    (image,) = plots.migrations(run.trace).images
    assert image.get_array().count() == 0


@pytest.mark.parametrize("p", [10, 10_000])
def test_pictures_of_few_and_of_very_many_ranks(p):
    trace = pylb.replaying.hotspot(n_ranks=p, n_objects=2 * p, n_phases=4)
    run = trace.replay("GreedyLB", every=2)
    assert max(plots.migrations(run).images[0].get_array().shape) <= 256
    (image,) = plots.communication(trace[0]).images
    assert max(image.get_array().shape) <= 256
    sent = np.ma.filled(image.get_array(), 0.0)
    assert sent.sum() == pytest.approx(trace[0].edges.nbytes.sum())
    ax = plots.objects(trace[0])  # by default, the slowest ranks
    times = trace[0].rank_times
    slowest = np.sort(np.argsort(-times, kind="stable")[:64])
    assert [int(text.get_text().partition(":")[0]) for text in ax.texts] == slowest.tolist()
    loads = trace[0].load[np.isin(trace[0].rank, slowest)]
    np.testing.assert_array_equal(np.sort(ax.collections[0].get_array()), np.sort(loads))
    (image,) = plots.rank_loads(run.rank_times, relative=False).images
    assert image.get_array().max() == run.rank_times.max()
    assert image.get_array().shape[0] <= plots.MOST_ROWS


def test_communication_before_and_after():
    trace = pylb.replaying.hotspot(n_ranks=4, n_objects=16, n_phases=1)
    snap = trace[0]
    assert plots.communication(snap).get_title().startswith("25 % of")
    alone = plots.communication(snap, np.zeros(16, int))
    assert alone.get_title().startswith("0 % of")
    with pytest.raises(DomainError, match="no edges"):
        plots.communication(pylb.Snapshot([1.0], [0]))


def test_objects_have_the_colours_of_their_loads():
    snap = pylb.Snapshot([1.0, 2.0, 3.0], [0, 1, 1], migratable=[True, True, False])
    (drawn,) = plots.objects(snap, 1).collections
    assert drawn.get_array().tolist() == [2.0, 3.0]
    with pytest.raises(pylb.errors.OutOfRangeError, match="ranks has 2"):
        plots.objects(snap, [1, 2])
    (drawn,) = plots.objects(pylb.Snapshot([1.0], [0], n_ranks=3)).collections
    assert drawn.get_array().tolist() == [1.0]


@pytest.mark.parametrize("p", [10, 100])
def test_the_timeline_has_both_runs_on_one_axis_of_seconds(p):
    trace = pylb.replaying.hotspot(n_ranks=p, n_objects=8 * p, n_phases=12)
    run = trace.replay("GreedyLB", every=4, cost=0.001)
    ax = plots.timeline(run)
    assert run.unbalanced.time > run.time
    assert ax.get_xlim() == (0.0, pytest.approx(run.unbalanced.time))
    said = [text.get_text() for text in ax.texts]
    assert f"without LB steps: {seconds(run.unbalanced.time)}" in said
    assert f"with LB steps: {seconds(run.time)}" in said
    shown = [text.get_text() for text in ax.get_yticklabels()]
    assert ("median" in shown) == (p > 64)
    widths = [sum(np.ptp(p.vertices[:, 0]) for p in bars.get_paths()) for bars in ax.collections]
    if p == 10:  # waits and computing of each rank, as it was, and its LB steps
        np.testing.assert_allclose(widths[1:20:2], run.rank_times.sum(axis=0))
        np.testing.assert_allclose(widths[0], run.time)
        assert widths[20] + widths[21] == pytest.approx(run.lb_seconds)
    one = plots.timeline(run, iterations=2)
    assert one.get_xlim()[1] == pytest.approx(run.unbalanced.iteration_time[2])
    (part,) = {plots.timeline(trace, iterations=(2, 5)).get_xlim()[1]}
    assert part == pytest.approx(trace.replay("none").iteration_time[2:5].sum())
    with pytest.raises(DomainError, match="iterations is 12: expected some of 0 "):
        plots.timeline(run, iterations=12)


def test_a_film_shows_the_lb_steps(tmp_path):
    image = pytest.importorskip("PIL.Image")
    trace = pylb.replaying.hotspot(n_ranks=4, n_objects=24, n_phases=12)
    run = trace.replay("GreedyLB", every=4, cost=0.001)
    plots.film(run, tmp_path / "run.gif", most=1)
    shown = []
    with image.open(tmp_path / "run.gif") as frames:
        for k in range(frames.n_frames):
            frames.seek(k)
            shown.append((np.asarray(frames.convert("RGB")).astype(int), frames.info["duration"]))
    pictures, durations = zip(*shown, strict=True)
    assert sum(durations) == pytest.approx(
        1000 * (2 * plots.REST + plots.GLIDE) / plots.SPEED, rel=0.1
    )
    # the boxes are filled to more equal heights than before: blue pixels in each column of boxes
    blue = [np.abs(p - [165, 204, 227]).sum(axis=2) < 12 for p in (pictures[0], pictures[-1])]
    least = [np.array_split(b.sum(axis=0), 3) for b in blue]
    spread = [np.ptp([x.max() for x in columns]) for columns in least]
    assert spread[1] < spread[0]
    with pytest.raises(DomainError, match="run has 4 ranks, 24 objects and 0 LB steps"):
        plots.film(trace, tmp_path / "none.gif")


# ---- the picture of what recorded ranks did ----------------------------------------------------


def test_bars_are_the_times_of_the_prediction():
    run = spa(one=5.4, two=7.3, own=(1.0, 13.0, 13.0), server_work=3.4, rounds=6)
    told = pylb.whatif(run, network=(0.0, 0.0), overhead=0.0, steps=True)
    path = pylb.prediction.critical_path(run)
    ax = pylb.plots.timeline(run, told, path)
    widths = [sum(np.ptp(p.vertices[:, 0]) for p in bars.get_paths()) for bars in ax.collections]
    computing, waiting = widths[::2], widths[1::2]
    np.testing.assert_allclose(computing, told.busy, rtol=1e-6)
    np.testing.assert_allclose(np.add(computing, waiting), told.finish, rtol=1e-6)
    (line,) = ax.lines
    x, y = line.get_data()
    assert (np.diff(x) >= -1e-9).all()
    assert x[-1] == pytest.approx(path.time)
    assert set(y.tolist()) <= {0, 1, 2, 3}


def test_runs_without_a_timeline():
    run = spa(rounds=2)
    with pytest.raises(DomainError, match="expected whatif"):
        pylb.plots.timeline(run, pylb.whatif(run))
    many = Recording.of([[{"kind": "END"}]] * 65)
    with pytest.raises(DomainError, match="65 ranks"):
        pylb.plots.timeline(many, pylb.whatif(many, steps=True))
