"""Values for JSON and text for people, from values and text that may hold anything."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

LONGEST = 300  # characters of a name that are shown


def plain(value: Any) -> Any:
    """`value` for JSON, which has no nan and no infinity: None."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def clip(text: object, longest: int = LONGEST) -> str:
    """The text, or its beginning where it is too long to be read anyway."""
    said = str(text)
    return said if len(said) <= longest else f"{said[: longest - 1]}…"


def digits(values: Any, n: int = 4) -> list[float]:
    """Floats with so many significant digits: what a picture needs, in a third of the bytes."""
    return [float(f"{x:.{n}g}") for x in np.asarray(values, np.float64).tolist()]


def script_json(data: Any) -> str:
    """JSON for the inside of a ``<script>`` element: nothing in it can end that element.

    Only ASCII, so that no text can be misread in another encoding either.
    """
    text = json.dumps(plain(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
