"""Replay recorded runs with different decisions.

In: a recorded or generated run (`Trace`, `RunRecord`, `Imbalance`).  Out: `Replay`, the best
schedule of LB steps (`Optimum`).  Imports `model`, `place`, `decide` and `io`.
"""

from pylb.replay.generated import GeneratedRun, Imbalance
from pylb.replay.optima import Optimum
from pylb.replay.replayed import Replay, replay
from pylb.replay.run_record import RunRecord
from pylb.replay.schedule import optimum
from pylb.replay.synthetic import hotspot
from pylb.replay.trace import Trace

__all__ = [
    "GeneratedRun",
    "Imbalance",
    "Optimum",
    "Replay",
    "RunRecord",
    "Trace",
    "hotspot",
    "optimum",
    "replay",
]
