"""The strategies: from a snapshot to a placement.

In: a `Snapshot`, the name of a strategy, parameters.  Out: a rank for each object (`Placement`).
Imports `model`, and the table of libraries of `partition`.
"""

from pylb.placing.distributed import Traffic, traffic
from pylb.placing.placement import Placement, place
from pylb.placing.registry import Strategy, strategies, strategy

__all__ = ["Placement", "Strategy", "Traffic", "place", "strategies", "strategy", "traffic"]
