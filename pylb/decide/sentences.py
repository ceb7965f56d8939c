"""Numbers with their units, as sentences have them."""

from __future__ import annotations

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(x: float) -> str:
    """'12.3 ms'."""
    if x == 0:
        return "0 s"
    scale, unit = next(((s, u) for s, u in UNITS if abs(x) >= s), UNITS[-1])
    return f"{x / scale:.3g} {unit}"


def size(nbytes: float) -> str:
    """'1.5 MB'."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes:.0f} bytes"


def count(n: float, word: str, several: str = "") -> str:
    """'1 object', '2 objects'."""
    return f"{n:.0f} {word if n == 1 else several or word + 's'}"
