"""Environment variables that override the arguments of a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from typing import Any

from pylb.decide.trigger import make
from pylb.errors import DomainError, PylbError
from pylb.io.hdf5 import SUFFIXES
from pylb.place.registry import find

MODES, CLOCKS = ("on", "shadow", "off"), ("auto", "wall", "cpu")


def _one_of(name: str, allowed: tuple[str, ...]) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        if text not in allowed:
            raise DomainError(f"expected {' or '.join(allowed)}")
        return {name: text}

    return read


def _strategy(text: str, others: Container[str] = ()) -> dict[str, Any]:
    if text != "auto" and text not in others:
        find(text)
    return {"strategy": text, "strategy_params": None}


def _trigger(text: str) -> dict[str, Any]:
    if text.isdecimal():
        make(every=int(text))
        return {"every": int(text), "trigger": None, "trigger_params": None}
    make(trigger=text)
    return {"every": None, "trigger": text, "trigger_params": None}


def _record(text: str) -> dict[str, Any]:
    if text in ("0", "1"):
        return {"record": text == "1"}
    if not text.endswith(SUFFIXES):
        raise DomainError(f"expected a path that ends in {' or '.join(SUFFIXES)}, or 0 or 1")
    return {"record": text}


VARIABLES: dict[str, Callable[[str], dict[str, Any]]] = {
    "PYLB_STRATEGY": _strategy,
    "PYLB_TRIGGER": _trigger,
    "PYLB_MODE": _one_of("mode", MODES),
    "PYLB_RECORD": _record,
    "PYLB_CLOCK": _one_of("clock", CLOCKS),
}


def overridden(
    given: dict[str, Any], others: Container[str] = ()
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the arguments of a `Balancer` or `Advisor`, overridden by environment variables.

    Also returns these variables, each as ``name=value``.  A strategy or trigger from the
    environment has its default parameters.  others: names that are no strategies, but accepted as
    such.
    """
    words = dict(given)
    overrides = []
    readers = VARIABLES | {"PYLB_STRATEGY": lambda text: _strategy(text, others)}
    for name, read in readers.items():
        text = os.environ.get(name, "")
        if not text:
            continue
        try:
            found = read(text)
        except PylbError as why:
            raise type(why)(f"{name} is {text!r}: {why}") from None
        words |= found
        overrides.append(f"{name}={text}")
    return words, tuple(overrides)


def settings_in_force() -> dict[str, str]:
    """Return the environment variables that are set, by name."""
    return {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
