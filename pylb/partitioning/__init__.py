"""Partitions of graphs, hypergraphs, points and trees: one call for every method.

Input: on each rank, arrays that describe its own objects.  Output: a part for each object
(`Partition`), colourings and orderings of graphs.  Imports `model` and `comm`.
"""

from pylb.partitioning.call import partition
from pylb.partitioning.dgraph import Coloring, Ordering, color, order
from pylb.partitioning.libraries import METHODS
from pylb.partitioning.result import Cuts, Hits, Moves, Partition, Quality

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
