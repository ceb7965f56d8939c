"""Communication plans: which items go to which rank; built once and used often."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.comm import parcel
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.connect import agreement_of
from pylb.comm.parcel import exchange_objects
from pylb.comm.transport import Side, Sides
from pylb.errors import DomainError, PylbError, StateError
from pylb.model import checks
from pylb.model.snapshot import I32, I64


def sized(side: Side, sizes: I64) -> Side:
    """Return `side` for items of several rows each; item i has ``sizes[i]`` rows."""
    offset = np.cumsum(np.append(0, sizes))
    # take: if there is no memory, an index in brackets may crash in NumPy
    ends = np.cumsum(np.append(0, sizes if side.order is None else np.take(sizes, side.order)))
    return Side(side.rank, np.take(ends, side.start), side.order, offset)


def rows_of(index: I32, offset: I64) -> I64:
    """Return the indices of all rows of the items `index`, one item after the other."""
    sizes = np.diff(offset)[index]
    ends = np.cumsum(sizes)
    out: I64 = np.repeat(offset[index] - ends + sizes, sizes) + np.arange(
        ends[-1] if len(ends) else 0
    )
    return out


def travelling(side: Side) -> Any:
    """Return the indices of the rows of all items, in the order in which they travel."""
    if side.order is None or side.offset is None:
        return slice(None) if side.order is None else side.order
    return rows_of(side.order, side.offset)


def places(side: Side) -> dict[int, slice]:
    """Return where the rows of each partner are in the message buffer."""
    start = side.start.tolist()
    return {r: slice(a, b) for r, a, b in zip(side.rank.tolist(), start, start[1:], strict=False)}


def _raise(error: Exception) -> NoReturn:
    raise error


class Pending:
    """An exchange that has begun; returned by `Plan.begin` and `Plan.begin_reverse`.

    Examples
    --------
    >>> pylb.Plan(comm, [0, 0]).begin(np.array([1.0, 2.0])).wait()
    array([1., 2.])
    """

    def __init__(self, agreement: Agreement, several: bool = False) -> None:
        self._agreement, self._several = agreement, several
        self.parts: list[Callable[[], Any]] = []  # functions; each ends the exchange of one value
        self.met = False  # whether a partner passes a list where this rank passes an array
        self._answers: list[Any] = []
        self._error: Exception | None = None

    def wait(self) -> Any:
        """Wait for the exchange; return the same values as `Plan.forward` or `Plan.reverse`."""
        self.drop()
        if self._error is not None:
            raise_where_partners_wait(self._agreement, self._error, self.met)
        return tuple(self._answers) if self._several else self._answers[0]

    def drop(self) -> None:
        """Wait for all parts, even after an error, because their messages are under way."""
        while self.parts:
            with Attempt() as tried:
                self._answers.append(self.parts[0]())
            self._error = self._error or tried.error
            del self.parts[0]


def raise_where_partners_wait(agreement: Agreement, error: Exception, met: bool) -> NoReturn:
    """Raise `error`; if `met`, also on the ranks that pass lists and wait for this rank."""
    if met:
        agreement.step(Step.OBJECTS, 0, error=error)
    raise error


LOWEST_TAG, TAGS = 2, 32766  # lowest tag of an exchange, number of tags (csrc/comm/comm.h)


class StepExchanger:
    """Makes the lanes between the ranks of one communicator; they use collective steps."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> StepLane:
        """Return a lane for rows with the dtype and shape of those of `like`."""
        return StepLane(self.agreement, sides, tag)

    def tell(self, sides: Sides, error: Exception) -> bool:
        """Raise an error in the step in which the partners exchange rows.

        Over MPI, report it to the partners; return whether a partner exchanges objects.
        """
        self.agreement.step(Step.EXCHANGE, 0, error=error)
        return False

    def meet(self, sides: Sides, tag: int) -> StepLane:
        """Begin to check that all partners exchange objects, too; if not, `wait` raises."""
        # no message is necessary: all exchanges are collective steps, which compare their kinds
        return StepLane(self.agreement, sides, tag)


