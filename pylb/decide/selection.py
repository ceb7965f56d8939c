"""Strategies from which ``"auto"`` selects one for each LB step (Menon 2012, section 3.7)."""

from __future__ import annotations

from pylb.placing.registry import AUTO, Strategy, strategies

PARAMS = AUTO.params
"""The parameters of the selection, with default, range, unit, and a help text with the source."""


def registered() -> list[Strategy]:
    """Return the strategies from which the selection chooses by default."""
    some = {"load", "communication"}
    return [s for s in strategies().values() if s.selectable and some & set(s.looks_at)]


def in_rounds() -> list[Strategy]:
    """Return the distributed strategies that "auto" uses if there are many objects.

    Strategies that need to know the nodes are not among them, and run only if the user names them.
    """
    return [s for s in strategies().values() if s.distributed and "nodes" not in s.looks_at]
