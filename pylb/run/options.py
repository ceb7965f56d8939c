"""Check the arguments of a `Balancer` or `Advisor`; read environment variables and functions."""

from __future__ import annotations

import hashlib
import math
import operator
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylb import _core
from pylb.comm.agreement import Agreement, Attempt, Step
from pylb.comm.parcel import exchange_objects, gather_objects
from pylb.console import clip
from pylb.decide.decider import Settings, learns, settings
from pylb.decide.registry import of_arguments
from pylb.errors import DomainError, MissingPartError, PylbError, StateError
from pylb.io.hdf5 import SUFFIXES
from pylb.io.run_record import OF_RANKS
from pylb.model import checks
from pylb.model.machine import Links, Machine
from pylb.model.snapshot import I32
from pylb.placing.registry import find, with_network
from pylb.run.experience import Experience


def ranks_with(agreement: Agreement, iteration: int, text: str) -> I32:
    """Return the ranks that pass the same `text`, ascending; empty: all ranks do.  Collective.

    The hash of a text selects a rank.  This rank collects the list of the ranks that pass the text,
    and sends them the list.
    """
    code = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    part = (code >> 11) / 2**53  # a fraction with 53 bits
    ends = agreement.reduce(
        *(Step.PLACE, iteration), {"least": ("min", part), "most": ("max", part)}
    )
    if ends["least"] == ends["most"]:  # all texts are the same
        return np.zeros(0, np.int32)
    to = code % agreement.transport.size
    texts = exchange_objects(agreement, Step.PLACE, iteration, lambda: {to: text})
    known: defaultdict[str, list[int]] = defaultdict(list)
    for rank in sorted(texts):
        known[texts[rank]].append(rank)
    lists = {rank: ranks for ranks in known.values() for rank in ranks}
    (own,) = exchange_objects(agreement, Step.PLACE, iteration, lambda: lists).values()
    return np.array(own, np.int32)


UNLIMITED = 1 << 60  # bytes; a limit this high means "none" (control groups of version 1: 2^63)


