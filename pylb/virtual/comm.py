"""Ranks as greenlets, of which one runs at a time, each with its own virtual time.

A rank runs until it has to wait for another one.  The next one to run is the rank that has been
ready for the longest time; in a tie, the lowest rank.  So the order is the same in every run.
While a rank runs, its virtual time grows by the time of the clock, divided by the rank's speed.
After a wait, its time is at least that of the event for which the rank waited."""

from __future__ import annotations

import contextvars
import gc
import operator
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from greenlet import getcurrent, greenlet
from numpy.typing import ArrayLike

from pylb import _core
from pylb.errors import DeadlockError, DomainError, OutOfRangeError, StateError, by_rank
from pylb.model import checks
from pylb.model.network import Network
from pylb.model.snapshot import F64

SOURCES: dict[str, Callable[[], float]] = {
    "cpu": time.thread_time,
    "wall": time.perf_counter,
    "none": lambda: 0.0,
}
OBJECTS = 50  # Python collects garbage when each rank has made about this number of objects
Doing = str | Callable[[], str]  # the call in which a rank waits, or a function that returns it


class Ended(BaseException):
    """Ends a rank after a deadlock or another's error; ``except Exception`` does not catch it."""


class Ticket:
    """An event for which ranks wait."""

    def __init__(self) -> None:
        # After the event: the virtual time at which each rank can continue.
        self.at: Mapping[int, float] | None = None
        self.waiting: list[VirtualRank] = []


class VirtualRank:
    """One virtual rank; `pace` is its virtual seconds per second of the clock."""

    def __init__(self, number: int, pace: float):
        self.number, self.pace = number, pace
        self.now = 0.0  # virtual time when the rank most recently stopped running
        self.doing: Doing = ""
        self.ended = False
        self.result: Any = None  # return value of the program on this rank
        self.life: Any = None  # the greenlet that runs this rank

    def where(self) -> str:
        doing = self.doing() if callable(self.doing) else self.doing
        return "has ended" if self.ended else f"waits in {doing}"


_here: contextvars.ContextVar[tuple[Scheduler, VirtualRank] | None] = contextvars.ContextVar(
    "the virtual rank that runs", default=None
)


@contextmanager
def outer_clock() -> Iterator[None]:
    """Let a block use the thread's clock; its time still counts for the virtual rank that runs."""
    here = _here.get()
    if here is None:
        yield
        return
    scheduler, rank = here
    now, source = _core.clock_leave(), SOURCES[scheduler.source]
    start = source()
    try:
        yield
    finally:
        now += rank.pace * (source() - start)
        _core.clock_enter(scheduler.source, now, rank.pace)


class Scheduler:
    """Decides which rank runs; `paces` has each rank's pace, and `source` is the clock's name."""

    def __init__(self, paces: list[float], source: str):
        self.ranks = [VirtualRank(i, pace) for i, pace in enumerate(paces)]
        self.source = source
        # The first error of a rank, or a deadlock; it ends all ranks.
        self.failure: BaseException | None = None
        self.ready = deque(self.ranks)
        self.running: VirtualRank | None = None

    def run(self, program: Callable[[int], Any]) -> list[Any]:
        """Run ``program(rank)`` on every rank; return the results, or raise the first error."""
        usual = gc.get_threshold()
        gc.set_threshold(usual[0] and max(usual[0], OBJECTS * len(self.ranks)), *usual[1:])
        try:
            with outer_clock():
                for rank in self.ranks:
                    rank.life = greenlet(self._run_rank)
                    rank.life.gr_context = contextvars.copy_context()
                while self.ready and self.failure is None:
                    self.running = self.ready.popleft()
                    self.running.life.switch(self.running, program)
                alive = [rank for rank in self.ranks if not rank.ended]
                if alive and self.failure is None:
                    words = by_rank(rank.where() for rank in self.ranks)
                    self.failure = DeadlockError(f"no rank can continue: {words}")
                for rank in alive:
                    self.running = rank
                    if rank.life:  # false: the greenlet has not begun
                        rank.life.throw(Ended)
        finally:
            gc.set_threshold(*usual)
        if self.failure is not None:
            raise self.failure
        return [rank.result for rank in self.ranks]

    def _run_rank(self, rank: VirtualRank, program: Callable[[int], Any]) -> None:
        _here.set((self, rank))
        try:
            _core.clock_enter(self.source, rank.now, rank.pace)
            rank.result = program(rank.number)
        except Ended:
            pass
        except BaseException as why:
            if self.failure is None:
                if sys.version_info >= (3, 11):
                    why.add_note(f"on virtual rank {rank.number} of {len(self.ranks)}")
                self.failure = why
        rank.now = _core.clock_leave()
        rank.ended = True

    # ---- waiting and events ------------------------------------------------------------------

    def check(self, number: int) -> None:
        """Raise StateError unless the program of this rank, and no other one, makes the call."""
        rank = self.running
        if rank is None or rank.number != number or rank.life is not getcurrent():
            expected = "expected the call within the function that VirtualCluster.run calls for it"
            raise StateError(
                f"virtual rank {number} communicates outside its own program: {expected}"
            )

    def wait(self, ticket: Ticket, doing: Doing) -> None:
        """Let other ranks run until the ticket's event has happened."""
        rank = self.running
        assert rank is not None
        if self.failure is not None:
            raise Ended
        rank.now = _core.clock_leave()
        if ticket.at is None:
            rank.doing = doing
            ticket.waiting.append(rank)
            getcurrent().parent.switch()
        assert ticket.at is not None
        _core.clock_enter(self.source, max(rank.now, ticket.at[rank.number]), rank.pace)

    def happen(self, ticket: Ticket, at: Mapping[int, float]) -> None:
        """Let all ranks that wait for this event continue."""
        ticket.at = at
        self.ready.extend(sorted(ticket.waiting, key=lambda rank: rank.number))


