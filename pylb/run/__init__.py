"""The loop of a program: its objects, messages and time steps.

In: the objects of a program, and the times that they take.  Out: the same objects, moved between
ranks so that the load is balanced; messages; metrics of each iteration; for each decision a receipt
(its reasons, its cost, and what it saved).

If pylb owns the objects, the program uses `Balancer`; if it owns its data, `Advisor`.  Both have a
loop (in `loops`: all ranks together, or with a lag each rank at its own pace) and a mode (in
`modes`: measure only, rebalance, repeat a recorded run, give advice, or compute what rebalancing
would save).  `lb_step` does one LB step, of objects or of cells; `records` stores the measurements.
`rows` divides arrays instead of objects.  This room (folder of the source) may import all rooms
except `whatif`, `lab`, `cli` and `lib`.

Terms of this room: a *cell* is a piece of the data of a program that uses an Advisor; the *steps*
of an Advisor correspond to the *iterations* of a Balancer; a loop with a *lag* does not wait for
the statistics of the most recent iterations.
"""

from pylb.run.advice import Advice, Migration
from pylb.run.advisor import Advisor
from pylb.run.balancer import AsyncBalancer, Balancer
from pylb.run.loops import AtSync
from pylb.run.report import IterationMetrics, Report
from pylb.run.rows import Division, RowPartition, TilePartition, rectangles
from pylb.run.share import Sharer

__all__ = [
    "Advice",
    "Advisor",
    "AsyncBalancer",
    "AtSync",
    "Balancer",
    "Division",
    "IterationMetrics",
    "Migration",
    "Report",
    "RowPartition",
    "Sharer",
    "TilePartition",
    "rectangles",
]
