"""Partitions of graphs, hypergraphs, points and trees: one call for every method.

In: on each rank, arrays that describe its own objects.  Out: a part for each object (`Partition`);
also colourings and orderings of graphs.  Imports `model` and `comm`.
"""

from pylb.partition.call import partition
from pylb.partition.dgraph import Coloring, Ordering, color, order
from pylb.partition.geometry import Cuts, Hits
from pylb.partition.libraries import METHODS
from pylb.partition.result import Moves, Partition, Quality

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
