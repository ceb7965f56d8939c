"""Partitions of graphs, hypergraphs, points and trees: one call for every method.

In: on each rank, arrays that describe its own objects.  Out: a part for each object (`Partition`);
also colourings and orderings of graphs.  Imports `model` and `comm`.
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
