"""What a lab is: profiles of its ranks, hosts, the network between them, and what changes when."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pylb import optional
from pylb.errors import DomainError, FormatError, MissingFileError
from pylb.lab import caps, shares, units
from pylb.lab.shares import Limit

MOST_HOSTS = 200  # they have addresses in one network of 8 bits
LEAST_MEMORY = 2**20
SWAP = 2**30


class Profile(NamedTuple):
    """What a rank, or each rank of a host, is held to.

    Attributes
    ----------
    share : float, optional
        Cores; None: an equal part of the machine.
    cap : float, optional
        Watts: the share is multiplied by `caps.speed`.
    memory : int, optional
        Bytes; more of it pages to swap.
    """

    share: float | None = None
    cap: float | None = None
    memory: int | None = None

    def limit(self, node: int, equal: float, cores: int, period_us: int | None) -> Limit:
        """As the kernel's limits; `equal` is the share of a profile without one."""
        share = equal if self.share is None else self.share
        if self.cap is not None:
            share *= caps.speed(self.cap, node)
        if self.memory is not None and self.memory < LEAST_MEMORY:
            raise DomainError(
                f"memory is {self.memory} B: expected at least {units.shown_bytes(LEAST_MEMORY)}"
            )
        return shares.limits([share], cores, period_us)[0]._replace(memory=self.memory)


class Link(NamedTuple):
    """How a host is joined to the others: bits in a second each way, seconds one way, or None."""

    bandwidth: float | None = None
    latency: float | None = None

    def to(self, other: Link) -> Link:
        """The way from a host with this link to one with the other."""
        slowest = [b for b in (self.bandwidth, other.bandwidth) if b is not None]
        half = ((self.latency or 0.0) + (other.latency or 0.0)) / 2
        return Link(min(slowest) if slowest else None, half or None)


class Host(NamedTuple):
    """A host: a network namespace with a name of its own."""

    name: str
    ranks: int = 1
    profile: Profile = Profile()
    link: Link = Link()


class Change(NamedTuple):
    """What is other from a time, or a moment that the program names, onwards.

    Attributes
    ----------
    at : float, optional
        Seconds after the command's start.
    when : str, optional
        The moment that the program tells by `pylb.lab.announce`.
    ranks : tuple of int, optional
        Those that it is about; None: all.
    hosts : tuple of str, optional
        The same for a lab with hosts.
    values : dict
        Fields of `Profile` and `Link`, and their new values.
    """

    at: float | None = None
    when: str | None = None
    ranks: tuple[int, ...] | None = None
    hosts: tuple[str, ...] | None = None
    values: Mapping[str, Any] = {}

    def __str__(self) -> str:
        where = self.hosts or (self.ranks and [f"rank {r}" for r in self.ranks]) or ["all"]
        what = ", ".join(f"{name} {shown(name, value)}" for name, value in self.values.items())
        return f"{', '.join(where)}: {what}"


