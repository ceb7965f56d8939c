"""The strategies: from a snapshot to a placement.

Input: a `Snapshot` and a strategy.  Output: a rank for each object (`Placement`).
Imports `model` and `partitioning`.
"""

from pylb.placing.copies import Copies
from pylb.placing.packs import Pack, Packer, pack
from pylb.placing.placement import Placement, Traffic, place, traffic
from pylb.placing.registry import Strategy, register_strategy, strategies, strategy

__all__ = [
    "Copies",
    "Pack",
    "Packer",
    "Placement",
    "Strategy",
    "Traffic",
    "pack",
    "place",
    "register_strategy",
    "strategies",
    "strategy",
    "traffic",
]
