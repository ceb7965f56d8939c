"""Run records for users: read, inspect, replay."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from pylb.console import count
from pylb.io import records
from pylb.io.run_record import FIGURES, RunData
from pylb.replay.recorded import stretches_of, trace_fields
from pylb.replay.trace import Trace


class RunRecord(RunData):
    """A run of a `Balancer`, as ``lb.save("run.h5")`` wrote it.

    Attributes
    ----------
    n_ranks : int
    parameters : dict
        Arguments of the balancer by name, and the version of pylb.
    stretches : list of Stretch
    time, max, mean, idle, utilization, min : (m,) float64
        Figures of each iteration, as in `Iterations`.
    messages, message_bytes : (m,) float64
        Messages and bytes between ranks in each iteration.
    history : History
        The receipts.
    loops : list of Loop
    remaining : dict of (n,) int64
        Keys of the remaining objects, by the number of iterations before; recorded if objects were
        added or removed after an iteration that ended the loop or was followed by an LB step.
    path : str

    Examples
    --------
    >>> run = pylb.RunRecord.read("run.h5")
    >>> run.n_ranks, run.n_iterations, len(run.history.balancings) > 0
    (8, 200, True)
    """

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> RunRecord:
        """Read a run record; if it was cut short, up to its last complete iteration.

        It may be one of the C library, in JSON: then its objects are the ranks.

        Raises
        ------
        MissingFileError
            There is no such file.
        FormatError
            The file is not a run record, or newer, or damaged.
        MissingPartError
            h5py is absent.
        """
        return cls(**vars(records.read(path)))

    @classmethod
    def of(cls, trace: Trace) -> RunRecord:
        """Make a record of a trace: no receipts, an iteration takes as long as its slowest rank.

        Raises
        ------
        DuplicateKeyError
            Two objects of the trace have the same key.
        """
        m = trace.replay("none").metrics
        lowest = np.divide(m["min"], m["max"], out=np.ones_like(m["max"]), where=m["max"] > 0)
        none = np.zeros(len(lowest))
        columns = m["max"], m["max"], m["mean"], m["idle_mean"], lowest, m["min"], none, none
        figures: dict[str, Any] = dict(zip(FIGURES, columns, strict=True))
        return cls(n_ranks=trace.n_ranks, stretches=list(stretches_of(trace)), **figures)

    @functools.cached_property
    def trace(self) -> Trace:
        """The run as a trace: for replay, triggers and optimum."""
        return Trace(**trace_fields(self))

    def __repr__(self) -> str:
        return (
            f"<RunRecord: {count(self.n_iterations, 'iteration')} on "
            f"{count(self.n_ranks, 'rank')}, {len(self.history.balancings)} LB steps>"
        )
