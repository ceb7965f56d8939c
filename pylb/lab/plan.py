"""The description of a lab: profiles of the ranks, hosts, network, and changes over time."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pylb import optional
from pylb.console import scaled
from pylb.errors import DomainError, nearest
from pylb.files import text, understood
from pylb.lab import caps, units
from pylb.lab.units import shortened
from pylb.model import checks

MOST_HOSTS = 200  # an address has one byte for the host
SWAP = 2**30  # default of `LabPlan.swap` in bytes
MOST_RANKS = 100_000  # a change may name only ranks below this number
MOST_BYTES = 2**20  # largest size of a lab's file
DEEP = re.compile(r"(?:[\[{][^\[{\]}]*){50}")  # finds 50 nested brackets


def yaml_of(path: str | os.PathLike[str]) -> Any:
    """Read a small YAML file; raise FormatError if it is not YAML."""
    yaml = optional.require("PyYAML")
    with understood(path, "YAML"):
        content = text(path, MOST_BYTES)
        if DEEP.search(content):  # PyYAML would take minutes until its error
            raise RecursionError
        return yaml.safe_load(content)


class Profile(NamedTuple):
    """The limits of a rank, or of each rank of a host.

    Examples
    --------
    >>> pylb.lab.Profile(share=0.5, memory=64 * 2**20)
    Profile(share=0.5, cap=None, memory=67108864)
    """

    #: Number of cores, e.g. 0.25.  None: an equal part of the machine, at most 1.
    share: float | None = None
    cap: float | None = None  #: Power cap in watts: the share is multiplied by `caps.speed`.
    #: Largest number of bytes in memory; what is above it is swapped out.
    memory: int | None = None

    def limit(self, node: int, equal: float, cores: int, period_us: int | None) -> Limit:
        """Convert to limits for the kernel; `equal` is the default share; `node`: `caps.speed`."""
        share = equal if self.share is None else checks.number("share", self.share)
        if self.cap is not None:
            share *= caps.speed(checks.number("cap", self.cap), node)
        if self.memory is not None and checks.whole("memory", self.memory, 0) < 2**20:
            raise DomainError(f"memory is {self.memory} B: expected at least 1 MiB")
        return limit_of(share, cores, period_us)._replace(memory=self.memory)


class Link(NamedTuple):
    """A host's connection.

    Examples
    --------
    >>> pylb.lab.Link(bandwidth=1e9, latency=1e-3)
    Link(bandwidth=1000000000.0, latency=0.001)
    """

    bandwidth: float | None = None  #: Bits per second in each direction; None: no limit.
    #: Seconds, one way, to another host with the same latency; None: nothing is added.
    latency: float | None = None

    def to(self, other: Link) -> Link:
        """Return the connection between two hosts with these links."""
        slowest = [b for b in (self.bandwidth, other.bandwidth) if b is not None]
        half = ((self.latency or 0.0) + (other.latency or 0.0)) / 2
        return Link(min(slowest) if slowest else None, half or None)

    def check(self, where: str) -> None:
        for name, value in zip(self._fields, self, strict=True):
            least = 0.0 if name == "latency" else 1.0
            if value is not None and checks.number(f"{where}{name}", value) < least:
                raise DomainError(f"{where}{name} is {value!r}: expected {least:g} or more")


class Host(NamedTuple):
    """A host: a network namespace with its own name.

    Examples
    --------
    >>> slow = pylb.lab.Link(bandwidth=50e6)  # bits per second
    >>> pylb.lab.Host("a", 2, pylb.lab.Profile(share=0.6), slow).ranks
    2
    """

    name: str
    ranks: int = 1
    profile: Profile = Profile()
    link: Link = Link()


class Change(NamedTuple):
    """New limits, from a given time on or from a moment that the program announces.

    Examples
    --------
    >>> half = pylb.lab.Change(at=20.0, ranks=(1,), values={"share": 0.25})
    >>> pylb.lab.LabPlan((pylb.lab.Profile(share=0.5),), changes=(half,)).changes[0].at
    20.0
    """

    at: float | None = None  #: Time in seconds after the command's start.
    #: Name of a moment, which the program announces by `pylb.lab.announce`.
    when: str | None = None
    ranks: tuple[int, ...] | None = None  #: The ranks that change; None means all.
    hosts: tuple[str, ...] | None = None  #: The hosts that change, if any; None means all.
    values: Mapping[str, Any] = {}  #: Fields of `Profile` and `Link`, and their new values.

    @property
    def begin(self) -> float:
        """`at`, or infinity for a change at a moment, whose time is not known in advance."""
        return math.inf if self.at is None else self.at

    def __str__(self) -> str:
        where = self.hosts or (self.ranks and [f"rank {r}" for r in self.ranks]) or ["all"]
        what = ", ".join(f"{name} {shown(name, value)}" for name, value in self.values.items())
        return f"{', '.join(where)}: {what}"


class LabPlan(NamedTuple):
    """The description of a lab.

    Examples
    --------
    >>> plan = pylb.lab.LabPlan((pylb.lab.Profile(share=0.5), pylb.lab.Profile(share=0.25)))
    >>> plan.limits()[1]
    Limit(quota_us=1250, period_us=5000, memory=None)
    """

    #: Profiles of the ranks.  The list repeats if there are more ranks.
    profiles: tuple[Profile, ...] = (Profile(),)
    hosts: tuple[Host, ...] = ()  #: With hosts, `profiles` has no effect.
    changes: tuple[Change, ...] = ()
    swap: int = SWAP  #: Bytes of swap for all ranks together, beyond their memory.
    #: Period of the quotas in microseconds: in each period, a rank gets share * period.
    period_us: int | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LabPlan:
        """Read a YAML file."""
        found = yaml_of(path)
        try:
            keys = [*PROFILE, "ranks", "hosts", "network", "changes", "swap", "period"]
            top = table_of("the file", found, keys)
            if "ranks" in top and "hosts" in top:
                said = "ranks and hosts are both given: expected one, or ranks in each host"
                raise DomainError(said)
            if "network" in top and "hosts" not in top:
                raise DomainError("network is given without hosts: expected hosts, too")
            network = table_of("network", top.get("network", {}), LINK)
            lists = {"ranks": top.get("ranks", [{}]), "changes": top.get("changes", [])}
            for name, some in lists.items():
                if not isinstance(some, list) or (name == "ranks" and not some):
                    raise DomainError(f"{name} is {shortened(some)}: expected a list with items")
            common = _fields("", top, Profile())
            plan = cls(
                tuple(
                    _fields(f"ranks[{i}].", table_of(f"ranks[{i}]", rank, PROFILE), common)
                    for i, rank in enumerate(lists["ranks"])
                ),
                _hosts(top.get("hosts", {}), common, _fields("network.", network, Link())),
                tuple(
                    _change(f"changes[{i}]", change) for i, change in enumerate(lists["changes"])
                ),
                round(units.quantity(units.BYTES, "swap", top.get("swap", SWAP))),
                units.microseconds("period", top["period"]) if "period" in top else None,
            )
            plan.check()
        except DomainError as why:
            raise DomainError(f"{os.fspath(path)}: {why}") from None
        return plan

    # ---- limits --------------------------------------------------------------------------------

    @property
    def needs_memory(self) -> bool:
        """Whether any rank has a memory limit at any time."""
        ever = [p.memory for p in self.nodes] + [c.values.get("memory") for c in self.changes]
        return any(memory is not None for memory in ever)

    @property
    def nodes(self) -> tuple[Profile, ...]:
        """The profiles of the hosts; without hosts, those of the ranks."""
        return tuple(host.profile for host in self.hosts) or self.profiles

    def limits(self, n_ranks: int | None = None, cores: int | None = None) -> list[Limit]:
        """Return the limits of the hosts; without hosts, those of the ranks, which repeat.

        `n_ranks` is the number of ranks of the command (default: the number of profiles), `cores`
        the number of cores of the machine.
        """
        cores = cores or os.cpu_count() or 1
        count = sum(host.ranks for host in self.hosts) or n_ranks or len(self.profiles)
        equal = min(1.0, cores / count)
        nodes = self.nodes
        if not self.hosts and any(profile.cap for profile in nodes):
            # Under a cap, equal profiles have different limits, so each rank needs its own limit,
            # up to the number of ranks after which the pairs of profile and node speed repeat.
            most = math.lcm(len(nodes), len(caps.NODES))
            nodes = nodes * -(-min(max(count, len(nodes)), most) // len(nodes))
        return [p.limit(i, equal, cores, self.period_us) for i, p in enumerate(nodes)]

    def expanded(self, n_ranks: int | None, changes: Iterable[Change] | None = None) -> LabPlan:
        """Return the plan with a profile for each rank if `changes`, or its own, name ranks."""
        named = [r + 1 for c in changes or self.changes for r in c.ranks or ()]
        if not named:
            return self
        n = max([n_ranks or 0, len(self.profiles), *named])
        return self._replace(
            profiles=tuple(self.profiles[r % len(self.profiles)] for r in range(n))
        )

    def after(self, change: Change) -> LabPlan:
        profile = {k: v for k, v in change.values.items() if k in PROFILE}
        link = {k: v for k, v in change.values.items() if k in LINK}
        profiles, hosts = list(self.profiles), list(self.hosts)
        for r, old in enumerate(profiles):
            if change.ranks is None or r in change.ranks:
                profiles[r] = old._replace(**profile)
        for i, host in enumerate(hosts):
            if change.hosts is None or host.name in change.hosts:
                new = (host.profile._replace(**profile), host.link._replace(**link))
                hosts[i] = host._replace(profile=new[0], link=new[1])
        return self._replace(profiles=tuple(profiles), hosts=tuple(hosts))

    def check(self) -> None:
        """Check all limits, at first and after each change, and that changes fit the lab."""
        checks.whole("swap", self.swap, 0, "bytes")
        if not self.nodes:
            raise DomainError("profiles is empty: expected a profile, or a share, for each rank")
        for i, host in enumerate(self.hosts):
            where, name = f"hosts.{host.name}", str(host.name)
            if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name) or name == "localhost":
                words = "a host name other than localhost: a-z, then at most 30 of a-z, 0-9 and -"
                raise DomainError(f"{where}: expected {words}")
            if name in [other.name for other in self.hosts[:i]]:
                raise DomainError(f"{where}: expected each name once")
            checks.whole(f"{where}.ranks", host.ranks, 1, "a number of ranks", 1001)
            host.link.check(f"{where}.")
        for i, change in enumerate(self.changes):
            self.check_change(f"changes[{i}]", change)
            if (change.at is None) == (change.when is None):
                raise DomainError(f"changes[{i}]: expected either at (a time) or when (a moment)")
            if change.at is not None:
                checks.seconds(f"changes[{i}].at", change.at)
        plan = self.expanded(None)
        plan.limits()
        for change in sorted(self.changes, key=lambda change: change.begin):
            plan = plan.after(change)
            plan.limits()

    def check_change(self, where: str, change: Change) -> None:
        """Check that a change fits the lab; a DomainError names what the lab does not have."""
        if not change.values:
            known = ", ".join((*PROFILE, *LINK))
            raise DomainError(f"{where} changes nothing: expected at least one of {known}")
        if not isinstance(change.when, str | None):
            raise DomainError(f"{where}.when is {change.when!r}: expected a moment's name")
        names = [host.name for host in self.hosts]
        for name in change.hosts or ():
            if not names:
                raise DomainError(f"{where}.hosts: this lab has no hosts; use `ranks`")
            if name not in names:
                raise DomainError(f"{where}.hosts: {_unknown(name, names)}")
        if change.ranks is not None:
            if names:
                raise DomainError(f"{where}.ranks: this lab has hosts; use `hosts`")
            for rank in checks.several(f"{where}.ranks", change.ranks, "ranks"):
                checks.whole(f"{where}.ranks", rank, 0, "ranks", MOST_RANKS)
        for key in change.values:
            if key not in (*PROFILE, *LINK):
                raise DomainError(f"{where}.values: {_unknown(key, (*PROFILE, *LINK))}")
            if key in LINK and not names:
                raise DomainError(f"{where}: this lab has no hosts and no network")
        given = {k: v for k, v in change.values.items() if k in LINK}
        Link()._replace(**given).check(f"{where}.")


# ---- the file ----------------------------------------------------------------------------------

PROFILE, LINK = Profile._fields, Link._fields
T = TypeVar("T", Profile, Link)
UNITS = {"cap": units.POWER, "memory": units.BYTES}
UNITS |= {"bandwidth": units.RATE, "latency": units.TIME}


def shown(name: str, value: Any) -> str:
    """Return a value of a profile or link as text with its unit."""
    if value is None:
        return "an equal part" if name == "share" else "no limit"
    if name == "memory":
        return units.shown_bytes(value)
    if name == "bandwidth":
        return scaled(value, ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")), 4)
    if name == "latency":
        return f"{1e3 * value:.3f} ms"
    return f"{value:g}" + (" W" if name == "cap" else "")


def _unknown(name: Any, known: Sequence[str]) -> str:
    near = nearest(str(name), known)
    return f"{shortened(name)} is unknown, expected {', '.join(known)}{near}"


def table_of(where: str, found: Any, keys: Sequence[str]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise DomainError(f"{where} is {shortened(found)}: expected keys {', '.join(keys)}")
    for key in found:
        if key not in keys:
            raise DomainError(f"{where}: key {_unknown(key, keys)}")
    return found


def value_of(where: str, key: str, found: Any) -> Any:
    """Read a field of a profile or link; null and `none` give None (see `Profile`, `Link`)."""
    if found is None or found == "none":
        return None
    if key == "share":
        try:
            return float(found)
        except (TypeError, ValueError, OverflowError):
            said = f"{where}share is {shortened(found)}: expected cores, a number such as 0.25"
            raise DomainError(said) from None
    value = units.quantity(UNITS[key], f"{where}{key}", found)
    return round(value) if key == "memory" else value


def values_of(key: str, text: str) -> list[Any]:
    """Read a list such as ``"0.25,0.5"``: values of a field, one for each rank."""
    return [value_of("", key, word) for word in text.split(",")]


def _fields(where: str, found: Mapping[str, Any], common: T) -> T:
    """Return the profile or link `common` with the values that the file gives."""
    known = [key for key in common._fields if key in found]
    return common._replace(**{key: value_of(where, key, found[key]) for key in known})


def _hosts(found: Any, common: Profile, network: Link) -> tuple[Host, ...]:
    if not isinstance(found, dict) or len(found) > MOST_HOSTS:
        what = f"at most {MOST_HOSTS} names with profiles"
        raise DomainError(f"hosts is {shortened(found)}: expected {what}")
    out = []
    for name, values in found.items():
        where = f"hosts.{name}"
        table = table_of(where, values or {}, [*PROFILE, *LINK, "ranks"])
        profile = _fields(f"{where}.", table, common)
        link = _fields(f"{where}.", table, network)
        out.append(Host(name, table.get("ranks", 1), profile, link))
    return tuple(out)


def _change(where: str, found: Any) -> Change:
    table = table_of(where, found, ["at", "when", "ranks", "hosts", *PROFILE, *LINK])
    values = {k: value_of(f"{where}.", k, table[k]) for k in (*PROFILE, *LINK) if k in table}
    at = units.quantity(units.TIME, f"{where}.at", table["at"]) if "at" in table else None
    ranks, hosts = (
        None if found is None else tuple(found if isinstance(found, list) else [found])
        for found in (table.get("ranks"), table.get("hosts"))
    )
    return Change(at, table.get("when"), ranks, hosts, values)


# ---- shares of a core in microseconds -----------------------------------------------------------


# The kernel's bounds, in microseconds: the smallest quota and period, and the largest period
# (kernel/sched/core.c: min_cfs_quota_period, max_cfs_quota_period).
LEAST = 1_000
MOST = 1_000_000

# Default period.  A rank that spins while it waits in MPI uses up its quota; then it is stopped
# until the period ends, and delays ranks that wait for it.  So the period is short.
PERIOD_US = 5_000
SLACK = 2**28  # bytes by which a group of version 1 may exceed its limit, see `Lab._keeping`


class Limit(NamedTuple):
    """The limits of a rank: `quota_us` microseconds of processor time in every `period_us`
    microseconds, and `memory` bytes (None: no limit).

    Examples
    --------
    >>> pylb.lab.Limit(quota_us=2500, period_us=5000).quota_us
    2500
    """

    quota_us: int
    period_us: int
    memory: int | None = None

    @property
    def share(self) -> float:
        """Number of cores: quota / period."""
        return self.quota_us / self.period_us


class Usage(NamedTuple):
    """The limit of a rank, and what it used.

    Examples
    --------
    >>> pylb.lab.Usage(0, pylb.lab.Limit(2500, 5000), 1.2, 400, 10, 0.02).cpu_seconds
    1.2
    """

    rank: int
    limit: Limit
    cpu_seconds: float  #: Processor time of the rank with all its threads and children.
    #: Number of periods in which the rank was ready to run, and number of periods in which it used
    #: up its quota.
    periods: int
    throttled: int
    throttled_seconds: float  #: Time for which the rank was stopped because its quota was used up.
    host: str = ""  #: The host where the rank ran; empty in a lab without hosts.
    #: Largest number of bytes that the rank had in memory; None if not counted.
    memory: int | None = None
    #: Number of pages from swap or a file for which the rank had to wait; None if not counted.
    paged: int | None = None
    killed: int = 0  #: Number of processes that the kernel killed because memory was full.


def limit_of(share: float, cores: int, period_us: int | None = None) -> Limit:
    """Return the limit for a share; the default period is 5 ms, or longer for a quota of 1 ms."""
    if period_us is not None and not LEAST <= period_us <= MOST:
        raise DomainError(
            f"period is {period_us / 1e3:.7g} ms: expected {LEAST / 1e3:g} ... {MOST / 1e3:g} ms"
        )
    if not LEAST / MOST <= share <= cores:
        raise DomainError(f"share is {share:g}: expected {LEAST / MOST:g} ... {cores} cores")
    shortest = LEAST / share
    period = period_us or max(PERIOD_US, min(MOST, round(shortest)))
    quota = round(share * period)
    if quota < LEAST:
        need = f"a share of {share:g} needs at least {shortest / 1e3:g} ms"
        raise DomainError(
            f"period is {period / 1e3:g} ms: {need}, for a quota of {LEAST / 1e3:g} ms"
        )
    return Limit(quota, period)
