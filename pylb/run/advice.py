"""The advice of an Advisor, and the blocks that it times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core
from pylb.comm.addresses import rows_to
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.plan import Pending, Plan, checked_rows, own_rows
from pylb.console import count
from pylb.errors import DomainError, StateError
from pylb.model import checks
from pylb.model.snapshot import I32, I64
from pylb.run.lb_step import Placed


class Block:
    """Timed blocks of the program, ``with block: ...``; their times are added up.

    A block that raises an error does not count.
    """

    def __init__(self, watch: Stopwatch, name: str, clock: str) -> None:
        self._watch, self._name, self.clock = watch, name, clock  # as for `_core.load_clock`
        self.seconds, self.n = 0.0, 0  # sum of the times, and number of blocks, since `take`
        self._began = 0.0

    def __enter__(self) -> None:
        self._watch.check_closed(f"{self._name}()")
        self._watch.open = self._name
        self._began = _core.load_clock(self.clock)

    def __exit__(self, kind: object, *error: object) -> None:
        now = _core.load_clock(self.clock)
        if kind is None:
            self.add(max(now - self._began, 0.0))  # the clock may have been set back
        self._watch.open = ""

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.n += 1

    def take(self) -> float:
        """Return the seconds, and forget the blocks."""
        seconds, self.seconds, self.n = self.seconds, 0.0, 0
        return seconds

    @property
    def used(self) -> bool:
        """Whether a block has ended since the last `take`."""
        return self.n > 0


class Redistribution(Block):
    """The timed blocks of a redistribution, which do not count as work of the step."""

    under_way = 0  # number of migrations that have begun and not ended
    hidden = 0.0  # seconds outside the blocks while migrations were under way
    _went_on = 0.0  # clock time at the end of the last block
    _worked = 0.0  # at the beginning of the block, by the clock of the work

    def __enter__(self) -> None:
        super().__enter__()
        if self.under_way:
            self.hidden += max(_core.clock() - self._went_on, 0.0)
        self._worked = _core.load_clock(self._watch.work.clock)

    def __exit__(self, kind: object, *error: object) -> None:
        super().__exit__(kind, *error)
        self._went_on = _core.clock()
        if kind is None:
            self._watch._worked += _core.load_clock(self._watch.work.clock) - self._worked

    def take(self) -> float:
        self.under_way, self.hidden = 0, 0.0
        return super().take()


class Stopwatch:
    """Times the blocks of an advisor and its whole steps."""

    def __init__(self, clock: str) -> None:
        self.open = ""  # name of the block that is open, or empty
        self.clock = _core.Clock(clock)  # for `Advisor.seconds`; the same clock as that of `work`
        self.work = Block(self, "timed", clock)  # this rank's work in the step
        self.move = Redistribution(self, "rebalancing", "wall")
        self.parts: dict[str, float] = {}  # seconds of work in each phase of the step
        self.inside = ""  # the present phase, or "" outside the phases
        self.resume()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Begin the phase `name` of the step: what is timed within it counts for this phase."""
        self.check_closed("phase()")
        checks.phase(name, self.inside, self.parts)
        self.check_outside(name)
        self.inside, began = name, _core.load_clock(self.work.clock)
        try:
            yield
        finally:
            self.inside = ""
            if self.measures and not self.work.used:  # nothing was timed: the whole block is work
                self.work.add(max(_core.load_clock(self.work.clock) - began, 0.0))
            self.parts[name] = self.parts.get(name, 0.0) + self.work.take()

    def check_outside(self, phase: str = "") -> None:
        """Raise DomainError if the step has phases, and work was timed outside the phases."""
        if self.work.used and (self.parts or phase):
            what = f"{self.work.seconds:.3g} s were timed outside the phases"
            raise DomainError(f"{what}: expected timed() only in `with lb.phase(name)`")

    def end_step(self) -> None:
        """Forget the work of the step."""
        self.work.take()
        self.parts = {}

    def check_closed(self, what: str) -> None:
        """Raise StateError for the call `what` within a block."""
        if self.open:
            raise StateError(f"{what} inside a {self.open}() block: expected it after the block")

    @property
    def measures(self) -> bool:
        """Whether the clock shows the work of a step even if the program times no blocks."""
        return self.work.clock.startswith("mpi")

    def use(self, clock: str) -> None:
        """Measure the work by this clock from now on."""
        self.work.clock = clock
        self.clock.use(clock)

    def resume(self) -> None:
        """Begin to time a step."""
        self._resumed = _core.clock() - self.move.seconds
        self._delayed = _core.run_delay()
        self._worked = _core.load_clock(self.work.clock)  # when the work of the step began

    def worked(self) -> float:
        """Return the seconds of work since `resume`."""
        return max(_core.load_clock(self.work.clock) - self._worked, 0.0)

    def shared(self, began: float, seconds: float) -> None:
        """Count the work of a `share` call: it began at `began` and computed for `seconds`."""
        if self.measures:  # count only this work, not the whole call
            self.work.seconds += seconds
            self._worked += self.clock.seconds() - began
        else:
            self.work.add(seconds)

    def elapsed(self) -> tuple[float, float]:
        """Return the seconds of the step without redistribution, and of waits that are no work."""
        waits = self.work.clock.endswith("wall")
        delay = 0.0 if waits else max(_core.run_delay() - self._delayed, 0.0)
        return max(_core.clock() - self._resumed - self.move.seconds, 0.0), delay


