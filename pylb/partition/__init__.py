"""Partitions of graphs, hypergraphs, points and trees: one call for every method."""

from pylb.partition.call import partition
from pylb.partition.geometry import Cuts, Hits
from pylb.partition.methods import METHODS
from pylb.partition.quality import Quality
from pylb.partition.result import Moves, Partition

__all__ = ["METHODS", "Cuts", "Hits", "Moves", "Partition", "Quality", "partition"]
