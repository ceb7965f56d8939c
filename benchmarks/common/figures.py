"""What benchmarks share that reproduce figures: verdicts, pictures with two axes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def check(what: str, met: bool, verdicts: list[dict[str, Any]]) -> None:
    """Record and print whether a target was met."""
    print(f"{'met   ' if met else 'MISSED'} {what}")
    verdicts.append({"what": what, "met": bool(met)})


def picture(path: Path, draw: Callable[[list[Any]], None]) -> None:
    """Draw two axes side by side into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    draw(list(axes))
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"picture: {path}")
