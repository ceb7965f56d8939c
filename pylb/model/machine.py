"""The machine as a tree of places, each with its computing and communication power."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pylb import _core, files
from pylb.errors import DomainError
from pylb.model import checks, probe
from pylb.model.network import Network
from pylb.model.places import Place, from_json, parse, to_json
from pylb.model.snapshot import F64, I32
from pylb.model.topology import Tree

FORMAT = "pylb machine"
W_COMM = 0.1  # weight of communication in `power`, from DRUM's authors; some programs need more
MOST_ITEMS = 10**12  # largest number of items that `counts` divides
SHOWN = 8  # a repr of more than 4 * SHOWN lines leaves out the middle


@dataclass(frozen=True, eq=False, repr=False)
class Machine:
    """A machine as a tree with the ranks at its leaves.

    `measure` builds it from the running job, `parse` from a string, `read` from a file.

    Parameters
    ----------
    root : Place
    ranks : (p,) sequence of int, optional
        The rank at each leaf, in order of the leaves.  Default: 0, 1, ...
    alpha, beta : (m, m) array of float, optional
        Seconds per message and per byte between two of the m nodes; on the diagonal: between ranks
        of one node.  NaN: not known.

    Attributes
    ----------
    n_ranks : int
    nodes : tuple of Place
        The places of kind "node", in order of the tree.
    node : (p,) int32
        Index in `nodes` of each rank's node, for `Snapshot(node=...)`; -1: the rank is on no node.
    speed, load : (p,) float64
        Speed and load of each rank (see `Place`), e.g. for ``Snapshot(speed=machine.speed)``.

    Raises
    ------
    DomainError
        A value is out of its domain.

    Examples
    --------
    >>> machine = pylb.Machine.parse("node:2[speed=1,3] rank:2")
    >>> machine.n_ranks, machine.part_sizes()
    (4, array([0.125, 0.125, 0.375, 0.375]))
    """

    root: Place
    ranks: Sequence[int] = ()
    alpha: F64 = field(default_factory=lambda: np.zeros((0, 0)))
    beta: F64 = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        if not isinstance(self.root, Place):
            raise DomainError(
                f"root is {self.root!r}: expected a Place; Machine.parse takes a string, "
                "Machine.read a file"
            )
        tree = list(self.root.walk())
        leaves = [v for v, (_, place) in enumerate(tree) if not place.children]
        ranks = np.asarray(self.ranks if len(self.ranks) else range(len(leaves)), np.int32)
        if sorted(ranks.tolist()) != list(range(len(leaves))):
            raise DomainError(
                f"ranks are {ranks.tolist()}: expected each of 0 ... {len(leaves) - 1} once, one "
                "for each leaf"
            )
        nodes = [v for v, (_, place) in enumerate(tree) if place.kind == "node"]
        shape = (len(nodes), len(nodes))
        for name in ("alpha", "beta"):
            given = checks.array(name, getattr(self, name), float)
            if given.size == 0:
                given = np.full(shape, np.nan)
            if given.shape != shape or (given < 0).any() or np.isinf(given).any():
                raise DomainError(
                    f"{name} has shape {given.shape}, or values that are negative or infinite: "
                    f"expected {shape}, finite numbers, 0 or more"
                )
            object.__setattr__(self, name, given)
        leaf = np.empty(len(leaves), np.int32)
        leaf[ranks] = leaves
        object.__setattr__(self, "ranks", tuple(ranks.tolist()))
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_leaf", leaf)

    # ---- properties ----------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[list[tuple[int, Place]], I32]:
        return self._tree, self._leaf  # type: ignore[attr-defined]

    @property
    def n_ranks(self) -> int:
        return len(self.ranks)

    @property
    def nodes(self) -> tuple[Place, ...]:
        return tuple(place for _, place in self._parts[0] if place.kind == "node")

    @property
    def node(self) -> I32:
        tree, leaf = self._parts
        number, count = np.full(len(tree), -1, np.int32), 0
        for v, (above, place) in enumerate(tree):
            if place.kind == "node":
                number[v], count = count, count + 1
            elif above >= 0:
                number[v] = number[above]
        out: I32 = number[leaf]
        return out

    @property
    def speed(self) -> F64:
        return np.array([self._parts[0][v][1].speed for v in self._parts[1]])

    @property
    def load(self) -> F64:
        return np.array([self._parts[0][v][1].load for v in self._parts[1]])

    def tree(self) -> Tree:
        """Return the machine as a regular tree, for `pylb.model.hops` and `map_ranks`.

        Raises
        ------
        DomainError
            Places of one level have different numbers of children, or the ranks are not in order.
        """
        sizes, level = [], [self.root]
        while level[0].children:
            if len({len(place.children) for place in level}) > 1:
                raise DomainError(f"the machine is not a regular tree: {self!r}")
            sizes.append(len(level[0].children))
            level = [child for place in level for child in place.children]
        if self.ranks != tuple(range(self.n_ranks)):
            raise DomainError(f"ranks are {self.ranks}: expected them in order of the leaves")
        return Tree(tuple(sizes))

    def network(self, a: int, b: int) -> Network:
        """Return the cost of a message between nodes number `a` and `b`."""
        return Network(float(self.alpha[a, b]), float(self.beta[a, b]))

    # ---- shares --------------------------------------------------------------------------------

    def power(self, w_comm: float = W_COMM) -> F64:
        """Return DRUM's power of each rank, with sum 1 (Devine 2005/2008).

        A place n has two powers: the communication power c_n is its bandwidth, and the processing
        power p_n is the sum of the speeds of its ranks.  Beginning at the root, each place divides
        its power among its children in proportion to ``w_comm c_n + w_cpu p_n``, where c_n and p_n
        are fractions of the sum over the children.  If the bandwidth of a child is not known, e.g.
        within a node, only p_n counts.  A place whose ranks all have speed 0 gets no power.

        Parameters
        ----------
        w_comm : float
            Weight of communication, 0 ... 1; ``w_cpu`` is ``1 - w_comm``.

        Returns
        -------
        (p,) float64

        Raises
        ------
        DomainError
            All ranks have speed 0; `w_comm` is out of its range.
        """
        tree, leaf = self._parts
        w_comm = checks.number("w_comm", w_comm)
        if not self.speed.any():
            raise DomainError("the speed of all ranks is 0: expected one above 0")
        parent = np.array([above for above, _ in tree], np.int32)
        cpu = np.array([place.speed for _, place in tree])
        comm = np.array([place.bandwidth for _, place in tree])
        out: F64 = _core.drum_power(parent, cpu, comm, w_comm)[leaf]
        return out

    def part_sizes(self, w_comm: float = W_COMM) -> F64:
        """Return shares for `pylb.partition(shares=...)`: the `power` of each rank."""
        return self.power(w_comm)

    def counts(self, n: int, w_comm: float = W_COMM) -> Any:
        """Divide n items in proportion to `power`, by largest remainders; return (p,) int64."""
        return _core.apportion(self.power(w_comm), checks.whole("n", n, 0, below=MOST_ITEMS + 1))

    def with_speeds(self, speed: ArrayLike, load: ArrayLike | None = None) -> Machine:
        """Return a copy of the machine whose ranks have these speeds (and loads)."""
        fast = checks.array("speed", speed, float)
        busy = self.load if load is None else checks.array("load", load, float)
        if fast.shape != (self.n_ranks,) or busy.shape != fast.shape:
            raise DomainError(
                f"speed has shape {fast.shape}, load {busy.shape}: expected ({self.n_ranks},)"
            )
        leaves = iter(self.ranks)

        def renew(place: Place) -> Place:
            if place.children:
                return replace(place, children=tuple(map(renew, place.children)))
            rank = next(leaves)
            return replace(place, speed=float(fast[rank]), load=float(busy[rank]))

        return replace(self, root=renew(self.root))

    # ---- measure, parse, read ------------------------------------------------------------------

    @classmethod
    def measure(cls, comm: Any = None, *, seconds: float = 0.1, network: bool = True) -> Machine:
        """Measure the machine that a job runs on.  Collective; may block.

        Ranks that share memory are on one node.  The tree shows the sockets of a node if each
        of its ranks is bound to one socket, and not all to the same.  All ranks compute at the same
        time for `seconds`, so that the speeds include quotas and other programs on the same cores.
        Then the first two ranks of each node play ping-pong.  Then the first ranks of all pairs of
        nodes play ping-pong, in rounds in which each rank has at most one partner.

        Parameters
        ----------
        comm : mpi4py communicator, VirtualComm or None
            None: one rank.  The properties of a virtual cluster are known, so it is not measured.
        seconds : float
            How long to compute.  If ranks have CPU quotas, choose several periods of the quota.
        network : bool
            Whether to measure the network.
        """
        return cls(*probe.measured(comm, seconds, network))

    @classmethod
    def parse(cls, text: str) -> Machine:
        """Build a machine from a string, e.g. ``"node:2 socket:2 rank:8"``.

        The string lists the levels from the root down.  The number after a level says how many of
        its places are below each place of the previous level.  Properties are in brackets, with one
        value for each of these places; fewer values are repeated cyclically:
        ``"node:2[speed=1,0.5 bandwidth=1e9,1e8] rank:4"``.  The speeds of all levels are
        multiplied.

        Raises
        ------
        FormatError
            The string does not describe a machine.
        """
        return cls(parse(text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file."""
        text = {"format": FORMAT, "version": 1, "root": to_json(self.root), "ranks": self.ranks}
        known = {
            name: np.where(np.isnan(a), -1, a).tolist()
            for name, a in (("alpha", self.alpha), ("beta", self.beta))
        }
        files.write_text(path, json.dumps({**text, **known}, indent=1))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Machine:
        """Read what `save` wrote.

        Raises
        ------
        MissingFileError, FormatError
            The file does not exist, or does not describe a machine.
        """
        with files.understood(path, "a file that describes a machine"):
            found = files.json_of(path)
            files.check_format(found, FORMAT)
            networks = [np.array(found[name], float) for name in ("alpha", "beta")]
            alpha, beta = (np.where(a == -1, np.nan, a) for a in networks)
            return cls(from_json(found["root"]), found["ranks"], alpha, beta)

    # ---- text ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        leaf = iter(self.ranks)
        lines = [f"<Machine: {self.n_ranks} ranks on {max(len(self.nodes), 1)} nodes>"]

        def show(place: Place, indent: str) -> None:
            words = [f"{indent}{place.kind} {place.name}".rstrip()]
            if not place.children:
                words = [f"{indent}rank {next(leaf)}", f"speed {place.speed:.3g}"]
                words += [f"load {place.load:.2f}"] if place.load >= 0.005 else []
            words += [f"{place.cores} cores"] if place.cores else []
            words += [f"{place.sockets} sockets"] if place.sockets > 1 else []
            if not math.isnan(place.bandwidth):
                words.append(f"{place.bandwidth / 1e6:.3g} MB/s")
            lines.append(", ".join(words))
            for child in place.children:
                show(child, indent + "  ")

        for child in self.root.children or (self.root,):
            show(child, "  ")
        if len(lines) > 4 * SHOWN:
            lines[2 * SHOWN : -2 * SHOWN] = [f"  ... {len(lines) - 4 * SHOWN} lines more"]
        return "\n".join(lines)
