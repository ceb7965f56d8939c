"""Partitions of graphs, hypergraphs, points and trees: one call for every method."""

from pylb.partition.call import partition
from pylb.partition.coloring import Coloring, color
from pylb.partition.geometry import Cuts, Hits
from pylb.partition.methods import METHODS
from pylb.partition.ordering import Ordering, order
from pylb.partition.quality import Quality
from pylb.partition.result import Moves, Partition

__all__ = [
    "METHODS",
    "Coloring",
    "Cuts",
    "Hits",
    "Moves",
    "Ordering",
    "Partition",
    "Quality",
    "color",
    "order",
    "partition",
]
