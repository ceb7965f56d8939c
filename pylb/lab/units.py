"""Quantities with their units, as a lab's file and command line have them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pylb.errors import DomainError


class Kind(NamedTuple):
    """A physical quantity: its units, each with its size, and an example for messages.

    Attributes
    ----------
    bare : bool
        A number without a unit is one of the size 1.
    """

    name: str
    units: Mapping[str, float]
    example: str
    bare: bool = True


TIME = Kind("time", {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}, "5ms")
PERIOD = Kind("time", {"us": 1e-6, "ms": 1e-3, "s": 1.0}, "5ms", bare=False)
POWER = Kind("power", {"W": 1.0}, "23W")
BYTES = Kind(
    "size",
    {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "64MiB",
)
RATE = Kind("bandwidth", {"kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}, "100Mbit/s", bare=False)


def quantity(kind: Kind, name: str, value: Any) -> float:
    """`value` in the kind's unit of size 1: ``quantity(TIME, "at", "5 ms")`` is 0.005.

    Raises
    ------
    DomainError
        It is no number with such a unit, is negative or not finite; the message begins with `name`.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]*)\s*", str(value))
    unit = found[2] if found else None
    size = 1.0 if unit == "" and kind.bare else kind.units.get(unit or "")
    if found is None or size is None:
        raise DomainError(
            f"{name} is {value!r}: expected a {kind.name} with its unit "
            f"({', '.join(kind.units)}), as {kind.example}"
        )
    return float(found[1]) * size


def shown_bytes(value: float) -> str:
    """``67108864`` as ``64 MiB``."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} B"


def shown_rate(value: float) -> str:
    """Bits in a second: ``1e8`` as ``100 Mbit/s``."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value / 1e3:.4g} kbit/s"
