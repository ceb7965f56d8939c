"""Figures of the iterations of a run, and the report on it."""

from __future__ import annotations

import io
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import console, files
from pylb.decide.receipts import History
from pylb.errors import DomainError
from pylb.model.metrics import Reductions, reduction
from pylb.model.snapshot import F64

SUFFIXES = (".html", ".json", ".txt")


class Row(NamedTuple):
    """Figures of one iteration, as in `Iterations`."""

    time: float
    max: float
    mean: float
    idle: float
    utilization: float
    min: float
    messages: float = 0.0
    bytes: float = 0.0


class IterationLog:
    """A `Row` for each iteration so far."""

    def __init__(self) -> None:
        self._blocks: list[F64] = []
        self._rows: list[Row] = []  # rows that are not in a block yet
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def append(self, row: Row) -> None:
        """Add an iteration."""
        self._rows.append(row)
        self._n += 1

    def extend(self, rows: F64) -> None:
        """Add m iterations; (m, 8)."""
        if self._rows:
            self.table()
        self._blocks.append(rows)
        self._n += len(rows)

    @property
    def last(self) -> Row | None:
        """The last iteration; None: there is none."""
        if self._rows:
            return self._rows[-1]
        return Row(*self._blocks[-1][-1].tolist()) if self._blocks and self._n else None

    def table(self) -> F64:
        """(n, 8): all iterations."""
        if self._rows or len(self._blocks) != 1:
            last = np.array(self._rows, np.float64).reshape(-1, len(Row._fields))
            self._blocks, self._rows = [np.concatenate([*self._blocks, last])], []
        return self._blocks[0]


class Iterations(NamedTuple):
    """Figures of every iteration so far, the same on every rank.

    Attributes
    ----------
    time : (n,) float64
        Seconds that the pass took on the slowest rank.
    max, mean : (n,) float64
        Seconds: load of the most loaded rank, mean load of the ranks.
    max_over_mean : (n,) float64
        1: perfect balance, or no load.
    idle : (n,) float64
        Seconds, mean over the ranks: time spent waiting at the end of the previous pass; with a
        lag, time between two calls of `at_sync` in which no object was timed.
    utilization : (n,) float64
        The lowest load / (load + idle) of a rank, Menon 2012, eq. 3.2.
    min : (n,) float64
        Seconds: load of the least loaded rank.
    idle_mean, idle_max : (n,) float64
        Mean and longest time that a rank waits for the most loaded one, in seconds: max - mean,
        max - min (Dasgupta 2013, eq. 1 and 2, if all ranks meet at the end of the iteration).

    Examples
    --------
    >>> lb = pylb.Balancer(comm, load=lambda key, value: 2.0)
    >>> lb.add(0, "an object")
    >>> for it in lb.iterate(3):
    ...     for key, value in lb.local():
    ...         pass
    >>> lb.iterations.mean
    array([2., 2., 2.])
    """

    time: F64
    max: F64
    mean: F64
    max_over_mean: F64
    idle: F64
    utilization: F64
    min: F64

    @property
    def idle_mean(self) -> F64:
        """Seconds: max - mean."""
        return self.max - self.mean

    @property
    def idle_max(self) -> F64:
        """Seconds: max - min."""
        return self.max - self.min

    @classmethod
    def of(cls, rows: F64) -> Iterations:
        """Make one from the table of an `IterationLog`."""
        time, most, mean, idle, utilization, least = map(np.ascontiguousarray, rows.T[:6])
        ratio = np.divide(most, mean, out=np.ones_like(most), where=mean > 0)
        return cls(time, most, mean, ratio, idle, utilization, least)


@dataclass(frozen=True)
class Report:
    """The report on a run: ``print(report)`` shows it, ``report.to_dict()`` is ready for JSON.

    Attributes
    ----------
    n_ranks, n_objects, iterations : int
    strategy, trigger : str
    seconds : float
        Time in the loops, on this rank.
    iteration_seconds : float
        Sum of the iterations' times.
    mean_max_over_mean : float
        Sum of the maxima over the sum of the means of all iterations.
    idle_mean, idle_max : float
        Seconds that a rank waited for the most loaded one, over all iterations: the mean over the
        ranks, and the time of the least loaded rank (Dasgupta 2013, eq. 1 and 2).
    balancing_seconds : float
        Sum of the costs of the LB steps.
    migrations, bytes : int
    history : History
        A receipt for each decision.
    waited : float
        Seconds that this rank waited for a core because other processes had it.
    stolen : float
        Fraction of the time of this rank's cores that other virtual machines had.
    cores : str
        The ranks that share cores, in words; empty: each has its own.
    would_save : float
        In shadow mode, seconds that LB steps would have saved, minus their cost; else nan.

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
    seconds: float
    iteration_seconds: float
    mean_max_over_mean: float
    idle_mean: float
    idle_max: float
    balancing_seconds: float
    migrations: int
    bytes: int
    history: History
    waited: float = 0.0
    stolen: float = 0.0
    cores: str = ""
    would_save: float = math.nan

    def reductions(self, other: Report) -> Reductions:
        """Percent by which the idle times are below those of another run (Dasgupta eq. 5)."""
        return Reductions(
            reduction(self.idle_mean, other.idle_mean), reduction(self.idle_max, other.idle_max)
        )

    def to_dict(self) -> dict[str, Any]:
        """Every field by name; figures that are not known are None."""
        out = {**self.__dict__, "history": [r.to_dict() for r in self.history]}
        return {k: console.plain(v) for k, v in out.items()}

    def __str__(self) -> str:
        out = io.StringIO()
        would = "would be " if not math.isnan(self.would_save) else ""
        rows: list[list[Any]] = [
            ["ranks", self.n_ranks, ""],
            *([["cores", self.cores, ""]] if self.cores else []),
            ["objects", self.n_objects, ""],
            ["strategy", self.strategy, ""],
            ["trigger", self.trigger, ""],
            ["iterations", self.iterations, ""],
            ["time in the loops", self.seconds, "s"],
            ["time of the iterations", self.iteration_seconds, "s"],
            ["max/mean over all iterations", self.mean_max_over_mean, ""],
            ["mean wait for the most loaded rank", self.idle_mean, "s"],
            ["... of the least loaded rank", self.idle_max, "s"],
            ["wait of this rank for a core", self.waited, "s"],
            *([["stolen from its cores", 100 * self.stolen, "%"]] if self.stolen else []),
            [f"{would}LB steps", len(self.history.balancings), ""],
            [f"{would}time of the LB steps", self.balancing_seconds, "s"],
            [f"{would}migrations", self.migrations, ""],
            [f"{would}moved", *console.size(self.bytes).split()],
        ]
        if would:
            rows.append(["LB steps would have saved", self.would_save, "s"])
        console.show(["", "", ""], rows, title="Run", file=out)
        if self.history:
            out.write(f"\nDecisions\n{self.history}")
        return out.getvalue()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write ``.json`` or ``.txt``, by the suffix; for a page see `Balancer.report`."""
        suffix = check_suffix(path)
        if suffix == ".html":
            raise DomainError(
                f"path is {os.fspath(path)!r}: expected .json or .txt; Balancer.report writes .html"
            )
        text = json.dumps(self.to_dict(), indent=1) + "\n" if suffix == ".json" else str(self)
        files.write_text(path, text)


def check_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix of `path`, or DomainError with those that can be written."""
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise DomainError(
            f"path is {os.fspath(path)!r}: expected a suffix of {', '.join(SUFFIXES)}"
        )
    return suffix
