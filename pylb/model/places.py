"""Places of a machine: a tree, read from a string or JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pylb.console import clip
from pylb.errors import DomainError, FormatError

MOST = 1 << 20  # largest number of ranks of a machine that a string describes
LEVEL = re.compile(r"(?P<kind>[A-Za-z_]\w*):(?P<count>\d+)(?:\[(?P<facts>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Place:
    """A place of a machine, with the places below it.

    Attributes
    ----------
    kind : str
        "machine", "switch", "node", "socket", "rank", or any other word.
    name : str
    children : tuple of Place
        Empty: this place is a leaf, where a rank runs.
    speed : float
        Processing power of a leaf, in any unit (measured: 10⁹ steps per second).
    load : float
        Fraction of a leaf's core that other programs used while it was measured, 0 ... 1.
    bandwidth : float
        Communication power in bytes per second; NaN: not known, or no network.
    cores, sockets : int
        Numbers of cores and sockets of a node, from the system; 0: not known.

    Examples
    --------
    >>> rank = pylb.model.Place("rank", speed=2.0)
    >>> node = pylb.model.Place("node", "n1", (rank, rank))
    >>> pylb.Machine(pylb.model.Place("machine", children=(node, node))).n_ranks
    4
    """

    kind: str
    name: str = ""
    children: tuple[Place, ...] = ()
    speed: float = 1.0
    load: float = 0.0
    bandwidth: float = math.nan
    cores: int = 0
    sockets: int = 0

    def __post_init__(self) -> None:
        if not self.children and not (self.speed >= 0 and math.isfinite(self.speed)):
            raise DomainError(
                f"speed of {self.kind} {self.name} is {self.speed!r}: expected a finite number, 0 "
                "or more"
            )
        if not (math.isnan(self.bandwidth) or 0 <= self.bandwidth < math.inf):
            raise DomainError(
                f"bandwidth of {self.kind} {self.name} is {self.bandwidth!r}: expected a finite "
                "number, 0 or more, or nan"
            )

    def walk(self, parent: int = -1) -> Iterator[tuple[int, Place]]:
        """Yield this place and all below, parents first: (parent's index in this order, place)."""
        todo, number = [(parent, self)], parent
        while todo:
            above, place = todo.pop()
            number += 1
            yield above, place
            todo.extend((number, child) for child in reversed(place.children))


def parse(text: str) -> Place:
    """Return the root of the machine that a string describes; see `Machine.parse`."""
    if not isinstance(text, str):
        raise DomainError(
            f"text is {clip(repr(text), 60)}: expected a string, e.g. 'node:2 rank:4'"
        )
    levels = []
    for word in re.findall(r"[^\s\[]+(?:\[[^\]]*\])?", text):
        found = LEVEL.fullmatch(word)
        if found is None or not 1 <= int(found["count"][:8]) <= MOST:
            raise FormatError(
                f"{clip(word)!r} in {clip(text)!r}: expected kind:count or kind:count[properties], "
                f"with counts of 1 ... {MOST}"
            )
        levels.append((found["kind"], int(found["count"]), _facts(found["facts"] or "", word)))
    if math.prod(count for _, count, _ in levels) > MOST:
        raise FormatError(f"{clip(text)!r}: expected at most {MOST} ranks")
    if not levels:
        raise FormatError(f"{text!r} has no levels: expected levels, e.g. 'node:2 rank:4'")

    def below(depth: int, name: str, speed: float) -> tuple[Place, ...]:
        if depth == len(levels):
            return ()
        kind, count, facts = levels[depth]
        out = []
        for i in range(count):
            fast = speed * _cyclic(facts, "speed", i, 1.0)
            label = f"{name}.{i}" if name else str(i)
            children = below(depth + 1, label, fast)
            wide = _cyclic(facts, "bandwidth", i, math.nan)
            out.append(Place(kind, label, children, fast, bandwidth=wide))
        return tuple(out)

    return Place("machine", "", below(0, "", 1.0))


def _facts(text: str, word: str) -> dict[str, list[float]]:
    out = {}
    for fact in re.split(r"[;\s]+", text.strip()) if text.strip() else []:
        name, _, values = fact.partition("=")
        try:
            out[name] = [float(x) for x in values.split(",")]
        except ValueError:
            name = ""
        if name not in ("speed", "bandwidth"):
            raise FormatError(
                f"{fact!r} in {word!r}: expected speed=... or bandwidth=..., with numbers"
            )
    return out


def _cyclic(facts: dict[str, list[float]], name: str, i: int, default: float) -> float:
    values = facts.get(name, [default])
    return values[i % len(values)]


def to_json(place: Place) -> dict[str, Any]:
    """Return the place and all places below it as a dict for JSON."""
    out: dict[str, Any] = {"kind": place.kind, "name": place.name}
    if place.children:
        out["children"] = [to_json(child) for child in place.children]
    else:
        out |= {"speed": place.speed, "load": place.load}
    out |= {name: n for name in ("cores", "sockets") if (n := getattr(place, name))}
    return out if math.isnan(place.bandwidth) else out | {"bandwidth": place.bandwidth}


def from_json(found: dict[str, Any]) -> Place:
    children = tuple(from_json(child) for child in found.get("children", ()))
    numbers: dict[str, Any] = {
        k: float(found[k]) for k in ("speed", "load", "bandwidth") if k in found
    }
    counts = {k: int(found.get(k, 0)) for k in ("cores", "sockets")}
    return Place(str(found["kind"]), str(found.get("name", "")), children, **numbers, **counts)