def share(agreement: Agreement, iteration: int, before: int) -> int:
    """Return the bytes that objects of this rank may occupy.  Collective.

    The ranks that share the limit of the machine or control group have equal shares of it, minus
    their shares of `before`, the bytes that their process used before there were objects.
    """
    (nbytes, name), process = tightest(), f"{os.uname().nodename} {os.getpid()}"
    sharing, in_process = (
        len(ranks_with(agreement, iteration, text)) or agreement.transport.size
        for text in (name, process)
    )
    return max(nbytes // sharing - before // in_process, 0)


def resident(proc: Path = Path("/proc")) -> int:
    """Return the bytes of memory that this process uses now; 0: not known."""
    try:
        return int((proc / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def tightest(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> tuple[int, str]:
    """Return the memory of the machine, or the limit of a control group if that is lower.

    Also returns a name, which is the same for all processes that share this memory.
    """
    host = os.uname().nodename
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [(nbytes, f"{host} {path}") for path, nbytes in _limits(proc, groups)]
    return min([*limits, (machine, host)])


def _limits(proc: Path, groups: Path) -> Iterator[tuple[str, int]]:
    """Yield name and bytes of each control group's limit for this process, its own group first."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, kinds, path = line.split(":", 2)
        root, name = groups, "memory.max"  # control groups of version 2
        if number != "0":
            root, name = groups / "memory", "memory.limit_in_bytes"
            if "memory" not in kinds.split(","):
                continue
        own = root / path.lstrip("/")
        for group in (own, *own.parents):
            if not group.is_relative_to(root):
                break
            with suppress(OSError):  # a group above the container's root, or without memory control
                content = (group / name).read_text().strip()
                if content.isdigit() and int(content) < UNLIMITED:
                    yield str(group.stat().st_ino), int(content)


Own = dict[str, float | int]
Answers = tuple[int, dict[str, list[float]]]  # see `run_record.RunFacts.answers`
EXPECTED = {
    "speed": "a number above 0 (1e-30 to 1e30), or one for each rank, a pylb.Machine or a function",
    "background": "seconds (0 to 1e30), or one number for each rank, or a function",
    "memory_limit": "bytes, zero or more, or one number for each rank, or a function, or 'auto'",
    "node_memory_limit": "bytes, zero or more, or one number for each rank, or a function",
}


class RankFacts:
    """The properties of this rank that the user has given."""

    def __init__(self, agreement: Agreement, **given: Any) -> None:
        self._agreement = agreement
        self._given = {
            name: self._resolved(name, value) for name, value in given.items() if value is not None
        }
        # "given" or "auto" for each property that is given; the same on all ranks.
        self.words = {
            name: "auto" if value == "auto" else "given" for name, value in self._given.items()
        }
        # Seconds of other work per iteration; if a function returns them, its most recent result.
        fixed = self._given.get("background", 0.0)
        self.background = 0.0 if callable(fixed) else fixed
        self._before = resident() if "auto" in self.words.values() else 0
        # Whether some properties are determined only when needed, by a function or for "auto".
        self._later = any(callable(value) or value == "auto" for value in self._given.values())
        self._now: Own | None = None  # the most recent values
        self._asked_after = 0  # number of iterations after which `_now` was determined
        # Values that rank 0 does not have yet, each with its moment (see `run_record.RunFacts`).
        self._answers: list[tuple[int, Own]] = []
        self._last: dict[int, Own] = {}  # on rank 0: the most recent values of each rank
        self.exceeded = False  # whether a placement has exceeded a memory limit
        self._near: I32 | None = None
        self.links: dict[str, Any] = {}  # `node` and `near` of the machine, see `Links.ranks`

    def _resolved(self, name: str, value: Any) -> Any:
        """Return the value for this rank; a function or "auto" is returned as it is, for `_ask`."""
        transport = self._agreement.transport
        if callable(value) or (name == "memory_limit" and str(value) == "auto"):
            return value
        if isinstance(value, Machine) and name == "speed":
            value = value.speed
        if np.ndim(value) == 0:
            return _checked(name, value)
        if np.shape(value) != (transport.size,):
            raise DomainError(
                f"{name} has shape {np.shape(value)}: expected ({transport.size},), one number for "
                "each rank"
            )
        return _checked(name, value[transport.rank])

    def own(self, done: int) -> Own:
        """Return the properties of this rank after `done` iterations, by name.

        Collective if a property is given by a function or "auto": then all are determined again for
        each new value of `done`, and if a function fails, all ranks raise an error.
        """
        if self._now is None or (self._later and self._asked_after != done):
            self._ask(done)
        assert self._now is not None
        return self._now

    def known(self, name: str) -> float | None:
        """Return the most recent value of a property of this rank; None: it is not given."""
        return (self._now or {}).get(name)

    def start(self, done: int) -> None:
        """At the start of a loop, call all functions if `background` is one.  Collective."""
        if callable(self._given.get("background")):
            self._ask(done, starts=True)

    def _ask(self, done: int, starts: bool = False) -> None:
        out: Own = {}
        with Attempt() as tried:
            out = {
                name: (_checked(name, value()) if callable(value) else value)
                for name, value in self._given.items()
                if value != "auto"
            }
        if self._later:
            self._agreement.step(Step.GATHER, done, error=tried.error)
        if "auto" in self.words.values():
            out["memory_limit"] = share(self._agreement, done, self._before)
        if "node_memory_limit" in out:
            here = self.neighbours(done)
            out["node"] = int(here[0]) if len(here) else 0
        self.background = out.get("background", self.background)
        if out != self._now:
            self._answers.append((2 * done + starts, out))
        self._now, self._asked_after = out, done

    def neighbours(self, iteration: int) -> I32:
        """Return the ranks of this node; empty: all ranks.  Collective the first time."""
        if (node := self.links.get("node")) is not None:
            return np.flatnonzero(node == node[self._agreement.transport.rank]).astype(np.int32)
        if self._near is None:
            self._near = ranks_with(
                self._agreement, iteration, os.environ.get("PYLB_NODE") or os.uname().nodename
            )
        return self._near

    def limit_of_root(self, done: int) -> int | None:
        """Return the memory limit of rank 0, on all ranks; None: there is none.  Collective."""
        if "memory_limit" not in self.words:
            return None
        own = int(self.own(done)["memory_limit"])
        of_root = own if self._agreement.transport.rank == 0 else 0
        # Not by a broadcast, because it would never end if a rank has failed.
        limit = self._agreement.reduce(Step.FORESEE, done, {"limit": ("sum", of_root)})["limit"]
        return int(limit)

    def of_all(self, done: int) -> list[Answers]:
        """On rank 0, return the properties of all ranks at each new change.  Collective."""
        self.own(done)
        new, self._answers = self._answers, []
        every = gather_objects(self._agreement, Step.GATHER, done, new)
        asked = sorted({moment for part in every.values() for moment, _ in part})
        out: list[Answers] = []
        for moment in asked:
            for rank, part in every.items():
                self._last[rank] = dict(part).get(moment, self._last.get(rank, {}))
            last = facts_of_all([self._last[rank] for rank in sorted(self._last)])
            out.append((moment, {name: array.tolist() for name, array in last.items()}))
        return out


def facts_of_all(every: list[Own]) -> dict[str, NDArray[Any]]:
    """Join the numbers of the ranks into one array for each name."""
    return {
        name: np.array([own[name] for own in every], dtype)
        for name, dtype in OF_RANKS.items()
        if every and name in every[0]
    }


def _checked(name: str, value: Any) -> float | int:
    try:
        if name.endswith("memory_limit"):
            whole = operator.index(value)
            if 0 <= whole < 2**63:
                return whole
            raise ValueError
        out = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _refused(name, value) from None
    if not (1e-30 if name == "speed" else 0.0) <= out <= 1e30:
        raise _refused(name, value)
    return out


def _refused(name: str, value: Any) -> DomainError:
    return DomainError(f"{name} is {clip(repr(value), 60)}: expected {EXPECTED[name]}")


MODES, CLOCKS = ("on", "shadow", "off"), ("auto", "wall", "cpu", "mpi")


def _one_of(text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise DomainError(f"expected {' or '.join(allowed)}")
    return text


def _trigger(text: str) -> dict[str, Any]:
    when = of_arguments(int(text), None) if text.isdecimal() else of_arguments(None, text)
    return {"every": None, "trigger": when}


def _record(text: str) -> dict[str, Any]:
    if text in ("0", "1"):
        return {"record": text == "1"}
    if not text.endswith(SUFFIXES):
        raise DomainError(f"expected a path that ends in {' or '.join(SUFFIXES)}, or 0 or 1")
    return {"record": text}


VARIABLES: dict[str, Callable[[str], dict[str, Any]]] = {
    "PYLB_STRATEGY": lambda text: {"strategy": find(text, auto=True)},
    "PYLB_TRIGGER": _trigger,
    "PYLB_MODE": lambda text: {"mode": _one_of(text, MODES)},
    "PYLB_RECORD": _record,
    "PYLB_CLOCK": lambda text: {"clock": _one_of(text, CLOCKS)},
    "PYLB_EXPERIENCE": lambda text: {"experience": None if text == "0" else text},
}


def overridden(
    arguments: dict[str, Any], variables: Iterable[str] = VARIABLES
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments, overridden by environment variables, and those set as ``name=value``.

    A strategy or trigger from the environment has its default parameters.
    """
    words = dict(arguments)
    overrides = []
    for name in variables:
        text = os.environ.get(name, "")
        if not text:
            continue
        try:
            words |= VARIABLES[name](text)
        except PylbError as why:
            raise type(why)(f"{name} is {text!r}: {why}") from None
        overrides.append(f"{name}={text}")
    return words, tuple(overrides)


def settings_in_force() -> dict[str, str]:
    """Return the environment variables that are set, by name."""
    return {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}


@dataclass(frozen=True)
class Options:
    """The checked arguments of a Balancer or an Advisor; those of the decider are in `settings`."""

    settings: Settings
    mode: str
    lag: float
    clock: str
    load: Callable[[int, Any], float] | None
    network: Links | str | None  # "measure": measured at the start
    record: bool | str | os.PathLike[str]
    replay: str | os.PathLike[str] | None
    facts: RankFacts
    overlap: bool | str  # False if it is not possible, e.g. with a lag
    experience: Experience | None = None

    def __post_init__(self) -> None:
        checks.one_of("mode", self.mode, MODES)
        checks.one_of("clock", self.clock, CLOCKS)
        if self.lag and (self.replay is not None or not isinstance(self.record, bool)):
            source = self.settings.said_by("record")
            raise DomainError(
                f"lag is {self.lag}: expected 0, because record=path{source} or replay=path is "
                "given"
            )
        if self.replay is not None and self.mode != "on":
            source = self.settings.said_by("mode")
            raise DomainError(
                f"mode is {self.mode!r}{source}: expected 'on', because replay=path is given"
            )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The options by name, for reports and records."""
        settings, network = self.settings, self.network
        if isinstance(network, Links):
            network = "machine" if network.machine else "given"
        return {
            "strategy": settings.strategy.name,
            "strategy_params": dict(settings.strategy.values),
            "trigger": settings.trigger.name,
            "trigger_params": settings.trigger.params,
            "mode": self.mode,
            "clock": self.clock,
            "load": "given" if self.load else None,
            "seed": settings.seed,
            "pause_if_useless": settings.gives_up,
            "learn_speeds": settings.learns,
            "lag": self.lag,
            "overlap": self.overlap,
            "move_at_most": settings.move_at_most,
            "record": self.record is not False,
            "replay": self.replay is not None,
            **self.facts.words,
            **({} if network is None else {"network": network}),
            **({"environment": list(settings.environment)} if settings.environment else {}),
        }

    def arguments(self, loop: str) -> tuple[int, str]:
        """Return the arguments of a loop as a hash, which all ranks compare, and as text."""
        listed = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        words = f"{loop}, {listed}"
        return zlib.crc32(words.encode()), words


def options_of(agreement: Agreement, arguments: dict[str, Any], kind: str) -> Options:
    """Check the arguments of a `kind`, "Balancer" or "Advisor"; the environment may override them.

    Only for a Balancer, the strategy "auto" may use a distributed one.  For an Advisor, the clock
    "auto" is "mpi", if that works.
    """
    lag = arguments["lag"]
    if lag != math.inf:
        lag = checks.whole("lag", lag, 0, "a number of iterations or inf", below=2**20)
    arguments, overrides = overridden(arguments)
    experience, transport = arguments["experience"], agreement.transport
    if experience is not None:
        experience = Experience(experience, kind, transport.rank, transport.size)
    network, strategy = arguments["network"], find(arguments["strategy"], auto=True)
    if network is not None and network != "measure":
        network = Links.of(network, agreement.transport.size)
        strategy = with_network(strategy, network.network)
    overlap = arguments.get("overlap", False)
    if not isinstance(overlap, bool) and overlap != "auto":
        raise DomainError(f"overlap is {overlap!r}: expected True, False or 'auto'")
    if lag and overlap is True:
        raise DomainError(f"overlap is True with lag={lag}: expected lag=0")
    own = overlap is True and (transport.is_virtual or transport.size == 1)
    overlap = overlap if (transport.overlaps or own) and not lag else False
    most = checks.positive("move_at_most", arguments.get("move_at_most", 1.0))
    checked = settings(
        strategy,
        move_at_most=most if overlap else 0.0,
        beside=bool(overlap),
        every=arguments["every"],
        trigger=arguments["trigger"],
        lag=lag,
        gives_up=arguments["pause_if_useless"],
        learn_speeds=learns(arguments["learn_speeds"], arguments["speed"]),
        seed=checks.integer("seed", arguments["seed"]),
        environment=overrides,
        distributed=kind == "Balancer",
    )
    return Options(
        settings=checked,
        lag=lag,
        network=network,
        facts=RankFacts(agreement, **{name: arguments[name] for name in EXPECTED}),
        load=arguments.get("load"),
        replay=arguments.get("replay"),
        overlap=overlap,
        experience=experience,
        clock=_clock(arguments["clock"], agreement, measures=kind == "Advisor"),
        **{name: arguments[name] for name in ("mode", "record")},
    )


def _clock(name: Any, agreement: Agreement, measures: bool) -> Any:
    """Check that the clock "mpi" works, if asked for; with `measures`, prefer it for "auto"."""
    if name not in ("auto", "mpi"):
        return name
    sees = _core.mpi_clock()
    if name == "auto":
        return "mpi" if sees and measures else "auto"
    if sees is None:
        raise MissingPartError(
            "clock is 'mpi', which needs a library that sees MPI calls: start the program by `pylb "
            "run -- mpiexec ...` (not for virtual ranks)"
        )
    if not sees and agreement.transport.size > 1:
        raise StateError(
            "clock is 'mpi', but its library sees no MPI calls: expected that mpi4py loads MPI as "
            "a shared library, after this library, and that no other tool is loaded before it"
        )
    return name


def checked_count(n: Any, lag: float) -> int:
    """Check the number of iterations of `iterate`, and return it."""
    count = checks.whole("n", n, 0, "a number of iterations")
    if math.isinf(lag):
        raise DomainError(
            "iterate() with lag=inf: a rank that waits for a message of the program might wait "
            "forever; expected a finite lag, or begin() and at_sync(key)"
        )
    return count


def loop_is_open(how_to_end: str = "close() of the result of iterate()") -> StateError:
    """Return the error for a second loop within a loop."""
    return StateError(
        f"a loop is under way: expected its end first (after an error, {how_to_end} ends it)"
    )


def no_messages(name: str, lag: float) -> StateError:
    """Return the error for a call that needs messages if the Balancer has a lag."""
    return StateError(
        f"{name}() with lag={lag}: expected lag=0; with a lag no messages are delivered"
    )
