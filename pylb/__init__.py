"""pylb: dynamic load balancing for iterative parallel programs.

Measure, decide, place, move: the same C core decides under mpiexec, in a replay of a recorded run
and in a simulation.  What is public is listed here, room by room; each room's docstring says what
comes in and what goes out.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from pylb import errors
from pylb._version import __version__
from pylb.comm import Directory, Found, Pending, Plan, migrate, plan_between
from pylb.decide import Alternative, Choice, Cycle, History, Receipt, Selector, Trigger, triggers
from pylb.measure import Evaluation, Monitor, evaluate
from pylb.model import Edges, Machine, Metrics, Multicasts, Snapshot, SpeedModels
from pylb.partition import (
    Coloring,
    Cuts,
    Moves,
    Ordering,
    Partition,
    Quality,
    color,
    order,
    partition,
)
from pylb.place import Placement, Strategy, Traffic, place, strategies, strategy, traffic
from pylb.replay import (
    GeneratedRun,
    Imbalance,
    Optimum,
    Replay,
    RunRecord,
    Trace,
    optimum,
    replay,
)
from pylb.run import (
    AtSync,
    Balancer,
    Division,
    Iterations,
    Report,
    RowPartition,
    TilePartition,
    demo,
)
from pylb.show import explore, plots, report
from pylb.virtual import VirtualCluster, VirtualComm
from pylb.whatif import (
    CriticalPath,
    Prediction,
    Procedures,
    Recording,
    Suggestion,
    critical_path,
    procedure,
    procedures,
    suggest,
    whatif,
)

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


class _Room(ModuleType):
    """A room that is called like its main function: `pylb.place(...)`, `pylb.place.registry`."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


def _call_rooms(**functions: Callable[..., Any]) -> None:
    for name, function in functions.items():
        room = sys.modules[f"{__name__}.{name}"]
        room.__class__ = _Room
        room.__wrapped__ = function  # type: ignore[attr-defined]
        room.__doc__ = function.__doc__
        globals()[name] = room


_call_rooms(partition=partition, place=place, replay=replay, whatif=whatif)
