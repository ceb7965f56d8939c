"""Raise an error of one rank on all ranks, in calls that use only the program's communicator.

The room `comm`, and the rooms that may use it, have an `Agreement` for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pylb.errors import DomainError, differing, of_rank, told

T = TypeVar("T")


def alike(comm: Any, words: str, call: Callable[[], T]) -> T:
    """Call a function on every rank, and return its result.  Collective.

    Parameters
    ----------
    comm : mpi4py communicator or VirtualComm
        Must be valid: without it, a rank cannot tell anything to the others.
    words : str
        The arguments that must be equal on all ranks, for the error message.

    Raises
    ------
    Exception
        The function has failed on a rank.  The other ranks raise an error of the same class if it
        is one of pylb's, otherwise `RemoteError`.
    DomainError
        `words` differ.
    """
    error: Exception | None = None
    try:
        out = call()
    except Exception as why:
        error = why
    every = comm.allgather((words, None if error is None else told(error)))
    if error is not None:
        raise error
    for rank, (_, theirs) in enumerate(every):
        if theirs is not None:
            raise of_rank(rank, *theirs)
    if len({given for given, _ in every}) > 1:
        raise DomainError(f"arguments differ between ranks: {differing(w for w, _ in every)}")
    return out
