"""Shared by benchmarks: arguments, verdicts, times, pictures with two axes, results as JSON."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def figure_arguments(
    doc: str, figures: Iterable[str], *, quick: str, only: str = "one figure"
) -> argparse.Namespace:
    """Read the command line of a benchmark that reproduces figures.

    quick, only: the help texts of these options.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--only", choices=figures, help=only)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder for results (%(default)s)"
    )
    return parser.parse_args()


def save(path: str | Path, results: Any) -> None:
    """Write results as JSON, and make the folder if it does not exist."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(results, indent=1) + "\n")


def check(what: str, met: bool, verdicts: list[dict[str, Any]]) -> None:
    """Record and print whether a target was met."""
    print(f"{'met   ' if met else 'MISSED'} {what}")
    verdicts.append({"what": what, "met": bool(met)})


def least_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the shortest of several measured times of a call."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


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
