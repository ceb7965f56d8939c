"""Checks of arguments: a DomainError names the argument; most functions return the value."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection
from numbers import Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb import _core, optional
from pylb.console import clip
from pylb.errors import DomainError, StateError, differing, of_rank, told

T = TypeVar("T")


def whole(
    name: str, value: Any, least: int, what: str = "a whole number", below: int = 1 << 63
) -> int:
    """Check that the value is an integer (Python or NumPy, no bool) from `least` to `below` - 1."""
    try:
        out = operator.index(value)
    except TypeError:
        out = least - 1
    if not least <= out < below or isinstance(value, bool):
        limits = f"{least} or more" if below == 1 << 63 else f"{least} ... {below - 1}"
        raise DomainError(f"{name} is {value!r}: expected {what}, {limits}")
    return out


def flag(name: str, value: Any, what: str = "True or False") -> bool:
    """Check that the value is True or False, or 1 or 0."""
    if not isinstance(value, int | np.integer | np.bool_) or value not in (0, 1):
        raise DomainError(f"{name} is {value!r}: expected {what}")
    return bool(value)


def instance(name: str, value: Any, kind: type, called: str = "") -> None:
    """Check that the value is an instance of `kind`, which the error calls pylb.`called`."""
    if not isinstance(value, kind):
        what = called or kind.__name__
        raise DomainError(f"{name} is {clip(repr(value), 60)}: expected a pylb.{what}")


def intracommunicator(comm: Any, or_else: str = "") -> None:
    """Check that `comm` is a usable intracommunicator of mpi4py; errors name `or_else`, too."""
    optional.require("mpi4py")
    from mpi4py import MPI

    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        raise DomainError(f"comm is {comm!r}: expected an intracommunicator of mpi4py{or_else}")
    mpi_runs(MPI)


def mpi_runs(mpi: Any) -> None:
    """Check that `mpi` (of mpi4py, or pylb._mpi) runs; otherwise MPI would abort the program."""
    if not mpi.Is_initialized() or mpi.Is_finalized():
        what = "has ended" if mpi.Is_initialized() else "has not started"
        raise StateError(f"MPI {what}: expected a call between MPI.Init() and MPI.Finalize()")


def integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise DomainError(f"{name} is {value!r}: expected an integer") from None


def number(name: str, value: Any) -> float:
    return positive(name, value, -math.inf)


def positive(name: str, value: Any, above: float = 0) -> float:
    """Check that the value is a finite number greater than `above`."""
    try:
        out = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        out = math.inf
    if not above < out < math.inf:
        limit = "" if above == -math.inf else f" above {above:g}"
        raise DomainError(f"{name} is {value!r}: expected a finite number{limit}")
    return out


def nbytes(name: str, value: Any) -> int:
    """Check that the value is a number of bytes that fits into 64 bits."""
    return whole(name, value, 0, "bytes")


def position(name: str, value: Any) -> NDArray[np.float64]:
    """Check that the value is a position; return it as three numbers, with 0 for missing ones."""
    try:
        out = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        out = np.zeros(0)
    if out.ndim != 1 or not 1 <= len(out) <= 3 or not np.all(np.isfinite(out)):
        raise DomainError(f"{name} are {value!r}: expected one to three finite numbers")
    return np.pad(out, (0, 3 - len(out)))


def shared(name: str, value: Any) -> NDArray[np.int64]:
    """Check (id, bytes[, home rank]) of the data that an object shares; return all three."""
    parts = tuple(value) if isinstance(value, tuple | list) else ()
    try:
        out = np.array([operator.index(x) for x in (*parts, -1)[:3]], np.int64)
    except (TypeError, OverflowError):
        out = np.zeros(0, np.int64)
    if len(parts) not in (2, 3) or len(out) != 3 or (out[: len(parts)] < 0).any():
        expected = "(id, bytes) or (id, bytes, home rank), whole numbers, 0 or more"
        raise DomainError(f"{name} is {clip(repr(value), 60)}: expected {expected}")
    return out  # -1: no home is given


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise DomainError(f"{name} is {value!r}: expected {' or '.join(map(repr, allowed))}")


def array(name: str, value: Any, dtype: Any = None) -> NDArray[Any]:
    """Convert to an array; TypeError, ValueError and OverflowError become a DomainError."""
    try:
        return np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError) as why:
        raise DomainError(f"{name}: expected an array of numbers; {why}") from None


def integers(name: str, values: Any, dtype: Any) -> NDArray[Any]:
    """Check integers, and return them as a one-dimensional contiguous array of this dtype."""
    out = array(name, values)
    if out.ndim != 1:
        raise DomainError(f"{name} has shape {out.shape}: expected (n,)")
    if out.dtype == dtype:
        return np.ascontiguousarray(out)
    if out.size and out.dtype.kind not in "iu":
        raise DomainError(f"{name} has dtype {out.dtype}: expected integers")
    limits = np.iinfo(dtype)
    if out.size and (int(out.max()) > limits.max or int(out.min()) < limits.min):
        worst = out.max() if int(out.max()) > limits.max else out.min()
        raise DomainError(f"{name} has {worst}: expected {limits.min} ... {limits.max}")
    return np.ascontiguousarray(out, dtype)


def without_mask(name: str, value: Any) -> None:
    """Check that a masked array has no masked entries, because only its data are sent."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DomainError(f"{name} has masked entries: expected none, e.g. array.filled(...)")


