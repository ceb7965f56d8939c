"""The snapshot of the load database: the data that all rooms (folders of pylb) exchange."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pylb import _core
from pylb.console import InNotebook, clip, count
from pylb.errors import DomainError, suggesting
from pylb.model import checks
from pylb.model.metrics import Metrics

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


class Edges(NamedTuple):
    """Communication per iteration, one entry for each directed pair of objects with messages.

    Examples
    --------
    >>> ring = pylb.model.Edges(src=[0, 1, 2], dst=[1, 2, 0], nbytes=[800, 800, 800])
    >>> pylb.Snapshot([1.0, 2.0, 3.0], rank=[0, 0, 1], edges=ring).edge_bytes
    array([800., 800., 800.])
    """

    #: (m,) indices of the sending and the receiving object.
    src: ArrayLike
    dst: ArrayLike
    nbytes: ArrayLike  #: (m,) bytes per iteration.
    messages: ArrayLike | None = None  #: (m,) messages per iteration; None: one for each edge.


class Multicasts(NamedTuple):
    """Messages per iteration that go from one object to several objects: hyperedges.

    Examples
    --------
    >>> to_both = pylb.model.Multicasts(src=[0], start=[0, 2], dst=[1, 2], nbytes=[800])
    >>> snap = pylb.Snapshot([1.0, 2.0, 3.0], rank=[0, 1, 1], multicasts=to_both)
    >>> pylb.evaluate(snap).cut  # bytes of edges only; multicasts count in `connectivity`
    0.0
    """

    src: ArrayLike  #: (c,) index of the sending object of each multicast.
    start: ArrayLike  #: (c + 1,) the receivers of multicast e are ``dst[start[e]:start[e + 1]]``.
    dst: ArrayLike  #: (start[-1],) indices of the receiving objects; the sender may be among them.
    nbytes: ArrayLike  #: (c,) bytes per iteration, counted once for all receivers.
    messages: ArrayLike | None = None  #: (c,) messages per iteration; None: one for each multicast.


def _column(owner: str, name: str, doc: str) -> Any:
    """Make a property from a column of the edges or multicasts; None if there is no such column."""

    def get(self: Snapshot) -> Any:
        return getattr(getattr(self, owner), name, None)

    return property(get, doc=doc)


def _optional(dtype: Any, *shape: str | int) -> Any:
    """Make a field for an array that may be absent; n objects, p ranks, b blocks."""
    return field(default=None, metadata={"dtype": dtype, "shape": shape})


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot(InNotebook):
    """Loads, ranks and communication of all objects, and properties of the ranks.

    The time of rank r in one iteration is ``background[r] + sum(load on r) / speed[r]``, so a load
    is the time of its object on a rank of speed 1.

    Examples
    --------
    >>> snap = pylb.Snapshot(load=[3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1], n_ranks=2)
    >>> snap.metrics.max_over_mean
    1.5
    """

    #: (n,) or (n, d) seconds per iteration; d: one load for each phase of an iteration, or for each
    #: kind of processor.
    load: F64
    rank: I32  #: (n,) the rank of each object, 0 ... n_ranks - 1.
    n_ranks: int = 0  #: Default: the highest rank in `rank`, plus one.
    #: `Edges`, or (src, dst, nbytes[, messages]): communication between objects (by index).
    edges: Any = None
    #: (n,) bytes that the migration of an object sends, and bytes that it occupies.
    nbytes: I64 | None = _optional(np.int64, "n")
    memory: I64 | None = _optional(np.int64, "n")
    #: (n,) False: the object stays where it is.
    migratable: NDArray[np.bool_] | None = _optional(np.bool_, "n")
    #: (n,) the program's own key of each object.  Default: its index.
    key: I64 | None = _optional(np.int64, "n")
    coords: F64 | None = _optional(np.float64, "n", 3)  #: (n, 3) position of each object.
    #: (p,) relative speed of each rank, or (p, d): for each of the d loads.  Default: all 1.
    speed: F64 | None = _optional(np.float64, "p")
    #: (p,) seconds per iteration that a rank spends on other work.
    background: F64 | None = _optional(np.float64, "p")
    #: (p,) bytes that the objects of a rank may occupy.
    memory_limit: I64 | None = _optional(np.int64, "p")
    #: (p,) node of each rank.  Default: each rank is a node.
    node: I32 | None = _optional(np.int32, "p")
    #: `Multicasts`, or (src, start, dst, nbytes[, messages]); not again in `edges`.
    multicasts: Any = None
    #: (n,) index in `block_bytes` of the data that an object shares with others; -1: none.
    block: I32 | None = _optional(np.int32, "n")
    #: (b,) bytes of each block of data; a rank has one copy, for all its objects that share it.
    block_bytes: I64 | None = _optional(np.int64, "b")
    #: (b,) rank where each block is at home.  A block on another rank costs time in CCMLB.
    home: I32 | None = _optional(np.int32, "b")
    #: (2,) cost of a message, and of a byte, between two ranks of one node, as fractions (0 ... 1)
    #: of those between nodes, e.g. `Machine.near`; needs `node`.  Default: the same everywhere.
    near: F64 | None = _optional(np.float64, 2)
    #: (p,) bytes that the objects of all ranks of the rank's node together may occupy.
    node_memory_limit: I64 | None = _optional(np.int64, "p")

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "load", _array("load", self.load, np.float64))
        put(self, "rank", _array("rank", self.rank, np.int32))
        if self.load.ndim not in (1, 2):
            raise DomainError(f"load has {self.load.ndim} axes: expected (n,) or (n, d)")
        if self.load.ndim == 2:  # the C core does not know the indices of an entry
            checks.amounts("load", self.load)
        n = len(self.load)
        if self.n_ranks == 0:
            put(self, "n_ranks", int(self.rank.max()) + 1 if n else 1)
        put(self, "n_ranks", checks.integer("n_ranks", self.n_ranks))
        for name, kind in (("edges", Edges), ("multicasts", Multicasts)):
            if getattr(self, name) is not None:
                put(self, name, _messages(name, getattr(self, name), kind))
        if (self.block is None) != (self.block_bytes is None):
            raise DomainError("one of block and block_bytes is given: expected both or neither")
        if self.home is not None and self.block is None:
            raise DomainError("home is given without block: expected also block and block_bytes")
        sizes = {"n": n, "p": self.n_ranks, "b": self.n_blocks}
        for name, dtype, axes in OPTIONAL:
            value = getattr(self, name)
            if value is None:
                continue
            value, shape = _array(name, value, dtype), tuple([sizes.get(x, x) for x in axes])
            if name == "speed" and value.ndim == 2 and self.n_components > 1:
                shape = (self.n_ranks, self.n_components)
            if value.shape != shape:
                raise DomainError(f"{name} has shape {value.shape}: expected {shape}")
            put(self, name, value)
        if self.rank.shape != (n,):
            raise DomainError(f"rank has shape {self.rank.shape}: expected ({n},), like load")
        _core.check_snapshot(self)

    @property
    def n_objects(self) -> int:
        """Number of objects."""
        return len(self.load)

    @property
    def n_components(self) -> int:
        """Number of loads per object: 1 unless `load` has a second axis."""
        return 1 if self.load.ndim == 1 else self.load.shape[1]

    @property
    def n_speeds(self) -> int:
        """Number of speeds per rank: 1 unless `speed` has a second axis."""
        return 1 if self.speed is None or self.speed.ndim < 2 else self.n_components

    @property
    def n_edges(self) -> int:
        """Number of directed pairs that communicate."""
        return 0 if self.edges is None else len(self.edges.src)

    edge_src = _column("edges", "src", "(m,) int32, sending object of each edge.")
    edge_dst = _column("edges", "dst", "(m,) int32, receiving object of each edge.")
    edge_bytes = _column("edges", "nbytes", "(m,) float64, bytes per iteration.")
    edge_messages = _column("edges", "messages", "(m,) float64, per iteration; None: one each.")
    multicast_src = _column("multicasts", "src", "(c,) int32, sending object of each multicast.")
    multicast_start = _column("multicasts", "start", "(c + 1,) int64, as in `Multicasts`.")
    multicast_dst = _column("multicasts", "dst", "(n_pins,) int32, as in `Multicasts`.")
    multicast_bytes = _column("multicasts", "nbytes", "(c,) float64, bytes per iteration.")
    multicast_messages = _column("multicasts", "messages", "(c,) float64; None: one each.")

    @property
    def n_multicasts(self) -> int:
        """Number of multicasts."""
        return 0 if self.multicasts is None else len(self.multicasts.src)

    @property
    def n_pins(self) -> int:
        """Number of receivers of all multicasts together."""
        return 0 if self.multicasts is None else len(self.multicasts.dst)

    @property
    def n_blocks(self) -> int:
        """Number of blocks of data that objects share."""
        return 0 if self.block_bytes is None else checks.array("block_bytes", self.block_bytes).size

    @property
    def rank_times(self) -> F64:
        """Seconds of each rank in one iteration, (p,) float64."""
        return _core.rank_times(self)

    @property
    def metrics(self) -> Metrics:
        """Metrics of imbalance of the present placement."""
        return Metrics.of(self.rank_times)

    def with_rank(self, rank: ArrayLike) -> Snapshot:
        """Return a copy with another placement, (n,) array of int."""
        return replace(self, rank=_array("rank", rank, np.int32))

    def _bars(self) -> dict[str, Any]:
        return {"seconds of each rank": self.rank_times}

    def __repr__(self) -> str:
        m = self.metrics
        what = f"{count(self.n_objects, 'object')} on {count(self.n_ranks, 'rank')}"
        edges = count(self.n_edges, "edge")
        balance = f"max/mean {m.max_over_mean:.4g}, iteration {m.max:.4g} s"
        return f"<Snapshot: {what}, {edges}, {balance}>"


# name, dtype and axes of each
OPTIONAL = [(f.name, *f.metadata.values()) for f in fields(Snapshot) if f.metadata]


def _array(name: str, value: ArrayLike, dtype: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Return `value` as a contiguous array of `dtype`, copied only if necessary."""
    try:
        given = np.asarray(value)
        kind = given.dtype.kind
        fits = kind != "c"
        if np.issubdtype(dtype, np.integer) and kind not in "iub" and given.size:
            fits = kind == "f" and (given == np.rint(given)).all()
        if not fits:
            raise TypeError(f"its dtype is {given.dtype}")
        out = np.ascontiguousarray(given, dtype=dtype)
        if not given.ndim:
            raise TypeError("it has no axis")
    except (TypeError, ValueError, OverflowError) as why:
        raise DomainError(f"{name}: expected an array of {np.dtype(dtype).name}; {why}") from None
    narrowed = np.dtype(dtype) == np.int32 and given.dtype != np.int32
    if narrowed and not np.array_equal(given, out):
        raise DomainError(f"{name}: a value does not fit into 32 bits")
    if shape is not None and out.shape != shape:
        raise DomainError(f"{name} has shape {out.shape}: expected {shape}")
    return out


