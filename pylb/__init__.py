"""pylb: dynamic load balancing for iterative parallel programs.

Measure, decide, place, move: the same C core decides under mpiexec, in a replay of a recorded run
and in a simulation.
"""

from pylb import demo, errors, plots
from pylb._version import __version__
from pylb.coloring import Coloring, color
from pylb.evaluation import Evaluation, evaluate
from pylb.events import Recording, procedure
from pylb.machine.machine import Machine
from pylb.machine.models import SpeedModels
from pylb.machine.monitor import Monitor
from pylb.machine.rows import Division, RowPartition
from pylb.machine.tiles import TilePartition
from pylb.metrics import Metrics
from pylb.move import Directory, Found, Pending, Plan, migrate, plan_between
from pylb.optimum import GeneratedRun, Imbalance, Optimum, optimum
from pylb.ordering import Ordering, order
from pylb.partition import Cuts, Moves, Partition, Quality, partition
from pylb.place import Placement, place
from pylb.procedures import CriticalPath, Procedures, critical_path, procedures
from pylb.receipts import Alternative, History, Receipt
from pylb.replay import Replay, replay
from pylb.runtime import AtSync, Balancer, Iterations, Report
from pylb.selection import Choice, Selector
from pylb.show.explorer import explore
from pylb.show.report import report
from pylb.snapshot import Edges, Multicasts, Snapshot
from pylb.strategies import Strategy, strategies, strategy
from pylb.suggest import Suggestion, suggest
from pylb.trace import RunRecord, Trace
from pylb.traffic import Traffic, traffic
from pylb.triggers import Cycle, Trigger, triggers
from pylb.virtual import VirtualCluster, VirtualComm
from pylb.whatif import Prediction, whatif

__all__ = [
    "Alternative",
    "AtSync",
    "Balancer",
    "Choice",
    "Coloring",
    "CriticalPath",
    "Cuts",
    "Cycle",
    "Directory",
    "Division",
    "Edges",
    "Evaluation",
    "Found",
    "GeneratedRun",
    "History",
    "Imbalance",
    "Iterations",
    "Machine",
    "Metrics",
    "Monitor",
    "Moves",
    "Multicasts",
    "Optimum",
    "Ordering",
    "Partition",
    "Pending",
    "Placement",
    "Plan",
    "Prediction",
    "Procedures",
    "Quality",
    "Receipt",
    "Recording",
    "Replay",
    "Report",
    "RowPartition",
    "RunRecord",
    "Selector",
    "Snapshot",
    "SpeedModels",
    "Strategy",
    "Suggestion",
    "TilePartition",
    "Trace",
    "Traffic",
    "Trigger",
    "VirtualCluster",
    "VirtualComm",
    "__version__",
    "color",
    "critical_path",
    "demo",
    "errors",
    "evaluate",
    "explore",
    "migrate",
    "optimum",
    "order",
    "partition",
    "place",
    "plan_between",
    "plots",
    "procedure",
    "procedures",
    "replay",
    "report",
    "strategies",
    "strategy",
    "suggest",
    "traffic",
    "triggers",
    "whatif",
]
