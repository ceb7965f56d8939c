"""Draw the objects on each rank."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from pylb.console import seconds
from pylb.errors import OutOfRangeError
from pylb.model.snapshot import Snapshot
from pylb.show.plots.common import Axes, axes, colour_bar

MOST_SAID = 12  # if there are more ranks, their seconds are not written beside their numbers
MOST_PANELS = 64  # largest number of ranks that are drawn if the caller names none


def objects(
    snapshot: Snapshot, ranks: int | Iterable[int] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw a box for each rank, and in it a square for each object, coloured by its load.

    Objects are drawn row by row, in the order of the snapshot.  Objects that may not migrate have a
    frame.

    Parameters
    ----------
    snapshot : Snapshot
    ranks : int or iterable of int, optional
        Default: all ranks; if there are more than 64, the 64 slowest ones.

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
    boxes, values, frames = [], [], []
    for k, (r, members) in enumerate(zip(chosen, mine, strict=True)):
        x0, y0 = (k % across) * pitch_x, (k // across) * pitch_y
        ax.add_patch(Rectangle((x0, y0), side, side, fill=False, color="#999999", linewidth=0.6))
        said = f"{r}" if len(chosen) > MOST_SAID else f"{r}: {seconds(float(load[members].sum()))}"
        ax.text(x0, y0 - 0.06 * side, said, fontsize=7, va="bottom")
        for i, member in enumerate(members.tolist()):
            box = Rectangle((x0 + i % side + 0.06, y0 + i // side + 0.06), 0.88, 0.88)
            boxes.append(box)
            values.append(float(load[member]))
            fixed = snapshot.migratable is not None and not snapshot.migratable[member]
            frames.append("black" if fixed else "none")
    drawn = PatchCollection(boxes, cmap="cividis", edgecolors=frames, linewidths=1.0)
    drawn.set_array(np.array(values))
    drawn.set_clim(0.0, float(load.max(initial=0.0)) or 1.0)
    ax.add_collection(drawn)
    ax.set_xlim(-0.3, min(across, len(chosen)) * pitch_x)
    ax.set_ylim(-(-len(chosen) // across) * pitch_y, -0.4 * side - 0.4)
    ax.set_aspect("equal")
    ax.axis("off")
    colour_bar(ax, drawn, "seconds of the object")
    return ax


def _chosen(snapshot: Snapshot, ranks: int | Iterable[int] | None) -> list[int]:
    p = snapshot.n_ranks
    if ranks is None:
        slowest = np.argsort(-snapshot.rank_times, kind="stable")[:MOST_PANELS]
        return sorted(slowest.tolist())
    out = [int(ranks)] if isinstance(ranks, (int, np.integer)) else [int(r) for r in ranks]
    for r in out:
        if not 0 <= r < p:
            raise OutOfRangeError(f"rank is {r}: expected 0 ... {p - 1}")
    if not out:
        raise OutOfRangeError(f"ranks is empty: expected some of 0 ... {p - 1}")
    return out
