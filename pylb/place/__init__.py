"""From a snapshot to a placement: the strategies, and one call for all of them."""

from pylb.place.placement import Placement, place
from pylb.place.registry import Strategy, strategies, strategy
from pylb.place.traffic import Traffic, traffic

__all__ = ["Placement", "Strategy", "Traffic", "place", "strategies", "strategy", "traffic"]