# ---- the communicator: mpi4py's lower-case methods, in virtual time -----------------------------


Finish = Callable[[list[Any], list[float]], tuple[list[Any], list[float]]]


class Meeting(Ticket):
    """A collective call: (call, value, time) of each rank that has called it, by rank."""

    def __init__(self) -> None:
        super().__init__()
        self.here: dict[int, tuple[str, Any, float]] = {}
        self.results: list[Any] = []


class World:
    """The data that the ranks of one communicator share."""

    def __init__(self, scheduler: Scheduler, network: Network):
        self.scheduler, self.network = scheduler, network
        self.size = len(scheduler.ranks)
        # Rounds of a collective call: the depth of a binary tree of the ranks.
        self.rounds = (self.size - 1).bit_length()
        self.meetings: dict[int, Meeting] = {}  # calls that not all ranks have reached
        self.sent: dict[tuple[int, int, int], deque[tuple[bytes, float]]] = {}
        self.awaited: dict[tuple[int, int, int], Ticket] = {}

    def together(self, times: list[float], nbytes: int = 0) -> list[float]:
        """Return the time when a collective call ends, for each rank, if all wait for the last."""
        return [max(times) + self.rounds * self.network.seconds(1, nbytes)] * len(times)


class VirtualComm:
    """The communicator that `VirtualCluster` gives to each virtual rank.

    It has mpi4py's methods for Python objects.  Messages are pickled, so the receiver always gets a
    copy.  A send does not wait for the receive.

    Examples
    --------
    >>> def main(comm):
    ...     comm.elapse(0.5 * comm.rank)  # seconds of work
    ...     return comm.allreduce(comm.rank), comm.time
    >>> pylb.VirtualCluster(2, clock="none", network=(0, 0)).run(main)
    [(1, 0.5), (1, 0.5)]
    """

    def __init__(self, world: World, rank: int):
        self.world, self._turn = world, 0
        #: Values that other code attaches to the communicator, like MPI's attributes.
        self.attributes: dict[str, Any] = {}
        self.rank, self.size = rank, world.size
        self.speed = 1.0 / world.scheduler.ranks[rank].pace  #: Speed of this rank.

    def Get_rank(self) -> int:
        """Number of this rank."""
        return self.rank

    def Get_size(self) -> int:
        """Number of ranks."""
        return self.size

    @property
    def network(self) -> Network:
        """The cost of messages."""
        return self.world.network

    @property
    def time(self) -> float:
        """Virtual seconds of this rank since the start."""
        return _core.clock()

    def elapse(self, seconds: float) -> None:
        """Let as much virtual time pass as this rank needs, at most 1e9 s, for some work.

        `seconds` is the work in seconds on a rank of speed 1.
        """
        work = checks.seconds("seconds", seconds, 1e9 * self.speed)
        _core.clock_declare(work / self.speed)

    # ---- point to point ----------------------------------------------------------------------

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Send an object, without waiting for the receive."""
        world, way = self.world, (self.rank, self._rank(dest, "dest"), tag)
        data = _pickle(obj)
        world.scheduler.check(self.rank)
        _core.clock_declare(world.network.seconds(1, len(data)))
        at = _core.clock()  # it arrives when its sender has finished sending
        world.sent.setdefault(way, deque()).append((data, at))
        ticket = world.awaited.pop(way, None)
        if ticket is not None:
            world.scheduler.happen(ticket, {way[1]: at})

    def recv(self, source: int, tag: int = 0) -> Any:
        """Wait for the next object from `source` with that tag, and return it."""
        world, way, ticket = self.world, (self._rank(source, "source"), self.rank, tag), Ticket()
        world.scheduler.check(self.rank)
        queue = world.sent.setdefault(way, deque())
        if queue:
            ticket.at = {self.rank: queue[0][1]}
        else:
            world.awaited[way] = ticket
        world.scheduler.wait(ticket, f"recv(source={way[0]}, tag={tag})")
        return pickle.loads(queue.popleft()[0])

    def sendrecv(
        self, sendobj: Any, dest: int, sendtag: int = 0, *, source: int, recvtag: int = 0
    ) -> Any:
        """Send an object and receive another one."""
        self.send(sendobj, dest, sendtag)
        return self.recv(source, recvtag)

    # ---- collective --------------------------------------------------------------------------

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.meet("barrier()", b"", lambda values, times: (values, self.world.together(times)))

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """Return the root's object on all ranks."""
        root = self._rank(root, "root")

        def finish(values: list[bytes], times: list[float]) -> Any:
            data = values[root]
            here = times[root] + self.world.rounds * self.network.seconds(1, len(data))
            return [data] * self.size, [max(here, t) for t in times]

        data = _pickle(obj) if self.rank == root else b""
        data = self.meet(f"bcast(root={root})", data, finish)
        return obj if self.rank == root else pickle.loads(data)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the objects of all ranks, on every rank."""
        return [pickle.loads(data) for data in self.allgather_bytes(_pickle(sendobj))]

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, on every rank."""
        return self._gather_to("allgather()", data, range(self.size))

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return the objects of all ranks on the root, and None on the other ranks."""
        root = self._rank(root, "root")
        values = self._gather_to(f"gather(root={root})", _pickle(sendobj), [root])
        return [pickle.loads(data) for data in values] if self.rank == root else None

    def _gather_to(self, call: str, data: bytes, to: Sequence[int]) -> list[bytes]:
        """Return the bytes of all ranks; only the ranks `to` wait for them in virtual time."""

        def finish(values: list[bytes], times: list[float]) -> Any:
            world = self.world
            end = max(times) + world.network.seconds(world.rounds, sum(map(len, values)))
            return [values] * self.size, [end if r in to else t for r, t in enumerate(times)]

        return self.meet(call, data, finish)  # type: ignore[no-any-return]

    def scatter(self, sendobj: Any = None, root: int = 0) -> Any:
        """Give each rank one of the root's `size` objects."""
        root = self._rank(root, "root")
        whole = None
        if self.rank == root:
            whole = [_pickle(obj) for obj in sendobj]
            if len(whole) != self.size:
                raise DomainError(f"sendobj has {len(whole)} objects: expected {self.size}")

        def finish(values: list[Any], times: list[float]) -> Any:
            world, parts = self.world, values[root]
            here = times[root] + world.network.seconds(world.rounds, sum(map(len, parts)))
            return parts, [max(here, t) for t in times]

        return pickle.loads(self.meet(f"scatter(root={root})", whole, finish))

    def allreduce(self, sendobj: Any, op: Callable[[Any, Any], Any] = operator.add) -> Any:
        """Return the objects of all ranks combined by `op`, in order of the ranks."""

        def finish(values: list[bytes], times: list[float]) -> Any:
            data = _pickle(reduce(op, map(pickle.loads, values)))
            return [data] * self.size, self.world.together(times, len(data))

        return pickle.loads(self.meet("allreduce()", _pickle(sendobj), finish))

    def reduce(
        self, sendobj: Any, op: Callable[[Any, Any], Any] = operator.add, root: int = 0
    ) -> Any:
        """Return the objects of all ranks combined by `op`, on the root."""
        values = self.gather(sendobj, root)
        return None if values is None else reduce(op, values)

    def meet(self, call: str, value: Any, finish: Finish, doing: Doing = "") -> Any:
        """Take part in a collective call with `value`, and wait for all ranks.

        When the last rank has come, ``finish(values, times)`` returns the result for each rank, and
        when it can continue.  `doing` says what the rank waits for (default: `call`).
        """
        self._turn += 1
        world, rank, turn = self.world, self.rank, self._turn
        world.scheduler.check(rank)
        meeting = world.meetings.get(turn)
        if meeting is None:
            meeting = world.meetings[turn] = Meeting()
        meeting.here[rank] = call, value, _core.clock()
        if len(meeting.here) == self.size:
            del world.meetings[turn]
            columns = zip(*(meeting.here.pop(r) for r in range(self.size)), strict=True)
            calls, values, times = map(list, columns)
            if len(set(calls)) > 1:
                raise StateError(f"ranks are in different calls: {by_rank(calls)}")
            meeting.results, at = finish(values, times)
            world.scheduler.happen(meeting, dict(enumerate(at)))
        world.scheduler.wait(meeting, doing or call)
        return meeting.results[rank]

    def duplicate(self) -> VirtualComm:
        """Make a separate communicator of the same ranks.  Collective."""

        def finish(values: list[Any], times: list[float]) -> Any:
            world = World(self.world.scheduler, self.world.network)
            return [VirtualComm(world, r) for r in range(self.size)], self.world.together(times)

        return self.meet("duplicate()", None, finish)  # type: ignore[no-any-return]

    def _rank(self, rank: int, name: str) -> int:
        number = operator.index(rank)
        if not 0 <= number < self.size:
            raise OutOfRangeError(f"{name} is {rank}: expected 0 ... {self.size - 1}")
        return number

    Barrier, Dup = barrier, duplicate

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"VirtualComm has no {name!r}: it has mpi4py's send, recv, sendrecv, barrier, Barrier, "
            "bcast, scatter, gather, allgather, reduce, allreduce, Get_rank, Get_size and Dup"
        )

    def __repr__(self) -> str:
        return f"<VirtualComm: rank {self.rank} of {self.size}>"


