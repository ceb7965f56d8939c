"""The loop of a program: its objects, messages and time steps.

In: the objects of a program, and the times that they take.  Out: the same objects, moved between
ranks so that the load is balanced; messages; figures of each iteration; a receipt for each
decision.

A program whose objects pylb owns calls `Balancer`.  It has a loop (`loops`: all ranks together;
`lagged`: each at its own pace) and a mode (`modes`: measure only, rebalance, repeat a recorded run;
`shadow`), which share a `RunState`.  A program that owns its data calls `Advisor`, which has an
`advisor_loop` and the same modes, but for `advising`.  `rows` and `tiles` divide arrays instead of
objects.  This room may import all rooms but `lab` and `cli`.
"""

from pylb.run.advice import Advice
from pylb.run.advisor import Advisor
from pylb.run.at_sync import AtSync
from pylb.run.balancer import Balancer
from pylb.run.report import Iterations, Report
from pylb.run.rows import Division, RowPartition
from pylb.run.tiles import TilePartition, rectangles

__all__ = [
    "Advice",
    "Advisor",
    "AtSync",
    "Balancer",
    "Division",
    "Iterations",
    "Report",
    "RowPartition",
    "TilePartition",
    "rectangles",
]