def _messages(name: str, value: Any, kind: Any) -> Any:
    """Check edges or multicasts, and return them as a named tuple of type `kind`."""
    fields = kind._fields
    parts = tuple(value) if isinstance(value, Iterable) else ()
    if not 0 <= len(fields) - len(parts) <= 1:  # the last array may be absent
        given = clip(repr(value), 60)
        raise DomainError(f"{name} is {given}: expected ({', '.join(fields[:-1])}[, {fields[-1]}])")
    # the last three fields are dst, nbytes, messages
    n, n_dst = (checks.array(f"{name}.{fields[k]}", parts[k]).size for k in (0, len(fields) - 3))
    dtypes = {"src": np.int32, "start": np.int64, "dst": np.int32}
    shapes = {"start": (n + 1,), "dst": (n if kind is Edges else n_dst,)}
    return kind._make(
        None
        if x is None and field == "messages"
        else _array(f"{name}.{field}", x, dtypes.get(field, np.float64), shapes.get(field, (n,)))
        for field, x in zip(fields, (*parts, None), strict=False)
    )


Snapshot.__init__ = suggesting(Snapshot.__init__)  # type: ignore[method-assign]


def from_core(n_ranks: int, n_components: int, arrays: dict[str, Any]) -> Snapshot:
    """Make the snapshot that the C core passes to a strategy written in Python."""
    load, coords, speed = arrays.pop("load"), arrays.pop("coords"), arrays.pop("speed")
    edges = Edges(*(arrays.pop(f"edge_{name}") for name in ("src", "dst", "bytes", "messages")))
    of_multicasts = ("src", "start", "dst", "bytes", "messages")
    multicasts = Multicasts(*(arrays.pop(f"multicast_{name}") for name in of_multicasts))
    return Snapshot(
        load=load if n_components == 1 else load.reshape(-1, n_components),
        n_ranks=n_ranks,
        edges=None if edges.src is None else edges,
        multicasts=None if multicasts.src is None else multicasts,
        coords=None if coords is None else coords.reshape(-1, 3),
        speed=speed if speed is None or len(speed) == n_ranks else speed.reshape(n_ranks, -1),
        **arrays,
    )


