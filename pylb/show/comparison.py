"""Compare two runs: where their time went, and what each LB step did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pylb.decide.receipts import Receipt
from pylb.show.course import Course


class Spent(NamedTuple):
    """Where the time of a run went, in seconds; the first four add up to the fifth.

    Attributes
    ----------
    computing : float
        Mean load of the ranks, summed over all iterations.  On ranks of equal speed, no placement
        makes the run shorter than this.
    imbalance : float
        Load of the slowest rank minus the mean load, summed over all iterations.
    messages : float
        All other time of the whole run: messages, waits for a core, other code in the loops.
    balancing_seconds : float
        Time of the LB steps, without the extra time of the first iterations after an LB step.
    seconds : float
        Time of the whole run: of its loops, if that was measured; else of its iterations and LB
        steps.
    saved : float or None
        Seconds that LB steps have saved: the time of the same loads without them, minus the time
        as it was.  None: not known.

    Examples
    --------
    >>> from pylb.show import course
    >>> from pylb.show.comparison import Spent
    >>> spent = Spent.of(course.of("run.h5"))
    >>> spent.computing < spent.seconds
    True
    """

    computing: float
    imbalance: float
    messages: float
    balancing_seconds: float
    seconds: float
    saved: float | None = None

    @classmethod
    def of(cls, course: Course) -> Spent:
        mean, most = float(course.mean.sum()), float(course.max.sum())
        steps, whole = float(course.step_seconds.sum()), course.seconds
        saved = None if course.saved is None else float(course.saved[-1])
        return cls(mean, most - mean, whole - steps - most, steps, whole, saved)


class Counted(NamedTuple):
    """Counts of a run: iterations, LB steps, migrations and their bytes."""

    iterations: int
    balancings: int
    migrations: int
    bytes: int

    @classmethod
    def of(cls, course: Course) -> Counted:
        done = course.balancings
        return cls(
            course.n_iterations,
            len(done),
            sum(r.migrations for r in done),
            sum(r.bytes for r in done),
        )


class StepPair(NamedTuple):
    """The LB steps of two runs after the same iteration; None: the run had no LB step there."""

    iteration: int
    first: Receipt | None
    second: Receipt | None


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
    def spent(self) -> tuple[Spent, Spent]:
        """Where the time of each run went."""
        return Spent.of(self.first), Spent.of(self.second)

    @property
    def counted(self) -> tuple[Counted, Counted]:
        """Iterations, LB steps and migrations of each run."""
        return Counted.of(self.first), Counted.of(self.second)

    @property
    def speedup(self) -> float:
        """Seconds of the first run divided by seconds of the second."""
        first, second = self.spent
        return first.seconds / second.seconds if second.seconds > 0 else 1.0

    def steps(self) -> Iterator[StepPair]:
        """Yield the LB steps of both runs, in order of the iterations."""
        first = {r.iteration: r for r in self.first.balancings}
        second = {r.iteration: r for r in self.second.balancings}
        for iteration in sorted(first.keys() | second.keys()):
            yield StepPair(iteration, first.get(iteration), second.get(iteration))

    def doubts(self) -> list[str]:
        """Return reasons why the runs may not be comparable."""
        pairs = [
            ("ranks", self.first.n_ranks, self.second.n_ranks),
            ("objects", self.first.n_objects, self.second.n_objects),
            ("iterations", self.first.n_iterations, self.second.n_iterations),
        ]
        return [f"{a} {what} and {b}" for what, a, b in pairs if a != b]

    def to_dict(self) -> dict[str, Any]:
        """Return all results of the comparison, ready for JSON."""
        runs = [
            {**one._asdict(), **count._asdict()}
            for one, count in zip(self.spent, self.counted, strict=True)
        ]
        steps = [
            {
                "iteration": step.iteration,
                "first": step.first and _of_step(step.first),
                "second": step.second and _of_step(step.second),
            }
            for step in self.steps()
        ]
        return {"speedup": self.speedup, "runs": runs, "steps": steps}


STEP = ("strategy", "cost", "gain", "migrations", "bytes")


def _of_step(receipt: Receipt) -> dict[str, Any]:
    return {name: getattr(receipt, name) for name in STEP}
