"""Recorded runs as they would have been: replay, best schedules, the protocol simulated."""

from pylb.replay.generated import GeneratedRun, Imbalance
from pylb.replay.optima import Optimum
from pylb.replay.protocol import ProtocolDecision, ProtocolRun, protocol_params, simulate_protocol
from pylb.replay.replayed import Replay, replay
from pylb.replay.run_record import RunRecord
from pylb.replay.schedule import optimum
from pylb.replay.synthetic import hotspot
from pylb.replay.trace import Trace

__all__ = [
    "GeneratedRun",
    "Imbalance",
    "Optimum",
    "ProtocolDecision",
    "ProtocolRun",
    "Replay",
    "RunRecord",
    "Trace",
    "hotspot",
    "optimum",
    "protocol_params",
    "replay",
    "simulate_protocol",
]
