"""The triggers, which decide when to rebalance: the table of the C core, and `make`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pylb import _core
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
    #: Maximum and mean of the ranks' loads in this iteration, in seconds.
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
    """Return all triggers by name.

    Examples
    --------
    >>> pylb.triggers()["periodic"].params[0].name
    'every'
    """
    return dict(_table)


def make(
    *,
    every: int | None = None,
    trigger: str | Callable[[Cycle], bool] | None = None,
    **params: Any,
) -> Trigger:
    """Make a trigger.

    Parameters
    ----------
    every : int, optional
        Iterations from one LB step to the next; the trigger is then ``periodic``.
    trigger : str or callable, optional
        A name of `pylb.triggers()`, or a function that gets a `Cycle` after each iteration and
        returns whether to rebalance.  It must return the same on all ranks.
    **params
        Parameters of the trigger; ``pylb.triggers()[name].params`` lists them.

    Raises
    ------
    UnknownTriggerError
        No trigger has this name; the message suggests the nearest names.
    DomainError
        Not exactly one of `every` and `trigger` is given, a parameter is unknown, or a value is out
        of range.

    Examples
    --------
    >>> trigger = pylb.decide.trigger.make(every=10)
    >>> [it for it in range(30) if trigger.observe(it, 2.0, 1.0)]
    [9, 19, 29]
    """
    return made(every, trigger, params)


def made(
    every: int | None,
    trigger: str | Trigger | Callable[[Cycle], bool] | None,
    params: Mapping[str, Any],
) -> Trigger:
    """Make a trigger like `make`; the parameters may contain ``every``, the one of ``periodic``."""
    if (every is None) == (trigger is None):
        raise DomainError(
            f"every is {every!r} and trigger is {trigger!r}: expected exactly one of them"
        )
    if every is not None:
        count = checks.whole("every", every, 1, "a number of iterations")
        if "every" in params:
            raise DomainError(
                f"every is {every!r}, and {params['every']!r} as a parameter: expected it once"
            )
        return _make("periodic", {"every": count, **params})
    if callable(trigger):
        return _of_callable(trigger, params)
    if not isinstance(trigger, str):
        raise UnknownTriggerError(f"trigger is {trigger!r}: expected a name or a function")
    if trigger not in _table:
        raise UnknownTriggerError(unknown("trigger", trigger, sorted(_table)))
    return _make(trigger, params)


def _make(name: str, params: Mapping[str, Any]) -> Trigger:
    return Trigger(name, values_of(name, _table[name].params, params))


def _of_callable(function: Callable[[Cycle], bool], params: Mapping[str, Any]) -> Trigger:
    if params:
        raise DomainError(f"{next(iter(params))} is given: expected no parameters for a function")
    return Trigger(lambda *row: function(Cycle(*row)), [])