class Rows(NamedTuple):
    """Communication per iteration, one row for each sender and receiver."""

    #: (m,) indices of the sending and the receiving object.
    src: I32
    dst: I32
    #: (m,) bytes and messages per iteration.
    nbytes: F64
    messages: F64
    #: (m,) index of the multicast that the row is part of, from 1; 0: none.  The rows of a
    #: multicast have the same sender, bytes and messages, and follow each other.
    multicast: I32

    @classmethod
    def given(cls, src: Any, dst: Any, nbytes: Any, messages: Any, multicast: Any) -> Rows:
        """Make rows from columns; if `multicast` is None, no row is part of a multicast."""
        none = np.zeros(len(src), np.int32)
        return cls(src, dst, nbytes, messages, none if multicast is None else multicast)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Rows:
        none = np.zeros(0, np.int32)
        e: Any = snapshot.edges or Edges(none, none, np.zeros(0))
        messages = np.ones(len(e.src)) if e.messages is None else e.messages
        out = cls.given(e.src, e.dst, e.nbytes, messages, None)
        m: Any = snapshot.multicasts
        if m is None:
            return out
        count = np.diff(m.start)
        messages = np.ones(len(count)) if m.messages is None else m.messages
        columns = (m.src, None, m.nbytes, messages, np.arange(1, len(count) + 1, dtype=np.int32))
        more: list[Any] = [m.dst if x is None else np.repeat(x, count) for x in columns]
        return cls(*(np.concatenate([a, b]) for a, b in zip(out, more, strict=True)))

    def split(self) -> tuple[Edges, Multicasts | None]:
        """Return the rows as edges and multicasts; None instead of multicasts if there are none."""
        rows = np.flatnonzero(self.multicast)
        if not len(rows):
            return Edges(*self[:4]), None
        plain = self.multicast == 0
        is_first = starts(self.multicast[rows])
        first = rows[is_first]
        start = np.append(np.flatnonzero(is_first), len(rows))
        return (
            Edges(*(column[plain] for column in self[:4])),
            Multicasts(self.src[first], start, self.dst[rows], *(x[first] for x in self[2:4])),
        )

    def placed(self, where: Any) -> Rows:
        """Return a copy with the senders `where[src]` and the receivers `where[dst]`."""
        return self._replace(src=where[self.src], dst=where[self.dst])


def starts(number: I32 | I64) -> Any:
    """Return for each number whether it differs from the number before it, (n,) bool."""
    out = np.ones(len(number), np.bool_)
    out[1:] = number[1:] != number[:-1]
    return out
