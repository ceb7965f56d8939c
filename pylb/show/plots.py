"""Pictures of a run, drawn by matplotlib: one function for each picture.

Each function draws on the axes `ax`, by default those of a new figure, and returns them.  Without
matplotlib it raises `MissingPartError`.  A `run` is what `pylb.report` accepts: a RunRecord,
Replay, Trace or path.  The colours (Okabe and Ito's, and the map cividis) are colour-blind safe.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import optional
from pylb.console import seconds, size
from pylb.decide.receipts import History, Receipt
from pylb.errors import DomainError, OutOfRangeError
from pylb.model import checks
from pylb.model.metrics import Metrics
from pylb.model.snapshot import F64, I64, Snapshot
from pylb.prediction.factors import CriticalPath
from pylb.prediction.prediction import Prediction
from pylb.prediction.recorder.recording import Recording
from pylb.replaying.replayed import Optimum, Replay, replay
from pylb.show import aggregate, course

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any

__all__ = (
    "BLUE GREY ORANGE VERMILLION before_after communication decisions film fits imbalance "
    "migrations objects optimum rank_loads timeline"
).split()

BLUE, ORANGE, VERMILLION, GREY, GREEN = "#0072B2", "#E69F00", "#D55E00", "#666666", "#009E73"
DIVERGING = ["#00447A", "#56A0CE", "#F3F3F0", "#E68C3C", "#963700"]

MOST_ROWS, MOST_COLUMNS = 250, 1000  # largest numbers of rows and columns of a heat map
MOST_LINES = 12  # if there are more LB steps, they are not marked by vertical lines
MOST_BARS = 40  # if there are more ranks, they are not drawn as bars
RATIOS = [0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0]  # ticks of a scale of ratios


def axes(ax: Axes | None) -> Any:
    """Return the given axes, or those of a new figure."""
    optional.require("matplotlib")
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.0, 3.2), layout="constrained")[1]


def checked(ndim: int, **values: ArrayLike) -> list[F64]:
    """Return arguments as arrays, after a check: `ndim` axes, none empty, and the same shape."""
    out = {name: checks.array(name, value, np.float64) for name, value in values.items()}
    for name, a in out.items():
        if a.ndim != ndim or a.size == 0:
            raise DomainError(
                f"{name} has shape {a.shape}: expected {ndim} axes, none of them empty"
            )
    if len({a.shape for a in out.values()}) > 1:
        shapes = " and ".join(f"{name} {a.shape}" for name, a in out.items())
        raise DomainError(f"the shapes are {shapes}: expected the same")
    return list(out.values())


def mark(ax: Any, lb_step_iterations: Sequence[int], colour: str) -> None:
    """Mark each LB step by a triangle above the picture, and by a line if the steps are few."""
    at = np.asarray(lb_step_iterations, dtype=np.float64) + 0.5
    if at.size == 0:
        return
    if at.size <= MOST_LINES:
        for x in at:
            ax.axvline(x, color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
    above = {"clip_on": False, "transform": ax.get_xaxis_transform(), "label": "LB step"}
    ax.plot(at, np.full(at.size, 1.015), "v", color="black", markersize=4, **above)


def colour_bar(ax: Any, drawn: Any, label: str) -> Any:
    """Add a bar that explains the colours; it ends in arrows if some values have no own colour."""
    values = np.ma.compressed(drawn.get_array())
    above, below = (values > drawn.norm.vmax).any(), (values < drawn.norm.vmin).any()
    extend = ("both" if below else "max") if above else ("min" if below else "neither")
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02, extend=extend)
    bar.set_label(label)
    said = size if label.startswith("bytes") else None if "/ mean" in label else seconds
    if said is not None:
        bar.ax.yaxis.set_major_formatter(lambda value, _: said(value))
        bar.ax.yaxis.set_minor_formatter(lambda value, _: said(value) * (f"{value:e}"[0] in "25"))
    return bar


def finish(ax: Axes, x: str, y: str, *, whole: str = "x") -> Axes:
    """Name the axes and add the legend; the axes named in `whole` have ticks only at integers."""
    from matplotlib.ticker import MaxNLocator

    for axis, name in ((ax.xaxis, x), (ax.yaxis, y)):
        axis.set_label_text("time" if name == "seconds" else name)
        if name == "seconds":  # ticks with a unit: 1 ms, not 0.001
            axis.set_major_formatter(lambda value, _: seconds(value))
    for name in whole:
        axis = ax.xaxis if name == "x" else ax.yaxis
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    legend(ax)
    return ax


def legend(ax: Any) -> None:
    """Add a legend above the picture if something in it has a label."""
    if not ax.get_legend_handles_labels()[0]:
        return
    close = {"borderaxespad": 0.0, "handlelength": 1.6, "columnspacing": 1.2, "fontsize": "small"}
    ax.legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0.0, 1.03), **close)


# ---- ranks --------------------------------------------------------------------------------------


def rank_loads(
    times: ArrayLike,
    lb_step_iterations: Sequence[int] = (),
    *,
    relative: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the time of each rank in each iteration as a heat map, and mark the LB steps.

    Neighbours that share a pixel are drawn as one cell with their largest value, so that a single
    slow rank remains visible.  If a few cells are far above the other cells, they share the
    brightest colour; the colour bar gives their largest value.

    Parameters
    ----------
    times : (m, p) array of float
        Seconds of each rank, one row per iteration.
    lb_step_iterations : sequence of int, optional
        Iterations that ended with an LB step.
    relative : bool
        Divide by the mean over the ranks in the same iteration, so that 1, drawn white, means
        balance even if the total load changes.  The scale is logarithmic.  False: seconds.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=5)
    >>> axes = pylb.plots.rank_loads(run.rank_times, run.lb_step_iterations)
    """
    ax = axes(ax)
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    data = checked(2, times=times)[0].T
    if checks.flag("relative", relative):
        mean = data.mean(axis=0)
        data = np.divide(data, mean, out=np.ones_like(data), where=mean > 0)
    p, m = data.shape
    rows, columns = aggregate.step(p, MOST_ROWS), aggregate.step(m, MOST_COLUMNS)
    cells = aggregate.largest(data, rows, columns)
    extent = (-0.5, cells.shape[1] * columns - 0.5, -0.5, cells.shape[0] * rows - 0.5)
    top, high, far = aggregate.brightest(cells) or 1.0, aggregate.spread(cells), float(cells.max())
    label, more = "time of the rank", f"\n(brightest: up to {seconds(far)})" * (far > top)
    how: dict[str, Any] = {"cmap": "cividis", "norm": Normalize(0.0, top)}
    if relative:
        label, more = "time of rank / mean", f"\n(up to {far:.3g})" * (far > high)
        diverging = LinearSegmentedColormap.from_list("diverging", DIVERGING)
        how = {"cmap": diverging, "norm": LogNorm(1.0 / high, high)}
    how |= {"interpolation": "nearest", "extent": extent, "origin": "lower", "aspect": "auto"}
    bar = colour_bar(ax, ax.imshow(cells, **how), label + more)
    ax.set(xlim=(-0.5, m - 0.5), ylim=(-0.5, p - 0.5))
    if relative:
        bar.set_ticks([tick for tick in RATIOS if 0.999 / high <= tick <= 1.001 * high])
        bar.minorticks_off()
        bar.formatter = "{x:g}"
    x, y = (
        name + (f" (largest of each {n})" if n > 1 else "")
        for name, n in (("iteration", columns), ("rank", rows))
    )
    finish(ax, x, y, whole="xy")
    mark(ax, lb_step_iterations, GREY if relative else "white")
    return ax


