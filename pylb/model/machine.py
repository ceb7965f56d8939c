"""The machine as a tree of places, each with its computing and communication power.

It is read from a string or a file, or measured: nodes, sockets, speeds, costs of messages.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core, files
from pylb.console import clip
from pylb.errors import DomainError, FormatError, MissingFileError
from pylb.model import checks
from pylb.model.checks import alike
from pylb.model.network import Network, line, ping_pong
from pylb.model.snapshot import F64, I32
from pylb.model.topology import Tree

MOST_RANKS = 1 << 20  # largest number of ranks of a machine that a string describes
MOST = 1e30  # largest speed and largest bandwidth, so that their sums are finite
LEVEL = re.compile(r"(?P<kind>[A-Za-z_]\w*):(?P<count>\d+)(?:\[(?P<facts>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Place:
    """A place of a machine, with the places below it.

    Examples
    --------
    >>> rank = pylb.model.Place("rank", speed=2.0)
    >>> node = pylb.model.Place("node", "n1", (rank, rank))
    >>> pylb.Machine(pylb.model.Place("machine", children=(node, node))).n_ranks
    4
    """

    kind: str  #: "machine", "switch", "node", "socket", "rank", or any other word.
    name: str = ""
    children: tuple[Place, ...] = ()  #: Empty: this place is a leaf, where a rank runs.
    speed: float = 1.0  #: Processing power of a leaf, in any unit (measured: 10⁹ steps per second).
    #: Fraction of a leaf's core that other programs used while it was measured, 0 ... 1.
    load: float = 0.0
    #: Communication power in bytes per second; NaN: not known, or no network.
    bandwidth: float = math.nan

    def __post_init__(self) -> None:
        if not self.children and not 0 <= self.speed <= MOST:
            what = f"speed of {self.kind} {self.name} is {self.speed!r}"
            raise DomainError(f"{what}: expected 0 ... {MOST:g}")
        if not (math.isnan(self.bandwidth) or 0 <= self.bandwidth <= MOST):
            what = f"bandwidth of {self.kind} {self.name} is {self.bandwidth!r}"
            raise DomainError(f"{what}: expected 0 ... {MOST:g}, or nan")

    def walk(self, parent: int = -1) -> Iterator[tuple[int, Place]]:
        """Yield (index of its parent, place) for this place and all below; parents come first."""
        todo, number = [(parent, self)], parent
        while todo:
            above, place = todo.pop()
            number += 1
            yield above, place
            todo.extend((number, child) for child in reversed(place.children))


def parsed(text: str) -> Place:
    if not isinstance(text, str):
        raise DomainError(f"text is {clip(repr(text), 60)}: expected text, e.g. 'node:2 rank:4'")
    levels = []
    for word in re.findall(r"[^\s\[]+(?:\[[^\]]*\])?", text):
        level = LEVEL.fullmatch(word)
        if level is None or not 1 <= int(level["count"][:8]) <= MOST_RANKS:
            expected = f"kind:count or kind:count[properties], with counts of 1 ... {MOST_RANKS}"
            raise FormatError(f"{clip(word)!r} in {clip(text)!r}: expected {expected}")
        facts = {"speed": [1.0], "bandwidth": [math.nan]}
        for fact in (level["facts"] or "").replace(";", " ").split():
            name, _, values = fact.partition("=")
            try:
                facts[name] = [float(x) for x in values.split(",")]
            except ValueError:
                name = ""
            if name not in ("speed", "bandwidth"):
                expected = "speed=... or bandwidth=..., with numbers"
                raise FormatError(f"{fact!r} in {word!r}: expected {expected}")
        levels.append((level["kind"], int(level["count"]), facts["speed"], facts["bandwidth"]))
    if math.prod(count for _, count, *_ in levels) > MOST_RANKS:
        raise FormatError(f"{clip(text)!r}: expected at most {MOST_RANKS} ranks")
    if not levels:
        raise FormatError(f"{text!r} has no levels: expected levels, e.g. 'node:2 rank:4'")

    def below(depth: int, name: str, speed: float) -> tuple[Place, ...]:
        if depth == len(levels):
            return ()
        kind, count, speeds, bandwidths = levels[depth]
        out = []
        for i in range(count):
            fast, wide = speed * speeds[i % len(speeds)], bandwidths[i % len(bandwidths)]
            label = f"{name}.{i}" if name else str(i)
            out.append(Place(kind, label, below(depth + 1, label, fast), fast, bandwidth=wide))
        return tuple(out)

    return Place("machine", "", below(0, "", 1.0))


def _without_nan(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: x for name, x in pairs if x == x}


def from_json(content: dict[str, Any]) -> Place:
    children = tuple(from_json(child) for child in content.get("children", ()))
    kinds: dict[str, Any] = {"name": str, "speed": float, "load": float, "bandwidth": float}
    given = {name: kind(content[name]) for name, kind in kinds.items() if name in content}
    return Place(str(content["kind"]), children=children, **given)


CPUS = Path("/sys/devices/system/cpu")


class PlaceFacts(NamedTuple):
    """What a rank knows about the place where it runs."""

    node: str
    socket: int  # the socket and core to which this rank is bound; -1: several, or not known
    core: int
    speed: float  # 10⁹ benchmark steps per second
    load: float  # share of the time without a core


Found = tuple[Place, Sequence[int], F64, F64]  # the arguments of `Machine`


def measured(comm: Any, seconds: float, network: bool) -> Found:
    if comm is None:
        _check_measure(seconds, network)
        alpha, beta = np.full((2, 1, 1), np.nan)
        return _found([_facts(platform.node(), seconds)], [0], alpha, beta)
    known = getattr(comm, "network", None)
    if not isinstance(known, Network):
        checks.intracommunicator(comm)
    alike(comm, f"measure(network={network!r})", lambda: _check_measure(seconds, network))
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


def _check_measure(seconds: float, network: bool) -> None:
    if not isinstance(seconds, (int, float)) or not 0 < seconds <= 10:
        raise DomainError(f"seconds is {seconds!r}: expected more than 0, at most 10")
    checks.flag("network", network)


def _facts(node: str, seconds: float) -> PlaceFacts:
    steps, wall, cpu = _core.drum_benchmark(seconds)
    load = float(np.clip(1.0 - cpu / wall, 0.0, 1.0))
    bound = _bound_to("physical_package_id"), _bound_to("core_id")
    return PlaceFacts(node, *bound, 1e-9 * steps / wall, load)


def _bound_to(name: str) -> int:
    """Return the socket or core to which this process is bound; -1: several, or not known."""
    files = (CPUS / f"cpu{cpu}" / "topology" / name for cpu in os.sched_getaffinity(0))
    try:
        numbers = {int(file.read_text()) for file in files}
    except (OSError, ValueError):
        return -1
    return numbers.pop() if len(numbers) == 1 else -1


def rounds(n: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs of 0 ... n - 1 in rounds; in a round, no number is in two pairs."""
    ring = list(range(n + n % 2))
    for _ in range(len(ring) - 1):
        pairs = zip(ring[: len(ring) // 2], ring[::-1], strict=False)
        yield [(min(a, b), max(a, b)) for a, b in pairs if max(a, b) < n]
        ring = [ring[0], ring[-1], *ring[1:-1]]


def _networks(comm: Any, first: list[int], wanted: bool) -> tuple[F64, F64]:
    """Measure alpha and beta between all pairs of nodes, and (on the diagonal) within nodes."""
    leaders = sorted(set(first))
    alpha = np.full((len(leaders),) * 2, np.nan)
    beta = alpha.copy()
    second = {f: next((r for r, g in enumerate(first) if g == f and r != f), -1) for f in leaders}
    plans = [[(f, second[f]) for f in leaders if second[f] >= 0]]
    plans += [[(leaders[a], leaders[b]) for a, b in pairs] for pairs in rounds(len(leaders))]
    measured_here: list[tuple[int, int, Network]] = []
    for pairs in plans if wanted else []:
        comm.Barrier()
        for a, b in pairs:
            if comm.rank in (a, b):
                times = ping_pong(comm, b if comm.rank == a else a, comm.rank == a)
                if comm.rank == a:
                    measured_here.append((first[a], first[b], line(times)))
    for one, other, network in (row for rows in comm.allgather(measured_here) for row in rows):
        i, j = leaders.index(one), leaders.index(other)
        alpha[i, j] = alpha[j, i] = network.alpha
        beta[i, j] = beta[j, i] = network.beta
    return alpha, beta


def _found(facts: list[PlaceFacts], first: list[int], alpha: F64, beta: F64) -> Found:
    order = sorted(range(len(facts)), key=lambda r: (first[r], facts[r].socket, r))
    nodes = []
    for number, (_, group) in enumerate(groupby(order, key=lambda r: first[r])):
        own = [facts[r] for r in group]
        ranks = [
            Place("rank", f"core {f.core}" if f.core >= 0 else "", (), f.speed, f.load) for f in own
        ]
        sockets = sorted({f.socket for f in own})
        if sockets[0] >= 0 and len(sockets) > 1:  # they are known and differ
            pairs = list(zip(ranks, own, strict=True))
            below = [tuple(place for place, f in pairs if f.socket == s) for s in sockets]
            ranks = [Place("socket", str(s), b) for s, b in zip(sockets, below, strict=True)]
        others = np.delete(beta[number], number)
        slow = float(others.mean()) if len(others) else math.nan
        wide = 1.0 / slow if slow > 0 else math.nan  # bytes per second to other nodes
        nodes.append(Place("node", own[0].node, tuple(ranks), bandwidth=wide))
    return (Place("machine", "", tuple(nodes)), order, alpha, beta)


def _virtual(comm: Any, network: Network) -> Found:
    """Return the machine of a virtual cluster, where each rank is a node."""
    wide = 1.0 / network.beta if network.beta > 0 else math.nan
    ranks = [(Place("rank", "", (), speed),) for speed in comm.allgather(comm.speed)]
    nodes = [Place("node", f"virtual {r}", rank, bandwidth=wide) for r, rank in enumerate(ranks)]
    alpha, beta = (np.full((comm.size,) * 2, x) for x in network)
    return (Place("machine", "", tuple(nodes)), (), alpha, beta)


FORMAT = "pylb machine"
W_COMM = 0.1  # weight of communication in `power`, from DRUM's authors; some programs need more
MOST_ITEMS = 10**12  # largest number of items that `counts` divides
SHOWN = 8  # a repr of more than 4 * SHOWN lines leaves out the middle


@dataclass(frozen=True, eq=False, repr=False)
class Machine:
    """A machine as a tree with the ranks at its leaves.

    `measure` builds it from the running job, `parse` from a string, `load` from a file.

    Examples
    --------
    >>> machine = pylb.Machine.parse("node:2[speed=1,3] rank:2")
    >>> machine.n_ranks, machine.part_sizes()
    (4, array([0.125, 0.125, 0.375, 0.375]))
    """

    root: Place
    ranks: Sequence[int] = ()  #: (p,) the rank at each leaf, in order.  Default: 0, 1, ...
    #: (m, m) seconds per message and per byte between two of the m nodes; on the diagonal: between
    #: ranks of one node.  NaN: not known.
    alpha: F64 = field(default_factory=lambda: np.zeros((0, 0)))
    beta: F64 = field(default_factory=lambda: np.zeros((0, 0)))
    n_ranks: int = field(init=False)
    #: The places of kind "node", in order of the tree.
    nodes: tuple[Place, ...] = field(init=False)
    #: (p,) index in `nodes` of each rank's node, for `Snapshot(node=...)`; -1: on no node.
    node: I32 = field(init=False)
    #: (p,) speed and load of each rank (see `Place`), e.g. for ``Snapshot(speed=machine.speed)``.
    speed: F64 = field(init=False)
    busy: F64 = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.root, Place):
            others = "Machine.parse takes a string, Machine.load a file"
            raise DomainError(f"root is {self.root!r}: expected a Place; {others}")
        tree, put = list(self.root.walk()), partial(object.__setattr__, self)
        leaves = [v for v, (_, place) in enumerate(tree) if not place.children]
        ranks = np.asarray(self.ranks if len(self.ranks) else range(len(leaves)), np.int32)
        if sorted(ranks.tolist()) != list(range(len(leaves))):
            expected = f"each of 0 ... {len(leaves) - 1} once, one for each leaf"
            raise DomainError(f"ranks are {ranks.tolist()}: expected {expected}")
        node, nodes = np.full(len(tree), -1, np.int32), list[Place]()
        for v, (above, place) in enumerate(tree):
            node[v] = node[above] if above >= 0 else -1
            if place.kind == "node":
                node[v] = len(nodes)
                nodes.append(place)
        shape = (len(nodes), len(nodes))
        for name in ("alpha", "beta"):
            given = checks.array(name, getattr(self, name), float)
            if given.size == 0:
                given = np.full(shape, np.nan)
            if given.shape != shape or (given < 0).any() or np.isinf(given).any():
                what = f"{name} has shape {given.shape}, or values that are negative or infinite"
                raise DomainError(f"{what}: expected {shape}, finite numbers, 0 or more")
            put(name, given)
        leaf = np.empty(len(leaves), np.int32)  # the index in `tree` of each rank's place
        leaf[ranks] = leaves
        put("ranks", tuple(ranks.tolist()))
        put("n_ranks", len(leaf))
        put("nodes", tuple(nodes))
        put("node", node[leaf])
        put("speed", np.array([tree[v][1].speed for v in leaf]))
        put("busy", np.array([tree[v][1].load for v in leaf]))
        for array in (self.node, self.speed, self.busy):
            array.flags.writeable = False

    def tree(self) -> Tree:
        """Return a regular machine as a tree, for `pylb.model.hops` and `map_ranks`."""
        sizes, level = [], [self.root]
        while level[0].children:
            if len({len(place.children) for place in level}) > 1:
                raise DomainError(f"the machine is not a regular tree: {self!r}")
            sizes.append(len(level[0].children))
            level = [child for place in level for child in place.children]
        if self.ranks != tuple(range(self.n_ranks)):
            raise DomainError(f"ranks are {self.ranks}: expected ranks in order of the leaves")
        return Tree(tuple(sizes))

    def network(self, a: int, b: int) -> Network:
        """Return the cost of a message between the nodes with the indices `a` and `b`."""
        return Network(float(self.alpha[a, b]), float(self.beta[a, b]))

    def _mean(self, within: bool) -> Network:
        at = np.eye(len(self.alpha), dtype=bool) == within
        known = [x[at & ~np.isnan(x)] for x in (self.alpha, self.beta)]
        return Network(*(float(x.mean()) if len(x) else math.nan for x in known))

    @property
    def between(self) -> Network:
        """The mean cost of a message between two nodes; if there is one node, between its ranks."""
        out = self._mean(within=len(self.alpha) < 2)
        if math.isnan(sum(out)) and self.n_ranks > 1:
            what = "alpha or beta of the machine is not known"
            raise DomainError(f"{what}: expected a measured network, e.g. by Machine.measure")
        return Network(0.0, 0.0) if math.isnan(sum(out)) else out

    @property
    def near(self) -> F64 | None:
        """The mean cost within a node as fractions of `between`, for `Snapshot(near=...)`.

        (2,): fractions of alpha and beta.  None: there is one node, or no node has several ranks.
        """
        within = self._mean(within=True)
        if len(self.alpha) < 2 or math.isnan(sum(within)):
            return None
        pairs = zip(within, self.between, strict=True)
        return np.array([min(x / y, 1.0) if y > 0 else 1.0 for x, y in pairs])

    def power(self, w_comm: float = W_COMM) -> F64:
        """Return DRUM's power of each rank, (p,), with sum 1 (Devine 2005/2008).

        A place n has two powers: the communication power c_n is its bandwidth, and the processing
        power p_n is the sum of the speeds of its ranks.  Beginning at the root, each place divides
        its power among its children in proportion to ``w_comm c_n + w_cpu p_n``, where c_n and p_n
        are fractions of the sum over the children.  If the bandwidth of a child is not known, e.g.
        within a node, only p_n counts.  A place whose ranks all have speed 0 gets no power.

        `w_comm` is the weight of communication, 0 ... 1; ``w_cpu`` is ``1 - w_comm``.
        """
        tree = list(self.root.walk())
        w_comm = checks.number("w_comm", w_comm)
        if not self.speed.any():
            raise DomainError("the speed of all ranks is 0: expected one above 0")
        if not 0 <= w_comm <= 1:
            raise DomainError(f"w_comm is {w_comm:g}: expected 0 ... 1")
        cpu = [0.0 if place.children else place.speed for _, place in tree]
        comm = [0.0] * len(tree)  # sums over the children that can compute; NaN if one is not known
        for v in range(len(tree) - 1, 0, -1):
            above, place = tree[v]
            cpu[above] += cpu[v]
            comm[above] += place.bandwidth if cpu[v] > 0 else 0.0
        out = np.ones(len(tree))
        for v, (above, place) in enumerate(tree[1:], 1):
            w = w_comm if comm[above] > 0 else 0.0
            # the quotients come first: a product with a subnormal number could become 0
            share = (1 - w) * (cpu[v] / cpu[above]) if cpu[v] > 0 else 0.0
            if w > 0 and cpu[v] > 0:
                share += w * (place.bandwidth / comm[above])
            out[v] = out[above] * share
        power = np.empty(self.n_ranks)
        power[list(self.ranks)] = out[[not place.children for _, place in tree]]
        return power

    def part_sizes(self, w_comm: float = W_COMM) -> F64:
        """Return shares for `pylb.partition(shares=...)`: the `power` of each rank."""
        return self.power(w_comm)

    def counts(self, n: int, w_comm: float = W_COMM) -> Any:
        """Divide n items in proportion to `power`, by largest remainders; return (p,) int64."""
        return _core.apportion(self.power(w_comm), checks.whole("n", n, 0, below=MOST_ITEMS + 1))

    def with_speeds(self, speed: ArrayLike, load: ArrayLike | None = None) -> Machine:
        """Return a copy of the machine whose ranks have these speeds (and loads)."""
        fast = checks.array("speed", speed, float)
        busy = self.busy if load is None else checks.array("load", load, float)
        if fast.shape != (self.n_ranks,) or busy.shape != fast.shape:
            shapes = f"speed has shape {fast.shape}, load {busy.shape}"
            raise DomainError(f"{shapes}: expected ({self.n_ranks},)")
        leaves = iter(self.ranks)

        def renew(place: Place) -> Place:
            if place.children:
                return replace(place, children=tuple(map(renew, place.children)))
            rank = next(leaves)
            return replace(place, speed=float(fast[rank]), load=float(busy[rank]))

        return replace(self, root=renew(self.root))

    @classmethod
    def measure(cls, comm: Any = None, *, seconds: float = 0.1, network: bool = True) -> Machine:
        """Measure the machine that a job runs on.  Collective; may block.

        Ranks that share memory are on one node.  The tree shows the sockets of a node if each
        of its ranks is bound to one socket, and not all to the same.  All ranks compute at the same
        time for `seconds`, so that the speeds include quotas and other programs on the same cores.
        Then, unless `network` is False, two ranks of each node exchange messages, and after that
        one rank of each node with one of each other node.  If ranks have CPU quotas, let `seconds`
        be several periods of the quota.  A virtual cluster is known, and not measured.
        """
        return cls(*measured(comm, seconds, network))

    @classmethod
    def parse(cls, text: str) -> Machine:
        """Build a machine from a string, e.g. ``"node:2[speed=1,0.5 bandwidth=1e9,1e8] rank:4"``.

        The string lists the levels from the root down, each with the number of its places below a
        place of the previous level.  Properties have one value for each of these places; fewer
        values are repeated cyclically.  The speeds of all levels are multiplied.
        """
        return cls(parsed(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file."""
        alpha, beta = (np.where(np.isnan(a), -1, a).tolist() for a in (self.alpha, self.beta))
        root = asdict(self.root, dict_factory=_without_nan)
        head = {"format": FORMAT, "version": 1, "root": root, "ranks": self.ranks}
        files.write_text(path, json.dumps({**head, "alpha": alpha, "beta": beta}, indent=1))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Machine:
        """Read what `save` wrote."""
        with files.understood(path, "a file that describes a machine"):
            content = files.json_of(path)
            files.check_format(content, FORMAT)
            networks = [np.array(content[name], float) for name in ("alpha", "beta")]
            alpha, beta = (np.where(a == -1, np.nan, a) for a in networks)
            return cls(from_json(content["root"]), content["ranks"], alpha, beta)

    def __repr__(self) -> str:
        leaf, depth = iter(self.ranks), list[int]()
        lines = [f"<Machine: {self.n_ranks} ranks on {max(len(self.nodes), 1)} nodes>"]
        for above, place in self.root.walk():
            depth.append(depth[above] + 1 if above >= 0 else 0)
            words = [f"{place.kind} {place.name}".rstrip()]
            if not place.children:
                words = [f"rank {next(leaf)}", f"speed {place.speed:.3g}"]
                words += [f"load {place.load:.2f}"] if place.load >= 0.005 else []
            if not math.isnan(place.bandwidth):
                words.append(f"{place.bandwidth / 1e6:.3g} MB/s")
            if above >= 0 or not place.children:  # the root is in the first line
                lines.append("  " * max(depth[-1], 1) + ", ".join(words))
        if len(lines) > 4 * SHOWN:
            lines[2 * SHOWN : -2 * SHOWN] = [f"  ... {len(lines) - 4 * SHOWN} lines more"]
        return "\n".join(lines)


NetworkLike: TypeAlias = "tuple[float, float] | Machine | str | os.PathLike[str]"


class Links(NamedTuple):
    """The cost of messages between the ranks of a job."""

    network: Network  #: Between nodes.
    machine: Machine | None  #: None: all pairs of ranks have the same cost.

    @classmethod
    def of(cls, given: Any, n_ranks: int) -> Links:
        """Convert an argument `network`: (alpha, beta), a `Machine`, or the path of its file."""
        if isinstance(given, (str, os.PathLike)):
            try:
                given = Machine.load(given)
            except MissingFileError as why:
                expected = "(alpha, beta), a Machine or its file"
                also = 'in a Balancer or an Advisor also "measure"'
                raise MissingFileError(f"network: {why}: expected {expected}; {also}") from None
        if not isinstance(given, Machine):
            return cls(Network.of(given), None)
        if given.n_ranks != n_ranks:
            what = f"network is of a machine with {given.n_ranks} ranks"
            raise DomainError(f"{what}: expected one with {n_ranks}")
        return cls(given.between, given)

    @property
    def ranks(self) -> dict[str, Any]:
        """The arguments `node` and `near` of a `Snapshot`, by name; {}: (alpha, beta) was given."""
        if self.machine is None:
            return {}
        near = self.machine.near
        if near is None or self.machine.node.min() < 0:
            return {"node": None, "near": None}  # all pairs of ranks are alike
        return {"node": self.machine.node, "near": near}

    def check_host(self, rank: int, host: str) -> None:
        """Raise DomainError if this machine has `rank` on another host than `host`."""
        node = -1 if self.machine is None else int(self.machine.node[rank])
        name = self.machine.nodes[node].name if self.machine and node >= 0 else ""
        named = not re.fullmatch(r"[\d.]*", name)  # names such as "0.1" come from `parse`
        if host and named and name != host:
            hosts = f"on host {clip(repr(name))} there, but on {clip(repr(host))} here"
            raise DomainError(f"network is of another machine: rank {rank} is {hosts}")


# ---- iterations on ranks that share cores; see csrc/model/model.h -----------------------------


Sharing = tuple[Any, Any] | None  # group and number of cores of each rank; None: each has its own
BEFORE = 4  # shares are averaged over at most this many iterations before the first LB step


def spans(loads: F64, sharing: Sharing) -> F64:
    """Return (k,) seconds of iterations whose ranks need a core for `loads`, (k, p) seconds."""
    if sharing is None:
        return np.asarray(loads.max(axis=1, initial=0.0))
    return _core.shared_times(*sharing, loads)


def fractions(ends: F64, sharing: Sharing) -> F64:
    """Return the fractions of the times `ends`, (k, p), in which ranks had a core."""
    out = np.ones_like(ends)
    if sharing is None:
        return out
    alone = _core.loads_without_waits(*sharing, ends).reshape(ends.shape)
    return np.divide(alone, ends, out=out, where=ends > 0)


def as_before(before: F64, loads: F64) -> F64:
    """Divide the total of each row of `loads`, (k, p), in the proportions of `before`, (j, p)."""
    share, total = before.sum(axis=0), loads.sum(axis=1, keepdims=True)
    whole = share.sum()
    return total * (share / whole) if whole > 0 else loads
