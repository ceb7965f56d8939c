"""Measure times for an advisor: a rank's work in a step, and a redistribution."""

from __future__ import annotations

from pylb import _core
from pylb.errors import StateError


class Block:
    """Timed blocks of the program, ``with block: ...``; their times are added up.

    A block that raises an error does not count.

    Attributes
    ----------
    clock : str
        Name of the clock, as for `_core.load_clock`.
    seconds : float
        Sum of the times since the last `take`.
    used : bool
        Whether a block has ended since the last `take`.
    """

    def __init__(self, watch: Stopwatch, name: str, clock: str) -> None:
        self._watch, self._name, self.clock = watch, name, clock
        self.seconds, self.used = 0.0, False
        self._began = 0.0

    def __enter__(self) -> None:
        self._watch.check_closed(f"{self._name}()")
        self._watch.open = self._name
        self._began = _core.load_clock(self.clock)

    def __exit__(self, kind: object, *error: object) -> None:
        now = _core.load_clock(self.clock)
        if kind is None:
            self.add(max(now - self._began, 0.0))  # the clock may have been set back
        self._watch.open = ""

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.used = True

    def take(self) -> float:
        """Return the seconds, and reset them to 0."""
        seconds, self.seconds, self.used = self.seconds, 0.0, False
        return seconds


class Stopwatch:
    """Times the blocks of an advisor and its whole steps."""

    def __init__(self, clock: str) -> None:
        self.open = ""  # name of the block that is open, or empty
        self.work = Block(self, "timed", clock)  # this rank's work in the step
        self.move = Block(self, "rebalancing", "wall")  # the redistribution in an LB step
        self._resumed = _core.clock()

    def check_closed(self, what: str) -> None:
        """Raise StateError within a block."""
        if self.open:
            raise StateError(
                f"{what} is called inside a {self.open}() block: expected one at a time"
            )

    def resume(self) -> None:
        """Begin to time a step."""
        self._resumed = _core.clock()

    def moved(self, seconds: float) -> None:
        """Note that a redistribution, which took `seconds`, has just ended."""
        self.move.add(seconds)
        self._resumed = _core.clock() - self.move.seconds

    def elapsed(self) -> float:
        """Return the seconds since the step began, without the redistribution."""
        return max(_core.clock() - self._resumed - self.move.seconds, 0.0)
