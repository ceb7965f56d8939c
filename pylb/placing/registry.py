"""The table of strategies: those of the C core, and Python functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pylb import _core
from pylb.console import Listing
from pylb.errors import DomainError, StrategyError, UnknownStrategyError, nearest, unknown
from pylb.model import checks
from pylb.model.snapshot import I32, Snapshot
from pylb.partitioning import libraries
from pylb.partitioning.call import partition
from pylb.partitioning.libraries import METHODS
from pylb.placing import copies

# Names that users may pass in place of a strategy's name.
RESERVED = ("auto", "unbalanced", "CopiesLB")
SHOWN = {"strategy": "name", "what it does": "help", "family": "family", "looks at": "looks_at"}
LOOKS_AT = _core.LOOKS_AT  # for each part of a snapshot, its bit in the core's table of strategies


class Param(NamedTuple):
    """A parameter, e.g. of a strategy or a trigger; values from `least` to `most` are allowed."""

    name: str
    default: float
    least: float
    most: float
    unit: str
    help: str


def values_of(owner: str, params: tuple[Param, ...], given: Mapping[str, float]) -> list[float]:
    """Check the given parameters, and return the values of all, in the order of `params`.

    Other parameters have their defaults.  `owner` is for messages, e.g. the name of a strategy.
    """
    if not given:
        return [p.default for p in params]
    _check_names(owner, [p.name for p in params], given)
    out = []
    for p in params:
        unit = f" {p.unit}" if p.unit else ""
        expected = f"expected {p.least:g} ... {p.most:g}{unit}"
        try:
            value = float(given.get(p.name, p.default))
        except (TypeError, ValueError):
            raise DomainError(f"{p.name} is {given[p.name]!r}: {expected}") from None
        if not p.least <= value <= p.most:
            raise DomainError(f"{p.name} is {value:g}: {expected}")
        out.append(value)
    return out


def with_network(entry: Strategy, network: tuple[float, float]) -> Strategy:
    """Return the strategy with alpha and beta, if it has both; values set earlier have priority."""
    alpha, beta = network
    if alpha + beta == 0 or not {"alpha", "beta"} <= {param.name for param in entry.params}:
        return entry
    return replace(entry, values={"alpha": alpha, "beta": beta, **entry.values})


def _check_names(owner: str, names: list[str], given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in names:
            raise DomainError(
                f"{owner} has no parameter {name!r}: expected {', '.join(names) or 'none'}"
                + nearest(name, names)
            )


@dataclass(frozen=True)
class Strategy:
    """A strategy: an entry of the C core's table, or a Python callable; see `pylb.strategy`.

    Examples
    --------
    >>> refine = pylb.strategies()["RefineLB"]
    >>> [param.name for param in refine.params], refine.distributed
    (['overload'], False)
    """

    name: str
    #: {"comprehensive", "refinement"}: a comprehensive strategy ignores the present placement; a
    #: refinement changes it as little as possible (Menon 2012, section 2.2).
    family: str
    looks_at: tuple[str, ...]  #: The parts of the snapshot that influence the placement.
    #: A description, and the paper with its section.
    help: str
    source: str
    params: tuple[Param, ...] = ()
    call: Callable[..., Any] | None = None  #: None for a strategy of the C core.
    selectable: bool = True  #: Whether "auto" may choose it.
    #: Whether each rank decides on its own objects, in rounds of messages, so that no rank computes
    #: the placement alone.
    distributed: bool = False
    library: str | None = None  #: The partitioning library that it needs (see ``pylb info``).
    takes_phases: bool = True  #: Whether it uses all loads of an object; if not, their sum.
    #: The values of parameters that `pylb.strategy` has set, by name.
    values: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @functools.cached_property
    def numbers(self) -> list[float]:
        """The values of all parameters in the order of `params`; [] for a callable."""
        return values_of(self.name, self.params, {} if self.call else self.values)

    def bound(self) -> Any:
        """Return the argument for the C core: the name, or the callable with bound parameters."""
        if self.library is not None:
            libraries.load(self.library)
        if self.call is None:
            return self.name
        return functools.partial(self.call, **self.values) if self.values else self.call

    @functools.cached_property
    def candidate(self) -> tuple[Any, ...]:
        """The tuple that describes the strategy to a decider of the C core."""
        what = self.name if self.call is None else self.bound()
        looks_at = sum(LOOKS_AT[word] for word in self.looks_at)
        return what, self.name, self.family == "refinement", looks_at, self.numbers


def _table() -> dict[str, Strategy]:
    out = {}
    for row in _core.strategies():
        name, family, bits, text, source, params, distributed, library, equal, phases = row
        looks = tuple(k for k, bit in LOOKS_AT.items() if bits & bit)
        out[name] = Strategy(
            name,
            family,
            looks,
            text,
            source,
            tuple(Param(*p) for p in params),
            # "auto" chooses among installed strategies that see all objects, do not
            # assume equal loads, and read no positions.
            selectable=not (distributed or equal or bits & LOOKS_AT["coords"])
            and (library is None or libraries.available(library)),
            distributed=distributed,
            library=library,
            takes_phases=phases,
        )
    return out


_registry: dict[str, Strategy] = _table()

AUTO = Strategy(
    "auto",
    "",
    (),
    "chooses one of the strategies for each LB step",
    "Menon 2012, section 3.7",
    tuple(Param(*p) for p in _core.selection()),
    selectable=False,
)


COPIES = Strategy(
    copies.NAME,
    "refinement",
    ("load", "bytes", "nodes", "memory"),
    "places objects that may have several copies, which share their load; only in `pylb.place`",
    "DeepSeek EPLB 2025",
    call=copies.place_copies,
    selectable=False,
)


def strategies() -> dict[str, Strategy]:
    """Return all strategies by name: those of the C core and of `register_strategy`.

    The dictionary is printed as a table.

    Examples
    --------
    >>> greedy = pylb.strategies()["GreedyLB"]
    >>> greedy.family, greedy.looks_at
    ('comprehensive', ('load', 'speed', 'memory'))
    """
    return Listing(_registry, SHOWN)


def strategy(which: str | Strategy | Callable[..., Any], /, **params: Any) -> Strategy:
    """Return a strategy with chosen parameters, for all functions that take a strategy.

    Parameters
    ----------
    which : str or callable
        "auto", a name of `pylb.strategies()`, a function ``f(snapshot, **params)``, or a method of
        `pylb.partition` that divides from scratch.
    **params
        Some of ``pylb.strategy(name).params``; the others keep their defaults.

    Examples
    --------
    >>> snap = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1])
    >>> loose = pylb.strategy("RefineLB", overload=1.5)
    >>> pylb.place(snap, loose).migrations, pylb.place(snap, "RefineLB").migrations
    (0, 1)
    """
    entry = find(which, auto=True, copies=True)
    out = replace(entry, values={**entry.values, **params})
    if entry.call is None:
        assert out.numbers is not None  # checked
    elif params:
        try:
            own = list(inspect.signature(entry.call).parameters.values())[1:]
        except (TypeError, ValueError):  # a function in C, whose parameters are unknown
            return out
        if all(p.kind != p.VAR_KEYWORD for p in own):
            _check_names(entry.name, [p.name for p in own], params)
    return out


def register_strategy(
    call: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    family: str = "comprehensive",
    looks_at: Iterable[str] | None = None,
) -> Any:
    """Register a Python function as a strategy, which can then be used by its name.

    The function is called as ``f(snapshot, **params)``, with the parameters of `strategy`, and
    returns a rank for each object, an (n,) array or sequence of int.

    Parameters
    ----------
    name : str, optional
        Default: the name of the function.  No strategy of the C core has this name.
    family : {"comprehensive", "refinement"}
    looks_at : iterable of str, optional
        The parts of the snapshot that influence the placement: some of load, communication, bytes,
        coords, nodes, speed, memory.  If given, "auto" may choose the function.

    Examples
    --------
    >>> @pylb.register_strategy
    ... def round_robin(snapshot):
    ...     return np.arange(snapshot.n_objects) % snapshot.n_ranks
    >>> snap = pylb.Snapshot([3.0, 1.0, 2.0, 2.0], rank=[0, 0, 0, 1])
    >>> pylb.place(snap, "round_robin").rank
    array([0, 1, 0, 1], dtype=int32)
    """
    if call is None:
        return functools.partial(register_strategy, name=name, family=family, looks_at=looks_at)
    if not callable(call):
        raise DomainError(f"call is {call!r}: expected a function of a snapshot")
    if not (name is None or isinstance(name, str)):
        raise DomainError(f"name is {name!r}: expected a string")
    checks.one_of("family", family, ("comprehensive", "refinement"))
    entry = _of_callable(call, name or str(getattr(call, "__name__", "python")), family)
    if looks_at is not None:
        words = looks_at
        given = [words] if isinstance(words, str) else checks.several("looks_at", words, "a list")
        for word in given:
            if not isinstance(word, str) or word not in LOOKS_AT:
                raise DomainError(f"looks_at has {word!r}: expected some of {', '.join(LOOKS_AT)}")
        looks = tuple(word for word in LOOKS_AT if word in given)
        entry = replace(entry, looks_at=looks, selectable=True)
    known = _registry.get(entry.name)
    if entry.name in RESERVED or (known is not None and known.call is None):
        raise DomainError(f"name is {entry.name!r}: expected a name that no built-in strategy has")
    _registry[entry.name] = entry
    return call


def _of_callable(call: Callable[..., Any], name: str, family: str = "comprehensive") -> Strategy:
    text = (getattr(call, "__doc__", None) or "").strip().split("\n")[0]
    return Strategy(name, family, tuple(LOOKS_AT), text, "Python", call=call, selectable=False)


def find(
    which: str | Strategy | Callable[..., Any], *, auto: bool = False, copies: bool = False
) -> Strategy:
    """Return a strategy; `auto` and `copies`: whether "auto" and "CopiesLB" are accepted."""
    if COPIES.name in (which, getattr(which, "name", None)):
        if not copies:
            raise UnknownStrategyError(
                f"strategy is {COPIES.name!r}, which gives an object several ranks: expected it "
                "only in pylb.place"
            )
        return which if isinstance(which, Strategy) else COPIES
    if isinstance(which, Strategy):
        if auto or which.name != "auto":
            return which
        which = which.name
    if auto and isinstance(which, str) and which == "auto":
        return AUTO
    if callable(which):
        for entry in _registry.values():
            if entry.call is which:
                return entry
        return _of_callable(which, getattr(which, "__name__", "python"))
    if not isinstance(which, str):
        raise UnknownStrategyError(f"strategy is {which!r}: expected a name or a callable")
    if which in _registry:
        return _registry[which]
    if which not in METHODS:
        raise UnknownStrategyError(unknown("strategy", which, sorted(_registry)))
    call, looks_at = divider(which)
    return replace(_of_callable(call, which), looks_at=looks_at)


def answer_of(call: Callable[..., Any], snapshot: Snapshot) -> I32:
    """Call a Python strategy and check its answer.  The C core calls this function."""
    inner = call.func if isinstance(call, functools.partial) else call
    name = getattr(inner, "__name__", repr(inner))
    try:
        answer = call(snapshot)
    except Exception as why:
        raise StrategyError(f"strategy {name!r} raised {type(why).__name__}: {why}") from why
    try:
        out = np.asarray(answer)
        if out.dtype.kind not in "iu":
            raise TypeError(f"its dtype is {out.dtype}")
        if out.shape != (snapshot.n_objects,):
            raise TypeError(f"its shape is {out.shape}")
    except (TypeError, ValueError) as why:
        raise StrategyError(
            f"strategy {name!r} returned {type(answer).__name__}: expected "
            f"{snapshot.n_objects} ranks, one integer for each object; {why}"
        ) from None
    for i in np.flatnonzero((out < 0) | (out >= snapshot.n_ranks))[:1]:
        raise StrategyError(
            f"strategy {name!r} put object {i} on rank {out[i]}: expected 0 ... "
            f"{snapshot.n_ranks - 1}"
        )
    if snapshot.migratable is not None:
        for i in np.flatnonzero(~snapshot.migratable & (out != snapshot.rank))[:1]:
            raise StrategyError(f"strategy {name!r} moved object {i}, which may not migrate")
    return np.ascontiguousarray(out, dtype=np.int32)


# ---- methods of `pylb.partition` as strategies --------------------------------------------------


def divider(which: str) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return a method of `pylb.partition` as a function of a snapshot, and what it looks at."""
    takes = METHODS[which].takes
    if takes == "tree" or which == "keep":
        raise DomainError(f"strategy is {which!r}: expected a method that divides from scratch")

    def divide(snapshot: Snapshot, **params: Any) -> I32:
        if not snapshot.n_objects:
            return np.zeros(0, np.int32)
        result = partition(
            **_question(snapshot, takes),
            parts=snapshot.n_ranks,
            method=which,
            weight=snapshot.load if snapshot.load.any() else None,
            shares=snapshot.speed,
            old=snapshot.rank,
            **{"approach": "partition", **params},
        )
        return result.part

    divide.__name__ = which
    divide.__doc__ = f"pylb.partition(method={which!r}) on one rank"
    other = {"coords": "coords", "": "load"}.get(takes, "communication")
    return divide, tuple(dict.fromkeys(("load", "speed", other)))


