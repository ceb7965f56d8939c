"""The clock of a phase: a function of the program, or events on a CUDA device."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

from pylb.console import clip
from pylb.errors import DomainError, MissingPartError, StateError


class PhaseClock(NamedTuple):
    """A clock that times the loop bodies of a phase."""

    mark: Callable[[], Any]  # called before and after a body
    between: Callable[[Any, Any], Any]  # seconds between two marks, at the end of the iteration


def _between(begin: Any, end: Any) -> float:
    try:
        return float(end) - float(begin)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(f"clock returned {clip(repr(end), 60)}: expected seconds") from None


# For each module: the name of the library, and a function that returns its number of devices, its
# constructor of events, and its function for the milliseconds between two events.
LIBRARIES: dict[str, tuple[str, Callable[[Any], tuple[int, Any, Any]]]] = {
    "cupy": (
        "CuPy",
        lambda m: (m.cuda.runtime.getDeviceCount(), m.cuda.Event, m.cuda.get_elapsed_time),
    ),
    "torch": (
        "PyTorch",
        lambda m: (
            *(m.cuda.is_available(), partial(m.cuda.Event, enable_timing=True)),
            m.cuda.Event.elapsed_time,
        ),
    ),
    "numba.cuda": ("Numba", lambda m: (m.is_available(), m.event, m.event_elapsed_time)),
}


@cache
def cuda_clock() -> PhaseClock:
    """Return a clock that records events on the present stream of a library.

    Those that the program has imported come first.  Numba always uses its default stream.
    """
    absent = []
    for module in sorted(LIBRARIES, key=lambda name: name not in sys.modules):
        name, of = LIBRARIES[module]
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            continue
        absent.append(name)
        with suppress(Exception):  # without a driver, each library raises an error of its own
            n_devices, new, elapsed = of(import_module(module))
            if n_devices:
                return PhaseClock(partial(_recorded, new), partial(_elapsed, elapsed))
    if absent:
        raise StateError(f"clock is 'cuda', but {' and '.join(absent)} found no CUDA device")
    raise MissingPartError("clock is 'cuda', but none of CuPy, PyTorch and Numba is installed")


def _recorded(new: Callable[[], Any]) -> Any:
    event = new()
    event.record()
    return event


def _elapsed(elapsed: Callable[[Any, Any], float], begin: Any, end: Any) -> float:
    end.synchronize()
    return 1e-3 * elapsed(begin, end)


def phase_clock(clock: Any) -> PhaseClock | None:
    """Convert the argument `clock` of `Balancer.phase`."""
    if clock is None or callable(clock):
        return clock and PhaseClock(clock, _between)
    if clock == "cuda":
        return cuda_clock()
    expected = "a function that returns seconds, or 'cuda'"
    raise DomainError(f"clock is {clip(repr(clock), 60)}: expected {expected}")
