"""RunRecord: the class by which users read, inspect and replay run records."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from pylb.console import InNotebook, count
from pylb.io import records
from pylb.io.run_record import FIGURES, OF_RANKS, RunData
from pylb.replaying.trace import Trace
from pylb.replaying.trace_conversion import stretches_of, trace_fields


class RunRecord(RunData, InNotebook):
    """The record of a run, written by ``lb.save("run.h5")``.

    Examples
    --------
    >>> run = pylb.RunRecord.load("run.h5")
    >>> run.n_ranks, run.n_iterations, len(run.history.lb_steps) > 0
    (8, 200, True)
    """

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RunRecord:
        """Read a run record; if it is truncated, up to its last complete iteration.

        In a record of the C library (JSON), each rank counts as one object.
        """
        return cls(**vars(records.read(path)))

    @classmethod
    def of(cls, trace: Trace) -> RunRecord:
        """Make a record of a trace.

        The record has no receipts, and an iteration takes as long as its slowest rank.
        """
        m = trace.replay("none").metrics
        lowest = np.divide(m["min"], m["max"], out=np.ones_like(m["max"]), where=m["max"] > 0)
        none = np.zeros(len(lowest))
        # How long a rank waited at the end of an iteration is recorded in the next one.
        idle = np.append(0.0, m["idle_mean"])[: len(lowest)]
        columns = m["max"], m["max"], m["mean"], idle, lowest, m["min"], none, none
        figures: dict[str, Any] = dict(zip(FIGURES, columns, strict=True))
        given = {name: getattr(trace, name) for name in OF_RANKS}
        ranks = {name: row.tolist() for name, row in given.items() if row is not None}
        figures["parameters"] = {"ranks": ranks} if ranks else {}
        return cls(n_ranks=trace.n_ranks, stretches=list(stretches_of(trace)), **figures)

    @functools.cached_property
    def trace(self) -> Trace:
        """The run as a trace, e.g. for `replay` and `optimum`."""
        return Trace(**trace_fields(self))

    def _bars(self) -> dict[str, Any]:
        ratio = np.divide(self.max, self.mean, out=np.ones_like(self.max), where=self.mean > 0)
        return {"max/mean of each iteration": ratio}

    def __repr__(self) -> str:
        return (
            f"<RunRecord: {count(self.n_iterations, 'iteration')} on "
            f"{count(self.n_ranks, 'rank')}, {len(self.history.lb_steps)} LB steps>"
        )
