"""Draw the loads of the ranks: over iterations, maximum and mean, before and after an LB step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pylb.console import seconds
from pylb.model import checks
from pylb.show import aggregate
from pylb.show.plots.common import (
    BLUE,
    GREY,
    MOST_BARS,
    MOST_COLUMNS,
    MOST_ROWS,
    ORANGE,
    POWERS,
    VERMILLION,
    Axes,
    axes,
    checked,
    finish,
    heat,
    mark,
    norm,
    pair,
    ratio,
)


def rank_loads(
    times: ArrayLike,
    balanced_after: Sequence[int] = (),
    *,
    relative: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw the seconds of each rank in each iteration as a heat map, and mark the LB steps.

    If there are more ranks or iterations than pixels, neighbours are drawn as one cell with their
    largest value, so that a single slow rank remains visible.  If a few cells are far above the
    other cells, they share the brightest colour; the colour bar gives their largest value.

    Parameters
    ----------
    times : (m, p) array of float
        Seconds of each rank, one row per iteration: ``run.rank_times``.
    balanced_after : sequence of int, optional
        Iterations at whose end an LB step took place: ``run.balanced_after``.
    relative : bool
        Divide by the mean over the ranks in the same iteration, so that 1 means balance even if the
        total load changes.  The scale is logarithmic: twice the mean and half the mean are equally
        far from 1.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=5)
    >>> axes = pylb.plots.rank_loads(run.rank_times, run.balanced_after)
    """
    ax = axes(ax)
    data = checked("times", times, 2).T
    if checks.flag("relative", relative):
        mean = data.mean(axis=0)
        data = np.divide(data, mean, out=np.ones_like(data), where=mean > 0)
    p, m = data.shape
    rows, columns = -(-p // MOST_ROWS), -(-m // MOST_COLUMNS)
    cells = aggregate.largest(data, rows, columns)
    extent = (-0.5, cells.shape[1] * columns - 0.5, -0.5, cells.shape[0] * rows - 0.5)
    label = "time of rank / mean" if relative else "seconds of the rank"
    colours = norm(cells, relative)
    if (high := float(cells.max())) > colours.vmax:
        label += f"\n(brightest: up to {seconds(high)})"
    bar = heat(ax, cells, colours, extent, label, aspect="auto", origin="lower")
    ax.set(xlim=(-0.5, m - 0.5), ylim=(-0.5, p - 0.5))
    if relative:
        bar.set_ticks([power for power in POWERS if bar.vmin <= power <= bar.vmax])
        bar.minorticks_off()
        bar.formatter = "{x:g}"
    x, y = (
        name + (f" (largest of each {n})" if n > 1 else "")
        for name, n in (("iteration", columns), ("rank", rows))
    )
    finish(ax, x, y, whole="xy")
    mark(ax, balanced_after, "white")
    return ax


def imbalance(
    maximum: ArrayLike,
    mean: ArrayLike,
    balanced_after: Sequence[int] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw maximum and mean over the ranks in each iteration, and mark the LB steps.

    The area between the two is the mean time that a rank waits for the slowest one.

    Parameters
    ----------
    maximum, mean : (m,) array of float
        Seconds: ``run.metrics["max"]``, ``run.metrics["mean"]``.
    balanced_after : sequence of int, optional
        Iterations at whose end an LB step took place.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=5)
    >>> axes = pylb.plots.imbalance(run.metrics["max"], run.metrics["mean"], run.balanced_after)
    """
    ax = axes(ax)
    high, low = pair(maximum=maximum, mean=mean)
    x = np.arange(len(high))
    marker = "o" if len(x) <= MOST_BARS else ""
    ax.fill_between(x, low, high, color=ORANGE, alpha=0.2, linewidth=0, label="waiting")
    ax.plot(x, high, color=VERMILLION, marker=marker, markersize=3, label="maximum")
    ax.plot(x, low, color=BLUE, linestyle="--", marker=marker, markersize=3, label="mean")
    ax.set_ylim(0.0, 1.05 * float(high.max()) or 1.0)
    mark(ax, balanced_after, GREY)
    return finish(ax, "iteration", "seconds")


def before_after(before: ArrayLike, after: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the seconds of each rank before and after an LB step.

    Up to 40 ranks are drawn as bars, in the order of the ranks.  More than 40 ranks are drawn as
    two curves: the seconds before and those after, each sorted from the slowest rank to the
    fastest.

    Parameters
    ----------
    before, after : (p,) array of float
        Seconds of each rank, for instance `Snapshot.rank_times` of two placements.

    Examples
    --------
    >>> axes = pylb.plots.before_after([3.0, 1.0, 1.0, 1.0], [1.5, 1.5, 1.5, 1.5])
    """
    ax = axes(ax)
    old, new = pair(before=before, after=after)
    x = np.arange(len(old))
    labels = [f"{name}, max/mean {ratio(t):.3g}" for name, t in [("before", old), ("after", new)]]
    if len(x) <= MOST_BARS:
        ax.bar(x - 0.2, old, 0.4, color=VERMILLION, label=labels[0])
        ax.bar(x + 0.2, new, 0.4, color=BLUE, label=labels[1])
        what = "rank"
    else:
        ax.plot(x, np.sort(old)[::-1], color=VERMILLION, label=labels[0])
        ax.plot(x, np.sort(new)[::-1], color=BLUE, linestyle="--", label=labels[1])
        what = "ranks, the slowest first"
    ax.axhline(float(new.mean()), color="black", linewidth=0.8, linestyle=":", label="mean after")
    ax.set_ylim(bottom=0.0)
    return finish(ax, what, "seconds")
