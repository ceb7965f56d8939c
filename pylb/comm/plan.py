"""Communication plans: which items go to which rank; built once and used often."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.connect import agreement_of
from pylb.comm.exchange import LOWEST_TAG, TAGS, exchanger_of
from pylb.comm.parcel import exchange_objects
from pylb.comm.sides import partners, rows_of, shares, sized
from pylb.comm.transport import AnyLane, Sends, Side, Sides
from pylb.errors import DomainError, PylbError, SerializationError, StateError
from pylb.model import checks
from pylb.model.snapshot import I32, I64


class Plan:
    """A communication plan: item i of this rank goes to rank ``destination[i]``.

    It is built once, collectively, and used often, also in reverse.  A rank sends messages only to
    ranks for which it has items, even while the plan is built.

    Parameters
    ----------
    comm : mpi4py communicator, VirtualComm or None
        None: one rank.
    destination : (n,) array_like of int
        A rank for each item, in any order; possibly this rank.  Ascending ranks avoid a copy.

    Attributes
    ----------
    n_items, n_received : int
        Number of items of this rank, and number of items that it receives.
    source : (n_received,) int32
        The rank that sent each received item.  The received items are sorted by this rank; items of
        one rank keep their order.  In a plan of `plan_between`, they are in the order of `want`.
    sizes, received_sizes : (n_items,), (n_received,) int64 or None
        Number of rows of each item; None: one row each (see `resize`).
    agreement : Agreement

    Raises
    ------
    OutOfRangeError, DomainError
        A destination is not a rank, or not an integer; every rank raises.

    Examples
    --------
    >>> def main(comm):  # of the two items of this rank, one goes to each rank
    ...     return pylb.Plan(comm, [0, 1]).forward(np.array([1.0, 2.0]) + 10 * comm.rank)
    >>> pylb.VirtualCluster(2).run(main)
    [array([ 1., 11.]), array([ 2., 12.])]
    """

    def __init__(self, comm: Any, destination: ArrayLike) -> None:
        self._build(agreement_of(comm), destination)

    @classmethod
    def on(cls, agreement: Agreement, destination: ArrayLike) -> Plan:
        """Make a plan on the ranks of an agreement."""
        self = cls.__new__(cls)
        self._build(agreement, destination)
        return self

    def _build(self, agreement: Agreement, destination: ArrayLike) -> None:
        transport = agreement.transport
        route: Any = None
        with Attempt() as tried:
            to = integers("destination", destination, np.int32)
            route = _core.route(to, transport.size)
        sends: Sends = []
        counts: dict[int, int] = {}
        if tried.error is None:
            rank, start, order = route
            counts = dict(zip(rank.tolist(), np.diff(start).tolist(), strict=True))
            sends = [(r, [np.int64(n).tobytes()]) for r, n in counts.items() if r != transport.rank]
        _, received = agreement.step(Step.PLAN, 0, sends=sends, error=tried.error)
        come = {source: int(np.frombuffer(n, np.int64)[0]) for source, (n,) in received}
        if transport.rank in counts:
            come[transport.rank] = counts[transport.rank]
        ranks = np.array(sorted(come), np.int32)
        starts = np.cumsum([0, *(come[r] for r in ranks.tolist())], dtype=np.int64)
        self._set(agreement, Side(rank, start, order), Side(ranks, starts), len(to), starts[-1])

    def _set(self, agreement: Agreement, out: Side, into: Side, n: int, m: int) -> None:
        self.agreement, self._out, self._into = agreement, out, into
        self.n_items, self.n_received = int(n), int(m)
        self.sizes: I64 | None = None
        self.received_sizes: I64 | None = None
        self._simple = self  # the plan with one row per item: this one, or the one that was resized
        self._repeats = False  # whether an item goes to several ranks
        self._exchanger = exchanger_of(agreement)
        agreement.plans += 1
        self._number = agreement.plans
        # Lanes not in use, by direction, dtype and shape of a row, and whether answers are summed.
        self._lanes: dict[Any, AnyLane] = {}
        self._last: dict[str, AnyLane] = {}  # the lane that `_short` uses, by direction

    @classmethod
    def answering(cls, asked: Plan, index: I32, n_items: int) -> Plan:
        """Make a plan that answers the requests which ranks have sent with another plan.

        Parameters
        ----------
        asked : Plan
            The plan whose items are the requests.
        index : (asked.n_received,) int32
            For each received request, the index of the requested item of this rank.
        n_items : int
            Number of items of this rank.
        """
        self = cls.__new__(cls)
        theirs = asked._into
        out = Side(theirs.rank, theirs.start, index)
        self._set(asked.agreement, out, asked._out, n_items, asked.n_items)
        self._repeats = len(np.unique(index)) < len(index)
        return self

    # ---- partners ------------------------------------------------------------------------------

    @property
    def source(self) -> I32:
        return partners(self._simple._into, self.n_received)

    @property
    def send_ranks(self) -> I32:
        """Ranks to which this rank sends, ascending."""
        return self._out.rank

    @property
    def receive_ranks(self) -> I32:
        """Ranks from which this rank receives, ascending."""
        return self._into.rank

    # ---- use -----------------------------------------------------------------------------------

    def forward(self, *values: Any, out: NDArray[Any] | None = None) -> Any:
        """Send each item to its destination.

        Collective over ranks that exchange items; if objects are sent, or ranks are virtual, over
        all ranks.

        Parameters
        ----------
        *values : (n_items, ...) ndarray, or list of n_items
            Arrays of any dtype, also structured; dtype and shape of a row are the same on all
            ranks.  Lists, and arrays of objects, are pickled.  A rank without items passes an
            empty array if the others pass arrays, and an empty list if they pass lists.
        out : (n_received, ...) ndarray, optional
            Receives the result, if there is a single array.  It shares no memory with this array.

        Returns
        -------
        (n_received, ...) ndarray, or list; a tuple of them for several values
            The received items, in the order of `source`.

        Raises
        ------
        DomainError, SerializationError
            An array does not have one row per item, or `out` has the wrong shape or dtype, or
            shares memory with the array; an object cannot be pickled or restored.
        StateError
            A partner has failed, uses a different plan, dtype or shape, or passes a list where this
            rank passes an array.  (On virtual ranks: the partner's error; DomainError if the plan,
            dtype or shape differs.)
        """
        answer = self._short("forward", values, out)
        return self.begin(*values, out=out).wait() if answer is None else answer

    def reverse(self, *values: Any, out: NDArray[Any] | None = None, add: bool = False) -> Any:
        """Send an answer for each received item back to the rank that sent the item.

        Collective over the same ranks as `forward`.

        Parameters
        ----------
        *values : (n_received, ...) ndarray, or list
        out : (n_items, ...) ndarray, optional
            Receives the result.  Items that were sent to no rank keep their value; without `out`,
            they are zero.
        add : bool
            Add up the answers for an item that went to several ranks (see `plan_between`).  With
            `out`, the answers are added to the values in `out`, which may be the array itself.

        Returns
        -------
        (n_items, ...) ndarray, or list; a tuple of them for several values

        Raises
        ------
        DomainError, SerializationError, StateError
            As in `forward`; StateError also if an item went to several ranks and `add` is False.
        """
        answer = None if add else self._short("reverse", values, out)
        return self.begin_reverse(*values, out=out, add=add).wait() if answer is None else answer

    def begin(self, *values: Any, out: NDArray[Any] | None = None) -> Pending:
        """Begin a `forward`; the result's ``.wait()`` ends it.  Change no array until then."""
        return self._begin("forward", values, out, False)

    def begin_reverse(
        self, *values: Any, out: NDArray[Any] | None = None, add: bool = False
    ) -> Pending:
        """Begin a `reverse`; ``.wait()`` of the returned object completes it."""
        return self._begin("reverse", values, out, add)

    def resize(self, sizes: ArrayLike) -> Plan:
        """Return a plan with the same destinations, for items of several rows each.  Collective.

        Parameters
        ----------
        sizes : (n_items,) array_like of int
            Number of rows of each item.  The returned plan takes arrays with the rows of all items,
            one item after the other; ``received_sizes`` has the number of rows of each received
            item.

        Raises
        ------
        DomainError
            A size is negative, or `sizes` does not have one entry for each item.
        """
        simple = self._simple
        out, into = simple._out, simple._into
        plan = Plan.__new__(type(self))
        plan._set(self.agreement, out, into, self.n_items, self.n_received)
        with Attempt() as tried:
            mine = checked_rows("sizes", integers("sizes", sizes, np.int64), self.n_items)
            if mine.size and mine.min() < 0:
                raise DomainError(f"sizes[{mine.argmin()}] is {mine.min()}: expected 0 or more")
        if tried.error is not None:
            self._exchanger.fail(simple._sides("forward"), tried.error)
        theirs: I64 = simple.forward(mine)
        plan.sizes, plan.received_sizes = mine, theirs
        plan._simple, plan._repeats = simple, simple._repeats
        plan._out, plan._into = sized(out, mine), sized(into, theirs)
        return plan

    # ---- internals -----------------------------------------------------------------------------

    def _sides(self, direction: str) -> Sides:
        if direction == "forward":
            return Sides(self._out, self.n_items, self._into, self.n_received)
        return Sides(self._into, self.n_received, self._out, self.n_items)

    def _begin(
        self, direction: str, values: tuple[Any, ...], out: NDArray[Any] | None, add: bool
    ) -> Pending:
        sides = self._sides(direction)
        rows: list[Any] = []
        lanes: list[tuple[Any, AnyLane | None]] = []  # (key, lane) for each value; objects: None
        with Attempt() as tried:
            if not values or (out is not None and len(values) > 1):
                raise DomainError(f"{len(values)} arrays: expected 1 or more; with out=, exactly 1")
            rows = [_value(f"array {i}", v, sides) for i, v in enumerate(values)]
            if direction == "reverse":
                self._check_repeats(add, rows)
            if out is not None:
                _check_out(out, rows[0], sides, add)
            lanes = [self._lane(direction, sides, value, add) for value in rows]
        objects = [i for i, value in enumerate(values) if _are_objects(value)]
        if tried.error is not None and not objects:
            # each array is an exchange of its own, for which the partners wait
            self._exchanger.fail(sides, tried.error, max(len(values), 1))
        # Objects first: if one rank has failed, all ranks raise here, while no array is under way.
        ready = {i: self._objects(direction, i, rows, sides, tried.error) for i in objects}
        pending = Pending(len(values) != 1)
        for i, (key, lane) in enumerate(lanes):
            if lane is None:
                pending.parts.append(ready[i])
                continue
            if not lane.begin(rows[i], None if add or out is None else out.view(np.ndarray)):
                raise StateError("the buffers of this plan do not fit the rows, or are in use")
            pending.parts.append(PendingRows(self, key, lane, rows[i], out))
        return pending

    def _check_repeats(self, add: bool, values: list[Any]) -> None:
        kinds = {"O" if isinstance(value, list) else value.dtype.kind for value in values}
        if add and not kinds <= set("biufcm"):  # m: time differences
            raise DomainError("add is True: expected arrays of numbers")
        if self._repeats and not add:
            raise StateError("an item went to several ranks: expected add=True")

    def _lane(self, direction: str, sides: Sides, rows: Any, add: bool) -> tuple[Any, Any]:
        """Return a lane for an array, and its key; the lane is an old one or a new one."""
        if isinstance(rows, list):
            return None, None
        key = direction, rows.dtype, rows.shape[1:], add
        lane = self._lanes.pop(key, None)
        if lane is None:
            tag = self._tag(f"{direction} {rows.dtype.descr} {rows.shape[1:]}")
            if add:  # the rows stay in the order of the ranks that sent them; `total` adds them up
                sides = sides._replace(into=Side(*sides.into[:2]), n_into=sides.into.n_rows)
            lane = self._exchanger.lane(sides, rows, tag)
        return key, lane

    def _tag(self, words: str) -> int:
        """Return the tag of an exchange; words: what must be the same on all ranks."""
        return LOWEST_TAG + zlib.crc32(f"{self._number} {words}".encode()) % TAGS

    def _short(self, direction: str, values: tuple[Any, ...], out: Any) -> Any:
        """Exchange rows by the most recent lane; return the result, or None if no lane fits."""
        lane = self._last.get(direction)
        return lane.move(values[0], out) if lane is not None and len(values) == 1 else None

    def give_back(self, key: Any, lane: AnyLane) -> None:
        """Keep a lane whose exchange has ended, for later exchanges."""
        self._lanes[key] = lane
        if not key[-1] and not self._repeats:
            self._last[key[0]] = lane

    def total(self, came: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
        """Return the sum of the answers for each item; if `out` is given, add them to `out`."""
        side = self._out
        if out is None:
            out = np.zeros((side.n_own(self.n_items), *came.shape[1:]), came.dtype)
        which: Any = slice(None)
        if side.order is not None:
            which = side.order if side.offset is None else rows_of(side.order, side.offset)
        np.add.at(out, which, came)
        return out

    def _objects(
        self, direction: str, i: int, rows: list[Any], sides: Sides, error: Exception | None
    ) -> Ready:
        """Exchange the objects `rows[i]`; if this rank has an error, all ranks raise it."""
        with Attempt() as met:  # a partner that passes an array would not come to the step
            self._exchanger.meet(sides, self._tag(f"{direction} objects {i}"))

        failed = error or met.error

        def pieces() -> dict[int, list[Any]]:
            if failed is not None:
                raise failed
            return shares(rows[i], sides.out)

        came = exchange_objects(
            *(self.agreement, Step.OBJECTS, 0, pieces),
            pack=_pack,
            unpack=_unpack,
            restored=Step.OBJECTS,
        ).values
        there = sides.into
        arrived = [item for r in there.rank.tolist() for item in came[r]]
        if there.order is None:
            return Ready(arrived)
        answer: list[Any] = [None] * sides.n_into
        for i, item in zip(there.order.tolist(), arrived, strict=True):
            answer[i] = item
        return Ready(answer)

    def __repr__(self) -> str:
        sized = "" if self.sizes is None else "; items have their own numbers of rows"
        return (
            f"<Plan: sends {self.n_items} items to {len(self.send_ranks)} ranks, "
            f"receives {self.n_received} from {len(self.receive_ranks)}{sized}>"
        )


def _pack(piece: list[Any]) -> parcel.Parts:
    try:
        return parcel.pack(piece)
    except Exception as why:
        raise SerializationError(f"an item {parcel.not_pickled(why)}") from why


def _unpack(parts: parcel.Parts) -> Any:
    try:
        return parcel.unpack(parts)
    except Exception as why:
        raise SerializationError(
            f"an item cannot be restored: {type(why).__name__}: {why}"
        ) from why


class Ready(NamedTuple):
    """A value that has arrived."""

    value: Any

    def wait(self) -> Any:
        return self.value


class PendingRows(NamedTuple):
    """An exchange, under way, of the rows of one array."""

    plan: Plan
    key: Any
    lane: AnyLane
    rows: NDArray[Any]
    out: NDArray[Any] | None

    def wait(self) -> NDArray[Any]:
        came = self.lane.wait()
        add = self.key[-1]
        self.plan.give_back(self.key, self.lane)
        came = self.plan.total(came, self.out) if add else came
        return came if self.out is None else self.out


class Pending:
    """An exchange that has begun; returned by `Plan.begin` and `Plan.begin_reverse`.

    Examples
    --------
    >>> pylb.Plan(comm, [0, 0]).begin(np.array([1.0, 2.0])).wait()
    array([1., 2.])
    """

    def __init__(self, several: bool) -> None:
        self.parts: list[Ready | PendingRows] = []
        self._several = several
        self._answers: list[Any] = []
        self._error: Exception | None = None

    def wait(self) -> Any:
        """Wait, and return the result, as `Plan.forward` or `Plan.reverse` does."""
        while self.parts:  # also after an error: all their messages are under way
            with Attempt(PylbError) as tried:
                self._answers.append(self.parts[0].wait())
            self._error = self._error or tried.error
            del self.parts[0]
        if self._error is not None:
            raise self._error
        return tuple(self._answers) if self._several else self._answers[0]


# ---- arguments -----------------------------------------------------------------------------------


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


def _are_objects(value: Any) -> bool:
    return isinstance(value, list | tuple) or (
        isinstance(value, np.ndarray) and value.dtype.hasobject
    )


def _value(name: str, value: Any, sides: Sides) -> Any:
    """Return `value` as a contiguous array (the rows of all items) or as a list of objects."""
    side, n = sides.out, sides.n_out
    checks.without_mask(name, value)
    if isinstance(value, np.ndarray) and not _are_objects(value):
        return np.ascontiguousarray(checked_rows(name, value, side.n_own(n)))
    if _are_objects(value) and getattr(value, "ndim", 1) == 1:
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
