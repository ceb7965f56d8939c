"""The transport over MPI, on a duplicate of the user's communicator."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb import _core, optional
from pylb.comm import program_end
from pylb.comm.agreement import Agreement, Attempt
from pylb.comm.cores import Cores
from pylb.comm.transport import QUICK, Memory, Sends, Sides, Transferred, Transport
from pylb.errors import DomainError, MPIError
from pylb.model import checks
from pylb.model.machine import Machine
from pylb.model.network import Network, measure_network

TIMES, TRANSFERS = 10, 2  # how often a collective step and a transfer are measured
PAUSE = 20e-6  # seconds between two checks whether messages have arrived
MOST = 1 << 22  # bytes: `price` measures a transfer of at most this size
T = TypeVar("T")
_keyval: Any = None  # key of the MPI attribute in which a communicator keeps its Agreement
# Without mpi4py, of each communicator; that it is kept here keeps its `id`.
_known: dict[Any, tuple[Any, Agreement]] = {}


def agreement_on(comm: Any) -> Agreement:
    """Do what `pylb.comm.connect.agreement_of` does, for a communicator of MPI."""
    global _keyval
    program_end.watch_job()
    has_handle = any(hasattr(comm, name) for name in ("Get_rank", "py2f", "handle"))
    if not has_handle and not (isinstance(comm, str) and comm == "world"):
        raise DomainError(
            f"comm is {comm!r}: expected a communicator of mpi4py, or of another module, with a "
            "method py2f() or an attribute handle; 'world'; or None"
        )
    native = optional.require("MPI")
    mpi = _mpi_of(native)
    number = native.number_of(comm)
    if not hasattr(mpi, "Comm"):
        key = comm if isinstance(comm, str) else id(comm)
        if key not in _known:
            program_end.watch(mpi)
            transport = NativeTransport(native, native.Comm(comm))
            _known[key] = comm, program_end.ExitingAgreement(transport)
        return _known[key][1]
    if not isinstance(comm, mpi.Comm):
        comm = mpi.Comm.f2py(number)
    if _keyval is None:
        # MPI calls this function when the user frees the communicator
        _keyval = mpi.Comm.Create_keyval(delete_fn=lambda comm, key, agreement: agreement.free())
    known = comm.Get_attr(_keyval)
    if isinstance(known, Agreement):
        return known
    if comm.size > 1:
        program_end.watch(mpi)
    agreement = program_end.ExitingAgreement(MPITransport(native, comm))
    comm.Set_attr(_keyval, agreement)
    return agreement


def _mpi_of(native: Any) -> Any:
    """Return mpi4py's MPI, or without mpi4py what `program_end` needs; check that it runs."""
    if "mpi4py.MPI" in sys.modules or native.Is_initialized():
        try:
            mpi: Any = importlib.import_module("mpi4py.MPI")
        except (ImportError, RuntimeError):  # RuntimeError: mpi4py finds no MPI library
            checks.mpi_runs(native)
            rank, size = native.world()
            world = SimpleNamespace(rank=rank, size=size, Abort=native.Abort)
            return SimpleNamespace(COMM_WORLD=world, Is_finalized=native.Is_finalized)
        who, versions = "mpi4py", [optional.first_line(mpi.Get_library_version())]
    else:  # the program has started another MPI, or none; importing mpi4py would start one
        mpi, who, versions = native, "the program", optional.loaded_mpi()
    ours = optional.first_line(native.library_version())
    for theirs in set(versions) - {ours}:
        raise MPIError(
            f"pylb was built with {ours!r}, {who} uses {theirs!r}; rebuild pylb with that MPI's "
            f"compiler: MPICC=mpicc {optional.rebuild()}"
        )
    checks.mpi_runs(mpi)
    return mpi


class NativeTransport(Transport):
    """The transport on a duplicate of a communicator, without mpi4py; it measures no network."""

    def __init__(self, module: Any, native: Any) -> None:
        self._module, self._native, self.comm = module, native, native
        self.rank, self.size = native.rank, native.size
        # `step` does `begin` and `wait`; ``wait(s)`` returns None if it has waited for s seconds.
        for name in ("step", "begin", "wait", "bcast", "allgather", "reduction"):
            setattr(self, name, getattr(native, name))
        self._exchanger: MPIExchanger | None = None

    @property
    def pending(self) -> bool:
        """Whether a step has begun and is not complete."""
        return self._native.pending  # type: ignore[no-any-return]

    def died(self) -> list[int]:
        """Return the ranks that have died; [] if none has, or if this MPI does not know."""
        return []

    def exchanger(self) -> MPIExchanger:
        self._exchanger = self._exchanger or MPIExchanger(self._module, self.comm)
        return self._exchanger

    def machine(self) -> Machine:
        return Machine.measure(self.comm, seconds=QUICK)

    def cores(self) -> Cores:
        known = self.allgather(_core.cores())
        # either all ranks store the answer or none: otherwise only some would call this again
        return self._prepared(lambda: Cores.of(known, self.rank))

    def _prepared(self, make: Callable[[], T]) -> T:
        """Return what ``make()`` allocates; if one rank has no memory, all raise MemoryError."""
        with Attempt(MemoryError) as tried:
            out = make()
        if b"" in self.allgather(b"" if tried.error is not None else b"ready"):
            raise tried.error or MemoryError("another rank has no memory")
        return out

    def free(self) -> None:
        """Free the MPI objects.  Collective."""
        if self._exchanger is not None:
            self._exchanger.native.free()
        self._native.free()


