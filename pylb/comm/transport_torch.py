"""The transport over a process group of torch.distributed, for programs without MPI."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pylb import _core
from pylb.comm.agreement import Agreement
from pylb.comm.cores import Cores
from pylb.comm.transport import Memory, Sends, StepResult, Transport
from pylb.errors import RemoteError, StateError
from pylb.model.machine import Machine
from pylb.model.network import Network, network_between

T = TypeVar("T")
# id(group) -> (group, agreement); the group is stored, so that nothing else gets the same id.
_known: dict[int, tuple[Any, Agreement]] = {}


def is_group(comm: Any) -> bool:
    """Return whether `comm` is a process group; torch is not imported."""
    torch = sys.modules.get("torch.distributed")
    return torch is not None and torch.is_available() and isinstance(comm, torch.ProcessGroup)


def agreement_on_group(group: Any) -> Agreement:
    """Do what `pylb.comm.connect.agreement_of` does, for a process group."""
    if id(group) not in _known:
        _known[id(group)] = group, Agreement(TorchTransport(group))
    return _known[id(group)][1]


class TorchTransport(Transport):
    """The transport on a new group of the same ranks, with "gloo", which works without a GPU."""

    def __init__(self, group: Any) -> None:
        self._torch: Any = sys.modules["torch"]
        dist = self._dist = self._torch.distributed
        self._ranks = dist.get_process_group_ranks(group)
        self.rank, self.size = group.rank(), group.size()
        self._network: Network | None = None
        self._group = dist.new_group(self._ranks, backend="gloo", use_local_synchronization=True)

    def step(self, sample: Any, sends: Sends, into: Memory | None = None, /) -> StepResult:
        sizes = {rank: [memoryview(part).nbytes for part in parts] for rank, parts in sends}
        known = self._gather((tuple(sample), sizes))
        received: Sends = [
            (source, [np.empty(n, np.uint8) for n in sent[self.rank]])
            for source, (_, sent) in enumerate(known)
            if self.rank in sent
        ]
        ways = (self._dist.irecv, received), (self._dist.isend, sends)

        def transfer() -> None:
            pending = [
                way(self._bytes(part), self._ranks[rank], group=self._group)
                for way, messages in ways
                for rank, parts in messages
                for part in parts
                if memoryview(part).nbytes
            ]
            for request in pending:
                request.wait()

        self._try(transfer)
        return _core.stats([sample for sample, _ in known]), received

    def bcast(self, array: Any, root: int, /) -> None:
        data = self._bytes(array)
        self._try(lambda: self._dist.broadcast(data, self._ranks[root], group=self._group))

    def allgather(self, data: Any, /) -> list[bytes]:
        return self._gather(bytes(data))

    def network(self) -> Network:
        self._network = self._network or network_between(self, self._gather)
        return self._network

    def Send(self, data: Any, to: int) -> None:  # for `network_between`
        self._dist.send(self._bytes(data), self._ranks[to], group=self._group)

    def Recv(self, data: Any, source: int) -> None:
        self._dist.recv(self._bytes(data), self._ranks[source], group=self._group)

    def machine(self) -> Machine:
        raise StateError("network is 'measure' over torch: expected (alpha, beta) or a Machine")

    def price(self, nbytes: int) -> float:
        return _core.first_cost(*self.network(), 0.0, 0, nbytes, self.size)

    def cores(self) -> Cores:
        return Cores.of(self.allgather(_core.cores()), self.rank)

    def reduction(self, depth: int, /) -> Any:
        raise StateError("lag > 0 over torch.distributed: expected lag=0, or MPI")

    def _gather(self, value: T) -> list[T]:
        out: list[Any] = [None] * self.size
        self._try(lambda: self._dist.all_gather_object(out, value, group=self._group))
        return out

    def _bytes(self, data: Any) -> Any:
        """Return a tensor that shares the memory of `data`, or of a copy if `data` is read-only."""
        view = np.frombuffer(memoryview(data).cast("B"), np.uint8)
        return self._torch.from_numpy(view if view.flags.writeable else view.copy())

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except RuntimeError as why:
            raise RemoteError(f"another rank of the process group has ended: {why}") from None
