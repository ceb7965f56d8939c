"""Check the arguments of plans: integers, and the values that are exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb.comm.transport import Sides
from pylb.errors import DomainError
from pylb.model import checks


def integers(name: str, values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """Check integers, and return them as a one-dimensional contiguous array of this dtype."""
    array = checks.array(name, values)
    if array.ndim != 1:
        raise DomainError(f"{name} has shape {array.shape}: expected (n,)")
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    if array.size and array.dtype.kind not in "iu":
        raise DomainError(f"{name} has dtype {array.dtype}: expected integers")
    limits = np.iinfo(dtype)
    if array.size and (int(array.max()) > limits.max or int(array.min()) < limits.min):
        worst = array.max() if int(array.max()) > limits.max else array.min()
        raise DomainError(f"{name} has {worst}: expected {limits.min} ... {limits.max}")
    return np.ascontiguousarray(array, dtype)


def are_objects(value: Any) -> bool:
    return isinstance(value, list | tuple) or (
        isinstance(value, np.ndarray) and value.dtype.hasobject
    )


def checked_values(values: tuple[Any, ...], out: Any, add: bool, sides: Sides) -> list[Any]:
    """Check all arguments of an exchange; return the result of `_value` for each value."""
    if not values or (out is not None and len(values) > 1):
        raise DomainError(f"{len(values)} arrays: expected 1 or more; with out=, exactly 1")
    rows = [_value(f"array {i}", value, sides) for i, value in enumerate(values)]
    if out is not None:
        _check_out(out, rows[0], sides, add)
    return rows


def _value(name: str, value: Any, sides: Sides) -> Any:
    """Return `value` as a contiguous array (the rows of all items) or as a list of objects."""
    side, n = sides.out, sides.n_out
    checks.without_mask(name, value)
    if isinstance(value, np.ndarray) and not are_objects(value):
        return np.ascontiguousarray(checked_rows(name, value, side.n_own(n)))
    if are_objects(value) and getattr(value, "ndim", 1) == 1:
        if side.offset is not None:
            raise DomainError(f"{name} holds objects: expected numbers, because the plan has sizes")
        checked_rows(name, value, n)
        return list(value)
    raise DomainError(f"{name} is a {type(value).__name__}: expected an ndarray or a list")


def checked_rows(name: str, value: Any, n: int) -> Any:
    shape = getattr(value, "shape", None)
    if shape == () or len(value) != n:
        found = "no rows" if shape == () else f"{len(value)} rows"
        raise DomainError(f"{name} has {found}: expected {n}")
    return value


def _check_out(out: Any, rows: Any, sides: Sides, add: bool) -> None:
    if isinstance(rows, list) or not isinstance(out, np.ndarray):
        raise DomainError("out is given: expected that out and the values are arrays, not lists")
    shape = (sides.into.n_own(sides.n_into), *rows.shape[1:])
    right = out.shape == shape and out.dtype == rows.dtype
    if not right or not out.flags.c_contiguous or not out.flags.writeable:
        raise DomainError(
            f"out is of {out.dtype}, {out.shape}: expected a contiguous, writeable array of "
            f"{rows.dtype}, {shape}"
        )
    if not add and np.may_share_memory(out, rows):
        raise DomainError("out shares memory with the array that is sent: expected another array")
