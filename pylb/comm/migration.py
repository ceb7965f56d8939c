"""Move rows of arrays between ranks: from one decomposition of global ids to another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.connect import agreement_of
from pylb.comm.directory import Directory
from pylb.comm.plan import Plan
from pylb.errors import DomainError
from pylb.model import checks


def plan_between(comm: Any, have: ArrayLike, want: ArrayLike) -> Plan:
    """Make a plan from one decomposition of global ids to another.  Collective.

    `Plan.forward` takes the rows of the ids `have`, in this order, and returns the rows of the ids
    `want`.  Several ranks may want the same id (ghosts, halos); then ``reverse(..., add=True)``
    adds up the values that they send back.  A row that no rank wants is not sent.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    have : (n,) array_like of int
        Ids of this rank's rows; each id belongs to one row of one rank.
    want : (m,) array_like of int
        Ids of the rows that this rank wants.

    Raises
    ------
    DuplicateKeyError, UnknownKeyError
        An id occurs twice in `have`, or an id of `want` is in no `have`; raised on every rank.
    DomainError
        An argument is not an array of integers; raised on every rank.

    Examples
    --------
    >>> def main(comm):
    ...     mine = np.arange(2) + 2 * comm.rank
    ...     halo = pylb.comm.plan_between(comm, mine, [2 - comm.rank])
    ...     return halo.forward(10 * mine)
    >>> pylb.VirtualCluster(2).run(main)
    [array([20]), array([10])]
    """
    return plan_on(agreement_of(comm), have, want)


def plan_on(agreement: Agreement, have: ArrayLike, want: ArrayLike) -> Plan:
    """Do what `plan_between` does, on the ranks of an agreement."""
    where = Directory.on(agreement)
    where.update(have)
    entries = where.find(want)
    asked = Plan.on(agreement, lambda: entries.owner)
    index = asked.forward(entries.local)
    n = len(np.asarray(have))
    return agreement.together(Step.PLAN, lambda: Plan.answering(asked, index.astype(np.int32), n))


def migrate(
    comm: Any,
    *values: Any,
    to: ArrayLike | None = None,
    have: ArrayLike | None = None,
    want: ArrayLike | None = None,
) -> Any:
    """Move the rows of arrays to other ranks, once.  Collective.

    Give either `to`, the new rank of each row, or `have` and `want`, the ids that each rank has and
    wants.  For repeated moves make a plan instead: `Plan`, `plan_between`.  A row travels directly
    to each of its new ranks.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    *values : (n, ...) ndarray, or list of n
        This rank's rows: arrays of any dtype, also structured ones, or lists of Python objects,
        which are pickled.  The dtypes and the shapes of a row are equal on all ranks.
    to : (n,) array_like of int
        The new rank of each row, for instance the parts of `pylb.partition`.
    have, want : (n,), (m,) array_like of int
        Global ids of this rank's rows before and after the move.

    Returns
    -------
    array or list, or a tuple of them
        This rank's new rows, in the order of `want`.  With `to`, the rows are sorted by the rank
        that sent them; the rows of one rank keep their order.

    Raises
    ------
    DomainError
        Not exactly one of `to` and (`have`, `want`) is given; there are no `values`; an array does
        not have n rows; or dtypes or shapes differ between ranks.
    OutOfRangeError
        The destination of a row is not a rank.
    DuplicateKeyError, UnknownKeyError
        An id occurs twice in `have`, or an id of `want` is in no `have`.
    SerializationError
        An object cannot be pickled or restored.  All errors are raised on every rank.

    Examples
    --------
    >>> def main(comm):
    ...     x = np.arange(2) + 2 * comm.rank
    ...     return pylb.migrate(comm, x, to=[1, 0])
    >>> pylb.VirtualCluster(2).run(main)
    [array([1, 3]), array([0, 2])]
    """
    agreement = agreement_of(comm, hold=False)
    ids = have is not None or want is not None
    with Attempt() as tried:
        if ids == (to is not None) or (have is None) != (want is None):
            raise DomainError("arguments: expected either to=, or both have= and want=")
        if not values:
            raise DomainError("migrate() without values: expected at least one array or list")
        _check_rows(values, checks.array("have", have) if ids else checks.array("to", to))
    kinds = ", ".join(map(_kind, values))
    words = f"migrate({kinds}, {'have, want' if ids else 'to'})"
    agreement.agree(Step.OBJECTS, words, tried.error)
    if to is not None:
        return Plan.on(agreement, lambda: to).forward(*values)
    return plan_on(agreement, have, want).forward(*values)  # type: ignore[arg-type]


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape[1:]}"
    return "objects"


def _check_rows(values: tuple[Any, ...], of: NDArray[Any]) -> None:
    """Check that each array has a row for each entry of `of`."""
    n = len(np.atleast_1d(of))
    for i, value in enumerate(values):
        if not isinstance(value, list | tuple) and not (
            isinstance(value, np.ndarray) and value.ndim
        ):
            raise DomainError(f"array {i} is a {type(value).__name__}: expected an array or list")
        if len(value) != n:
            raise DomainError(f"array {i} has {len(value)} rows: expected {n}")
        checks.without_mask(f"array {i}", value)
