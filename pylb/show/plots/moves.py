"""Draw migrations and messages between ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb.errors import DomainError
from pylb.model.snapshot import F64, Snapshot
from pylb.show import aggregate, course
from pylb.show.plots.common import BLUE, ORANGE, VERMILLION, Axes, axes, finish, heat

MOST_GROUPS = 24  # largest number of groups of ranks at each side of the bands
MOST_CELLS = 256  # largest number of rows of a matrix
GAP = 0.25  # gap between groups, as a fraction of their mean height


def migrations(run: Any, iteration: int | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw migrations as bands from the old ranks to the new ranks.

    The width of a band is its number of objects; more than 24 ranks are drawn in groups of
    neighbours.

    Parameters
    ----------
    run : RunRecord, Replay, Trace or path
    iteration : int, optional
        Only migrations after this iteration.  Default: all.

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
    step, objects = aggregate.between_groups(shown.n_ranks, moves, MOST_GROUPS)
    n, count = len(objects), objects.astype(np.float64)
    _bands(ax, count)
    label = (lambda i: f"{i * step}-{min((i + 1) * step, shown.n_ranks) - 1}") if step > 1 else str
    for side, sums in ((0, count.sum(axis=1)), (1, count.sum(axis=0))):
        at = _ends(sums)
        for i in np.flatnonzero(sums):
            colour = ORANGE if side else VERMILLION
            ax.add_patch(_box(side, at[i], sums[i], colour))
            ax.text(
                1.035 if side else -0.035,
                at[i] + sums[i] / 2,
                label(int(i)),
                ha="left" if side else "right",
                va="center",
                fontsize=9 if n <= 12 else 6,
            )
    high = float(max(_ends(count.sum(axis=a))[-1] + count.sum(axis=a)[-1] for a in (0, 1)))
    # The y axis points down, so that the first rank is at the top.
    ax.set(xlim=(-0.2, 1.2), ylim=(high * 1.02 or 1.0, -0.1 * high or 0.0))
    ax.text(-0.035, -0.05 * high, "from rank", ha="right")
    ax.text(1.035, -0.05 * high, "to rank", ha="left")
    when = "in the whole run" if iteration is None else f"after iteration {iteration}"
    ax.set_title(f"{count.sum():,.0f} migrations {when}", fontsize="medium")
    ax.axis("off")
    return ax


def _ends(sums: Any) -> Any:
    """Return the height in the picture at which each group of ranks begins."""
    gap = GAP * sums.sum() / max(len(sums), 1)
    return np.concatenate([[0.0], np.cumsum(sums + gap * (sums > 0))[:-1]])


def _box(side: int, y: float, height: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((1.0 if side else -0.02, y), 0.02, height, color=colour, linewidth=0)


def _bands(ax: Any, count: F64) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, right = _ends(count.sum(axis=1)).copy(), _ends(count.sum(axis=0)).copy()
    c, m = Path.CURVE4, Path.LINETO
    codes = [Path.MOVETO, c, c, c, m, c, c, c, Path.CLOSEPOLY]
    for i, j in zip(*np.nonzero(count), strict=True):
        a, b, w = left[i], right[j], count[i, j]
        left[i] += w
        right[j] += w
        points = [(0, a), (0.5, a), (0.5, b), (1, b), (1, b + w), (0.5, b + w), (0.5, a + w)]
        points += [(0, a + w), (0, a)]
        ax.add_patch(PathPatch(Path(points, codes), facecolor=BLUE, alpha=0.4, linewidth=0))


def communication(
    snapshot: Snapshot, rank: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the bytes that each rank sends to each other rank in an iteration, as a matrix.

    ``communication(snap)`` shows the messages before an LB step, ``communication(snap, plan.rank)``
    after it, where ``plan = pylb.place(snap)``.  The diagonal is communication within a rank.  More
    than 256 ranks are added up in groups.

    Parameters
    ----------
    snapshot : Snapshot
        It must have edges.
    rank : (n,) array of int, optional
        Another placement than the snapshot's own.

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
    from matplotlib.colors import LogNorm, Normalize

    low = float(sent[sent > 0].min(initial=np.inf))
    scale = LogNorm(low, max(float(sent.max()), 2 * low)) if np.isfinite(low) else Normalize(0, 1)
    edge = n * step - 0.5
    cells = np.ma.masked_equal(sent, 0.0)
    heat(ax, cells, scale, (-0.5, edge, edge, -0.5), "bytes in an iteration")
    part = leaves / total if total > 0 else 0.0
    ax.set_title(f"{100 * part:.3g} % of {total:.3g} bytes leave their rank", fontsize="medium")
    more = f" (groups of {step})" if step > 1 else ""
    return finish(ax, f"to rank{more}", f"from rank{more}", whole="xy")
