"""The metrics of a run's iterations, and the report on a run."""

from __future__ import annotations

import io
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from pylb import console, files, optional
from pylb.console import count
from pylb.decide.figures import RECEIPT, RUN
from pylb.decide.receipts import History
from pylb.decide.sentences import lb_steps, verdict
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.metrics import Reductions
from pylb.model.snapshot import F64, I64
from pylb.run.records import IterationLog

SUFFIXES = (".html", ".json", ".txt")
WIDTH = 80  # characters per line of the printed report
LARGEST = 10  # number of LB steps in the printed report
COMPARED = (
    "The first line counts computing, waiting for the slowest rank and for cores that ranks share, "
    "and LB steps, but no messages. The time without LB steps is computed from the same loads."
)
NOTES = (
    "before: max/mean just before the LB step; realised: max/mean from then to the next LB step; "
    "gain: "
)
PRINTED = ("iteration", "strategy", "before", "realised", "migrations", "cost", "gain")


class IterationMetrics(NamedTuple):
    """Metrics of every iteration so far, the same on every rank.

    A run of 131,072 iterations or more is thinned: a value is the mean of 2, 4, 8, ... iterations
    (for `utilization`: the lowest value).

    Examples
    --------
    >>> lb = pylb.Balancer(comm, load=lambda key, value: 2.0)
    >>> lb.add(0, "an object")
    >>> for it in lb.iterate(3):
    ...     pass
    >>> lb.metrics.mean
    array([2., 2., 2.])
    """

    time: F64  #: (n,) seconds of the iteration on the slowest rank.
    #: (n,) load of the most loaded rank, and mean load of the ranks, in seconds.
    max: F64
    mean: F64
    max_over_mean: F64  #: (n,) max / mean; 1 means perfect balance, or no load.
    #: (n,) idle seconds, mean over the ranks.  `Balancer`: the wait at the end of the previous
    #: iteration, and in `exchange`; with a lag, the time between two calls of `at_sync` in which no
    #: object was timed.  `Advisor`: the time of the step minus the rank's load.
    idle: F64
    #: (n,) the lowest load / (load + idle) of a rank (Menon 2012, 3.4.3; its eq. 3.2 prints the
    #: fraction of idle time under this name).
    utilization: F64
    min: F64  #: (n,) load of the least loaded rank in seconds.
    #: (n,) index of the iteration; of the first one if a value is the mean of several.
    first: I64
    span: I64  #: (n,) number of iterations: 1, unless the run is thinned.

    def __repr__(self) -> str:
        n = count(int(self.span.sum()), "iteration")
        return f"<IterationMetrics of {n}: {', '.join(self._fields)}>"

    @property
    def idle_mean(self) -> F64:
        """Mean seconds that a rank waits for the most loaded one: max - mean (Dasgupta eq. 1)."""
        return self.max - self.mean

    @property
    def idle_max(self) -> F64:
        """Longest time that a rank waits for the most loaded one: max - min (Dasgupta eq. 2)."""
        return self.max - self.min

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each iteration; MissingPartError without pandas."""
        pandas = optional.require("pandas")
        return pandas.DataFrame(self._asdict()).set_index("first")

    @classmethod
    def of(cls, log: IterationLog) -> IterationMetrics:
        """Return the columns of a log of iterations."""
        columns = map(np.ascontiguousarray, log.table().T[:6])
        time, most, mean, idle, utilization, least = columns
        first = log.first()
        ratio = np.divide(most, mean, out=np.ones_like(most), where=mean > 0)
        span = np.diff(first, append=len(log))
        return cls(time, most, mean, ratio, idle, utilization, least, first, span)


@dataclass(frozen=True, repr=False)
class Report:
    """The report on a run: ``print(report)`` shows it, ``report.to_dict()`` is ready for JSON.

    Examples
    --------
    >>> report = pylb.demo.run(n_ranks=4, n_objects=16, iterations=10, strategy="GreedyLB", every=5)
    >>> report.n_ranks, report.migrations, report.to_dict()["iterations"]
    (4, 12, 10)
    """

    n_ranks: int
    n_objects: int
    iterations: int
    strategy: str
    trigger: str
    seconds: float  #: Time in the loops on this rank.
    iteration_seconds: float  #: Sum of the times of the iterations.
    #: Sum of the largest loads of all iterations, divided by the sum of the mean loads.
    mean_max_over_mean: float
    #: Seconds that a rank waits for the most loaded one, summed over all iterations: the mean over
    #: the ranks, and the longest wait in each iteration (Dasgupta 2013, eq. 1 and 2).
    idle_mean: float
    idle_max: float
    #: Seconds of the LB steps, without the extra time of the first iterations after them, which is
    #: part of `iteration_seconds`.
    lb_seconds: float
    migrations: int
    nbytes: int
    history: History  #: A receipt for each decision.
    waited: float = 0.0  #: Seconds that this rank waited for a core because other processes had it.
    #: Fraction of the core time of this rank's host that other virtual machines used.
    stolen: float = 0.0
    cores: str = ""  #: E.g. "4 ranks share 2 cores"; empty if there is a core for each rank.
    #: Seconds that LB steps have saved: the time of the same loads without LB steps, minus the
    #: measured time.  In shadow mode, what LB steps would have saved.  nan: not known.
    saved: float = 0.0
    #: Number of cores that other programs used, if this disturbed the run.  If it is above 0,
    #: `saved` is only an estimate.
    others: float = 0.0
    shadow: bool = False
    n_lb_steps: int = 0  #: Number of LB steps.
    #: Sum of the costs of the LB steps: `lb_seconds` and the extra time.
    lb_cost: float = 0.0
    #: "on", "shadow" or "off"; "off (PYLB_MODE)" if this environment variable says so.
    mode: str = "on"
    #: Number of iterations in each value of `Balancer.metrics`: 1, except in a very long run.
    span: int = 1
    #: Sum over the iterations of the time or the largest load, whichever is more, as in a replay.
    replayed_seconds: float = 0.0
    computing: float = 0.0  #: Sum of the mean loads of the ranks over the iterations.
    #: For `share`: seconds that other ranks spent on rows of this rank (`lent`), the part of them
    #: in which this rank did not wait (`hidden`), and seconds that it spent on rows of other ranks.
    lent: float = 0.0
    hidden: float = 0.0
    borrowed: float = 0.0
    lending_saved: float = 0.0  #: Seconds that `share` has saved; in shadow mode, would have saved.
    title: str = "Run"  #: The heading of the printed report.
    #: max/mean of each phase over all iterations (`PhaseMetrics.max_over_mean`), by name.
    phases: dict[str, float] = field(default_factory=dict)

    def reductions(self, other: Report) -> Reductions:
        """Return by how many percent idle times are below those of `other` (Dasgupta eq. 5)."""
        checks.instance("other", other, Report)
        return Reductions.of(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name; unknown values are None."""
        out = {**self.__dict__, "history": [r.to_dict() for r in self.history]}
        return {k: console.plain(v) for k, v in out.items()}

    @property
    def imbalance(self) -> float:
        """Seconds of waiting for the slowest rank, mean over the ranks: `idle_mean`."""
        return self.idle_mean

    @property
    def messages(self) -> float:
        """Seconds in the loops without computing, imbalance and LB steps: messages, other waits."""
        steps = 0.0 if self.shadow else self.lb_seconds
        return max(self.seconds - self.computing - self.imbalance - steps, 0.0)

    @property
    def verdict(self) -> str:
        """A sentence: whether LB steps helped and by how much, or why they did not."""
        mode = "shadow" if self.shadow else self.mode
        return verdict({**self.__dict__, "mode": mode}, self.history)

    def __repr__(self) -> str:
        return f"<Report: {self.verdict}>"

    def _repr_html_(self) -> str:
        said = f"{self.verdict}. {count(self.iterations, 'iteration')} of "
        said += f"{count(self.n_objects, 'object')} on {count(self.n_ranks, 'rank')}."
        using = self.replayed_seconds + (0.0 if self.shadow else self.lb_seconds)
        both = [using, using - self.saved] if self.shadow else [using + self.saved, using]
        known = not math.isnan(self.saved) and self.n_lb_steps
        return console.card(said, {"seconds without LB steps, and with": both} if known else {})

    def __str__(self) -> str:
        out = io.StringIO()
        out.write(console.fill(f"{self.title}: {self.verdict}.", WIDTH) + "\n\n")
        rows: list[list[Any]] = []
        omitted = {  # figures that are trivial, or in a sentence already
            "saved": True,
            "mode": self.mode == "on",
            "lb_cost": self.lb_cost <= self.lb_seconds,
        }
        for f in RUN:
            value = getattr(self, f.name, None)
            optional = f.when in ("if", "lending") or f.kind == "bytes"
            if value is None or omitted.get(f.name) or (optional and not value):
                continue
            would = "would be " if self.shadow and f.when in ("step", "lending") else ""
            rows.append([would + f.heading, *f.parts(value)])
            if f.name == "mean_max_over_mean":
                rows += [[f"... in phase {name}", x, ""] for name, x in self.phases.items()]
        console.show(["", "", ""], rows, file=out)
        if self.span > 1:
            kept = f"the run is long, so each value is the mean of {self.span} iterations"
            kept += " (of utilization: the lowest)"
            out.write(console.fill(f"Metrics of iterations: {kept}.", WIDTH) + "\n")
        if self.n_lb_steps and not math.isnan(self.saved):
            out.write(console.fill(COMPARED, WIDTH) + "\n")
        show_lb_steps(self.history, out)
        if self.history:
            n, done = len(self.history), len(self.history.lb_steps)
            said = (
                f"{count(n, 'decision')} ({count(done, 'LB step')}, {n - done} not to rebalance): "
            )
            said += "print(report.history) shows all."
            said += f" {self.history.dropped}" * bool(self.history.dropped.n)
            out.write(f"\n{console.fill(said, WIDTH)}\n")
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a ``.json`` or ``.txt`` file; `Balancer.report` writes a page."""
        suffix = check_suffix(path)
        if suffix == ".html":
            raise DomainError(
                f"path is {os.fspath(path)!r}: expected .json or .txt; Balancer.report writes .html"
            )
        text = json.dumps(self.to_dict(), indent=1) + "\n" if suffix == ".json" else str(self)
        files.write_text(path, text)


def show_lb_steps(history: History, file: TextIO) -> None:
    """Print when LB steps took place, and those that cost or gained the most, as a table."""
    steps = history.lb_steps
    if not steps:
        return
    file.write("\n" + console.fill(lb_steps(steps), WIDTH) + "\n")
    most = sorted(steps, key=lambda r: -max(r.cost, abs(r.gain) if r.gain == r.gain else 0.0))
    shown = sorted(most[:LARGEST], key=lambda r: r.iteration)
    figures = [f for f in RECEIPT if f.name in PRINTED]
    rows = [[f.cell(f.of(r)) for f in figures] for r in shown]
    title = None
    if len(shown) < len(steps):
        title = f"Of these, the {len(shown)} with the largest cost or gain:"
    console.show([f.heading for f in figures], rows, title=title, file=file)
    (gain,) = (f.note for f in figures if f.name == "gain")
    file.write(
        console.fill(f"{NOTES}{gain}, so gains do not add up to what was saved.", WIDTH) + "\n"
    )


def check_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of `path`.  Raises DomainError if it is not one of `SUFFIXES`."""
    suffix = Path(files.named(path)).suffix
    if suffix not in SUFFIXES:
        expected = f"one of the suffixes {', '.join(SUFFIXES)}"
        raise DomainError(f"path is {os.fspath(path)!r}: expected {expected}")
    return suffix
