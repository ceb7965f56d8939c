"""The cells of a rank, which a program that owns them describes in each step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.decide.decider import Settings
from pylb.errors import DomainError, UnknownKeyError
from pylb.model import checks
from pylb.model.objects import COLUMNS, Objects
from pylb.model.snapshot import F64, I32, I64, _array
from pylb.run.local_objects import NO_PARTS, SizeEstimator

NO_EDGES: I64 = np.zeros((0, 5), np.int64)
OPTIONAL = ("nbytes", "memory", "migratable", "shared")  # properties that a program may give


class Cells(NamedTuple):
    """The n cells of this rank in one step, checked; an array has one entry for each cell."""

    loads: F64  # seconds of each cell
    seconds: float  # sum of the loads
    keys: I64 | None = None  # None: the key of a cell is made from its rank and index
    columns: dict[str, NDArray[Any]] = {}  # noqa: RUF012  further properties, as in `COLUMNS`
    edges: Any = None  # as the program gave them; `edges_of` checks them later
    parts: F64 = NO_PARTS  # (d, n), seconds of each cell in each of d phases; d is 0 without phases
    totals: F64 = np.zeros(0)  # (d,), seconds of this rank in each phase


def cells_of(loads: F64, seconds: float, keys: Any, coords: Any, edges: Any, **given: Any) -> Cells:
    """Check the arrays of a step, and make the cells; the edges are checked later."""
    n = len(loads)
    given["shared"] = None if given["shared"] is None else _shared(given["shared"], n)
    columns = {
        name: _array(name, given[name], COLUMNS[name].dtype, (n, *COLUMNS[name].shape))
        for name in OPTIONAL
        if given[name] is not None
    }
    if coords is not None:
        coords = _array("coords", coords, np.float64)
        if coords.ndim != 2 or len(coords) != n or not 1 <= coords.shape[1] <= 3:
            raise DomainError(f"coords has shape {coords.shape}: expected ({n}, 1 ... 3)")
        columns["coords"] = np.pad(coords, ((0, 0), (0, 3 - coords.shape[1])))  # always (n, 3)
    if keys is not None:
        keys = _array("keys", keys, np.int64, (n,))
    elif edges is not None:
        raise DomainError("edges without keys: expected both, because edges name cells by keys")
    return Cells(loads, seconds, keys, columns, edges)


def loads_of(loads: Any) -> tuple[F64, F64]:
    """Check `loads`, (n,) or (n, d) seconds of cells; return them by cell, and by phase and cell.

    Shapes of the results: (n,) and (d, n); without phases, d is 0.
    """
    out = _array("loads", loads, np.float64)
    if out.ndim == 1:
        return out, NO_PARTS
    if out.ndim != 2 or not 1 <= out.shape[1] <= _core.MOST_PHASES:
        most = _core.MOST_PHASES
        raise DomainError(f"loads has shape {out.shape}: expected (n,), or (n, d), d up to {most}")
    checks.amounts("loads", out)
    return out.sum(axis=1), np.ascontiguousarray(out.T)


def _shared(shared: Any, n: int) -> I64:
    """Check (ids, bytes[, home ranks]), arrays (n,); return them as one array, (n, 3)."""
    if not isinstance(shared, tuple) or len(shared) not in (2, 3):
        raise DomainError("shared: expected a tuple of arrays, (ids, bytes[, home ranks])")
    names = ("ids", "bytes", "home ranks")
    out = np.full((n, 3), -1)
    for i, (what, column) in enumerate(zip(names, shared, strict=False)):
        out[:, i] = _array(f"shared: {what}", column, np.int64, (n,))
    out[out[:, 0] < 0] = -1  # these cells share nothing
    for k in np.flatnonzero((out[:, 0] >= 0) & (out[:, 1] < 0))[:1]:
        raise DomainError(f"shared: bytes[{k}] is {out[k, 1]}: expected 0 or more")
    for k in np.flatnonzero(out[:, 2] < -1)[:1]:
        raise DomainError(f"shared: home ranks[{k}] is {out[k, 2]}: expected a rank, or -1")
    return out


def edges_of(edges: Any) -> I64:
    """Check `edges`; return (m, 5), the columns of `Mail.edges`, of which the last one is 0."""
    if edges is None:
        return NO_EDGES
    if not isinstance(edges, tuple | list) or len(edges) not in (3, 4):
        raise DomainError("edges: expected (source keys, target keys, bytes[, messages])")
    src = _array("edges: source keys", edges[0], np.int64)
    shape = (len(src),) if src.ndim else ()
    dst = _array("edges: target keys", edges[1], np.int64, shape)
    sent = _array("edges: bytes", edges[2], np.float64, shape)
    messages = np.ones(shape)
    if len(edges) == 4:
        messages = _array("edges: messages", edges[3], np.float64, shape)
    if not all(np.all((x >= 0) & (x <= 1e18)) for x in (sent, messages)):
        raise DomainError("edges: expected bytes and messages from 0 to 1e18")
    for i in np.flatnonzero(messages != np.rint(messages))[:1]:
        raise DomainError(f"edges: messages[{i}] is {messages.flat[i]:g}: expected a whole number")
    whole = [np.rint(x).astype(np.int64) for x in (sent, messages)]
    return np.stack([src, dst, *whole, np.zeros_like(src)], axis=1)


class CellMessages(NamedTuple):
    """What a rank's cells send in a step."""

    edges: I64 = NO_EDGES  # (m, 5), see `edges_of`
    messages: int = 0  # number of messages to cells of other ranks
    nbytes: int = 0  # bytes of these messages