class StepLane:
    """Sends rows in one direction of a plan, any number of times, by collective steps."""

    unlike = ()  # ranks that have just exchanged objects where this one sent rows, or vice versa
    _answer: NDArray[Any] = np.empty((0, 0))

    def __init__(self, agreement: Agreement, sides: Sides, tag: int) -> None:
        self._agreement, self._sides, self._tag = agreement, sides, tag

    def begin(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> bool:
        """Exchange the rows; return whether this lane fits them (over MPI: and is not in use)."""
        here, _, there, m = self._sides
        send = rows[travelling(here)]
        came = np.empty((there.n_rows, *rows.shape[1:]), rows.dtype)
        places_here, places_there = places(here), places(there)
        me = self._agreement.transport.rank
        if me in places_here:
            came[places_there[me]] = send[places_here[me]]
        sends = [(rank, [_raw(send[at])]) for rank, at in places_here.items() if rank != me]
        words = (self._tag, f"another plan, direction, dtype or shape (fingerprint {self._tag})")
        _, received = self._agreement.step(Step.EXCHANGE, 0, words, sends=sends)
        for source, (piece,) in received:
            _raw(came[places_there[source]])[:] = np.frombuffer(piece, np.uint8)
        shape = (there.n_own(m), *rows.shape[1:])
        self._answer = np.zeros(shape, rows.dtype) if out is None else out
        self._answer[travelling(there)] = came
        return True

    def wait(self) -> NDArray[Any]:
        """Wait for the received rows; return `out` of `begin` or a new array."""
        return self._answer

    def move(self, rows: NDArray[Any], out: NDArray[Any] | None, /) -> NDArray[Any] | None:
        """Do `begin` and `wait`, and return the received rows; None: the caller must do both."""
        return None


def _raw(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.zeros(0, np.uint8)


def are_objects(value: Any) -> bool:
    return isinstance(value, list | tuple) or (
        isinstance(value, np.ndarray) and value.dtype.hasobject
    )


def _value(name: str, value: Any, side: Side, n: int) -> Any:
    """Return `value`, of n items, as a contiguous array of all rows, or as a list of objects."""
    checks.without_mask(name, value)
    if isinstance(value, np.ndarray) and not are_objects(value):
        return np.ascontiguousarray(checked_rows(name, value, side.n_own(n)))
    if are_objects(value) and getattr(value, "ndim", 1) == 1:
        if side.offset is not None:
            raise DomainError(f"{name} holds objects: expected numbers, because the plan has sizes")
        return list(checked_rows(name, value, n))
    raise DomainError(f"{name} is a {type(value).__name__}: expected an ndarray or a list")


def checked_rows(name: str, value: Any, n: int) -> Any:
    shape = getattr(value, "shape", None)
    if shape == () or len(value) != n:
        rows = "no rows" if shape == () else f"{len(value)} rows"
        raise DomainError(f"{name} has {rows}: expected {n}")
    return value


def _check_out(out: Any, rows: Any, sides: Sides, add: bool) -> None:
    if isinstance(rows, list) or not isinstance(out, np.ndarray):
        raise DomainError("out is given: expected that out and the values are arrays, not lists")
    shape = (sides.into.n_own(sides.n_into), *rows.shape[1:])
    right = out.shape == shape and out.dtype == rows.dtype
    if not right or not out.flags.c_contiguous or not out.flags.writeable:
        raise DomainError(
            f"out has dtype {out.dtype}, shape {out.shape}: expected a contiguous, writeable array "
            f"with dtype {rows.dtype}, shape {shape}"
        )
    if not add and np.may_share_memory(out, rows):
        raise DomainError("out shares memory with the array that is sent: expected another array")


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

    Examples
    --------
    >>> def main(comm):  # of the two items of this rank, one goes to each rank
    ...     return pylb.Plan(comm, [0, 1]).forward(np.array([1.0, 2.0]) + 10 * comm.rank)
    >>> pylb.VirtualCluster(2).run(main)
    [array([ 1., 11.]), array([ 2., 12.])]
    """

    def __init__(self, comm: Any, destination: ArrayLike | Callable[[], ArrayLike]) -> None:
        agreement = agreement_of(comm)
        out: list[Side] = []
        n = 0

        def counts() -> dict[int, int]:
            nonlocal n
            given = destination
            if agreement is comm and callable(given):  # only pylb's own callers give a function
                given = given()
            to = checks.integers("destination", given, np.int32)
            n = len(to)
            out.append(Side(*_core.route(to, agreement.transport.size)))
            return {r: at.stop - at.start for r, at in places(out[0]).items()}

        come = exchange_objects(agreement, Step.PLAN, 0, counts)
        ranks = np.array(sorted(come), np.int32)
        starts = np.cumsum([0, *(come[r] for r in ranks.tolist())], dtype=np.int64)
        self._set(agreement, out[0], Side(ranks, starts), n, starts[-1])

    def _set(self, agreement: Agreement, out: Side, into: Side, n: int, m: int) -> None:
        self.agreement, self._out, self._into = agreement, out, into
        self.n_items, self.n_received = int(n), int(m)
        self.sizes: I64 | None = None
        self.received_sizes: I64 | None = None
        self._simple = self  # the plan with one row per item: this one, or the one that was resized
        self._repeats = False  # whether an item goes to several ranks
        self._exchanger = agreement.transport.exchanger() or StepExchanger(agreement)
        agreement.plans += 1
        self._number = agreement.plans
        # Free lanes, by direction, dtype and shape of a row, and whether answers are added up.
        self._lanes: dict[Any, StepLane] = {}
        self._last: dict[str, StepLane] = {}  # the lane that `_short` uses, by direction

    @classmethod
    def answering(cls, asked: Plan, index: I32, n_items: int) -> Plan:
        """Make a plan that answers the requests which another plan has sent.

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

    @property
    def source(self) -> I32:
        into = self._simple._into
        out = np.empty(self.n_received, np.int32)
        out[travelling(into)] = np.repeat(into.rank, np.diff(into.start))
        return out

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
            ranks, also on ranks without items.  Lists, and arrays of objects, are pickled.
        out : (n_received, ...) ndarray, optional
            Receives the result, if there is a single array.  It shares no memory with this array.

        Returns
        -------
        (n_received, ...) ndarray, or list; a tuple of them for several values
            The received items, in the order of `source`.

        Raises
        ------
        DomainError, SerializationError
            `values` or `out` does not fit; an object cannot be pickled or restored.
        StateError
            A partner has failed, uses a different plan, dtype or shape, or passes a list where this
            rank passes an array.  (On virtual ranks, the partner's error or DomainError.)
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
        answer = None if add is not False else self._short("reverse", values, out)
        return self.begin_reverse(*values, out=out, add=add).wait() if answer is None else answer

    def begin(self, *values: Any, out: NDArray[Any] | None = None) -> Pending:
        """Begin a `forward`; the result's ``.wait()`` ends it.  Change no array until then."""
        return self._begin("forward", values, out, False)

    def begin_reverse(
        self, *values: Any, out: NDArray[Any] | None = None, add: bool = False
    ) -> Pending:
        """Begin a `reverse`; ``.wait()`` of the returned object completes it."""
        return self._begin("reverse", values, out, add)

    def answer(self, make: Callable[[], NDArray[Any]]) -> Any:
        """Do a `reverse` with the array of ``make()``; if that fails, tell the waiting partners."""
        with Attempt() as tried:
            rows = make()
        if tried.error is not None:
            met = self._exchanger.tell(self._sides("reverse"), tried.error)
            raise_where_partners_wait(self.agreement, tried.error, met)
        return self.reverse(rows)

    def resize(self, sizes: ArrayLike) -> Plan:
        """Return a plan with the same destinations, for items of several rows each.  Collective.

        Parameters
        ----------
        sizes : (n_items,) array_like of int
            Number of rows of each item.  The returned plan takes arrays with the rows of all items,
            one item after the other; ``received_sizes`` has the number of rows of each received
            item.
        """
        simple = self._simple

        def outgoing() -> tuple[I64, Side]:
            rows = checked_rows("sizes", checks.integers("sizes", sizes, np.int64), self.n_items)
            if rows.size and rows.min() < 0:
                raise DomainError(f"sizes[{rows.argmin()}] is {rows.min()}: expected 0 or more")
            return rows.copy(), sized(simple._out, rows)

        def incoming() -> tuple[I64, Side]:
            received = simple.forward(rows)
            return received, sized(simple._into, received)

        rows, out = self.agreement.together(Step.PLAN, outgoing)
        received, into = self.agreement.together(Step.PLAN, incoming)
        plan = Plan.__new__(type(self))
        plan._set(self.agreement, out, into, self.n_items, self.n_received)
        plan.sizes, plan.received_sizes = rows, received
        plan._simple, plan._repeats = simple, simple._repeats
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
        lanes: list[tuple[Any, StepLane | None]] = []  # (key, lane) for each value; objects: None
        with Attempt() as tried:
            if not values or (out is not None and len(values) > 1):
                raise DomainError(f"{len(values)} arrays: expected 1 or more; with out=, exactly 1")
            rows = [_value(f"array {i}", value, *sides[:2]) for i, value in enumerate(values)]
            if out is not None:
                _check_out(out, rows[0], sides, add)
            if direction == "reverse":
                checks.flag("add", add)
                kinds = {"O" if isinstance(value, list) else value.dtype.kind for value in rows}
                if add and not kinds <= set("biufcm"):  # m: time differences
                    raise DomainError("add is True: expected arrays of numbers")
                if self._repeats and not add:
                    raise StateError("an item went to several ranks: expected add=True")
            lanes = [self._lane(direction, sides, value, add) for value in rows]
        objects = [i for i, value in enumerate(values) if are_objects(value)]
        error = tried.error
        pending = Pending(self.agreement, len(values) != 1)
        meetings: list[StepLane] = []
        for i in range(max(len(values), 1)):  # one exchange per value, with or without an error
            with Attempt(MemoryError) as tried:
                if i in objects:
                    tag = self._tag(f"{direction} objects", True)
                    meetings.append(self._exchanger.meet(sides, tag))
                    pending.parts.append(lambda: None)  # replaced below
                elif error is None:
                    key, lane = lanes[i]
                    assert lane is not None
                    into = None if out is None or add else out.view(np.ndarray)
                    if not lane.begin(rows[i], into):
                        raise StateError("the plan's buffers do not fit the rows, or are in use")
                    pending.parts.append(partial(self._end_rows, pending, key, lane, out))
            if len(pending.parts) == i:
                error = error or tried.error
                assert error is not None
                pending.met |= self._exchanger.tell(sides, error)
                pending.parts.append(partial(_raise, error))
        if error is not None and not objects:
            pending.wait()  # raises the error
        with Attempt() as tried:
            missed = _wait_for_partners(meetings, sides)
            error = error or missed
            for i in objects:
                pending.parts[i] = partial(list, self._objects(rows, i, sides, error))
        if tried.error is not None:
            pending.drop()
            raise tried.error
        return pending

    def _end_rows(
        self, pending: Pending, key: Any, lane: StepLane, out: NDArray[Any] | None
    ) -> NDArray[Any]:
        try:
            came = lane.wait()
        finally:
            pending.met |= bool(lane.unlike)
        # Keep a lane whose exchange has ended, for later exchanges.
        self._lanes[key] = lane
        if not key[-1] and not self._repeats:
            self._last[key[0]] = lane
        if key[-1]:  # add up the answers for each item
            side = self._out
            if out is None:
                out = np.zeros((side.n_own(self.n_items), *came.shape[1:]), came.dtype)
            np.add.at(out, travelling(side), came)
        return came if out is None else out

    def _lane(self, direction: str, sides: Sides, rows: Any, add: bool) -> tuple[Any, Any]:
        """Return the key and a lane for an array; make the lane if none is free."""
        if isinstance(rows, list):
            return None, None
        key = direction, rows.dtype, rows.shape[1:], add
        lane = self._lanes.pop(key, None)
        if lane is None:
            tag = self._tag(f"{direction} {rows.dtype.descr} {rows.shape[1:]}", False)
            if add:  # the rows stay in the order of the ranks that sent them, to be added up
                sides = sides._replace(into=Side(*sides.into[:2]), n_into=sides.into.n_rows)
            lane = self._exchanger.lane(sides, rows, tag)
        return key, lane

    def _tag(self, words: str, objects: bool) -> int:
        """Return the tag of an exchange from `words`, which must be the same on all ranks."""
        number = zlib.crc32(f"{self._number} {words}".encode()) % (TAGS // 2)
        return LOWEST_TAG + 2 * number + objects

    def _short(self, direction: str, values: tuple[Any, ...], out: Any) -> Any:
        """Exchange rows by the most recent lane; return the result, or None if no lane fits."""
        lane = self._last.get(direction)
        if lane is None or len(values) != 1:
            return None
        try:
            return lane.move(values[0], out)
        except MemoryError:  # no message was sent: `begin` tries again, and tells the partners
            return None
        except PylbError as why:
            raise_where_partners_wait(self.agreement, why, bool(lane.unlike))

    def _objects(self, rows: list[Any], i: int, sides: Sides, error: Exception | None) -> list[Any]:
        """Exchange the objects ``rows[i]``; if a rank has an error, all ranks raise."""

        def pieces() -> dict[int, list[Any]]:
            if error is not None:
                raise error
            order = sides.out.order
            ordered = rows[i] if order is None else [rows[i][k] for k in order.tolist()]
            return {rank: ordered[at] for rank, at in places(sides.out).items()}

        came = exchange_objects(
            *(self.agreement, Step.OBJECTS, 0, pieces),
            pack=partial(parcel.tried, "an item cannot be pickled", parcel.pack),
            unpack=partial(parcel.tried, "an item cannot be restored", parcel.unpack),
            restored=Step.OBJECTS,
        )
        there = sides.into
        arrived = [item for r in there.rank.tolist() for item in came[r]]
        if there.order is None:
            return arrived
        answer: list[Any] = [None] * sides.n_into
        for i, item in zip(there.order.tolist(), arrived, strict=True):
            answer[i] = item
        return answer

    def __repr__(self) -> str:
        sized = "" if self.sizes is None else "; items have their own numbers of rows"
        return (
            f"<Plan: sends {self.n_items} items to {len(self.send_ranks)} ranks, "
            f"receives {self.n_received} from {len(self.receive_ranks)}{sized}>"
        )


def own_rows(plan: Plan) -> tuple[slice, I64]:
    """Return where the rows that this rank sends to itself are: in the result, in the values."""
    me, out, into = plan.agreement.transport.rank, plan._out, plan._into
    (here,), (there,) = np.nonzero(out.rank == me), np.nonzero(into.rank == me)
    if not len(here):
        return slice(0), np.zeros(0, np.int64)
    k, to = int(here[0]), slice(*into.start[there[0] :][:2].tolist())
    items: Any = np.arange(*plan._simple._out.start[k : k + 2])
    if out.order is not None:
        items = out.order[items]
    return to, items if out.offset is None else rows_of(items, out.offset)


def _wait_for_partners(meetings: list[StepLane], sides: Sides) -> Exception | None:
    """Wait until all partners exchange objects; return an error to report in the next step."""
    error = None
    unlike: set[int] = set()
    for meeting in meetings:
        with Attempt() as tried:
            meeting.wait()
        error = error or tried.error
        unlike.update(meeting.unlike)
    # a partner that exchanges rows, and gets no message of this rank, does not come to that step
    if error is not None and not unlike <= set(sides.out.rank.tolist()):
        raise error
    return error
