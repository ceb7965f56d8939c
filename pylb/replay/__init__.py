"""Replay recorded runs with different decisions.

In: a recorded or generated run (`Trace`, `RunRecord`, `Imbalance`).  Out: `Replay`, the best
schedule of LB steps (`Optimum`).  Also simulates, on many ranks, an LB step and the protocol by
which ranks agree when to rebalance.  Imports `model`, `place`, `decide` and `io`.
"""

from pylb.replay.generated import GeneratedRun, Imbalance
from pylb.replay.optima import Optimum
from pylb.replay.protocol import ProtocolDecision, ProtocolRun, protocol_params, simulate_protocol
from pylb.replay.replayed import Replay, replay
from pylb.replay.run_record import RunRecord
from pylb.replay.schedule import optimum
from pylb.replay.step_cost import LogGP, SimulatedStep, StepPart, simulate_step
from pylb.replay.synthetic import hotspot
from pylb.replay.trace import Trace

__all__ = [
    "GeneratedRun",
    "Imbalance",
    "LogGP",
    "Optimum",
    "ProtocolDecision",
    "ProtocolRun",
    "Replay",
    "RunRecord",
    "SimulatedStep",
    "StepPart",
    "Trace",
    "hotspot",
    "optimum",
    "protocol_params",
    "replay",
    "simulate_protocol",
    "simulate_step",
]
