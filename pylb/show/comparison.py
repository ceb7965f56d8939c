"""Compare two runs: where their time went, and what each LB step did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pylb.console import text
from pylb.decide.figures import RECEIPT, RUN
from pylb.decide.receipts import Receipt
from pylb.show.course import Course


class Comparison(NamedTuple):
    """Two runs side by side.

    Examples
    --------
    >>> from pylb.show import course
    >>> from pylb.show.comparison import Comparison
    >>> both = Comparison(course.of("run.h5"), course.of("run.h5"))
    >>> both.speedup
    1.0
    """

    first: Course
    second: Course

    @property
    def figures(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The figures of each run."""
        return self.first.figures(), self.second.figures()

    @property
    def speedup(self) -> float:
        """Seconds of the first run divided by seconds of the second."""
        return self.first.seconds / self.second.seconds if self.second.seconds > 0 else 1.0

    def steps(self) -> Iterator[tuple[int, Receipt | None, Receipt | None]]:
        """Yield each iteration after which a run had an LB step, and the LB step of each run."""
        first = {r.iteration: r for r in self.first.lb_steps}
        second = {r.iteration: r for r in self.second.lb_steps}
        for iteration in sorted(first.keys() | second.keys()):
            yield iteration, first.get(iteration), second.get(iteration)

    def rows(self) -> list[list[Any]]:
        """Return heading, value of each run and difference of each figure, as text."""
        out, runs = list[list[Any]](), self.figures
        for f in RUN:
            x, y = (figures.get(f.name) for figures in runs)
            if f.printed and (x, y) != (None, None):
                more = None
                if f.kind != "text" and x is not None and y is not None:
                    sign = "+" if y > x else "-" if y < x else ""
                    more = sign + text(f.cell(abs(y - x)))
                out.append([f.heading, f.cell(x), f.cell(y), more])
        return out

    def doubts(self) -> list[str]:
        """Return reasons why the runs may not be comparable."""
        names = {"n_ranks": "ranks", "n_objects": "objects", "iterations": "iterations"}
        pairs = [(what, *(run[key] for run in self.figures)) for key, what in names.items()]
        return [f"{a} {what} and {b}" for what, a, b in pairs if a != b]

    def to_dict(self) -> dict[str, Any]:
        """Return all results of the comparison, ready for JSON."""

        def told(r: Receipt | None) -> dict[str, Any] | None:
            return None if r is None else {f.name: f.of(r) for f in RECEIPT}

        return {
            "speedup": self.speedup,
            "verdicts": (self.first.verdict, self.second.verdict),
            "runs": self.figures,
            "steps": [
                {"iteration": iteration, "first": told(first), "second": told(second)}
                for iteration, first, second in self.steps()
            ],
        }
