"""Draw when a run was rebalanced, why, and what the best schedule would have been."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pylb.console import seconds
from pylb.decide.receipts import History, Receipt
from pylb.errors import DomainError
from pylb.replay.optima import Optimum
from pylb.replay.replayed import Replay, replay
from pylb.show import course
from pylb.show.plots.common import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILLION,
    Axes,
    axes,
    finish,
    legend,
    mark,
)
from pylb.show.plots.ranks import imbalance

MOST_WORDS = 12  # largest number of LB steps with a label
MOST_TRIED = 60  # only so many LB steps, those that saved or lost the most, can get a label


def fits(run: Any, *, ax: Axes | None = None) -> Axes:
    """Draw maximum and mean load, and the lines and the period τ that the trigger computed.

    Two lines up to each LB step show what the trigger fitted to the maximum and the mean over the
    ranks since the previous LB step.  A bar at the bottom shows the ideal period τ (Menon 2012, eq.
    3.5).

    Parameters
    ----------
    run : RunRecord, Replay, Trace or path
        A run with a trigger that fits lines, e.g. "metabalancer" or "menon".

    Examples
    --------
    >>> axes = pylb.plots.fits(trace.replay("GreedyLB", trigger="metabalancer", cost=0.1))
    """
    shown = course.of(run)
    ax = imbalance(shown.max, shown.mean, shown.balanced_after, ax=ax)
    first = 0
    thick: Any = {"linewidth": 4, "alpha": 0.35, "solid_capstyle": "butt"}
    # Only the first line of each kind has a label, so that the legend has it once.
    labels = {"max": "fit of the max", "mean": "fit of the mean", "tau": "τ"}
    for r in (r for r in shown.history if r.balanced):
        x = np.array([first, r.iteration])
        for name, colour in (("max", VERMILLION), ("mean", BLUE)):
            slope, offset = (
                r.figures.get(f"{name}_{what}", math.nan) for what in ("slope", "offset")
            )
            if math.isfinite(slope) and math.isfinite(offset):
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
    """Draw the time of each iteration in a replay and with the best schedule found.

    Parameters
    ----------
    run : Replay
    best : Optimum
        The optimum of the same trace and strategy: ``trace.optimum(...)``.

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
    label = f"{run.trigger or 'recorded'}, {run.time:.4g} s"
    ax.step(x, run.iteration_time, where="mid", color=VERMILLION, label=label)
    label = f"best schedule{'' if best.exact else ' found'}, {best.time:.4g} s"
    ax.step(x, ideal.iteration_time, where="mid", color=BLUE, linestyle="--", label=label)
    below: Any = {"color": BLUE, "markersize": 4, "transform": ax.get_xaxis_transform()}
    ax.plot(np.array(sorted(at)) + 0.5, np.full(len(at), 0.025), "^", **below)
    mark(ax, run.balanced_after, VERMILLION)
    ax.set_ylim(bottom=0.0)
    regret = 100 * run.regret(best)
    longer = f"iteration   ({regret:.2g} % longer than the best schedule; ^: its LB steps)"
    return finish(ax, longer, "seconds")


def decisions(run: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the decisions of a run: their effect on max/mean, and what they saved.

    A line goes from max/mean before an LB step to max/mean of the new placement, both with the
    estimated loads.  An open circle shows the measured max/mean in the iterations after the LB
    step.  Decisions not to rebalance are marked at the bottom.  The LB steps that saved or lost
    most have a label with their number of migrations, and the seconds saved minus the cost; labels
    that would overlap others are left out.

    Parameters
    ----------
    run : RunRecord, Replay, Trace, History or path

    Examples
    --------
    >>> axes = pylb.plots.decisions(trace.replay("GreedyLB", every=50, cost=0.1))
    """
    history = run if isinstance(run, History) else course.of(run).history
    ax = axes(ax)
    done = [r for r in history if r.balanced]
    held = [r for r in history if not r.balanced]
    x, before = [r.iteration for r in done], [_before(r) for r in done]
    placed, since = [r.predicted for r in done], [r.realised for r in done]
    ax.vlines(x, placed, before, color=GREY, linewidth=1)
    ax.plot(x, before, "o", color=VERMILLION, markersize=4, label="before")
    ax.plot(x, placed, "_", color=BLUE, markersize=9, label="as placed")
    ax.plot(x, since, "o", markerfacecolor="none", color=BLUE, markersize=5, label="measured since")
    below: Any = {"color": ORANGE, "linewidth": 3, "transform": ax.get_xaxis_transform()}
    for r in held:
        label = "held back" if r is held[0] else None
        ax.plot([r.iteration, max(r.until, r.iteration + 0.5)], [0.02, 0.02], label=label, **below)
    high = max([y for y in (*before, *placed, *since) if y == y], default=1.0)
    ax.set_ylim(0.97, max(1.1, high + 0.25 * (high - 0.9)))
    ax.margins(x=0.08)
    finish(ax, "iteration", "max/mean (open circles: measured,\nother marks: of estimated loads)")
    tops = np.fmax(before, since).tolist()  # fmax ignores nan, a value that is not known
    _label(ax, [(r, y) for r, y in zip(done, tops, strict=True) if y == y])
    return ax


def _label(ax: Any, points: list[tuple[Receipt, float]]) -> None:
    above: Any = {"xytext": (0, 5), "textcoords": "offset points", "fontsize": 7, "ha": "center"}
    points = sorted(points, key=lambda p: -abs(p[0].net) if p[0].net == p[0].net else 0.0)
    ax.figure.draw_without_rendering()  # computes the size of the axes with their labels
    taken: list[Any] = []
    for r, y in points[:MOST_TRIED]:
        said = ax.annotate(_words(r), (r.iteration, y), **above)
        box = said.get_window_extent().padded(2.0)
        if len(taken) < MOST_WORDS and not any(box.overlaps(other) for other in taken):
            taken.append(box)
        else:
            said.remove()


def _before(r: Receipt) -> float:
    return r.before if not math.isnan(r.before) else r.max_over_mean


def _words(r: Receipt) -> str:
    net = "" if math.isnan(r.gain) else f"\n{'+' if r.net > 0 else ''}{seconds(r.net)}"
    return f"{r.migrations} moved{net}"
