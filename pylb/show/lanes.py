"""When ranks compute and wait, on one axis of seconds: without LB steps and with them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pylb.console import digits, packed
from pylb.model.snapshot import F64
from pylb.show import aggregate
from pylb.show.course import Course

MOST_LANES = 64  # if there are more ranks, the lanes are these quantiles of the ranks' times
QUANTILES = {"fastest": 0.0, "10 %": 0.1, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "90 %": 0.9}
QUANTILES |= {"slowest": 1.0}


class Lanes(NamedTuple):
    """A run as bars: c columns, each an iteration or a group of them, and a lane for each rank."""

    name: str
    seconds: float  # of the whole run
    iteration: F64  # (c,) seconds of the iterations
    deciding: F64  # (c,) seconds of the LB step after each iteration, without `moving`
    moving: F64  # (c,) seconds in which the LB step moves objects
    hidden: F64  # (c,) seconds of the iterations in which objects move while ranks compute
    computing: F64  # (lanes, c) seconds for which a rank computes in the iteration

    def to_dict(self) -> dict[str, Any]:
        """Return the data for a page; a byte of ``computing`` is 255 for a whole iteration."""
        part = self.computing / np.where(self.iteration > 0, self.iteration, np.inf)
        cells = packed(np.rint(255 * np.minimum(part, 1.0)), "u1")
        names = ("iteration", "deciding", "moving", "hidden")
        lines = {name: digits(getattr(self, name)) for name in names}
        return {"name": self.name, "seconds": self.seconds, **lines, "computing": cells}


def of(course: Course, first: int, end: int, columns: int) -> tuple[int, list[str], list[Lanes]]:
    """Return how many of the iterations `first` to `end` - 1 form a column, lanes' names, and runs.

    The run without LB steps comes first, if the run had LB steps and its times are known.
    """
    part, width = slice(first, end), aggregate.step(end - first, columns)
    names = list(map(str, range(course.n_ranks)) if course.n_ranks <= MOST_LANES else QUANTILES)

    def grouped(values: F64) -> F64:
        return np.asarray(np.add.reduceat(values, np.arange(0, end - first, width), axis=-1))

    def lanes(name: str, whole: float, times: F64, *lines: F64) -> Lanes:
        rows = times[part].T
        if course.n_ranks > MOST_LANES:
            rows = np.quantile(rows, list(QUANTILES.values()), axis=0)
        iteration, deciding, moving, hidden = (grouped(x[part]) for x in lines)
        return Lanes(name, whole, iteration, deciding, moving, hidden, grouped(rows))

    none, moving, replayed = np.zeros(course.n_iterations), course.moving, course.iteration_time
    steps, gained, times = course.step_seconds - moving, course.gained, course.times_without
    done, whole = bool(course.lb_steps), float(replayed.sum() + course.step_seconds.sum())
    name = "with LB steps" if done else "as it was"
    out = [lanes(name, whole, course.times, replayed, steps, moving, course.hidden)]
    if done and gained is not None and times is not None:
        before, name = replayed + gained, "without LB steps"
        out.insert(0, lanes(name, float(before.sum()), times, before, none, none, none))
    return width, names, out