class Advice:
    """The result of `Advisor.advise` if the program should rebalance now; its truth value is True.

    If the program gives no cells (see "when only" in `Advisor`), the advice has no new ranks: the
    program redistributes its data in its own way.

    Examples
    --------
    >>> def main(comm):  # the cells of rank 1 take longer
    ...     lb, ids = pylb.Advisor(comm, every=1), np.arange(4) + 4 * comm.rank
    ...     for step in lb.iterate(2):
    ...         if plan := lb.advise(loads=1.0 + 2.0 * (ids > 3), keys=ids):
    ...             new = plan.rank
    ...             pending = plan.migrate_begin(ids)  # or at once: ids = plan.migrate(ids)
    ...             ids = pending.wait()
    ...     return new, ids
    >>> pylb.VirtualCluster(2).run(main)[1]
    (array([0, 1, 0, 1], dtype=int32), array([1, 3, 5, 7]))
    """

    def __init__(
        self,
        agreement: Agreement,
        watch: Stopwatch,
        step: int,
        part: Placed | None = None,
        n: int = 0,
        ahead: bool = False,
    ) -> None:
        self._agreement, self._watch, self._part = agreement, watch, part
        self.here = agreement.transport.rank
        self.step = step  #: The step after which the advice was given.
        #: (n,) new rank of each cell of this rank, in the order of the arrays that `advise` was
        #: given; None without cells.
        self.rank: I32 | None = None
        if part is not None:
            self.rank = np.full(n, self.here, np.int32)
            self.rank[part.moves.places] = part.moves.to
        #: Number of cells that move, over all ranks, and their bytes (as given to `advise`).
        self.migrations = 0 if part is None else part.migrations
        self.nbytes = 0 if part is None else part.nbytes
        self.over = False  # whether the next step (with `ahead`: the one after it) has ended
        self.ahead = ahead  # whether the data may move during the next step
        self.late = False  # with `ahead`: whether the next step has ended
        self._plan: Plan | None = None  # the communication plan of `migrate`; None: not made yet
        self.moves: list[Migration] = []  # migrations that have begun and not ended

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        how = "in the program's own way" if self.rank is None else f"{self.migrations} cells move"
        return f"<Advice: rebalance after step {self.step}, {how}>"

    @cached_property
    def exports(self) -> dict[int, I64]:
        """Indices of the cells that leave this rank, grouped by their new rank."""
        moves = self._cells("exports").moves
        return self._by_rank(moves.to, moves.places)

    @cached_property
    def imports(self) -> dict[int, I64]:
        """Keys of the cells that come to this rank, grouped by their old rank; each group ascends.

        If `advise` was given no keys, the key of a cell is its index on its old rank, plus 2**32
        times that rank.
        """
        part = self._cells("imports")
        return self._by_rank(part.source, part.keys)

    def _by_rank(self, rank: I32, values: I64) -> dict[int, I64]:
        groups = rows_to(rank, self._agreement.transport.size, (values,))
        return {r: rows[:, 0] for r, rows in groups.items()}

    def migrate(self, *values: Any, offset: ArrayLike | None = None) -> Any:
        """Move data of the cells to their new ranks.  Collective.

        The time of this call is part of the cost of the LB step, also outside the block
        ``lb.rebalancing()``.

        Parameters
        ----------
        *values : (n, ...) ndarray, or list of n
            One row or item for each cell, in the order of the arrays that `advise` was given:
            arrays of any dtype, the same on all ranks, or lists of Python objects, which are
            pickled.
        offset : (n + 1,) array of int, optional
            For cells with several rows each: the rows of cell i are ``offset[i]`` to
            ``offset[i + 1] - 1`` of each array.

        Returns
        -------
        array or list, or a tuple of them
            The rows or items of the cells that are now on this rank, sorted by their old rank; the
            cells of one rank keep their order.  With `offset`, the new offsets come last.
        """
        return self._begin("migrate", values, offset).end()

    def migrate_begin(self, *values: Any, offset: ArrayLike | None = None) -> Migration:
        """Begin a `migrate`; ``wait()`` of the result ends it.  Collective.

        The program may compute in between.  It may change the rows of cells that stay: ``wait()``
        returns their new values.  It must not change the rows of cells that leave.  Several
        migrations may be under way; each must end before the next ``advise()``, or, if the advice
        came from ``advise(ahead=True)``, before the ``advise()`` after that.  Parameters are those
        of `migrate`.
        """
        begun = self._begin("migrate_begin", values, offset)
        self.moves.append(begun)
        self._watch.move.under_way += 1
        return begun

    @contextmanager
    def timed(self, ends: bool = False) -> Iterator[None]:
        """Count the time of a block, in which a migration `ends`, as part of the LB step's cost."""
        if self._watch.open == "rebalancing":  # counts already
            yield
        else:
            with self._watch.move:
                yield
        self._watch.move.under_way -= ends

    def _begin(self, name: str, values: tuple[Any, ...], offset: ArrayLike | None) -> Migration:
        self._cells(f"{name}()")
        if self.over:
            what = f"{name}(): the plan is of step {self.step}, and a later step has ended"
            raise StateError(f"{what}: expected {name}() before the next advise()")
        assert self.rank is not None
        rank = self.rank
        sizes: I64 | None = None
        with self.timed():
            with Attempt() as tried:
                if not values:
                    raise DomainError(f"{name}() without values: expected at least one array")
                if offset is not None:
                    sizes = _sizes(offset, len(rank))
                n = len(rank) if sizes is None else int(sizes.sum())
                for i, value in enumerate(values):
                    if isinstance(value, np.ndarray if sizes is not None else (np.ndarray, list)):
                        checked_rows(f"array {i}", value, n)
            form = f"{name}({count(len(values), 'array')}{', offset' * (offset is not None)})"
            self._agreement.agree(Step.OBJECTS, form, tried.error)
            if self._plan is None:
                self._plan = Plan(self._agreement, lambda: rank)
            plan = self._plan if sizes is None else self._plan.resize(sizes)
            return Migration(self, plan, values)

    def _cells(self, what: str) -> Placed:
        if self._part is None:
            raise StateError(f"{what}: the plan has no cells, because advise() was given none")
        return self._part

    def was_carried_out(self, keys_before: I64 | None, keys: I64 | None) -> bool | None:
        """Return whether this rank has followed the advice; None: not known.

        It has if at least half of the cells that should leave this rank are gone, or, if no cell
        should leave, at least half of the cells that should come are here.
        """
        if self._part is None or keys_before is None or keys is None:
            return None
        leave = keys_before[self._part.moves.places]
        done = ~np.isin(leave, keys) if len(leave) else np.isin(self._part.keys, keys)
        return bool(2 * np.count_nonzero(done) >= len(done)) if len(done) else None


