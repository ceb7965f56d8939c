"""Measure the machine of a running job: nodes, sockets, speeds, costs of messages."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.errors import DomainError
from pylb.model import checks
from pylb.model.alike import alike
from pylb.model.network import SIZES, Network, ping_pong
from pylb.model.places import Place
from pylb.model.snapshot import F64

CPUS = Path("/sys/devices/system/cpu")


class PlaceFacts(NamedTuple):
    """What a rank knows about the place where it runs.

    cores, sockets: how many of them the node has; socket, core: those to which this rank is bound
    (-1: several, or not known); speed, load: see `speed_now`.
    """

    node: str
    cores: int
    sockets: int
    socket: int
    core: int
    speed: float
    load: float


Found = tuple[Place, Sequence[int], F64, F64]  # the arguments of `Machine`


def measured(comm: Any, seconds: float, network: bool) -> Found:
    """Measure the machine that the job runs on; see `Machine.measure`."""
    if comm is None:
        _check(seconds, network)
        return _found([_facts(platform.node(), seconds)], [0])
    known = getattr(comm, "network", None)
    if not isinstance(known, Network):
        checks.intracommunicator(comm)
    alike(comm, f"measure(network={network!r})", lambda: _check(seconds, network))
    if isinstance(known, Network):
        return _virtual(comm, known)
    from mpi4py import MPI

    own = comm.Dup()
    shared = own.Split_type(MPI.COMM_TYPE_SHARED)
    try:
        first = shared.bcast(own.rank)  # the first rank of each node represents it
        own.Barrier()
        facts = alike(own, "", lambda: _facts(MPI.Get_processor_name(), seconds))
        every = own.allgather((first, facts))
        alpha, beta = _networks(own, [f for f, _ in every], network)
    finally:
        shared.Free()
        own.Free()
    return _found([f for _, f in every], [f for f, _ in every], alpha, beta)


def _check(seconds: float, network: bool) -> None:
    if not isinstance(seconds, (int, float)) or not 0 < seconds <= 10:
        raise DomainError(f"seconds is {seconds!r}: expected more than 0, at most 10")
    checks.flag("network", network)


def _facts(node: str, seconds: float) -> PlaceFacts:
    return PlaceFacts(node, *cores(), *where(), *speed_now(seconds))


def speed_now(seconds: float) -> tuple[float, float]:
    """Measure the speed in 10⁹ benchmark steps per second, and the share of time without a core."""
    steps, wall, cpu = _core.drum_benchmark(seconds)
    return 1e-9 * steps / wall, float(np.clip(1.0 - cpu / wall, 0.0, 1.0))


def cores() -> tuple[int, int]:
    """Count the cores and the sockets of this node; 0: not known."""
    cpus = [int(p.name[3:]) for p in CPUS.glob("cpu[0-9]*")]
    found = [(_topology(c, "physical_package_id"), _topology(c, "core_id")) for c in cpus]
    known = {place for place in found if place[0] >= 0}
    return len(known), len({socket for socket, _ in known})


def where() -> tuple[int, int]:
    """Return the socket and core that this process is bound to; -1: several, or not known."""
    try:
        cpus = sorted(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return -1, -1
    sockets = {_topology(cpu, "physical_package_id") for cpu in cpus}
    cores = {_topology(cpu, "core_id") for cpu in cpus}
    return _single(sockets), _single(cores)


def _topology(cpu: int, name: str) -> int:
    try:
        return int((CPUS / f"cpu{cpu}" / "topology" / name).read_text())
    except (OSError, ValueError):
        return -1


def _single(numbers: set[int]) -> int:
    return numbers.pop() if len(numbers) == 1 else -1


# ---- the network ---------------------------------------------------------------------------------


def rounds(n: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs of the numbers 0 ... n-1, in rounds; a number is at most once in a round.

    The circle method makes n - 1 rounds; if n is odd, n rounds, of which each leaves out a number.
    """
    ring = list(range(n + n % 2))
    for _ in range(len(ring) - 1):
        pairs = zip(ring[: len(ring) // 2], ring[::-1], strict=False)
        yield [(min(a, b), max(a, b)) for a, b in pairs if max(a, b) < n]
        ring = [ring[0], ring[-1], *ring[1:-1]]


def _networks(comm: Any, first: list[int], wanted: bool) -> tuple[F64, F64]:
    """Measure alpha and beta between all pairs of nodes; on the diagonal, within each node."""
    from mpi4py import MPI

    leaders = sorted(set(first))
    alpha = np.full((len(leaders),) * 2, np.nan)
    beta = alpha.copy()
    second = {f: next((r for r, g in enumerate(first) if g == f and r != f), -1) for f in leaders}
    plans = [[(f, second[f]) for f in leaders if second[f] >= 0]]
    plans += [[(leaders[a], leaders[b]) for a, b in pairs] for pairs in rounds(len(leaders))]
    mine: list[tuple[int, int, Network]] = []
    for pairs in plans if wanted else []:
        comm.Barrier()
        for a, b in pairs:
            if comm.rank in (a, b):
                times = ping_pong(comm, b if comm.rank == a else a, comm.rank == a, MPI.Wtime)
                if comm.rank == a:
                    mine.append((first[a], first[b], _line(times)))
    for one, other, found in (row for rows in comm.allgather(mine) for row in rows):
        i, j = leaders.index(one), leaders.index(other)
        alpha[i, j] = alpha[j, i] = found.alpha
        beta[i, j] = beta[j, i] = found.beta
    return alpha, beta


def _line(times: list[float]) -> Network:
    """Compute alpha and beta from the times of the smallest and the largest message only.

    A link with a rate limit sends medium-sized messages faster than its bandwidth allows.
    """
    return Network(times[0], max(times[-1] - times[0], 0.0) / (SIZES[-1] - SIZES[0]))


def bandwidth(beta: F64, node: int) -> float:
    """Return 1 / mean `beta` of a node: bytes per second to the other nodes; NaN: not known."""
    others = np.delete(beta[node], node)
    mean = float(others.mean()) if len(others) else math.nan
    return 1.0 / mean if mean > 0 else math.nan


# ---- the tree ------------------------------------------------------------------------------------


def _found(
    facts: list[PlaceFacts], first: list[int], alpha: F64 | None = None, beta: F64 | None = None
) -> Found:
    empty = np.full((len(set(first)),) * 2, np.nan)
    alpha, beta = (empty if a is None else a for a in (alpha, beta))
    order = sorted(range(len(facts)), key=lambda r: (first[r], facts[r].socket, r))
    nodes = []
    for number, (_, group) in enumerate(groupby(order, key=lambda r: first[r])):
        ranks = list(group)
        below = _sockets(ranks, facts)
        wide = bandwidth(beta, number)
        node = facts[ranks[0]]
        counts = {"cores": node.cores, "sockets": node.sockets}
        nodes.append(Place("node", node.node, below, bandwidth=wide, **counts))
    return (Place("machine", "", tuple(nodes)), order, alpha, beta)


def _sockets(ranks: list[int], facts: list[PlaceFacts]) -> tuple[Place, ...]:
    """Return the ranks of a node, below their sockets if these are known and differ."""
    numbers = sorted({facts[r].socket for r in ranks})
    if numbers[0] < 0 or len(numbers) < 2:
        return tuple(_rank(r, facts) for r in ranks)
    return tuple(
        Place("socket", str(s), tuple(_rank(r, facts) for r in ranks if facts[r].socket == s))
        for s in numbers
    )


def _rank(rank: int, facts: list[PlaceFacts]) -> Place:
    own = facts[rank]
    return Place("rank", f"core {own.core}" if own.core >= 0 else "", (), own.speed, own.load)


def _virtual(comm: Any, network: Network) -> Found:
    """Return the machine of a virtual cluster, where each rank is a node."""
    speeds = comm.allgather(comm.speed)
    wide = 1.0 / network.beta if network.beta > 0 else math.nan
    nodes = [
        Place("node", f"virtual {r}", (Place("rank", "", (), s),), bandwidth=wide)
        for r, s in enumerate(speeds)
    ]
    alpha, beta = (np.full((comm.size,) * 2, x) for x in network)
    return (Place("machine", "", tuple(nodes)), (), alpha, beta)
