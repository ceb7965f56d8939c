"""The strategies: from a snapshot to a placement.

In: a `Snapshot`, the name of a strategy, parameters.  Out: a rank for each object (`Placement`).
Imports `model`, and the table of libraries of `partition`.
"""

from pylb.place.distributed import Traffic, traffic
from pylb.place.placement import Placement, place
from pylb.place.registry import Strategy, strategies, strategy

__all__ = ["Placement", "Strategy", "Traffic", "place", "strategies", "strategy", "traffic"]
