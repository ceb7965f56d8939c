"""The loop of a program: its objects, messages and time steps."""

from pylb.run.at_sync import AtSync
from pylb.run.balancer import Balancer
from pylb.run.report import Iterations, Report
from pylb.run.rows import Division, RowPartition
from pylb.run.tiles import TilePartition, rectangles

__all__ = [
    "AtSync",
    "Balancer",
    "Division",
    "Iterations",
    "Report",
    "RowPartition",
    "TilePartition",
    "rectangles",
]
