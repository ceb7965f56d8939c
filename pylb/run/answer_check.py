"""Check that a trigger which is a function of the user answers the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable

from pylb.comm.agreement import Agreement, Step
from pylb.decide.decider import Settings

ANSWERS = ("no LB step", "an LB step")


def same_answer(
    agreement: Agreement, given: Settings, iteration: int, ask: Callable[[], int]
) -> int:
    """Ask the decider, and return its answer.  Collective if a function of the user decides.

    Ranks with different answers would wait for different things, perhaps for ever.  The triggers of
    the table cannot differ, so only a function costs this step.

    Raises
    ------
    DomainError
        The answers differ.
    Exception
        The function has failed, on this rank; the other ranks raise RemoteError.
    """
    if not given.trigger.foreign:
        return ask()
    asked, error = 0, None
    try:
        asked = ask()
    except Exception as why:
        error = why
    words = ANSWERS[bool(asked)]
    agreement.step(Step.ANSWER, iteration, (int(bool(asked)), words), error=error)
    return asked
