"""What all pictures share: axes, colours, marks, legends, checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import optional
from pylb.errors import DomainError
from pylb.model.snapshot import F64
from pylb.show import aggregate

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any

BLUE, ORANGE, VERMILLION, GREY = "#0072B2", "#E69F00", "#D55E00", "#666666"
GREEN = "#009E73"

MOST_ROWS, MOST_COLUMNS = 250, 1000  # largest numbers of rows and columns of a heat map
MOST_LINES = 12  # if there are more LB steps, they are not marked by vertical lines
MOST_BARS = 40  # if there are more ranks, they are not drawn as bars
POWERS = [2.0**k for k in range(-3, 40)]  # ticks of a logarithmic scale


def axes(ax: Axes | None) -> Any:
    """Return the given axes, or those of a new figure."""
    optional.require("matplotlib")
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.0, 3.2), layout="constrained")[1]


def checked(name: str, values: ArrayLike, ndim: int) -> F64:
    """Return the values as floats, after a check: `ndim` axes, none of them empty."""
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as why:
        raise DomainError(f"{name}: expected numbers; {why}") from None
    if out.ndim != ndim or out.size == 0:
        raise DomainError(f"{name} has shape {out.shape}: expected {ndim} axes, none of them empty")
    return out


def pair(**values: ArrayLike) -> tuple[F64, F64]:
    """Return two arguments as arrays, after a check: one axis each, and the same length."""
    (one, a), (other, b) = ((name, checked(name, v, 1)) for name, v in values.items())
    if a.shape != b.shape:
        raise DomainError(f"{one} has shape {a.shape} and {other} {b.shape}: expected the same")
    return a, b


def ratio(times: F64) -> float:
    """Return max/mean; 1 if there is no load."""
    mean = float(times.mean())
    return float(times.max()) / mean if mean > 0 else 1.0


def norm(cells: F64, relative: bool) -> Any:
    """Return the scale of colours for seconds, or (`relative`) for ratios to the mean.

    All seconds above `aggregate.brightest` have one colour; all ratios below 1/8 have one colour.
    """
    from matplotlib.colors import LogNorm, Normalize

    high = float(cells.max())
    if not relative:
        return Normalize(0.0, aggregate.brightest(cells) or 1.0)
    return LogNorm(min(max(float(cells.min()), 0.125), 0.5), max(high, 2.0), clip=True)


def mark(ax: Any, balanced_after: Sequence[int], colour: str) -> None:
    """Mark each LB step by a triangle above the picture, and by a line if the steps are few."""
    at = np.asarray(balanced_after, dtype=np.float64) + 0.5
    if at.size == 0:
        return
    if at.size <= MOST_LINES:
        for x in at:
            ax.axvline(x, color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
    above = {"clip_on": False, "transform": ax.get_xaxis_transform()}
    y = np.full(at.size, 1.015)
    ax.plot(at, y, "v", color="black", markersize=4, label="LB step", **above)


def heat(ax: Any, cells: Any, norm: Any, extent: tuple[float, ...], label: str, **how: Any) -> Any:
    """Draw cells as colours, and a colour bar beside them; return the bar."""
    image = ax.imshow(
        cells, cmap="cividis", norm=norm, interpolation="nearest", extent=extent, **how
    )
    return colour_bar(ax, image, label)


def colour_bar(ax: Any, drawn: Any, label: str) -> Any:
    """Add a bar that explains the colours.

    The bar ends in an arrow if some values are above the value of the brightest colour.
    """
    values = drawn.get_array()
    above = values.size > 0 and float(values.max()) > drawn.norm.vmax
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02, extend="max" if above else "neither")
    bar.set_label(label)
    return bar


def finish(ax: Axes, x: str, y: str, *, whole: str = "x") -> Axes:
    """Name the axes and add the legend; the axes named in `whole` have ticks only at integers."""
    from matplotlib.ticker import MaxNLocator

    ax.set(xlabel=x, ylabel=y)
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