class Plan(NamedTuple):
    """A lab on paper.

    Attributes
    ----------
    profiles : tuple of Profile
        Of the ranks, cyclic.
    hosts : tuple of Host
        Empty: one machine; else `profiles` counts for nothing.
    changes : tuple of Change
    swap : int
        Bytes that the ranks together may have beyond their memory.
    period_us : int, optional
    """

    profiles: tuple[Profile, ...] = (Profile(),)
    hosts: tuple[Host, ...] = ()
    changes: tuple[Change, ...] = ()
    swap: int = SWAP
    period_us: int | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a YAML file.

        Raises
        ------
        MissingPartError
            PyYAML is absent.
        MissingFileError, FormatError, DomainError
            No such file, no YAML, or something in it is unknown or out of range.
        """
        yaml = optional.require("PyYAML")
        try:
            found = yaml.safe_load(Path(path).read_text())
        except OSError as why:
            raise MissingFileError(f"{os.fspath(path)}: {why.strerror}") from why
        except (yaml.YAMLError, UnicodeDecodeError) as why:
            raise FormatError(
                f"{os.fspath(path)} is no YAML: {' '.join(str(why).split())}"
            ) from why
        try:
            return cls.of(found)
        except DomainError as why:
            raise DomainError(f"{os.fspath(path)}: {why}") from None

    @classmethod
    def of(cls, found: Any) -> Plan:
        """From what a YAML file says."""
        top = _table("the file", found, [*PROFILE, "ranks", "hosts", "network", *TOP])
        common = _profile("", top)
        if "ranks" in top and "hosts" in top:
            raise DomainError("ranks and hosts: expected one of them; a host has profile and ranks")
        network = _link("network", _table("network", top.get("network", {}), LINK))
        if "network" in top and "hosts" not in top:
            raise DomainError("network without hosts: expected hosts, between which it is")
        ranks = _list("ranks", top.get("ranks", [{}]))
        plan = cls(
            tuple(
                _profile(f"ranks[{i}].", _table(f"ranks[{i}]", rank, PROFILE), common)
                for i, rank in enumerate(ranks)
            ),
            _hosts(top.get("hosts", {}), common, network),
            _changes(top.get("changes", [])),
            round(units.quantity(units.BYTES, "swap", top.get("swap", SWAP))),
            shares.parse_period(str(top["period"])) if "period" in top else None,
        )
        plan.check()
        return plan

    # ---- what follows --------------------------------------------------------------------------

    @property
    def needs_memory(self) -> bool:
        """Whether any rank has a limit of its memory at any time."""
        ever = [p.memory for p in self.nodes] + [c.values.get("memory") for c in self.changes]
        return any(memory is not None for memory in ever)

    @property
    def nodes(self) -> tuple[Profile, ...]:
        """The profiles, of hosts or of ranks."""
        return tuple(host.profile for host in self.hosts) or self.profiles

    def limits(self, n_ranks: int | None = None, cores: int | None = None) -> list[Limit]:
        """Of each host; or of each rank, cyclic.

        Parameters
        ----------
        n_ranks : int, optional
            Ranks that the command starts; None: as many as there are profiles, or hosts have.
        cores : int, optional
            Of the machine.
        """
        cores = cores or os.cpu_count() or 1
        count = sum(host.ranks for host in self.hosts) or n_ranks or len(self.profiles)
        equal = min(1.0, cores / count)
        nodes = self.nodes
        if not self.hosts and any(profile.cap for profile in nodes):
            # A cap is another one on each node: as many as the ranks, at most the table's.
            most = math.lcm(len(nodes), len(caps.NODES))
            nodes = nodes * -(-min(max(count, len(nodes)), most) // len(nodes))
        return [p.limit(i, equal, cores, self.period_us) for i, p in enumerate(nodes)]

    def expanded(self, n_ranks: int | None) -> Plan:
        """With a profile for each rank, where changes are about some of them."""
        named = [r + 1 for c in self.changes for r in c.ranks or ()]
        if not named:
            return self
        n = max([n_ranks or 0, len(self.profiles), *named])
        return self._replace(
            profiles=tuple(self.profiles[r % len(self.profiles)] for r in range(n))
        )

    def after(self, change: Change) -> Plan:
        """The plan from that moment on."""
        profile = {k: v for k, v in change.values.items() if k in PROFILE}
        link = {k: v for k, v in change.values.items() if k in LINK}
        return self._replace(
            profiles=tuple(
                old._replace(**profile) if change.ranks is None or r in change.ranks else old
                for r, old in enumerate(self.profiles)
            ),
            hosts=tuple(
                host._replace(
                    profile=host.profile._replace(**profile), link=host.link._replace(**link)
                )
                if change.hosts is None or host.name in change.hosts
                else host
                for host in self.hosts
            ),
        )

    def check(self) -> None:
        """All limits, from the beginning and after each change, are such as the kernel takes."""
        plan = self.expanded(None)
        plan.limits()
        names = [host.name for host in self.hosts]
        for i, change in enumerate(self.changes):
            for name in change.hosts or ():
                if name not in names:
                    raise DomainError(f"changes[{i}].hosts: {_unknown(name, names)}")
            if change.hosts is not None and not names:
                raise DomainError(f"changes[{i}].hosts: this lab has none; expected ranks")
            if change.ranks is not None and names:
                raise DomainError(f"changes[{i}].ranks: expected hosts, as this lab has them")
            if not names and any(key in change.values for key in LINK):
                raise DomainError(f"changes[{i}]: this lab has no hosts, and so no network")
            plan = plan.after(change)
            plan.limits()


# ---- the file ----------------------------------------------------------------------------------

PROFILE = {"share": None, "cap": units.POWER, "memory": units.BYTES}
LINK = {"bandwidth": units.RATE, "latency": units.TIME}
TOP = ("changes", "swap", "period")


def shown(name: str, value: Any) -> str:
    """A value of a profile or link, with its unit."""
    if value is None:
        return "no limit"
    if name == "memory":
        return units.shown_bytes(value)
    if name == "bandwidth":
        return units.shown_rate(value)
    if name == "latency":
        return f"{1e3 * value:.3f} ms"
    return f"{value:g}" + (" W" if name == "cap" else "")


def _unknown(name: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(known), 1)
    hint = f", perhaps {near[0]}?" if near else ""
    return f"{name!r} is unknown{hint} (known: {', '.join(known)})"


def _table(where: str, found: Any, keys: Iterable[str]) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise DomainError(f"{where} is {found!r}: expected keys with values ({', '.join(keys)})")
    for key in found:
        if key not in keys:
            raise DomainError(f"{where}: key {_unknown(key, keys)}")
    return found


def _list(where: str, found: Any) -> list[Any]:
    if not isinstance(found, list) or not found:
        raise DomainError(f"{where} is {found!r}: expected a list")
    return found


def _value(where: str, key: str, found: Any) -> Any:
    """A field of a profile or link; null, and `none`, take a limit away."""
    if found is None or found == "none":
        return None
    if key == "share":
        try:
            return float(found)
        except (TypeError, ValueError):
            raise DomainError(f"{where}share is {found!r}: expected cores, as 0.25") from None
    kind = {**PROFILE, **LINK}[key]
    assert kind is not None
    value = units.quantity(kind, f"{where}{key}", found)
    if value == 0 and key != "latency":
        raise DomainError(f"{where}{key} is {found!r}: expected more than 0")
    return round(value) if key == "memory" else value


def _profile(where: str, found: Mapping[str, Any], common: Profile | None = None) -> Profile:
    values = {key: _value(where, key, found[key]) for key in PROFILE if key in found}
    return (common or Profile())._replace(**values)


def _link(where: str, found: Mapping[str, Any], common: Link | None = None) -> Link:
    values = {key: _value(f"{where}.", key, found[key]) for key in LINK if key in found}
    return (common or Link())._replace(**values)


def _hosts(found: Any, common: Profile, network: Link) -> tuple[Host, ...]:
    if found == {}:
        return ()
    if not isinstance(found, dict) or len(found) > MOST_HOSTS:
        raise DomainError(f"hosts: expected names with their profiles, at most {MOST_HOSTS}")
    out = []
    for name, values in found.items():
        where = f"hosts.{name}"
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", str(name)) or name == "localhost":
            raise DomainError(f"{where}: expected a name of a-z, 0-9 and -, at most 31")
        table = _table(where, values or {}, [*PROFILE, *LINK, "ranks"])
        ranks = table.get("ranks", 1)
        if not isinstance(ranks, int) or isinstance(ranks, bool) or not 1 <= ranks <= 1000:
            raise DomainError(f"{where}.ranks is {ranks!r}: expected how many, 1 ... 1000")
        profile = _profile(f"{where}.", table, common)
        out.append(Host(name, ranks, profile, _link(where, table, network)))
    return tuple(out)


def _changes(found: Any) -> tuple[Change, ...]:
    listed = _list("changes", found) if found != [] else []
    return tuple(_change(f"changes[{i}]", change) for i, change in enumerate(listed))


def _change(where: str, found: Any) -> Change:
    table = _table(where, found, ["at", "when", "ranks", "hosts", *PROFILE, *LINK])
    if ("at" in table) == ("when" in table):
        raise DomainError(f"{where}: expected at (a time) or when (a moment's name), one of them")
    if "when" in table and not isinstance(table["when"], str):
        raise DomainError(f"{where}.when is {table['when']!r}: expected a moment's name")
    values = {k: _value(f"{where}.", k, table[k]) for k in (*PROFILE, *LINK) if k in table}
    if not values:
        raise DomainError(f"{where} changes nothing: expected {', '.join((*PROFILE, *LINK))}")
    return Change(
        units.quantity(units.TIME, f"{where}.at", table["at"]) if "at" in table else None,
        table.get("when"),
        _some(f"{where}.ranks", table.get("ranks"), int),
        _some(f"{where}.hosts", table.get("hosts"), str),
        values,
    )


def _some(where: str, found: Any, kind: type) -> Any:
    if found is None:
        return None
    listed: Sequence[Any] = found if isinstance(found, list) else [found]
    for one in listed:
        if type(one) is not kind or str(one).startswith("-"):
            what = "ranks, 0 or more" if kind is int else "names"
            raise DomainError(f"{where} is {found!r}: expected {what}")
    return tuple(listed)
