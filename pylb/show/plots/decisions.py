"""When was balanced, why, and what the best schedule would have been."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pylb.decide.receipts import History, Receipt
from pylb.decide.sentences import seconds
from pylb.errors import DomainError
from pylb.replay.replayed import replay
from pylb.show import course
from pylb.show.plots.common import (
    BLUE,
    GREEN,
    GREY,
    MOST_LINES,
    ORANGE,
    VERMILLION,
    axes,
    finish,
    legend,
    mark,
)
from pylb.show.plots.ranks import imbalance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pylb.replay.optima import Optimum
    from pylb.replay.replayed import Replay

MOST_WORDS = 12  # decisions with a word beside them


def fits(run: Any, *, ax: Axes | None = None) -> Axes:
    """Maximum and mean over the ranks with the lines that the trigger fitted, and its period τ.

    Each balancing's lines reach from the balancing before it to its own; a bar below shows how long
    the ideal period was that the trigger computed from them (Menon 2012, eq. 3.5).

    Parameters
    ----------
    run : RunRecord, Replay, Trace or path
        Of a trigger that fits lines: "metabalancer", "menon", ...
    ax : Axes, optional
        Default: of a new figure.

    Raises
    ------
    MissingPartError
        matplotlib is missing.
    DomainError
        No run, or one without iterations.
    """
    shown = course.of(run)
    ax = imbalance(shown.max, shown.mean, shown.balanced_after, ax=ax)
    first = 0
    named = set()
    for r in (r for r in shown.history if r.balanced):
        f = r.figures
        x = np.array([first, r.iteration])
        for name, colour in (("max", VERMILLION), ("mean", BLUE)):
            slope, offset = (f.get(f"{name}_{what}", math.nan) for what in ("slope", "offset"))
            if math.isfinite(slope) and math.isfinite(offset):
                label = None if name in named else f"fit of the {name}"
                named.add(name)
                ax.plot(
                    x,
                    offset + slope * (x - first + 1),  # the offset is that of the balancing
                    color=colour,
                    linewidth=4,
                    alpha=0.35,
                    label=label,
                    solid_capstyle="butt",
                )
        if math.isfinite(r.tau):
            label = None if "tau" in named else "τ"
            named.add("tau")
            y = 0.03 * ax.get_ylim()[1]
            ax.plot([first, first + r.tau], [y, y], color=GREEN, linewidth=3, label=label)
        first = r.iteration + 1
    ax.set_xlim(-0.5, shown.n_iterations - 0.5)
    legend(ax)
    return ax


def optimum(run: Replay, best: Optimum, *, ax: Axes | None = None) -> Axes:
    """The time of each iteration, and what it would be under the best schedule found.

    Parameters
    ----------
    run : Replay
    best : Optimum
        Of the same trace and strategy: ``trace.optimum(...)``.
    ax : Axes, optional
        Default: of a new figure.

    Raises
    ------
    MissingPartError
        matplotlib is missing.
    DomainError
        A schedule of another run: with an iteration that this one has not.
    """
    ax = axes(ax)
    at = set(best.iterations.tolist())
    if at and max(at) >= len(run.trace):
        raise DomainError(f"best balances after iteration {max(at)}: the run has {len(run.trace)}")
    ideal = replay(
        run.trace,
        run.strategy,
        trigger=lambda cycle: cycle.iteration in at,
        cost=best.cost,
        alpha=run.network.alpha,
        beta=run.network.beta,
        seed=run.seed,
    )
    regret = run.regret(best)
    x = np.arange(len(run.trace))
    label = f"{run.trigger or 'recorded'}, {run.time:.4g} s"
    ax.step(x, run.iteration_time, where="mid", color=VERMILLION, label=label)
    label = f"best schedule{'' if best.exact else ' found'}, {best.time:.4g} s"
    ax.step(x, ideal.iteration_time, where="mid", color=BLUE, linestyle="--", label=label)
    ax.plot(
        np.array(sorted(at)) + 0.5,
        np.full(len(at), 0.025),
        "^",
        color=BLUE,
        markersize=4,
        transform=ax.get_xaxis_transform(),
    )
    mark(ax, run.balanced_after if len(run.balanced_after) > MOST_LINES else [], GREY)
    if 0 < len(run.balanced_after) <= MOST_LINES:
        mark(ax, run.balanced_after, VERMILLION)
    ax.set_ylim(bottom=0.0)
    longer = f"iteration   ({100 * regret:.2g} % longer than the best; its balancings below)"
    return finish(ax, longer, "seconds")


def decisions(run: Any, *, ax: Axes | None = None) -> Axes:
    """The decisions of a run on its iterations: what each brought in max/mean, cost and saved.

    An arrow leads from max/mean before the balancing to what was placed; the circle is what it was
    in the iterations since.  Decisions to hold are marked below.  Up to 12 balancings say in words
    what they moved, and saved beyond their cost.

    Parameters
    ----------
    run : RunRecord, Replay, Trace, History or path
    ax : Axes, optional
        Default: of a new figure.

    Raises
    ------
    MissingPartError
        matplotlib is missing.
    """
    history = run if isinstance(run, History) else course.of(run).history
    ax = axes(ax)
    done = [r for r in history if r.balanced]
    held = [r for r in history if not r.balanced]
    x = [r.iteration for r in done]
    before = [_before(r) for r in done]
    ax.vlines(x, [r.predicted for r in done], before, color=GREY, linewidth=1)
    ax.plot(x, before, "o", color=VERMILLION, markersize=4, label="before")
    ax.plot(x, [r.predicted for r in done], "_", color=BLUE, markersize=9, label="as placed")
    ax.plot(
        x,
        [r.realised for r in done],
        "o",
        markerfacecolor="none",
        color=BLUE,
        markersize=5,
        label="since",
    )
    for r in held:
        ax.plot(
            [r.iteration, max(r.until, r.iteration + 0.5)],
            [0.02, 0.02],
            color=ORANGE,
            linewidth=3,
            transform=ax.get_xaxis_transform(),
            label="held back" if r is held[0] else None,
        )
    for r, y in zip(done[:MOST_WORDS], before, strict=False):
        if len(done) <= MOST_WORDS:
            ax.annotate(
                _words(r),
                (r.iteration, y),
                xytext=(0, 5),
                textcoords="offset points",
                fontsize=7,
                ha="center",
            )
    high = max([y for y in before if y == y], default=1.0)
    ax.set_ylim(0.97, max(1.1, high + (0.25 if len(done) <= MOST_WORDS else 0.1) * (high - 0.9)))
    ax.margins(x=0.08)
    return finish(ax, "iteration", "max/mean")


def _before(r: Receipt) -> float:
    return r.before if not math.isnan(r.before) else r.max_over_mean


def _words(r: Receipt) -> str:
    net = "" if math.isnan(r.gain) else f"\n{'+' if r.net > 0 else ''}{seconds(r.net)}"
    return f"{r.migrations} moved{net}"
