"""A directory of global ids, distributed over the ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pylb import _core
from pylb.comm.agreement import Attempt, Step
from pylb.comm.connect import agreement_of
from pylb.comm.plan import Plan
from pylb.errors import DomainError, DuplicateKeyError, OutOfRangeError, UnknownKeyError
from pylb.model import checks
from pylb.model.snapshot import I32, I64


class Found(NamedTuple):
    """The entries of some ids.

    Examples
    --------
    >>> where = pylb.Directory(comm)
    >>> where.update([17, 4])
    >>> where.find([4, 99], missing=True)
    Found(owner=array([ 0, -1], dtype=int32), local=array([ 1, -1]), data=None)
    """

    owner: I32  #: (n,) the rank; -1 if the id is not in the directory.
    local: I64  #: (n,) the local id; -1 if the id is not in the directory.
    #: (n, ...) the user data; zeros if the id is not in the directory.
    data: NDArray[Any] | None = None


class Directory:
    """A distributed directory, which maps global ids to their owner, local id and user data.

    Each rank stores the entries whose ids hash to it.  In a collective method, each rank may pass
    different ids, or none.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    dtype : dtype, optional
        Data type of the user data of an entry; may be structured.  Default: no user data.
    shape : tuple of int
        Shape of the user data of an entry.

    Attributes
    ----------
    rank, size : int
    n_here : int
        Number of entries that this rank stores; the owners of the ids may be any ranks.
    nbytes : int
        Bytes of this rank's table.

    Examples
    --------
    >>> def main(comm):
    ...     where = pylb.Directory(comm)
    ...     where.update([17, 18] if comm.rank == 0 else [4])  # this rank owns these ids
    ...     return where.find([17, 4]).owner
    >>> pylb.VirtualCluster(2).run(main)[0]
    array([0, 1], dtype=int32)
    """

    def __init__(
        self, comm: Any, dtype: DTypeLike | None = None, shape: tuple[int, ...] = ()
    ) -> None:
        self._agreement = agreement_of(comm)
        self.rank = self._agreement.transport.rank
        self.size = self._agreement.transport.size
        self.dtype: np.dtype[Any] | None = None
        self.shape: tuple[int, ...] = ()
        # what a rank sends about an id, and, without the id, the columns of the entries
        self._columns: list[Any] = [("id", np.int64), ("owner", np.int32), ("local", np.int64)]
        with Attempt() as tried:
            try:
                self.shape = tuple(checks.whole("shape", n, 0) for n in shape)
                if dtype is not None:
                    self.dtype = np.dtype(dtype)
                    self._columns.append(("data", self.dtype, self.shape))
                # the first entry is that of all unknown ids
                self._entries: NDArray[Any] = np.zeros(1, self._columns[1:])
            except DomainError:
                raise
            except (TypeError, ValueError) as why:
                raise DomainError(f"dtype, shape: {why}") from None
            if self.dtype is not None and self.dtype.hasobject:
                raise DomainError(f"dtype is {self.dtype}: expected one without Python objects")
            self._entries["owner"] = self._entries["local"] = -1
            self._place = _core.Table()  # index in `_entries` of each id
            self._spare = np.zeros(0, np.int64)  # indices of ids that were removed
            self._used = 1  # number of entries that have been used
        self._step(f"dtype={self.dtype}, shape={self.shape}", tried.error)

    @property
    def n_here(self) -> int:
        return len(self._place)

    @property
    def nbytes(self) -> int:
        return self._place.nbytes + self._entries.nbytes + self._spare.nbytes

    def update(
        self,
        ids: ArrayLike,
        local: ArrayLike | None = None,
        *,
        owner: ArrayLike | None = None,
        data: NDArray[Any] | None = None,
    ) -> None:
        """Add ids, or change their entries.  Collective.

        Raises DuplicateKeyError if an id is given twice; nothing has then changed on any rank.

        Parameters
        ----------
        ids : (n,) array_like of int
            Ids; each at most once in a call, over all ranks.
        local : (n,) array_like of int, optional
            Local ids.  Default: 0 ... n-1.
        owner : int or (n,) array_like of int, optional
            Rank of each id.  Default: this rank.
        data : (n, ...) ndarray, optional
            User data, on all ranks or on none.  Default: unchanged; zero for new ids.
        """
        with Attempt() as tried:
            given = self._given(ids, local, owner, data)
        self._step("update()" + (", with data" if data is not None else ""), tried.error)
        plan = self._plan(given["id"])
        came = plan.forward(given)
        places = new = np.zeros(0, np.int64)
        rows = self._entries[:0]
        with Attempt() as tried:
            here = np.ascontiguousarray(came["id"])
            order = np.argsort(here, kind="stable")
            again = order[1:][here[order[1:]] == here[order[:-1]]]
            if len(again):
                at = int(again.min())
                a, b = int(plan.source[np.argmax(here == here[at])]), int(plan.source[at])
                where = f"by rank {a}" if a == b else f"by rank {a} and rank {b}"
                raise DuplicateKeyError(f"id {here[at]} is given twice, {where}")
            places, new = self._add(here)
            rows = np.take(self._entries, places)
            for name, *_ in self._columns[1 : 3 if data is None else None]:
                rows[name] = came[name]
        try:
            self._step("update(), second half", tried.error)
        except Exception:
            self._drop(new)
            raise
        np.put(self._entries, places, rows)  # an index in brackets would need memory here

    def find(self, ids: ArrayLike, *, missing: bool = False) -> Found:
        """Look up ids.  Collective.

        Parameters
        ----------
        ids : (n,) array_like of int
            Any ids; an id may occur several times.
        missing : bool
            Whether ids may be missing.  True: missing ids get owner -1.  False: raise an error.

        Raises
        ------
        UnknownKeyError
            An id is not in the directory; raised on every rank.
        """
        key = np.zeros(0, np.int64)
        with Attempt() as tried:
            key, missing = checks.integers("ids", ids, np.int64), checks.flag("missing", missing)
        self._step(f"find(missing={missing!r})", tried.error)
        plan = self._plan(key)
        here = plan.forward(key)
        found = plan.answer(lambda: np.take(self._entries, np.maximum(self._place.find(here), 0)))
        with Attempt() as tried:
            entries = Found(*(np.ascontiguousarray(found[name]) for name in found.dtype.names))
            if not missing:
                self._check_known(key, entries.owner)
        self._step("find(), second half", tried.error)
        return entries

    def remove(self, ids: ArrayLike) -> None:
        """Remove ids.  Collective.

        Parameters
        ----------
        ids : (n,) array_like of int
            Several ranks may name the same id.

        Raises
        ------
        UnknownKeyError
            An id is not in the directory; raised on every rank, and nothing has changed.
        """
        key = np.zeros(0, np.int64)
        with Attempt() as tried:
            key = checks.integers("ids", ids, np.int64)
        self._step("remove()", tried.error)
        plan = self._plan(key)
        here = plan.forward(key)
        with Attempt() as tried:
            self._check_known(here, self._place.find(here))
        self._step("remove(), second half", tried.error)
        self._drop(here)

    def ids(self) -> I64:
        """Return the ids whose entries this rank stores, ascending."""
        return np.sort(self._place.ids())

    # ---- internals -----------------------------------------------------------------------------

    def _add(self, ids: I64) -> tuple[I64, I64]:
        """Return the place of each id, and the ids that are new; no id occurs twice in `ids`."""
        places = self._place.find(ids).astype(np.int64)
        new = np.flatnonzero(places < 0)
        again = self._spare[: len(new)]
        n = self._used + len(new) - len(again)
        places[new] = np.concatenate([again, np.arange(self._used, n)])
        if n > len(self._entries):
            old = self._entries
            self._entries = np.zeros(n + n // 4, old.dtype)
            self._entries[: len(old)] = old
        self._place.put(ids[new], places[new].astype(np.int32))
        self._spare, self._used = self._spare[len(again) :], n
        np.put(self._entries, places[new], self._entries[:1].copy())
        return places, ids[new]

    def _drop(self, ids: I64) -> None:
        places = self._place.remove(ids)
        self._spare = np.concatenate([self._spare, places[places >= 0]])

    def _given(
        self, ids: ArrayLike, local: ArrayLike | None, owner: ArrayLike | None, data: Any
    ) -> NDArray[Any]:
        """Check the arguments of `update`, fill in the defaults, and return a row for each id."""
        key = checks.integers("ids", ids, np.int64)
        n = len(key)
        out = np.zeros(n, self._columns[: 3 + (data is not None)])
        out["id"], out["owner"], out["local"] = key, self.rank, np.arange(n)
        for name, given, kind in (("owner", owner, np.int32), ("local", local, np.int64)):
            if given is not None:
                array = checks.integers(name, np.atleast_1d(checks.array(name, given)), kind)
                if len(array) != n and (name == "local" or len(array) != 1):
                    expected = f"expected ({n},), one for each id"
                    raise DomainError(f"{name} has shape {array.shape}: {expected}")
                out[name] = array
        who = out["owner"]
        if n and not 0 <= who.min() <= who.max() < self.size:
            worst = who[(who < 0) | (who >= self.size)][0]
            raise OutOfRangeError(f"owner has {worst}: expected 0 ... {self.size - 1}")
        if data is not None:
            if self.dtype is None:
                raise DomainError("data is given: expected none, as the directory has no dtype")
            rows = checks.array("data", data, self.dtype)
            if rows.shape != (n, *self.shape):
                raise DomainError(f"data has shape {rows.shape}: expected {(n, *self.shape)}")
            out["data"] = rows
        return out

    def _check_known(self, key: I64, owner: I32) -> None:
        absent = np.flatnonzero(owner < 0)
        if len(absent):
            more = f", and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise UnknownKeyError(f"id {key[absent[0]]} is not in the directory{more}")

    def _plan(self, key: I64) -> Plan:
        return Plan(self._agreement, lambda: _core.home(key, self.size))

    def _step(self, words: str, error: Exception | None = None) -> None:
        self._agreement.agree(Step.DIRECTORY, words, error)

    def __repr__(self) -> str:
        kind = "" if self.dtype is None else f", data {self.dtype} {self.shape}"
        return f"<Directory: {self.n_here} entries on rank {self.rank} of {self.size}{kind}>"


# ---- rows from one decomposition of global ids to another ---------------------------------------


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

    Examples
    --------
    >>> def main(comm):
    ...     mine = np.arange(2) + 2 * comm.rank
    ...     halo = pylb.comm.plan_between(comm, mine, [2 - comm.rank])
    ...     return halo.forward(10 * mine)
    >>> pylb.VirtualCluster(2).run(main)
    [array([20]), array([10])]
    """
    agreement = agreement_of(comm)
    where = Directory(agreement)
    where.update(have)
    entries = where.find(want)
    asked = Plan(agreement, entries.owner)
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
    wants.  For repeated moves make a plan instead: `Plan`, `plan_between`.

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
        n = len(np.atleast_1d(checks.array("have", have) if ids else checks.array("to", to)))
        for i, value in enumerate(values):
            if not isinstance(value, list | tuple | np.ndarray) or getattr(value, "ndim", 1) == 0:
                what = type(value).__name__
                raise DomainError(f"array {i} is a {what}: expected an array or list")
            if len(value) != n:
                raise DomainError(f"array {i} has {len(value)} rows: expected {n}")
            checks.without_mask(f"array {i}", value)
    kinds = ", ".join(map(_kind, values))
    words = f"migrate({kinds}, {'have, want' if ids else 'to'})"
    agreement.agree(Step.OBJECTS, words, tried.error)
    if to is not None:
        return Plan(agreement, to).forward(*values)
    return plan_between(agreement, have, want).forward(*values)  # type: ignore[arg-type]


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape[1:]}"
    return "objects"
