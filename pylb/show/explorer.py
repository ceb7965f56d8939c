"""Widgets for a notebook: `pylb.explore(run)`, and `pylb.watch(path)` while a program runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pylb import files, optional
from pylb.errors import DomainError
from pylb.replaying.replayed import Replay
from pylb.replaying.trace import RunRecord, Trace
from pylb.show import course, live


def explore(
    run: Any,
    *,
    stem: str | None = None,
    coords: Mapping[int, Any] | None = None,
    **settings: Any,
) -> Any:
    """Explore a recorded run in a notebook: move through its iterations, and replay it.

    At first, the run is shown as recorded, beside the unbalanced run.  Sliders and lists change the
    strategy, trigger, number of ranks, network, cost of an LB step and speed of one rank; the run
    is replayed after each change.  A click on a decision shows its receipt and its migrations.

    Parameters
    ----------
    run, stem, coords
        As for `pylb.report`.
    **settings
        Initial settings: `strategy` (default: "none", as recorded; with a trigger or `every`:
        "auto"), `trigger` or `every`, `n_ranks`, `alpha`, `beta`, `cost` (default: the mean of the
        recorded LB steps) as in `pylb.replay`; `rank` and `speed` (a factor on its speed).

    Returns
    -------
    Explorer
        An anywidget, for JupyterLab, Notebook 7 and VS Code.  Its `replay` is the run that is
        shown; `recorded` has the same settings, but the recorded placement.

    Examples
    --------
    >>> explorer = pylb.explore("run.h5", strategy="RefineLB")  # in a notebook: a cell's last line
    >>> explorer.replay.strategy
    'RefineLB'
    """
    optional.require("anywidget")
    from pylb.show.widget import Explorer, ExplorerSettings

    if {"trigger", "every"} & settings.keys():
        settings.setdefault("strategy", "auto")
    if "every" in settings:
        settings.setdefault("trigger", "")
    if isinstance(run, (str, os.PathLike)):
        run = course.read(run, stem)
    if not isinstance(run, (Trace, RunRecord, Replay)):
        raise DomainError(
            f"run is {type(run).__name__}: expected a path, Trace, RunRecord or Replay"
        )
    trace: Any = run if isinstance(run, Trace) else run.trace
    if not len(trace):
        raise DomainError("run has no phases: expected one or more")
    if isinstance(run, RunRecord) and (done := run.history.lb_steps):
        settings.setdefault("cost", sum(r.cost for r in done) / len(done))
    return Explorer(trace, ExplorerSettings.of(settings), coords)


def watch(path: str | os.PathLike[str], *, interval: float = 1.0) -> Any:
    """Show a run in a notebook while its program writes the record, e.g. ``record="run.h5"``.

    The result is an anywidget with what the page of `pylb.report` has.  It looks at the file every
    `interval` seconds until the run has ended, or until its method ``stop()`` is called.  It comes
    at once, also if there is no file yet, and uses at most 0.5 % of a core.

    Examples
    --------
    >>> following = pylb.watch("run.h5")  # in a notebook: the last line of a cell
    >>> following.stop()
    >>> following.ended
    True
    """
    optional.require("anywidget")
    from pylb.show.widget import Watch

    live.check_interval("interval", interval)
    return Watch(files.named(path), float(interval))
