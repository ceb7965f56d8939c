"""What all pictures share: axes, colours, marks, legends, checks.

Colours are those of Okabe and Ito and the map cividis, which read alike for all eyes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import optional
from pylb.errors import DomainError
from pylb.model.snapshot import F64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, VERMILLION, GREY = "#0072B2", "#E69F00", "#D55E00", "#666666"
GREEN, SKY = "#009E73", "#56B4E9"

MOST_ROWS, MOST_COLUMNS = 250, 1000  # of a heat map: about what a figure has pixels for
MOST_LINES = 12  # balancings marked by a line across the picture, not by a mark above it alone
MOST_BARS = 40  # ranks drawn as bars
POWERS = [2.0**k for k in range(-3, 40)]  # of two: ticks of a logarithmic scale


def axes(ax: Axes | None) -> Any:
    """The axes given, or those of a new figure."""
    optional.require("matplotlib")
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.0, 3.2), layout="constrained")[1]


def checked(name: str, values: ArrayLike, ndim: int) -> F64:
    """An array of floats with so many axes, none of them empty."""
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != ndim or out.size == 0:
        raise DomainError(f"{name} has shape {out.shape}: expected {ndim} axes, none of them empty")
    return out


def pair(**values: ArrayLike) -> tuple[F64, F64]:
    """Two arrays of one axis and the same length, by the names of their arguments."""
    (one, a), (other, b) = ((name, checked(name, v, 1)) for name, v in values.items())
    if a.shape != b.shape:
        raise DomainError(f"{one} has shape {a.shape} and {other} {b.shape}: expected the same")
    return a, b


def ratio(times: F64) -> float:
    """max/mean; 1 where nothing runs."""
    mean = float(times.mean())
    return float(times.max()) / mean if mean > 0 else 1.0


def norm(cells: F64, relative: bool) -> Any:
    """How values become colours; below an eighth of the mean all are alike."""
    from matplotlib.colors import LogNorm, Normalize

    high = float(cells.max())
    if not relative:
        return Normalize(0.0, high or 1.0)
    return LogNorm(min(max(float(cells.min()), 0.125), 0.5), max(high, 2.0), clip=True)


def mark(ax: Any, balanced_after: Sequence[int], colour: str) -> None:
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


def finish(ax: Axes, x: str, y: str) -> Axes:
    """Names of the axes, whole numbers on the lower one, the legend; returns the axes."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    whole_ticks(ax.xaxis)
    legend(ax)
    return ax


def legend(ax: Any) -> None:
    """One line above the picture, where it hides nothing; none where nothing has a name."""
    if not ax.get_legend_handles_labels()[0]:
        return
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


def whole_ticks(axis: Any) -> None:
    """Ticks at integers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
