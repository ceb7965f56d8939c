"""From a snapshot to a placement: the strategies, and one call for all of them."""

from pylb.place.distributed import Traffic, traffic
from pylb.place.placement import Placement, place
from pylb.place.registry import Strategy, strategies, strategy

__all__ = ["Placement", "Strategy", "Traffic", "place", "strategies", "strategy", "traffic"]
