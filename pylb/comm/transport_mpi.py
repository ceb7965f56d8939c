"""The transport over MPI, on a duplicate of the user's communicator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pylb import _core, optional
from pylb.comm import program_end
from pylb.comm.agreement import Agreement, Attempt
from pylb.comm.cores import Cores
from pylb.comm.transport import AnyLane, Sides
from pylb.errors import DomainError, MPIError
from pylb.model import checks
from pylb.model.network import Network, measure_network

TIMES, TRANSFERS = 10, 2  # how often a collective step and a transfer are measured
MOST = 1 << 22  # bytes: `price` measures a transfer of at most this size
T = TypeVar("T")
_keyval: Any = None  # key of the MPI attribute in which a communicator keeps its Agreement


def agreement_on(comm: Any) -> Agreement:
    """Return the agreement of an mpi4py communicator's ranks: the same object at each call.

    Collective the first time.
    """
    global _keyval
    program_end.watch_job()
    # this check needs no mpi4py, so it comes first
    if not any(hasattr(comm, name) for name in ("Get_rank", "py2f", "handle")):
        raise DomainError(
            f"comm is {comm!r}: expected a communicator of mpi4py, or of another module, with a "
            "method py2f() or an attribute handle, or None"
        )
    optional.require("mpi4py")
    from mpi4py import MPI

    checks.mpi_runs()
    native = optional.require("MPI")
    _same_mpi(native.library_version(), MPI.Get_library_version())
    if not isinstance(comm, MPI.Comm):
        comm = MPI.Comm.f2py(native.number_of(comm))
    if comm == MPI.COMM_NULL:
        raise MPIError("comm is MPI.COMM_NULL: it was freed, or this rank is not part of it")
    if comm.Is_inter():
        raise DomainError("comm is an intercommunicator: expected an intracommunicator")
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(delete_fn=_freed)
    known = comm.Get_attr(_keyval)
    if isinstance(known, Agreement):
        return known
    if comm.size > 1:
        program_end.watch()
    agreement = program_end.ExitingAgreement(MPITransport(native, comm))
    comm.Set_attr(_keyval, agreement)
    return agreement


class MPITransport:
    """The transport on a duplicate of a communicator.  Do not free the duplicate, `comm`."""

    pace = 1.0

    def __init__(self, module: Any, comm: Any) -> None:
        native = self._native = module.Comm(comm)
        self._module, self.comm = module, type(comm).f2py(native.number)
        self.rank, self.size = native.rank, native.size
        self.step, self.begin, self.wait = native.step, native.begin, native.wait
        self.bcast, self.allgather = native.bcast, native.allgather
        self.reduction = native.reduction
        self._exchanger: MPIExchanger | None = None

    @property
    def pending(self) -> bool:
        return self._native.pending  # type: ignore[no-any-return]

    def died(self) -> list[int]:
        try:
            failed = self.comm.Get_failed()
        except (AttributeError, NotImplementedError, RuntimeError):
            # no ULFM in this version of mpi4py, in this MPI or in this run
            return []
        ranks = failed.Translate_ranks(None, self.comm.Get_group())
        return sorted(ranks)

    def exchanger(self) -> MPIExchanger:
        self._exchanger = self._exchanger or MPIExchanger(self._module, self.comm)
        return self._exchanger

    def network(self) -> Network:
        return measure_network(self.comm)

    def price(self, nbytes: int) -> float:
        """Measure one collective step and a transfer of at most `MOST` bytes.

        The transfer goes into new memory, as in an LB step; this is several times slower than into
        memory that was used before.  The smallest of several times counts: a time in which a rank
        waits for its core would make the first LB step seem too expensive to be tried.
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

    def _prepared(self, make: Callable[[], T]) -> T:
        """Return what a function has allocated; all ranks raise MemoryError, or none."""
        with Attempt(MemoryError) as tried:
            out = make()
        if b"" in self.allgather(b"" if tried.error is not None else b"ready"):
            raise tried.error or MemoryError("another rank has no memory")
        return out

    def _fastest(self, times: int, call: Callable[[], object]) -> float:
        """Make a collective call several times; return the shortest time on this rank."""
        least = math.inf
        for _ in range(times):
            begin = _core.clock()
            call()
            least = min(least, _core.clock() - begin)
        return max(least, 0.0)

    def cores(self) -> Cores:
        known = self.allgather(_core.cores())
        # all ranks keep the answer, or none: otherwise only some would come to the next call
        return self._prepared(lambda: Cores.of(known, self.rank))

    def free(self) -> None:
        if self._exchanger is not None:
            self._exchanger.native.free()
        self._native.free()


class MPIExchanger:
    """Makes lanes over MPI, on one more duplicate of `comm`; the constructor is collective."""

    def __init__(self, module: Any, comm: Any) -> None:
        self._module, self.native = module, module.Exchanger(comm)

    def lane(self, sides: Sides, like: NDArray[Any], tag: int) -> AnyLane:
        lane: AnyLane = self._module.Lane(self.native, tuple(sides), like, tag)
        return lane

    def tell(self, sides: Sides, error: Exception) -> bool:
        return self.native.fail(*sides.out[:2], *sides.into[:2])  # type: ignore[no-any-return]

    def meet(self, sides: Sides, tag: int) -> AnyLane:
        rows = np.empty((sides.n_out, 0), np.uint8)
        lane = self.lane(sides, rows, tag)
        lane.begin(rows, None)
        return lane


def _freed(comm: Any, keyval: int, agreement: Agreement) -> None:
    """Free the agreement; MPI calls this when the user frees the communicator."""
    agreement.free()


def _same_mpi(ours: str, theirs: str) -> None:
    if optional.first_line(ours) != optional.first_line(theirs):
        raise MPIError(
            f"pylb was built with {optional.first_line(ours)!r}, mpi4py uses "
            f"{optional.first_line(theirs)!r}; rebuild pylb with that MPI's compiler: "
            f"MPICC=mpicc {optional.rebuild()}"
        )
