"""The time that pylb adds to the library that a strategy calls."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any

import pylb

from . import peers

LIBRARIES = {"MetisLB": "METIS", "ScotchLB": "Scotch"}
SECONDS, LEAST_TURNS, MOST_TURNS = 1.0, 3, 50  # seconds and repeats of one call


def in_turn(calls: Iterable[Callable[[], Any]]) -> list[float]:
    """Return the shortest processor time of each call, summed over threads; calls take turns."""
    calls = list(calls)
    best = [float("inf")] * len(calls)
    turns = 0
    while turns < LEAST_TURNS or (turns < MOST_TURNS and turns * min(best) < SECONDS):
        turns += 1
        for i, call in enumerate(calls):
            begin = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - begin)
    return best


def beside(name: str, snapshot: pylb.Snapshot) -> dict[str, float]:
    """Return the seconds of a strategy, of its library, and of the library's Python package."""
    calls = {
        name: functools.partial(pylb.place, snapshot, name),
        **peers.prepared(LIBRARIES[name], snapshot),
    }
    return dict(zip(calls, in_turn(calls.values()), strict=True))
