"""The machine a program runs on: what a message costs, how far it goes, how fast the ranks are."""

from pylb.machine.machine import Machine, Place
from pylb.machine.monitor import Monitor
from pylb.machine.network import Network, measure_network
from pylb.machine.speeds import SpeedLearner
from pylb.machine.tiles import rectangles
from pylb.machine.topology import Hops, Mapping, Torus, Tree, hops, map_ranks

__all__ = [
    "Hops",
    "Machine",
    "Mapping",
    "Monitor",
    "Network",
    "Place",
    "SpeedLearner",
    "Torus",
    "Tree",
    "hops",
    "map_ranks",
    "measure_network",
    "rectangles",
]
