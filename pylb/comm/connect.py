"""Find or make the `Agreement` of a communicator; the transport between virtual ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement, Stats, Step
from pylb.comm.cores import Cores
from pylb.comm.parcel import size_of
from pylb.comm.transport import Memory, Sends, StepResult, Transferred, Transport
from pylb.comm.transport_torch import agreement_on_group, is_group
from pylb.errors import StateError
from pylb.model.machine import Machine
from pylb.model.network import Network
from pylb.virtual.comm import VirtualComm


def agreement_of(comm: Any, *, hold: bool = True) -> Agreement:
    """Return the `Agreement` of a communicator (None: of a single rank), or `comm` if it is one.

    Every call with the same communicator returns the same object; the first call is collective.
    With `hold`, the agreement remains usable after the user has freed the communicator.
    """
    if comm is None:
        return Agreement(Transport())
    if isinstance(comm, Agreement):
        return comm
    if isinstance(comm, VirtualComm):
        known = comm.attributes.get("agreement")
        if not isinstance(known, Agreement):
            known = comm.attributes["agreement"] = Agreement(Virtual(comm.duplicate()))
        return known
    if is_group(comm):
        return agreement_on_group(comm)
    from pylb.comm.transport_mpi import agreement_on

    agreement = agreement_on(comm)
    agreement.held |= hold
    return agreement


# ---- the transport between virtual ranks --------------------------------------------------------


class VirtualTransfer(Transferred):
    """Messages to a virtual rank; `ends` has the virtual time when those of a rank have come."""

    def __init__(self, ends: dict[int, float]) -> None:
        self._ends = ends

    def progress(self, times: int = 1) -> bool:
        return _core.clock() >= max(self._ends.values(), default=0.0)

    def receive(self, rank: int) -> None:
        _core.clock_declare(max(self._ends[rank] - _core.clock(), 0.0))


class Virtual(Transport):
    """The transport of a virtual rank; sending a message advances the virtual time at once."""

    is_virtual = True

    def __init__(self, comm: VirtualComm):
        self.comm = comm
        self.rank, self.size = comm.rank, comm.size
        # Virtual seconds per second of computing; 0 if only declared work advances virtual time.
        self.pace = 0.0 if comm.world.scheduler.source == "none" else 1.0 / comm.speed

    def step(self, sample: Any, sends: Sends, into: Memory | None = None, /) -> StepResult:
        sent = {rank: list(map(bytearray, parts)) for rank, parts in sends}
        if sends:
            nbytes = sum(len(part) for parts in sent.values() for part in parts)
            _core.clock_declare(self.comm.network.seconds(len(sends), nbytes))

        def doing() -> str:
            return "the balancer " + Step(sample[0]).words.format(sample[1])

        return self.comm.meet("step", (sample, sent), self._finish, doing)  # type: ignore[no-any-return]

    def transfer(self, sends: Sends, into: Memory, /) -> Transferred:
        """Let the messages of each rank travel one after another, while the ranks compute."""

        def finish(values: list[Sends], times: list[float]) -> Any:
            coming: list[list[Any]] = [[] for _ in values]
            for source, (sent, at) in enumerate(zip(values, times, strict=True)):
                for rank, parts in sent:
                    at += self.comm.network.seconds(1, size_of(parts))
                    coming[rank].append((source, parts, at))
            return coming, times

        ends = {}
        for source, parts, at in self.comm.meet("transfer", sends, finish):
            ends[source] = at
            for memory, part in zip(into[source], parts, strict=True):
                memory[:] = np.frombuffer(part, np.uint8)
        return VirtualTransfer(ends)

    def _finish(self, values: list[Any], times: list[float]) -> Any:
        record = Stats._make(_core.stats([sample for sample, _ in values]))
        received: list[Sends] = [[] for _ in values]
        for source, (_, sent) in enumerate(values):
            for rank, parts in sent.items():
                received[rank].append((source, parts))
        return [(record, r) for r in received], self.comm.world.together(times, _core.STATS_BYTES)

    def bcast(self, array: Any, root: int, /) -> None:
        data = self.comm.bcast(memoryview(array).cast("B").tobytes(), root)
        array.view(np.uint8).reshape(-1)[:] = np.frombuffer(data, np.uint8)

    def allgather(self, data: Any, /) -> list[bytes]:
        return self.comm.allgather_bytes(bytes(data))

    def network(self) -> Network:
        return Network(*self.comm.network)

    def machine(self) -> Machine:
        return Machine.measure(self.comm)

    def host(self) -> str:
        return ""

    def price(self, nbytes: int) -> float:
        return _core.first_cost(*self.comm.network, 0.0, 0, nbytes, self.size)

    def cores(self) -> Cores:
        """Return the default: each virtual rank counts as having its own core."""
        return Cores()

    def reduction(self, depth: int, /) -> Any:
        """Raise StateError: virtual ranks switch only at waits, and a loop with a lag has none."""
        raise StateError("a loop with lag > 0 cannot run on virtual ranks: expected lag=0")
