"""The explorer: `pylb.explore(run)` in a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pylb import optional
from pylb.errors import DomainError
from pylb.replaying.replayed import Replay
from pylb.replaying.run_record import RunRecord
from pylb.replaying.trace import Trace
from pylb.show import course
from pylb.show.settings import ExplorerSettings


def explore(
    run: Any,
    *,
    stem: str | None = None,
    coords: Mapping[int, Any] | None = None,
    **settings: Any,
) -> Any:
    """Explore a recorded run in a notebook: move through its iterations, and replay it.

    Sliders and lists change the strategy, the trigger, the number of ranks, the network, the cost
    of an LB step and the speed of one rank.  The C core replays the run after each change.  A click
    on a decision shows its receipt and its migrations.

    Parameters
    ----------
    run : Trace, RunRecord, Replay or path
    stem : str, optional
        Selects one of several runs in a folder, see `Trace.load`.
    coords : mapping from int to 1 ... 3 floats, optional
        Coordinates of the objects by key, for the view of the objects.  Default: objects that
        communicate are drawn close to each other.
    **settings
        Initial settings: `strategy`, `trigger` or `every`, `n_ranks`, `alpha`, `beta` (seconds
        per message and per byte), `cost` (seconds of an LB step; default: the mean of the recorded
        LB steps, else as in `pylb.replay`), `rank` and `speed` (the factor on the speed of `rank`).

    Returns
    -------
    Explorer
        An anywidget, for JupyterLab, Notebook 7 and VS Code.  Its attribute ``replay`` is the run
        that is shown.

    Examples
    --------
    >>> explorer = pylb.explore("run.h5", strategy="RefineLB")  # in a notebook: a cell's last line
    >>> explorer.replay.strategy
    'RefineLB'
    """
    optional.require("anywidget")
    from pylb.show.widget import Explorer

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
