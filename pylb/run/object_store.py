"""The objects of one rank: their keys, values, properties and measured loads."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.errors import DomainError
from pylb.model.snapshot import F64, I32, I64

HERE = _core.ESTIMATE_HERE  # rows of estimates from this one on use only iterations on this rank
Ints = NDArray[np.integer[Any]]
NO_KEYS: I64 = np.zeros(0, np.int64)

# Properties of an object, with their types and defaults.
PROPERTIES: dict[str, tuple[Any, Any]] = {
    "nbytes": (np.int64, 0),  # bytes that a migration sends; 0: not known
    "memory": (np.int64, -1),  # bytes that the object occupies; -1: not given
    "migratable": (np.bool_, True),
    "work": (np.float64, 0.0),  # the user's estimate, in any unit; 0: not given
    "coords": (np.dtype((np.float64, (3,))), np.nan),  # position; nan: not given
    "home": (np.int32, 0),  # the rank where it was added (not its home rank in the directory)
    "birth": (np.int64, 0),  # differs between objects that had the same key at different times
    "was": (np.int32, -1),  # the rank from which the most recent LB step moved it; -1: none
}
OF_DATABASE = ("nbytes", "memory", "migratable", "work", "coords")
FURTHER = ("coords", "work", "birth")  # recorded if any object has them


def key_of(key: Any, name: str = "key") -> int:
    """Check that `key` is an integer of 64 bits, and return it."""
    try:
        out = operator.index(key)
    except TypeError:
        raise DomainError(f"{name} is {key!r}: expected an integer") from None
    if not -(2**63) <= out < 2**63:
        raise DomainError(f"{name} is {out}: expected an integer of 64 bits")
    return out


class Properties:
    """The properties of n objects; a property without an array in `given` has its default."""

    def __init__(self, n: int, given: dict[str, NDArray[Any]]) -> None:
        self.n, self.given = n, given

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one property of all objects, (n, ...)."""
        dtype, default = PROPERTIES[name]
        array = self.given.get(name)
        return np.full(self.n, default, dtype) if array is None else array

    def of_database(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that the load database needs, by name of the property."""
        return {name: self.given[name] for name in OF_DATABASE if name in self.given}

    def update(self, places: Any, given: dict[str, Any]) -> None:
        """Change properties of some objects; places: their indices, or one index."""
        for name, one in given.items():
            array = self[name]
            array[places] = one
            self.given[name] = array

    def take(self, index: Any) -> Properties:
        given = {name: array[index] for name, array in self.given.items()}
        return Properties(len(index), given)

    @staticmethod
    def join(parts: list[Properties], order: I64 | None = None) -> Properties:
        """Join the properties of all parts.  order: indices of the objects to return; None: all."""
        names = {name for part in parts for name in part.given}
        given = {name: picked([part[name] for part in parts], order) for name in names}
        return Properties(sum(part.n for part in parts) if order is None else len(order), given)


class Items(NamedTuple):
    """Some objects with their properties and estimates."""

    keys: I64  # (k,), in any order
    values: list[Any]
    properties: Properties
    estimates: F64  # (4 or 9, k), see `Store`


class LeavingObjects(NamedTuple):
    """Which objects of this rank leave."""

    places: I64  # (k,), indices of the leaving objects in the store, ascending
    to: I32  # (k,), their new ranks


class NewObjects:
    """Objects that were added one by one, and are not in the store yet, in the order of adding."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._values: dict[int, Any] = {}  # by key
        self._given: dict[str, dict[int, Any]] = {}  # name -> key -> value (not the default)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: int) -> bool:
        return key in self._values

    @property
    def keys(self) -> I64:
        """The keys, (n,) int64; a copy."""
        return np.fromiter(self._values, np.int64, len(self))

    def add(self, key: int, value: Any, given: dict[str, Any]) -> None:
        """Add an object with a new key.  given: the properties that differ from the default."""
        for some in self._given.values():
            some.pop(key, None)  # of an earlier call that Ctrl-C has ended
        self.update(key, given)
        self._values[key] = value  # last: from now on, the object is here

    def update(self, key: int, given: dict[str, Any]) -> None:
        for name, one in given.items():
            self._given.setdefault(name, {})[key] = one

    def remove(self, key: int) -> Any:
        """Remove an object, and return it."""
        return self._values.pop(key)  # `add` and `items` leave out its properties

    def items(self, rows: int) -> Items:
        """Return all new objects, with estimates of zero; rows: number of rows of estimates."""
        n = len(self)
        given: dict[str, NDArray[Any]] = {"home": np.full(n, self.rank, np.int32)}
        place = {key: i for i, key in enumerate(self._values)} if self._given else {}
        for name, some in self._given.items():
            dtype, default = PROPERTIES[name]
            given[name] = np.full(n, default, dtype)
            known = [key for key in some if key in place]
            given[name][[place[key] for key in known]] = [some[key] for key in known]
        values = list(self._values.values())
        return Items(self.keys, values, Properties(n, given), np.zeros((rows, n)))


class Store:
    """The objects of this rank, sorted by key, and their measured loads.

    Attributes
    ----------
    keys : (n,) int64
        Keys, ascending.
    places : _core.Keys
        Finds the index of a key.
    values : list of n
    properties : Properties
    recorder : _core.Recorder
        Yields (key, object) and adds the time of each loop body to `seconds`.
    seconds : (n,) float64
        Loads in the present iteration so far.
    estimates : (rows, n) float64
        Estimates of the loads, see ``csrc/measure/measure.h``; the first row is the expected load
        of each object.  The column of an object migrates with it.
    rows : int
        Number of rows of `estimates`: 9, or 4 if no speeds of ranks are learned.
    window : (n,) float64
        Sum of the loads since the last LB step.
    passes : int
        Number of iterations since the last LB step.
    other : float
        Seconds of other work of this rank since the last LB step.
    """

    def __init__(self, clock: str, learns: bool) -> None:
        self.clock, self.passes, self.other = clock, 0, 0.0
        self.rows = _core.ESTIMATE_ROWS if learns else HERE
        self.set(Items(NO_KEYS, [], Properties(0, {}), np.zeros((self.rows, 0))), np.zeros(0))

    def __len__(self) -> int:
        return len(self.values)

    def place(self, key: int) -> int:
        """Return the index of an object; -1: it is not here."""
        return self.places.find(key)

    def items(self) -> Items:
        return Items(self.keys, self.values, self.properties, self.estimates)

    def take(self, index: Any) -> Items:
        values = _core.pick(self.values, index)
        return Items(
            self.keys[index], values, self.properties.take(index), self.estimates[:, index]
        )

    def changed(self, gone: Ints, more: list[Items]) -> tuple[Items, F64]:
        """Remove the objects at the indices `gone`, and add others with different keys.

        Nothing changes here: returns the objects and the window after the change, for `set`.
        """
        parts = [items for items in [self.items(), *more] if len(items.keys)]
        n = sum(len(part.keys) for part in parts)
        if not len(gone) and n == len(self):
            return self.items(), self.window
        order = self._order(gone, parts)
        if order is None and len(parts) == 1:
            return parts[0], np.zeros(n)
        n_kept = n if order is None else len(order)
        estimates = np.empty((self.rows, n_kept))
        for row, out in enumerate(estimates):
            whole = picked([part.estimates[row] for part in parts], None)
            if order is None:
                out[:] = whole
            else:
                # All indices are valid; with mode="raise", the default, NumPy would copy twice.
                whole.take(order, out=out, mode="clip")
        values: list[Any] = []
        for part in parts:
            values += part.values
        items = Items(
            picked([part.keys for part in parts], order),
            values if order is None else _core.pick(values, order),
            Properties.join([part.properties for part in parts], order),
            estimates,
        )
        return items, picked([self.window, np.zeros(n - len(self))], order)

    def _order(self, gone: Ints, parts: list[Items]) -> I64 | None:
        """Return the indices of the objects that stay or come, sorted by key.

        The indices count through all parts.  None: all objects, in the present order.
        """
        keys = picked([part.keys for part in parts], None)
        if not len(gone) and np.all(keys[1:] > keys[:-1]):
            return None
        stays = np.ones(len(keys), np.bool_)
        stays[gone] = False
        at = np.flatnonzero(stays)
        order: I64 = at[np.argsort(keys[at], kind="stable")]  # fast, because keys mostly ascend
        return order

    def set(self, items: Items, window: F64) -> None:
        """Replace all objects and the window, and drop the loads of the present iteration.

        All is made before the first assignment: between assignments, nothing can be interrupted.
        """
        places, seconds = _core.Keys(items.keys), np.zeros(len(items.keys))
        recorder = _core.Recorder(items.keys, items.values, seconds, self.clock)
        self.keys, self.values, self.properties, self.estimates = items
        self.window, self.places, self.seconds = window, places, seconds
        self.recorder = recorder

    def use(self, clock: str) -> None:
        """Time the objects with this clock from now on."""
        self.clock = clock
        self.recorder = _core.Recorder(self.keys, self.values, self.seconds, clock)

    def end_pass(self, background: float) -> None:
        """Enter the loads of the iteration into the estimates and the window."""
        _core.end_pass(self.seconds, self.estimates, self.window)
        self.count(1, background)

    def count(self, n: int, background: float) -> None:
        """Count n iterations; background: seconds of other work in each."""
        self.passes += n
        for _ in range(n):  # added one by one, as in a replay, so that the sum is bit for bit equal
            self.other += background

    def forget(self) -> None:
        """Start a new window, after an LB step."""
        self.window.fill(0.0)
        self.passes, self.other = 0, 0.0

    def drift(self) -> F64:
        """Return the change of each load in seconds per iteration, see ``plb_estimate_drift``."""
        error, spread = self.estimates[2:HERE]
        drift: F64 = np.zeros(len(self))
        np.divide(np.abs(error), spread, out=drift, where=spread > 0)
        np.minimum(drift, 1.0, out=drift)
        drift *= error
        return drift

    def facts(self) -> I64:
        """Return the integer properties of each object, (n, 5).

        They are: key, bytes, memory, whether the object may migrate, and the rank where it was
        added.
        """
        out = np.empty((len(self), 5), np.int64)
        out[:, 0] = self.keys
        for i, name in enumerate(("nbytes", "memory", "migratable", "home"), 1):
            out[:, i] = self.properties.given.get(name, PROPERTIES[name][1])
        return out


def picked(parts: list[NDArray[Any]], order: I64 | None) -> NDArray[Any]:
    """Join the parts.  order: indices of the elements to return; None: all."""
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole if order is None else whole[order]


def converted(estimates: F64, factor: float) -> F64:
    """Convert estimates of objects to seconds on another rank, which is `factor` times as fast.

    The rows from `HERE` on become 0, because the objects have run no iteration on that rank.
    """
    out: F64 = estimates.copy()
    for row in (0, 2, 3):  # row 1 is the number of iterations
        out[row] /= factor
    out[HERE:] = 0.0
    return out
