"""Pictures of a run, with matplotlib: one function a picture, each returns its axes.

Colours are those of Okabe and Ito and the map cividis, which read alike for all eyes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import parts
from pylb.errors import DomainError
from pylb.snapshot import F64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, VERMILLION, GREY = "#0072B2", "#E69F00", "#D55E00", "#666666"

MOST_ROWS, MOST_COLUMNS = 250, 1000  # of a heat map: about what a figure has pixels for
MOST_LINES = 12  # balancings marked by a line across the picture, not by a mark above it alone
MOST_BARS = 40  # ranks drawn as bars
POWERS = [2.0**k for k in range(-3, 40)]  # of two: ticks of a logarithmic scale


def rank_loads(
    times: ArrayLike,
    balanced_after: Sequence[int] = (),
    *,
    relative: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Seconds of each rank in each iteration as a heat map, with the balancings marked.

    Where there are more ranks or iterations than pixels, neighbours are drawn as one cell with
    the largest value among them: a single slow rank is never averaged away.

    Parameters
    ----------
    times : (m, p) array of float
        Seconds of each rank, an iteration a row: ``run.rank_times``.
    balanced_after : sequence of int, optional
        Iterations at whose end a balancing took place: ``run.balanced_after``.
    relative : bool
        Divide by the mean over the ranks of the same iteration, so that 1 is in balance however
        the whole load changes, and let the colours follow the logarithm: twice and half the mean
        are equally far from it.
    ax : Axes, optional
        Default: of a new figure.

    Raises
    ------
    MissingPartError
        matplotlib is missing.
    DomainError
        `times` has not two axes, or is empty.

    Examples
    --------
    >>> run = trace.replay("GreedyLB", every=5)
    >>> pylb.plots.rank_loads(run.rank_times, run.balanced_after)
    """
    ax = _axes(ax)
    data = _checked("times", times, 2).T
    if relative:
        mean = data.mean(axis=0)
        data = np.divide(data, mean, out=np.ones_like(data), where=mean > 0)
    p, m = data.shape
    rows, columns = -(-p // MOST_ROWS), -(-m // MOST_COLUMNS)
    cells = _largest(data, rows, columns)
    image = ax.imshow(
        cells,
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        cmap="cividis",
        norm=_norm(cells, relative),
        extent=(-0.5, cells.shape[1] * columns - 0.5, -0.5, cells.shape[0] * rows - 0.5),
    )
    ax.set_xlim(-0.5, m - 0.5)
    ax.set_ylim(-0.5, p - 0.5)
    bar: Any = ax.figure.colorbar(image, ax=ax, pad=0.02)
    bar.set_label("time of rank / mean" if relative else "seconds of the rank")
    if relative:
        bar.set_ticks([power for power in POWERS if bar.vmin <= power <= bar.vmax])
        bar.minorticks_off()
        bar.formatter = "{x:g}"
    ax.set_xlabel("iteration" + (f" (largest of each {columns})" if columns > 1 else ""))
    ax.set_ylabel("rank" + (f" (largest of each {rows})" if rows > 1 else ""))
    _whole_ticks(ax.xaxis)
    _whole_ticks(ax.yaxis)
    _mark(ax, balanced_after, "white")
    return ax


def imbalance(
    maximum: ArrayLike,
    mean: ArrayLike,
    balanced_after: Sequence[int] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Maximum and mean over the ranks, iteration by iteration, with the balancings marked.

    The area between the two is what the ranks wait for the slowest one.

    Parameters
    ----------
    maximum, mean : (m,) array of float
        Seconds: ``run.metrics["max"]``, ``run.metrics["mean"]``.
    balanced_after : sequence of int, optional
        Iterations at whose end a balancing took place.
    ax : Axes, optional
        Default: of a new figure.

    Raises
    ------
    MissingPartError
        matplotlib is missing.
    DomainError
        The two have not one axis of the same length, or are empty.
    """
    ax = _axes(ax)
    high, low = _pair(maximum=maximum, mean=mean)
    x = np.arange(len(high))
    marker = "o" if len(x) <= MOST_BARS else ""
    ax.fill_between(x, low, high, color=ORANGE, alpha=0.2, linewidth=0, label="waiting")
    ax.plot(x, high, color=VERMILLION, marker=marker, markersize=3, label="maximum")
    ax.plot(x, low, color=BLUE, linestyle="--", marker=marker, markersize=3, label="mean")
    ax.set_ylim(0.0, 1.05 * float(high.max()) or 1.0)
    ax.set_xlabel("iteration")
    ax.set_ylabel("seconds")
    _whole_ticks(ax.xaxis)
    _mark(ax, balanced_after, GREY)
    _legend(ax)
    return ax


def before_after(before: ArrayLike, after: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Seconds of each rank before and after a balancing.

    Up to 40 ranks are bars in their order; more are two curves, each sorted from the slowest rank
    to the fastest.

    Parameters
    ----------
    before, after : (p,) array of float
        Seconds of each rank, for instance `Snapshot.rank_times` of two placements.
    ax : Axes, optional
        Default: of a new figure.

    Raises
    ------
    MissingPartError
        matplotlib is missing.
    DomainError
        The two have not one axis of the same length, or are empty.
    """
    ax = _axes(ax)
    old, new = _pair(before=before, after=after)
    x = np.arange(len(old))
    labels = [f"{name}, max/mean {_ratio(t):.3g}" for name, t in [("before", old), ("after", new)]]
    if len(x) <= MOST_BARS:
        ax.bar(x - 0.2, old, 0.4, color=VERMILLION, label=labels[0])
        ax.bar(x + 0.2, new, 0.4, color=BLUE, label=labels[1])
        ax.set_xlabel("rank")
    else:
        ax.plot(x, np.sort(old)[::-1], color=VERMILLION, label=labels[0])
        ax.plot(x, np.sort(new)[::-1], color=BLUE, linestyle="--", label=labels[1])
        ax.set_xlabel("ranks, the slowest first")
    ax.axhline(float(new.mean()), color="black", linewidth=0.8, linestyle=":", label="mean after")
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("seconds")
    _whole_ticks(ax.xaxis)
    _legend(ax)
    return ax


def _axes(ax: Axes | None) -> Any:
    parts.require("matplotlib")
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.0, 3.2), layout="constrained")[1]