class MPITransport(NativeTransport):
    """The transport on a duplicate, `comm`, of an mpi4py communicator.  Do not free it."""

    overlaps = True

    def __init__(self, module: Any, comm: Any) -> None:
        super().__init__(module, module.Comm(comm))
        self.comm = type(comm).f2py(self._native.py2f())

    def died(self) -> list[int]:
        try:
            failed = self.comm.Get_failed()
        except (AttributeError, NotImplementedError, RuntimeError):
            # no ULFM in this version of mpi4py, in this MPI or in this run
            return []
        ranks = failed.Translate_ranks(None, self.comm.Get_group())
        return sorted(ranks)

    def transfer(self, sends: Sends, into: Memory, /) -> Transfer:
        return Transfer(self.comm, sends, into)

    def network(self) -> Network:
        return measure_network(self.comm)

    def host(self) -> str:
        from mpi4py import MPI

        return str(MPI.Get_processor_name())

    def price(self, nbytes: int) -> float:
        """Measure one collective step and a transfer of at most `MOST` bytes into new memory.

        The smallest of several times counts, because a time in which a rank waits for its core
        would make the first LB step seem too expensive to be tried.
        """
        known = self.allgather(np.int64(nbytes))
        a_step = self._fastest(TIMES, lambda: self.allgather(b""))
        steps = _core.first_cost(a_step, 0.0, 0.0, 0, 0, 1)
        most = min(max(int(np.frombuffer(n, np.int64)[0]) for n in known), MOST)
        if not most or self.size == 1:
            return steps
        data, *new = self._prepared(
            lambda: [np.ones(most, np.uint8), *(np.empty(most, np.uint8) for _ in range(TRANSFERS))]
        )
        to, source = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        unused = iter(new)

        def transfer() -> None:
            self.comm.Sendrecv(data, to, recvbuf=next(unused), source=source)

        return steps + self._fastest(TRANSFERS, transfer) * nbytes / most

    def _fastest(self, times: int, call: Callable[[], object]) -> float:
        """Make a collective call several times; return the shortest time on this rank."""
        least = math.inf
        for _ in range(times):
            begin = _core.clock()
            call()
            least = min(least, _core.clock() - begin)
        return max(least, 0.0)


LATE = 5  # tag of a `Transfer`, see csrc/comm/comm.h
PIECE = 1 << 22  # bytes: on one node, the receiver copies a piece when it asks for it


class Transfer(Transferred):
    """Buffers that travel by nonblocking messages while the program goes on."""

    def __init__(self, comm: Any, sends: Sends, into: Memory) -> None:
        self._comm = comm
        # A request keeps the memory of its piece until the piece has left.
        self._leave = deque(comm.Isend(part, to, LATE) for to, part in _pieces(sends))
        self._wanted = deque(_pieces(into.items()))  # pieces not asked for yet by this rank
        self._come: list[Any] = []

    def progress(self, times: int = 1) -> bool:
        for _ in range(-(-len(self._wanted) // max(times, 1))):
            self._ask()
        left = self._left()
        return self._arrived() and left and not self._wanted

    def receive(self, rank: int) -> None:
        while self._wanted and self._wanted[0][0] <= rank:
            self._ask()
        while not self._arrived():
            self._left()
            time.sleep(PAUSE)

    def finish(self) -> None:
        while not self.progress():
            time.sleep(PAUSE)

    def _ask(self) -> None:
        source, part = self._wanted.popleft()
        self._come.append(self._comm.Irecv(part, source, LATE))

    def _arrived(self) -> bool:
        if self._come and type(self._come[0]).Testall(self._come):
            self._come = []
        return not self._come

    def _left(self) -> bool:
        while self._leave and self._leave[0].Test():
            self._leave.popleft()
        return not self._leave


def _pieces(of_ranks: Iterable[tuple[int, Sequence[Any]]]) -> Iterator[tuple[int, Any]]:
    for rank, parts in sorted(of_ranks, key=itemgetter(0)):
        for part in parts:
            view = memoryview(part).cast("B")
            for at in range(0, view.nbytes, PIECE):
                yield rank, view[at : at + PIECE]


class MPIExchanger:
    """A `StepExchanger` over MPI, on one more duplicate of `comm`; making one is collective."""

    def __init__(self, module: Any, comm: Any) -> None:
        self._module, self.native = module, module.Comm(comm)

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> Any:
        return self._module.Lane(self.native, tuple(sides), like, tag)

    def tell(self, sides: Sides, error: Exception) -> bool:
        return self.native.fail(*sides.out[:2], *sides.into[:2])  # type: ignore[no-any-return]

    def meet(self, sides: Sides, tag: int) -> Any:
        rows = np.empty((sides.n_out, 0), np.uint8)
        lane = self.lane(sides, rows, tag)
        lane.begin(rows, None)
        return lane
