"""The machine that a program runs on: what a message costs, and how far it goes."""

from pylb.machine.network import Network, measure_network
from pylb.machine.topology import Hops, Mapping, Torus, Tree, hops, map_ranks

__all__ = ["Hops", "Mapping", "Network", "Torus", "Tree", "hops", "map_ranks", "measure_network"]
