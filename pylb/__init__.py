"""pylb: dynamic load balancing for iterative parallel programs.

The same C core decides under mpiexec, in a replay of a recorded run and in a simulation.  Here the
public names are imported from the folders of pylb, which the documentation calls rooms.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pylb import errors
from pylb._version import __version__
from pylb.comm import Directory, Found, Pending, Plan, migrate, plan_between
from pylb.decide import Alternative, Choice, Cycle, History, Receipt, Selector, Trigger, triggers
from pylb.measure import Evaluation, Monitor, evaluate
from pylb.model import Edges, Machine, Metrics, Multicasts, Snapshot, SpeedModels
from pylb.partitioning import (
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
from pylb.placing import Placement, Strategy, Traffic, place, strategies, strategy, traffic
from pylb.replaying import (
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
    Advice,
    Advisor,
    AtSync,
    Balancer,
    Division,
    IterationMetrics,
    Report,
    RowPartition,
    TilePartition,
    demo,
)
from pylb.virtual import VirtualCluster, VirtualComm

if TYPE_CHECKING:
    from pylb.show import plots
    from pylb.show.explorer import explore
    from pylb.show.report import report
    from pylb.prediction import (
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
    "Advice",
    "Advisor",
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
    "IterationMetrics",
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
    "get_include",
    "get_library",
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


# These modules, and these names from modules, are imported on first use.
_MODULES = {"lab": "pylb.lab", "plots": "pylb.show.plots", "whatif": "pylb.prediction"}
_NAMES = {
    "explore": "pylb.show.explorer",
    "get_include": "pylb.lib",
    "get_library": "pylb.lib",
    "report": "pylb.show.report",
    "CriticalPath": "pylb.prediction",
    "Prediction": "pylb.prediction",
    "Procedures": "pylb.prediction",
    "Recording": "pylb.prediction",
    "Suggestion": "pylb.prediction",
    "critical_path": "pylb.prediction",
    "procedure": "pylb.prediction",
    "procedures": "pylb.prediction",
    "suggest": "pylb.prediction",
}
_CALLED = ("partition", "place", "replay", "whatif")


class _Room(ModuleType):
    """A folder of pylb that can be called like its main function, e.g. `pylb.place(...)`."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        function: Callable[..., Any] = vars(self)[self.__name__.rpartition(".")[2]]
        return function

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.__wrapped__.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


class _Package(ModuleType):
    """The module pylb, which makes the folders in `_CALLED` callable when they are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLED and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


_package = sys.modules[__name__]
_package.__class__ = _Package
for _name in ("partition", "place", "replay"):
    setattr(_package, _name, sys.modules[f"{__name__}.{_name}"])

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name not in _NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_NAMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_MODULES})
