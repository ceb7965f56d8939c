"""Check that a user's trigger function gives the same answer on all ranks."""

from __future__ import annotations

from collections.abc import Callable

from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.decide.decider import Settings

ANSWERS = ("no LB step", "an LB step")


def same_answer(
    agreement: Agreement, given: Settings, iteration: int, ask: Callable[[], int]
) -> int:
    """Call `ask`, which asks the decider what to do, and return the answer.

    Collective if the trigger is a user's function: ranks with different answers could wait for each
    other forever.  Built-in triggers need no check, because they answer the same on all ranks.

    Raises DomainError on all ranks if the answers differ.  If a user's function fails, all ranks
    raise an error (see `Agreement.step`).
    """
    if not given.trigger.foreign:
        return ask()
    asked = 0
    with Attempt() as tried:
        asked = ask()
    words = ANSWERS[bool(asked)]
    agreement.step(Step.ANSWER, iteration, (int(bool(asked)), words), error=tried.error)
    return asked
