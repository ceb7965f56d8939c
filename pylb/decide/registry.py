"""The triggers, which decide when to rebalance: the table of the C core, and `trigger`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pylb import _core
from pylb.console import Listing
from pylb.errors import DomainError, UnknownTriggerError, unknown
from pylb.model import checks
from pylb.placing.registry import Param, values_of

Trigger = _core.Trigger


class TriggerKind(NamedTuple):
    """An entry of the table of triggers; `help` and `source` are its description and its paper."""

    name: str
    help: str
    source: str
    params: tuple[Param, ...]


class Cycle(NamedTuple):
    """The argument that a trigger written in Python gets after each iteration.

    Examples
    --------
    >>> def menon(cycle):  # the imbalance has cost as much as an LB step
    ...     return cycle.U >= cycle.cost
    >>> len(trace.replay("GreedyLB", trigger=menon, cost=0.1).lb_steps)
    12
    """

    iteration: int  #: The iteration that has ended.
    #: Maximum and mean of the ranks' loads in this iteration, in seconds.  If ranks share cores:
    #: seconds of this iteration, and of the same with perfect balance.
    max: float
    mean: float
    n: int  #: Iterations since the last LB step.
    #: max - mean of this iteration in seconds, and the sum of max - mean since the last LB step.
    u: float
    U: float
    cost: float  #: Seconds that an LB step is expected to cost; nan if not known.
    left: float  #: Iterations that remain in the loop; inf if not known.


_table = {
    name: TriggerKind(name, text, source, tuple(Param(*p) for p in params))
    for name, text, source, params in _core.triggers()
}


def triggers() -> dict[str, TriggerKind]:
    """Return all triggers by name; the dictionary is printed as a table.

    Examples
    --------
    >>> pylb.triggers()["periodic"].params[0].name
    'every'
    """
    return Listing(_table, {"trigger": "name", "when it rebalances": "help", "source": "source"})


def trigger(which: str | Trigger | Callable[[Cycle], bool], /, **params: Any) -> Trigger:
    """Make a trigger with values of its parameters.

    `which` is a name of `pylb.triggers()`, or a function that gets a `pylb.decide.Cycle` after each
    iteration and returns whether to rebalance, the same on all ranks.  `params` are some of
    ``pylb.triggers()[name].params``; the others have their defaults.

    All functions with a trigger as argument accept the name, the function or this object.  They
    make their own trigger from it, so that one object can be used several times.

    Examples
    --------
    >>> trigger = pylb.trigger("periodic", every=10)
    >>> [it for it in range(30) if trigger.observe(it, 2.0, 1.0)]
    [9, 19, 29]
    """
    call = None
    if isinstance(which, Trigger):
        call, params = which.function, {**which.params, **params}
        which = which.name
    elif callable(which):
        call = _of_rows(which)
    if call is not None:
        values_of("a function", (), params)
        return Trigger(call, [])
    if not isinstance(which, str):
        raise UnknownTriggerError(f"trigger is {which!r}: expected a name or a function")
    if which not in _table:
        raise UnknownTriggerError(unknown("trigger", which, sorted(_table)))
    return Trigger(which, values_of(which, _table[which].params, params))


def of_arguments(
    every: int | None, which: str | Trigger | Callable[[Cycle], bool] | None
) -> Trigger:
    """Make a new trigger from the arguments `every` and `trigger`, one of which is given."""
    if (every is None) == (which is None):
        raise DomainError(f"every is {every!r} and trigger is {which!r}: expected exactly one")
    if which is None:
        count = checks.whole("every", every, 1, "a number of iterations")
        return trigger("periodic", every=count)
    return trigger(which)


def _of_rows(function: Callable[[Cycle], bool]) -> Callable[..., bool]:
    return lambda *row: function(Cycle(*row))