def _pickle(obj: Any) -> bytes:
    return pickle.dumps(obj, protocol=5)


CLUSTER = Network(alpha=1e-6, beta=1e-10)  # seconds per message and per byte of a typical cluster
MOST_RANKS = 10_000


class VirtualCluster:
    """A parallel machine of `n_ranks` virtual ranks in this process.

    ``cluster.run(main)`` calls ``main(comm)`` on every rank, like ``mpiexec -n p``.  One rank runs
    at a time, in an order that is the same in every run, until it waits.  Each rank has its own
    virtual time, which passes while the rank runs, so loads, waits and iteration times are those of
    p processors.  Ranks share the global variables of the process, e.g. those of modules.

    Parameters
    ----------
    n_ranks : int
        Number of ranks, up to 10,000; each is a greenlet.
    speed : array_like, (n_ranks,), optional
        Speed of each rank; at speed 2 the same work takes half the time.  Default: all 1.
    network : (alpha, beta)
        Seconds per message and per byte.  A message occupies its sender for
        alpha + beta * bytes seconds, and then arrives; but objects that move during an iteration
        (``Balancer(overlap=True)``) occupy no rank.  A collective call begins when the last rank
        has called it (bcast and scatter: when the root has).  It takes alpha for each level of a
        binary tree of the ranks, and beta for each byte on each level (gather, reduce, allgather
        and scatter: for each byte of all ranks).
    clock : {"cpu", "wall", "none"}
        How virtual time passes.  "cpu": by the rank's processor time; "wall": by the wall clock;
        "none": only by messages and by ``comm.elapse(seconds)`` in the program, so that all times
        are the same in every run.

    Examples
    --------
    >>> def main(comm):
    ...     comm.elapse(1.0 + comm.rank)  # seconds of work
    ...     return comm.allgather(comm.time)
    >>> pylb.VirtualCluster(2, clock="none").run(main)[0]
    [1.0, 2.0]
    """

    def __init__(
        self,
        n_ranks: int,
        *,
        speed: ArrayLike | None = None,
        network: tuple[float, float] = CLUSTER,
        clock: str = "cpu",
    ) -> None:
        below = MOST_RANKS + 1
        self.n_ranks = checks.whole("n_ranks", n_ranks, 1, "a number of ranks", below=below)
        self.speed: F64 = checks.vector(
            "speed", [1.0] * self.n_ranks if speed is None else speed, self.n_ranks
        )
        for bad in self.speed[~(np.isfinite(self.speed) & (self.speed > 0))][:1]:
            raise DomainError(f"speed has {bad:g}: expected finite numbers above 0")
        self.network = Network.of(network)
        if max(self.network) >= 1e9:
            expected = "expected seconds per message and per byte, below 1e9"
            raise DomainError(f"network is {network}: {expected}")
        checks.one_of("clock", clock, tuple(SOURCES))
        self.clock = clock
        #: (n_ranks,) virtual time at which each rank ended in the most recent run.
        self.seconds: F64 = np.zeros(self.n_ranks)

    def run(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Run ``main(comm, *args, **kwargs)`` on every rank; return the results by rank.

        The first error of a rank ends all ranks and is raised; from Python 3.11 on, a note names
        the rank.  A DeadlockError says what each rank waits for.
        """
        if not callable(main):
            raise DomainError(f"main is {main!r}: expected a function, main(comm)")
        scheduler = Scheduler((1.0 / self.speed).tolist(), self.clock)
        world = World(scheduler, self.network)
        try:
            return scheduler.run(lambda rank: main(VirtualComm(world, rank), *args, **kwargs))
        finally:
            self.seconds = np.array([rank.now for rank in scheduler.ranks])

    def __repr__(self) -> str:
        return f"<VirtualCluster: {self.n_ranks} ranks, clock {self.clock!r}, {self.network}>"
