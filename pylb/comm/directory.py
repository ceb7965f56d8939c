"""A directory of global ids, distributed over the ranks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Attempt, Step
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
    data: NDArray[Any] | None  #: (n, ...) the user data; zeros if the id is not in the directory.


class _Entries:
    """The entries of some ids: columns with a row for each id."""

    def __init__(self, data: NDArray[Any] | None) -> None:
        self.row = _core.Table()
        self.owner, self.local = np.zeros(1, np.int32), np.zeros(1, np.int64)
        self.data = data  # (1, ...) or None
        self._none = None if data is None else data[0].copy()
        self._spare = np.zeros(0, np.int64)  # rows of ids that were removed
        self._n = 0  # number of rows that have been used

    @property
    def nbytes(self) -> int:
        columns = (self.owner, self.local, self.data, self._spare)
        return self.row.nbytes + sum(x.nbytes for x in columns if x is not None)

    def add(self, ids: I64) -> tuple[I64, I64]:
        """Return the row of each id, and the ids that are new; no id occurs twice in `ids`.

        The owner of a new id is -1 at first.
        """
        rows = self.row.find(ids).astype(np.int64)
        new = np.flatnonzero(rows < 0)
        again = self._spare[: len(new)]
        n = self._n + len(new) - len(again)
        rows[new] = np.concatenate([again, np.arange(self._n, n)])
        if n > len(self.owner):
            room = n + n // 4 - len(self.owner)
            self.owner, self.local = (
                np.concatenate([x, np.zeros(room, x.dtype)]) for x in (self.owner, self.local)
            )
            if self.data is not None:
                more = np.zeros((room, *self.data.shape[1:]), self.data.dtype)
                self.data = np.concatenate([self.data, more])
        self.row.put(ids[new], rows[new].astype(np.int32))
        self._spare, self._n = self._spare[len(again) :], n
        self.owner[rows[new]] = -1
        if self.data is not None:
            self.data[rows[new]] = self._none
        return rows, ids[new]

    def drop(self, ids: I64) -> None:
        rows = self.row.remove(ids)
        self._spare = np.concatenate([self._spare, rows[rows >= 0]])

    def find(self, ids: I64) -> tuple[NDArray[Any], ...]:
        """Return owner, local id and data of each id; unknown ids have -1, -1 and zeros."""
        rows = self.row.find(ids).astype(np.int64)
        gone = rows < 0
        owner, local = self.owner[rows], self.local[rows]
        owner[gone] = local[gone] = -1
        if self.data is None:
            return owner, local
        data = self.data[rows]
        data[gone] = self._none
        return owner, local, data


class Directory:
    """A distributed directory, which maps global ids to their owner, local id and user data.

    Each rank stores the entries whose ids hash to it (of n entries on p ranks, about n/p), in a
    hash table in C.  In a collective method, each rank may pass different ids, or none.

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
        self._build(agreement_of(comm), dtype, shape)

    @classmethod
    def on(cls, agreement: Agreement) -> Directory:
        """Make a directory without user data, on the ranks of an agreement."""
        self = cls.__new__(cls)
        self._build(agreement, None, ())
        return self

    def _build(self, agreement: Agreement, dtype: DTypeLike | None, shape: tuple[int, ...]) -> None:
        self._agreement = agreement
        self.rank = self._agreement.transport.rank
        self.size = self._agreement.transport.size
        self.dtype: np.dtype[Any] | None = None
        self.shape: tuple[int, ...] = ()
        with Attempt() as tried:
            try:
                self.dtype = None if dtype is None else np.dtype(dtype)
                self.shape = tuple(checks.whole("shape", n, 0) for n in shape)
                empty = None if self.dtype is None else np.zeros((1, *self.shape), self.dtype)
            except DomainError:
                raise
            except (TypeError, ValueError) as why:
                raise DomainError(f"dtype, shape: {why}") from None
            if self.dtype is not None and self.dtype.hasobject:
                raise DomainError(f"dtype is {self.dtype}: expected one without Python objects")
            self._entries = _Entries(empty)
        self._step(f"dtype={self.dtype}, shape={self.shape}", tried.error)

    @property
    def n_here(self) -> int:
        return len(self._entries.row)

    @property
    def nbytes(self) -> int:
        return self._entries.nbytes

    def update(
        self,
        ids: ArrayLike,
        local: ArrayLike | None = None,
        *,
        owner: ArrayLike | None = None,
        data: NDArray[Any] | None = None,
    ) -> None:
        """Add ids, or change their entries.  Collective.

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

        Raises
        ------
        DuplicateKeyError
            An id is given twice.  Nothing has changed on any rank.
        """
        key = np.zeros(0, np.int64)
        values: tuple[Any, ...] = ()
        with Attempt() as tried:
            key = checks.integers("ids", ids, np.int64)
            values = self._values(len(key), local, owner, data)
        self._step("update()" + (", with data" if data is not None else ""), tried.error)
        plan = self._plan(key)
        here, who, number, *more = plan.forward(key, *values)
        entries = self._entries
        rows = new = key[:0]
        with Attempt() as tried:
            order = np.argsort(here, kind="stable")
            again = order[1:][here[order[1:]] == here[order[:-1]]]
            if len(again):
                at = int(again.min())
                a, b = int(plan.source[np.argmax(here == here[at])]), int(plan.source[at])
                where = f"by rank {a}" if a == b else f"by rank {a} and rank {b}"
                raise DuplicateKeyError(f"id {here[at]} is given twice, {where}")
            rows, new = entries.add(here)
        try:
            self._step("update(), second half", tried.error)
        except Exception:
            entries.drop(new)
            raise
        entries.owner[rows], entries.local[rows] = who, number
        if more and entries.data is not None:
            entries.data[rows] = more[0]

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

        n = 2 if self.dtype is None else 3
        came = plan.answer(n, lambda: self._entries.find(here))
        entries = Found(*came, *([None] if self.dtype is None else []))
        if not missing:
            with Attempt() as tried:
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
            self._check_known(here, self._entries.row.find(here))
        self._step("remove(), second half", tried.error)
        self._entries.drop(here)

    def ids(self) -> I64:
        """Return the ids whose entries this rank stores, ascending."""
        return np.sort(self._entries.row.ids())

    # ---- internals -----------------------------------------------------------------------------

    def _values(
        self, n: int, local: ArrayLike | None, owner: ArrayLike | None, data: Any
    ) -> tuple[Any, ...]:
        """Check owner, local id and user data of n ids, and fill in the defaults."""
        number = np.arange(n) if local is None else checks.integers("local", local, np.int64)
        who = np.full(n, self.rank, np.int32)
        if owner is not None:
            given = checks.integers("owner", np.atleast_1d(owner), np.int32)
            who[:] = given if given.shape in ((n,), (1,)) else _shape("owner", given, n)
        if n and not 0 <= who.min() <= who.max() < self.size:
            worst = who[(who < 0) | (who >= self.size)][0]
            raise OutOfRangeError(f"owner has {worst}: expected 0 ... {self.size - 1}")
        if number.shape != (n,):
            _shape("local", number, n)
        if data is None:
            return who, number
        if self.dtype is None:
            raise DomainError("data is given: expected none, because the directory has no dtype")
        rows = np.ascontiguousarray(checks.array("data", data, self.dtype))
        if rows.shape != (n, *self.shape):
            raise DomainError(f"data has shape {rows.shape}: expected {(n, *self.shape)}")
        return who, number, rows

    def _check_known(self, key: I64, owner: I32) -> None:
        absent = np.flatnonzero(owner < 0)
        if len(absent):
            more = f", and {len(absent) - 1} more" if len(absent) > 1 else ""
            raise UnknownKeyError(f"id {key[absent[0]]} is not in the directory{more}")

    def _plan(self, key: I64) -> Plan:
        return Plan.on(self._agreement, lambda: _core.home(key, self.size))

    def _step(self, words: str, error: Exception | None = None) -> None:
        self._agreement.agree(Step.DIRECTORY, words, error)

    def __repr__(self) -> str:
        kind = "" if self.dtype is None else f", data {self.dtype} {self.shape}"
        return f"<Directory: {self.n_here} entries on rank {self.rank} of {self.size}{kind}>"


def _shape(name: str, array: NDArray[Any], n: int) -> Any:
    raise DomainError(f"{name} has shape {array.shape}: expected ({n},), one for each id")


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
    SerializationError
        An object cannot be pickled or restored.  Every error is raised on every rank.

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
            if not isinstance(value, list | tuple) and not (
                isinstance(value, np.ndarray) and value.ndim
            ):
                raise DomainError(
                    f"array {i} is a {type(value).__name__}: expected an array or list"
                )
            if len(value) != n:
                raise DomainError(f"array {i} has {len(value)} rows: expected {n}")
            checks.without_mask(f"array {i}", value)
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
