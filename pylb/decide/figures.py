"""The figures of runs and of decisions: all outputs show what these two tables list.

Printed reports and histories, pages, the explorer, `pylb compare`, `pylb watch`, JSON and CSV read
the tables.  A new figure is an entry here, and its value: a field or property of `Receipt`, or an
entry of `Course.figures`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pylb.console import percent, seconds, size


class Figure(NamedTuple):
    """A figure: its name in Python, JSON and CSV, and how people read it."""

    name: str
    heading: str
    kind: str = "number"  #: "number", "seconds", "bytes", "fraction" or "text"
    #: Of a decision: "step", only LB steps have it; "held", only other decisions have it.  Of a
    #: run: "step", hypothetical in shadow mode; "if", omitted if 0 or empty; "lending", both.
    when: str = ""
    printed: bool = True  #: whether tables that people read have room for it

    @property
    def note(self) -> str:
        """The footnote of the heading."""
        return NOTES.get(self.name, "")

    def of(self, receipt: Any) -> Any:
        """Return the value of this figure for a decision; None: unknown, or there is none."""
        if self.when and (self.when == "step") != receipt.balanced:
            return None
        value = getattr(receipt, self.name)
        unknown = isinstance(value, float) and math.isnan(value)
        return None if unknown or (self.kind == "bytes" and not value) else value

    def cell(self, value: Any) -> Any:
        """Return the cell of a table that shows `value`: text with a unit, or a number."""
        return TEXT[self.kind](value) if self.kind in TEXT and value is not None else value

    def parts(self, value: Any) -> tuple[Any, str]:
        """Return a number and its unit."""
        if self.kind == "bytes":
            number, _, unit = size(value).partition(" ")
            return number, unit
        return {"seconds": (value, "s"), "fraction": (100 * value, "%")}.get(self.kind, (value, ""))


TEXT = {"seconds": seconds, "bytes": size, "fraction": percent}

NOTES = {
    "until": "last iteration with the same decision; other decisions may lie between",
    "max_over_mean": "of the loads in that iteration",
    "before": "max/mean of the estimated loads on the old placement",
    "predicted": "max/mean of the estimated loads on the new placement",
    "realised": "max/mean of the iterations up to the next LB step",
    "cost": "time that the LB step took, plus the extra time of the first iterations after it",
    "step_seconds": "time for which the LB step stopped the program",
    "seconds_hidden": "longest time for which a rank computed while data of the LB step moved",
    "gain": "time saved up to the next LB step, against the placement just before it",
}

RECEIPT = (
    Figure("iteration", "iteration"),
    Figure("until", "last", when="held"),
    Figure("choice", "choice", "text"),
    Figure("strategy", "strategy", "text"),
    Figure("max_over_mean", "max/mean"),
    Figure("before", "before", when="step", printed=False),
    Figure("predicted", "predicted", when="step"),
    Figure("realised", "realised", when="step"),
    Figure("migrations", "migrations", when="step"),
    Figure("nbytes", "bytes", "bytes", when="step"),
    Figure("cost", "cost", "seconds", when="step"),
    Figure("step_seconds", "pause", "seconds", when="step", printed=False),
    Figure("seconds_hidden", "hidden", "seconds", when="step", printed=False),
    Figure("gain", "gain", "seconds", when="step"),
    Figure("reason", "reason", "text"),
)

RUN = (
    Figure("n_ranks", "ranks"),
    Figure("cores", "cores", "text", when="if"),
    Figure("n_objects", "objects"),
    Figure("mode", "mode", "text", when="if"),
    Figure("strategy", "strategy", "text"),
    Figure("trigger", "trigger", "text"),
    Figure("iterations", "iterations"),
    Figure("seconds", "time in the loops", "seconds"),
    Figure("computing", "... computing, mean of the ranks", "seconds"),
    Figure("imbalance", "... waiting for the slowest rank", "seconds"),
    Figure("lb_seconds", "... time of LB steps", "seconds", when="step"),
    Figure("messages", "... messages, waits for cores, all else", "seconds"),
    Figure("lb_cost", "LB steps and slow iterations after them", "seconds", "if", False),
    Figure("mean_max_over_mean", "max/mean over all iterations"),
    Figure("waited", "waiting of this rank for a core", "seconds", when="if"),
    Figure("stolen", "stolen from its cores", "fraction", when="if"),
    Figure("n_lb_steps", "number of LB steps", when="step"),
    Figure("migrations", "migrations", when="step"),
    Figure("nbytes", "bytes", "bytes", when="step"),
    Figure("saved", "saved by LB steps", "seconds"),
    Figure("lending_saved", "saved by lending", "seconds", when="lending"),
    Figure("lent", "work of this rank that others did", "seconds", when="if"),
    Figure("hidden", "... while this rank did not wait", "seconds", when="if"),
    Figure("borrowed", "work of others that this rank did", "seconds", when="if"),
)
