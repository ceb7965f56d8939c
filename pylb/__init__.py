"""pylb: dynamic load balancing for iterative parallel programs.

The same C core decides under mpiexec, in a replay of a recorded run and in a simulation.  What a
program calls is here; what these functions return is described in the folder of pylb (room) where
it is made, e.g. `pylb.decide.Receipt`.
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
from pylb.decide import Trigger, triggers
from pylb.measure import evaluate
from pylb.model import Machine, Snapshot, SpeedModels
from pylb.partitioning import partition
from pylb.placing import place, strategies, strategy
from pylb.replaying import RunRecord, Trace, replay
from pylb.run import Advisor, AsyncBalancer, Balancer, RowPartition, TilePartition, demo
from pylb.virtual import VirtualCluster

if TYPE_CHECKING:
    from pylb import lab, lib, prediction
    from pylb.prediction import Recording, procedure, whatif
    from pylb.show import plots
    from pylb.show.explorer import explore
    from pylb.show.report import report

__all__ = [
    "Advisor",
    "AsyncBalancer",
    "Balancer",
    "Directory",
    "Machine",
    "Plan",
    "Recording",
    "RowPartition",
    "RunRecord",
    "Snapshot",
    "SpeedModels",
    "TilePartition",
    "Trace",
    "Trigger",
    "VirtualCluster",
    "__version__",
    "comm",
    "decide",
    "demo",
    "errors",
    "evaluate",
    "explore",
    "lab",
    "lib",
    "measure",
    "migrate",
    "model",
    "partition",
    "partitioning",
    "place",
    "placing",
    "plots",
    "prediction",
    "procedure",
    "replay",
    "replaying",
    "report",
    "run",
    "strategies",
    "strategy",
    "triggers",
    "virtual",
    "whatif",
]

# Imported on first use, because few programs need them: name -> module, or module with the name.
_LATER = {
    **{"lab": "pylb.lab", "lib": "pylb.lib", "prediction": "pylb.prediction"},
    **{"plots": "pylb.show.plots", "explore": "pylb.show.explorer", "report": "pylb.show.report"},
    **dict.fromkeys(("Recording", "procedure", "whatif"), "pylb.prediction"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(_LATER[name])
        return module if name in ("lab", "lib", "plots", "prediction") else getattr(module, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
