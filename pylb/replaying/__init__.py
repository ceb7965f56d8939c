"""Replay recorded runs with different decisions.

Input: a recorded or generated run (`Trace`, `RunRecord`, `Imbalance`).  Output: `Replay`, and the
best schedule of LB steps (`Optimum`).  Imports `model`, `placing`, `decide` and `io`.
"""

from pylb.replaying.generated import GeneratedRun, Imbalance, hotspot
from pylb.replaying.replayed import Optimum, Replay, optimum, replay
from pylb.replaying.trace import RunRecord, Trace

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