def _question(snapshot: Snapshot, takes: str) -> dict[str, Any]:
    """Return arguments of `partition`: the graph or the positions, and the fixed objects."""
    out: dict[str, Any] = {}
    if takes == "coords":
        if snapshot.coords is None:
            raise DomainError("coords are missing: expected positions of the objects")
        used = np.flatnonzero(snapshot.coords.any(axis=0))
        out["coords"] = snapshot.coords[:, : max(used.max(initial=0) + 1, 1)]
    elif takes:
        n = snapshot.n_objects
        edges = (snapshot.edge_src, snapshot.edge_dst, snapshot.edge_bytes)
        src, dst, size = (np.asarray([] if x is None else x, np.int64) for x in edges)
        pair = np.concatenate([src * n + dst, dst * n + src])
        nbytes = np.tile(size, 2)
        keep = pair // n != pair % n
        pair, which = np.unique(pair[keep], return_inverse=True)
        weight = np.maximum(np.bincount(which, nbytes[keep], len(pair)), 1.0)  # of both directions
        start = np.concatenate([[0], np.cumsum(np.bincount(pair // n, minlength=n))])
        out["graph"] = start, pair % n, weight
    if snapshot.migratable is not None and not snapshot.migratable.all():
        out["fixed_part"] = np.where(snapshot.migratable, -1, snapshot.rank)
    return out