def vector(name: str, value: Any, n: int | None = None) -> NDArray[np.float64]:
    """Copy the value into a vector of n numbers; None: any number of them."""
    out = np.array(array(name, value, np.float64))
    if out.ndim != 1 or n not in (None, len(out)):
        raise DomainError(f"{name} has shape {out.shape}: expected ({'n' if n is None else n},)")
    return out


def amounts(name: str, values: NDArray[np.float64]) -> None:
    """Check that loads, lengths or costs are numbers from 0 to 1e30."""
    if values.size and not (values.min() >= 0.0 and values.max() <= 1e30):
        at = tuple(np.argwhere(~((values >= 0.0) & (values <= 1e30)))[0].tolist())
        raise DomainError(f"{name}{list(at)} is {values[at]:g}: expected 0 ... 1e30")


def several(name: str, value: Any, what: str) -> list[Any]:
    """Check that the value can be iterated; return the entries."""
    try:
        return list(value)
    except TypeError:
        raise DomainError(f"{name} is {clip(repr(value), 60)}: expected {what}") from None


def seconds(name: str, value: Any, most: float = 1e30) -> float:
    """Check that the value is a time in seconds, from 0 to `most`."""
    try:
        out = -1.0 if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        out = -1.0
    if not 0.0 <= out <= most:
        raise DomainError(f"{name} is {value!r}: expected seconds, from 0 to {most:g}")
    return out


def sizes(name: str, value: Any, n: int) -> NDArray[np.int64]:
    """Check that the value is a sequence of n sizes in bytes; return them as an array, (n,)."""
    out = vector(name, value, n)
    for i in np.flatnonzero(~((out >= 0) & (out < 2**63) & (out == np.rint(out))))[:1]:
        raise DomainError(f"{name}[{i}] is {out[i]:g}: expected bytes, a whole number, 0 or more")
    return np.array(value, dtype=np.int64)


def alike(comm: Any, words: str, call: Callable[[], T]) -> T:
    """Call a function on all ranks; all raise if it fails on one or `words` differ.  Collective."""
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


def load(key: int, value: Any, phase: str = "") -> float:
    """Check and return the load of object `key`, in phase `phase` unless this is empty."""
    try:
        out = float(value)
    except (TypeError, ValueError, OverflowError):
        out = math.nan
    if not 0.0 <= out <= 1e30:
        what = f"object {key}{phase and f' in phase {phase!r}'} is {clip(repr(value), 60)}"
        raise DomainError(f"load of {what}: expected a finite number, zero or more")
    return out


def phase(name: str, inside: str, before: Collection[str]) -> None:
    """Check that phase `name` may begin; `inside` is a phase that has not ended, or ""."""
    if not isinstance(name, str) or not name:
        raise DomainError(f"phase is {name!r}: expected a name")
    if inside:
        raise StateError(f"phase({name!r}) within phase({inside!r}): expected it after that phase")
    if name not in before and len(before) == _core.MOST_PHASES:
        raise DomainError(f"phase {name!r} is one phase too many: expected at most {len(before)}")


def same_phases(
    names: tuple[str, ...], known: tuple[str, ...] | None, rank: int, what: str, number: int
) -> None:
    """Check that iteration or step `number` had the phases `known` (None: it is the first one)."""
    if known is not None and names != known:
        here, before = (", ".join(x) or "none" for x in (names, known))
        said = f"rank {rank} ran other phases in {what} {number} than before: {here}"
        raise DomainError(f"{said}; expected {before}, each in every {what} and in this order")
