"""The exchanges of a plan's values that are under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Protocol

from numpy.typing import NDArray

from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.transport import AnyLane


class AnyPart(Protocol):
    """The exchange of one value."""

    @property
    def met(self) -> bool:
        """Whether a partner passes a list where this rank passes an array, after `wait`."""
        ...

    def wait(self) -> Any:
        """Wait for the value, and return it."""
        ...


class Ready(NamedTuple):
    """A value that has arrived."""

    value: Any
    met: bool = False

    def wait(self) -> Any:
        return self.value


class Failed(NamedTuple):
    """An exchange that this rank could not begin; its partners have been told."""

    error: Exception
    met: bool

    def wait(self) -> NoReturn:
        raise self.error


class PendingRows(NamedTuple):
    """An exchange, under way, of the rows of one array."""

    lane: AnyLane
    end: Callable[[NDArray[Any]], NDArray[Any]]  # makes the value from the received rows

    @property
    def met(self) -> bool:
        return bool(self.lane.unlike)

    def wait(self) -> NDArray[Any]:
        return self.end(self.lane.wait())


class Pending:
    """An exchange that has begun; returned by `Plan.begin` and `Plan.begin_reverse`.

    Examples
    --------
    >>> pylb.Plan(comm, [0, 0]).begin(np.array([1.0, 2.0])).wait()
    array([1., 2.])
    """

    def __init__(self, agreement: Agreement, parts: list[AnyPart], several: bool = False) -> None:
        self._agreement, self.parts, self._several = agreement, parts, several
        self._answers: list[Any] = []
        self._error: Exception | None = None
        self._met = False

    def wait(self) -> Any:
        """Wait for the exchange; return the same values as `Plan.forward` or `Plan.reverse`."""
        self.drop()
        if self._error is not None:
            raise_where_partners_wait(self._agreement, self._error, self._met)
        return tuple(self._answers) if self._several else self._answers[0]

    def drop(self) -> None:
        """Wait for all parts, also after an error: all their messages are under way."""
        while self.parts:
            part = self.parts[0]
            with Attempt() as tried:
                self._answers.append(part.wait())
            self._error = self._error or tried.error
            self._met = self._met or part.met
            del self.parts[0]


def raise_where_partners_wait(agreement: Agreement, error: Exception, met: bool) -> NoReturn:
    """Raise an error of this rank; met: also on the ranks that pass lists and wait for this one."""
    if met:
        agreement.step(Step.OBJECTS, 0, error=error)
    raise error