def imbalance(
    maximum: ArrayLike,
    mean: ArrayLike,
    lb_step_iterations: Sequence[int] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw maximum and mean over the ranks in each iteration, and mark the LB steps.

    The area between the two is the mean time that a rank waits for the slowest one.
    `maximum` and `mean` are (m,) seconds; the LB steps are as in `rank_loads`.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=5)
    >>> axes = pylb.plots.imbalance(run.metrics["max"], run.metrics["mean"], run.lb_step_iterations)
    """
    ax = axes(ax)
    high, low = checked(1, maximum=maximum, mean=mean)
    x = np.arange(len(high))
    marker = "o" if len(x) <= MOST_BARS else ""
    ax.fill_between(x, low, high, color=ORANGE, alpha=0.2, linewidth=0, label="waiting")
    ax.plot(x, high, color=VERMILLION, marker=marker, markersize=3, label="maximum")
    ax.plot(x, low, color=BLUE, linestyle="--", marker=marker, markersize=3, label="mean")
    ax.set_ylim(0.0, 1.05 * float(high.max()) or 1.0)
    mark(ax, lb_step_iterations, GREY)
    return finish(ax, "iteration", "seconds")


def before_after(
    before: ArrayLike | Metrics, after: ArrayLike | Metrics, *, ax: Axes | None = None
) -> Axes:
    """Draw the seconds of each rank before and after an LB step.

    `before` and `after` are (p,) seconds.  They can also be `Metrics`: then the slowest rank, the
    mean and the fastest rank are drawn.  More than 40 ranks are two sorted curves.

    Examples
    --------
    >>> axes = pylb.plots.before_after([3.0, 1.0, 1.0, 1.0], [1.5, 1.5, 1.5, 1.5])
    >>> plan = pylb.place(trace[0], "GreedyLB")
    >>> axes = pylb.plots.before_after(plan.before, plan.after)
    """
    ax = axes(ax)
    both: dict[str, Any] = {"before": before, "after": after}
    if three := all(isinstance(m, Metrics) for m in both.values()):
        both = {k: (m.max, m.mean, m.min) for k, m in both.items()}
    old, new = checked(1, **both)
    x = np.arange(len(old))
    means = [float(t[1] if three else t.mean()) for t in (old, new)]
    labels = [
        f"{name}, max/mean {t.max() / mean if mean > 0 else 1.0:.3g}"
        for name, t, mean in zip(both, (old, new), means, strict=True)
    ]
    few = len(x) <= MOST_BARS
    if few:
        ax.bar(x - 0.2, old, 0.4, color=VERMILLION, label=labels[0])
        ax.bar(x + 0.2, new, 0.4, color=BLUE, label=labels[1])
    else:
        ax.plot(x, np.sort(old)[::-1], color=VERMILLION, label=labels[0])
        ax.plot(x, np.sort(new)[::-1], color=BLUE, linestyle="--", label=labels[1])
    ax.axhline(means[1], color="black", linewidth=0.8, linestyle=":", label="mean after")
    ax.set_ylim(bottom=0.0)
    finish(ax, "rank" if few else "ranks, the slowest first", "seconds")
    if three:
        ax.set_xticks(x, ["slowest rank", "mean", "fastest rank"])
        ax.set_xlabel("")
    return ax


# ---- decisions ----------------------------------------------------------------------------------

MOST_WORDS = 12  # largest number of LB steps with a label
MOST_TRIED = 60  # only so many LB steps, those that saved or lost the most, can get a label


def fits(run: Any, *, ax: Axes | None = None) -> Axes:
    """Draw maximum and mean load, and the lines and the period τ that the trigger computed.

    Only some triggers fit lines, e.g. "metabalancer" and "menon".  Two lines up to each LB step
    show what the trigger fitted to the maximum and the mean over the ranks since the previous LB
    step.  A bar shows the ideal period τ (Menon 2012, eq. 3.5).

    Examples
    --------
    >>> axes = pylb.plots.fits(trace.replay("GreedyLB", trigger="metabalancer", cost=0.1))
    """
    shown = course.of(run)
    ax = imbalance(shown.max, shown.mean, shown.lb_step_iterations, ax=ax)
    first = 0
    thick: Any = {"linewidth": 4, "alpha": 0.35, "solid_capstyle": "butt"}
    # Only the first line of each kind has a label, so that the legend has it once.
    labels = {"max": "fit of the max", "mean": "fit of the mean", "tau": "τ"}
    for r in (r for r in shown.history if r.balanced):
        x = np.array([first, r.iteration])
        for name, colour in (("max", VERMILLION), ("mean", BLUE)):
            slope, offset = (r.figures.get(f"{name}_{k}", math.nan) for k in ("slope", "offset"))
            if math.isfinite(slope + offset):
                y = offset + slope * (x - first + 1)  # offset: value at the previous LB step
                ax.plot(x, y, color=colour, label=labels.pop(name, None), **thick)
        if math.isfinite(r.tau):
            y = np.full(2, 0.03 * ax.get_ylim()[1])
            label = labels.pop("tau", None)
            ax.plot([first, first + r.tau], y, color=GREEN, linewidth=3, label=label)
        first = r.iteration + 1
    ax.set_xlim(-0.5, shown.n_iterations - 0.5)
    legend(ax)
    return ax


def optimum(run: Replay, best: Optimum, *, ax: Axes | None = None) -> Axes:
    """Draw the time of each iteration in a replay, and with the `trace.optimum` of its strategy.

    Examples
    --------
    >>> best = trace.optimum("GreedyLB", cost=0.5)
    >>> axes = pylb.plots.optimum(trace.replay("GreedyLB", trigger="auto", cost=0.5), best)
    """
    ax = axes(ax)
    at = set(best.iterations.tolist())
    if at and max(at) >= len(run.trace):
        raise DomainError(
            f"best has an LB step after iteration {max(at)}: the run has {len(run.trace)} phases"
        )
    ideal = replay(
        run.trace,
        run.strategy,
        trigger=lambda cycle: cycle.iteration in at,
        cost=best.cost,
        alpha=run.network.alpha,
        beta=run.network.beta,
        seed=run.seed,
    )
    x = np.arange(len(run.trace))
    label = f"{run.trigger or 'recorded'}: {seconds(run.time)}"
    ax.step(x, run.iteration_time, where="mid", color=VERMILLION, label=label)
    mark(ax, run.lb_step_iterations, VERMILLION)
    label = f"best schedule{'' if best.exact else ' found'}: {seconds(best.time)}"
    ax.step(x, ideal.iteration_time, where="mid", color=BLUE, linestyle="--", label=label)
    below: Any = {"color": BLUE, "markersize": 4, "transform": ax.get_xaxis_transform()}
    own = np.array(sorted(at)) + 0.5
    ax.plot(own, np.full(len(own), 0.025), "^", label="its LB steps", **below)
    ax.set_ylim(bottom=0.0)
    longer = f"iteration   ({100 * run.regret(best):.3g} % longer than the best schedule)"
    return finish(ax, longer, "seconds")


def decisions(run: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the decisions of a run: their effect on max/mean, and what they saved.

    A line goes from max/mean before an LB step to the predicted max/mean, both computed from the
    estimated loads; an open circle shows the max/mean measured afterwards.  Decisions not to
    rebalance are marked at the bottom.  The LB steps that saved or lost most have a label with
    their number of migrations, and the seconds saved minus the cost.  `run` can also be a History.

    Examples
    --------
    >>> axes = pylb.plots.decisions(trace.replay("GreedyLB", every=50, cost=0.1))
    """
    history = run if isinstance(run, History) else course.of(run).history
    ax = axes(ax)
    done, held = history.lb_steps, [r for r in history if not r.balanced]
    x = [r.iteration for r in done]
    before = [r.max_over_mean if math.isnan(r.before) else r.before for r in done]
    predicted, realised = [r.predicted for r in done], [r.realised for r in done]
    ax.vlines(x, predicted, before, color=GREY, linewidth=1)
    ax.plot(x, before, "o", color=VERMILLION, markersize=4, label="before")
    ax.plot(x, predicted, "_", color=BLUE, markersize=9, label="predicted")
    ax.plot(x, realised, "o", markerfacecolor="none", color=BLUE, markersize=5, label="realised")
    below: Any = {"color": ORANGE, "linewidth": 3, "transform": ax.get_xaxis_transform()}
    for r in held:
        label = "held back" if r is held[0] else None
        ax.plot([r.iteration, max(r.until, r.iteration + 0.5)], [0.02, 0.02], label=label, **below)
    high = max([y for y in (*before, *predicted, *realised) if y == y], default=1.0)
    ax.set_ylim(0.97, max(1.1, high + 0.25 * (high - 0.9)))
    ax.margins(x=0.08)
    finish(ax, "iteration", "max/mean (before and predicted:\nof estimated loads)")
    tops = np.fmax(before, realised).tolist()  # fmax ignores nan, a value that is not known
    _label(ax, [(r, y) for r, y in zip(done, tops, strict=True) if y == y])
    return ax


