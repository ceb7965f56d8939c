"""Decide when to rebalance, and with which strategy.

In: times of iterations, costs, snapshots.  Out: decisions, each with a receipt: its reasons,
its cost and its gain.  Imports `model`, `partition` (libraries) and `place`.
"""

from pylb.decide import decider  # noqa: F401  registers "auto" for `pylb.place`
from pylb.decide.receipts import Alternative, History, Receipt
from pylb.decide.registry import Cycle, Trigger, trigger, triggers

__all__ = [
    "Alternative",
    "Cycle",
    "History",
    "Receipt",
    "Trigger",
    "trigger",
    "triggers",
]
