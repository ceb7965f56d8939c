"""pylb: dynamic load balancing for iterative parallel programs.

The same C core decides under mpiexec, in a replay of a recorded run and in a simulation.  The
functions and classes that a program calls are here.  The classes of their results are in the
folders of pylb ("rooms") that make them, e.g. `pylb.decide.Receipt`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pylb import (
    comm,
    decide,
    errors,
    measure,
    model,
    partitioning,
    placing,
    replaying,
    run,
    virtual,
)
from pylb._version import __version__
from pylb.comm import Directory, Plan, migrate
from pylb.decide import Trigger, trigger, triggers
from pylb.measure import evaluate
from pylb.model import Machine, Snapshot, SpeedModels
from pylb.partitioning import partition
from pylb.placing import Packer, pack, place, register_strategy, strategies, strategy
from pylb.replaying import RunRecord, Trace, replay
from pylb.run import Advisor, AsyncBalancer, Balancer, RowPartition, Sharer, TilePartition, demo
from pylb.virtual import VirtualCluster

if TYPE_CHECKING:
    from pylb import adapters, eplb, lab, lib, prediction
    from pylb.prediction import Recording, procedure, whatif
    from pylb.run.mpi_engines import cluster
    from pylb.show import plots
    from pylb.show.explorer import explore, watch
    from pylb.show.page import report

__all__ = [
    "Advisor",
    "AsyncBalancer",
    "Balancer",
    "Directory",
    "Machine",
    "Packer",
    "Plan",
    "Recording",
    "RowPartition",
    "RunRecord",
    "Sharer",
    "Snapshot",
    "SpeedModels",
    "TilePartition",
    "Trace",
    "Trigger",
    "VirtualCluster",
    "__version__",
    "adapters",
    "cluster",
    "comm",
    "decide",
    "demo",
    "eplb",
    "errors",
    "evaluate",
    "explore",
    "lab",
    "lib",
    "measure",
    "migrate",
    "model",
    "pack",
    "partition",
    "partitioning",
    "place",
    "placing",
    "plots",
    "prediction",
    "procedure",
    "register_strategy",
    "replay",
    "replaying",
    "report",
    "run",
    "strategies",
    "strategy",
    "trigger",
    "triggers",
    "virtual",
    "watch",
    "whatif",
]

# Imported on first use, because few programs need them: modules, and names from modules.
_MODULES = {name: f"pylb.{name}" for name in ("adapters", "eplb", "lab", "lib", "prediction")}
_MODULES["plots"] = "pylb.show.plots"
_NAMES = dict.fromkeys(("Recording", "procedure", "whatif"), "pylb.prediction")
_NAMES |= dict.fromkeys(("explore", "watch"), "pylb.show.explorer")
_NAMES |= {"report": "pylb.show.page", "cluster": "pylb.run.mpi_engines"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(_MODULES[name])
        if name not in _NAMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_NAMES[name]), name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