class Migration:
    """Data of cells on their way; returned by `Advice.migrate_begin`.

    Examples
    --------
    >>> lb = pylb.Advisor(comm, every=1, strategy=lambda snapshot: [0, 0])
    >>> if plan := lb.advise(loads=[1.0, 2.0]):
    ...     pending = plan.migrate_begin(np.arange(2))
    >>> print(plan)  # on one rank nothing moves
    None
    """

    def __init__(self, advice: Advice, plan: Plan, values: tuple[Any, ...]) -> None:
        self._advice, self._plan, self._values = advice, plan, values
        self._pending: Pending | None = plan.begin(*values)

    def wait(self) -> Any:
        """Return what `Advice.migrate` returns.  Collective."""
        if self._pending is None:
            raise StateError("wait(): this migration has ended already: expected one wait()")
        self._advice.moves.remove(self)
        return self.end(takes_own=True)

    def end(self, takes_own: bool = False) -> Any:
        """End the migration.  With `takes_own`, rows that stay get their present values."""
        pending, self._pending = self._pending, None
        assert pending is not None
        with self._advice.timed(ends=takes_own):
            came = pending.wait()
            if takes_own:
                to, rows = own_rows(self._plan)
                every = came if isinstance(came, tuple) else (came,)
                for new, value in zip(every, self._values, strict=True):
                    array = isinstance(value, np.ndarray)
                    new[to] = value[rows] if array else [value[i] for i in rows]
        self._values = ()
        if self._plan.received_sizes is None:
            return came
        offset = np.concatenate([[0], np.cumsum(self._plan.received_sizes)])
        return (*came, offset) if isinstance(came, tuple) else (came, offset)


def _sizes(offset: ArrayLike, n: int) -> I64:
    """Return the number of rows of each of n cells."""
    starts = checks.vector("offset", offset, n + 1)
    whole = (starts == np.rint(starts)) & (starts < 2**53)
    bad = np.flatnonzero(~(whole & (starts == np.maximum.accumulate(starts))))
    for i in [0] if starts[0] != 0 else bad[:1].tolist():
        expected = f"a whole number, not less than offset[{i - 1}]" if i else "0"
        raise DomainError(f"offset[{i}] is {starts[i]:g}: expected {expected}")
    return np.diff(starts).astype(np.int64)