def _label(ax: Any, points: list[tuple[Receipt, float]]) -> None:
    above: Any = {"xytext": (0, 5), "textcoords": "offset points", "fontsize": 7, "ha": "center"}
    points = sorted(points, key=lambda p: -abs(p[0].net) if p[0].net == p[0].net else 0.0)
    ax.figure.draw_without_rendering()  # computes the size of the axes with their labels
    taken: list[Any] = []
    for r, y in points[:MOST_TRIED]:
        net = "" if math.isnan(r.gain) else f"\n{'+' if r.net > 0 else ''}{seconds(r.net)}"
        said = ax.annotate(f"{r.migrations} moved{net}", (r.iteration, y), **above)
        box = said.get_window_extent().padded(2.0)
        if len(taken) < MOST_WORDS and not any(box.overlaps(other) for other in taken):
            taken.append(box)
        else:
            said.remove()


# ---- objects ------------------------------------------------------------------------------------

MOST_SAID = 12  # if there are more ranks, their seconds are not written beside their numbers
MOST_PANELS = 64  # largest number of ranks that are drawn if the caller names none


def objects(
    snapshot: Snapshot, ranks: int | Iterable[int] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw a box for each rank, and in it a square for each object, coloured by its load.

    The objects are in the order of the snapshot; those that may not migrate have a frame.  `ranks`
    is a rank or several; by default all ranks, or the 64 slowest ones if there are more.

    Examples
    --------
    >>> axes = pylb.plots.objects(trace[0], ranks=4)
    """
    chosen = _chosen(snapshot, ranks)
    ax = axes(ax)
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    load = snapshot.load if snapshot.n_components == 1 else snapshot.load.sum(axis=1)
    mine = [np.flatnonzero(snapshot.rank == r) for r in chosen]
    side = max(1, math.ceil(math.sqrt(max(len(m) for m in mine))))
    across = math.ceil(math.sqrt(2 * len(chosen)))
    pitch_x, pitch_y = side + 0.25 * side + 0.3, side + 0.45 * side + 0.5
    boxes = []
    for k, (r, members) in enumerate(zip(chosen, mine, strict=True)):
        x0, y0 = (k % across) * pitch_x, (k // across) * pitch_y
        ax.add_patch(Rectangle((x0, y0), side, side, fill=False, color="#999999", linewidth=0.6))
        said = f"{r}" if len(chosen) > MOST_SAID else f"{r}: {seconds(float(load[members].sum()))}"
        ax.text(x0, y0 - 0.06 * side, said, fontsize=7, va="bottom")
        corners = ((x0 + i % side, y0 + i // side) for i in range(len(members)))
        boxes += [Rectangle((x + 0.06, y + 0.06), 0.88, 0.88) for x, y in corners]
    shown, free = np.concatenate(mine), snapshot.migratable
    frames = "none" if free is None else np.where(free[shown], "none", "black").tolist()
    drawn = PatchCollection(boxes, cmap="cividis", edgecolors=frames, linewidths=1.0)
    drawn.set_array(load[shown])
    drawn.set_clim(0.0, float(load.max(initial=0.0)) or 1.0)
    ax.add_collection(drawn)
    low = -(-len(chosen) // across) * pitch_y
    xlim, ylim = (-0.3, min(across, len(chosen)) * pitch_x), (low, -0.4 * side - 0.4)
    ax.set(xlim=xlim, ylim=ylim, aspect="equal")
    ax.axis("off")
    colour_bar(ax, drawn, "load of the object")
    return ax


def _chosen(snapshot: Snapshot, ranks: int | Iterable[int] | None) -> list[int]:
    p = snapshot.n_ranks
    if ranks is None:
        slowest = np.argsort(-snapshot.rank_times, kind="stable")[:MOST_PANELS]
        return sorted(slowest.tolist())
    out = [int(ranks)] if isinstance(ranks, (int, np.integer)) else [int(r) for r in ranks]
    wrong = [r for r in out if not 0 <= r < p]
    if wrong or not out:
        said = f"has {wrong[0]}" if wrong else "is empty"
        raise OutOfRangeError(f"ranks {said}: expected one or more of 0 ... {p - 1}")
    return out


GLIDE, REST, SPEED = 14, 8, 12  # frames of a move, of a rest before and after it, per second
MOST_BOXES, MOST_SQUARES = 64, 20_000  # largest numbers of ranks and of objects in a film


def film(run: Any, path: str | os.PathLike[str], *, most: int = 10) -> None:
    """Write a film of the LB steps: ranks are boxes, filled to their load, and objects move.

    The run has at most 64 ranks and 20,000 objects.  The suffix of `path` is ``.gif``, or with
    ffmpeg ``.mp4``.  `most` is the largest number of LB steps in the film, from the first one on.

    Examples
    --------
    >>> pylb.plots.film(trace.replay("GreedyLB", every=50, cost=0.1), "lb_steps.gif", most=1)
    """
    optional.require("matplotlib")
    from matplotlib.animation import FuncAnimation
    from matplotlib.pyplot import close

    shown = course.of(run)
    p, objects, times = shown.n_ranks, shown.objects, shown.times
    steps = [r.iteration for r in shown.lb_steps if 0 <= r.iteration < len(times) - 1]
    steps = steps[: checks.whole("most", most, 1)]
    if not steps or objects is None or p > MOST_BOXES or shown.n_objects > MOST_SQUARES:
        raise DomainError(
            f"run has {p} ranks, {shown.n_objects} objects and {len(steps)} LB steps between "
            f"iterations: expected at most {MOST_BOXES}, at most {MOST_SQUARES}, and at least one"
        )
    across = math.ceil(math.sqrt(2 * p))
    corner = 1.15 * np.stack([np.arange(p) % across, -(np.arange(p) // across)], axis=1)
    seen = {i: objects.at(i) for k in steps for i in (k, k + 1)}
    fullest = max(np.bincount(rank[rank >= 0]).max(initial=0) for rank, _ in seen.values())
    side = math.ceil(math.sqrt(fullest))

    def places(rank: I64) -> F64:
        """Return the place of each object, in rows of its rank's box; NaN if it does not exist."""
        index = np.flatnonzero(rank >= 0)
        rank = rank[index]
        order = np.argsort(rank, kind="stable")
        at = np.empty_like(order)
        at[order] = np.arange(len(order)) - np.searchsorted(rank[order], rank[order])
        out = np.full((len(objects.key), 2), np.nan)
        row, column = np.divmod(at, side)
        out[index] = corner[rank] + (np.stack([column, side - 1 - row], axis=1) + 0.5) / side
        return out

    at_rest = {i: places(rank) for i, (rank, _) in seen.items()}
    ax, (x, y) = axes(None), corner.T
    ax.bar(x + 0.5, 1.0, 1.0, y, color="none", edgecolor=GREY)
    full = ax.bar(x + 0.5, 0.0, 1.0, y, color=BLUE, alpha=0.35)
    ax.set(xlim=(-0.1, 1.15 * across), ylim=(y.min() - 0.1, 1.1), aspect="equal")
    ax.axis("off")
    ax.set_title(" ")
    ax.figure.draw_without_rendering()
    ax.figure.set_layout_engine("none")
    size = 0.6 * 72 * ax.get_window_extent().width / ax.figure.dpi / (1.15 * across + 0.1) / side
    squares = ax.scatter(*at_rest[steps[0]].T, s=size**2, marker="s", cmap="cividis", c=objects.key)
    squares.set_clim(0.0, max(load.max() for _, load in seen.values()))
    top = max(times[i].max() for i in seen)

    def draw(frame: int) -> None:
        k, at = divmod(frame, REST + GLIDE + REST)
        i, t = steps[k], min(max((at - REST) / GLIDE, 0.0), 1.0)
        now = times[i] + t * (times[i + 1] - times[i])
        squares.set_array(seen[i][1])
        squares.set_offsets(at_rest[i] + t * (at_rest[i + 1] - at_rest[i]))
        for box, high in zip(full, now / top, strict=True):
            box.set_height(high)
        ratio = now.max() / now.mean() if now.any() else 1.0
        ax.set_title(f"LB step after iteration {i}: max/mean {ratio:.2f}")

    frames = len(steps) * (REST + GLIDE + REST)
    writer = "pillow" if os.fspath(path).endswith(".gif") else "ffmpeg"
    FuncAnimation(ax.figure, draw, frames).save(os.fspath(path), writer, SPEED)
    close(ax.figure)


# ---- migrations and messages --------------------------------------------------------------------

MOST_CELLS = 256  # largest number of rows of a matrix


def migrations(run: Any, iteration: int | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the load that moved from rank to rank, in all or after one iteration, as a matrix.

    More than 256 ranks are added up in groups of neighbours.

    Examples
    --------
    >>> axes = pylb.plots.migrations(trace.replay("GreedyLB", every=50, cost=0.1))
    """
    shown = course.of(run)
    moves = [m for m in shown.moves if iteration in (None, m.iteration)]
    if iteration is not None and not moves:
        known = [m.iteration for m in shown.moves]
        raise DomainError(
            f"iteration is {iteration}: expected one after which objects moved, {known[:20]}"
        )
    ax = axes(ax)
    step, _, load = aggregate.between_groups(shown.n_ranks, moves, MOST_CELLS)
    matrix(ax, load, step, "load of the objects that moved")
    when = "in the whole run" if iteration is None else f"after iteration {iteration}"
    number = sum(int(m.objects.sum()) for m in moves)
    ax.set_title(f"{number:,} migrations {when}", fontsize="medium")
    return ax


def matrix(ax: Any, cells: Any, step: int, label: str) -> Axes:
    """Draw how much goes from groups of `step` ranks (rows) to others (columns), on a log scale."""
    from matplotlib.colors import LogNorm, Normalize

    low, edge = float(cells[cells > 0].min(initial=np.inf)), len(cells) * step - 0.5
    scale = LogNorm(low, max(float(cells.max()), 2 * low)) if np.isfinite(low) else Normalize(0, 1)
    how: Any = {"cmap": "cividis", "norm": scale, "interpolation": "nearest"}
    how["extent"] = (-0.5, edge, edge, -0.5)
    colour_bar(ax, ax.imshow(np.ma.masked_equal(cells, 0.0), **how), label)
    more = f" (groups of {step})" if step > 1 else ""
    return finish(ax, f"to rank{more}", f"from rank{more}", whole="xy")


def communication(
    snapshot: Snapshot, rank: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the bytes that each rank sends to each other rank in an iteration, as a matrix.

    The diagonal is communication within a rank.  More than 256 ranks are added up in groups.  With
    `rank`, e.g. ``pylb.place(snapshot).rank``, the objects are on these ranks instead.

    Examples
    --------
    >>> axes = pylb.plots.communication(trace[0])
    """
    if snapshot.edges is None:
        raise DomainError("snapshot has no edges: expected edges=...")
    placed = snapshot if rank is None else snapshot.with_rank(rank)
    ax = axes(ax)
    step = aggregate.step(snapshot.n_ranks, MOST_CELLS)
    n = -(-snapshot.n_ranks // step)
    edges = snapshot.edges
    source, target = placed.rank[edges.src], placed.rank[edges.dst]
    sent = np.bincount(source // step * n + target // step, edges.nbytes, n * n).reshape(n, n)
    total = float(edges.nbytes.sum())
    leaves = float(edges.nbytes[source != target].sum())
    part = leaves / total if total > 0 else 0.0
    ax.set_title(f"{100 * part:.3g} % of {size(total)} leave their rank", fontsize="medium")
    return matrix(ax, sent, step, "bytes in an iteration")


# ---- timelines ----------------------------------------------------------------------------------

MOST_RANKS = 64
MOST_OPS = 20_000  # largest number of operations of a rank that a picture can show
MOST_STRIPES = 80  # if there are more iterations, neighbours are drawn as one
SAND = "#E6D3B1"
SPACE = 0.24  # space between the runs of a timeline, as a fraction of the height of a run


def timeline(
    run: Any,
    prediction: Prediction | None = None,
    path: CriticalPath | None = None,
    *,
    iterations: int | tuple[int, int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw when each rank computes and waits, on an axis of seconds.

    For a run with LB steps, the run without them is drawn above the run itself.  A thin line shows
    for how long objects moved while ranks computed.  More than 64 ranks are drawn as quantiles of
    each iteration, from the slowest rank to the fastest.

    `iterations` is one iteration, or the first iteration and the one after the last; default: all.
    If `run` is a `Recording`, a `prediction` made with ``steps=True`` is drawn, and, if given, its
    critical `path` as a line over the ranks.

    Examples
    --------
    >>> axes = pylb.plots.timeline(trace.replay("GreedyLB", every=5), iterations=(0, 10))
    >>> run = pylb.Recording.load("run")
    >>> axes = pylb.plots.timeline(run, pylb.whatif(run, placement=[0, 1, 2, 3], steps=True))
    """
    if not isinstance(run, Recording):
        if (prediction, path) != (None, None):
            raise DomainError("prediction or path is given: expected them only with a Recording")
        ax = axes(ax)
        _lanes(ax, course.of(run), iterations)
        return ax
    if prediction is None or iterations is not None:
        raise DomainError("run is a Recording: expected a prediction, and no iterations")
    return _operations(ax, run, prediction, path)


def _lanes(ax: Any, run: course.Course, iterations: int | tuple[int, int] | None) -> None:
    m = run.n_iterations
    one = (0, m) if iterations is None else iterations
    first, end = (one, one + 1) if isinstance(one, (int, np.integer)) else map(int, one)
    if not 0 <= first < end <= m:
        raise DomainError(f"iterations is {iterations}: expected some of 0 ... {m - 1}")
    _, names, runs = run.lanes(first, end, MOST_STRIPES)
    n, every = len(names), max(1, len(names) // 8)
    ticks, where, longest, steps = [], [], 0.0, ("LB step", "moves objects")
    legends = {"computes": BLUE, "waits": SAND, steps[0]: "black", steps[1]: VERMILLION}
    for k, shown in enumerate(reversed(runs)):
        low = k * n * (1 + SPACE) - 0.5
        each = shown.iteration + shown.deciding + shown.moving
        begin = np.cumsum(each) - each
        for r in range(n):
            y, bars = (low + r + 0.08, 0.84), np.stack([begin, shown.computing[r]], axis=1)
            ax.broken_barh([(0.0, float(each.sum()))], y, color=SAND, linewidth=0)
            ax.broken_barh(bars, y, color=BLUE, linewidth=0)
            late = np.stack([begin, shown.hidden], axis=1)[shown.hidden > 0]
            if len(late):
                ax.broken_barh(late, (low + r + 0.08, 0.16), color=VERMILLION, linewidth=0)
        after = begin + shown.iteration
        parts = {steps[0]: shown.deciding, steps[1]: shown.moving}
        for at, (name, long) in zip((after, after + shown.deciding), parts.items(), strict=True):
            bars = np.stack([at, long], axis=1)[long > 0]
            thin = 0.5 if len(bars) <= MOST_LINES else 0.0
            ax.broken_barh(bars, (low, n), color=legends[name], linewidth=thin)
        whole = shown.seconds if (first, end) == (0, m) else float(each.sum())
        ax.text(0.0, low + 1.09 * n, f"{shown.name}: {seconds(whole)}", fontsize="small")
        at = after[shown.deciding + shown.moving > 0]
        ax.plot(at, np.full(len(at), low + 1.02 * n), "v", color="black", markersize=3)
        where += [low + r + 0.5 for r in range(0, n, every)]
        ticks += names[::every]
        longest = max(longest, float(each.sum()))
    top = low + n * (1 + SPACE)
    for name, colour in legends.items():
        ax.plot([], [], "v" if name == steps[0] else "s", color=colour, label=name)
    finish(ax, "seconds", "rank", whole="")
    ax.set(xlim=(0.0, longest or 1.0), ylim=(-0.5, top))
    ax.set_yticks(where, ticks)


def _operations(
    ax: Axes | None, run: Recording, prediction: Prediction, path: CriticalPath | None
) -> Axes:
    if prediction.steps is None:
        raise DomainError("the prediction has no steps: expected whatif(..., steps=True)")
    if run.n_ranks > MOST_RANKS or max(map(len, run.ops), default=0) > MOST_OPS:
        raise DomainError(
            f"the run has {run.n_ranks} ranks with up to {max(map(len, run.ops))} operations: "
            f"expected at most {MOST_RANKS} ranks and {MOST_OPS} operations of each"
        )
    ax, met = axes(ax), []  # met: when a rank stops computing and begins to wait, by operation
    for rank, steps in enumerate(prediction.steps):
        begin, end, ops = steps["begin"], steps["end"], run.ops[rank]
        speed = prediction.target.speed[prediction.target.placement[rank]]
        computed = np.minimum(begin + ops["compute"] * 1e-9 / speed, end)
        met.append(np.where(steps["cause_rank"] < 0, end, computed))
        for name, colour, first, last in (
            ("computes", BLUE, begin, met[rank]),
            ("waits for a rank", ORANGE, met[rank], end),
        ):
            bars = np.stack([first, last - first], axis=1)[last > first].tolist()
            how: Any = {"color": colour, "linewidth": 0, "label": None if rank else name}
            ax.broken_barh(bars, (rank - 0.35, 0.7), **how)
    if path is not None:
        at, who = [], []  # begin and end of each segment of the path
        for rank, first, last, _ in path.stretches.tolist():
            if first <= last:
                at += [prediction.steps[rank]["begin"][first], met[rank][last]]
                who += [rank, rank]
        ax.plot(at, who, color="black", linewidth=1.4, label="critical path")
    finish(ax, "seconds", "rank", whole="")
    ax.set(xlim=(0.0, prediction.time), ylim=(-0.6, run.n_ranks - 0.4))
    ax.set_yticks(range(0, run.n_ranks, max(1, run.n_ranks // 8)))
    return ax