def _checked(name: str, values: ArrayLike, ndim: int) -> F64:
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != ndim or out.size == 0:
        raise DomainError(f"{name} has shape {out.shape}: expected {ndim} axes, none of them empty")
    return out


def _pair(**values: ArrayLike) -> tuple[F64, F64]:
    """Two arrays of one axis and the same length, by the names of their arguments."""
    (one, a), (other, b) = ((name, _checked(name, v, 1)) for name, v in values.items())
    if a.shape != b.shape:
        raise DomainError(f"{one} has shape {a.shape} and {other} {b.shape}: expected the same")
    return a, b


def _ratio(times: F64) -> float:
    mean = float(times.mean())
    return float(times.max()) / mean if mean > 0 else 1.0


def _largest(data: F64, rows: int, columns: int) -> F64:
    """The maximum of each block of so many rows and columns; the last ones may be smaller."""
    out = np.maximum.reduceat(data, np.arange(0, data.shape[0], rows), axis=0)
    return np.asarray(np.maximum.reduceat(out, np.arange(0, data.shape[1], columns), axis=1))


def _norm(cells: F64, relative: bool) -> Any:
    """How values become colours; below an eighth of the mean all are alike."""
    from matplotlib.colors import LogNorm, Normalize

    high = float(cells.max())
    if not relative:
        return Normalize(0.0, high or 1.0)
    return LogNorm(min(max(float(cells.min()), 0.125), 0.5), max(high, 2.0), clip=True)


def _mark(ax: Any, balanced_after: Sequence[int], colour: str) -> None:
    """A mark above the picture for each balancing, and a line where they are few."""
    at = np.asarray(balanced_after, dtype=np.float64) + 0.5
    if at.size == 0:
        return
    if at.size <= MOST_LINES:
        for x in at:
            ax.axvline(x, color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
    ax.plot(
        at,
        np.full(at.size, 1.015),
        "v",
        color="black",
        markersize=4,
        clip_on=False,
        transform=ax.get_xaxis_transform(),
        label="balancing",
    )


def _legend(ax: Any) -> None:
    """One line above the picture, where it hides nothing."""
    ax.legend(
        frameon=False,
        ncols=4,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.03),
        borderaxespad=0.0,
        fontsize="small",
        handlelength=1.6,
        columnspacing=1.2,
    )


def _whole_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
