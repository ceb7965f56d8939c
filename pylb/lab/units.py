"""Quantities with units, for a lab's file and command line."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from pylb.console import clip, scaled
from pylb.errors import DomainError

# a number, perhaps with an exponent of ten (YAML and Python write 0.00005 as 5e-05), and a unit
NUMBER = re.compile(r"\s*(\d{1,30}(?:\.\d+)?(?:[eE][-+]?\d{1,2})?)\s*([A-Za-z/]*)\s*")
SHORT = reprlib.Repr()
SHORT.maxlevel, SHORT.maxstring = 2, 60


class Quantity(NamedTuple):
    """A physical quantity, with the size of each of its units and an example for messages."""

    name: str
    units: Mapping[str, float]
    example: str
    bare: bool = True  # whether a number without a unit is accepted; its unit has size 1


TIME = Quantity("time", {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}, "5ms")
PERIOD = Quantity("time", {"us": 1e-6, "ms": 1e-3, "s": 1.0}, "5ms", bare=False)
POWER = Quantity("power", {"W": 1.0}, "23W")
BYTES = Quantity(
    "size",
    {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "64MiB",
)
RATE = Quantity("bandwidth", {"kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}, "100Mbit/s", bare=False)


def quantity(kind: Quantity, name: str, value: Any) -> float:
    """Convert `value` to the unit of size 1: ``quantity(TIME, "at", "5 ms")`` is 0.005."""
    words = str(value) if isinstance(value, str | float | int) else ""
    found = NUMBER.fullmatch(words)
    unit = found[2] if found else None
    size = 1.0 if unit == "" and kind.bare else kind.units.get(unit or "")
    if found is None or size is None:
        raise DomainError(
            f"{name} is {shortened(value)}: expected a {kind.name} with its unit "
            f"({', '.join(kind.units)}), e.g. {kind.example}"
        )
    return float(found[1]) * size


def shortened(value: Any) -> str:
    """Return a value from a lab's file as a short text for a message."""
    return clip(SHORT.repr(value), 100)


def microseconds(name: str, value: Any) -> int:
    """Convert a period such as ``"5ms"`` to microseconds: 5000."""
    return round(1e6 * quantity(PERIOD, name, str(value)))


def shown_bytes(value: float) -> str:
    """Return bytes as text: ``67108864`` is ``64 MiB``."""
    return scaled(value, ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")), 4)