class LocalCells:
    """What a rank knows about its cells, in the form of `LocalObjects`, for `Records`.

    If the program gives no cells, all work of a rank is one cell that cannot move.
    """

    passes = 1  # number of steps over which `edges` are summed

    def __init__(self, rank: int, n_ranks: int) -> None:
        self.rank, self.n_ranks = rank, n_ranks
        self.sizes = SizeEstimator()  # it measures nothing, because the program packs the cells
        self.n_objects = 0  # number of cells of all ranks in the most recent step
        self.now = Cells(np.zeros(0), 0.0)  # the cells in the most recent step
        self.seconds, self.parts = self.now.loads, self.now.parts
        self.whole = True  # whether all work of the rank is one cell
        self.sent = CellMessages()  # what the cells sent when `edges` were last examined
        self.keys: I64 = np.zeros(0, np.int64)  # keys of the cells in `now`
        self.homes: I32 = np.zeros(0, np.int32)  # the rank on which each of the `keys` began
        self._known: tuple[I64, I32] = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self.version = 0  # number of changes of recorded properties
        # Names of the phases, which are the same in every step.  None before the first step.
        self.phases: tuple[str, ...] | None = None
        # Expected seconds of the cells.  None: expect the seconds of the most recent step.
        self.expected: F64 | None = None

    def recorded(self) -> Objects:
        """Return the cells and those of their properties that records and strategies use."""
        if self.whole:
            n = len(self.now.loads)  # 0 before the first step, else 1
            return Objects(np.full(n, self.rank), {"migratable": np.zeros(n, np.bool_)})
        return Objects(self.keys, self.now.columns)

    def part(self, _: Settings) -> tuple[Objects, I64, int]:
        """Return this rank's part of the load database: cells, edges and `passes`."""
        self.sent = self.sent._replace(edges=edges_of(self.now.edges))
        now = np.ascontiguousarray(self.parts.T) if len(self.parts) else self.seconds
        columns: dict[str, Any] = {"load": now if self.expected is None else self.expected}
        if self.expected is None:  # loads that were estimated from features show no speeds
            columns["here"] = now
        if self.now.keys is not None:
            columns["home"] = self.homes
        return self.recorded().plus(**columns), self.edges(), self.passes

    def changed(self, now: Cells) -> bool:
        """Return whether the keys (or, without keys, the number of cells) have changed."""
        if now.keys is None:
            return self.now.keys is not None or len(now.loads) != len(self.keys)
        return not np.array_equal(now.keys, self.keys)

    def messages_of(self, now: Cells) -> CellMessages:
        """Check the edges of the cells `now`, and return what these cells send in a step."""
        edges = edges_of(now.edges)
        if now.keys is None or not len(edges):
            return CellMessages()
        here = np.isin(edges[:, :2], now.keys)
        if not here[:, 0].all():
            key = edges[np.argmin(here[:, 0]), 0]
            raise UnknownKeyError(f"edges: source {key} is not a cell of rank {self.rank}")
        out = edges[~here[:, 1], 2:4]
        return CellMessages(edges, int(out[:, 1].sum()), int(out[:, 0].sum()))

    def accept(self, now: Cells, changed: bool, sent: CellMessages) -> None:
        """Store the cells of a step that has ended; `changed` is the result of the method."""
        new, old = now.columns, self.now.columns
        same = new.keys() == old.keys() and all(map(np.array_equal, new.values(), old.values()))
        self.version += "coords" in new or not same
        self.now, self.sent = now, sent
        self.seconds, self.parts = now.loads, now.parts
        if changed:
            n = len(now.loads)
            self.keys = (self.rank << 32) + np.arange(n) if now.keys is None else now.keys.copy()
            self.homes = np.full(len(self.keys), self.rank, np.int32)
            keys, homes = self._known
            if len(keys):
                place = np.minimum(np.searchsorted(keys, self.keys), len(keys) - 1)
                known = keys[place] == self.keys
                self.homes[known] = homes[place[known]]
            order = np.argsort(self.keys, kind="stable")
            self._known = self.keys[order], self.homes[order]

    def learn_homes(self, keys: I64, homes: I32) -> None:
        """Store the home ranks of cells that are to come to this rank."""
        every = np.append(self._known[0], keys), np.append(self._known[1], homes)
        order = np.argsort(every[0], kind="stable")
        self._known = every[0][order], every[1][order]

    def edges(self) -> I64:
        return self.sent.edges
